"""Appending: a longer store in the place of a shorter one, which is whole and readable until then."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.store import arrays, shard
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import Source
from tests.processes import Program
from tests.stores import content, embedding_writer, flip, full_disk

DIM, SHARD = 8, 5
OLD, NEW = 23, 12
VECTORS = np.random.default_rng(0).normal(size=(OLD + NEW, DIM)).astype(np.float32)
SENTENCES = [f"sentence {row}" for row in range(OLD + NEW)]


def append(
    path: Path,
    name: str,
    start: int,
    stop: int,
    until: int | None = None,
    sentences: bool = True,
    **other: Any,
) -> None:
    """Append rows `start` to `stop` of the fixed ones as text `name`; stop before row `until` unfinished."""
    settings: dict[str, Any] = {
        "fingerprint": "f" * 32,
        "language": "fra_Latn",
        "source": Source(path=f"{name}.txt", checksum=name, lines=stop - start),
        "argv": ["mexma", "embed"],
        "rows_per_shard": SHARD,
        "append": True,
    }
    with embedding_writer(path, DIM, stop - start, **(settings | other)) as out:
        for at in range(start + out.rows_done, stop if until is None else until, SHARD):
            end = min(at + SHARD, stop)
            out.write(VECTORS[at:end], SENTENCES[at:end] if sentences else None)
        if until is None:
            out.finish()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of 23 rows, the last shard short."""
    append(tmp_path / "a.emb", "old", 0, OLD)
    return tmp_path / "a.emb"


@pytest.fixture
def longer(old: Path, tmp_path: Path) -> dict[str, bytes]:
    """What that store is after 12 more rows, appended without an interruption."""
    append(tmp_path / "longer.emb", "old", 0, OLD)
    append(tmp_path / "longer.emb", "new", OLD, OLD + NEW)
    return content(tmp_path / "longer.emb")


def test_rows_follow_those_that_were_there(old: Path) -> None:
    before = content(old)
    append(old, "new", OLD, OLD + NEW)
    store = EmbeddingStore.open(old, verify=True)
    assert [shard.rows for shard in store.manifest.shards] == [5, 5, 5, 5, 3, 5, 5, 2]
    np.testing.assert_array_equal(store.vectors(0, store.rows), VECTORS)
    np.testing.assert_array_equal(store.vectors(21, 30), VECTORS[21:30])
    assert list(store.sentences()) == SENTENCES
    assert [(source.path, source.lines) for source in store.manifest.sources] == [
        ("old.txt", OLD),
        ("new.txt", NEW),
    ]
    after = content(old)
    assert all(after[name] == data for name, data in before.items() if name != "manifest.json")
    assert os.listdir(old.parent) == ["a.emb"]


def test_the_same_again_adds_again(old: Path) -> None:
    for _ in range(2):
        append(old, "new", OLD, OLD + NEW)
    store = EmbeddingStore.open(old, verify=True)
    assert list(store.sentences()) == [*SENTENCES, *SENTENCES[OLD:]]


def test_rows_that_are_read_back_are_those_of_the_new_text_and_counts_are_added_up(tmp_path: Path) -> None:
    for start, stop in ((0, 5), (5, 8)):
        source = Source(path="text", checksum="0", lines=stop - start)
        with embedding_writer(tmp_path / "a.emb", DIM, stop - start, source=source, append=True) as out:
            sentences = ["", *SENTENCES[start + 1 : stop]]
            out.write(VECTORS[start:stop], sentences, truncated=1, duplicates=start // 5)
            np.testing.assert_array_equal(out.stored(np.array([2, 0])), VECTORS[[start + 2, start]])
            out.finish()
    manifest = EmbeddingStore.open(tmp_path / "a.emb").manifest
    assert (manifest.rows, manifest.truncated, manifest.empty, manifest.duplicates) == (8, 2, 2, 1)


@pytest.mark.parametrize("until", [OLD, OLD + 4, OLD + 5, OLD + 10])
def test_interrupted_and_resumed_gives_the_same_bytes(
    until: int, old: Path, longer: dict[str, bytes]
) -> None:
    before = content(old)
    append(old, "new", OLD, OLD + NEW, until=until)
    assert content(old) == before
    EmbeddingStore.open(old, verify=True)
    append(old, "new", OLD, OLD + NEW)
    assert content(old) == longer


KILLED = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1])
from mexma_cli import files as manifest
from mexma_cli.store import folder, writer
from test_append import NEW, OLD, append

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

moment = sys.argv[3]

def patched(module, **functions):
    module.files = SimpleNamespace(**vars(manifest) | functions)

