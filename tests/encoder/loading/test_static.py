"""Static encoders, in the layouts of model2vec and sentence-transformers: that library's vectors."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.sentence_transformer import sentence_transformer
from mexma_cli.errors import MexmaError
from tests.command import fails, ok, run
from tests.command import write as write_lines
from tests.encoder.conftest import OLD, WEIGHTS, cut_off, edit, pieces, word_pieces, write

pytestmark = pytest.mark.skipif(not find_spec("sentence_transformers"), reason="needs sentence-transformers")


def theirs_of(*where: str, **settings: Any) -> Any:
    """The library's encoder; it takes seconds to import."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(*where, device="cpu", **settings)


def potion(folder: Path, texts: list[str], dtype: torch.dtype = torch.float32, **other: torch.Tensor) -> None:
    """As model2vec writes it."""
    folder.mkdir(parents=True)
    size = word_pieces(folder, texts)
    torch.manual_seed(8)
    rows = int(other["mapping"].max()) + 1 if "mapping" in other else size
    save_file({"embeddings": torch.randn(rows, 24).to(dtype), **other}, folder / WEIGHTS, {"format": "pt"})
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "seq_length": 1000000}
    write(folder / "config.json", config | {"normalize": True, "hidden_dim": 24})
    entries = [("0", ".", "StaticEmbedding"), ("1", "1_Normalize", "Normalize")]
    modules = [
        {"idx": int(name), "name": name, "path": path, "type": f"{OLD}.{kind}"}
        for name, path, kind in entries
    ]
    write(folder / "modules.json", modules)


def shared_rows(folder: Path, texts: list[str]) -> None:
    """Several tokens with a vector, and weights of tokens."""
    (folder.parent / "words").mkdir()
    size = word_pieces(folder.parent / "words", texts)
    mapping = torch.arange(size) % 100
    potion(folder, texts, torch.float16, mapping=mapping, weights=torch.rand(size))


def of_the_library(folder: Path, texts: list[str]) -> None:
    """Written by sentence-transformers, with a Dense behind it and a default prompt."""
    from sentence_transformers.sentence_transformer import modules
    from tokenizers import Tokenizer

    (folder.parent / "pieces").mkdir()
    size = pieces(folder.parent / "pieces", texts)
    torch.manual_seed(9)
    words = Tokenizer.from_file(str(folder.parent / "pieces" / "tokenizer.json"))
    parts = [modules.StaticEmbedding(words, torch.randn(size, 16)), modules.Dense(16, 12)]
    prompts: dict[str, Any] = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    theirs_of(modules=parts, **prompts).save_pretrained(str(folder))


