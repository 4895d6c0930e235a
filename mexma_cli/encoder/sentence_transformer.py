"""An encoder as a model of sentence-transformers: for its losses, its trainer, and for mteb.

sentence-transformers loads a folder of `SentenceEncoder.save` without this module, too, unless it has `pq`
weights, or n-gram embeddings of words that the tokeniser splits. The modules.json of such a folder names the
module here, with the vectors of `SentenceEncoder.embed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.folder import CHECKSUMS
from mexma_cli.encoder.loading.settings import prompt_settings
from mexma_cli.encoder.model.families import TABLE
from mexma_cli.encoder.model.packing import token_embeddings
from mexma_cli.encoder.model.pooling import Dense
from mexma_cli.errors import MexmaError, installed_by

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def sentence_transformer(name_or_path: str | Path = "mini") -> SentenceTransformer:
    """An encoder as a model of sentence-transformers, with the vectors of `SentenceEncoder.embed` in float32.

    What it saves is read by ``SentenceTransformer(FOLDER, trust_remote_code=True)``, where mexma is
    installed, and by mexma. Training it there leaves the n-grams' vectors as they are.

    Args:
        name_or_path: As for `SentenceEncoder.load`.

    Raises:
        MexmaError: No such encoder; or sentence-transformers is not installed.
    """
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer import modules
    except ImportError:
        raise MexmaError(
            "sentence-transformers 6 is not installed", installed_by("sentence-transformers")
        ) from None
    encoder = SentenceEncoder.load(name_or_path, "cpu")
    if (library := encoder.transformer.library) is not None:
        library.truncate_dim = encoder._kept
        return library
    settings = prompt_settings(encoder.prefix, encoder.prompts, encoder._kept)
    encoder.prefix, encoder.prompts = "", {}  # sentence-transformers puts them there, and writes them
    parts: list[torch.nn.Module]
    if encoder.transformer.pools:
        parts = [modules.StaticEmbedding(encoder.fast_tokenizer.backend, encoder.transformer.weights[TABLE])]
    else:
        width, mode = encoder.model.config.hidden_size, encoder.pooling.replace("pooler", "cls")
        parts = [Transformer(encoder), modules.Pooling(width, mode)]
    for module in encoder.modules:
        if isinstance(module, Dense):
            linear = module.linear
            shape = linear.in_features, linear.out_features, linear.bias is not None
            parts.append(modules.Dense(*shape, module.activation, linear.weight, linear.bias))
        else:
            parts.append(modules.Normalize())
    return SentenceTransformer(modules=parts, **settings)


class Transformer(torch.nn.Module):
    """The first module of such a model: from text to hidden states, one for each token or split word.

    Args:
        encoder: Its transformer attends to padded sentences from now on.
    """

    save_in_root = True

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.auto_model = encoder.model
        self.auto_model.set_attn_implementation("sdpa")

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The encoder's."""
        return self.encoder.tokenizer

    @property
    def max_seq_length(self) -> int:
        """Tokens that a sentence is cut to."""
        return self.encoder.max_tokens

    @max_seq_length.setter
    def max_seq_length(self, tokens: int) -> None:
        self.encoder.max_tokens = tokens

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **_: Any
    ) -> dict[str, torch.Tensor]:
        """Token ids of N sentences, padded, int64 [N, L], and the embeddings of ids above the vocabulary."""
        tokens, extra = self.encoder.inputs([(prompt or "") + text for text in inputs])
        longest = max(map(len, tokens))
        padding = self.tokenizer.pad_token_id
        padded = [np.pad(ids, (0, longest - len(ids)), constant_values=padding) for ids in tokens]
        lengths = torch.tensor([len(ids) for ids in tokens])
        mask = (torch.arange(longest) < lengths[:, None]).long()
        features = {"input_ids": torch.from_numpy(np.stack(padded)), "attention_mask": mask}
        return features if extra is None else features | {"extra_embeddings": torch.from_numpy(extra)}

    def forward(self, features: dict[str, torch.Tensor], **_: Any) -> dict[str, torch.Tensor]:
        """The features with `token_embeddings`, [N, L, dim]."""
        vocabulary = self.auto_model.get_input_embeddings().weight
        embeddings = token_embeddings(vocabulary, features["input_ids"], features.get("extra_embeddings"))
        output = self.auto_model(inputs_embeds=embeddings, attention_mask=features["attention_mask"])
        return features | {"token_embeddings": output.last_hidden_state}

    def save(self, path: str, **_: Any) -> None:
        """Write weights, tokeniser, n-grams and length limit; sentence-transformers writes the rest.

        Checksums of a folder that mexma wrote before are of what was in it then.
        """
        (Path(path) / CHECKSUMS).unlink(missing_ok=True)
        self.encoder.save_transformer(Path(path), str(self.auto_model.dtype).removeprefix("torch."))

    @classmethod
    def load(cls, path: str, revision: str | None = None, **_: Any) -> Transformer:
        """From the folder or hub id of a model that has this module."""
        encoder = SentenceEncoder.load(f"{path}@{revision}" if revision else path, "cpu")
        encoder.prefix, encoder.prompts = "", {}
        return cls(encoder)
