"""`mexma embed`: a text file into an embedding store."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from mexma_cli.commands.embed_options import check_usage, embed_options, gpus_of
from mexma_cli.commands.inputs import command_line
from mexma_cli.commands.options import encoder_options
from mexma_cli.commands.progress import progress
from mexma_cli.stages.embed.inputs import EncoderChoice, load_encoder
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import plain_name
from mexma_cli.text.names import label_of

if TYPE_CHECKING:
    from mexma_cli.stages.embed.workers import Rank
    from mexma_cli.store.embeddings import EmbeddingStore

log = logging.getLogger(__name__)

CUT_SHARE = 0.1
"""Of the lines: where more are cut, they are hardly sentences."""


@click.command("embed")
@click.argument("corpus", type=click.Path(path_type=Path, allow_dash=True))
@embed_options
@encoder_options
def command(
    corpus: Path,
    output: Path | None,
    lang: str,
    encoder: EncoderChoice,
    clean: bool,
    shard: tuple[int, int] | None,
    gpus: int | None,
    require_gpu: bool,
    store_dtype: Literal["float16", "float32"],
    append: bool,
    overwrite: bool,
) -> None:
    """Embed CORPUS, a text with one sentence a line (plain, gz, bz2, xz, zst, or - for stdin).

    Every line becomes a row, empty ones too; lines that are equal are embedded once. The store is a folder
    with the vectors, the sentences and a manifest. A run that was interrupted goes on where it stopped when
    the same command is given again.

    Parts of the text can be embedded by themselves, by the jobs of an array or by GNU parallel (--shard), by
    a process a GPU (--gpus), or under torchrun on one machine or several.

    \b
    Examples:
      mexma embed --lang fra corpus.fr.txt
      zcat *.gz | mexma embed --lang eng - -o english.emb
      mexma embed --model intfloat/multilingual-e5-base --prefix 'query: ' --lang deu corpus.de.txt
      parallel mexma embed corpus.txt --shard {}/8 ::: {1..8}
      torchrun --nproc-per-node 4 -m mexma_cli embed corpus.txt
    """
    from mexma_cli.languages import resolve
    from mexma_cli.stages.embed.workers import torchrun_rank

    rank = torchrun_rank()
    check_usage(
        corpus,
        encoder,
        append=append,
        overwrite=overwrite,
        shard=shard,
        gpus=gpus,
        torchrun=rank is not None,
        require_gpu=require_gpu,
    )
    devices = gpus_of(gpus) if require_gpu or gpus is not None else []
    output = output or default_output(corpus)
    job = Job(corpus, output, resolve(lang), encoder, clean, store_dtype, append, overwrite)
    if gpus is not None:
        _on_devices(job, devices)
    elif rank is not None:
        _as_rank(job, rank)
    else:
        _here(job, shard)


@dataclass(frozen=True)
class Job:
    """What is to be embedded, and how."""

    corpus: Path
    output: Path
    language: str
    encoder: EncoderChoice
    clean: bool = False
    store_dtype: Literal["float16", "float32"] = "float16"
    append: bool = False
    overwrite: bool = False

    def arguments(self) -> list[str]:
        """What follows ``mexma embed`` for a process that does a part of it on a device of its own."""
        said = [str(self.corpus), "--lang", self.language, "--store-dtype", self.store_dtype]
        said += ["--clean"] * self.clean + ["--overwrite"] * self.overwrite
        for field in fields(self.encoder):
            value, option = getattr(self.encoder, field.name), "--" + field.name.replace("_", "-")
            if value is True:
                said.append(option)
            elif field.name != "device" and value not in (None, False):
                said.append(f"{option}={value}")
        return said


class _Meter:
    """The bar, and the speed of this run; call it with rows done, rows in all and tokens of this run."""

    def __init__(self, stack: ExitStack, description: str | None = None) -> None:
        self._bar = stack.enter_context(
            progress(
                desc=description,
                unit="sentence",
                unit_scale=True,
                smoothing=0,  # sentences come sorted by length: only the mean says how long it takes
            )
        )
        self._began = time.monotonic()
        self._before: int | None = None
        self._rows = self._tokens = 0

    def __call__(self, rows: int, total: int, tokens: int) -> None:
        if self._before is None:
            self._before = self._bar.initial = rows  # of an earlier run, so not of this one's speed
        self._rows, self._tokens = rows, tokens
        self._bar.total = total
        self._bar.set_postfix_str(f"{tokens / self._seconds():,.0f} tokens/s", refresh=False)
        self._bar.update(rows - self._bar.n)

    def speed(self) -> str:
        """``; 800 sentences/s, 20,000 tokens/s``, or nothing where nothing was done."""
        rows = self._rows - (self._before or 0)
        if not rows:
            return ""
        seconds = self._seconds()
        return f"; {rows / seconds:,.0f} sentences/s, {self._tokens / seconds:,.0f} tokens/s"

    def _seconds(self) -> float:
        return max(time.monotonic() - self._began, 1e-9)


def _here(job: Job, part: tuple[int, int] | None, description: str | None = None) -> EmbeddingStore:
    """The text, or a part of it, in this process."""
    from mexma_cli.stages.embed.embed import EmbedOptions, at_work, embed_file
    from mexma_cli.stages.embed.workers import worker_report
    from mexma_cli.text.lines import scan, spooled

    report = worker_report()
    options = EmbedOptions(job.language, job.store_dtype, job.clean, part, job.overwrite, job.append)
    with ExitStack() as stack:
        text = scan(stack.enter_context(spooled(job.corpus)), label_of(job.corpus))
        loaded = load_encoder(job.encoder)
        log.info("embedding on %s", at_work(loaded))
        meter = _Meter(stack, description)
        store = embed_file(
            loaded,
            text,
            job.output,
            options,
            argv=command_line(),
            on_progress=report or meter,
        )
    _tell(store, f" to {loaded.max_tokens} tokens", meter)
    return store


def _on_devices(job: Job, devices: list[str]) -> None:
    """A part of the text on each device, in a process of its own."""
    from mexma_cli.stages.embed.workers import embed_on_devices

    log.info("embedding on %s", ", ".join(devices))
    with ExitStack() as stack:
        meter = _Meter(stack)
        store = embed_on_devices(
            devices,
            job.arguments(),
            job.output,
            argv=command_line(),
            overwrite=job.overwrite,
            on_progress=meter,
        )
    _tell(store, "", meter)


def _as_rank(job: Job, rank: Rank) -> None:
    """This process's part under torchrun; the first one puts the parts together."""
    from mexma_cli.stages.embed.workers import embed_as_rank

    here = replace(job, encoder=replace(job.encoder, device=rank.device(job.encoder.device)))

    def embed(part: tuple[int, int] | None) -> EmbeddingStore:
        return _here(here, part, f"process {rank.number}")

    store = embed_as_rank(rank, embed, job.output, argv=command_line(), overwrite=job.overwrite)
    if store is not None:
        _tell(store, "", None)


