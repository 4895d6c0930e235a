"""Encoders in their publishers' layouts: the vectors of sentence-transformers and of transformers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import (
    ByteLevelBPETokenizer,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
    XLMRobertaModel,
)

from mexma_cli.encoder.attention import run_packed, use_packed_attention
from mexma_cli.encoder.encoder import SentenceEncoder, first_position
from mexma_cli.encoder.modules import Dense
from mexma_cli.encoder.packing import pack
from mexma_cli.errors import MexmaError
from mexma_cli.recipe import TrainTokenizer
from mexma_cli.stages.tokenizer import train_tokenizer

WEIGHTS = "model.safetensors"
WIDTH = 32
SHAPE: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.3,
}
OLD = "sentence_transformers.models"
LONG = "Le chat dort. " * 100


@pytest.fixture(scope="module")
def texts(sentences: dict[str, list[str]]) -> list[str]:
    """Short ones, an empty one, one of unknown characters, and two over every limit."""
    return [*sentences["fra"], "", LONG, "Oui", *sentences["eng"], LONG * 3, "漢字 только"]


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


# Tokenisers, in the files that the publishers have.


def word_pieces(folder: Path, texts: list[str], lower: bool = False) -> int:
    """BERT's, as LaBSE has it: tokenizer.json, vocab.txt, tokenizer_config.json."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word, _ in words), encoding="utf-8")
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    config = dict(zip(names, special, strict=True)) | {"do_lower_case": lower, "model_max_length": 512}
    write(folder / "tokenizer_config.json", config | {"tokenizer_class": "BertTokenizer"})
    return len(words)


def pieces(folder: Path, texts: list[str]) -> int:
    """XLM-R's Unigram."""
    tokenizer = train_tokenizer(TrainTokenizer(vocabulary=300), lambda: iter(texts))
    tokenizer.model_max_length = 512
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def byte_pairs(folder: Path, texts: list[str]) -> int:
    """RoBERTa's."""
    tokenizer = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(texts, vocab_size=320, special_tokens=special)
    tokenizer._tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer.save_model(str(folder))
    write(folder / "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer", "model_max_length": 512})
    return tokenizer.get_vocab_size()


# Models.


def bert(folder: Path, texts: list[str], pooler: bool = True, **changes: Any) -> None:
    torch.manual_seed(1)
    folder.mkdir(parents=True, exist_ok=True)
    config = BertConfig(
        vocab_size=word_pieces(folder, texts), max_position_embeddings=512, **SHAPE, **changes
    )
    model = BertModel(config, add_pooling_layer=pooler)
    with torch.no_grad():
        model.embeddings.token_type_embeddings.weight.normal_()
    model.save_pretrained(folder)


def robertas(kind: str, folder: Path, texts: list[str], pooler: bool = False) -> None:
    torch.manual_seed(2)
    folder.mkdir(parents=True, exist_ok=True)
    configs = {"xlmr": XLMRobertaConfig, "roberta": RobertaConfig, "camembert": CamembertConfig}
    classes = {"xlmr": XLMRobertaModel, "roberta": RobertaModel, "camembert": CamembertModel}
    size = byte_pairs(folder, texts) if kind == "roberta" else pieces(folder, texts)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = configs[kind](vocab_size=size, max_position_embeddings=514, type_vocab_size=1, **SHAPE, **ids)
    classes[kind](config, add_pooling_layer=pooler).save_pretrained(folder)


def modules_json(folder: Path, *kinds: str) -> None:
    entries = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"{OLD}.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    write(folder / "modules.json", entries)


def pooling_json(folder: Path, mode: str) -> None:
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    config = {f"pooling_mode_{other}": other == mode for other in modes}
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": WIDTH} | config)


def labse(folder: Path, texts: list[str]) -> None:
    """sentence-transformers/LaBSE: BERT, CLS, Dense with tanh, Normalize."""
    bert(folder, texts)
    modules_json(folder, "Transformer", "Pooling", "Dense", "Normalize")
    pooling_json(folder, "cls_token")
    write(folder / "sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": False})
    config = {"in_features": WIDTH, "out_features": 24, "bias": True}
    tanh = {"activation_function": "torch.nn.modules.activation.Tanh"}
    write(folder / "2_Dense" / "config.json", config | tanh)
    linear = torch.nn.Linear(WIDTH, 24)
    torch.save({f"linear.{key}": value for key, value in linear.state_dict().items()}, folder / DENSE_BIN)


