"""Uploading an encoder to a stand-in for the hub."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import constants

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError

COMMIT = "89abcdef0123456789abcdef0123456789abcdef"


class Upload(BaseHTTPRequestHandler):
    """As much of the hub as an upload needs; what it was given is kept."""

    made: list[dict[str, Any]]
    files: dict[str, bytes]
    refuses = False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer: dict[str, Any] = {}
        if self.path == "/api/repos/create":
            self.made.append(json.loads(body))
            answer = {"url": f"{constants.ENDPOINT}/owner/new", "name": "owner/new"}
        elif "/preupload/" in self.path:
            paths = [file["path"] for file in json.loads(body)["files"]]
            regular = {"uploadMode": "regular", "shouldIgnore": False}
            answer = {"files": [{"path": path} | regular for path in paths]}
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            answer = {"commitUrl": f"{constants.ENDPOINT}/owner/new", "commitOid": COMMIT, "success": True}
        data = json.dumps(answer).encode()
        self.send_response(403 if self.refuses else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    Upload.made, Upload.files = [], {}
    with ThreadingHTTPServer(("127.0.0.1", 0), Upload) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@pytest.mark.usefixtures("server")
def test_what_save_writes_is_uploaded(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(tiny_encoder, "cpu")
    encoder.languages = ("eng_Latn", "fra_Latn")
    assert encoder.push_to_hub("owner/new", private=True) == f"owner/new@{COMMIT}"
    assert Upload.made[0]["name"] == "new" and Upload.made[0]["visibility"] == "private"
    for name, content in Upload.files.items():
        (tmp_path / "there" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "there" / name).write_bytes(content)
    again = SentenceEncoder.load(tmp_path / "there", "cpu")
    assert np.array_equal(again.embed(["Oui."]), encoder.embed(["Oui."]))
    encoder.save(tmp_path / "saved")
    saved = {str(path.relative_to(tmp_path / "saved")) for path in (tmp_path / "saved").rglob("*.*")}
    assert set(Upload.files) == {name for name in saved if (tmp_path / "saved" / name).is_file()}
    assert b"language: [eng, fra]" in Upload.files["README.md"]


@pytest.mark.usefixtures("server")
def test_a_hub_that_refuses_it(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = SentenceEncoder.load(tiny_encoder, "cpu")
    monkeypatch.setattr(Upload, "refuses", True)
    with pytest.raises(MexmaError, match=r"'owner/new' cannot be uploaded: .*403"):
        encoder.push_to_hub("owner/new")
    for name in ("new", "owner/new@main", "a/b/c"):
        with pytest.raises(MexmaError, match="is no repository of the hub"):
            encoder.push_to_hub(name)
    assert not Upload.files
