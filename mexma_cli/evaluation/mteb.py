"""Evaluation by the mteb package (an extra), which has the data, the tasks and the scores."""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import mteb
import numpy as np
from mteb.abstasks import AbsTask
from mteb.cache import ResultCache
from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation import mteb_clft
from mexma_cli.evaluation.embedder import Embedder
from mexma_cli.evaluation.mteb_tasks import Choice, Task
from mexma_cli.reporting.result import Result

log = logging.getLogger(__name__)
logging.getLogger("mteb").setLevel(logging.ERROR)  # it warns of newer versions of tasks, which are other data

MEASURES = {"PairClassification": "max_ap"}
"""Scores that the paper reports in place of a task's main score: AP by the best of the similarities."""
BATCH = 1024
"""Texts that mteb hands over together; all of them are sorted by length here."""


class MtebEncoder(AbsEncoder):
    """A `SentenceEncoder` behind mteb's EncoderProtocol.

    Prompts of tasks are not used: the encoder's own prefix is put before every text.
    """

    def __init__(self, encoder: SentenceEncoder, cache: Path | None = None) -> None:
        self.embed = Embedder(encoder, cache)
        # Results are kept by this name and revision: it says all that vectors depend on.
        revision = f"{encoder.fingerprint} {encoder.precision} {encoder.prefix}"
        name = Path(encoder.name).name or "encoder"
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": f"mexma/{name}",
                "revision": hashlib.sha256(revision.encode(errors="surrogatepass")).hexdigest()[:32],
                "embed_dim": encoder.dim,
                "max_tokens": encoder.max_tokens,
            }
        )

    def encode(self, inputs: Any, **_: Any) -> np.ndarray:
        """Vectors of all texts of a DataLoader of mteb's batches: float32 [N, dim]."""
        texts = [text for batch in inputs for text in batch["text"]]
        # Texts of mteb have line ends in them: their lengths keep "a\nb" apart from "a", "b".
        return self.embed(texts, key_parts=[repr([len(text) for text in texts])])


def get_tasks(wanted: Sequence[Task]) -> list[AbsTask]:
    """mteb's tasks, with the one subset that is wanted, and the test split where a task has several; what
    mteb does not have is refused."""
    tasks = []
    for task in wanted:
        try:
            if task.name.startswith(mteb_clft.PREFIX):
                found = mteb_clft.task_of(task.name)
            else:
                found = mteb.get_task(task.name, hf_subsets=[task.subset] if task.subset else None)
        except KeyError as error:
            reason = str(error.args[0]).removeprefix("KeyError: ")
            raise MexmaError(f"--tasks: mteb {mteb.__version__}: {reason}") from None
        except ValueError:
            raise MexmaError(
                f"--tasks: {task.name} of mteb {mteb.__version__} has no subset {task.subset!r}"
            ) from None
        splits = found.metadata.eval_splits
        tests = [split for split in splits if split.startswith("test")]
        tasks.append(found.filter_eval_splits(tests or list(splits)))
    return tasks


def evaluate(
    encoder: MtebEncoder,
    tasks: Iterable[AbsTask],
    chosen: Choice,
    asked: str,
    on_task: Callable[[str], object],
) -> Result:
    """Run tasks, as --tasks has `asked` for them and means `chosen`; `on_task` is called before every task
    with its name. One without data is left out with a warning, and so are the means that it is part of;
    refused if none has any."""
    cache = encoder.embed.folder
    rows: list[dict[str, Any]] = []
    failed: MexmaError | None = None
    for task in tasks:
        on_task(task.metadata.name)
        try:
            rows += measure(encoder, task, cache and cache / "mteb")
        except MexmaError as error:
            failed = error
            log.warning("%s", error.message)
    if failed and not rows:
        raise failed
    # STS22 has STS22:fr in it: a row that two of the tasks gave is one.
    rows = list({(row["task"], row["split"]): row for row in rows}.values())
    settings = {"tasks": asked, "mteb": mteb.__version__}
    return Result("mteb", encoder.embed.describe(), settings, _means(chosen, rows), rows, chosen.benchmark)


def _means(chosen: Choice, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The mean of all that was asked for, and the columns of a table of means; of whole ones only."""
    by_task: dict[str, list[float]] = {}
    for row in rows:
        for name in {row["task"], row["task"].partition(" (")[0]}:
            by_task.setdefault(name, []).append(row["score"])
    means = chosen.means or {"score": chosen.tasks}
    scores = {
        name: fmean(fmean(by_task[str(task)]) for task in members)
        for name, members in means.items()
        if all(str(task) in by_task for task in members)
    }
    if "score" not in means and len(scores) == len(means):
        scores = {"score": fmean(scores.values())} | scores
    return scores


def measure(encoder: MtebEncoder, task: AbsTask, results: Path | None) -> list[dict[str, Any]]:
    """Run one task: a row for each split and subset, in percent; refused if its data cannot be loaded. mteb
    keeps its `results` in a folder and finds them again; None: nowhere."""
    name = task.metadata.name
    kept = ResultCache(results) if results is not None else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same warnings once more
        before = kept and kept.load_task_result(name, encoder.mteb_model_meta, raise_if_not_found=False)
        if before is None or before.get_missing_evaluations(task):
            _load(task)
        found = mteb.evaluate(
            encoder,
            task,
            cache=kept,
            encode_kwargs={"batch_size": BATCH},
            show_progress_bar=False,
            co2_tracker=False,
        )
    key = MEASURES.get(task.metadata.type, "main_score")
    shown = task.metadata.main_score if key == "main_score" else key
    if task.data_loaded:
        task.unload_data()
    rows = []
    for split, scores in found.task_results[0].scores.items():
        for score in scores:
            subset, value = score["hf_subset"], 100 * round(float(score[key]), 6)
            full = name if subset == "default" else f"{name} ({subset})"
            rows.append({"task": full, "split": split, "measure": shown, "score": value})
    return rows


def _load(task: AbsTask) -> None:
    try:
        task.load_data()
    except MexmaError:
        raise
    except Exception as error:  # whatever the data's loader or the network raise
        reason = " ".join(str(error).split())[:300]
        raise MexmaError(
            f"the data of {task.metadata.name} cannot be loaded: {type(error).__name__}: {reason}",
            f"mteb fetches {task.metadata.dataset['path']} from huggingface.co and keeps it in HF_HOME: run "
            "this once where there is a connection, or copy that folder",
        ) from error