DENSE_BIN = "2_Dense/pytorch_model.bin"


def e5(folder: Path, texts: list[str]) -> None:
    """intfloat/multilingual-e5: XLM-R with pooler weights that nobody uses, mean, Normalize."""
    robertas("xlmr", folder, texts, pooler=True)
    modules_json(folder, "Transformer", "Pooling", "Normalize")
    pooling_json(folder, "mean_tokens")
    write(folder / "sentence_bert_config.json", {"max_seq_length": 512, "do_lower_case": False})
    write(folder / "config_sentence_transformers.json", {"prompts": {}, "default_prompt_name": None})


def old_roberta(folder: Path, texts: list[str]) -> None:
    """As sentence-transformers 1 wrote it: the transformer in a folder, its limit in a file, of their own."""
    robertas("roberta", folder / "0_Transformer", texts)
    pooling_json(folder, "mean_tokens")
    write(folder / "0_Transformer" / "sentence_roberta_config.json", {"max_seq_length": 128})
    write(
        folder / "modules.json",
        [
            {"idx": 0, "name": "0", "path": "0_Transformer", "type": f"{OLD}.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{OLD}.Pooling"},
        ],
    )


def lower_cased(folder: Path, texts: list[str]) -> None:
    """do_lower_case in front of a tokeniser that keeps capitals."""
    robertas("xlmr", folder, texts)
    modules_json(folder, "Transformer", "Pooling")
    pooling_json(folder, "cls_token")
    write(folder / "sentence_bert_config.json", {"max_seq_length": 200, "do_lower_case": True})


def of_today(folder: Path, texts: list[str]) -> None:
    """Written by the installed sentence-transformers: three Dense, and a default prompt."""
    st = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import modules

    plain = folder.parent / f"{folder.name}-plain"
    robertas("camembert", plain, texts)
    torch.manual_seed(5)
    layers = [
        modules.Transformer(str(plain), max_seq_length=90),
        modules.Pooling(WIDTH, "mean"),
        modules.Dense(WIDTH, 48, activation_function=torch.nn.GELU()),
        modules.Normalize(),
        modules.Dense(48, 20, bias=False, activation_function=torch.nn.Identity()),
        modules.Dense(20, 16, activation_function=torch.nn.ReLU()),
    ]
    prompts = {"query": "query: ", "passage": "passage: "}
    model = st.SentenceTransformer(modules=layers, prompts=prompts, default_prompt_name="query", device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)


