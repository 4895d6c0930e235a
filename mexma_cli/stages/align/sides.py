"""The documents of one side: those of a text or store, or a file or store each."""

from __future__ import annotations

import glob
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.files import MANIFEST, checksum_file, fingerprint
from mexma_cli.languages import UNSTATED
from mexma_cli.stages.embed.inputs import is_store, open_store
from mexma_cli.stages.mine.documents import Ids, RowsByDocument, check_lines, read_document_ids, tell_if_older
from mexma_cli.stages.mine.texts import KeptTexts
from mexma_cli.stages.split.inputs import passed_over_in_words, with_text
from mexma_cli.store.embeddings import EmbeddingStore, check_encoder
from mexma_cli.store.neighbours import content_checksum
from mexma_cli.text.compression import plain_name
from mexma_cli.text.lines import (
    broken_lines,
    document_id,
    is_blank,
    label_of,
    read_again,
    read_pieces,
    read_sentences,
    reading_order,
    scan,
    spooled,
)
from mexma_cli.text.pages import stated_encoding

log = logging.getLogger(__name__)

_BYTES = 100  # of a sentence, about; for planning only
_START = 1 << 16  # bytes of the first texts, which say whether lines are sentences


class Document(NamedTuple):
    """The sentences of a document, and their lines in its file, int64 [sentences], counted from 0. Lines that
    are blank are no sentences."""

    sentences: list[str]
    lines: np.ndarray


class TextSide:
    """The documents of one text (`-`: stdin) or of a store with its sentences, by the document id of every
    line; without these, all is one document without a name. What is temporary goes when the stack is closed.
    Refused: a file that is missing or damaged, ids that are not one a line."""

    def __init__(self, stack: ExitStack, path: Path, documents: Path | None = None) -> None:
        self.store = open_store(path) if is_store(path) else None
        label = label_of(path)
        if self.store is not None:
            rows, sentences = self.store.rows, self.store.sentences()
            self.identity: Any = content_checksum(self.store)
        else:
            text = scan(stack.enter_context(spooled(path)), label)
            if text.broken:
                log.warning("%s: %s", label, text.broken)
            rows, sentences, self.identity = text.lines, read_again(text), text.checksum
        of_line = np.zeros(rows, np.int32)
        self.names = Ids([[""]])
        beside = path.with_name(f"{Path(plain_name(path.name)).stem}.docs")
        if documents is None and beside.is_file():
            log.warning("%s is aligned as one document; --docs %s says where each begins", label, beside)
        if documents is not None:
            of_line, self.names = read_document_ids(documents)
            check_lines(documents, len(of_line), rows, label)
            if self.store is not None:
                tell_if_older(self.store, documents)
            self.identity = [self.identity, checksum_file(documents)]
            pieces = int(np.count_nonzero(np.diff(of_line))) + 1
            if pieces > len(self.names):
                log.warning(
                    "documents of %s are in pieces (%s documents, %s pieces): the lines of each are "
                    "taken together, in the order of the file",
                    *(documents, f"{len(self.names):,}", f"{pieces:,}"),
                )
        filled = np.zeros(rows, bool)

        def noted() -> Iterator[str]:
            for row, sentence in enumerate(sentences):
                filled[row] = not is_blank(sentence)
                yield sentence

        self._texts = KeptTexts(noted(), np.arange(rows))
        self.sizes = np.bincount(of_line[filled], minlength=len(self.names))
        self._rows = RowsByDocument(of_line, filled, len(self.names))

    def read(self, number: int) -> Document:
        """The sentences of a document, and their lines."""
        rows = self._rows.rows(number)
        return Document(self._texts.take(rows), rows)

    def vectors(self, number: int) -> np.ndarray | None:
        """The vectors of its sentences, float32 [sentences, dim], where a store has them."""
        if self.store is None:
            return None
        rows = self._rows.rows(number)
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            return self.store.vectors(int(rows[0]), int(rows[-1]) + 1)
        return self.store.take(rows)


