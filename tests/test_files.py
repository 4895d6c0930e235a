"""Whole files only, the same bytes for the same content, and one writer at a time."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from mexma_cli import files as manifest
from mexma_cli.errors import MexmaError
from mexma_cli.files import (
    Unfinished,
    check_parent,
    clear,
    clear_all,
    commit,
    full_disk_as_os_error,
    make_parent,
    only_writer,
    read_json,
    stays_inside,
    temporary_space,
    together,
    whole_file,
    workplace,
    write_json_atomic,
)
from mexma_cli.main import cli
from mexma_cli.store import arrays
from mexma_cli.store.arrays import ArrayWriter, new_mapped
from mexma_cli.store.shard import OpenShard
from tests.stores import full_disk


@pytest.mark.parametrize(
    ("dtype", "width"), [("float16", 7), ("float32", 1), ("uint16", None), ("int64", None)]
)
@pytest.mark.parametrize("parts", [[], [3], [1, 0, 70_000, 2]])
def test_array_writer_makes_plain_npy(
    dtype: str, width: int | None, parts: list[int], tmp_path: Path
) -> None:
    rows = sum(parts)
    wanted = (
        (np.arange(rows * (width or 1)) % 1000).astype(dtype).reshape((rows, width) if width else (rows,))
    )
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        writer, at = ArrayWriter(file, dtype, width), 0
        for part in parts:
            writer.write(wanted[at : at + part])
            at += part
        writer.close()
    assert path.stat().st_size == arrays.file_size(rows, dtype, width)
    for mode in ("r", None):
        if rows or mode is None:
            np.testing.assert_array_equal(np.load(path, mmap_mode=mode), wanted)


def test_json_is_the_same_bytes_and_comes_back(tmp_path: Path) -> None:
    write_json_atomic(tmp_path / "a.json", {"b": [1, "é"], "a": None})
    write_json_atomic(tmp_path / "b.json", {"b": [1, "é"], "a": None})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert read_json(tmp_path / "a.json") == {"b": [1, "é"], "a": None}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_a_name_that_is_not_utf8_comes_back(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    write_json_atomic(tmp_path / "a.json", [name, "é"])
    assert (tmp_path / "a.json").read_bytes().decode("utf-8") == '[\n "caf\\udce9.txt",\n "é"\n]\n'
    assert read_json(tmp_path / "a.json") == [name, "é"]


def test_broken_json_and_manifests_are_refused(tmp_path: Path) -> None:
    class Small(BaseModel):
        format_version: int
        rows: int

    path = tmp_path / "m.json"
    with pytest.raises(MexmaError, match="no such file"):
        read_json(path)
    path.write_text('{"rows": ')
    with pytest.raises(MexmaError, match="is damaged: not JSON"):
        read_json(path)
    path.write_text('{"format_version": 1, "rows": "many"}')
    with pytest.raises(MexmaError, match="is damaged: `rows`"):
        manifest.read_manifest(path, Small, 1)
    path.write_text('{"format_version": 9}')
    with pytest.raises(MexmaError, match="format version 9"):
        manifest.read_manifest(path, Small, 1)


def test_a_sealed_manifest_of_another_version_is_not_called_damaged(tmp_path: Path) -> None:
    class Old(manifest.Sealed):
        rows: int

    class New(Old):
        seconds: float = 0.0

    path, old, new = tmp_path / "m.json", Old(rows=3).sealed(), New(rows=3, seconds=2.5).sealed()
    write_json_atomic(path, old.model_dump())
    assert manifest.read_manifest(path, New, 1) == New(rows=3, checksum=old.checksum)
    write_json_atomic(path, new.model_dump())
    with pytest.raises(MexmaError, match="was written by another version of mexma: `seconds`"):
        manifest.read_manifest(path, Old, 1)
    for changed in ({"rows": 4}, {"seconds": 3.0}, {"more": 1}):
        write_json_atomic(path, new.model_dump() | changed)
        with pytest.raises(MexmaError, match="is damaged: its checksum is not right"):
            manifest.read_manifest(path, New, 1)


def test_an_entry_is_of_one_command_with_its_inputs_and_settings(tmp_path: Path) -> None:
    begun = Unfinished(by="knn", of={"source": "a" * 32, "k": 4, "prefix": None, "folder": "caf\udce9"})
    assert begun.left_in(tmp_path) is None
    begun.enter(tmp_path, rows=3).enter(tmp_path, place=[1, 2])
    kept = begun.left_in(tmp_path)
    assert kept is not None and kept.facts == {"rows": 3, "place": [1, 2]}
    for by, change, said in (
        ("mine", {"k": 5, "margin": "ratio"}, ["command: knn there, mine now"]),
        ("knn", {"source": "b" * 32}, ["the source is another one, or has changed"]),
        ("knn", {"source": "unknown"}, [f"source: {'a' * 32} there, unknown now"]),
        ("knn", {"k": 5, "prefix": "q: "}, ["k: 4 there, 5 now", "prefix: none there, q:  now"]),
        ("knn", {"clean": True}, ["clean: none there, yes now"]),
    ):
        now = Unfinished(by=by, of=begun.of | change)
        assert list(kept.differences(now).values()) == said
        assert now.left_in(tmp_path) is None
        with pytest.raises(MexmaError, match=f"beginning of another run: {'; '.join(said)}"):
            now.begun_in(tmp_path)
    assert begun.begun_in(tmp_path) == kept
    assert begun.begun_in(tmp_path / "another") is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"format_version": 2, "settings": {}, "shards": []}, "was written by another version of mexma"),
        ({"format": 2, "mexma": "0.1"}, "is damaged: `by`"),
        ({"format_version": 3, "by": "run", "of": {}, "facts": {}}, "is damaged: it has no checksum"),
        ({"checksum": "0" * 32, "format_version": 3, "by": "run", "of": {}}, "its checksum is not right"),
    ],
)
def test_what_is_no_entry_begins_anew_or_is_refused(
    content: dict[str, Any], said: str, tmp_path: Path
) -> None:
    write_json_atomic(tmp_path / "progress.json", content)
    with pytest.raises(MexmaError, match=said):
        Unfinished.read(tmp_path)
    assert Unfinished(by="run", of={}).left_in(tmp_path) is None


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_json_atomic(path, "old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(MexmaError, match="no space left on the disk"):
        write_json_atomic(path, "new")
    assert read_json(path) == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_new_name_is_taken_back_where_the_disk_is_full_for_that_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed, rename = list[Path](), Path.rename

    def only_once(path: Path, target: Path) -> Path:
        if renamed:
            full_disk()
        renamed.append(target)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", only_once)
    monkeypatch.setattr(manifest, "fsync_folder", full_disk)
    with pytest.raises(MexmaError, match="no space left on the disk"):
        write_json_atomic(tmp_path / "a.json", "new")
    assert renamed == [tmp_path / "a.json"] and not list(tmp_path.iterdir())


def test_what_another_thread_makes_is_not_among_what_is_made_together(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    with together():
        write_json_atomic(one, 1)
        thread = Thread(target=write_json_atomic, args=(other, 2))
        thread.start()
        thread.join()
        assert not one.exists() and read_json(other) == 2
    assert read_json(one) == 1


@pytest.mark.parametrize("relative", [True, False])
def test_what_is_made_together_gets_its_names_at_the_end(
    relative: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = Path() if relative else tmp_path
    names = ["folder/inside", "one", "two"]

    def make(content: str) -> None:
        with together():
            write_json_atomic(here / "one", content)
            with workplace(here / "folder") as part:
                part.mkdir()
                write_json_atomic(part / "inside", content)
                assert read_json(part / "inside") == content
                commit(here / "folder", own={"inside"})
            write_json_atomic(here / "two", content)
            assert content == "old" or {read_json(here / name) for name in names} == {"old"}
            if content == "broken":
                raise ZeroDivisionError

    make("old")
    with pytest.raises(ZeroDivisionError):
        make("broken")
    make("new")
    assert {read_json(here / name) for name in names} == {"new"}
    assert len(list(tmp_path.rglob("*"))) == 4


def test_a_mapped_file_has_its_space_from_the_beginning(tmp_path: Path) -> None:
    found = new_mapped(tmp_path / "a", np.float32, (1000, 7))
    assert found.shape == (1000, 7) and not found.any()
    assert (tmp_path / "a").stat().st_blocks * 512 >= found.nbytes
    found[-1] = 1
    assert np.fromfile(tmp_path / "a", np.float32)[-8:].tolist() == [0] + [1] * 7
    assert new_mapped(tmp_path / "none", np.uint8, (0,)).shape == (0,)


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    link = tmp_path / "link.tsv"
    link.symlink_to(link)
    with pytest.raises(MexmaError, match=r"link\.tsv is a link to itself"), whole_file(link):
        pass
    assert link.is_symlink()


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for name in ("link", "pipe"):
        with whole_file(tmp_path / name) as file:
            file.write(b"new")
    assert os.read(reader, 9) == (tmp_path / "file").read_bytes() == b"new"
    os.close(reader)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "pipe").is_fifo()
    assert len(list(tmp_path.iterdir())) == 3


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "a") as file:
        file.write(b"x" * (1 // 0))
    assert not list(tmp_path.iterdir())


def test_the_folder_of_an_output_is_made_with_it(tmp_path: Path) -> None:
    output = tmp_path / "new" / "inner" / "a.tsv"
    check_parent(output)
    with pytest.raises(ZeroDivisionError), together(), whole_file(output):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir()), "a command that failed leaves no folders"
    with whole_file(output) as file:
        file.write(b"x")
    assert output.read_bytes() == b"x"
    output.unlink()
    make_parent(output)
    assert (tmp_path / "new" / "inner").is_dir() and not list((tmp_path / "new" / "inner").iterdir())
    (tmp_path / "link").symlink_to(tmp_path / "other" / "a.tsv")
    make_parent(tmp_path / "link")
    assert (tmp_path / "other").is_dir()


def test_an_output_that_cannot_be_is_called_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MexmaError) as caught:
        make_parent(tmp_path / "file" / "a.tsv")
    assert caught.value.message == f"{tmp_path / 'file'}: the folder cannot be made: Not a directory"
    if not Path("/proc/self").exists():
        pytest.skip("needs a folder that no one can write to")
    with pytest.raises(MexmaError, match=r"^/proc/a\.tsv cannot be written: "):
        make_parent(Path("/proc/a.tsv"))
    with pytest.raises(MexmaError, match=r"^/proc/new: the folder cannot be made: "):
        make_parent(Path("/proc/new/a.tsv"))


@pytest.mark.parametrize(
    ("name", "kind"), [("a.emb", "embeddings"), ("found", "neighbours"), ("spa-eng", "bitext")]
)
def test_nothing_is_written_into_a_store(tmp_path: Path, name: str, kind: str) -> None:
    store = tmp_path / name
    store.mkdir()
    write_json_atomic(store / "manifest.json", {"kind": kind})
    (tmp_path / "link").symlink_to(store / "behind")
    message = f"would lie in {re.escape(str(store))}, and a store holds nothing but"
    for inside in (store / "x.tsv", store / "new" / "b.emb", tmp_path / "link"):
        with pytest.raises(MexmaError, match=message) as caught:
            make_parent(inside)
        assert caught.value.hint == f"name one beside it: {tmp_path / inside.name}"
    assert [file.name for file in store.iterdir()] == ["manifest.json"]
    make_parent(store)  # its own name


def test_a_folder_that_is_only_called_like_a_store_is_not_looked_for_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project.emb").mkdir()
    monkeypatch.chdir(tmp_path / "project.emb")
    make_parent(Path("b.emb"))
    with pytest.raises(MexmaError, match=r"new\.knn/b\.emb would lie in new\.knn, and"):
        make_parent(Path("new.knn/b.emb"))
    with pytest.raises(MexmaError, match=r"would lie in new\.emb\.partial, and"):
        make_parent(Path("new.emb.partial/b.emb"))
    (tmp_path / "manifest.json").write_text("[")  # another program's
    make_parent(Path("b.emb"))


def make(final: Path, text: str) -> None:
    """A folder with a file in it, by way of its workplace."""
    with workplace(final) as part:
        part.mkdir()
        (part / "file").write_text(text)
        commit(final, own={"file"})


@pytest.mark.parametrize("swaps", [True, False])
def test_a_folder_gets_its_name_in_place_of_another(
    swaps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not swaps:
        monkeypatch.setattr(manifest, "_exchange", lambda *_: False)
    for text in ("old", "new"):
        make(tmp_path / "final", text)
        assert (tmp_path / "final" / "file").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


@pytest.mark.parametrize("name", ["a", "a/b.txt", "a b/ü", "...", "..a"])
def test_names_that_stay_inside(name: str) -> None:
    assert stays_inside(name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "/a", "//a", "../a", "a/../b", "a/..", "a/", "a//b", "./a", "a/./b", "a\\b", "a\0"],
)
def test_names_that_lead_elsewhere_or_are_written_in_another_way(name: str) -> None:
    assert not stays_inside(name)


def test_a_folder_behind_a_link_is_replaced_there(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(Path("disk", "final"))  # not there yet
    for text in ("old", "new"):
        make(tmp_path / "link", text)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "link" / "file").read_text() == "new"
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["final"]


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("failing", ["fsync_folder", "_take_name"])
def test_after_an_error_the_old_folder_stands(
    failing: str, swaps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "final", "old")
    if not swaps:
        monkeypatch.setattr(manifest, "_exchange", lambda *_: False)
    works = getattr(manifest, failing)

    def fails_once(*paths: Path) -> None:
        works(*paths)
        if failing == "_take_name" or paths == (tmp_path,):
            monkeypatch.setattr(manifest, failing, works)
            raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(manifest, failing, fails_once)
    with pytest.raises(OSError, match="broken"):
        make(tmp_path / "final", "new")
    assert (tmp_path / "final" / "file").read_text() == "old"
    with pytest.raises(OSError, match="broken"):
        monkeypatch.setattr(manifest, failing, fails_once)
        make(tmp_path / "other", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_a_folder_with_a_file_of_the_users_is_not_replaced(tmp_path: Path) -> None:
    make(tmp_path / "final", "old")
    for name in ("notes.txt", ".DS_Store"):
        (tmp_path / "final" / name).write_text("mine")
    with pytest.raises(MexmaError, match=r"final also holds notes\.txt, which would be lost"):
        make(tmp_path / "final", "new")
    (tmp_path / "final" / "notes.txt").unlink()
    make(tmp_path / "final", "new")
    assert [path.name for path in (tmp_path / "final").iterdir()] == ["file"]


@pytest.mark.parametrize(
    "name", [".partial", ".partial/notes.txt", ".partial/final", ".partial/progress.json"]
)
def test_a_workplace_without_our_mark_stays(name: str, tmp_path: Path) -> None:
    theirs = tmp_path / f"final{name}"
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("mine")
    with pytest.raises(MexmaError, match="has the name of an unfinished output of mexma, and"):
        make(tmp_path / "final", "new")
    clear(tmp_path / "final")
    clear_all(tmp_path)
    assert theirs.read_text() == "mine" and not (tmp_path / "final").exists()


def test_what_a_killed_run_left_in_a_workplace_goes_and_nothing_else(tmp_path: Path) -> None:
    left = tmp_path / "final.partial"
    for path in (left / ".mexma", left / "final" / "file", tmp_path / "other.partial" / "notes.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    make(tmp_path / "final", "new")
    assert (tmp_path / "final" / "file").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["final", "other.partial"]


def test_a_signal_while_a_workplace_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mkdir(folder: Path) -> None:
        os.mkdir(folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "final", "new")
    assert not list(tmp_path.iterdir())


def test_a_signal_while_a_finished_workplace_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), workplace(tmp_path / "final") as part:
        (part.parent / "kept").mkdir()
        monkeypatch.setattr(manifest, "fsync_folder", interrupted)
    assert not list(tmp_path.iterdir())


def test_with_progress_a_workplace_stays_for_the_next_run(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), workplace(tmp_path / "final") as part:
        part.write_text("half")
        (part.parent / "progress.json").write_text("{}")
        _ = 1 // 0
    clear_all(tmp_path)
    with workplace(tmp_path / "final") as part:
        assert part.read_text() == "half"
    (part.parent / "notes.txt").write_text("mine")
    with pytest.raises(MexmaError, match=r"also holds notes\.txt"):
        make(tmp_path / "final", "new")
    (part.parent / "notes.txt").unlink()
    clear(tmp_path / "final")
    assert not list(tmp_path.iterdir())


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with only_writer(tmp_path), pytest.raises(MexmaError, match="another process"), only_writer(tmp_path):
        pass
    with only_writer(tmp_path):
        pass


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EIO])
def test_a_file_system_without_locks(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", refused)
    if code == errno.EIO:
        with pytest.raises(OSError, match="Input/output error"), only_writer(tmp_path):
            pass
        return
    with only_writer(tmp_path):
        assert "no locks here" in caplog.text


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=4))
def test_fingerprint_ignores_the_order_of_keys(settings: dict[str, Any]) -> None:
    turned = dict(reversed(settings.items()))
    assert manifest.fingerprint(settings) == manifest.fingerprint(turned)
    assert manifest.fingerprint(settings) != manifest.fingerprint({**settings, "more": 1})


def test_fingerprint_of_names_that_are_not_utf8() -> None:
    names = [os.fsdecode(b"runs/caf\xe9"), os.fsdecode(b"runs/caf\xe8"), "runs/caf\\udce9", "runs/café"]
    assert len({manifest.fingerprint([name]) for name in names}) == len(names)


@pytest.mark.parametrize("content", ["[" * 100_000, "9" * 10_000, "{", '"\udcff"'])
def test_what_is_no_json_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(MexmaError, match=r"a\.json is damaged: not JSON"):
        read_json(tmp_path / "a.json")


def test_a_workplace_that_another_has_just_made_stays(tmp_path: Path) -> None:
    folder = tmp_path / "a.txt.partial"
    folder.mkdir()
    with only_writer(folder):
        with (
            pytest.raises(MexmaError, match="another process is writing there"),
            workplace(tmp_path / "a.txt"),
        ):
            pass
        assert folder.is_dir()
    with workplace(tmp_path / "a.txt"):
        pass
    assert not folder.exists()


MESSAGE = (
    f"error: no space left for temporary files in {tempfile.gettempdir()}\nhint: free some space there, or"
)


def run(*words: str | Path, stdin: str | None = None) -> str:
    done = CliRunner().invoke(cli, ["-q", *map(str, words)], stdin)
    assert done.exit_code == 1, done.output
    return done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize(("file", "words"), [("input", ("mine", __file__, "-")), ("source", ("score", "-"))])
def test_what_comes_through_a_pipe(
    file: str, words: tuple[str, ...], sentences: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tempfile.TemporaryDirectory.__init__

    def full(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        Path(self.name, file).symlink_to("/dev/full")

    monkeypatch.setattr(tempfile.TemporaryDirectory, "__init__", full)
    pairs = "".join(f"{one}\t{other}\n" for one, other in zip(*sentences.values(), strict=True))
    assert run(*words, stdin=pairs).startswith(MESSAGE)


def test_vectors_of_a_text_that_is_mined(
    tmp_path: Path, sentences: dict[str, list[str]], tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, lines in sentences.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    monkeypatch.setattr(OpenShard, "write", full_disk)
    said = run("mine", tmp_path / "fra", tmp_path / "eng", "--model", tiny_encoder, "--device", "cpu")
    assert said.startswith(MESSAGE) and "is kept" not in said, said


def test_errors_other_than_a_full_disk_stay_what_they_are() -> None:
    for error in (MexmaError("no"), OSError(errno.EACCES, "no")):
        with pytest.raises(type(error)) as raised, temporary_space():
            raise error
        assert raised.value is error


def test_shipped_files_are_in_an_installed_package_or_beside_that_of_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "__file__", str(tmp_path / "package" / "files.py"))
    assert manifest.shipped_folder("recipes") == tmp_path / "recipes"
    (tmp_path / "package" / "recipes").mkdir(parents=True)
    assert manifest.shipped_folder("recipes") == tmp_path / "package" / "recipes"


@pytest.mark.parametrize(("free", "kind"), [(4096, OSError), (1 << 30, RuntimeError)])
def test_a_writer_that_says_nothing_of_a_full_disk(
    free: int, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torch: "unexpected pos 9216 vs 9108"."""
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    with pytest.raises(kind) as raised, full_disk_as_os_error(tmp_path):
        raise RuntimeError("unexpected pos 9216 vs 9108")
    assert getattr(raised.value, "errno", None) == (errno.ENOSPC if kind is OSError else None)
