from __future__ import annotations

import io
import json
import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

import fsspec
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.files import MARK, checksum_file, in_work, make_folder, workplace_path
from mexma_cli.stages.run import remote
from mexma_cli.stages.run.plan import Selection
from mexma_cli.stages.run.remote import check_destination, fetch, send
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.stages.split.inputs import find_inputs, names_of
from tests.corpora import InThisProcess, corpus


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def below(system: fsspec.AbstractFileSystem, folder: str) -> dict[str, bytes]:
    """Names below a folder -> what they hold."""
    return {path.partition(folder)[2]: system.cat_file(path) for path in system.find(folder)}


def test_texts_come_from_a_url_and_results_go_to_one(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, tiny_encoder: Path
) -> None:
    here = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]])
    run_corpus(here, InThisProcess)
    for code in ("fra", "eng"):
        memory.pipe_file(f"/texts/{code}.txt", (tmp_path / f"{code}.txt").read_bytes())
    languages = {"fra": {"input": "fra*"}, "eng": {"input": "memory://texts/eng.txt"}}
    where = {"root": "memory://texts", "run": str(tmp_path / "far"), "output": {"to": "memory://found"}}
    far = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]], languages=languages, **where)
    run_corpus(far, InThisProcess)
    found = below(memory, "/found/")
    pairs = "bitext/fra_Latn-eng_Latn/fra_Latn-eng_Latn.tsv"
    assert sorted(found) == [pairs, "manifest.json", "report.html"]
    assert found[pairs] == (tmp_path / "run" / pairs).read_bytes() != b""
    assert sorted(json.loads(found["manifest.json"])["files"]) == [pairs, "report.html"]

    again: list[InThisProcess] = []
    run_corpus(far, lambda folder: again.append(InThisProcess(folder)) or again[0])
    assert again[0].did == []
    (copy,) = (tmp_path / "far/inputs").rglob("fra.txt")
    held = copy.read_bytes()
    copy.write_bytes(held.replace(b"e", b"f", 1))
    with pytest.raises(MexmaError, match=r"fra\.txt is damaged: it is not what was copied"):
        run_corpus(far, InThisProcess)
    copy.unlink()
    run_corpus(far, InThisProcess)
    assert copy.read_bytes() == held
    memory.pipe_file("/texts/fra.txt", b"Un autre texte\n")
    run_corpus(far, lambda folder: again.append(InThisProcess(folder)) or again[1])
    assert "fra_Latn/text" in again[1].did and "eng_Latn/text" not in again[1].did


