"""SONAR's text encoder as it is published: fairseq2's `sonar_text_encoder.pt`, and SentencePiece's model.

Duquenne, Schwenk and Sagot, SONAR: Sentence-Level Multimodal and Language-Agnostic Representations (2023).
It computes what transformers' M2M100Encoder does, under other names and with the special tokens in another
order; the vector is the mean of the states.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mexma_cli.encoder.loading.tokenizer import END, PADDING, START, UNKNOWN, PieceTokenizer
from mexma_cli.encoder.loading.weights import damage_as_message, missing
from mexma_cli.encoder.model.families import Pooling
from mexma_cli.encoder.model.transformer import Transformer, quieten_transformers
from mexma_cli.errors import MexmaError

EMBEDDINGS = "encoder_frontend.embed.weight"
"""The name by which such a file is known."""
SPM = "sentencepiece.source.256000.model"
_NAMES = (
    ("encoder_frontend.embed.", "embed_tokens."),
    ("encoder.layers.", "layers."),
    ("self_attn.output_proj.", "self_attn.out_proj."),
    ("ffn.inner_proj.", "fc1."),
    ("ffn.output_proj.", "fc2."),
    ("ffn_layer_norm.", "final_layer_norm."),
)
"""Names of weights in fairseq2, and of the same weights in transformers."""
_ORDER = {PADDING: 0, UNKNOWN: 1, START: 2, END: 3}
"""Where fairseq2 has the tokens with transformers' ids."""
_HEAD = 64
"""Width of a head, which no weight shows: SONAR has 16 of them in 1,024."""
_POSITIONS = 514
_EXTRA = 3
"""Tokens behind those of languages: for mined, back-translated and statistically translated data."""


class SonarTokenizer(PieceTokenizer):
    """SentencePiece's pieces behind the token of the language, as NLLB has it.

    Args:
        languages: NLLB's, in its order.
    """

    def __init__(self, spm: Path, languages: list[str]) -> None:
        super().__init__("SONAR", spm, None, _POSITIONS)
        self.vocabulary = self.pieces.get_piece_size() + 1 + len(languages) + _EXTRA  # 1: <pad>
        self._languages = {code: self.pieces.get_piece_size() + 1 + i for i, code in enumerate(languages)}

    def begin_with(self, language: str) -> bool:
        self.first = self._languages.get(language)
        return self.first is not None

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Places of pieces, behind <pad>."""
        return [[place + 1 if place else UNKNOWN for place in line] for line in self.pieces.encode(texts)]


def read_sonar(path: Path, content: Mapping[str, Any]) -> tuple[Transformer, SonarTokenizer, Pooling]:
    """Transformers' M2M100Encoder with the file's weights, in evaluation mode, and the tokeniser. Refused:
    weights that are not those of SONAR's text encoder, and no SentencePiece model beside the file, or another
    one's."""
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

    from mexma_cli.encoder.model.hugging_face import build_model

    quieten_transformers()
    weights = {}
    for name, weight in content["model"].items():
        for theirs, ours in _NAMES:
            name = str(name).replace(theirs, ours)
        weights[name] = weight
    embeddings, inner = weights["embed_tokens.weight"], weights.get("layers.0.fc1.weight")
    shapes = [list(getattr(weight, "shape", [])) for weight in (embeddings, inner)]
    if [len(shape) for shape in shapes] != [2, 2] or not (width := shapes[0][1]) or width % _HEAD:
        raise MexmaError(f"{path} is no text encoder of SONAR: its first weights have the shapes {shapes}")
    spm = path.with_name(SPM)
    if not spm.is_file():
        raise MexmaError(f"{path} has no {SPM} beside it, SONAR's SentencePiece model")
    tokenizer = SonarTokenizer(spm, FAIRSEQ_LANGUAGE_CODES)
    if len(embeddings) != tokenizer.vocabulary:
        raise MexmaError(
            f"{spm} does not belong to {path}: {tokenizer.vocabulary:,} tokens with those of languages, and "
            f"{len(embeddings):,} embeddings",
            "take both from the same place",
        )
    embeddings[list(_ORDER)] = embeddings[list(_ORDER.values())]
    config = {
        "model_type": "m2m_100",
        "vocab_size": len(embeddings),
        "d_model": width,
        "encoder_layers": len({name.split(".")[1] for name in weights if name.startswith("layers.")}),
        "encoder_attention_heads": width // _HEAD,
        "encoder_ffn_dim": shapes[1][0],
        "max_position_embeddings": _POSITIONS,
    }
    with damage_as_message(path):
        model, report = build_model(config, weights, embeddings.dtype)
    if odd := [*missing(report), *report["unexpected_keys"]]:
        raise MexmaError(
            f"{path}: {len(odd)} of the weights are missing, too many or of another shape, such as {min(odd)}"
        )
    return Transformer(model.eval()), tokenizer, "mean"
