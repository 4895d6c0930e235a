"""YAML that is made to cost time and memory, or to raise what nobody expects, is an error of YAML."""

from __future__ import annotations

import pytest
import yaml

from mexma_cli import limited_yaml
from mexma_cli.limited_yaml import DEPTH, parsed_yaml

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [{','.join([f'*a{i}'] * 9)}]\n" for i in range(9)
)
MERGED = "a0: &a0 {k: v}\n" + "".join(
    f"a{i + 1}: &a{i + 1} {{<<: [{','.join([f'*a{i}'] * 9)}]}}\n" for i in range(9)
)


def test_plain_values_are_as_pyyaml_has_them() -> None:
    text = "a: &x {b: [1, 0x10, 1.5, true, null, '2', text]}\nc: {<<: *x, d: 9223372036854775807}\n"
    assert parsed_yaml(text) == yaml.safe_load(text)
    assert parsed_yaml("") is None


def test_a_date_is_text() -> None:
    assert parsed_yaml("[2020-01-01, 2020-13-45, 2001-12-14t21:59:43.10-99:99]") == [
        "2020-01-01",
        "2020-13-45",
        "2001-12-14t21:59:43.10-99:99",
    ]


def test_a_key_is_text_where_a_value_is_none() -> None:
    assert parsed_yaml("filter: {on: [x=2.5], off: [on], no: yes, true: off}") == {
        "filter": {"on": ["x=2.5"], "off": [True], "no": True, "true": False}
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "more than 50,000 values"),
        (MERGED, "more than 50,000 values"),
        ("a: &a [*a]", "more than 50,000 values"),
        ("a: &a\n  <<: *a", "more than 50,000 values"),
        ("a: " + "[" * 5000 + "]" * 5000, f"more than {DEPTH} sections within each other"),
        ("".join(" " * i + "a:\n" for i in range(900)), f"more than {DEPTH} sections within each other"),
        ("steps: " + "9" * 5000, "'9{40}' is not a possible int"),
        ("steps: 0x" + "f" * 4000, "is not a possible int"),
        ("steps: " + ":".join(["59"] * 3000), "is not a possible int"),
        ("name: !!timestamp 2020-13-45", "'2020-13-45' is not a possible timestamp"),
        ("steps: !!int ''", "'' is not a possible int"),
        ("name: !!bool maybe", "'maybe' is not a possible bool"),
        ("a: [b,\tc]", "cannot start any token"),  # libyaml takes it
        ("? [a, b]\n: 1", "unhashable key"),
    ],
)
def test_a_value_that_is_none_is_named(text: str, message: str) -> None:
    with pytest.raises(yaml.YAMLError, match=message):
        parsed_yaml(text)


def test_a_list_that_is_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_yaml, "VALUES", 5)
    assert parsed_yaml("[1, 2, 3, 4]") == [1, 2, 3, 4]
    with pytest.raises(yaml.YAMLError, match="more than 5 values"):
        parsed_yaml("[1, 2, 3, 4, 5]")
