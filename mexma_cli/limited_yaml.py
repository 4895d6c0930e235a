"""YAML within limits: of size, of depth, and of what aliases stand for; a date is text, and so is the key
`on`, `off`, `yes` or `no`, which are true and false elsewhere."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import yaml
from yaml.composer import Composer

SIZE, DEPTH, VALUES = 1 << 19, 50, 50_000
"""Bytes of a text that readers take; sections within sections; values, as often as aliases repeat them."""
_LARGEST = 2**63 - 1
_OTHERWISE = re.compile("[\t!?\x85\u2028\u2029\ufeff]|[-+0-9>|]#|^%", re.MULTILINE)
"""libyaml reads some texts with these that PyYAML refuses or reads otherwise."""
_TIMESTAMP, _BOOL, _TEXT = (f"tag:yaml.org,2002:{kind}" for kind in ("timestamp", "bool", "str"))


if TYPE_CHECKING:
    _Loads = yaml.SafeLoader
else:
    _Loads = object


class _Limited(_Loads):
    """In front of a loader of PyYAML: it keeps the limits, and raises nothing but `yaml.YAMLError`."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the class above
        letter: [found for found in resolvers if found[0] != _TIMESTAMP]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    unique = False
    """Whether a section's keys must differ; else the last of two values for a key is taken."""
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > DEPTH:
            raise _error(f"more than {DEPTH} sections within each other", self.peek_event().start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == _BOOL:
                key.tag = _TEXT
            if self.unique and isinstance(key, yaml.ScalarNode) and key.value != "<<":
                line = key.start_mark.line + 1
                if lines.setdefault(key.value, line) != line:
                    problem = f"`{key.value}` is there already, in line {lines[key.value]}"
                    raise _error(problem, key.start_mark)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError):  # `!!bool x`, `!!int ''`
            value = None
            bad = True
        else:
            bad = isinstance(value, int) and abs(value) > _LARGEST
        if bad:
            kind = node.tag.rpartition(":")[2]
            raise _error(f"{str(node.value)[:40]!r} is not a possible {kind}", node.start_mark)
        return value


class _Loader(_Limited, yaml.SafeLoader):
    """A loader of YAML whose messages say what is wrong in a text."""


if yaml.__with_libyaml__:

    class _FastLoader(_Limited, Composer, yaml.CSafeLoader):
        """libyaml parses, nine times as fast; the nodes, whose depth is limited, are made in Python."""

        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            Composer.__init__(self)


def parsed_yaml(text: str, unique: bool = False) -> Any:
    """The value of a text in YAML, as from `yaml.safe_load`; `unique`: refuse a key that is in its section
    twice. A `yaml.YAMLError` says that it is no YAML, one of the limits is passed, or a value is none of its
    kind, such as a number of 5,000 digits."""
    if yaml.__with_libyaml__ and not _OTHERWISE.search(text):
        with suppress(yaml.YAMLError, UnicodeEncodeError):
            return _loaded(_FastLoader(text), unique)
    return _loaded(_Loader(text), unique)


def _loaded(loader: _Limited, unique: bool) -> Any:
    loader.unique = unique
    node = loader.get_single_node()
    if node is None:
        return None
    if _values(node, {}) > VALUES:
        raise _error(f"more than {VALUES:,} values, those counted that aliases repeat", node.start_mark)
    return loader.construct_document(node)


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """A node and all below it, as often as aliases repeat them."""
    if id(node) not in known:
        known[id(node)] = VALUES + 1  # if it is met again below itself
        inner = node.value if isinstance(node, yaml.SequenceNode) else []
        if isinstance(node, yaml.MappingNode):
            inner = [part for pair in node.value for part in pair]
        known[id(node)] = min(VALUES, sum(_values(part, known) for part in inner)) + 1
    return known[id(node)]


def _error(problem: str, mark: yaml.Mark) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
