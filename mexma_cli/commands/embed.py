"""`mexma embed`: a text file into an embedding store."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.inputs import command_line, progress_bar, summary_of
from mexma_cli.commands.options import (
    encoder_options,
    json_option,
    lang_option,
    options_of,
    output_option,
    overwrite_option,
    shard_option,
)
from mexma_cli.languages import resolve
from mexma_cli.settings.stages import EmbedSettings, EncoderChoice
from mexma_cli.stages.embed.inputs import load_encoder, warn_of_cut
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import plain_name
from mexma_cli.text.lines import label_of, scan, spooled

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.stages.embed.embed import EmbedOptions, EmbedProgress
    from mexma_cli.stages.embed.workers import Rank
    from mexma_cli.store.embeddings import EmbeddingStore
    from mexma_cli.store.layout import Part

log = logging.getLogger(__name__)


def _gpu_count(typed: str) -> int:
    """A number of GPUs, or all of them: 0."""
    if typed != "all" and not re.fullmatch(r"[1-9][0-9]*", typed):
        raise click.BadParameter(f"{typed!r} is no number of GPUs; say 2, or all")
    return 0 if typed == "all" else int(typed)


@click.command("embed")
@click.argument("corpus", type=click.Path(path_type=Path, allow_dash=True))
@lang_option("Language of the text, such as fra_Latn, fra or fr.  [default: not stated]", default="und")
@output_option("NAME.emb", "Folder of the store.  [default: CORPUS with the ending .emb]")
@options_of(EmbedSettings)
@shard_option("Embed part I of N, into NAME.0000I-of-0000N.emb, for `mexma merge`.")
@click.option(
    "--gpus", type=_gpu_count, metavar="N|all", help="Embed on N GPUs of this machine, with a process each."
)
@click.option("--require-gpu", is_flag=True, help="Fail if there is no GPU.")
@click.option("--append", is_flag=True, help="Add this text to an existing store.")
@overwrite_option
@json_option
@encoder_options
def command(
    corpus: Path,
    output: Path | None,
    lang: str,
    encoder: EncoderChoice,
    settings: EmbedSettings,
    shard: Part | None,
    gpus: int | None,
    require_gpu: bool,
    append: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Embed a text, one sentence a line, into an embedding store.

    CORPUS may be compressed; `-` is stdin. Every line becomes a row, empty ones too; equal lines are embedded
    once. The store is a folder with vectors, sentences and a manifest. The same command continues an
    interrupted run. Several processes can share the text: --shard (job arrays, GNU parallel), --gpus, or
    torchrun.

    \b
    Examples:
      mexma embed --lang fra corpus.fr.txt
      zcat *.gz | mexma embed --lang eng - -o english.emb
      mexma embed --model intfloat/multilingual-e5-base --prompt 'query: ' --lang deu corpus.de.txt
      parallel mexma embed corpus.txt --shard {}/8 ::: {1..8}
      torchrun --nproc-per-node 4 -m mexma_cli embed corpus.txt
    """
    from mexma_cli.stages.embed.embed import EmbedOptions
    from mexma_cli.stages.embed.workers import embed_in_processes, errors_left, gpus_of, torchrun_rank
    from mexma_cli.training.launch import end_with_launcher, launched

    end_with_launcher()
    rank = torchrun_rank()
    gpus = None if launched() else gpus
    way = {"--shard": shard is not None, "--gpus": gpus is not None, "torchrun": rank and not launched()}
    options = EmbedOptions(resolve(lang), settings, shard, overwrite, append)
    _check_usage(corpus, encoder, options, [name for name, taken in way.items() if taken], require_gpu)
    devices = gpus_of(gpus) if require_gpu or gpus is not None else []
    output = output or default_output(corpus)
    if gpus is not None and len(devices) > 1:
        log.info("embedding on %s", ", ".join(devices))
        if code := embed_in_processes(sys.argv[1:], len(devices), output, overwrite):
            log.info("interrupted; the same command goes on where the parts are")
            sys.exit(code)
    elif rank is None:
        chosen = encoder.but(device=devices[0]) if devices and encoder.device == "auto" else encoder
        _here(corpus, output, chosen, options, as_json)
    else:
        chosen = encoder.but(device=rank.device(encoder.device))
        with errors_left():
            _as_rank(rank, corpus, output, chosen, options, as_json)


class _Meter:
    """The bar, and the speed of this run; call it with rows done, rows in all and tokens of this run."""

    def __init__(self, stack: ExitStack) -> None:
        # Sentences come sorted by length, so only the mean says how long it takes: no smoothing.
        self._report_progress = progress_bar(stack, "embedding", "sentence", unit_scale=True, smoothing=0)
        self._began = time.monotonic()
        self._before: int | None = None
        self._rows = self._tokens = 0

    def __call__(self, rows: int, total: int, tokens: int) -> None:
        if self._before is None:
            self._before = rows  # of an earlier run, so not of this one's speed
        self._rows, self._tokens = rows, tokens
        self._report_progress(rows, total, f"{tokens / self._seconds():,.0f} tokens/s")

    def speed(self) -> dict[str, float]:
        """Sentences and tokens a second; nothing where nothing was done."""
        rows, seconds = self._rows - (self._before or 0), self._seconds()
        if not rows:
            return {}
        return {"sentences/s": round(rows / seconds, 1), "tokens/s": round(self._tokens / seconds)}

    def _seconds(self) -> float:
        return max(time.monotonic() - self._began, 1e-9)


