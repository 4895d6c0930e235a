"""One text embedded by several processes, on the GPUs of a machine or under torchrun.

Each makes the store of a part of the text, as with ``--shard``; the first one puts the parts together and
removes them. What was killed goes on part by part.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mexma_cli.errors import MexmaError
from mexma_cli.files import MANIFEST, workplace
from mexma_cli.stages.merge import check_output, merge_stores
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import EmbeddingSettings, Part, part_path

if TYPE_CHECKING:
    from torch.distributed import Store

    from mexma_cli.stages.embed.embed import EmbedProgress

    EmbedPart = Callable[[Part | None, EmbedProgress], EmbeddingStore]

log = logging.getLogger(__name__)

_GPU_THREADS = 4
_COUNTS = ("rows", "total", "tokens")
_SECONDS = 0.2
"""Between two looks at what the others have done."""


def gpus_of(wanted: int | None) -> list[str]:
    """The names of that many GPUs (0, None: all of them); refused where there are none, or not so many."""
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not found:
        raise MexmaError(
            "there is no GPU: torch finds no CUDA device on this machine",
            "`nvidia-smi` shows the machine's GPUs, `python -c 'import torch; print(torch.version.cuda)'` "
            "whether torch can use one; without --require-gpu and --gpus the CPU is used",
        )
    if wanted and wanted > found:
        raise MexmaError(f"--gpus {wanted}: this machine has {found}", "say --gpus all")
    return [f"cuda:{number}" for number in range(wanted or found)]


def embed_in_processes(
    arguments: Sequence[str], processes: int, output: str | Path, overwrite: bool = False
) -> int:
    """Run ``mexma ARGUMENTS`` in so many processes, each on a GPU or on a share of the processor, and return
    the exit code, as `launch`.

    Each calls `embed_as_rank`. If one fails the others are ended, and its message is given; what the parts
    have so far is kept, and the same call goes on there. `output` and `overwrite` are those of the arguments.
    """
    from mexma_cli.training.launch import launch

    if not _is_there(Path(output), overwrite):
        check_output(Path(output), overwrite)
    return launch(arguments, processes, 0, "the same command goes on where the parts are", _GPU_THREADS)


@dataclass(frozen=True)
class Rank:
    """The place of this process under torchrun: its number of so many, and on this machine."""

    number: int
    of: int
    local: int
    local_of: int

    def device(self, wanted: str) -> str:
        """The device of this process where `wanted` was asked for; ``auto`` and ``cuda`` leave a choice."""
        import torch

        if wanted == "cuda" or (wanted == "auto" and torch.cuda.is_available()):
            return f"cuda:{self.local}"
        return wanted


def torchrun_rank() -> Rank | None:
    """The place of this process as torchrun's environment says it; None if it is the only one."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    try:
        rank = Rank(*(int(os.environ[name]) for name in names))
    except (KeyError, ValueError):
        return None
    return rank if rank.of > 1 else None


@contextmanager
def errors_left() -> Iterator[None]:
    """Where `embed_in_processes` started this process, let it say why this process ends."""
    from mexma_cli.training.launch import launched, leave_error

    try:
        yield
    except (MexmaError, KeyboardInterrupt, SystemExit) as error:
        if not launched():
            raise
        if isinstance(error, MexmaError) and not isinstance(error, _OtherEnded):
            leave_error(error)
        raise SystemExit(error.code if isinstance(error, SystemExit) else 1) from None


