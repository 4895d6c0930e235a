"""Folders and hub names that are no whole encoder: one clear message each, and exit code 1."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading import hub
from mexma_cli.encoder.loading.card import Trained
from mexma_cli.encoder.loading.folder import BUNDLED, CHECKSUMS
from mexma_cli.errors import MexmaError
from mexma_cli.main import cli
from tests.command import fails, ok, run
from tests.encoder.conftest import WEIGHTS, change_json, cut_off, edit
from tests.examples import recipe_file
from tests.stores import flip


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("Oui.\nNon.\n", encoding="utf-8")
    return path


def embed(model: str | Path, corpus: Path) -> Result:
    return CliRunner().invoke(cli, ["embed", "--model", str(model), "--device", "cpu", str(corpus)])


def fewer_words(folder: Path) -> None:
    """Weights of a smaller model under the same tokeniser."""
    tensors = load_file(folder / WEIGHTS)
    name = next(name for name in tensors if name.endswith("word_embeddings.weight"))
    tensors[name] = tensors[name][:100].clone()
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    change_json("config.json", vocab_size=100)(folder)


def one_weight_less(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    change_json("tokenizer_config.json", tokenizer_class="BertTokenizer")(folder)


def no_room(folder: Path) -> None:
    """A plain folder, whose length limit is the tokeniser's."""
    (folder / "modules.json").unlink()
    change_json("tokenizer_config.json", model_max_length=0)(folder)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "tokeniser of a larger model": (
        fewer_words,
        "it has token ids up to 144 (tokeniser: 145 tokens; weights: 100)",
    ),
    "other first token": (
        change_json("config.json", bos_token_id=5),
        "bos_token_id is 5 in config.json and 0 in it (tokeniser: 145 tokens; weights: 145)",
    ),
    "other last token": (
        change_json("config.json", eos_token_id=3),
        "eos_token_id is 3 in config.json and 2 in it",
    ),
    "other padding": (
        change_json("tokenizer_config.json", pad_token="<unk>"),
        "pad_token_id is 1 in config.json and 3 in it",
    ),
    "no unknown token": (
        edit("tokenizer.json", lambda content: content["model"].update(unk_id=None)),
        "the tokeniser does not work: ",
    ),
    "no tokeniser": (no_tokenizer, "it has no tokeniser (tokenizer.json)"),
    "tokeniser cut off": (cut_off("tokenizer.json", 999), "cannot be loaded as an encoder"),
    "no weights": (
        lambda f: (f / WEIGHTS).unlink(),
        "has no weights (model.safetensors or pytorch_model.bin)",
    ),
    "weights cut off": (cut_off(WEIGHTS, -100), "model.safetensors cannot be read: "),
    "weights empty": (cut_off(WEIGHTS, 0), "model.safetensors cannot be read: "),
    "weights that are none": (
        lambda f: (f / WEIGHTS).write_bytes(b"x" * 9999),
        "model.safetensors cannot be read: ",
    ),
    "a weight missing": (
        one_weight_less,
        "1 of the weights are missing or have another shape, such as encoder.layer.1.output.dense.weight",
    ),
    "weights of another shape": (
        change_json("config.json", vocab_size=400),
        "such as embeddings.word_embeddings.weight",
    ),
    "config not JSON": (lambda f: (f / "config.json").write_text("model_type: bert"), "not valid JSON"),
    "config empty": (lambda f: (f / "config.json").write_text("{}"), "no config.json, or an empty one"),
    "unknown activation": (
        change_json("config.json", hidden_act="swoosh"),
        "config.json: hidden_act 'swoosh' is not supported",
    ),
    "heads that do not divide the width": (
        change_json("config.json", num_attention_heads=5),
        "hidden size (32) is not a multiple of the number of attention heads (5)",
    ),
    "norms of no number": (
        change_json("config.json", layer_norm_eps=None),
        "'layer_norm_eps' expected float, got NoneType",
    ),
    "no padding": (
        change_json("config.json", pad_token_id=None),
        "config.json has pad_token_id null, without which xlm-roberta does not work",
    ),
    "no room for a sentence": (no_room, "model_max_length in tokenizer_config.json is 0"),
    "an adapter": (
        lambda f: (f / "adapter_config.json").write_text("{}"),
        "holds an adapter (adapter_config.json), which is not applied",
    ),
    "config a list": (lambda f: (f / "config.json").write_text("[]"), "config.json: not a JSON object"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_folder_is_one_message(case: str, folder: Path, corpus: Path) -> None:
    change, message = BROKEN[case]
    change(folder)
    done = embed(folder, corpus)
    assert done.exit_code == 1, done.output
    assert message in done.stderr
    assert done.stderr.count("\n") <= 2 and "Traceback" not in done.stderr
    assert done.stdout == "" and not corpus.with_suffix(".emb").exists()


def test_a_run_without_its_encoder_is_told_from_other_folders(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    assert "is not an encoder's folder" in embed(run, corpus).stderr
    keys = {"objective": {"name": "bag"}, "trainer": {"steps": 1}}
    recipe_file(run, [], keys | {"encoder": {"from": "mini"}})
    (run / "log.jsonl").touch()
    done = embed(run, corpus)
    assert done.exit_code == 1 and "a training run that holds no encoder" in done.stderr
    assert "--resume" in done.stderr


@pytest.mark.parametrize("padding", [0, 1, None])
def test_ids_in_a_berts_config_mean_nothing(
    padding: int | None, folder: Path, sentences: dict[str, list[str]]
) -> None:
    """Published BERTs carry RoBERTa's, or their own beside XLM-R's tokeniser, which is right all the same."""
    config = BertConfig(
        vocab_size=300, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, pad_token_id=padding, bos_token_id=7, eos_token_id=8,
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False).eval()
    model.save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["bos_token_id"] == 7
    encoder = SentenceEncoder.load(str(folder), "cpu")
    inputs = encoder.tokenizer(sentences["fra"], padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state[:, 0]
    assert np.abs(encoder.embed(sentences["fra"]) - expected.numpy()).max() < 1e-5


def test_a_line_of_unknown_characters_is_a_line(tiny_encoder: Path, corpus: Path) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    strange = ["\U000f1234\U000f1235", "漢字", "☃ " * 500]
    vectors = encoder.embed([*strange, "Oui"])
    assert vectors.shape == (4, 32) and np.isfinite(vectors).all()
    assert encoder.truncated == 1
    assert all(encoder.tokenizer.unk_token_id in ids for ids in encoder.tokenize(strange))
    corpus.write_text("\U000f1234\n", encoding="utf-8")
    assert embed(tiny_encoder, corpus).exit_code == 0


def test_a_slash_at_the_end_is_the_same_folder(tiny_encoder: Path, corpus: Path) -> None:
    encoder = SentenceEncoder.load(f"{tiny_encoder}/", "cpu")
    assert encoder.name == str(tiny_encoder)
    assert embed(f"{tiny_encoder}/", corpus).exit_code == 0


# Checksums.


@pytest.fixture
def saved(tiny_encoder: Path, tmp_path: Path) -> Path:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    encoder.languages, encoder.trained = ("fra_Latn",), {"fra_Latn": Trained(pairs=3)}
    encoder.save(tmp_path / "saved")
    return tmp_path / "saved"


def refused(folder: Path, message: str) -> None:
    with pytest.raises(MexmaError, match=message) as found:
        SentenceEncoder.load(str(folder), "cpu")
    assert f"if it was changed on purpose, delete {folder / CHECKSUMS}" in str(found.value.hint)


def test_another_bit_in_any_file_is_noticed(saved: Path) -> None:
    """Vectors would be others, and nobody would know."""
    names = {str(path.relative_to(saved)) for path in saved.rglob("*") if path.is_file()}
    assert set(json.loads((saved / CHECKSUMS).read_text())["files"]) == names - {CHECKSUMS, "README.md"}
    for name in names - {"README.md"}:
        middle = (saved / name).stat().st_size // 2
        flip(saved / name, middle)
        refused(saved, f"{saved / name} is damaged: ")
        flip(saved / name, middle)
    SentenceEncoder.load(str(saved), "cpu")


def test_a_file_that_is_gone_is_missed(saved: Path) -> None:
    (saved / "sentence_bert_config.json").unlink()  # no other file says that it was there
    refused(saved, "sentence_bert_config.json is missing")


def test_what_is_changed_on_purpose(saved: Path) -> None:
    """The model card is for people to write on; without checksums a folder is as others write it."""
    (saved / "README.md").write_text("My encoder.\n")
    before = SentenceEncoder.load(str(saved), "cpu").fingerprint
    change_json("sentence_bert_config.json", max_seq_length=9)(saved)
    refused(saved, "sentence_bert_config.json is damaged")
    (saved / CHECKSUMS).unlink()
    assert SentenceEncoder.load(str(saved), "cpu").fingerprint != before


# The hub.


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


def not_called(*_: object) -> None:
    pytest.fail("it waits and tries again")


@pytest.mark.usefixtures("empty_cache")
def test_a_hub_that_refuses_is_said_at_once(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        monkeypatch.setattr(
            "huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}"
        )
        monkeypatch.setattr(time, "sleep", not_called)  # between a request and the next
        done = embed("owner/name", corpus)
    assert done.exit_code == 1
    assert (
        "encoder 'owner/name' cannot be loaded: it is not in the cache, and the hub cannot be" in done.stderr
    )


@pytest.mark.usefixtures("empty_cache")
def test_a_hub_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PATIENCE", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setattr(
            "huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}"
        )
        monkeypatch.setattr(time, "sleep", not_called)
        with pytest.raises(MexmaError, match="the hub cannot be reached"):
            hub.fetch("owner/name")
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):  # asked once
            silent.accept()


@pytest.mark.usefixtures("empty_cache")
def test_without_a_network_by_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(MexmaError, match="HF_HUB_OFFLINE is set"):
        hub.fetch("owner/name")


def test_only_what_an_encoder_is_made_of_is_fetched() -> None:
    wanted = ["config.json", "modules.json", "tokenizer.json", "vocab.txt", "sentencepiece.bpe.model"]
    wanted += ["model-00001-of-00002.safetensors", "1_Pooling/config.json", "2_Dense/pytorch_model.bin"]
    others = ["pytorch_model.bin", "tf_model.h5", "onnx/config.json", "training_args.bin", "onnx/README.md"]
    others += ["0_Transformer/x/config.json", "modeling.py", "flax_model.msgpack", ".gitattributes"]
    assert hub.wanted_files([*others, *wanted]) == wanted
    assert hub.wanted_files(["modeling.py"], python=True) == ["modeling.py"]


def test_of_an_encoder_that_mexma_wrote_all_is_fetched() -> None:
    mini = BUNDLED / "mini"
    names = [str(file.relative_to(mini)) for file in mini.rglob("*") if file.is_file()]
    assert hub.wanted_files(names) == names


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as a download needs: repositories' lists of files, and the files."""

    repositories: dict[str, Path]
    asked: list[str]
    sha = "0123456789abcdef0123456789abcdef01234567"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.split("?")[0].strip("/")
        self.asked.append(path)
        if path.startswith("api/models/"):
            name = "/".join(path.split("/")[2:4])
            if name not in self.repositories:
                return self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            files = sorted(p for p in self.repositories[name].rglob("*") if p.is_file())
            names = [str(file.relative_to(self.repositories[name])) for file in files]
            if "/tree/" in path:
                entries = [
                    {"type": "file", "path": file, "oid": self.oid(name, file),
                     "size": (self.repositories[name] / file).stat().st_size}
                    for file in names
                ]  # fmt: skip
                return self.answer(200, json.dumps(entries).encode())
            info = {"id": name, "sha": self.sha, "siblings": [{"rfilename": file} for file in names]}
            return self.answer(200, json.dumps(info).encode())
        owner, name, _, _, *file = path.split("/")
        where = self.repositories[f"{owner}/{name}"] / "/".join(file)
        headers = {"X-Repo-Commit": self.sha}
        if not where.is_file():
            return self.answer(404, b"", headers | {"X-Error-Code": "EntryNotFound"})
        etag = self.oid(f"{owner}/{name}", "/".join(file))
        return self.answer(200, where.read_bytes(), headers | {"ETag": f'"{etag}"'})

    def oid(self, name: str, file: str) -> str:
        return sha1((self.repositories[name] / file).read_bytes()).hexdigest()

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ThreadingHTTPServer]:
    plain = Path(shutil.copytree(tiny_encoder, tmp_path / "plain"))
    for file in ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        (plain / file).unlink()
    (plain / "flax_model.msgpack").write_bytes(b"x")
    old = Path(shutil.copytree(tiny_encoder, tmp_path / "old"))
    (old / "0_Transformer").mkdir()
    for file in [file for file in old.glob("*.*") if file.name != "modules.json"]:
        file.rename(old / "0_Transformer" / file.name)
    modules = (old / "modules.json").read_text()
    (old / "modules.json").write_text(modules.replace('"path": ""', '"path": "0_Transformer"'))
    Hub.repositories, Hub.asked = {"owner/tiny": tiny_encoder, "owner/plain": plain, "owner/old": old}, []
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        address, files = f"http://127.0.0.1:{server.server_port}", "{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", f"{address}/{files}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.usefixtures("empty_cache")
def test_a_hub_name_is_fetched_and_then_found_without_a_network(
    server: ThreadingHTTPServer, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(name: str) -> str:
        try:
            return SentenceEncoder.load(name, "cpu").fingerprint
        except MexmaError as error:
            return error.message

    expected = ask(str(tiny_encoder))
    assert ask("owner/tiny") == ask("owner/old") == expected
    plain = ask("owner/plain")
    assert len(plain) == 32
    assert "the hub has no such repository" in ask("owner/other")
    server.shutdown()
    server.server_close()
    for offline in (False, True):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
        assert ask("owner/tiny") == ask("owner/old") == expected
        assert ask("owner/plain") == plain  # that it has no modules.json is known
    next((tmp_path / "cache").rglob("models--owner--plain/.no_exist/*/modules.json")).unlink()
    assert "the cache does not know whether it has a modules.json" in ask("owner/plain")
    assert not list((tmp_path / "cache").rglob("flax_model.msgpack"))


@pytest.mark.usefixtures("empty_cache", "server")
class TestRevisions:
    """A hub id is pinned to a commit: manifests name it, and nothing is fetched that only they name."""

    pinned = f"owner/tiny@{Hub.sha}"

    def store(self, corpus: Path, *options: str) -> Path:
        ok(run("embed", "--model", "owner/tiny", *options, "--device", "cpu", corpus))
        return corpus.with_suffix(".emb")

    @pytest.mark.parametrize("revision", [None, Hub.sha, "a-tag"])
    def test_the_commit_is_in_the_manifest(self, revision: str | None, corpus: Path) -> None:
        store = self.store(corpus, *(["--revision", revision] if revision else []))
        assert json.loads((store / "manifest.json").read_text())["encoder"] == self.pinned
        asked = {path for path in Hub.asked if "/revision/" in path}
        assert asked == {f"api/models/owner/tiny/revision/{revision or 'main'}"}

    def test_a_query_is_embedded_by_the_copy_that_is_there(self, corpus: Path, tmp_path: Path) -> None:
        store, other = self.store(corpus), tmp_path / "other.txt"
        other.write_text("Peut-être.\n")
        Hub.asked.clear()
        for command in (("search", "--query", "Oui.", store), ("mine", other, store)):
            assert f"using the store's encoder, {self.pinned}" in ok(run(*command)).stderr
        assert not Hub.asked
        shutil.rmtree(tmp_path / "cache")
        for command in (
            ("search", "--query", "Oui.", store),
            ("mine", other, store),
            ("score", store, corpus),
        ):
            done = fails(run(*command), 1, f"the store's encoder, {self.pinned}, is not on this machine")
            assert f"to fetch it: --model owner/tiny --revision {Hub.sha}" in done.stderr
        assert not Hub.asked
        ok(run("search", "--query", "Oui.", store, "--model", "owner/tiny", "--revision", Hub.sha))

    def test_stores_of_two_commits_are_told_apart(
        self, corpus: Path, tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store, later = self.store(corpus), tmp_path / "later.emb"
        changed = Path(shutil.copytree(tiny_encoder, tmp_path / "changed"))
        change_json("sentence_bert_config.json", max_seq_length=9)(changed)
        monkeypatch.setitem(Hub.repositories, "owner/tiny", changed)
        monkeypatch.setattr(Hub, "sha", Hub.sha[::-1])
        self.store(corpus, "-o", str(later))
        named = f"different encoders: {self.pinned} for {store}, owner/tiny@{Hub.sha} for {later}"
        fails(run("mine", store, later), 1, named)

    def test_code_is_run_at_a_commit_only(self, corpus: Path) -> None:
        for revision in ([], ["--revision", "main"], ["--revision", Hub.sha[:12]]):
            words = ("embed", "--model", "owner/tiny", *revision, "--trust-remote-code", corpus)
            fails(run(*words), 1, "is run at a pinned revision only", "--revision COMMIT")
        assert not Hub.asked
        store = self.store(corpus, "--revision", Hub.sha, "--trust-remote-code")
        unnamed = run("search", "--query", "Oui.", store, "--trust-remote-code")
        fails(unnamed, 1, f"{self.pinned} is named by a store alone", f"--model {self.pinned}")

    def test_a_revision_is_of_a_hub_id(self, corpus: Path, tiny_encoder: Path) -> None:
        fails(run("embed", "--revision", "main", corpus), 2, "--revision is of a hub id")
        fails(run("embed", "--model", tiny_encoder, "--revision", "main", corpus), 1, "no encoder")
