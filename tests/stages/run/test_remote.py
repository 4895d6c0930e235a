from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.stages.run.remote import fetch, send
from mexma_cli.stages.run.run import run_corpus
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


def test_all_results_go_or_none_and_old_ones_are_replaced(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    files = {name: tmp_path / name for name in ("one", "two")}
    send(files, "memory://found")
    before = below(memory, "/found/")
    (tmp_path / "one").write_text("other")
    opened = type(memory).open

    def breaking(self: object, path: str, mode: str = "rb", **how: object) -> object:
        if path.endswith("three"):
            raise ConnectionResetError("reset")
        return opened(memory, path, mode, **how)

    monkeypatch.setattr(type(memory), "open", breaking)
    with pytest.raises(MexmaError, match="memory://found: ConnectionResetError: reset"):
        send({**files, "sub/three": tmp_path / "two"}, "memory://found")
    assert below(memory, "/found/") == before
    monkeypatch.undo()
    send({"one": files["one"]}, "memory://found")
    assert sorted(below(memory, "/found/")) == ["manifest.json", "one"]
    assert memory.cat_file("/found/one") == b"other"


def test_results_do_not_go_beside_another_manifest(memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    memory.pipe_file("/store.emb/manifest.json", b'{"kind": "embeddings"}')
    (tmp_path / "one").write_text("one")
    with pytest.raises(MexmaError, match=r"memory://store.emb/manifest.json is of something else"):
        send({"one": tmp_path / "one"}, "memory://store.emb")


@pytest.mark.slow
def test_a_server_that_speaks_s3(tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    pytest.importorskip("s3fs")
    server.start()
    try:
        host, port = server.get_host_and_port()
        for key, value in (
            ("ACCESS_KEY_ID", "a"),
            ("SECRET_ACCESS_KEY", "b"),
            ("DEFAULT_REGION", "us-east-1"),
        ):
            monkeypatch.setenv(f"AWS_{key}", value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        system = fsspec.filesystem("s3")
        system.mkdir("corpus")
        here = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]])
        run_corpus(here, InThisProcess)
        for code in ("fra", "eng"):
            system.put_file(str(tmp_path / f"{code}.txt"), f"corpus/texts/{code}.txt")
        where = {
            "root": "s3://corpus/texts",
            "run": str(tmp_path / "far"),
            "output": {"to": "s3://corpus/found"},
        }
        far = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]], **where)
        far = far.model_copy(
            update={"languages": {c: t for c, t in far.languages.items() if c != "deu_Latn"}}
        )
        run_corpus(far, InThisProcess)
        pairs = "bitext/fra_Latn-eng_Latn/fra_Latn-eng_Latn.tsv"
        found = below(system, "corpus/found/")
        assert sorted(found) == [pairs, "manifest.json", "report.html"]
        assert found[pairs] == (tmp_path / "run" / pairs).read_bytes()

        large = tmp_path / "large"  # more than one part of an upload
        large.write_bytes(os.urandom(60 << 20))
        send({"large": large}, "s3://corpus/large")
        (copy,) = fetch("s3://corpus/large/large", tmp_path / "inputs")
        assert copy.read_bytes() == large.read_bytes()
        with pytest.raises(MexmaError, match="s3://no-such-bucket"):
            fetch("s3://no-such-bucket/x", tmp_path / "inputs")
    finally:
        server.stop()
