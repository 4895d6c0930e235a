"""Pairs of documents in, the alignments of their sentences out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mexma_cli.align.align import DocumentVectors, align
from mexma_cli.align.documents import coverage, sentence_weights
from mexma_cli.encoder.runs import DocumentEncoder, stored_vectors
from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import WRITING, AlignedPair, BitextFormat, named_format, outputs_of, write_pairs
from mexma_cli.formats.documents import DocumentPair
from mexma_cli.languages import UNSTATED
from mexma_cli.numerics.threads import threads
from mexma_cli.settings.section import naming_keywords
from mexma_cli.settings.stages import AlignSettings
from mexma_cli.stages.align.sides import (
    Document,
    DocumentSide,
    FolderSide,
    TextSide,
    has_documents,
    texts_of_side,
)
from mexma_cli.stages.embed.inputs import refuse_overwriting
from mexma_cli.stages.mine.documents import pair_documents, unpaired
from mexma_cli.store.embeddings import check_comparable
from mexma_cli.store.journal import RECORD, AlignmentJournal
from mexma_cli.text.amounts import brief, counted, such_as

GROUP = 4096
"""Pairs of documents are embedded together up to so many sentences of both sides."""
Cleaner = Callable[[str], str]
Result = TypeVar("Result")

_BLOCK = 1 << 16  # alignments in memory at a time


@dataclass(frozen=True)
class DocumentInputs:
    """Where the documents of both sides are, and which of them belong together.

    Attributes:
        source, target: A text or store, a folder of these, or a pattern with one `*`.
        docs: For one text or store on each side, the document id of every line.
        pairs: A file of `source id TAB target id`; None: equal ids.
        find: Documents are paired by what is in them.
    """

    source: Path
    target: Path
    docs: tuple[Path, Path] | None = None
    pairs: Path | None = None
    find: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        """All that is read: a folder of documents as it is."""
        sides = (self.source, self.target)
        texts = [file for path in sides for file in ([path] if path.is_dir() else texts_of_side(path))]
        return (*texts, *(self.docs or ()), *([self.pairs] if self.pairs else []))


@dataclass(frozen=True)
class PairedDocuments:
    """The documents of both sides.

    `pairs` int32 [n, 2] are those that belong together, sorted, and `alone` the names of those of each side
    that are in no pair; both are empty before pairs are `found` by the documents' content.
    """

    source: DocumentSide
    target: DocumentSide
    pairs: np.ndarray
    alone: tuple[Sequence[str], Sequence[str]]
    found: bool = False

    __repr__ = brief

    @property
    def counts(self) -> tuple[int, int]:
        """The documents of both sides."""
        return len(self.source.names), len(self.target.names)

    def with_found(self, pairs: np.ndarray) -> PairedDocuments:
        """A copy of these documents with pairs that were found, sorted."""
        alone = unpaired((self.source.names, self.target.names), pairs)
        return replace(self, pairs=pairs, alone=alone, found=True)


def open_documents(stack: ExitStack, inputs: DocumentInputs) -> PairedDocuments:
    """Open both sides, and pair their documents unless they are to be found. Refused: a file that is missing
    or damaged, ids or pairs that do not fit, documents none of which are paired, stores of different
    encoders."""
    paths, docs = (inputs.source, inputs.target), inputs.docs or (None, None)
    folders = [has_documents(path) for path in paths]
    for path, is_folder in zip(paths, folders, strict=True):
        if not is_folder and str(path) != "-" and not Path(path).exists():
            raise MexmaError(f"{path}: no such file or folder")
        if is_folder and inputs.docs:
            raise MexmaError(f"{path} has a document a file", "--docs are for one text on each side")
        if not is_folder and not inputs.docs and (any(folders) or inputs.pairs or inputs.find):
            raise MexmaError(
                f"{path} is one document", "--docs names two files with the document id of every line"
            )
    source, target = (
        FolderSide(path) if is_folder else TextSide(stack, path, ids)
        for path, is_folder, ids in zip(paths, folders, docs, strict=True)
    )
    if source.store is not None and target.store is not None:
        check_comparable(source.store, target.store)
    if inputs.find:
        return PairedDocuments(source, target, np.zeros((0, 2), np.int32), ([], []))
    ids = source.names, target.names
    pairs = pair_documents(ids, inputs.docs or paths, inputs.pairs)
    return PairedDocuments(source, target, pairs, unpaired(ids, pairs))


UNLIKE, _ENOUGH, SCARCE = 0.25, 20, 0.25
"""Of 120 sentences of news and English, by `mini`, the alignments had a mean score of 0.41 to 0.56 in its
languages, 0.21 to 0.30 in three that it does not know, 0.23 if shuffled, 0.07 to 0.13 if no translations.
Of ParIce's documents it aligned 96 to 100 % of the sentences, 86 to 97 if three in ten were missing on each
side, 48 to 67 of a document and its first quarter, 0 to 30 of one and a single sentence."""
DROPPED = ("threshold", "documents", "kind")
"""Why alignments are not written: their score; the share of their documents that is aligned; not 1-1."""


@dataclass(frozen=True)
class AlignCounts:
    """Numbers of alignments that were found and that are written."""

    pairs: int
    """Pairs of documents."""
    empty: tuple[int, int]
    """Documents whose source, or target, has no sentences."""
    kinds: Counter[tuple[int, int]]
    """Alignments by their sentences on both sides; 0: a sentence without a translation."""
    dropped: Counter[str]
    """Alignments of both sides that are not written, by reason."""
    unlike: list[str]
    """Pairs of documents whose alignments, `_ENOUGH` or more, have a mean score below `UNLIKE`; shorter ones
    if they have as many together, and half of the alignments of all shorter ones."""
    scarce: list[str]
    """Others, of whose sentences less than `SCARCE` are aligned."""
    too_little: list[str]
    """Pairs of documents that are dropped by `min_aligned`, or that were found and are no translations."""

    @property
    def aligned(self) -> int:
        """Alignments of both sides."""
        return sum(count for kind, count in self.kinds.items() if all(kind))

    @property
    def written(self) -> int:
        """Alignments that were not dropped."""
        return self.aligned - sum(self.dropped.values())

    def warnings(self) -> Iterator[str]:
        """Sentences that tell of documents that look wrong."""
        of = f"of {counted(self.pairs, 'pair of documents', 'pairs of documents')}"
        for count, name in zip(self.empty, ("source", "target"), strict=True):
            if count:
                yield f"{counted(count, 'document')} of the {name} in these pairs: no sentences"
        if self.unlike:
            yield (
                f"{len(self.unlike):,} {of}: the mean score is below {UNLIKE}"
                f"{such_as([*filter(None, self.unlike)])}: no translations (--threshold 0.3 --min-aligned "
                "0.6 drops most), in another order (mine those), or in a language that the encoder hardly "
                "reads, where they may well be right"
            )
        if self.scarce:
            yield (
                f"{len(self.scarce):,} {of}: less than {100 * SCARCE:.0f} % of the sentences is aligned"
                f"{such_as([*filter(None, self.scarce)])}"
            )

    def sentences(self, side: int) -> tuple[int, int]:
        """Sentences of a side (0: source), and those of them that are in no alignment."""
        sizes = [(kind[side] * count, all(kind)) for kind, count in self.kinds.items()]
        return sum(size for size, _ in sizes), sum(size for size, both in sizes if not both)


@dataclass(frozen=True)
class Aligned:
    """The alignments of pairs of documents, RECORD [n], in the order of these and of their sentences; `span`
    is the first pair, and the one after the last, if not all were to be aligned."""

    documents: PairedDocuments
    records: np.ndarray
    span: tuple[int, int]
    settings: AlignSettings = field(default_factory=AlignSettings)
    languages: tuple[str, str] = (UNSTATED, UNSTATED)
    inputs: tuple[Path, ...] = ()
    """What `write` does not write over."""

    def __repr__(self) -> str:
        pairs = counted(int(self._enough.sum()), "pair")
        return f"Aligned({counted(len(self), 'alignment')} of {pairs} of documents)"

    def __len__(self) -> int:
        return len(self._written())

    def written(self, format_: BitextFormat) -> Iterable[Any]:
        """The records that a format writes: alignments, perhaps one-sided ones, too, or whole documents."""
        return (
            self.document_pairs()
            if format_.whole_documents
            else self._alignments(one_sided=format_.alignments_only)
        )

    def write(self, output: str | Path, format: str | None = None, with_ids: bool = False) -> int:
        """Write the alignments to a file, in a format of `mexma align --format`; None: by the file's name.

        Returns:
            The number of sentences that had to be changed to fit the format.

        Raises:
            MexmaError: The format needs languages that are not stated, or the file is an input or cannot be
                written.
        """
        path = Path(output)
        with naming_keywords(WRITING):
            format_ = named_format(path, format, alignments=True)
            refuse_overwriting(outputs_of(path, format_.name, self.languages), self.inputs)
            return write_pairs(path, format_, self.written(format_), self.languages, with_ids)

    @cached_property
    def _enough(self) -> np.ndarray:
        """Which pairs of documents are written, bool [pairs]: those with `min_aligned` of their sentences in
        alignments above the threshold; without it, of documents that were found, those with a mean score of
        `UNLIKE`."""
        sentences = np.zeros((2, self.span[1] - self.span[0]), np.int64)
        above = np.zeros(sentences.shape[1])  # the sum of scores - UNLIKE
        for start in range(0, len(self.records), _BLOCK):
            records = self.records[start : start + _BLOCK]
            sizes, of_pair = sizes_of(records), records["pair"] - self.span[0]
            both = (sizes > 0).all(axis=1)
            np.add.at(above, of_pair[both], records["score"][both].astype(np.float64) - UNLIKE)
            for own, which in zip(sentences, (slice(None), both & self._above(records)), strict=True):
                np.add.at(own, of_pair[which], sizes[which].sum(axis=1))
        if self.settings.min_aligned is None and self.documents.found:
            return np.asarray((above >= 0) & (sentences[1] > 0))
        return np.asarray(sentences[1] >= (self.settings.min_aligned or 0) * sentences[0])

    def _above(self, records: np.ndarray) -> np.ndarray:
        """Which alignments have a score above the threshold, bool [n]; of a sentence alone it is 0."""
        if self.settings.threshold is None:
            return np.ones(len(records), bool)
        return np.asarray(records["score"].astype(np.float64) > self.settings.threshold)

    def dropped(self, records: np.ndarray) -> np.ndarray:
        """Why some alignments are not written, int8 [n]: 0 for those that are, else from 1 a place of
        DROPPED."""
        found = np.zeros(len(records), np.int8)
        if self.settings.keep != "all":
            found[(sizes_of(records) != 1).any(axis=1)] = 3
        if not self._enough.all():
            found[~self._enough[records["pair"] - self.span[0]]] = 2
        found[~self._above(records)] = 1
        return found

    def __iter__(self) -> Iterator[AlignedPair]:
        """The alignments that pass the filters, with their text, read on the way."""
        return self._alignments(one_sided=False)

    def _alignments(self, one_sided: bool) -> Iterator[AlignedPair]:
        """`one_sided`: and sentences without a translation, with nothing on the other side."""
        for number, records in self._by_pair():
            document = self._read(number)
            wanted = one_sided | (sizes_of(records) > 0).all(axis=1)
            for record in records[(self.dropped(records) == 0) & wanted]:
                pair = _pair(record, *document)
                if one_sided or (pair.source and pair.target):
                    yield pair

    def document_pairs(self) -> Iterator[DocumentPair]:
        """The pairs of documents, whole or in pieces, read on the way. An alignment that a filter drops
        leaves its sentences alone."""
        for number, records in self._by_pair():
            if not self._enough[number - self.span[0]]:
                continue
            names, texts = self._read(number)
            beads: list[tuple[range, range]] = []
            scores: list[float] = []
            for record, why in zip(records, self.dropped(records).tolist(), strict=True):
                x, y = (range(*record[side].tolist()) for side in ("source", "target"))
                whole = [(x, y)] if not why or not (x and y) else []
                alone = [] if whole else [*((range(i, i + 1), y[:0]) for i in x)]
                alone += [] if whole else [(x[len(x) :], range(j, j + 1)) for j in y]
                beads += whole + alone
                scores += [float(record["score"])] * (len(whole) + len(alone))
            found = DocumentPair(
                names,
                None,
                round(float(records["documents"][0]), 4),
                (texts[0].sentences, texts[1].sentences),
                ((texts[0].lines + 1).tolist(), (texts[1].lines + 1).tolist()),
                beads,
                scores,
            )
            yield from [found] if self.settings.chunks is None else found.pieces(self.settings.chunks)

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        """The scores of all alignments that are iterated over, best first, float32 [n], and their places in
        `records`, int64 [n]."""
        places = self._written()
        scores = self.records["score"][places]
        order = np.argsort(-scores, kind="stable")
        return scores[order], places[order]

    def _written(self) -> np.ndarray:
        """The places in `records` of the alignments of both sides that pass the filters, int64 [n]."""
        both = (sizes_of(self.records) > 0).all(axis=1)
        return np.flatnonzero((self.dropped(self.records) == 0) & both)

    def laid_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where all alignments are in the documents laid end to end, for `reporting.align_page`: of both
        sides the first sentence and the one after the last, int64 [n, 2, 2]; which alignments pass the
        filters, bool [n]; and where the documents begin and the last ones end, int64 [pairs + 1, 2]."""
        records, (first, last) = self.records, self.span
        places = np.stack([records["source"], records["target"]], axis=1).astype(np.int64)
        of_pair = records["pair"] - first
        borders = np.zeros((last - first + 1, 2), np.int64)
        np.maximum.at(borders[1:], of_pair, places[:, :, 1])
        borders = borders.cumsum(axis=0)
        return places + borders[of_pair][:, :, None], self.dropped(records) == 0, borders

    def taken(self, places: np.ndarray) -> Iterator[AlignedPair]:
        """The alignments at some places among the records."""
        for record in self.records[places]:
            yield _pair(record, *self._read(int(record["pair"])))

    def unaligned(self) -> Iterator[tuple[tuple[str, str], tuple[list[str], list[str]]]]:
        """The names of each pair of documents, and their sentences in no alignment that is written."""
        for number, records in self._by_pair():
            names, texts = self._read(number)
            kept = records[self.dropped(records) == 0]
            left = []
            for side, text in zip(("source", "target"), texts, strict=True):
                free = np.ones(len(text.sentences), bool)
                for record in kept[(sizes_of(kept) > 0).all(axis=1)]:
                    free[slice(*record[side].tolist())] = False
                left.append([text.sentences[row] for row in np.flatnonzero(free).tolist()])
            yield names, (left[0], left[1])

    def counts(self) -> AlignCounts:
        """How many alignments there are of each kind, and what the filters drop."""
        kinds: Counter[tuple[int, int]] = Counter()
        dropped: Counter[str] = Counter()
        first, last = self.span
        filled = np.zeros((last - first, 2), bool)
        aligned, scores, joined, alone = np.zeros((4, last - first))
        for start in range(0, len(self.records), _BLOCK):
            records = self.records[start : start + _BLOCK]
            sizes = sizes_of(records)
            different, counts = np.unique(sizes, axis=0, return_counts=True)
            kinds.update(dict(zip(map(tuple, different.tolist()), counts.tolist(), strict=True)))
            both = (sizes > 0).all(axis=1)
            pairs = records["pair"][both] - first
            alone += np.bincount(records["pair"][~both] - first, minlength=last - first)
            joined += np.bincount(pairs, sizes[both].sum(axis=1), minlength=last - first)
            aligned += np.bincount(pairs, minlength=last - first)
            scores += np.bincount(pairs, records["score"][both], minlength=last - first)
            why = np.bincount(self.dropped(records)[both], minlength=len(DROPPED) + 1)[1:].tolist()
            dropped.update(dict(zip(DROPPED, why, strict=True)))
            for side in (0, 1):
                filled[records["pair"][sizes[:, side] > 0] - first, side] = True
        empty = (~filled).sum(axis=0).tolist()
        unlike = (scores < UNLIKE * aligned) & self._enough
        short = (aligned > 0) & (aligned < _ENOUGH)
        if aligned[short & unlike].sum() < max(_ENOUGH, aligned[short].sum() / 2):
            unlike &= ~short
        scarce = (joined < SCARCE * (joined + alone)) & filled.all(axis=1) & self._enough & ~unlike
        lists = map(self._named, (unlike, scarce, ~self._enough))
        return AlignCounts(last - first, (empty[0], empty[1]), kinds, +dropped, *lists)

    def _named(self, chosen: np.ndarray) -> list[str]:
        """Names of some pairs of documents, bool [pairs]; "" where there is one document on each side."""
        pairs = self.documents.pairs[self.span[0] :][np.flatnonzero(chosen)].tolist()
        source, target = self.documents.source.names, self.documents.target.names
        return [" and ".join(dict.fromkeys((source[one], target[other]))) for one, other in pairs]

    def _by_pair(self) -> Iterator[tuple[int, np.ndarray]]:
        """The records of each pair of documents that has any."""
        rest = np.zeros(0, RECORD)
        for start in range(0, len(self.records), _BLOCK):
            block = np.concatenate([rest, self.records[start : start + _BLOCK]])
            *whole, rest = np.split(block, np.flatnonzero(np.diff(block["pair"])) + 1)
            yield from ((int(records["pair"][0]), records) for records in whole)
        if len(rest):
            yield int(rest["pair"][0]), rest

    def _read(self, number: int) -> tuple[tuple[str, str], tuple[Document, Document]]:
        one, other = self.documents.pairs[number].tolist()
        source, target = self.documents.source, self.documents.target
        return (source.names[one], target.names[other]), (source.read(one), target.read(other))


