"""`mexma search`: the best target of every query, or the sentences nearest to a typed one."""

from __future__ import annotations

import logging
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from mexma_cli.commands.inputs import check_inputs, is_typed, opened, progress_bar, row_outputs
from mexma_cli.commands.options import (
    encoder_options,
    json_lines_option,
    no_verify_option,
    options_of,
    path_option,
    result_option,
    section,
)
from mexma_cli.mining.margin import MARGINS
from mexma_cli.settings.stages import TYPED_TOP, EncoderChoice, ScoreSettings
from mexma_cli.stages.embed.inputs import is_store, open_store
from mexma_cli.text.amounts import counted
from mexma_cli.text.lines import is_blank

log = logging.getLogger(__name__)


@click.command("search")
@click.argument(
    "inputs",
    nargs=-1,
    required=True,
    metavar="[QUERIES] TARGET",
    type=click.Path(path_type=Path, allow_dash=True),
)
@click.option("--query", metavar="SENTENCE", help="Search for this sentence instead of QUERIES.")
@click.option(
    "-n",
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Sentences found for each query.  [default: 1; with --query {TYPED_TOP}]",
)
@path_option("--docs", help="The document id of every line of TARGET.  [default: the text's path]")
@section("Encoder options")(
    "--query-prompt", metavar="NAME|TEXT", help="As --prompt, for queries alone.  [default: that of --prompt]"
)
@options_of(ScoreSettings)
@json_lines_option
@result_option
@encoder_options
@no_verify_option
def command(
    inputs: tuple[Path, ...],
    query: str | None,
    top: int | None,
    docs: Path | None,
    query_prompt: str | None,
    settings: ScoreSettings,
    as_json: bool,
    output: Path | None,
    encoder: EncoderChoice,
) -> None:
    """Find the best sentence of TARGET for every query, and where it is.

    The columns are score, query, sentence, rank, line (from 1) and document.

    QUERIES and TARGET are text files with one sentence a line (`-` is stdin), or embedding stores that
    `mexma embed` made. Results keep the order of QUERIES. An empty query has the score nan. Of equal
    sentences of TARGET only the last is found.

    --query finds the sentences of the store TARGET that are nearest to a typed sentence, with their cosines.

    \b
    Examples:
      mexma search fra.txt eng.emb -o best.tsv
      mexma search --query "Where is the station?" fra.emb
      mexma search --query "Where is the station?" fra.emb --docs fra.docs -n 20 --json
    """
    if len(inputs) != (1 if query is not None else 2):
        wanted = (
            "one store to search in" if query is not None else "QUERIES and TARGET, or --query and TARGET"
        )
        raise click.UsageError(f"Give {wanted}, not {len(inputs)} paths.")
    if query is not None and is_blank(query):
        raise click.UsageError("The query is empty.")
    outputs, format = row_outputs(output, [*inputs, *([docs] if docs else [])], as_json)
    if query is not None:
        if "margin" in settings.model_fields_set and MARGINS[settings.margin].uses_neighbourhoods:
            raise click.UsageError(
                f"--margin {settings.margin} needs the neighbourhoods of many queries; "
                "--query has its cosine only."
            )
        if is_typed("k"):
            raise click.UsageError(
                "-k is the size of neighbourhoods, and --query has none; to print "
                f"{settings.k} sentences: -n {settings.k}"
            )
        asked = encoder if query_prompt is None else encoder.but(prompt=query_prompt)
        _typed(inputs[0], query, top or TYPED_TOP, (outputs, format), asked, docs)
        return
    top = top or 1
    if " " in str(inputs[0]) and not inputs[0].exists():
        raise click.UsageError(
            f"{inputs[0]}: no such file. A sentence is searched for with --query: "
            f"mexma search --query {shlex.quote(str(inputs[0]))} {shlex.quote(str(inputs[1]))}"
        )
    check_inputs(inputs)
    if query_prompt is not None and is_store(inputs[0]):
        raise click.UsageError(f"--query-prompt is for a text; {inputs[0]} is embedded already.")
    from mexma_cli.stages.search import find_hits, found_pairs, lines_of, places
    from mexma_cli.text.writing import only_process, write_chunks

    started = time.monotonic()
    with only_process(outputs), ExitStack() as stack:
        queries, target = opened(stack, inputs, encoder, prompts=[query_prompt, None])
        place = places(target, docs)
        bar = progress_bar(stack, "searching")
        hits = find_hits(queries, target, settings, top=top, on_progress=bar)
        replaced = write_chunks(outputs, lines_of(found_pairs(queries, target, hits, place), format))
    seconds = time.monotonic() - started
    queries_done = counted(len(hits.rows), "query", "queries")
    log.info("%s in %.1f s; target: %s", queries_done, seconds, hits.target)
    if replaced:
        log.info("tabs or line breaks became spaces in %s", counted(replaced, "sentence"))
    if hits.without:
        without = counted(hits.without, "query is", "queries are")
        log.warning("%s empty or without a usable vector: nan", without)
    if hits.rows.shape[1] < top:
        there = counted(hits.rows.shape[1], "sentence")
        log.warning("the target has %s, fewer than -n %s", there, top)


def _typed(
    path: Path,
    query: str,
    top: int,
    into: tuple[Sequence[Path], str],
    encoder: EncoderChoice,
    docs: Path | None,
) -> None:
    """The sentences nearest to one that was typed."""
    if not is_store(path) and (path.exists() or str(path) == "-"):
        raise click.UsageError(
            f"--query searches in a store: make one with `mexma embed {shlex.quote(str(path))}`."
        )
    from mexma_cli.stages.search import lines_of, nearest_to_sentence, places
    from mexma_cli.text.writing import write_chunks

    store, (outputs, format) = open_store(path), into
    found = nearest_to_sentence(query, store, encoder, top, places(store, docs))
    if not outputs and format == "tsv" and sys.stdout.isatty():
        for hit in found:
            click.echo(f"{hit.score:7.4f}  {hit.document}, line {hit.line}  {hit.target}")
    else:
        write_chunks(outputs, lines_of(found, format))
