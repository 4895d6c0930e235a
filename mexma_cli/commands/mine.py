"""`mexma mine`: two texts in, their translations out."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.dry_run import print_plan
from mexma_cli.commands.inputs import check_inputs, command_line, opened, progress_bar, refuse_inputs
from mexma_cli.commands.mine_options import mine_options, settings_of
from mexma_cli.commands.options import EncoderChoice, encoder_options
from mexma_cli.stages.embed.inputs import is_store
from mexma_cli.text.amounts import counted
from mexma_cli.text.names import label_of

if TYPE_CHECKING:
    from mexma_cli.stages.knn.search import Found
    from mexma_cli.stages.mine.documents import DocumentPairs
    from mexma_cli.stages.mine.mine import Mined, MineSettings
    from mexma_cli.store.embeddings import EmbeddingStore

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
    from mexma_cli.formats.bitext import format_of, formats, outputs_of
    from mexma_cli.text.writing import only_process, prepare_output

    if neighbours is not None and (choices["index"] != "exact" or choices["memory"] is not None or dry_run):
        raise click.UsageError("--neighbours are found already: leave out --index, --memory and --dry-run.")
    kind = kind or format_of(output)
    if formats()[kind].two_files and (output is None or str(output) == "-"):
        raise click.UsageError(f"--format {kind} writes two files: name them with --output.")
    settings = settings_of(kind=kind, **choices)
    if dry_run:
        print_plan(paths, settings.k, settings.search, encoder)
        return
    languages = _language(source, source_lang), _language(target, target_lang)
    files = outputs_of(output, kind, languages)
    read = [*paths, *(within or ()), *([document_pairs] if document_pairs is not None else [])]
    _check_names(read, files, report)
    for path in (output, report):
        prepare_output(path)
    documents = _documents(within, document_pairs, paths)
    job = _Job(paths, settings, languages, documents, neighbours, files, kind, report)
    with ExitStack() as stack:
        stack.enter_context(only_process(files))
        _run(job, stack, encoder)


@dataclass(frozen=True)
class _Job:
    """What is to be done, with all that could be checked beforehand."""

    paths: tuple[Path, Path]
    settings: MineSettings
    languages: tuple[str, str]
    documents: DocumentPairs | None
    neighbours: Path | None
    files: list[Path]
    kind: str
    report: Path | None


def _run(job: _Job, stack: ExitStack, encoder: EncoderChoice) -> None:
    from mexma_cli.formats.bitext import formats
    from mexma_cli.stages.knn.search import journal_beside
    from mexma_cli.stages.mine.mine import mine
    from mexma_cli.stages.mine.report import Run, write_report
    from mexma_cli.text.writing import write_chunks

    started = time.monotonic()
    source, target = opened(stack, job.paths, encoder=encoder, languages=job.languages)
    if job.documents is not None:
        names = label_of(job.paths[0]), label_of(job.paths[1])
        job.documents.check_lines((source.rows, target.rows), names)
    opening = time.monotonic() - started
    known = _known(job, (source, target))
    searched = job.files[0] if job.files and known is None else None
    journal = stack.enter_context(
        journal_beside(searched, (source, target), job.settings.k, job.settings.search)
    )
    found = mine(
        source,
        target,
        job.settings,
        neighbours=known,
        documents=job.documents,
        journal=journal,
        on_progress=progress_bar(stack, "mining"),
    )
    writing = time.monotonic()
    lines = formats()[job.kind].write(found.pairs(), job.languages, job.settings.with_ids)
    changed = write_chunks(job.files, lines)
    if job.report is not None:
        run = Run(
            mined=found,
            stores=(source, target),
            names=(label_of(job.paths[0]), label_of(job.paths[1])),
            settings=job.settings,
            documents=job.documents,
            kept=str(job.neighbours) if job.neighbours else None,
            output={"files": list(map(str, job.files)), "format": job.kind, "changed_sentences": changed},
            argv=command_line(),
            seconds={"opening": opening, "writing": time.monotonic() - writing},
        )
        write_report(job.report, run)
    _tell(found, job.settings, time.monotonic() - started)
    if changed:
        log.info("%s in %s", _CHANGES[job.kind], counted(changed, "sentence"))


def _known(job: _Job, stores: tuple[EmbeddingStore, EmbeddingStore]) -> Found | None:
    """Kept neighbours, if there are some."""
    if job.neighbours is None:
        return None
    if str(job.neighbours).isdigit() and not job.neighbours.exists():
        raise click.UsageError(f"--neighbours takes what `mexma knn` made; how many: -k {job.neighbours}")
    from mexma_cli.stages.knn.knn import read_neighbours

    return read_neighbours(job.neighbours, *stores, job.settings.k)


_CHANGES = {"tmx": "characters that XML forbids were removed"}
_CHANGES |= dict.fromkeys(("tsv", "moses"), "tabs or line breaks became spaces")


def _language(path: Path, code: str) -> str:
    """What an input is in: by its store's manifest or, where that is silent, by the user."""
    from mexma_cli.errors import MexmaError
    from mexma_cli.languages import UNSTATED, resolve
    from mexma_cli.store.embeddings import EmbeddingStore

    given = resolve(code)
    said = EmbeddingStore.open(path).manifest.language if is_store(path) else UNSTATED
    if said == UNSTATED:
        return given
    if given not in (UNSTATED, said):
        raise MexmaError(f"{path} is in {said}, not in {given}", "leave the language to the store")
    return said


def _documents(
    within: tuple[Path, Path] | None, pairs: Path | None, texts: tuple[Path, Path]
) -> DocumentPairs | None:
    """The documents of both texts, compared with what is known of these before they are embedded."""
    if within is None:
        return None
    from mexma_cli.stages.mine.documents import read_documents
    from mexma_cli.store.embeddings import EmbeddingStore
    from mexma_cli.text.lines import scan

    found = read_documents(*within, pairs)
    lines = [len(found.source), len(found.target)]
    for side, path in enumerate(texts):
        if is_store(path):
            lines[side] = EmbeddingStore.open(path).rows
        elif path.is_file():
            lines[side] = scan(path).lines
    found.check_lines((lines[0], lines[1]), (label_of(texts[0]), label_of(texts[1])))
    log.info(
        "documents: %s paired; in no pair: %s of %s of the source and %s of %s of the target",
        f"{len(found.pairs):,}",
        *(f"{number:,}" for side in (0, 1) for number in (found.alone[side], found.documents[side])),
    )
    return found


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
        if not side.usable:
            log.warning("warning: the %s has no sentence that can be mined", name)
        elif side.usable < settings.k:
            few = "warning: the %s has %s, so neighbourhoods there are of as many, not of %s"
            log.warning(few, name, counted(side.usable, "sentence"), settings.k)
    if not count:
        above = "" if settings.threshold is None else f" above {settings.threshold}"
        log.warning("warning: no pair was found%s", above)
