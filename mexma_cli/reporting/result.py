"""The result of an evaluation: what every evaluation returns, and what `-o` of `mexma eval` keeps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from mexma_cli.errors import MexmaError
from mexma_cli.files import read_json, write_json_atomic
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder


@dataclass(frozen=True)
class Heading:
    """The description of an evaluation: on the page of results, and in the table of docs/evaluation.md."""

    title: str
    numbers: str
    """The kind of numbers, and their unit."""
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
    """The numbers that the scores are means of: a row for each language, pair or data set, all with the same
    keys. The first keys, whose values are strings, name the row. None: not measured."""
    benchmark: str | None = None
    """The name of the same task on the same data in published.tsv; None: nothing is published."""
    made: dict[str, str] | None = None
    """When and with what: `date` (UTC), `mexma` (its version), `processor`. None: an older file."""

    def __repr__(self) -> str:
        first = "".join(f": {name} {score:.4g}" for name, score in [*self.scores.items()][:1])
        return f"Result({self.task} of {self.encoder['name']}{first}, {counted(len(self.rows), 'row')})"

    def to_json(self) -> dict[str, Any]:
        """The result as `json.dumps` takes it."""
        return asdict(self)

    @classmethod
    def read(cls, path: Path) -> Result:
        """Read a result from a file that `-o` wrote."""
        content = read_json(path)
        try:
            result = TypeAdapter(cls).validate_python(content)
        except ValidationError as error:
            key = next(iter(error.errors()[0]["loc"]), None)
            why = f": `{key}` is missing or is not what it should be" if isinstance(content, dict) else ""
            raise MexmaError(
                f"{path} is no result of `mexma eval`{why}", "-o of `mexma eval` writes them"
            ) from None
        if not isinstance(result.encoder.get("name"), str):
            raise MexmaError(f"{path} is no result of `mexma eval`: its `encoder` has no name")
        if not all(result.rows):
            raise MexmaError(f"{path} is no result of `mexma eval`: one of its `rows` is empty")
        return result

    def write(self, path: str | Path) -> None:
        """Write the result to a file, whole, as JSON."""
        write_json_atomic(Path(path), self.to_json())


def describe(encoder: SentenceEncoder) -> dict[str, Any]:
    """`Result.encoder` of an encoder."""
    return {
        "name": encoder.name,
        "fingerprint": encoder.fingerprint,
        "pooling": encoder.pooling,
        "max_tokens": encoder.max_tokens,
        "prefix": encoder.prefix,
        "precision": encoder.precision,
        "dim": encoder.dim,
    }
