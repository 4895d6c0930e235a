"""What one run of mining reads, how it mines, and what it writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mexma_cli.stages.mine.documents import DocumentPairs
from mexma_cli.stages.mine.mine import MineSettings
from mexma_cli.text.names import label_of


@dataclass(frozen=True)
class MiningJob:
    """What is mined, how, and where to.

    Attributes:
        paths: Source and target, stores or texts.
        languages: FLORES-200 codes of both.
        files: Of the format; none for stdout.
        kind: The format's name.
        documents: Only sentences of documents that are paired here make pairs.
        neighbours: Where `mexma knn` kept them; they are not searched then.
        report: A file for the report of the run.
    """

    paths: tuple[Path, Path]
    languages: tuple[str, str]
    settings: MineSettings
    files: list[Path]
    kind: str
    documents: DocumentPairs | None = None
    neighbours: Path | None = None
    report: Path | None = None

    @property
    def names(self) -> tuple[str, str]:
        """What messages call source and target."""
        return label_of(self.paths[0]), label_of(self.paths[1])
