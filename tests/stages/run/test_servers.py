"""Texts from servers of many kinds, and results to them. What a server needs is not among our dependencies:
`pip install moto[server] s3fs pyftpdlib gcsfs gcp-storage-emulator adlfs`, and `azurite-blob` from npm."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.files import checksum_file
from mexma_cli.stages.run import remote
from mexma_cli.stages.run.remote import _file_system, check_destination, fetch, send
from mexma_cli.stages.run.run import run_corpus
from tests.corpora import InThisProcess, corpus

pytestmark = pytest.mark.slow

LARGE = "report.html"
AZURITE = (  # the account that the documentation of Azurite gives
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUz"
    "FT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
)


@contextmanager
def serving(forever: Callable[[], None], *stop: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        for one in stop:
            one()
        thread.join()


@contextmanager
def s3(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    pytest.importorskip("s3fs")
    server.start()
    host, port = server.get_host_and_port()
    for key, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("DEFAULT_REGION", "us-east-1")):
        patch.setenv(f"AWS_{key}", value)
    patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    fsspec.filesystem("s3").makedirs("corpus", exist_ok=True)  # of all servers of a process
    try:
        yield "s3://corpus"
    finally:
        fsspec.filesystem("s3").clear_instance_cache()  # which has the server's port
        server.stop()


@contextmanager
def ftp(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("pyftpdlib")
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import ThreadedFTPServer

    (folder / "ftp/tmp").mkdir(parents=True)  # where fsspec has files that are not whole yet
    authorizer = DummyAuthorizer()
    authorizer.add_user("user", "secret", str(folder / "ftp"), perm="elradfmwMT")
    handler = type("Handler", (FTPHandler,), {"authorizer": authorizer})
    server = ThreadedFTPServer(("127.0.0.1", 0), handler)
    with serving(server.serve_forever, server.close_all):
        yield f"ftp://user:secret@127.0.0.1:{server.address[1]}"


@contextmanager
def gs(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    emulator = pytest.importorskip("gcp_storage_emulator.server")
    pytest.importorskip("gcsfs")
    server = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket="corpus")
    server.start()
    port = server._api._httpd.server_address[1]
    patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    try:
        yield "gs://corpus"
    finally:
        server.stop()


@contextmanager
def abfs(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("adlfs")
    program, port = shutil.which("azurite-blob"), 10999
    if program is None:
        pytest.skip("no azurite-blob here")
    command = [program, "--inMemoryPersistence", "--skipApiVersionCheck", "--blobPort", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as server:
        assert server.stdout is not None
        next(line for line in server.stdout if "successfully" in line)
        patch.setenv("AZURE_STORAGE_CONNECTION_STRING", AZURITE.format(port=port))
        fsspec.filesystem("abfs").mkdir("corpus")
        try:
            yield "abfs://corpus"
        finally:
            server.terminate()


@contextmanager
def local(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    yield f"file://{folder}/far"


def texts(folder: Path) -> dict[str, Path]:
    """Files to be sent: two small ones in folders, and one of more than one part."""
    found = {name: folder / "here" / name for name in ("bitext/b-c/one.txt", "bitext/a-c/two.txt", LARGE)}
    for name, path in found.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(20 << 20) if name == LARGE else f"{name}\n".encode())
    return found


def summed(files: dict[str, Path]) -> dict[str, tuple[Path, str]]:
    """As they are sent: with their checksums."""
    return {name: (path, checksum_file(path)) for name, path in files.items()}


@pytest.mark.parametrize("kind", [s3, ftp, gs, abfs, local])
def test_what_is_sent_comes_back(kind: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_RANGE", 8 << 20)
    with kind(tmp_path, monkeypatch) as url:  # type: ignore[operator]
        there, copies = f"{url}/results", tmp_path / "copies"
        files = texts(tmp_path)
        check_destination(there, files)
        send(summed(files), there)
        check_destination(there, files)
        (large,) = fetch(f"{there}/{LARGE}", copies)
        assert checksum_file(large) == checksum_file(files[LARGE])
        for folder in (f"{there}/bitext", f"{there}/bitext/"):
            names = [copy.relative_to(copies).as_posix() for copy in fetch(folder, copies)]
            assert [name.partition("/bitext/")[2] for name in names] == ["a-c/two.txt", "b-c/one.txt"]
        (one,) = fetch(f"{there}/bitext/b-c/*.txt", copies)
        inode = one.stat().st_ino
        assert fetch(f"{there}/bitext/b-c/*.txt", copies)[0].stat().st_ino == inode
        files["bitext/b-c/one.txt"].write_text("another one\n")
        del files[LARGE]
        send(summed(files), there)
        for no_file in (LARGE, "no/such/file", "none*"):
            with pytest.raises(MexmaError, match="no such file"):
                fetch(f"{there}/{no_file}", copies)
        assert fetch(f"{there}/bitext/b-c/one.txt", copies)[0].read_text() == "another one\n"
        with _file_system(there) as (system, place):
            system.pipe_file(f"{place}/{LARGE}", b"my own")
            with pytest.raises(MexmaError, match=f"{LARGE} is not what a run has sent"):
                check_destination(there, [*files, LARGE])
            with pytest.raises(MexmaError, match=f"{LARGE} is not what a run has sent"):
                send(summed(texts(tmp_path)), there)
            assert system.cat_file(f"{place}/{LARGE}") == b"my own"


def test_a_run_takes_texts_from_a_bucket_and_sends_pairs_there(
    tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3(tmp_path, monkeypatch) as url:
        here = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]])
        run_corpus(here, InThisProcess)
        texts = {code: {"input": f"{code}.txt"} for code in ("fra", "eng")}
        for text in texts.values():
            fsspec.filesystem("s3").put_file(tmp_path / text["input"], f"{url}/texts/{text['input']}")
        where = {"root": f"{url}/texts", "run": str(tmp_path / "far"), "output": {"to": f"{url}/found"}}
        run_corpus(
            corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]], languages=texts, **where), InThisProcess
        )
        name = "bitext/fra_Latn-eng_Latn/fra_Latn-eng_Latn.tsv"
        (pairs,) = fetch(f"{url}/found/{name}", tmp_path / "copies")
        assert pairs.read_bytes() == (tmp_path / "run" / name).read_bytes() != b""
        with pytest.raises(MexmaError, match="s3://no-such-bucket"):
            fetch("s3://no-such-bucket/x", tmp_path / "copies")


def test_texts_from_the_web_and_archives(tmp_path: Path) -> None:
    """They are read only."""
    files = texts(tmp_path)
    with zipfile.ZipFile(tmp_path / "here/all.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for name, path in files.items():
            packed.write(path, name)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "here"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with serving(server.serve_forever, server.shutdown, server.server_close):
        web, copies = f"http://127.0.0.1:{server.server_port}", tmp_path / "copies"
        archive = f"file://{tmp_path}/here/all.zip"
        for url in (f"{web}/{LARGE}", f"zip://{LARGE}::{archive}"):
            (large,) = fetch(url, copies)
            assert checksum_file(large) == checksum_file(files[LARGE])
        for url in (f"{web}/bitext/b-c/*.txt", f"zip://bitext/b-c/*.txt::{archive}"):
            assert [copy.read_text() for copy in fetch(url, copies)] == ["bitext/b-c/one.txt\n"]
        below = fetch(f"zip://bitext::{archive}", copies)
        assert [copy.read_text() for copy in below] == ["bitext/a-c/two.txt\n", "bitext/b-c/one.txt\n"]
        with pytest.raises(MexmaError, match="no such file"):
            fetch(f"{web}/none", copies)
        with pytest.raises(MexmaError, match="nothing can be written there"):
            send(summed(files), f"{web}/results")