PUBLISHED: dict[str, Callable[[Path, list[str]], None]] = {
    "labse": labse,
    "e5": e5,
    "old roberta": old_roberta,
    "lower cased": lower_cased,
    "of today": of_today,
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> Callable[[str], Path]:
    """Folders of sentence-transformers by name, made once."""
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("published") / name.replace(" ", "-")
            PUBLISHED[name](made[name], texts)
        return made[name]

    return get


@pytest.fixture
def copy(published: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """One of them to break."""
    return lambda name: Path(shutil.copytree(published(name), tmp_path / "copy"))


def sentence_transformers(folder: Path, texts: list[str]) -> np.ndarray:
    st = pytest.importorskip("sentence_transformers")
    return st.SentenceTransformer(str(folder), device="cpu").encode(texts, show_progress_bar=False)


@pytest.mark.parametrize("name", PUBLISHED)
def test_vectors_are_those_of_sentence_transformers(
    name: str, published: Callable[[str], Path], texts: list[str], tmp_path: Path
) -> None:
    encoder = SentenceEncoder.load(str(published(name)), "cpu", max_tokens=512)
    ours, theirs = encoder.embed(texts), sentence_transformers(published(name), texts)
    assert encoder.truncated == 2  # the limit is the same one
    assert ours.shape == theirs.shape == (len(texts), encoder.dim)
    assert np.abs(ours - theirs).max() < 1e-5
    encoder.save(tmp_path / "saved")
    again = SentenceEncoder.load(str(tmp_path / "saved"), "cpu", max_tokens=512)
    assert again.fingerprint == encoder.fingerprint
    assert (again.prefix, again.max_tokens) == (encoder.prefix, encoder.max_tokens)
    assert np.array_equal(again.embed(texts), ours)
    assert np.abs(sentence_transformers(tmp_path / "saved", texts) - ours).max() < 1e-5


def test_what_the_folders_say_is_kept(published: Callable[[str], Path]) -> None:
    encoders = {name: SentenceEncoder.load(str(published(name)), "cpu") for name in PUBLISHED}
    assert {name: encoder.max_tokens for name, encoder in encoders.items()} == {
        "labse": 200,  # its own is larger
        "e5": 200,
        "old roberta": 128,
        "lower cased": 200,
        "of today": 90,
    }
    assert {name: str(list(encoder.modules)) for name, encoder in encoders.items()} == {
        "labse": f"[Dense({WIDTH}, 24, Tanh), Normalize()]",
        "e5": "[Normalize()]",
        "old roberta": "[]",
        "lower cased": "[]",
        "of today": f"[Dense({WIDTH}, 48, GELU), Normalize(), Dense(48, 20, Identity), Dense(20, 16, ReLU)]",
    }
    assert [name for name, encoder in encoders.items() if encoder.normalised] == ["labse", "e5"]
    assert encoders["of today"].prefix == "query: "
    assert encoders["of today"].dim == 16
    assert SentenceEncoder.load(str(published("labse")), "cpu", max_tokens=300).max_tokens == 256
    assert SentenceEncoder.load(str(published("labse")), "cpu", max_tokens=30).max_tokens == 30


@pytest.mark.parametrize(("kind", "positions"), [("bert", 512), ("xlmr", 512)])
def test_a_folder_that_names_no_limit_has_that_of_its_positions(
    kind: str, positions: int, texts: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    PLAIN[kind](tmp_path / kind, texts)
    config = json.loads((tmp_path / kind / "tokenizer_config.json").read_text())
    del config["model_max_length"]
    write(tmp_path / kind / "tokenizer_config.json", config)
    assert SentenceEncoder.load(str(tmp_path / kind), "cpu").max_tokens == 200
    assert not caplog.messages
    encoder = SentenceEncoder.load(str(tmp_path / kind), "cpu", max_tokens=600)
    assert encoder.max_tokens == positions
    assert f"takes {positions} tokens at most: the limit is {positions}, not 600" in caplog.text
    assert np.isfinite(encoder.embed([LONG * 3])).all()
    assert encoder.truncated == 1


def test_the_fingerprint_is_of_the_modules_too(copy: Callable[[str], Path]) -> None:
    folder = copy("labse")
    found = [SentenceEncoder.load(str(folder), "cpu").fingerprint]
    weights = torch.load(folder / DENSE_BIN, weights_only=True)
    weights["linear.bias"][0] += 1
    torch.save(weights, folder / DENSE_BIN)
    found.append(SentenceEncoder.load(str(folder), "cpu").fingerprint)
    change_json(DENSE, activation_function="torch.nn.modules.activation.ReLU")(folder)
    found.append(SentenceEncoder.load(str(folder), "cpu").fingerprint)
    change_modules(lambda entries: entries.pop())(folder)
    found.append(SentenceEncoder.load(str(folder), "cpu").fingerprint)
    found.append(SentenceEncoder.load(str(folder), "cpu", pooling="mean").fingerprint)
    assert len(set(found)) == 5


def test_a_prefix_stands_before_every_sentence(published: Callable[[str], Path], texts: list[str]) -> None:
    encoder = SentenceEncoder.load(str(published("e5")), "cpu")
    expected, fingerprint = encoder.embed([f"passage: {text}" for text in texts]), encoder.fingerprint
    encoder.prefix = "passage: "
    assert np.array_equal(encoder.embed(texts), expected)
    assert encoder.fingerprint == fingerprint


PLAIN: dict[str, Callable[[Path, list[str]], None]] = {
    "bert": bert,
    **{
        kind: lambda folder, texts, kind=kind: robertas(kind, folder, texts, pooler=True)
        for kind in ("xlmr", "roberta", "camembert")
    },
}


def padded(folder: Path, texts: list[str], pooling: str) -> np.ndarray:
    """By transformers alone, cut to 200 tokens."""
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=200, return_tensors="pt")
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        output = model(**inputs)
    if pooling == "pooler":
        return output.pooler_output.numpy()
    if pooling == "cls":
        return output.last_hidden_state[:, 0].numpy()
    mask = inputs["attention_mask"][..., None]
    return ((output.last_hidden_state * mask).sum(1) / mask.sum(1)).numpy()


@pytest.mark.parametrize("pooling", ["cls", "mean", "pooler"])
@pytest.mark.parametrize("kind", PLAIN)
def test_plain_folders_have_their_pooling_by_flag(
    kind: str, pooling: Any, texts: list[str], tmp_path: Path
) -> None:
    PLAIN[kind](tmp_path / kind, texts)
    encoder = SentenceEncoder.load(f"{tmp_path / kind}/", "cpu", pooling=pooling)
    ours = encoder.embed(texts)
    assert encoder.truncated == 2 and encoder.pooling == pooling
    assert np.abs(ours - padded(tmp_path / kind, texts, pooling)).max() < 1e-5
    encoder.save(tmp_path / "saved")
    again = SentenceEncoder.load(str(tmp_path / "saved"), "cpu")
    assert again.fingerprint == encoder.fingerprint
    assert np.array_equal(again.embed(texts), ours)
    assert np.abs(sentence_transformers(tmp_path / "saved", texts) - ours).max() < 1e-5


@pytest.mark.parametrize("published_as", ["bare", "with pooler", "masked language model"])
def test_mexma_is_cls_however_it_was_published(published_as: str, texts: list[str], tmp_path: Path) -> None:
    robertas("xlmr", tmp_path / "mexma", texts, pooler=published_as == "with pooler")
    if published_as == "masked language model":
        model = XLMRobertaForMaskedLM.from_pretrained(tmp_path / "mexma")
        model.save_pretrained(tmp_path / "mexma")
    encoder = SentenceEncoder.load(str(tmp_path / "mexma"), "cpu")
    assert (encoder.pooling, encoder.normalised, encoder.max_tokens) == ("cls", False, 200)
    assert np.abs(encoder.embed(texts) - padded(tmp_path / "mexma", texts, "cls")).max() < 1e-5
    if published_as != "with pooler":
        with pytest.raises(MexmaError, match="has no pooler weights"):
            SentenceEncoder.load(str(tmp_path / "mexma"), "cpu", pooling="pooler")


# Packed and padded: see test_attention.py for XLM-R.


@pytest.fixture(scope="module")
def berts(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> tuple[PreTrainedModel, PreTrainedModel]:
    """The same BERT packed and as transformers runs it; its token types have weights to be noticed."""
    folder = tmp_path_factory.mktemp("bert")
    bert(folder, texts, pooler=False)
    model = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    packed = deepcopy(model)
    use_packed_attention(packed)
    return packed, model


def states(model: PreTrainedModel, sentences: list[np.ndarray]) -> torch.Tensor:
    """Hidden states [T, dim] of padded sentences."""
    longest = max(map(len, sentences))
    mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in sentences])
    ids = torch.zeros_like(mask)
    ids[mask.bool()] = torch.from_numpy(np.concatenate(sentences))
    return model(input_ids=ids, attention_mask=mask).last_hidden_state[mask.bool()]


@pytest.mark.parametrize("lengths", [[512, 512, 3], [1, 400, 400, 400, 60, 2, 2]], ids=str)
def test_bert_in_a_batch_longer_than_its_positions(
    lengths: list[int], berts: tuple[PreTrainedModel, PreTrainedModel]
) -> None:
    packed, reference = berts
    rng = np.random.default_rng(0)
    sentences = [rng.integers(5, packed.config.vocab_size, length) for length in lengths]
    batch = pack(sentences, first_position(packed))
    assert len(batch.input_ids) > packed.config.max_position_embeddings
    weight = torch.randn(len(batch.input_ids), WIDTH, generator=torch.Generator().manual_seed(0))
    for model in berts:
        model.zero_grad()
    ours, theirs = run_packed(packed, batch, "bucketed"), states(reference, sentences)
    assert (ours - theirs).abs().max() < 1e-5
    (ours * weight).sum().backward()
    (theirs * weight).sum().backward()
    expected = dict(reference.named_parameters())
    for name, parameter in packed.named_parameters():
        assert parameter.grad is not None and expected[name].grad is not None, name
        # A key's bias moves no attention weight: its gradient is rounding noise of what it is summed from.
        scale = 30.0 if name.endswith("key.bias") else max(1.0, float(expected[name].grad.abs().max()))
        assert float((parameter.grad - expected[name].grad).abs().max()) < 1e-5 * scale, name


# What is refused.


def change_json(name: str, **changes: Any) -> Callable[[Path], object]:
    return lambda folder: write(folder / name, json.loads((folder / name).read_text()) | changes)


def change_modules(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        entries = json.loads((folder / "modules.json").read_text())
        change(entries)
        write(folder / "modules.json", entries)

    return apply


def other_dense(folder: Path) -> None:
    save_file(
        {"linear.weight": torch.zeros(24, 7), "linear.bias": torch.zeros(24)}, folder / "2_Dense" / WEIGHTS
    )


DENSE, POOL, LIMIT = "2_Dense/config.json", "1_Pooling/config.json", "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "max": (change_json(POOL, pooling_mode="max"), "pooling 'max' is not supported"),
    "weighted": (change_json(POOL, pooling_mode="weightedmean"), "pooling 'weightedmean' is not supported"),
    "two": (change_json(POOL, pooling_mode=["cls", "mean"]), r"pooling 'cls\+mean' is not supported"),
    "two by flags": (
        change_json(POOL, pooling_mode_mean_tokens=True),
        r"pooling 'cls_token\+mean_tokens' is not supported",
    ),
    "prompt left out": (change_json(POOL, include_prompt=False), "include_prompt False is not supported"),
    "no pooling config": (lambda f: (f / POOL).unlink(), "the pooling's config.json is not there"),
    "no pooling": (change_modules(lambda m: m.pop(1)), "modules Transformer, Dense, Normalize are not"),
    "two poolings": (change_modules(lambda m: m.append(m[1])), "not supported in this order"),
    "own module": (
        change_modules(lambda m: m[3].update(type="custom_st.Normalize")),
        r"the module 'Normalize' \(custom_st.Normalize\) is not supported",
    ),
    "sparse module": (
        change_modules(lambda m: m[1].update(type="sentence_transformers.sparse_encoder.modules.Pooling")),
        "the module 'Pooling' .*sparse_encoder.* is not supported",
    ),
    "activation": (
        change_json(DENSE, activation_function="torch.nn.modules.activation.SiLU"),
        "activation 'torch.nn.modules.activation.SiLU' is not supported",
    ),
    "own activation": (
        change_json(DENSE, activation_function="os.system"),
        "the activation 'os.system' is not supported",
    ),
    "residual": (change_json(DENSE, use_residual=True), "use_residual True is not supported"),
    "of tokens": (
        change_json(DENSE, module_input_name="token_embeddings"),
        "module_input_name 'token_embeddings' is not supported",
    ),
    "no sizes": (lambda f: write(f / DENSE, {}), "does not say in_features and out_features"),
    "no dense weights": (lambda f: (f / DENSE_BIN).unlink(), "2_Dense has no weights"),
    "other dense weights": (other_dense, "2_Dense: weights and config.json do not belong together"),
    "dense cut off": (
        lambda f: (f / DENSE_BIN).write_bytes((f / DENSE_BIN).read_bytes()[:900]),
        "pytorch_model.bin",
    ),
    "other width": (
        lambda f: (change_json(DENSE, in_features=7)(f), other_dense(f)),
        rf"Dense\(7, 24, Tanh\) does not take vectors of {WIDTH} numbers",
    ),
    "task": (change_json(LIMIT, transformer_task="fill-mask"), "transformer_task 'fill-mask' is not supp"),
    "model arguments": (change_json(LIMIT, model_args={"foo": 1}), "model_args with foo is not supported"),
    "limit of nothing": (change_json(LIMIT, max_seq_length=0), "max_seq_length .* is 0"),
    "limit a list": (lambda f: write(f / LIMIT, [1]), "sentence_bert_config.json: not a JSON object"),
    "a cross-encoder": (
        lambda f: write(f / PROMPTS, {"model_type": "CrossEncoder"}),
        "a CrossEncoder is not supported",
    ),
    "prompt unknown": (
        lambda f: write(f / PROMPTS, {"prompts": {}, "default_prompt_name": "query"}),
        "default_prompt_name is 'query', and prompts has none",
    ),
    "decoder": (change_json("config.json", is_decoder=True), "is_decoder True; only False is supported"),
    "relative positions": (
        change_json("config.json", position_embedding_type="relative_key"),
        "position_embedding_type 'relative_key'",
    ),
    "family": (
        change_json("config.json", model_type="distilbert"),
        "model type 'distilbert' is not supported",
    ),
    "own code": (
        change_json("config.json", auto_map={"AutoModel": "modeling_own.Own"}),
        r"brings its own Python code \(modeling_own.py\), which is not run unasked",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_honoured_is_refused_by_name(case: str, copy: Callable[[str], Path]) -> None:
    change, message = REFUSED[case]
    folder = copy("labse")
    change(folder)
    with pytest.raises(MexmaError, match=message):
        SentenceEncoder.load(str(folder), "cpu")


def test_a_limit_without_room_is_refused(tiny_encoder: Path) -> None:
    with pytest.raises(MexmaError, match="1 tokens has no room"):
        SentenceEncoder.load(str(tiny_encoder), "cpu", max_tokens=1)


# Code in a folder is not run.


class Bomb:
    def __init__(self, crater: Path) -> None:
        self.crater = crater

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.crater,)


@pytest.mark.parametrize("where", ["", "2_Dense"])
def test_code_in_pickled_weights_is_not_run(where: str, copy: Callable[[str], Path], tmp_path: Path) -> None:
    folder, crater = copy("labse"), tmp_path / "crater"
    (folder / where / WEIGHTS).unlink(missing_ok=True)
    torch.save({"linear.weight": Bomb(crater)}, folder / where / "pytorch_model.bin")
    with pytest.raises(MexmaError, match="bring code along, which was not run"):
        SentenceEncoder.load(str(folder), "cpu")
    assert not crater.exists()
    torch.load(folder / where / "pytorch_model.bin", weights_only=False)
    assert crater.exists()  # it would have gone off


def test_pickled_weights_without_code_are_read(copy: Callable[[str], Path], texts: list[str]) -> None:
    folder = copy("labse")
    expected = SentenceEncoder.load(str(folder), "cpu")
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    assert SentenceEncoder.load(str(folder), "cpu").fingerprint == expected.fingerprint


OWN_CODE = """
from pathlib import Path
from transformers import BertModel
Path({crater!r}).touch()

class Own(BertModel):
    def forward(self, *arguments, **options):
        {change}
        return super().forward(*arguments, **options)
"""


def own_code(folder: Path, crater: Path, change: str) -> None:
    source = OWN_CODE.format(crater=str(crater), change=change)
    (folder / "modeling_own.py").write_text(source, encoding="utf-8")
    change_json("config.json", auto_map={"AutoModel": "modeling_own.Own"})(folder)


def test_own_code_is_run_when_it_is_asked_for(
    copy: Callable[[str], Path], texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = copy("labse")
    expected = SentenceEncoder.load(str(folder), "cpu").embed(texts)
    own_code(folder, tmp_path / "crater", "pass")
    with pytest.raises(MexmaError, match="own Python code"):
        SentenceEncoder.load(str(folder), "cpu")
    assert not (tmp_path / "crater").exists()
    encoder = SentenceEncoder.load(str(folder), "cpu", trust_remote_code=True)
    assert (tmp_path / "crater").exists()
    assert np.abs(encoder.embed(texts) - expected).max() < 1e-6


def test_own_code_that_attends_in_its_own_way_is_refused(
    copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = copy("labse")
    own_code(folder, tmp_path / "crater", "options['packed_lengths'] = (sum(options['packed_lengths']),)")
    with pytest.raises(MexmaError, match="does not attend through transformers' AttentionInterface"):
        SentenceEncoder.load(str(folder), "cpu", trust_remote_code=True)


def test_dense_works_in_float32_under_a_half_precision_model(
    published: Callable[[str], Path], texts: list[str]
) -> None:
    half = SentenceEncoder.load(str(published("labse")), "cpu", "bfloat16")
    full = SentenceEncoder.load(str(published("labse")), "cpu")
    assert isinstance(half.modules[0], Dense)
    assert half.modules[0].linear.weight.dtype == torch.float32
    assert (half.embed(texts) * full.embed(texts)).sum(1).min() > 0.999
