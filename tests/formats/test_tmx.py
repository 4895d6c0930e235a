from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.formats.bitext import MinedPair
from mexma_cli.formats.tmx import Tmx, bcp47

LANG = "{http://www.w3.org/XML/1998/namespace}lang"
LANGUAGES = ("fra_Latn", "zho_Hant")
sentence = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=20)


def document(pairs: list[MinedPair], with_ids: bool = False) -> tuple[ElementTree.Element, int]:
    chunks = list(Tmx().write(pairs, LANGUAGES, with_ids))
    text = "".join(text for (text,), _ in chunks)
    return ElementTree.fromstring(text.encode("utf-8")), sum(changed for _, changed in chunks)


@given(st.lists(st.tuples(sentence, sentence), max_size=4))
def test_every_sentence_comes_back_but_for_what_xml_forbids(pairs: list[tuple[str, str]]) -> None:
    root, changed = document([MinedPair(1.0, *pair) for pair in pairs])
    found = [tuple(seg.text or "" for seg in unit.iter("seg")) for unit in root.iter("tu")]

    def allowed(text: str) -> str:
        return "".join(c for c in text if c in "\t\r" or (c >= " " and c not in "\ufffe\uffff"))

    assert found == [(allowed(a), allowed(b)) for a, b in pairs]
    assert changed == sum(allowed(side) != side for pair in pairs for side in pair)


def test_header_and_units_are_tmx_14() -> None:
    pair = MinedPair(1.25, "a < b & c", 'd "e"', 3, 4, 1, 2, 0.5, 0.25, 0.75)
    root, changed = document([pair], with_ids=True)
    assert (root.tag, root.get("version"), changed) == ("tmx", "1.4", 0)
    header = root.find("header")
    assert header is not None
    needed = {"creationtool", "creationtoolversion", "segtype", "o-tmf", "adminlang", "srclang", "datatype"}
    assert set(header.keys()) == needed and header.get("srclang") == "fr"
    (unit,) = root.iter("tu")
    assert [child.tag for child in unit] == ["prop"] * 8 + ["tuv"] * 2
    properties = {prop.get("type"): float(prop.text or "nan") for prop in unit.iter("prop")}
    assert properties == {
        "x-score": 1.25, "x-source-line": 3, "x-target-line": 4, "x-source-rank": 1, "x-target-rank": 2,
        "x-cosine": 0.5, "x-source-mean": 0.25, "x-target-mean": 0.75,
    }  # fmt: skip
    assert [tuv.get(LANG) for tuv in unit.iter("tuv")] == ["fr", "zh-Hant"]
    (unit,) = document([pair])[0].iter("tu")
    assert [prop.get("type") for prop in unit.iter("prop")] == ["x-score"]


def test_no_pairs_are_a_document_too() -> None:
    root, _ = document([])
    assert root.find("body") is not None and not list(root.iter("tu"))


@pytest.mark.parametrize(
    ("code", "tag"),
    [
        ("eng_Latn", "en"),
        ("arb_Arab", "ar"),
        ("zho_Hans", "zh-Hans"),
        ("srp_Latn", "sr-Latn"),
        ("nob_Latn", "nb"),
        ("azb_Arab", "azb-Arab"),
        ("und", "und"),
    ],
)
def test_language_tags(code: str, tag: str) -> None:
    assert bcp47(code) == tag


def test_every_language_has_a_tag_of_its_own() -> None:
    import langcodes

    from mexma_cli.languages import codes, resolve

    tags = {code: bcp47(code) for code in codes()}
    assert len(set(tags.values())) == len(tags)
    assert all(langcodes.tag_is_valid(tag) and resolve(tag) == code for code, tag in tags.items())