def deadly(final):
    if moment == "moved away":  # where names cannot be swapped
        rename = Path.rename
        manifest._exchange = lambda *_: False
        Path.rename = lambda *names: (rename(*names), die())
    elif moment == "swapped":
        patched(writer, remove=die)
    elif moment == "removed":
        patched(writer, remove=lambda folder: (manifest.remove(folder), die()))
    else:
        die()
    manifest.commit(final)

patched(folder, commit=deadly)
append(Path(sys.argv[2]), "new", OLD, OLD + NEW)
"""


@pytest.mark.parametrize("moment", ["before", "swapped", "moved away", "removed"])
def test_killed_at_its_end_adds_once(moment: str, old: Path, longer: dict[str, bytes]) -> None:
    killed = Program(KILLED, Path(__file__).parent, old, moment)
    assert killed.wait() == -signal.SIGKILL, killed.communicate()
    append(old, "new", OLD, OLD + NEW)
    assert content(old) == longer
    assert sorted(os.listdir(old.parent)) == ["a.emb", "longer.emb"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fingerprint": "0"}, "encoder: f{32} there, 0 now"),
        ({"dtype": "float16"}, "stored type: float32 there, float16 now"),
        ({"clean": True}, "clean: no there, yes now"),
        ({"prefix": "query: "}, "prefix: none there, query:"),
        ({"language": "eng_Latn"}, "language: fra_Latn there, eng_Latn now"),
        ({"part": "1/2"}, "part: none there, 1/2 now"),
    ],
)
def test_other_settings_are_refused(change: dict[str, Any], words: str, old: Path) -> None:
    before = content(old)
    with pytest.raises(MexmaError, match=words):
        append(old, "new", OLD, OLD + NEW, **change)
    assert content(old) == before
    assert os.listdir(old.parent) == ["a.emb"]


def test_another_text_is_not_appended_to_the_beginning_of_one(old: Path) -> None:
    append(old, "new", OLD, OLD + NEW, until=OLD + 5)
    with pytest.raises(MexmaError, match="run: text: new there, other now") as caught:
        append(old, "other", OLD, OLD + NEW)
    assert "remove" in (caught.value.hint or "")


def test_a_store_that_changed_meanwhile_is_refused(old: Path) -> None:
    append(old, "new", OLD, OLD + NEW, until=OLD + 5)
    path = old / "manifest.json"
    path.write_text(path.read_text().replace("old.txt", "changed.txt"))
    with pytest.raises(MexmaError, match="run: the store appended to is another one, or has changed"):
        append(old, "new", OLD, OLD + NEW)


def test_what_is_no_store_of_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(MexmaError, match="no embedding store"):
        append(tmp_path / "folder", "new", OLD, OLD + NEW)
    append(tmp_path / "vectors.emb", "old", 0, OLD, sentences=False)
    with pytest.raises(MexmaError, match="vectors without their sentences"):
        append(tmp_path / "vectors.emb", "new", OLD, OLD + NEW)


def test_without_links_shards_are_copied_and_checked(
    old: Path, longer: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refused)
    flip(old / "vectors-00001.npy")
    with pytest.raises(MexmaError, match=r"vectors-00001\.npy is damaged"):
        append(old, "new", OLD, OLD + NEW)
    flip(old / "vectors-00001.npy")
    append(old, "new", OLD, OLD + NEW)
    assert content(old) == longer


def test_a_full_disk_leaves_the_old_store_whole(
    old: Path, longer: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(old)
    for where, name in ((os, "link"), (arrays.ArrayWriter, "write"), (shard, "fsync_file")):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, full_disk)
            with pytest.raises(MexmaError, match="no space left on the disk"):
                append(old, "new", OLD, OLD + NEW)
        assert content(old) == before
    append(old, "new", OLD, OLD + NEW)
    assert content(old) == longer


def test_a_store_behind_a_link_is_made_and_grows_where_it_is(tmp_path: Path) -> None:
    disk, link = tmp_path / "disk", tmp_path / "a.emb"
    link.symlink_to(disk / "far.emb")  # not there yet
    append(link, "old", 0, OLD)
    append(link, "new", OLD, OLD + NEW, until=OLD + SHARD)
    assert sorted(path.name for path in disk.iterdir()) == ["far.emb", "far.emb.partial"]
    append(link, "new", OLD, OLD + NEW)
    assert EmbeddingStore.open(disk / "far.emb", verify=True).rows == OLD + NEW
    assert link.is_symlink() and [path.name for path in disk.iterdir()] == ["far.emb"]
