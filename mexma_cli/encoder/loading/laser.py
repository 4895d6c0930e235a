"""LASER2 and LASER3 as they are published: a checkpoint, with files of its tokeniser beside it.

Heffernan and others, Bitext Mining Using Distilled Sentence Representations for Low-Resource Languages
(2022). The layouts are those that LASER's own `laser_encoders` reads. LASER2, `laser2.pt`, is a bidirectional
LSTM: `params` of the LSTM, its weights in `model`, and the ids of pieces in `dictionary`. LASER3, such as
`laser3-wol_Latn.v1.pt`, is fairseq's transformer: its settings in `cfg`, its weights in `model`, with or
without the decoder that training used.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import torch
from torch.nn.functional import scaled_dot_product_attention

from mexma_cli.encoder.loading.tokenizer import END, LONGEST, PADDING, START, UNKNOWN, PieceTokenizer
from mexma_cli.encoder.loading.weights import reason
from mexma_cli.encoder.model.engine import ACTIVATIONS
from mexma_cli.encoder.model.families import Pooling
from mexma_cli.encoder.model.transformer import Transformer
from mexma_cli.errors import MexmaError, is_out_of_memory
from mexma_cli.text.normalise import cleaner

SPECIAL = {"<s>": START, "<pad>": PADDING, "</s>": END, "<unk>": UNKNOWN}
POOLINGS: dict[Any, Pooling] = {"cls": "cls", "maxpool": "max"}
"""By their names in LASER3's settings."""
_ACTIVATIONS = {
    "relu": ACTIVATIONS["relu"],
    "gelu": ACTIVATIONS["gelu"],
    "gelu_accurate": ACTIVATIONS["gelu_new"],
    "gelu_fast": ACTIVATIONS["gelu_new"],
}
"""By fairseq's names."""
Model = TypeVar("Model", bound=torch.nn.Module)
_KEPT = ("embed_tokens.", "embed_positions.weight", "layers.", "layer_norm.")
"""How the names of the encoder's weights begin."""