class FolderSide:
    """Documents that are a file or store each, in a folder or by a pattern with one `*`; refused if there are
    none, two have one name, or stores are of different encoders."""

    def __init__(self, path: Path) -> None:
        found = documents_in(path, passed_over := Counter())
        if passed_over:
            log.info("%s: %s", path, passed_over_in_words(passed_over))
        self.names = Ids([list(found)])
        self._paths = list(found.values())
        self.store = None
        self.sizes = np.zeros(len(found), np.int64)
        contents, start = list[list[Any]](), b""
        for number, (name, file) in enumerate(found.items()):
            if is_store(file):
                store = open_store(file)
                first = self.store = store if self.store is None else self.store
                check_encoder(store, first.manifest.encoder, first.manifest.fingerprint, str(first.path))
                self.sizes[number] = store.rows
                contents.append([name, content_checksum(store)])
            else:
                start += next(read_pieces(file, str(file)), b"") if len(start) < _START else b""
                state = file.stat()
                self.sizes[number] = state.st_size // _BYTES + 1
                contents.append([name, state.st_size, state.st_mtime_ns])
        if broken := broken_lines(start):
            log.warning("%s: %s", path, broken)
        self.identity: Any = fingerprint([*contents, *filter(None, [stated_encoding()])])

    def read(self, number: int) -> Document:
        """A document's sentences and their lines; an empty file is a document without sentences."""
        path = self._paths[number]
        lines = list(open_store(path).sentences() if is_store(path) else read_sentences(path))
        filled = [number for number, line in enumerate(lines) if not is_blank(line)]
        return Document([lines[number] for number in filled], np.array(filled, np.int64))

    def vectors(self, number: int) -> np.ndarray | None:
        """See `TextSide`."""
        if not is_store(self._paths[number]):
            return None
        return open_store(self._paths[number]).take(self.read(number).lines)


DocumentSide = TextSide | FolderSide
"""Documents by number: their `names`, in order, "" for one that stands alone; their `sizes`, int64
[documents], about how many sentences each has; an `identity`, something JSON can hold that is another one if
the content is; and the `store` that the sentences are in, or the first of several, None for texts."""


def has_documents(path: Path) -> bool:
    """Whether a path stands for a document a file: a folder that is no store, or a pattern."""
    if "*" in str(path):
        return not path.exists()
    whole = path.suffix == ".emb" or (path / MANIFEST).is_file() or EmbeddingStore.has_files(path)
    return path.is_dir() and not whole


def documents_in(path: Path, passed_over: Counter[str] | None = None) -> dict[str, Path]:
    """The documents of a folder or pattern by their names, in `reading_order`: what a pattern has `*` for,
    or the path in the folder without its ending. `passed_over` counts the files of a folder that are no text,
    by reason. Refused: no documents, two of one name, several `*`."""
    found: dict[str, Path] = {}
    passed_over = Counter() if passed_over is None else passed_over
    files = _matching(path) if "*" in str(path) else _below(path, passed_over)
    for name, file in sorted(files, key=lambda found: (reading_order(found[0]), found[1])):
        name = document_id(name)
        if name in found:
            raise MexmaError(
                f"{found[name]} and {file} would both be the document {name!r}",
                "a pattern such as 'docs/*.fra.txt' says which files are meant, and where their names end",
            )
        found[name] = file
    if not found:
        raise MexmaError(f"{path}: no documents there", "a folder of texts or .emb stores, or 'docs/*.fra'")
    return found


def texts_of_side(path: Path) -> list[Path]:
    """The texts and stores of a side."""
    return list(documents_in(path).values()) if has_documents(path) else [path]


def first_store(path: Path) -> Path | None:
    """The store, or one of the stores, that a side has; None for texts."""
    return next((file for file in texts_of_side(path) if is_store(file)), None)


def _below(folder: Path, passed_over: Counter[str]) -> Iterator[tuple[str, Path]]:
    for place, folders, files in os.walk(folder):
        stores = [name for name in folders if not has_documents(Path(place, name))]
        folders[:] = [name for name in folders if name not in stores and not name.startswith(".")]
        texts = [Path(place, name) for name in files if not name.startswith(".")]
        own = [Path(place, name) for name in stores if not name.startswith(".")]
        for path in [*own, *with_text(texts, UNSTATED, passed_over)]:
            yield str(path.relative_to(folder).with_name(Path(plain_name(path.name)).stem)), path


def _matching(pattern: Path) -> Iterator[tuple[str, Path]]:
    before, *after = str(pattern).split("*")
    if len(after) != 1:
        raise MexmaError(f"{pattern}: one * stands for the document's name", "take out the others")
    name = re.compile(re.escape(before) + "([^/]*)" + re.escape(after[0]))
    for file in glob.glob(f"{glob.escape(before)}*{glob.escape(after[0])}"):
        match = name.fullmatch(file)
        if match:
            yield match[1], Path(file)
