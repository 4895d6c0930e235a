"""Mining from disk to disk: stores or texts in; a file of pairs, and perhaps a report, out."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.files import together
from mexma_cli.formats.bitext import formats
from mexma_cli.languages import UNSTATED, resolve
from mexma_cli.settings.stages import EncoderChoice
from mexma_cli.stages.embed.inputs import Progress, is_store, open_inputs
from mexma_cli.stages.knn.knn import read_neighbours
from mexma_cli.stages.knn.search import SearchResult, journal_beside
from mexma_cli.stages.mine.documents import DocumentFiles, DocumentPairs, read_documents
from mexma_cli.stages.mine.mine import Mined, PrecomputedNeighbours, mine
from mexma_cli.stages.mine.probable import encoder_of, stated
from mexma_cli.stages.mine.report import MiningJob, write_report
from mexma_cli.stages.mine.thresholds import known_threshold
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.text.lines import label_of, scan
from mexma_cli.text.writing import only_process, write_chunks

log = logging.getLogger(__name__)


def mine_files(
    job: MiningJob,
    encoder: EncoderChoice,
    argv: Sequence[str] = (),
    on_embedding: Progress | None = None,
    on_progress: Progress | None = None,
) -> tuple[Mined, int]:
    """Mine, and write the pairs and the report. A search that was killed goes on where it stopped.

    Args:
        argv: The command line, for the report.
        on_embedding: Called with lines done and lines in all, where texts are embedded on the way.
        on_progress: Called with tiles of the search done and tiles in all.

    Returns:
        What was mined, and the number of sentences that were changed to fit the format.

    Raises:
        MexmaError: As `open_inputs` and `mine`; the neighbours are of other stores; the disk is full, or
            another process writes the same files.
    """
    started = time.monotonic()
    with only_process(job.files), ExitStack() as stack:
        paths = job.paths[:1] if job.one_text else job.paths
        known_documents = (
            isinstance(job.neighbours, PrecomputedNeighbours) and job.neighbours.documents is not None
        )
        within = job.documents is not None or known_documents
        how = stated(job.settings, encoder_of(paths, encoder), job.one_text, within)
        job = replace(job, settings=how)
        stores = open_inputs(stack, paths, encoder, languages=job.languages, on_progress=on_embedding)
        source, target = stores[0], stores[-1]
        if job.documents is not None:
            job.documents.check_lines((source.rows, target.rows), job.names)
        seconds = {"opening": time.monotonic() - started}
        if job.thresholds is not None:
            threshold = known_threshold(job.thresholds, (source, target), how)
            log.info("threshold %s, from %s", threshold, job.thresholds)
            job = replace(job, settings=how.but(threshold=threshold))
        known: PrecomputedNeighbours | SearchResult | None = None
        searched = None
        k = job.settings.k + job.one_text  # of a text in itself every sentence finds itself, too
        if isinstance(job.neighbours, PrecomputedNeighbours):
            known = job.neighbours
        elif job.neighbours is not None:
            known = read_neighbours(job.neighbours, source, target, k)
        elif job.files:
            searched = job.files[0]
        journal = stack.enter_context(journal_beside(searched, (source, target), k, job.settings))
        mined = mine(
            source,
            target,
            job.settings,
            with_ids=job.with_ids,
            neighbours=known,
            documents=job.documents,
            journal=journal,
            on_progress=on_progress,
        )
        writing = time.monotonic()
        lines = formats()[job.kind].write(mined.pairs(), job.languages, job.with_ids)
        with together():
            changed = write_chunks(job.files, lines)
            seconds["writing"] = time.monotonic() - writing
            if job.report is not None:
                write_report(job, (source, target), mined, changed, argv, seconds)
    return mined, changed


def language_of(path: Path, code: str) -> str:
    """The language of an input, a FLORES-200 code: that of its store's manifest, else the user's.

    Raises:
        MexmaError: The store is in another language, or the code is unknown.
    """
    return agreed_language(path, path if is_store(path) else None, code)


def agreed_language(path: Path, store: Path | None, code: str) -> str:
    """The language (`language_of`) of an input whose sentences are in a store, or a text (None)."""
    given = resolve(code)
    said = EmbeddingStore.open(store).manifest.language if store else UNSTATED
    if said == UNSTATED:
        return given
    if given not in (UNSTATED, said):
        raise MexmaError(f"{path} is in {said}, not in {given}", "leave the language to the store")
    return said


def documents_of(texts: Sequence[Path], files: DocumentFiles) -> DocumentPairs:
    """The documents of both texts, compared with what is known of these before they are embedded.

    Raises:
        MexmaError: As `read_documents`, or a text has another number of lines.
    """
    found = read_documents(*files)
    lines = [len(found.source), len(found.target)]
    for side, path in enumerate(texts):
        if is_store(path):
            lines[side] = EmbeddingStore.open(path).rows
        elif path.is_file():
            lines[side] = scan(path).lines
    found.check_lines((lines[0], lines[1]), (label_of(texts[0]), label_of(texts[1])))
    tell_documents(len(found.pairs), found.alone, found.documents)
    return found


def tell_documents(pairs: int, alone: tuple[int, int], documents: tuple[int, int]) -> None:
    """Say how many pairs there are, and how many documents of both sides are in none, of how many."""
    log.info(
        "documents: %s paired; in no pair: %s of %s of the source and %s of %s of the target",
        *(f"{number:,}" for number in (pairs, alone[0], documents[0], alone[1], documents[1])),
    )
