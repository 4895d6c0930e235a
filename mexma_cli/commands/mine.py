"""`mexma mine`: two texts in, their translations out."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.inputs import check_inputs, command_line, is_store, label_of, opened, progress_bar
from mexma_cli.commands.mine_options import mine_options, settings_of
from mexma_cli.commands.options import encoder_options

if TYPE_CHECKING:
    from mexma_cli.stages.mine import Mined, MineSettings

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
    output: Path | None,
    kind: str | None,
    report: Path | None,
    source_lang: str,
    target_lang: str,
    model: str | None,
    device: str,
    dtype: str,
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
    """
    check_inputs((source, target))
    from mexma_cli.languages import resolve
    from mexma_cli.stages.bitext import check_output, format_of, only_process, outputs_of, write_mined
    from mexma_cli.stages.mine import mine
    from mexma_cli.stages.report import write_report

    kind = kind or format_of(output)
    if kind == "moses" and (output is None or str(output) == "-"):
        raise click.UsageError("--format moses writes two files: name them with --output.")
    settings = settings_of(kind=kind, **choices)
    for path in (output, report):
        check_output(path)
    started, paths = time.monotonic(), (source, target)
    languages = _language(source, resolve(source_lang)), _language(target, resolve(target_lang))
    files = outputs_of(output, kind, languages)
    _check_names(paths, files, report)
    with ExitStack() as stack:
        stack.enter_context(only_process(files))
        stores = opened(stack, paths, model=model, device=device, dtype=dtype, languages=languages)
        opening = time.monotonic() - started
        found = mine(stores[0], stores[1], settings, on_progress=progress_bar(stack, "mining"))
        writing = time.monotonic()
        changed = write_mined(files, found.pairs(), kind, languages, settings.with_ids)
        if report is not None:
            write_report(
                report,
                found,
                (stores[0], stores[1]),
                (label_of(source), label_of(target)),
                settings,
                search={"index": "exact", "recall": None},
                output={"files": [str(path) for path in files], "format": kind, "changed_sentences": changed},
                argv=command_line(),
                seconds={"opening": opening, "writing": time.monotonic() - writing},
            )
    _tell(found, settings, time.monotonic() - started)
    if changed:
        log.info("%s in %s sentences", _CHANGES[kind], f"{changed:,}")


_CHANGES = {"tmx": "characters that XML forbids were removed"}
_CHANGES |= dict.fromkeys(("tsv", "moses"), "tabs or line breaks became spaces")


def _language(path: Path, given: str) -> str:
    """What an input is in: by its store's manifest or, where that is silent, by the user."""
    from mexma_cli.errors import MexmaError
    from mexma_cli.languages import UNSTATED
    from mexma_cli.store.embeddings import EmbeddingStore

    said = EmbeddingStore.open(path).manifest.language if is_store(path) else UNSTATED
    if said == UNSTATED:
        return given
    if given not in (UNSTATED, said):
        raise MexmaError(f"{path} is in {said}, not in {given}", "leave the language to the store")
    return said


def _check_names(inputs: tuple[Path, Path], files: list[Path], report: Path | None) -> None:
    """Refuse outputs that would be written over each other, or over an input."""
    outputs = [*files, *([report] if report is not None else [])]
    for place, path in enumerate(outputs):
        if path in outputs[:place]:
            raise click.UsageError(f"{path} cannot be the output and the report.")
        if path.is_file() and any(other.is_file() and path.samefile(other) for other in inputs):
            raise click.UsageError(f"{path} is an input: name another output.")


def _tell(found: Mined, settings: MineSettings, seconds: float) -> None:
    count = len(found.candidates)
    log.info("%s pairs in %.1f s; source: %s; target: %s", f"{count:,}", seconds, found.source, found.target)
    if found.dropped:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in found.dropped.items())
        log.info("dropped of %s candidates: %s", f"{found.found:,}", reasons)
    for side, name in ((found.source, "source"), (found.target, "target")):
        if not side.usable:
            log.warning("warning: the %s has no sentence that can be mined", name)
        elif side.usable < settings.k:
            few = "warning: the %s has %s sentences, so neighbourhoods there are of as many, not of %s"
            log.warning(few, name, side.usable, settings.k)
    if not count:
        above = "" if settings.threshold is None else f" above {settings.threshold}"
        log.warning("warning: no pair was found%s", above)
