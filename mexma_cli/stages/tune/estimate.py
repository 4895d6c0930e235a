"""Two texts in, how many of their pairs are translations and the best threshold out, without a gold list."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from mexma_cli.classifier.precision import PairPrecision
from mexma_cli.errors import MexmaError
from mexma_cli.reporting.plot import draw_scores
from mexma_cli.settings.stages import EncoderChoice
from mexma_cli.stages.embed.inputs import Progress
from mexma_cli.stages.mine.files import mined
from mexma_cli.stages.mine.mine import Estimated, MiningJob
from mexma_cli.stages.tune.labels import Labels
from mexma_cli.stages.tune.tune import check_precision
from mexma_cli.store.embeddings import StorePair
from mexma_cli.text.amounts import counted
from mexma_cli.text.lines import read_lines

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

log = logging.getLogger(__name__)


@contextmanager
def estimated(
    job: MiningJob,
    encoder: EncoderChoice | SentenceEncoder,
    precision: float | None = None,
    labels: Path | None = None,
    ask: Callable[[Labels, PairPrecision], None] | None = None,
    on_embedding: Progress | None = None,
    on_progress: Progress | None = None,
) -> Iterator[tuple[Estimated, StorePair]]:
    """Mine what a job says, and find the threshold with the best F1, or the lowest one with a wanted
    precision (a fraction), by the probabilities of the pairs; and the stores, open. `labels` correct the
    estimate, and `ask` may add some to them. Refused, besides what `mined` refuses: files of pairs, no pair
    but copies, and a file of labels that is not there when nobody is asked."""
    check_precision(precision)
    if all(map(_holds_pairs, job.paths)):
        raise MexmaError(
            f"{job.names[0]} and {job.names[1]} hold pairs, by their tabs, and texts have a sentence a line",
            "--gold names a list of gold pairs: `mexma tune PAIRS --gold GOLD`",
        )
    if labels is not None and ask is None and not labels.exists():
        raise MexmaError(
            f"{labels}: no such file", "a page of `mexma review` saves labels; --label 50 asks for some"
        )
    job = replace(job, settings=job.settings.but(threshold="auto"))
    with mined(job, encoder, on_embedding, on_progress) as run:
        found = run.found.estimated
        if found is None:
            but = " but copies" if len(run.found) else ""
            raise MexmaError(f"no pair{but} was found, so there is no threshold")
        model = found.model
        if labels is not None:
            answers = Labels(labels, found.pairs, *run.stores)
            if ask is not None:
                ask(answers, model)
            counts = answers.counts
            said = counts["y"] + counts["n"]
            log.info("%s: %s right, %s wrong", counted(said, "label"), counts["y"], counts["n"])
            model = answers.corrected(model)
        yield replace(found, model=model, best=model.choose(precision)), run.stores


def _holds_pairs(path: Path) -> bool:
    first = list(islice(read_lines(path), 10)) if path.is_file() else []
    return bool(first) and all("\t" in line for line in first)


def draw_estimate(path: Path, model: PairPrecision, threshold: float, texts: Sequence[Path]) -> None:
    """Draw the scores of two texts' pairs, with how many are right at each, as estimated."""
    title = f"Scores of {texts[0].name} and {texts[1].name}"
    labels = "right, as estimated", "wrong, as estimated"
    draw_scores(path, model.scores, model.probabilities, threshold, title, labels)
