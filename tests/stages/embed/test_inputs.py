"""The settings of the encoder that all commands share: prompts, dimensions, length limit and precision."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.pooling import Normalize
from mexma_cli.errors import MexmaError
from mexma_cli.settings.stages import EncoderChoice
from mexma_cli.stages.embed.inputs import load_encoder
from mexma_cli.store.embeddings import EmbeddingStore
from tests.command import fails, ok, run, write
from tests.encoder.conftest import bert

PROMPTS = {"query": "query: ", "passage": "passage: ", "instruct": "Instruct: {task}\nQuery: "}
TASK = "Retrieve the translation"


@pytest.fixture
def prompted(tiny_encoder: Path, tmp_path: Path) -> Path:
    """An encoder with prompts, of which one is the default."""
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "prompted"))
    content = {"prompts": PROMPTS, "default_prompt_name": "passage"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def texts(sentences: dict[str, list[str]], tmp_path: Path) -> list[Path]:
    return [write(tmp_path / f"{name}.txt", *sentences[name], "", "Oui " * 90) for name in ("fra", "eng")]


def chosen(model: Path, **settings: object) -> SentenceEncoder:
    return load_encoder(EncoderChoice.of({"model": str(model), "device": "cpu", "dtype": "fp32"} | settings))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "passage: "),
        ({"prompt": "query"}, "query: "),
        ({"prompt": "clue: "}, "clue: "),
        ({"prompt": ""}, ""),
        ({"prompt": "instruct", "task": TASK}, f"Instruct: {TASK}\nQuery: "),
        ({"prompt": "Task: {task}. ", "task": TASK}, f"Task: {TASK}. "),
    ],
)
def test_prompts_are_those_of_sentence_transformers(
    settings: dict[str, str], text: str, prompted: Path, sentences: dict[str, list[str]]
) -> None:
    library = pytest.importorskip("sentence_transformers")
    encoder = chosen(prompted, **settings)
    assert encoder.prefix == text
    theirs = library.SentenceTransformer(str(prompted), device="cpu").encode(sentences["fra"], prompt=text)
    np.testing.assert_allclose(encoder.embed(sentences["fra"]), theirs, atol=1e-5)


def test_prompts_that_are_none(prompted: Path) -> None:
    with pytest.raises(MexmaError, match="has no prompt of the name 'document'") as caught:
        chosen(prompted, prompt="document")
    assert "query, passage, instruct" in (caught.value.hint or "")
    with pytest.raises(MexmaError, match="is for a task"):
        chosen(prompted, prompt="instruct")
    with pytest.raises(MexmaError, match=r"the prompt 'passage: ' has no \{task\} in it"):
        chosen(prompted, task=TASK)


def test_prompts_are_recorded_and_compared(prompted: Path, texts: list[Path], tmp_path: Path) -> None:
    stores = [tmp_path / f"{name}.emb" for name in ("queries", "passages")]
    how = ("--model", prompted, "--dtype", "fp32")
    for text, store, prompt in zip(texts, stores, ("query", "passage"), strict=True):
        ok(run("embed", *how, "--prompt", prompt, text, "-o", store))
        assert EmbeddingStore.open(store).manifest.prefix == PROMPTS[prompt]
    for command in ("mine", "knn"):
        output = () if command == "mine" else ("-o", tmp_path / "a.knn")
        said = f"different prompts: 'query: ' for {stores[0]}, 'passage: ' for {stores[1]}"
        fails(run(command, *stores, *output), 1, said, "same --prompt")
    fails(run("mine", texts[0], stores[1], *how, "--prompt", "query"), 1, "different prompts: 'query: '")
    ok(run("mine", texts[0], stores[1]))  # embedded as the store was
    expected = ok(run("search", *stores)).stdout
    assert (
        ok(run("search", texts[0], stores[1], "--dtype", "fp32", "--query-prompt", "query")).stdout
        == expected
    )
    assert ok(run("search", *texts, *how, "--query-prompt", "query")).stdout == expected
    other = run("search", *texts, *how, "--query-prompt", "instruct", "--task", TASK)
    assert ok(other).stdout != expected
    line = texts[0].read_text().splitlines()[0]
    typed = ("search", "--query", line, stores[1], "--dtype", "fp32", "-n", "1")
    (vector,) = chosen(prompted, prompt="query").embed([line])
    others = EmbeddingStore.open(stores[1]).vectors(0, 8)
    best = float((others @ vector / np.linalg.norm(others, axis=1) / np.linalg.norm(vector)).max())
    said = ok(run(*typed, "--query-prompt", "query")).stdout
    assert float(said.split("\t")[0]) == pytest.approx(best, abs=1e-5)
    assert ok(run(*typed)).stdout != said
    fails(run("search", *stores, "--query-prompt", "query"), 2, "is for a text; ")


@pytest.mark.parametrize("dim", [1, 12, 32])
def test_dimensions_are_those_of_sentence_transformers(
    dim: int, prompted: Path, sentences: dict[str, list[str]], tmp_path: Path
) -> None:
    library = pytest.importorskip("sentence_transformers")
    encoder = chosen(prompted, dim=dim)
    theirs = library.SentenceTransformer(str(prompted), device="cpu", truncate_dim=dim)
    np.testing.assert_allclose(encoder.embed(sentences["fra"]), theirs.encode(sentences["fra"]), atol=1e-5)
    assert encoder.dim == dim
    whole = chosen(prompted)
    assert (encoder.fingerprint == whole.fingerprint) == (dim == 32)
    encoder.save(tmp_path / "saved")
    saved = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert chosen(tmp_path / "saved").dim == saved.encode(["Oui"]).shape[1] == dim
    assert chosen(tmp_path / "saved", dim=1).dim == 1


def test_dimensions_of_normalised_vectors(tiny_encoder: Path, sentences: dict[str, list[str]]) -> None:
    """They are not normalised again; a bag's are cut, too."""
    for name in ("mini", str(tiny_encoder)):
        whole, cut = SentenceEncoder.load(name), SentenceEncoder.load(name)
        for encoder in (whole, cut):
            encoder.modules.append(Normalize())
        cut.truncate(8)
        assert whole.normalised and not cut.normalised
        assert np.array_equal(cut.embed(sentences["fra"]), whole.embed(sentences["fra"])[:, :8])


