"""Small random encoders in their publishers' layouts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
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
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.encoder.model.packing import pack
from mexma_cli.encoder.model.transformer import first_position
from mexma_cli.objectives.bag.tokenizer import train_tokenizer
from mexma_cli.settings.training import TrainTokenizer
from tests.examples import weighed

WIDTH = 32
SHAPE: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.3,
}
OLD = "sentence_transformers.models"
WEIGHTS = "model.safetensors"
LONG = "Le chat dort. " * 100


@pytest.fixture(scope="session")
def texts(sentences: dict[str, list[str]]) -> list[str]:
    """Short ones, an empty one, some with unknown characters or padding in them, two over every limit."""
    odd = ["漢字 только", "Le <pad> chat <pad> dort."]
    return [*sentences["fra"], "", LONG, "Oui", *sentences["eng"], LONG * 3, *odd]


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


# What a folder is changed by: functions of the folder, for tables of broken ones.


def edit(name: str, change: Callable[[Any], object]) -> Callable[[Path], object]:
    """Change the content of a JSON file in place."""

    def apply(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        change(content)
        write(folder / name, content)

    return apply


def change_json(name: str, **changes: Any) -> Callable[[Path], object]:
    """Set some keys of a JSON file."""
    return edit(name, lambda content: content.update(changes))


def change_modules(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Path], object]:
    return edit("modules.json", change)


def cut_off(name: str, length: int) -> Callable[[Path], object]:
    """Keep the first bytes of a file."""
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:length])


@pytest.fixture
def folder(tiny_encoder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny encoder to break."""
    return Path(shutil.copytree(tiny_encoder, tmp_path / "copy"))


# Packed and padded.


def padded_states(model: PreTrainedModel, sentences: list[np.ndarray]) -> torch.Tensor:
    """Last hidden states of the real tokens, [T, dim], through padding and the model's own attention."""
    longest = max(map(len, sentences))
    ids = torch.full((len(sentences), longest), model.config.pad_token_id)
    mask = torch.zeros_like(ids)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = torch.from_numpy(sentence)
        mask[row, : len(sentence)] = 1
    return model(input_ids=ids, attention_mask=mask).last_hidden_state[mask.bool()]


def check_same_gradients(
    packed: PreTrainedModel, padded: PreTrainedModel, sentences: list[np.ndarray], noise: float
) -> None:
    """States and gradients of the packed model are those of the padded one.

    A key's bias moves no attention weight: its gradient is rounding noise of the numbers that it is a sum of.
    `noise` is how many times 1e-5 that may be.
    """
    for model in (packed, padded):
        model.zero_grad()
    ours = run_packed(packed, pack(sentences, first_position(packed)), "bucketed")
    theirs = padded_states(padded, sentences)
    assert (ours - theirs).abs().max() < 1e-5
    weight = torch.randn(ours.shape, generator=torch.Generator().manual_seed(0))
    for states in (ours, theirs):
        (states * weight).sum().backward()
    expected = dict(padded.named_parameters())
    for name, parameter in packed.named_parameters():
        assert parameter.grad is not None and expected[name].grad is not None, name
        scale = noise if name.endswith("key.bias") else max(1.0, float(expected[name].grad.abs().max()))
        assert float((parameter.grad - expected[name].grad).abs().max()) < 1e-5 * scale, name


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
    tokenizer = train_tokenizer(TrainTokenizer(vocabulary=300), lambda: weighed(texts))
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
    """As sentence-transformers 1 wrote it: the transformer in its own folder, the limit in its own file."""
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


@pytest.fixture(scope="session")
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


@pytest.fixture
def plain(texts: list[str], tmp_path: Path) -> Callable[..., Path]:
    """A plain Hugging Face folder by kind: `bert`, `xlmr`, `roberta`, `camembert`; with its pooler or not."""

    def make(kind: str, pooler: bool = True) -> Path:
        folder = tmp_path / "plain"
        if kind == "bert":
            bert(folder, texts, pooler)
        else:
            robertas(kind, folder, texts, pooler)
        return folder

    return make


def padded_encoder(width: int, heads: int, before: bool) -> torch.nn.TransformerEncoder:
    """Torch's own encoder of two layers, whose states of padded sentences others are compared with."""
    layer = torch.nn.TransformerEncoderLayer(
        width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=before
    )
    encoder = torch.nn.TransformerEncoder(
        layer, 2, torch.nn.LayerNorm(width), enable_nested_tensor=False
    ).eval()
    for weight in encoder.parameters():
        torch.nn.init.normal_(weight, mean=1.0 if weight.ndim == 1 else 0.0, std=0.3)
    return encoder


def fairseq_weights(encoder: torch.nn.TransformerEncoder) -> dict[str, torch.Tensor]:
    """Its weights by fairseq's names."""
    names = {"self_attn.out_proj": "self_attn.out_proj", "norm1": "self_attn_layer_norm", "linear1": "fc1"}
    names |= {"linear2": "fc2", "norm2": "final_layer_norm"}
    found = {f"layer_norm.{kind}": value for kind, value in encoder.norm.state_dict().items()}
    for i, layer in enumerate(encoder.layers):
        weights = layer.state_dict()
        for kind in ("weight", "bias"):
            parts = zip("qkv", weights[f"self_attn.in_proj_{kind}"].chunk(3), strict=True)
            found |= {f"layers.{i}.self_attn.{name}_proj.{kind}": part.clone() for name, part in parts}
            found |= {f"layers.{i}.{new}.{kind}": weights[f"{old}.{kind}"] for old, new in names.items()}
    return found


def torch_states(
    encoder: torch.nn.TransformerEncoder, ids: list[list[int]], tokens: torch.Tensor, places: np.ndarray
) -> list[np.ndarray]:
    """States [L, width] of each sentence, all computed in one padded batch.

    Args:
        tokens: The embeddings of tokens, already scaled.
        places: Those of positions, from the first one that a sentence has.
    """
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], True, -1)
    padding = padded < 0
    x = tokens[padded.clamp(min=0)] + torch.from_numpy(places[: padded.shape[1]]).float()
    with torch.no_grad():
        states = encoder(x, src_key_padding_mask=padding)
    return [part[: len(row)].numpy() for part, row in zip(states, ids, strict=True)]


def waves(first: int, count: int, width: int) -> np.ndarray:
    """Sinusoidal positions [count, width] of tensor2tensor, from position `first` on."""
    rates = 10000.0 ** -(np.arange(width // 2) / (width // 2 - 1))
    angles = np.arange(first, first + count)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def train_pieces(path: Path, texts: list[str], kind: str, size: int) -> Any:
    """SentencePiece's model of some texts, written to a path."""
    sentencepiece = pytest.importorskip("sentencepiece")
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text[:500] for text in texts if text),
            model_writer=file,
            model_type=kind,
            vocab_size=size,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=2,
        )
    return sentencepiece.SentencePieceProcessor(model_file=str(path))
