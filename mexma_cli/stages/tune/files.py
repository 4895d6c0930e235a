"""Tuning from disk to disk: candidates and gold pairs in, the pairs above the threshold and a picture out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from mexma_cli.classifier.precision import PairPrecision
from mexma_cli.errors import MexmaError
from mexma_cli.files import together
from mexma_cli.formats.tsv import tsv_lines
from mexma_cli.languages import resolve
from mexma_cli.reporting.plot import draw_scores
from mexma_cli.stages.tune.tune import Tuned, tune
from mexma_cli.text.lines import label_of
from mexma_cli.text.writing import write_chunks


@dataclass(frozen=True)
class TuningFiles:
    """The files of a threshold; `{lang}` in their names stands for a language where there are several."""

    candidates: Path
    gold: Path
    source_ids: Path | None
    """With `target_ids`: the gold pairs are ids of these, not sentences."""
    target_ids: Path | None
    output: Path | None
    """For the pairs above the threshold."""
    plot: Path | None
    """For a picture of the scores."""

    @property
    def inputs(self) -> list[Path]:
        """The files that are read."""
        every = (self.candidates, self.gold, self.source_ids, self.target_ids)
        return [path for path in every if path is not None]

    def of(self, language: str) -> TuningFiles:
        """The files of one language, whose code, as the user wrote it, stands for `{lang}`."""
        paths = (getattr(self, field.name) for field in fields(self))
        return TuningFiles(*(path and Path(str(path).replace("{lang}", language)) for path in paths))

    def of_all(self, languages: Sequence[str]) -> dict[str, TuningFiles]:
        """The files of every language.

        Raises:
            MexmaError: An unknown language or one given twice, or a file that is missing for one of them.
        """
        known: dict[str, str] = {}
        for language in languages:
            code = resolve(language)
            if code in known:
                raise MexmaError(f"--languages: {known[code]} and {language} are the same language")
            known[code] = language
        found = {language: self.of(language) for language in languages}
        for language, files in found.items():
            for path in files.inputs:
                if not path.exists():
                    raise MexmaError(f"language {language}: there is no {path}")
        return found


def tune_files(files: TuningFiles, precision: float | None) -> Tuned:
    """Find the threshold, as `tune`, draw the picture and write the pairs above it, best first.

    Raises:
        MexmaError: As `tune`, or an output cannot be written.
    """
    found = tune(files.candidates, files.gold, files.source_ids, files.target_ids, precision)
    with together():
        if files.plot is not None:
            title = f"Scores of {label_of(files.candidates.name)}"
            draw_scores(files.plot, found.scores, found.is_gold, found.best.threshold, title)
        if files.output is not None:
            write_chunks([files.output], tsv_lines(found.kept()))
    return found


def draw_estimate(path: Path, model: PairPrecision, threshold: float, texts: Sequence[Path]) -> None:
    """Draw the scores of two texts' pairs, with how many are right at each, as estimated."""
    title = f"Scores of {texts[0].name} and {texts[1].name}"
    labels = "right, as estimated", "wrong, as estimated"
    draw_scores(path, model.scores, model.probabilities, threshold, title, labels)