def sizes_of(records: np.ndarray) -> np.ndarray:
    """Sentences of both sides, int32 [n, 2]."""
    return np.stack([records[side][:, 1] - records[side][:, 0] for side in ("source", "target")], axis=1)


def _pair(record: np.void, names: tuple[str, str], texts: tuple[Document, Document]) -> AlignedPair:
    """An alignment with its text."""
    spans = record["source"].tolist(), record["target"].tolist()
    (one, lines), (other, others) = (_part(text, span) for text, span in zip(texts, spans, strict=True))
    return AlignedPair(float(record["score"]), one, other, *names, lines, others)


def _part(text: Document, span: tuple[int, int]) -> tuple[str, tuple[int, ...]]:
    """Sentences of a document, joined, and their lines, counted from 1."""
    return " ".join(text.sentences[slice(*span)]), tuple((text.lines[slice(*span)] + 1).tolist())


def groups_of(documents: PairedDocuments) -> np.ndarray:
    """Where each group of pairs that are embedded together begins, and the end of the last: int64 [G + 1].
    They depend on nothing but the documents, so that a pair's vectors are the same in every run."""
    pairs = documents.pairs
    return groups_by(documents.source.sizes[pairs[:, 0]] + documents.target.sizes[pairs[:, 1]])


def groups_by(sizes: np.ndarray) -> np.ndarray:
    """Borders of groups of items with about as many sentences, int64 [G + 1], from the sentences of each
    item, int64 [n]."""
    groups = np.maximum(np.cumsum(sizes) - 1, 0) // GROUP
    return np.append(np.flatnonzero(np.diff(groups, prepend=-1)), len(sizes))