def embed_as_rank(
    rank: Rank,
    embed: EmbedPart,
    output: str | Path,
    *,
    argv: Sequence[str] = (),
    overwrite: bool = False,
    on_progress: EmbedProgress | None = None,
) -> EmbeddingStore | None:
    """Embed this process's part; the first process waits for all and merges them: it returns the store, the
    others None. `on_progress` is called in the first one, with what all have done.

    `embed` takes a part, makes its store `part_path(output, part)`, on a disk that all processes see, and
    reports to the function that it is given. It is given None in place of a part where the output is
    finished, and then compares that with the text and the settings. Refused: another process ended early, or
    its part is not on this disk.
    """
    import torch
    from torch import distributed

    from mexma_cli.numerics.threads import cores
    from mexma_cli.training.distributed import meet, wait_long
    from mexma_cli.training.launch import launched

    output, share = Path(output), max(1, cores() // rank.local_of)
    if not launched():  # which has said how many
        torch.set_num_threads(share)
    os.environ.setdefault("RAYON_NUM_THREADS", str(share))  # the tokeniser's
    shared = meet()
    wait_long()  # a part may take days
    progress = SharedProgress(shared, rank, on_progress)
    there = [_is_there(output, overwrite)]
    distributed.broadcast_object_list(there)
    if there[0]:
        store = embed(None, progress) if rank.number == 0 else None
    else:
        check_output(output, overwrite)
        embed(Part(rank.number + 1, rank.of), progress)
        _wait_for_all(progress)
        store = _merged(output, rank.of, argv, overwrite) if rank.number == 0 else None
    if store is not None:
        _remove_parts(store, rank.of)
    distributed.destroy_process_group()  # not after an error: it would wait for those that are gone
    return store


class SharedProgress:
    """The progress of all processes, added up in a key-value store that they share; an `EmbedProgress`.
    Process 0 tells `on_progress` the sums, as soon as all processes have begun."""

    def __init__(self, store: Store, rank: Rank, on_progress: EmbedProgress | None) -> None:
        self._store, self._rank, self._on_progress = store, rank, on_progress
        self._told: tuple[int, ...] | None = None

    def __call__(self, rows: int, total: int, tokens: int) -> None:
        now, before = (rows, total, tokens), self._told or (0, 0, 0)
        try:
            counts = zip(_COUNTS, now, before, strict=True)
            sums = [self._store.add(name, new - old) for name, new, old in counts]
            begun = self._store.add("begun", self._told is None)
        except RuntimeError as error:
            raise _OtherEnded("the process that started this one has ended") from error
        self._told = now
        if self._rank.number == 0 and self._on_progress and begun == self._rank.of:
            self._on_progress(*sums)

    def again(self) -> None:
        """Tell what the other processes have done meanwhile."""
        if self._told:
            self(*self._told)


class _OtherEnded(MexmaError):
    """This process cannot go on since another one has ended, which is not its own fault."""


def _wait_for_all(progress: SharedProgress) -> None:
    from torch import distributed

    try:
        barrier = distributed.barrier(async_op=True)
        while not barrier.is_completed():
            progress.again()
            time.sleep(_SECONDS)
        barrier.wait()
    except RuntimeError as error:
        raise _OtherEnded(
            f"another process ended before its part was done ({str(error).splitlines()[0]})",
            "its own message says why; the same command goes on where the parts are",
        ) from error


def _is_there(output: Path, overwrite: bool) -> bool:
    return (output / MANIFEST).is_file() and not overwrite


def _merged(output: Path, of: int, argv: Sequence[str], overwrite: bool) -> EmbeddingStore:
    parts = [EmbeddingStore.open(part_path(output, Part(number, of))) for number in range(1, of + 1)]
    return merge_stores(parts, output, argv=argv, overwrite=overwrite)


def _remove_parts(store: EmbeddingStore, of: int) -> None:
    """Remove the parts that a store was merged of; other stores of such names stay."""
    wanted = EmbeddingSettings.of(store.manifest)
    for part in (Part(number, of) for number in range(1, of + 1)):
        path = part_path(store.path, part)
        if not (path / MANIFEST).is_file():
            continue
        settings = EmbeddingSettings.of(EmbeddingStore.open(path).manifest)
        if settings != wanted.model_copy(update={"part": part}):
            continue
        try:
            EmbeddingStore.check_replaceable(path, overwrite=True)
        except MexmaError as error:
            log.warning("%s, so it stays", error.message)
            continue
        with workplace(path) as going:  # it goes, and where this is killed, the next run sees to that
            path.rename(going)