def _tell(store: EmbeddingStore, limit: str, meter: _Meter | None) -> None:
    manifest = store.manifest
    log.info(
        "%s of %s numbers in %s (%s truncated%s, %s, %s embedded once)%s",
        counted(store.rows, "row"),
        store.dim,
        store.path,
        f"{manifest.truncated:,}",
        limit,
        counted(manifest.empty, "empty line kept as a row", "empty lines kept as rows"),
        counted(manifest.duplicates, "duplicate"),
        meter.speed() if meter else "",
    )
    if manifest.truncated > CUT_SHARE * store.rows:
        log.warning(
            "warning: %s of %s were too long and cut: is it one sentence a line?",
            f"{manifest.truncated:,}",
            counted(store.rows, "line"),
        )


def default_output(corpus: Path) -> Path:
    """``corpus.txt.gz`` -> ``corpus.emb``; ``corpus.fra`` and other unknown endings are kept.

    Raises:
        click.UsageError: The text comes from stdin or a pipe, which have no name of their own.
    """
    if str(corpus) == "-" or (corpus.exists() and not corpus.is_file() and not corpus.is_dir()):
        raise click.UsageError("-o NAME.emb is needed where the text comes from stdin or a pipe.")
    name = plain_name(corpus.name)
    for ending in (".txt", ".text"):
        name = name.removesuffix(ending)
    return corpus.parent / f"{name}.emb"
