"""The result of an evaluation: what every evaluation returns, and what `-o` of `mexma eval` keeps."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mexma_cli.errors import MexmaError

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder


@dataclass(frozen=True)
class Heading:
    """What is said of an evaluation: on the page of results, and in the table of docs/evaluation.md."""

    title: str
    numbers: str
    """What the numbers are, and in which unit."""
    needs: str
    """The data that it needs."""
    lower_is_better: bool = False


@dataclass(frozen=True)
class Result:
    """One measurement of one encoder."""

    task: str
    """The command's name: `xsim`."""
    encoder: dict[str, Any]
    """`name`, `fingerprint` and what else says how it embeds: see `describe`."""
    settings: dict[str, Any]
    """The data, and all options that change the numbers."""
    scores: dict[str, float]
    """The headline numbers, in the units of the papers' tables (percent as a rule)."""
    rows: list[dict[str, Any]]
    """What they are means of: one for each language, pair or data set, all with the same keys; the first
    keys with strings name the row. None: not measured."""
    benchmark: str | None = None
    """Under which the same task on the same data has published numbers in published.tsv."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Any, where: str = "the result") -> Result:
        """From what `to_json` gave.

        Raises:
            MexmaError: It is no result; `where` is the file's name for the message.
        """
        kinds = {"task": str, "encoder": dict, "settings": dict, "scores": dict, "rows": list}
        if not isinstance(content, dict):
            raise MexmaError(f"{where} is no result of `mexma eval`", "-o of `mexma eval` writes them")
        for key, kind in kinds.items():
            if not isinstance(content.get(key), kind):
                raise MexmaError(
                    f"{where} is no result of `mexma eval`: `{key}` is missing or is not what it should be",
                    "-o of `mexma eval` writes them",
                )
        if not isinstance(content["encoder"].get("name"), str):
            raise MexmaError(f"{where} is no result of `mexma eval`: its `encoder` has no name")
        if not all(isinstance(row, dict) and row for row in content["rows"]):
            raise MexmaError(f"{where} is no result of `mexma eval`: one of its `rows` is none")
        known = {field.name for field in fields(cls)}
        result = cls(**{key: value for key, value in content.items() if key in known})
        # Earlier versions wrote nan where there is no number.
        rows = [{key: None if _is_nan(value) else value for key, value in row.items()} for row in result.rows]
        scores = {key: value for key, value in result.scores.items() if not _is_nan(value)}
        return replace(result, scores=scores, rows=rows)

    @classmethod
    def read(cls, path: Path) -> Result:
        """From a file that `-o` wrote.

        Raises:
            MexmaError: Missing, not JSON, or no result.
        """
        from mexma_cli.files import read_json

        return cls.from_json(read_json(path), str(path))

    def write(self, path: Path) -> None:
        """To a file, whole, as JSON.

        Raises:
            MexmaError: The file cannot be written.
        """
        from mexma_cli.files import write_json_atomic

        write_json_atomic(path, self.to_json())


def describe(encoder: SentenceEncoder) -> dict[str, Any]:
    """`Result.encoder` of an encoder."""
    return {
        "name": encoder.name,
        "fingerprint": encoder.fingerprint,
        "pooling": encoder.pooling,
        "max_tokens": encoder.max_tokens,
        "prefix": encoder.prefix,
        "precision": encoder.precision_name,
        "dim": encoder.dim,
    }


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