def _here(corpus: Path, output: Path, encoder: EncoderChoice, options: EmbedOptions, as_json: bool) -> None:
    """Embed the text, or a part of it, in this process."""
    with ExitStack() as stack:
        meter = _Meter(stack)
        store, loaded = _embedded(corpus, output, encoder, options, meter)
    _log_summary(store, loaded.max_tokens, meter, as_json)


def _embedded(
    corpus: Path, output: Path, encoder: EncoderChoice, options: EmbedOptions, on_progress: EmbedProgress
) -> tuple[EmbeddingStore, SentenceEncoder]:
    from mexma_cli.stages.embed.embed import at_work, embed_file

    with spooled(corpus) as copy:
        text = scan(copy, label_of(corpus))
        loaded = load_encoder(encoder, not options.settings.no_normalise)
        log.info("embedding on %s", at_work(loaded))
        store = embed_file(loaded, text, output, options, argv=command_line(), on_progress=on_progress)
    return store, loaded


def _as_rank(
    rank: Rank, corpus: Path, output: Path, encoder: EncoderChoice, options: EmbedOptions, as_json: bool
) -> None:
    """Embed this process's part under torchrun; the first process shows the bar and merges the parts."""
    from mexma_cli.stages.embed.workers import embed_as_rank

    if rank.number:
        logging.getLogger("mexma_cli").setLevel(logging.WARNING)
    limit = 0
    with ExitStack() as stack:
        meter = _Meter(stack)

        def embed(part: Part | None, on_progress: EmbedProgress) -> EmbeddingStore:
            nonlocal limit
            store, loaded = _embedded(corpus, output, encoder, replace(options, part=part), on_progress)
            limit = loaded.max_tokens
            return store

        store = embed_as_rank(
            rank, embed, output, argv=command_line(), overwrite=options.overwrite, on_progress=meter
        )
    if store is not None:
        _log_summary(store, limit, meter, as_json)


def _log_summary(store: EmbeddingStore, limit: int, meter: _Meter, as_json: bool) -> None:
    manifest, speed = store.manifest, meter.speed()
    log.info(
        "%s of %s numbers in %s (%s truncated to %d tokens, %s, %s embedded once)%s",
        counted(store.rows, "row"),
        store.dim,
        store.path,
        f"{manifest.truncated:,}",
        limit,
        counted(manifest.empty, "empty line kept as a row", "empty lines kept as rows"),
        counted(manifest.duplicates, "duplicate"),
        "; " * bool(speed) + ", ".join(f"{value:,.0f} {unit}" for unit, value in speed.items()),
    )
    warn_of_cut(manifest.truncated, store.rows, limit)
    if as_json:
        click.echo(json.dumps(summary_of(store) | {"speed": speed}, ensure_ascii=False))


def default_output(corpus: Path) -> Path:
    """``corpus.txt.gz`` -> ``corpus.emb``; ``corpus.fra`` and other unknown endings are kept. A text from
    stdin or a pipe has no name of its own, and is refused."""
    if str(corpus) == "-" or (corpus.exists() and not corpus.is_file() and not corpus.is_dir()):
        raise click.UsageError("-o NAME.emb is needed where the text comes from stdin or a pipe.")
    name = plain_name(corpus.name)
    for ending in (".txt", ".text"):
        name = name.removesuffix(ending)
    return corpus.parent / f"{name}.emb"


def _check_usage(
    corpus: Path, encoder: EncoderChoice, options: EmbedOptions, ways: list[str], require_gpu: bool
) -> None:
    """Refuse options that contradict each other; `ways` are those of --shard, --gpus and torchrun that were
    given."""
    if len(ways) > 1:
        raise click.UsageError(f"{ways[0]} and {ways[1]} both divide the text: take one of them.")
    if options.append and options.overwrite:
        raise click.UsageError("--append and --overwrite contradict each other: give one of them.")
    if options.append and ways:
        raise click.UsageError(
            f"{ways[0]} makes a store of its own: leave out --append, and `mexma merge` it with the other."
        )
    if "--gpus" in ways and encoder.device != "auto":
        raise click.UsageError("--gpus says which devices: leave out --device.")
    if require_gpu and encoder.device == "cpu":
        raise click.UsageError("--require-gpu and --device cpu contradict each other: give one of them.")
    if ways and ways != ["--shard"] and str(corpus) == "-":
        raise click.UsageError(f"With {ways[0]} several processes read the text: it must be a file.")