def test_dimensions_are_recorded_and_compared(prompted: Path, texts: list[Path], tmp_path: Path) -> None:
    stores = [tmp_path / f"{name}.emb" for name in "ab"]
    how = ("--model", prompted, "--dtype", "fp32")
    for text, store, dim in zip(texts, stores, (16, 8), strict=True):
        ok(run("embed", *how, "--dim", dim, text, "-o", store))
        assert EmbeddingStore.open(store).dim == dim
    said = f"different dimensions: {stores[0]} has 16, {stores[1]} has 8"
    fails(run("mine", *stores), 1, said, "--dim")
    ok(run("mine", stores[0], texts[1], "--dtype", "fp32"))
    ok(run("mine", stores[0], texts[1], *how, "--dim", 16))
    fails(run("mine", stores[0], texts[1], *how), 1, "different encoders", "--dim")
    line = texts[0].read_text().splitlines()[0]
    found = ok(run("search", "--query", line, stores[0], "--dtype", "fp32", "-n", "1")).stdout
    assert found.split("\t")[2].rstrip() == line
    fails(
        run("embed", *how, "--dim", 33, texts[0], "-o", "c.emb"),
        1,
        "has vectors of 32 numbers, and not of 33",
    )


def test_the_encoders_own_limit(tiny_encoder: Path, texts: list[Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "copy"))
    assert chosen(folder, max_tokens="encoder").max_tokens == 64
    bert(tmp_path / "bert", ["Oui."])
    assert chosen(tmp_path / "bert", max_tokens="encoder").max_tokens == 512
    assert chosen(tmp_path / "bert").max_tokens == 200
    done = ok(run("embed", "--model", folder, "--max-tokens", "encoder", texts[0]))
    assert "(1 truncated to 64 tokens" in done.stderr
    fails(run("embed", "--model", folder, "--max-tokens", "all", texts[0]), 2, "--max-tokens")
    fails(run("embed", "--model", folder, "--max-tokens", "2", texts[0]), 2, "--max-tokens")


def test_bfloat16_is_said_and_not_what_evaluations_compute_in(
    tiny_encoder: Path, texts: list[Path], tmp_path: Path
) -> None:
    bert(tmp_path / "bert", ["Oui."])
    done = ok(run("embed", "--model", tiny_encoder, "--dtype", "bf16", texts[0]))
    assert "bfloat16: near float32's vectors, not the same (--dtype fp32)\n" in done.stderr
    folder = tmp_path / "flores" / "devtest"
    folder.mkdir(parents=True)
    for text, name in zip(texts, ("fra_Latn", "eng_Latn"), strict=True):
        write(folder / f"{name}.devtest", *text.read_text().splitlines()[:8])
    done = ok(run("eval", "xsim", folder.parent, "--model", tmp_path / "bert", "--cache", "none", "--json"))
    settings = json.loads(done.stdout)["settings"] | json.loads(done.stdout)["encoder"]
    assert settings["precision"] == "float32" and settings["max_tokens"] == 512