@dataclass(frozen=True)
class Aligner:
    """Aligns groups of pairs of documents. `clean` is done to a line of the source, and of the target, before
    it is embedded. Where pairs are `scored`, that takes time with the product of their lengths."""

    documents: PairedDocuments
    encoder: DocumentEncoder
    settings: AlignSettings
    languages: tuple[str, str] = (UNSTATED, UNSTATED)
    clean: tuple[Cleaner, Cleaner] = (str, str)
    scored: bool = False

    def run(
        self,
        groups: np.ndarray,
        journal: AlignmentJournal,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Align the groups (borders as from `groups_of`) that the journal does not have, on all cores;
        `on_progress` is told pairs done and pairs in all."""
        first, total = int(groups[0]), int(groups[-1] - groups[0])
        spans = list(pairwise(groups.tolist()))[journal.groups :]
        with closing(self.each(self.group, spans)) as results:
            try:
                for (_, last), (records, cut) in zip(spans, results, strict=True):
                    journal.add(records, cut)
                    if on_progress is not None:
                        on_progress(last - first, total)
            except BaseException:
                if journal.groups:
                    journal.enter()
                raise

    def each(
        self, task: Callable[[tuple[int, int]], Result], spans: Sequence[tuple[int, int]]
    ) -> Generator[Result]:
        """A map over `threads()`, a few items ahead of whoever takes the results, in order. A result does not
        depend on the number of threads, to the last bit."""
        count = threads()
        running: deque[Future[Result]] = deque()
        pool = ThreadPoolExecutor(count)
        try:
            for span in spans:
                running.append(pool.submit(task, span))
                if len(running) > count:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def group(self, span: tuple[int, int]) -> tuple[np.ndarray, int]:
        """The alignments of the pairs from `span[0]` to before `span[1]`, RECORD [n], and sentences cut."""
        encoder, pairs = copy(self.encoder), self.documents.pairs[slice(*span)]
        encoder.cut, counting = 0, replace(self, encoder=encoder)
        numbers = [sorted(set(pairs[:, side].tolist())) for side in (0, 1)]
        found = [
            dict(zip(own, counting.embedded(side, own), strict=True)) for side, own in enumerate(numbers)
        ]
        records = [
            _records(number, found[0][one], found[1][other], self.settings, self.scored)
            for number, (one, other) in enumerate(pairs.tolist(), span[0])
        ]
        return np.concatenate(records), encoder.cut

    def embedded(self, side: int, numbers: Iterable[int]) -> list[DocumentVectors]:
        """Some documents of the source (0) or target (1), embedded together."""
        own, encoder = (self.documents.source, self.documents.target)[side], self.encoder
        numbers = list(numbers)
        texts = [list(map(self.clean[side], own.read(number).sentences)) for number in numbers]
        known = [own.vectors(number) if encoder.takes_vectors else None for number in numbers]
        found = encoder.documents(texts, known, self.languages[side])
        return [
            DocumentVectors(vectors, _lengths(text), runs, headings(text))
            for text, (vectors, runs) in zip(texts, found, strict=True)
        ]

    def sentences(self, side: int, numbers: range) -> list[tuple[np.ndarray, np.ndarray]]:
        """The vectors and lengths (`DocumentVectors`) of some documents; those of stores are read."""
        own = (self.documents.source, self.documents.target)[side]
        known = [vectors for number in numbers if (vectors := own.vectors(number)) is not None]
        if len(known) < len(numbers):
            return [(found.vectors, found.lengths) for found in self.embedded(side, numbers)]
        texts = [list(map(self.clean[side], own.read(number).sentences)) for number in numbers]
        both = zip(texts, known, strict=True)
        return [(stored_vectors(text, vectors), _lengths(text)) for text, vectors in both]


_HEADING = 40  # characters of a heading, at most
_HEADINGS = 0.25  # share of a document's lines that may be headings, at most
_RUNNING = 3  # times that a running head is in a document, at least


def headings(text: Sequence[str]) -> np.ndarray:
    """Lines that look like headings, int8 [n] as of `DocumentVectors`: 1 for short ones without a mark at
    their end, 2 for those without a letter (page numbers) and for headings that come again, whatever number
    is beside them (running heads). None where many do: then the text has no marks."""
    found = np.array([_is_heading(line.strip()) for line in text], np.int8)
    places = np.flatnonzero(found)
    if len(places) > _HEADINGS * len(found):
        return np.zeros_like(found)
    letters = ["".join(filter(str.isalpha, text[place])).lower() for place in places.tolist()]
    often = Counter(letters)
    found[places] += np.array([not own or often[own] >= _RUNNING for own in letters], bool)
    return found


def _is_heading(line: str) -> bool:
    return (len(line) <= _HEADING and line[-1:].isalnum()) or not any(map(str.isalpha, line))


def _lengths(text: Sequence[str]) -> np.ndarray:
    """Characters of sentences, int64 [n]."""
    return np.array(list(map(len, text)), np.int64)


def _records(
    number: int, source: DocumentVectors, target: DocumentVectors, settings: AlignSettings, scored: bool
) -> np.ndarray:
    """The alignments of one pair of documents; all is left alone where one has no sentences."""
    sizes = len(source.lengths), len(target.lengths)
    if not all(sizes):
        records = np.zeros(sum(sizes), RECORD)
        side, rows = "target" if sizes[1] else "source", np.arange(sum(sizes))
        records["pair"], records[side] = number, np.stack([rows, rows + 1], axis=1)
        return records
    found = align(source, target, settings)
    records = np.zeros(len(found), RECORD)
    records["pair"] = number
    for side in ("source", "target"):
        spans = [getattr(one, side) for one in found]
        records[side] = [(span.start, span.stop) for span in spans]
    records["score"] = [one.score for one in found]
    if scored:
        # In float64 the number of threads of the products does not show in four digits.
        one, other = (own.vectors.astype(np.float64) for own in (source, target))
        weights = sentence_weights(source.lengths), sentence_weights(target.lengths)
        records["documents"] = coverage(one, other, weights)
    return records