def test_a_copy_stays_while_the_file_is_the_same(memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    memory.pipe_file("/texts/b.txt", b"b")
    memory.pipe_file("/texts/a.txt", b"a")
    copies = fetch("memory://texts/*.txt", tmp_path)
    assert [copy.read_bytes() for copy in copies] == [b"a", b"b"]
    made = [copy.stat().st_ino for copy in copies]
    memory.pipe_file("/texts/b.txt", b"c")
    again = fetch("memory://texts/*.txt", tmp_path)
    assert again == copies and again[1].read_bytes() == b"c"
    assert [copy.stat().st_ino == inode for copy, inode in zip(again, made, strict=True)] == [True, False]
    with pytest.raises(MexmaError, match="memory://texts/x: no such file"):
        fetch("memory://texts/x", tmp_path)
    with pytest.raises(MexmaError, match="no-such-system://x"):
        fetch("no-such-system://x", tmp_path)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_file_of_the_users_in_the_place_of_a_copy_stays(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was none, or it was another one, also where a run was killed when it had just made it."""
    for content in (b"a", b"b"):
        memory.pipe_file("/texts/a.txt", content)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(remote, "write_json_atomic", interrupted)
            fetch("memory://texts/a.txt", tmp_path)
        (copy,) = tmp_path.rglob("files/texts/a.txt")
        copy.write_bytes(b"my own")
        with pytest.raises(MexmaError, match=r"files/texts/a\.txt is not of this run, and would be lost"):
            fetch("memory://texts/a.txt", tmp_path)
        assert copy.read_bytes() == b"my own"
        copy.write_bytes(content)
        assert fetch("memory://texts/a.txt", tmp_path) == [copy]
    assert not workplace_path(copy).exists()
    memory.pipe_file("/texts/a.txt", b"c")
    copy.write_bytes(b"my own")
    with pytest.raises(MexmaError, match=r"files/texts/a\.txt is not of this run"):
        fetch("memory://texts/a.txt", tmp_path)
    (noted,) = tmp_path.rglob("states/texts/a.txt.json")
    noted.write_text('["my own"]')
    with pytest.raises(MexmaError, match=r"a\.txt\.json is not of this run"):
        fetch("memory://texts/a.txt", tmp_path)
    noted.unlink()
    with pytest.raises(MexmaError, match=r"files/texts/a\.txt is not of this run"):
        fetch("memory://texts/a.txt", tmp_path)
    assert copy.read_bytes() == b"my own"
    copy.unlink()
    assert fetch("memory://texts/a.txt", tmp_path)[0].read_bytes() == b"c"
    for content, name in ((b"d", "write_json_atomic"), (b"e", "_received"), (b"f", "_received")):
        memory.pipe_file("/texts/a.txt", content)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(remote, name, interrupted)
            fetch("memory://texts/a.txt", tmp_path)
    assert fetch("memory://texts/a.txt", tmp_path)[0].read_bytes() == b"f"


def test_folders_are_copied_as_they_are(memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    """The ids of documents, which are made of the names of files, are those of the same folder here."""
    names = ("1/one.txt", "2/one.txt", "2/en-fr.fr", "2/en-fr.en", "2/x.pdf", ".hidden/one.txt", "2/.x.txt")
    names += ("10/one.txt",)
    for name in names:
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).write_text(name)
        memory.pipe_file(f"/texts/{name}", name.encode())
    copies = fetch("memory://texts/", tmp_path / "there", "fra_Latn")
    here = find_inputs([str(tmp_path / "here")], "fra_Latn")
    assert names_of(copies) == here.names == ["1/one", "2/en-fr.fr", "2/one", "10/one"]
    assert [copy.read_text() for copy in copies] == ["1/one.txt", "2/en-fr.fr", "2/one.txt", "10/one.txt"]
    assert fetch("memory://texts/2/*.txt", tmp_path / "there", "fra_Latn") == [copies[2]]
    with pytest.raises(MexmaError, match=r"memory://texts/3\*: no such file"):
        fetch("memory://texts/3*", tmp_path / "there")


class Failing:
    """Opens files of a file system, which break after every `after` bytes that are read of them.

    Args:
        opened: Opens them.
        error: What is raised then; what is read next begins there.
    """

    def __init__(self, opened: Callable[..., BinaryIO], after: int, error: BaseException) -> None:
        self.opened, self.after, self.error, self.read = opened, after, error, 0

    def __call__(self, system: object, path: str, mode: str = "rb", **how: object) -> BinaryIO:
        file, left = io.BytesIO(self.opened(system, path, mode, **how).read()), self.after
        read = file.read

        def some(size: int | None = -1, /) -> bytes:
            nonlocal left
            if not left:
                raise self.error
            found = read(min(size or 0, left))
            left -= len(found)
            self.read += len(found)
            return found

        file.read = some  # type: ignore[method-assign]
        return file


def test_a_copy_that_breaks_off_is_gone_on_with(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_COPY", 3)
    monkeypatch.setattr(remote, "_RANGE", 4)
    large, opened = bytes(range(100)), type(memory).open
    memory.pipe_file("/large", large)

    def failing(after: int, error: BaseException) -> Failing:
        found = Failing(opened, after, error)
        monkeypatch.setattr(type(memory), "open", lambda *given, **how: found(*given, **how))
        return found

    failing(20, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        fetch("memory://large", tmp_path)
    failing(0, ConnectionResetError("reset"))
    with pytest.raises(MexmaError, match="reset"):  # nothing comes any more
        fetch("memory://large", tmp_path)
    resets = failing(30, ConnectionResetError("reset"))
    (copy,) = fetch("memory://large", tmp_path)
    assert copy.read_bytes() == large and 80 <= resets.read < 90  # the rest, and what was not noted

    memory.pipe_file("/large", large[::-1])
    failing(20, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        fetch("memory://large", tmp_path)
    begun = workplace_path(copy) / copy.name
    begun.write_bytes(b"?" + begun.read_bytes()[1:])
    damaged = failing(101, OSError())
    assert fetch("memory://large", tmp_path) == [copy] and copy.read_bytes() == large[::-1]
    assert damaged.read == 100
    assert not workplace_path(copy).exists()


def test_what_a_file_system_lacks_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_java(url: str) -> None:
        raise OSError("Unable to load libjvm\ndlopen(...)\ndlopen(...)")

    monkeypatch.setattr("fsspec.core.url_to_fs", no_java)
    with pytest.raises(MexmaError, match=r"(?m)hdfs://host/x: OSError: Unable to load libjvm$") as raised:
        fetch("hdfs://host/x", tmp_path)
    assert "install Java" in str(raised.value.hint)


def test_only_what_is_to_be_written_is_called_not_writable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class NotAllowed(Exception):
        status = 405

    def refused(url: str) -> None:
        raise NotAllowed("Method Not Allowed")

    monkeypatch.setattr("fsspec.core.url_to_fs", refused)
    with pytest.raises(MexmaError, match="https://host/x: NotAllowed: Method Not Allowed"):
        fetch("https://host/x", tmp_path)
    with pytest.raises(MexmaError, match="https://host/x: nothing can be written there"):
        send({}, "https://host/x")


PAIRS, MORE = "bitext/a-b/a-b.tsv", "bitext/a-c/a-c.tsv"


def made(folder: Path, **texts: str) -> dict[str, tuple[Path, str]]:
    """Results of a run: the pairs `one` and `more`, and the page, as they are wanted."""
    names = {"one": PAIRS, "more": MORE, "page": "report.html"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {names[name]: (folder / name, checksum_file(folder / name)) for name in texts}


def breaking(memory: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let a file's writing fail."""
    opened = type(memory).open

    def broken(self: object, path: str, mode: str = "rb", **how: object) -> object:
        if path.endswith(name) and mode == "wb":
            raise ConnectionResetError("reset")
        return opened(memory, path, mode, **how)

    monkeypatch.setattr(type(memory), "open", broken)


def test_all_results_go_or_none_and_old_ones_are_replaced(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(made(tmp_path, one="one", page="page"), "memory://found")
    before = below(memory, "/found/")
    breaking(memory, monkeypatch, MORE)
    with pytest.raises(MexmaError, match="memory://found: ConnectionResetError: reset"):
        send(made(tmp_path, one="other", page="page", more="more"), "memory://found")
    assert below(memory, "/found/") == before
    monkeypatch.undo()
    send(made(tmp_path, one="other"), "memory://found")
    assert sorted(below(memory, "/found/")) == [PAIRS, "manifest.json"]
    assert memory.cat_file(f"/found/{PAIRS}") == b"other"
    send(made(tmp_path, more="more"), "memory://found", whole=False)
    assert json.loads(memory.cat_file("/found/manifest.json"))["files"].keys() == {PAIRS, MORE}
    assert memory.cat_file(f"/found/{PAIRS}") == b"other"


@pytest.mark.parametrize("until", [PAIRS, MORE, "manifest.json", "the end"])
def test_a_killed_sending_is_done_again(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: str
) -> None:
    """Some files are there, and their manifest is not; then the recipe is what it was before."""
    send(made(tmp_path, one="one", page="page"), "memory://found")
    before = below(memory, "/found/")
    monkeypatch.setattr(type(memory), "transaction", nullcontext())
    breaking(memory, monkeypatch, until)
    monkeypatch.setattr(type(memory), "rm_file", lambda *_: None)  # there is no time for it
    with suppress(MexmaError):
        send(made(tmp_path, one="other", more="more"), "memory://found")
    assert below(memory, "/found/") != before
    monkeypatch.undo()
    send(made(tmp_path, one="one", page="page"), "memory://found")
    assert below(memory, "/found/") == before


@pytest.mark.parametrize("name", [PAIRS, MORE, "report.html"])
@pytest.mark.parametrize("killed", [False, True])
def test_a_file_of_the_users_in_the_place_of_one_that_was_sent_stays(
    memory: fsspec.AbstractFileSystem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    killed: bool,
) -> None:
    """It would be replaced, or removed, as a file of the earlier run, or as one that a kill has left."""
    send(made(tmp_path, one="one", page="page"), "memory://found")
    if killed:
        monkeypatch.setattr(type(memory), "transaction", nullcontext())
        breaking(memory, monkeypatch, name)
        monkeypatch.setattr(type(memory), "rm_file", lambda *_: None)  # there is no time for it
        with pytest.raises(MexmaError, match="reset"):
            send(made(tmp_path, one="other", more="more", page="another page"), "memory://found")
        monkeypatch.undo()
    else:
        send(made(tmp_path, one="other", more="more", page="another page"), "memory://found")
    memory.pipe_file(f"/found/{name}", b"my own")
    before = below(memory, "/found/")
    for files in (made(tmp_path, one="third"), made(tmp_path, one="3", more="3", page="3")):
        with pytest.raises(MexmaError, match=f"memory://found/{name} is not what a run has sent"):
            send(files, "memory://found")
        assert below(memory, "/found/") == before
    memory.rm_file(f"/found/{name}")
    files = made(tmp_path, one="third", page="the third page")
    send(files, "memory://found")
    assert sorted(below(memory, "/found/")) == [PAIRS, "manifest.json", "report.html"]


def test_a_file_that_was_sent_and_is_of_another_length_now_is_told_of(
    memory: fsspec.AbstractFileSystem, tmp_path: Path
) -> None:
    files = made(tmp_path, one="one", page="page")
    send(files, "memory://found")
    memory.pipe_file(f"/found/{PAIRS}", b"junk")
    with pytest.raises(MexmaError, match=f"memory://found/{PAIRS} is not what a run has sent"):
        send(files, "memory://found")
    memory.rm_file(f"/found/{PAIRS}")
    send(files, "memory://found")
    assert memory.cat_file(f"/found/{PAIRS}") == b"one"


def test_a_kill_cuts_no_file_on_a_local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are made beside those that they replace, and not moved there from another disk: what a kill left
    there is known, whatever is sent then."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    there, replace = tmp_path / "there", Path.replace
    send(made(tmp_path, one="one", page="page"), there.as_uri())

    def interrupted_at(name: str) -> None:
        def replaced(self: Path, to: Path) -> Path:
            if to.name == name:
                raise KeyboardInterrupt
            return replace(self, to)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Path, "replace", replaced)
            patch.setattr(remote, "workplace", kept)
            send(made(tmp_path, one="other", more="more", page="another page"), there.as_uri())

    @contextmanager
    def kept(final: Path) -> Iterator[Path]:
        """As a kill leaves it."""
        part = workplace_path(final)
        make_folder(part)
        (part / MARK).touch()
        yield in_work(final)

    for name in (Path(PAIRS).name, "report.html"):
        interrupted_at(name)
        held = {path.read_text() for path in (there / PAIRS, there / "report.html")}
        assert held <= {"one", "other", "page", "another page"}
    assert (there / "in-work.partial").is_dir()
    send(made(tmp_path, one="third", page="the third page"), there.as_uri())
    files = [path.relative_to(there).as_posix() for path in there.rglob("*") if not path.is_dir()]
    assert sorted(files) == [PAIRS, "manifest.json", "report.html"]
    assert not (there / "in-work.partial").exists()
    interrupted_at("report.html")
    for name in (PAIRS, MORE):
        (there / name).unlink()
    send(made(tmp_path, page="the third page"), there.as_uri())
    assert not (there / "in-work.partial").exists()


@pytest.mark.parametrize("manifest", ["in-work.json", "manifest.json"])
def test_a_manifest_that_could_not_be_written_whole_leaves_the_one_before(
    tmp_path: Path, manifest: str
) -> None:
    """As on a full disk. Cut, it would be refused, as something else's."""
    there = tmp_path / "there"
    send(made(tmp_path, one="one", more="more", page="page"), there.as_uri())
    wanted = made(tmp_path, one="other", more="more", page="page")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (there / "manifest.json").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (20 if manifest == "in-work.json" else size - 30, hard))
    try:
        with pytest.raises(MexmaError, match="File too large"):
            send(wanted, there.as_uri())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (there / PAIRS).read_text() == ("one" if manifest == "in-work.json" else "other")
    send(wanted, there.as_uri())
    files = [path.relative_to(there).as_posix() for path in there.rglob("*") if path.is_file()]
    assert sorted(files) == [PAIRS, MORE, "manifest.json", "report.html"]
    assert (there / PAIRS).read_text() == "other"


def test_what_a_kill_left_is_known_after_a_second_kill(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the beginning of a file, and what a sending of other language pairs does not touch."""
    send(made(tmp_path, one="one", page="page"), "memory://found")
    for one, more in (("second", "more"), ("the third", "more of it")):
        monkeypatch.setattr(type(memory), "transaction", nullcontext())
        breaking(memory, monkeypatch, MORE)
        monkeypatch.setattr(type(memory), "rm_file", lambda *_: None)
        with pytest.raises(MexmaError, match="reset"):
            send(made(tmp_path, one=one, more=more, page="page"), "memory://found")
        monkeypatch.undo()
        assert memory.cat_file(f"/found/{PAIRS}") == one.encode()
        memory.pipe_file(f"/found/{MORE}", b"mor")
    send(made(tmp_path, page="fourth"), "memory://found", whole=False)
    listed = json.loads(memory.cat_file("/found/in-work.json"))["files"]
    assert listed.keys() == {PAIRS, MORE}
    send(made(tmp_path, one="fourth", more="more and more", page="fourth"), "memory://found")
    assert sorted(below(memory, "/found/")) == [PAIRS, MORE, "manifest.json", "report.html"]
    assert memory.cat_file(f"/found/{MORE}") == b"more and more"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../victim.txt",
            "/victim.txt",
            "..\\victim.txt",
            "",
            ".",
            "..",
            "own.txt",
            "bitext/../../victim.txt",
        ),
        *("bitext/a-b/../../../victim.txt", "manifest.json", "bitext/a-b", "bitext//a-b/x", "bitext/a-b/x/y"),
        *("memory://victim.txt", "bitext/a-b/..", "bitext/a\\b/x", "report.html/", "./report.html"),
    ],
)
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_names_in_a_manifest_lead_nowhere_else(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, kind: str, name: str
) -> None:
    system = fsspec.filesystem(kind)
    root = "/there" if kind == "memory" else f"{tmp_path}/there"
    url = f"{kind}://{root}/found"
    for own in ("victim.txt", "found/own.txt", "found/bitext/a-b/x"):
        system.makedirs(f"{root}/{own}".rpartition("/")[0], exist_ok=True)
        system.pipe_file(f"{root}/{own}", b"own")
    for manifest in ("manifest.json", "in-work.json"):
        listed = json.dumps({"kind": "corpus", "files": {name: "0"}}).encode()
        system.pipe_file(f"{root}/found/{manifest}", listed)
        before = below(system, f"{root}/")
        with pytest.raises(MexmaError, match=rf"found/{manifest} is of something else"):
            check_destination(url, [])
        with pytest.raises(MexmaError, match=rf"found/{manifest} is of something else"):
            send(made(tmp_path, one="one"), url)
        assert below(system, f"{root}/") == before
        system.rm_file(f"{root}/found/{manifest}")


@pytest.mark.parametrize(
    "held",
    [b"my own", b"{}", b"[]", b'{"kind": "embeddings"}', b'{"kind": "corpus"}', b'{"files": {}}', b"\xff"],
)
def test_results_do_not_go_beside_another_manifest(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, held: bytes
) -> None:
    memory.pipe_file("/store.emb/manifest.json", held)
    with pytest.raises(MexmaError, match=r"memory://store.emb/manifest.json is of something else"):
        send(made(tmp_path, one="one"), "memory://store.emb")
    assert below(memory, "/store.emb/") == {"manifest.json": held}


@pytest.mark.parametrize(
    "name", ["report.html", "thresholds.json", "bitext/fra_Latn-eng_Latn/rejects.tsv.zst"]
)
def test_a_file_that_was_not_sent_there_is_named_before_the_work(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, tiny_encoder: Path, name: str
) -> None:
    where = {"output": {"to": "memory://found"}, "filter": {"rejects": True}}
    recipe = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]], **where)
    memory.pipe_file(f"/found/{name}", b"my own")
    memory.pipe_file("/found/bitext/fra_Latn-eng_Latn/notes.txt", b"my own")
    before = below(memory, "/found/")
    with pytest.raises(MexmaError, match=f"memory://found/{name} is not what a run has sent"):
        run_corpus(recipe, InThisProcess)
    assert not (tmp_path / "run").exists() and below(memory, "/found/") == before
    with pytest.raises(MexmaError, match=f"memory://found/{name} is not what a run has sent"):
        send({name: (tmp_path / "eng.txt", "")}, "memory://found")
    assert below(memory, "/found/") == before


def test_what_is_sent_is_compared_here_and_there(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(made(tmp_path, one="one"), "memory://found")
    before = below(memory, "/found/")
    files = made(tmp_path, one="two")
    (tmp_path / "one").write_text("twO")
    with pytest.raises(MexmaError, match="one is damaged: it is not what the run has made"):
        send(files, "memory://found")
    assert below(memory, "/found/") == before

    opened = type(memory).open

    def flipping(self: object, path: str, mode: str = "rb", **how: object) -> BinaryIO:
        found = opened(memory, path, mode, **how)
        if mode == "wb" and path.endswith(".tsv"):
            write = found.write
            found.write = lambda block: write(block[:-1] + b"?")
        return found  # type: ignore[no-any-return]

    files = made(tmp_path, one="two")
    monkeypatch.setattr(type(memory), "open", flipping)
    with pytest.raises(MexmaError, match=rf"memory://found/{PAIRS} is not what was sent there"):
        send(files, "memory://found")
    assert memory.cat_file("/found/manifest.json") == before["manifest.json"]
    monkeypatch.undo()
    send(files, "memory://found")
    assert memory.cat_file(f"/found/{PAIRS}") == b"two"


def test_a_part_of_a_run_leaves_what_others_have_sent(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, tiny_encoder: Path
) -> None:
    recipe = corpus(tmp_path, tiny_encoder, pairs="eng", output={"to": "memory://found"})
    run_corpus(recipe, InThisProcess)
    before = below(memory, "/found/")
    for part in (Selection("embed"), Selection(pairs=(("fra_Latn", "eng_Latn"),))):
        run_corpus(recipe, InThisProcess, chosen=part)
        now = below(memory, "/found/")
        assert now.keys() == before.keys() and len(now) == 4
    run_corpus(
        corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]], output={"to": "memory://found"}), InThisProcess
    )
    assert len(below(memory, "/found/")) == 3


def test_what_is_sent_to_a_local_disk_outlives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, fsync = [], os.fsync

    def noting(descriptor: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
        fsync(descriptor)

    made = tmp_path / "made"
    made.write_text("pairs")
    monkeypatch.setattr(os, "fsync", noting)
    name = f"{remote.BITEXT}/a/b.tsv"
    send({name: (made, checksum_file(made))}, f"file://{tmp_path}/far/away")
    file, manifest = (
        f"far/away/in-work.partial/in-work/{name}",
        "far/away/manifest.json.partial/manifest.json",
    )
    folders = {".", "far", "far/away", f"far/away/{remote.BITEXT}", f"far/away/{Path(name).parent}"}
    assert folders | {file} <= set(synced)
    assert synced.index(file) < synced.index(manifest) and synced[-1] == "far/away"
