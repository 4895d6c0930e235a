"""One text embedded by several processes, on the devices of a machine or under torchrun.

Each makes the store of a part of the text, as with ``--shard``; the parts are put together and removed. What
was killed goes on part by part.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.files import MANIFEST
from mexma_cli.stages.merge.merge import merge_stores
from mexma_cli.store.embeddings import EmbeddingSettings, EmbeddingStore
from mexma_cli.store.layout import part_path, partial
from mexma_cli.store.merge import check_output

log = logging.getLogger(__name__)

Progress = Callable[[int, int, int], object]
"""Called with lines done, lines in all and tokens so far."""

_PIPE = "MEXMA_WORKER_PIPE"
"""Number of the file to which a worker writes its progress, a JSON list a line."""
_PARENTS = (
    "MEXMA_EMBED_GPUS",
    "MEXMA_EMBED_SHARD",
    "MEXMA_EMBED_DEVICE",
    "MEXMA_EMBED_OUTPUT",
    "MEXMA_VERBOSE",
)
"""What the environment may say to the first process and not to its workers."""
_GPU_THREADS = 4
_PATIENCE = 10  # seconds that a worker has to end
_LAST_LINES = 5


def embed_on_devices(
    devices: Sequence[str],
    arguments: Sequence[str],
    output: str | Path,
    *,
    argv: Sequence[str] = (),
    overwrite: bool = False,
    on_progress: Progress | None = None,
) -> EmbeddingStore:
    """Run ``mexma embed --shard i/n --device ...`` in a process a device, and merge what they make.

    If one fails the others are ended; what the parts have so far is kept, and the same call goes on there.

    Args:
        devices: ``cuda:0`` and so on, or several times ``cpu``.
        arguments: What follows ``mexma embed`` for a worker, without the options for the output, the part
            and the device, and without those that ask for several devices.
        output: The folder to be, ``NAME.emb``.
        argv: The command line, for the manifest.
        overwrite: Replace what is there; it has to be among the `arguments` too.

    Raises:
        MexmaError: A worker failed (its message is given), or the output is something else.
    """
    output, report = Path(output), on_progress or (lambda rows, total, tokens: None)
    if _is_there(output, overwrite):
        _run([_Worker(devices[0], arguments, output, None, 1)], report)  # it compares text and settings
        store = EmbeddingStore.open(output)
        log.info("%s is there already, of the same text and settings: nothing to do", output)
    else:
        check_output(output, overwrite)
        of = len(devices)
        _run(
            [
                _Worker(device, arguments, output, (number, of), of)
                for number, device in enumerate(devices, start=1)
            ],
            report,
        )
        store = _merged(output, of, argv, overwrite)
    _remove_parts(store, len(devices))
    return store


def worker_report() -> Progress | None:
    """Where a process that `embed_on_devices` started tells its progress; None in any other process.

    The function that is returned raises MexmaError when the process that started this one is gone.
    """
    number = os.environ.pop(_PIPE, None)
    if number is None:
        return None
    pipe = int(number)

    def report(rows: int, total: int, tokens: int) -> None:
        try:
            os.write(pipe, f"{json.dumps([rows, total, tokens])}\n".encode("ascii"))
        except BrokenPipeError:
            raise MexmaError("the process that started this one has ended") from None

    return report


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
    try:
        rank = Rank(
            *(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
        )
    except (KeyError, ValueError):
        return None
    return rank if rank.of > 1 else None


def embed_as_rank(
    rank: Rank,
    embed: Callable[[tuple[int, int] | None], EmbeddingStore],
    output: str | Path,
    *,
    argv: Sequence[str] = (),
    overwrite: bool = False,
) -> EmbeddingStore | None:
    """Embed this process's part; the first process waits for all and merges them.

    Args:
        embed: Makes the store of part i of n, ``part_path(output, i, n)``; given None, of the whole text,
            ``output``, which it is called for only where there is one: to compare text and settings.
        output: The folder to be, ``NAME.emb``, on a disk that all processes see.

    Returns:
        The store in process 0, None in the others.

    Raises:
        MexmaError: As `embed`; another process ended early, or its part is not on this disk.
    """
    import torch
    from torch import distributed

    output, share = Path(output), max(1, _cores() // rank.local_of)
    torch.set_num_threads(share)
    os.environ.setdefault("RAYON_NUM_THREADS", str(share))  # the tokeniser's
    distributed.init_process_group("gloo", timeout=timedelta(days=30))  # parts may take that long
    there = [_is_there(output, overwrite)]
    distributed.broadcast_object_list(there)
    if there[0]:
        store = embed(None) if rank.number == 0 else None
    else:
        check_output(output, overwrite)
        embed((rank.number + 1, rank.of))
        _wait_for_all()
        store = _merged(output, rank.of, argv, overwrite) if rank.number == 0 else None
    if store is not None:
        _remove_parts(store, rank.of)
    distributed.destroy_process_group()  # not after an error: it would wait for those that are gone
    return store


def _wait_for_all() -> None:
    from torch import distributed

    try:
        distributed.barrier()
    except RuntimeError as error:
        raise MexmaError(
            f"another process ended before its part was done ({str(error).splitlines()[0]})",
            "its own message says why; the same command goes on where the parts are",
        ) from error


def _is_there(output: Path, overwrite: bool) -> bool:
    return (output / MANIFEST).is_file() and not overwrite


def _merged(output: Path, of: int, argv: Sequence[str], overwrite: bool) -> EmbeddingStore:
    parts = [EmbeddingStore.open(part_path(output, number, of)) for number in range(1, of + 1)]
    return merge_stores(parts, output, argv=argv, overwrite=overwrite)


def _remove_parts(store: EmbeddingStore, of: int) -> None:
    """Remove the parts that a store was merged of; other stores of such names stay."""
    wanted = EmbeddingSettings.of(store.manifest)
    for number in range(1, of + 1):
        path = part_path(store.path, number, of)
        if not (path / MANIFEST).is_file():
            continue
        settings = EmbeddingSettings.of(EmbeddingStore.open(path).manifest)
        if settings != wanted.model_copy(update={"part": f"{number}/{of}"}):
            continue
        going = partial(path)  # where, if this is killed, the next run sweeps
        shutil.rmtree(going, ignore_errors=True)
        path.replace(going)
        (going / MANIFEST).unlink()
        shutil.rmtree(going)


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """A process that embeds a part of the text; use as a context manager, which ends it."""

    def __init__(
        self,
        device: str,
        arguments: Sequence[str],
        output: Path,
        part: tuple[int, int] | None,
        processes: int,
    ) -> None:
        self.name = f"{device} (part {part[0]}/{part[1]})" if part else device
        self.output = part_path(output, *part) if part else output
        shard = ["--shard", f"{part[0]}/{part[1]}"] if part else []
        self._command = [sys.executable, "-m", "mexma_cli", "-q", "embed", *arguments]
        self._command += ["--output", str(output), "--device", device, *shard]
        share = max(1, _cores() // processes)
        self._environment = {name: value for name, value in os.environ.items() if name not in _PARENTS}
        threads = share if device == "cpu" else min(share, _GPU_THREADS)
        self._environment.setdefault("OMP_NUM_THREADS", str(threads))
        self._environment.setdefault("RAYON_NUM_THREADS", str(share))  # the tokeniser's
        self.done: tuple[int, int, int] | None = None
        """Lines done, lines in all, tokens so far; None before its first report."""
        self._rest = b""

    def __enter__(self) -> _Worker:
        self._errors = tempfile.TemporaryFile()
        self.pipe, its_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=self._environment | {_PIPE: str(its_end)},
                pass_fds=[its_end],
            )
        finally:
            os.close(its_end)
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self.pipe)
        self._errors.close()

    def end(self) -> None:
        """Ask it to end, if it has not."""
        if self._process.poll() is None:
            self._process.terminate()

    def hear(self) -> bool:
        """Take in what it has to say; False when it has ended.

        Raises:
            MexmaError: It failed.
        """
        said = os.read(self.pipe, 1 << 16)
        if said:
            *told, self._rest = (self._rest + said).split(b"\n")
            if told:
                rows, total, tokens = json.loads(told[-1])
                self.done = rows, total, tokens
            return True
        self._process.wait()
        self._errors.seek(0)
        lines = [line for line in self._errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
        if self._process.returncode:
            raise self._failure(lines)
        for line in lines:
            log.warning("%s: %s", self.name, line)
        rows = EmbeddingStore.open(self.output).rows
        self.done = rows, rows, self.done[2] if self.done else 0
        return False

    def _failure(self, lines: list[str]) -> MexmaError:
        code = self._process.returncode
        said = {kind: line for line in lines for kind, found, line in [line.partition(": ")] if found}
        if "error" in said:
            return MexmaError(f"{self.name}: {said['error']}", said.get("hint"))
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
        last = "".join(f"\n  {line}" for line in lines[-_LAST_LINES:])
        return MexmaError(f"{self.name} {how}{last}", "the same command goes on where the parts are")


def _end_all(workers: Sequence[_Worker]) -> None:
    """Ask all to end before the first is waited for."""
    for worker in workers:
        worker.end()


def _run(workers: Sequence[_Worker], on_progress: Progress) -> None:
    """Run all to their ends, or end all if one fails or this process is interrupted."""
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for worker in workers:
            stack.enter_context(worker)
            selector.register(worker.pipe, selectors.EVENT_READ, worker)
        stack.callback(_end_all, workers)
        while selector.get_map():
            for key, _ in selector.select():
                if not key.data.hear():
                    selector.unregister(key.fileobj)
            counts = [worker.done for worker in workers if worker.done is not None]
            if len(counts) == len(workers):  # before that the number of lines is not known
                rows, total, tokens = map(sum, zip(*counts, strict=True))
                on_progress(rows, total, tokens)