class _Model(torch.nn.Module):
    """The base of both models, for sentences of equal length, so that none is padded."""

    config: SimpleNamespace
    embed_tokens: torch.nn.Embedding

    def describe(self, kind: str, width: int, layers: int, heads: int) -> None:
        """Set what transformers' models have in `config`."""
        self.config = SimpleNamespace(
            model_type=kind,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            vocab_size=self.embed_tokens.num_embeddings,
            max_position_embeddings=LONGEST,
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embed_tokens.weight.device


class Lstm(_Model):
    """LASER2, by the checkpoint's `params`, for which LASER's own code has the same defaults."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__()
        layers, both = params.get("num_layers", 1), params.get("bidirectional", False)
        width, hidden = params.get("embed_dim", 320), params.get("hidden_size", 512)
        self.embed_tokens = torch.nn.Embedding(
            params["num_embeddings"], width, padding_idx=params["padding_idx"]
        )
        self.lstm = torch.nn.LSTM(width, hidden, layers, bidirectional=both, batch_first=True)
        self.describe("laser2", hidden * (2 if both else 1), layers, 0)

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor) -> SimpleNamespace:
        """States of all tokens, [n, L, 2 x hidden], of ids [n, L]; positions are not used."""
        return SimpleNamespace(last_hidden_state=self.lstm(self.embed_tokens(input_ids))[0])


class Laser3(_Model):
    """LASER3: fairseq's TransformerEncoder, in inference, with its names of weights.

    Args:
        settings: `cfg.model` of the checkpoint; fairseq has the same defaults.
        size: Number of token embeddings.
        last_norm: Whether there is a layer norm behind the last layer, whatever stands before the others.
    """

    def __init__(self, settings: Mapping[str, Any], size: int, last_norm: bool) -> None:
        super().__init__()
        width, heads = settings.get("encoder_embed_dim", 512), settings.get("encoder_attention_heads", 8)
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        inner, layers = settings.get("encoder_ffn_embed_dim", 2048), settings.get("encoder_layers", 6)
        before = settings.get("encoder_normalize_before", False)
        activation = _ACTIVATIONS[settings.get("activation_fn", "relu")]
        self.scale = 1.0 if settings.get("no_scale_embedding", False) else math.sqrt(width)
        self.embed_tokens = torch.nn.Embedding(size, width, padding_idx=PADDING)
        self.embed_positions = None
        if settings.get("encoder_learned_pos", False):
            rows = settings.get("max_source_positions", 1024) + PADDING + 1
            self.embed_positions = torch.nn.Embedding(rows, width, padding_idx=PADDING)
        self.layers = torch.nn.ModuleList(
            _Layer(width, heads, inner, before, activation) for _ in range(layers)
        )
        self.layer_norm = torch.nn.LayerNorm(width) if last_norm or before else torch.nn.Identity()
        self.describe("laser3", width, layers, heads)
        if self.embed_positions is not None:
            self.config.max_position_embeddings = self.embed_positions.num_embeddings - PADDING - 1

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor) -> SimpleNamespace:
        """States of all tokens, [n, L, width], of ids [n, L] at positions [n, L] from 0 on."""
        places = position_ids[0] + PADDING + 1
        embedded = self.embed_tokens(input_ids) * self.scale
        if self.embed_positions is not None:
            x = embedded + self.embed_positions(places)
        else:
            x = embedded + _waves(places, embedded.shape[-1]).to(embedded.dtype)
        for layer in self.layers:
            x = layer(x)
        return SimpleNamespace(last_hidden_state=self.layer_norm(x))


class _Layer(torch.nn.Module):
    """One layer, on states [n, L, width]; its layer norms stand `before` attention and feed-forward, or
    behind the sums."""

    def __init__(
        self, width: int, heads: int, inner: int, before: bool, activation: Callable[..., Any]
    ) -> None:
        super().__init__()
        names = ("q_proj", "k_proj", "v_proj", "out_proj")
        self.self_attn = torch.nn.ModuleDict({name: torch.nn.Linear(width, width) for name in names})
        self.self_attn_layer_norm = torch.nn.LayerNorm(width)
        self.fc1, self.fc2 = torch.nn.Linear(width, inner), torch.nn.Linear(inner, width)
        self.final_layer_norm = torch.nn.LayerNorm(width)
        self.heads, self.before, self.activation = heads, before, activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, part in (
            (self.self_attn_layer_norm, self._attend),
            (self.final_layer_norm, lambda x: self.fc2(self.activation(self.fc1(x)))),
        ):
            x = x + part(norm(x)) if self.before else norm(x + part(x))
        return x

    def _attend(self, x: torch.Tensor) -> torch.Tensor:
        projected = (self.self_attn[name](x) for name in ("q_proj", "k_proj", "v_proj"))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
        attended = scaled_dot_product_attention(q, k, v)
        return self.self_attn["out_proj"](attended.transpose(1, 2).flatten(2))


def _waves(places: torch.Tensor, width: int) -> torch.Tensor:
    """Sinusoidal positions as tensor2tensor and fairseq have them: float32 [L, width], all sines first."""
    half = width // 2
    steps = torch.arange(half, dtype=torch.float32, device=places.device)
    angles = places[:, None] * torch.exp(steps * -(math.log(10000) / (half - 1)))
    waves = torch.cat([angles.sin(), angles.cos()], dim=1)
    return torch.nn.functional.pad(waves, (0, width % 2))


class LaserTokenizer(PieceTokenizer):
    """LASER's preprocessing, with its English rules for every language, then SentencePiece, then </s>. Pieces
    that the dictionary lacks are unknown."""

    def __init__(
        self, owner: str, spm: Path, dictionary: Mapping[str, int], first: int | None, max_tokens: int
    ) -> None:
        super().__init__(owner, spm, first, max_tokens)
        self._ids, self._clean = dictionary, cleaner("eng_Latn")

    def hash_into(self, digest: Any) -> None:
        """Put everything that decides the ids into a hash; see `LazyTokenizer.hash_into`."""
        super().hash_into(digest)
        digest.update(repr(sorted(self._ids.items())).encode())

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Ids of pieces; an unknown one may be in the dictionary as it is written."""
        lines = self.pieces.encode([self._clean(text).lower() for text in texts], out_type=str)
        return [[self._ids.get(piece, UNKNOWN) for piece in " ".join(line).split()] for line in lines]


def read_laser2(path: Path, content: Mapping[str, Any]) -> tuple[Transformer, LaserTokenizer, Pooling]:
    """The LSTM, in evaluation mode, and its tokeniser. Refused: parts that do not belong together, and a
    checkpoint without the SentencePiece model beside it."""
    with _as_message(path):
        model = _filled(
            lambda: Lstm(content["params"]), content["model"], content["params"].get("num_layers")
        )
        ids = {str(piece): int(place) for piece, place in content["dictionary"].items()} | SPECIAL
    if max(ids.values()) >= model.config.vocab_size or min(ids.values()) < 0:
        raise MexmaError(f"{path}: the dictionary has ids that have no embedding")
    tokenizer = LaserTokenizer("LASER2", _tokenizer_file(path, ".spm"), ids, None, LONGEST)
    return Transformer(cast(Any, model.eval())), tokenizer, "max"


def read_laser3(path: Path, content: Mapping[str, Any]) -> tuple[Transformer, LaserTokenizer, Pooling]:
    """The transformer, in evaluation mode, its tokeniser and its pooling. Refused: settings that are not
    supported, parts that do not belong together, and a checkpoint without the tokeniser's files beside it."""
    model = content["cfg"].get("model") if isinstance(content["cfg"], dict) else None
    if not isinstance(model, argparse.Namespace):
        raise MexmaError(
            f"{path} has no settings of LASER3 (cfg.model)", "is it another program's checkpoint?"
        )
    settings = vars(model)
    pooling, first = settings.get("sentemb_criterion"), START if settings.get("prepend_bos") else None
    activation = settings.get("activation_fn", "relu")
    refused = {
        f"sentemb_criterion {pooling!r}": pooling not in list(POOLINGS),
        "sentemb_criterion 'cls' without prepend_bos": pooling == "cls" and first is None,
        f"activation_fn {activation!r}": activation not in list(_ACTIVATIONS),
        "layernorm_embedding": settings.get("layernorm_embedding"),
        "no_token_positional_embeddings": settings.get("no_token_positional_embeddings"),
    }
    if odd := [name for name, is_so in refused.items() if is_so]:
        raise MexmaError(f"{path}: its settings have {odd[0]}, which is not supported")
    with _as_message(path):
        bare = {name.removeprefix("encoder."): weight for name, weight in content["model"].items()}
        weights = {name: weight for name, weight in bare.items() if name.startswith(_KEPT)}
        last_norm, size = "layer_norm.weight" in weights, len(weights["embed_tokens.weight"])
        layers = settings.get("encoder_layers")
        transformer = _filled(lambda: Laser3(settings, size, last_norm), weights, layers)
    vocabulary = _tokenizer_file(path, ".cvocab")
    ids = _dictionary(vocabulary)
    rows, known = transformer.config.vocab_size, len(ids) + last_norm  # it brings along a token <mask>
    if rows != known:
        raise MexmaError(
            f"{vocabulary} does not belong to {path}: {known:,} tokens, and {rows:,} embeddings",
            "take both from the same place",
        )
    limit = transformer.config.max_position_embeddings
    tokenizer = LaserTokenizer("LASER3", _tokenizer_file(path, ".spm"), ids, first, limit)
    return Transformer(cast(Any, transformer.eval())), tokenizer, POOLINGS[pooling]


def _tokenizer_file(path: Path, suffix: str) -> Path:
    """A file of the tokeniser: the checkpoint's own, or LASER2's, which most languages of LASER3 share."""
    own = any(path.with_suffix(kind).is_file() for kind in (".spm", ".cvocab"))
    found = path.with_suffix(suffix) if own else path.with_name(f"laser2{suffix}")
    if found.is_file():
        return found
    names = (
        f"{path.stem}{suffix}" if own or path.stem == "laser2" else f"{path.stem}{suffix} or laser2{suffix}"
    )
    what = "SentencePiece model" if suffix == ".spm" else "list of pieces"
    raise MexmaError(f"{path} has no {names} beside it, LASER's {what}")


def _dictionary(path: Path) -> dict[str, int]:
    """Ids by pieces, behind the special ones, from fairseq's file with a piece and its count a line."""
    ids = dict(SPECIAL)
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                piece, _, count = line.rstrip().rpartition(" ")
                if not piece or not count.isdecimal() or piece in ids:
                    raise MexmaError(f"{path}, line {number}: no new piece with its count")
                ids[piece] = len(ids)
    except UnicodeDecodeError:
        raise MexmaError(f"{path} is not UTF-8") from None
    return ids


def _filled(make: Callable[[], Model], weights: Mapping[str, Any], layers: Any) -> Model:
    """A model that takes its memory from the weights: its own sizes take none before they are compared."""
    if isinstance(layers, int) and layers > len(weights):
        raise ValueError(f"{layers:,} layers of {len(weights):,} weights")
    with torch.device("meta"):
        model = make()
    model.load_state_dict(weights, assign=True)
    return model


@contextmanager
def _as_message(path: Path) -> Iterator[None]:
    """Turn what is raised where the parts of a checkpoint, which may be anything, are put together."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        why = reason(error, last=True)
        raise MexmaError(f"{path}: the parts of the checkpoint do not belong together: {why}") from None
