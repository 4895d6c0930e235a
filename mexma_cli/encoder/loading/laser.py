"""LASER2 as it is published: a checkpoint, `laser2.pt`, with SentencePiece's model beside it, `laser2.spm`.

Heffernan and others, Bitext Mining Using Distilled Sentence Representations for Low-Resource Languages
(2022): a bidirectional LSTM, and the largest of each of its states' numbers over the tokens. The layout is
what LASER's own `laser_encoders` reads: `params` of the LSTM, its weights in `model`, and the ids of pieces
in `dictionary`.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch

from mexma_cli.encoder.loading.tokenizer import LazyTokenizer, check_strings
from mexma_cli.encoder.loading.weights import damaged
from mexma_cli.encoder.model.transformer import LazyTransformer
from mexma_cli.errors import MexmaError
from mexma_cli.text.normalise import cleaner

PADDING, END, UNKNOWN = 1, 2, 3
"""Their ids, whatever the dictionary says."""
_LONGEST = 1 << 20  # an LSTM has no limit of its own


class Lstm(torch.nn.Module):
    """The LSTM, for sentences of equal length, so that none is padded.

    Args:
        params: Those of the checkpoint; LASER's own code has the same defaults.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__()
        layers, both = params.get("num_layers", 1), params.get("bidirectional", False)
        width, hidden = params.get("embed_dim", 320), params.get("hidden_size", 512)
        size = params["num_embeddings"]
        self.embed_tokens = torch.nn.Embedding(size, width, padding_idx=params["padding_idx"])
        self.lstm = torch.nn.LSTM(width, hidden, layers, bidirectional=both, batch_first=True)
        self.config = SimpleNamespace(
            model_type="laser2",
            hidden_size=hidden * (2 if both else 1),
            num_hidden_layers=layers,
            num_attention_heads=0,
            vocab_size=size,
            max_position_embeddings=_LONGEST,
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embed_tokens.weight.device

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor) -> SimpleNamespace:
        """States of all tokens, [n, L, 2 x hidden], of ids [n, L]; positions are not used."""
        return SimpleNamespace(last_hidden_state=self.lstm(self.embed_tokens(input_ids))[0])


class LaserTokenizer(LazyTokenizer):
    """LASER's preprocessing, with its English rules for every language, then SentencePiece, then </s>.

    Args:
        dictionary: Ids of pieces; those that it lacks are unknown.
    """

    def __init__(self, spm: Path, dictionary: Mapping[str, int]) -> None:
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            raise MexmaError(
                "LASER2 needs the library sentencepiece", "pip install 'mexma-cli[laser]'"
            ) from None
        try:
            self._pieces = SentencePieceProcessor(model_file=str(spm))
        except (OSError, RuntimeError) as error:
            raise damaged(spm, error) from None
        self._ids, self._model = dictionary, spm.read_bytes()
        self._clean = cleaner("eng_Latn")
        self.padding, self.max_tokens, self.keeps_end = PADDING, _LONGEST, False
        self._load = _of_transformers

    def hash_into(self, digest: Any) -> None:
        """As `LazyTokenizer.hash_into`."""
        digest.update(self._model)
        digest.update(repr(sorted(self._ids.items())).encode())

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        """Token ids with </s>, int64, of texts of any length."""
        check_strings(texts)
        pieces = self._pieces.encode([self._clean(text).lower() for text in texts], out_type=str)
        return [np.array([*(self._ids.get(piece, UNKNOWN) for piece in line), END]) for line in pieces]


def read(path: Path) -> tuple[LazyTransformer, LaserTokenizer]:
    """The LSTM, in evaluation mode, and the tokeniser of a checkpoint; code in the file is never run.

    Raises:
        MexmaError: The file is damaged, of another layout, or its SentencePiece model is not beside it.
    """
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):  # LASER3's settings, to name it
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, OSError, EOFError) as error:
        raise damaged(path, error) from None
    if not isinstance(content, dict) or not {"params", "model", "dictionary"} <= set(content):
        raise MexmaError(f"{path} is no checkpoint of LASER2", _instead(content))
    try:
        model = Lstm(content["params"])
        model.load_state_dict(content["model"])
        ids = {str(piece): int(place) for piece, place in content["dictionary"].items()}
    except (RuntimeError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise MexmaError(f"{path}: the parts of the checkpoint do not belong together: {reason}") from None
    ids |= {"<s>": 0, "<pad>": PADDING, "</s>": END, "<unk>": UNKNOWN}
    if max(ids.values()) >= model.config.vocab_size or min(ids.values()) < 0:
        raise MexmaError(f"{path}: the dictionary has ids that have no embedding")
    spm = path.with_suffix(".spm")
    if not spm.is_file():
        raise MexmaError(f"{path} has no {spm.name} beside it, LASER's SentencePiece model")
    return LazyTransformer(cast(Any, model.eval())), LaserTokenizer(spm, ids)


def _of_transformers() -> Any:
    raise MexmaError("LASER2 has no tokeniser of transformers", "it embeds text, and no more")


def _instead(content: Any) -> str:
    """What to do with a checkpoint of another layout."""
    if isinstance(content, dict) and "cfg" in content:
        return "LASER3's transformers are not supported; LASER2 (laser2.pt) is"
    if isinstance(content, dict) and "encoder_frontend.embed.weight" in content.get("model", {}):
        return "SONAR is supported as a folder of transformers' M2M100Encoder, not as fairseq2's file"
    return "an encoder is a folder with config.json, or LASER's laser2.pt with laser2.spm"
