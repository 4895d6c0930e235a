"""What is left behind when a loss is not a number any more."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.files import write_json_atomic


@dataclass(frozen=True)
class Batch:
    """A micro-batch: its process and its number in the step, both from 0, and its pairs' names."""

    process: int
    micro_batch: int
    pairs: list[str]


def not_a_number(
    what: str, step: int, batches: list[Batch], folder: Path, kept: Path, writes: bool
) -> MexmaError:
    """The message, once the pairs of `batches` are written to `folder`/not-a-number.json.

    Args:
        what: Such as "the loss is nan".
        step: From 1.
        batches: At least one.
        kept: Checkpoint of the state before the step.
        writes: Whether this process writes the file.
    """
    path = folder / "not-a-number.json"
    if writes:
        content = {"what": what, "step": step, "batches": [asdict(batch) for batch in batches]}
        write_json_atomic(path, content)
    first = batches[0]
    return MexmaError(
        f"{what} at step {step}, micro-batch {first.micro_batch + 1} of process {first.process + 1}; "
        f"the pairs begin with {', '.join(first.pairs[:3])}, all of them are in {path}",
        f"{kept} is the state before that step; look at the pairs, or start anew (--set run=FOLDER) with "
        "a lower trainer.learning_rate, or in bf16 or fp32",
    )
