"""Parts put together: all of them, in order, or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mexma_cli import files as manifest
from mexma_cli.errors import MexmaError
from mexma_cli.stages.merge import merge_stores
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import Part, Source, part_path
from tests.stores import content, embedding_writer, flip

ROWS, DIM, OF = 41, 8, 4
VECTORS = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
SENTENCES = [f"sentence {row}" if row % 7 else "" for row in range(ROWS)]
TEXT = Source(path="fra.txt", checksum="c" * 32, lines=ROWS)


def write(
    path: Path, start: int = 0, stop: int = ROWS, *, sentences: bool = True, **other: Any
) -> EmbeddingStore:
    settings: dict[str, Any] = {
        "encoder": "tiny",
        "fingerprint": "f" * 32,
        "dtype": "float16",
        "language": "fra_Latn",
        "source": TEXT,
        "rows_per_shard": 4,
    }
    with embedding_writer(path, DIM, stop - start, **(settings | other)) as out:
        out.write(VECTORS[start:stop], SENTENCES[start:stop] if sentences else None)
        return out.finish(truncated=1)


def write_part(folder: Path, number: int, of: int = OF, **other: Any) -> EmbeddingStore:
    rows = Part(number, of).rows(ROWS)
    return write(part_path(folder / "fra.emb", Part(number, of)), *rows, part=f"{number}/{of}", **other)


@pytest.fixture
def parts(tmp_path: Path) -> list[EmbeddingStore]:
    return [write_part(tmp_path, number) for number in range(1, OF + 1)]


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]])
def test_parts_make_the_text_again(order: list[int], parts: list[EmbeddingStore], tmp_path: Path) -> None:
    before = [content(part.path) for part in parts]
    told: list[tuple[int, int]] = []
    merged = merge_stores(
        [parts[at] for at in order],
        tmp_path / "fra.emb",
        argv=["mexma", "merge"],
        on_progress=lambda done, total: told.append((done, total)),
    )
    merged.verify()
    whole = write(tmp_path / "whole.emb")
    assert list(merged.sentences()) == SENTENCES
    for store in (merged, *parts):
        for row, sentence in enumerate(store.sentences()):
            line, path = store.place(row)
            assert SENTENCES[line - 1] == sentence and path == "fra.txt"
    assert parts[1].place(0)[0] == parts[0].rows + 1
    np.testing.assert_array_equal(merged.vectors(0, ROWS), whole.vectors(0, ROWS))
    np.testing.assert_array_equal(merged.vectors(7, 33), whole.vectors(7, 33))
    facts = merged.manifest
    assert (facts.part, facts.sources, facts.truncated, facts.empty) == (None, (TEXT,), OF, 6)
    assert facts.argv == ("mexma", "merge")
    assert [content(part.path) for part in parts] == before
    assert told[-1] == (ROWS, ROWS)
    file = merged.path / "vectors-00000.npy"
    assert file.samefile(parts[0].path / file.name), "nothing is copied where it need not be"


def test_more_parts_than_lines(tmp_path: Path) -> None:
    parts = [write_part(tmp_path, number, of=50) for number in range(1, 51)]
    assert sum(part.rows == 0 for part in parts) == 9
    assert list(merge_stores(parts, tmp_path / "fra.emb").sentences()) == SENTENCES


def test_other_stores_follow_one_another_as_given(tmp_path: Path) -> None:
    texts = [Source(path=f"{name}.txt", checksum=name, lines=3) for name in "abc"]
    stores = [
        write(tmp_path / f"{text.checksum}.emb", 3 * at, 3 * at + 3, source=text)
        for at, text in enumerate(texts)
    ]
    merged = merge_stores([stores[2], stores[0], stores[1]], tmp_path / "all.emb")
    assert list(merged.sentences()) == [*SENTENCES[6:9], *SENTENCES[:6]]
    assert merged.manifest.sources == (texts[2], texts[0], texts[1])
    assert [merged.place(row) for row in (0, 2, 3, 8)] == [
        (1, "c.txt"),
        (3, "c.txt"),
        (1, "a.txt"),
        (3, "b.txt"),
    ]
    again = merge_stores([merged, write(tmp_path / "d.emb", 9, 12)], tmp_path / "more.emb")
    assert [source.path for source in again.manifest.sources] == ["c.txt", "a.txt", "b.txt", "fra.txt"]


def test_missing_parts_are_named(parts: list[EmbeddingStore], tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match=r"1 of 4 parts of fra\.txt is missing: 2"):
        merge_stores([parts[3], parts[0], parts[2]], tmp_path / "fra.emb")
    with pytest.raises(MexmaError, match=r"3 of 4 parts of fra\.txt are missing: 1, 3, 4") as caught:
        merge_stores([parts[1]], tmp_path / "fra.emb")
    assert "--shard 1/4" in (caught.value.hint or "")
    assert not (tmp_path / "fra.emb").exists()


def test_what_does_not_go_together_is_refused(parts: list[EmbeddingStore], tmp_path: Path) -> None:
    def refused(stores: list[EmbeddingStore], words: str, output: str = "out.emb") -> None:
        with pytest.raises(MexmaError, match=words):
            merge_stores(stores, tmp_path / output)
        assert not (tmp_path / "out.emb").exists()
        assert not (tmp_path / "out.emb.partial").exists()

    refused([parts[0], parts[0]], "is given twice")
    again = write(tmp_path / "again.emb", *Part(2, OF).rows(ROWS), part=f"2/{OF}")
    refused([*parts, again], "are both part 2/4")
    refused([parts[0], write_part(tmp_path, 2, of=3)], "one of 4 parts, .* one of 3")
    other = Source(path="other.txt", checksum="0", lines=ROWS)
    refused(
        [parts[0], write(tmp_path / "o.emb", 10, 20, part="2/4", source=other)], r"another text .*other\.txt"
    )
    refused(
        [parts[0], write(tmp_path / "short.emb", 0, 5, part="2/4")], "5 rows, part 2/4 of 41 lines has 10"
    )
    refused([*parts, write(tmp_path / "w.emb")], "is part 1/4 of a text, and whole stores are given too")
    english = write(tmp_path / "eng.emb", language="eng_Latn")
    refused([*parts, english], "language: fra_Latn in the first, eng_Latn in the second")
    prefixed = write(tmp_path / "prefixed.emb", prefix="query:")
    refused([prefixed, english], "prefix: query: in the first, none in the second")
    bare = write(tmp_path / "bare.emb", sentences=False)
    refused([write(tmp_path / "x.emb"), bare], r"bare\.emb holds vectors without their sentences")


def test_the_output_is_none_of_the_inputs_and_not_there_yet(tmp_path: Path) -> None:
    store = write(tmp_path / "a.emb")
    before = content(store.path)
    with pytest.raises(MexmaError, match="is the output too"):
        merge_stores([store], tmp_path / "a.emb", overwrite=True)
    merge_stores([store], tmp_path / "b.emb")
    made = content(tmp_path / "b.emb")
    merge_stores([store], tmp_path / "b.emb")  # done is done
    assert content(tmp_path / "b.emb") == made
    both = [store, write(tmp_path / "c.emb", 0, 3)]
    with pytest.raises(MexmaError, match="is there already"):
        merge_stores(both, tmp_path / "b.emb")
    merge_stores(both, tmp_path / "b.emb", overwrite=True)
    assert EmbeddingStore.open(tmp_path / "b.emb").rows == ROWS + 3
    assert content(store.path) == before


def test_an_unfinished_store_of_that_name_is_not_lost(parts: list[EmbeddingStore], tmp_path: Path) -> None:
    left = tmp_path / "fra.emb.partial"
    left.mkdir()
    (left / ".mexma").touch()
    (left / "progress.json").write_text("hours of work")
    with pytest.raises(MexmaError, match="is the beginning of another store"):
        merge_stores(parts, tmp_path / "fra.emb")
    assert content(left) == {".mexma": b"", "progress.json": b"hours of work"}
    merge_stores(parts, tmp_path / "fra.emb", overwrite=True)
    assert not left.exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from mexma_cli import files
from mexma_cli.stages.merge import merge_stores
from mexma_cli.store import folder
from mexma_cli.store.embeddings import EmbeddingStore

*paths, output, rows = sys.argv[1:]

def die(done, total):
    if done >= int(rows):
        os.kill(os.getpid(), signal.SIGKILL)

if int(rows) < 0:
    def deadly(final):
        if int(rows) == -2:
            files.commit(final)
        os.kill(os.getpid(), signal.SIGKILL)

    folder.files = SimpleNamespace(**vars(files) | {"commit": deadly})
stores = [EmbeddingStore.open(path) for path in paths]
merge_stores(stores, output, **({"on_progress": die} if int(rows) > 0 else {}))
"""