LAYOUTS: dict[str, Callable[[Path, list[str]], None]] = {
    "potion": potion,
    "shared rows": shared_rows,
    "of the library": of_the_library,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_vectors_are_those_of_sentence_transformers(layout: str, texts: list[str], tmp_path: Path) -> None:
    LAYOUTS[layout](tmp_path / "it", texts)
    theirs = theirs_of(str(tmp_path / "it")).float().encode(texts)
    encoder = SentenceEncoder.load(tmp_path / "it", max_tokens=5000)
    assert encoder.computed_by == "NumPy, as sums over tokens" and encoder.truncated == 0
    np.testing.assert_allclose(encoder.embed(texts), theirs, atol=1e-5)
    one_by_one = np.concatenate([encoder.embed([text]) for text in texts])
    np.testing.assert_allclose(one_by_one, encoder.embed(texts), atol=1e-6)
    shorter = SentenceEncoder.load(tmp_path / "it")
    assert shorter.max_tokens == 200 and shorter.embed(texts).shape == theirs.shape
    assert shorter.truncated == 2
    for dtype in ("float32", "float16"):
        encoder.save(tmp_path / dtype, dtype)
        near = {"atol": 1e-5 if dtype == "float32" else 1e-2}
        again = SentenceEncoder.load(tmp_path / dtype, max_tokens=5000)
        np.testing.assert_allclose(again.embed(texts), theirs, **near)
        saved = theirs_of(str(tmp_path / dtype)).float()
        np.testing.assert_allclose(saved.encode(texts), theirs, **near)
        assert again.prefix == encoder.prefix
    np.testing.assert_allclose(sentence_transformer(tmp_path / "it").encode(texts), theirs, atol=1e-5)


def test_a_folder_without_modules_is_the_same(texts: list[str], tmp_path: Path) -> None:
    potion(tmp_path / "it", texts)
    expected = SentenceEncoder.load(tmp_path / "it").embed(texts)
    (tmp_path / "it" / "modules.json").unlink()
    assert np.array_equal(SentenceEncoder.load(tmp_path / "it").embed(texts), expected)
    edit("config.json", lambda config: config.update(normalize=False))(tmp_path / "it")
    encoder = SentenceEncoder.load(tmp_path / "it")
    assert not encoder.normalised and np.abs(encoder.embed(texts) - expected).max() > 0.1


def test_a_tokeniser_that_cuts_is_honoured(texts: list[str], tmp_path: Path) -> None:
    of_the_library(tmp_path / "it", texts)
    cut = {"direction": "Left", "max_length": 5, "strategy": "LongestFirst", "stride": 0}
    edit("tokenizer.json", lambda words: words.update(truncation=cut))(tmp_path / "it")
    encoder = SentenceEncoder.load(tmp_path / "it")
    assert encoder.max_tokens == 5
    theirs = theirs_of(str(tmp_path / "it")).encode(texts)
    np.testing.assert_allclose(encoder.embed(texts), theirs, atol=1e-5)
    encoder.save(tmp_path / "saved")
    np.testing.assert_allclose(theirs_of(str(tmp_path / "saved")).encode(texts), theirs, atol=1e-5)
    # What the library runs has no limit that could be set.
    edit("modules.json", lambda entries: entries[1].update(type=f"{OLD}.Dropout"))(tmp_path / "it")
    write(tmp_path / "it" / "1_Dense" / "config.json", {"dropout": 0.1})
    assert SentenceEncoder.load(tmp_path / "it", max_tokens=3).embed(texts).shape == (len(texts), 16)


def test_commands_with_it(texts: list[str], tmp_path: Path) -> None:
    potion(tmp_path / "it", texts)
    found = [write_lines(tmp_path / f"{name}.txt", *texts[start::2]) for start, name in enumerate("ab")]
    done = ok(run("embed", "--model", tmp_path / "it", found[0], "-o", tmp_path / "a.emb"))
    assert "float32" in done.stderr and "sentence-transformers" not in done.stderr
    ok(run("mine", tmp_path / "a.emb", found[1]))
    ok(run("align", "--model", tmp_path / "it", *found))
    assert "static" in ok(run("info", tmp_path / "it")).stdout
    said = ok(run("export", tmp_path / "it", "-o", tmp_path / "there")).stderr
    assert "SentenceTransformer(FOLDER)" in said and "AutoModel" not in said
    for words, said in (
        (("--dtype", "bf16"), "used on a processor and in fp32"),
        (("--pooling", "cls"), "of which it takes the mean, not cls"),
    ):
        refused = run("embed", "--model", tmp_path / "it", *words, found[0], "-o", tmp_path / "b.emb")
        fails(refused, 1, said)
    encoder = SentenceEncoder.load(tmp_path / "it")
    with pytest.raises(MexmaError, match="only embeds"):
        encoder.check_packs("training")
    with pytest.raises(MexmaError, match="a static encoder is not quantised"):
        encoder.save(tmp_path / "pq", "pq")


def smaller(folder: Path) -> None:
    table = load_file(folder / WEIGHTS)["embeddings"]
    save_file({"embeddings": table[:-1].clone()}, folder / WEIGHTS)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a vector less": (smaller, "it has token ids up to .* and there are .* vectors"),
    "cut off": (cut_off(WEIGHTS, 300), "model.safetensors cannot be read"),
    "no table": (
        lambda f: save_file({"other": torch.zeros(2, 2)}, f / WEIGHTS),
        "cannot be read: it has no embedding.weight and no embeddings",
    ),
    "a row of none": (
        lambda f: save_file({"embeddings": torch.zeros(3, 2), "mapping": torch.full((99,), 7)}, f / WEIGHTS),
        "model.safetensors cannot be read",
    ),
    "no tokeniser": (lambda f: (f / "tokenizer.json").unlink(), "it has no tokeniser"),
    "half a tokeniser": (cut_off("tokenizer.json", 99), "tokenizer.json cannot be read"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_damaged_folders(case: str, texts: list[str], tmp_path: Path) -> None:
    potion(tmp_path / "it", texts)
    change, message = BROKEN[case]
    change(tmp_path / "it")
    with pytest.raises(MexmaError, match=message):
        SentenceEncoder.load(tmp_path / "it")
