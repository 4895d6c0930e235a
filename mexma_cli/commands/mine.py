"""`mexma mine`: two texts in, their translations out."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.dry_run import print_plan
from mexma_cli.commands.inputs import check_inputs, command_line, embedding_bar, progress_bar, refuse_inputs
from mexma_cli.commands.mine_options import mine_options, settings_of
from mexma_cli.commands.options import EncoderChoice, encoder_options
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.stages.knn.search import SearchSettings
    from mexma_cli.stages.mine.mine import Mined, MineSettings

log = logging.getLogger(__name__)


@click.command("mine")
@click.argument("source", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("target", type=click.Path(path_type=Path, allow_dash=True))
@mine_options
@click.option("--source-lang", default="und", help="Language of SOURCE, if its store does not say.")
@click.option("--target-lang", default="und", help="Language of TARGET, if its store does not say.")
@encoder_options
def command(
    source: Path,
    target: Path,
    neighbours: Path | None,
    within: tuple[Path, Path] | None,
    document_pairs: Path | None,
    output: Path | None,
    kind: str | None,
    report: Path | None,
    search: SearchSettings,
    dry_run: bool,
    source_lang: str,
    target_lang: str,
    encoder: EncoderChoice,
    **choices: Any,
) -> None:
    """Find the translations in SOURCE and TARGET, best first: score TAB source TAB target.

    Both are embedding stores (`mexma embed` makes them) or text files, one sentence a line, `-` for stdin,
    which are embedded on the way with --model. Lines that occur more than once in a file count once; empty
    lines never pair.

    \b
    Examples:
      mexma mine fra.emb eng.emb --margin ratio --threshold 1.06 -o pairs.tsv
      mexma mine fra.txt.gz eng.txt.gz -o pairs.tsv.gz
      mexma mine fra.emb eng.emb --drop-copies --format moses -o corpus.gz --report run.json
      mexma mine fra.emb eng.emb --within fra.docs eng.docs --all-candidates --with-ids
    """
    paths = (source, target)
    check_inputs(paths)
    if document_pairs is not None and within is None:
        raise click.UsageError("--document-pairs pairs the documents of --within: give that too.")
    if neighbours is not None:
        if search.index != "exact" or search.memory is not None or dry_run:
            raise click.UsageError(
                "--neighbours are found already: leave out --index, --memory and --dry-run."
            )
        if str(neighbours).isdigit() and not neighbours.exists():
            raise click.UsageError(f"--neighbours takes what `mexma knn` made; how many: -k {neighbours}")
    from mexma_cli.formats.bitext import format_of, formats, outputs_of
    from mexma_cli.stages.mine.files import documents_of, language_of, mine_files
    from mexma_cli.stages.mine.job import MiningJob
    from mexma_cli.text.writing import prepare_output

    kind = kind or format_of(output)
    if formats()[kind].two_files and (output is None or str(output) == "-"):
        raise click.UsageError(f"--format {kind} writes two files: name them with --output.")
    settings = settings_of(kind=kind, search=search, **choices)
    if dry_run:
        print_plan(paths, settings.k, search, encoder)
        return
    languages = language_of(source, source_lang), language_of(target, target_lang)
    files = outputs_of(output, kind, languages)
    _check_names([path for path in (*paths, *(within or ()), document_pairs) if path], files, report)
    for path in (output, report):
        prepare_output(path)
    documents = documents_of(paths, within, document_pairs) if within else None
    job = MiningJob(paths, languages, settings, files, kind, documents, neighbours, report)
    started = time.monotonic()
    with ExitStack() as stack:
        bars = embedding_bar(stack), progress_bar(stack, "mining")
        mined, changed = mine_files(job, encoder, command_line(), *bars)
    _tell(mined, settings, time.monotonic() - started)
    if changed:
        log.info("%s in %s", formats()[kind].changes, counted(changed, "sentence"))


def _check_names(inputs: list[Path], files: list[Path], report: Path | None) -> None:
    """Refuse outputs that would be written over each other, or over an input."""
    if not files and str(report) == "-":
        raise click.UsageError("The pairs go to stdout: --report needs a file, or the pairs do (-o).")
    outputs = [*files, *([report] if report is not None else [])]
    places = [path.resolve() for path in outputs]
    for number, path in enumerate(outputs):
        if places[number] in places[:number]:
            raise click.UsageError(f"{path} cannot be the output and the report.")
    refuse_inputs(outputs, inputs)


def _tell(found: Mined, settings: MineSettings, seconds: float) -> None:
    count = len(found.candidates)
    pairs = counted(count, "pair")
    log.info("%s in %.1f s; source: %s; target: %s", pairs, seconds, found.source, found.target)
    if found.dropped:
        names = {"threshold": "threshold 0, the default with max"} if settings.threshold is None else {}
        reasons = ", ".join(f"{number:,} {names.get(why, why)}" for why, number in found.dropped.items())
        log.info("dropped of %s: %s", counted(found.found, "candidate"), reasons)
    for side, name in ((found.source, "source"), (found.target, "target")):
        if not side.kept:
            log.warning("warning: the %s has no sentence that can be mined", name)
        elif side.kept < settings.k:
            few = "warning: the %s has %s, so neighbourhoods there are of as many, not of %s"
            log.warning(few, name, counted(side.kept, "sentence"), settings.k)
    if not count:
        above = "" if settings.threshold is None else f" above {settings.threshold}"
        log.warning("warning: no pair was found%s", above)