@pytest.mark.parametrize("rows", [1, 20, -1, -2])
def test_killed_and_started_again_gives_the_same_bytes(
    rows: int, parts: list[EmbeddingStore], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", KILLED, *(part.path for part in parts), tmp_path / "fra.emb", str(rows)]
    assert subprocess.run(command, timeout=60).returncode == -signal.SIGKILL
    assert (tmp_path / "fra.emb").exists() == (rows == -2)
    merge_stores(parts, tmp_path / "fra.emb")
    merge_stores(parts, tmp_path / "whole.emb")
    assert content(tmp_path / "fra.emb") == content(tmp_path / "whole.emb")
    assert not (tmp_path / "fra.emb.partial").exists()


def other_disk(*_: object) -> None:
    """In place of what gives a file a second name."""
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def test_a_full_disk_leaves_the_old_store_whole(
    parts: list[EmbeddingStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = write(tmp_path / "fra.emb", 0, 3)
    before = content(old.path)
    calls = 0

    def full(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", other_disk)
        patch.setattr(manifest, "fsync_file", full)
        with pytest.raises(MexmaError, match="no space left on the disk"):
            merge_stores(parts, old.path, overwrite=True)
    assert calls == 5
    assert content(old.path) == before
    assert not (tmp_path / "fra.emb.partial").exists()


@pytest.mark.parametrize("links", [True, False])
def test_damage_is_not_taken_over(
    links: bool, parts: list[EmbeddingStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", other_disk)
    merged = merge_stores(parts, tmp_path / "fra.emb")
    merged.verify()
    assert (merged.path / "vectors-00000.npy").samefile(parts[0].path / "vectors-00000.npy") is links
    flip(parts[2].path / "vectors-00001.npy")
    with pytest.raises(MexmaError, match=r"fra\.00003-of-00004\.emb/vectors-00001\.npy is damaged"):
        merge_stores(parts, tmp_path / "again.emb")
    assert not (tmp_path / "again.emb.partial").exists()


def test_a_store_that_is_made_anew_meanwhile_is_not_mixed_with_the_one_before(
    parts: list[EmbeddingStore], tmp_path: Path
) -> None:
    def overwrite(done: int, total: int) -> None:
        if done == 4:  # of the first part's ten rows
            shutil.rmtree(parts[0].path)
            write(parts[0].path, 10, 20, part=f"1/{OF}")

    with pytest.raises(MexmaError, match=r"00001-of-00004\.emb was made anew while it was read"):
        merge_stores(parts, tmp_path / "fra.emb", on_progress=overwrite)
    assert not (tmp_path / "fra.emb").exists()


def test_two_processes_do_not_write_one_output(parts: list[EmbeddingStore], tmp_path: Path) -> None:
    left = tmp_path / "fra.emb.partial"
    left.mkdir()
    with manifest.only_writer(left), pytest.raises(MexmaError, match="another process is writing"):
        merge_stores(parts, tmp_path / "fra.emb")


def test_a_folder_of_the_users_that_is_called_like_an_unfinished_one_stays(
    parts: list[EmbeddingStore], tmp_path: Path
) -> None:
    theirs = tmp_path / "all.emb.partial"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("all my work")
    with pytest.raises(MexmaError, match=r"and holds thesis\.txt"):
        merge_stores(parts, tmp_path / "all.emb")
    assert content(theirs) == {"thesis.txt": b"all my work"}
