"""A masked-LM checkpoint: the encoder, and the head over the vocabulary that predicts masked words."""

from __future__ import annotations

import logging

import torch
from torch import nn
from transformers import MODEL_FOR_MASKED_LM_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.activations import ACT2FN

from mexma_cli.encoder.loading.folder import BESIDE_NGRAMS, locate
from mexma_cli.encoder.loading.load import refused
from mexma_cli.encoder.loading.settings import read_settings
from mexma_cli.encoder.loading.weights import FILES, read_weights
from mexma_cli.encoder.model.hugging_face import build_model
from mexma_cli.errors import MexmaError

log = logging.getLogger(__name__)


class VocabularyHead(nn.Module):
    """The head of XLM-R and BERT: a linear layer, an activation, LayerNorm, and a bias for each token.

    The caller multiplies the result with the token embeddings and adds the bias.
    """

    def __init__(
        self, dense: nn.Linear, activation: nn.Module, norm: nn.LayerNorm, bias: nn.Parameter
    ) -> None:
        super().__init__()
        self.dense, self.activation, self.norm, self.bias = dense, activation, norm, bias

    @classmethod
    def fresh(cls, config: PreTrainedConfig, output_scale: float = 1.0) -> VocabularyHead:
        """An untrained head: weights are normal with the config's `initializer_range`, biases zero.

        Args:
            output_scale: Of the LayerNorm, so that the first logits are not large where word embeddings are
                long.
        """
        width = config.hidden_size
        dense = nn.Linear(width, width)
        nn.init.normal_(dense.weight, std=config.initializer_range)
        nn.init.zeros_(dense.bias)
        norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        nn.init.constant_(norm.weight, output_scale)
        return cls(dense, ACT2FN["gelu"], norm, nn.Parameter(torch.zeros(config.vocab_size)))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[M, dim] to [M, dim], to be multiplied with the token embeddings."""
        return self.norm(self.activation(self.dense(hidden)))


def load_masked_lm(name: str) -> tuple[PreTrainedModel, VocabularyHead]:
    """The transformer of a checkpoint, float32, and its head.

    A checkpoint without a head gets an untrained one, with a warning.

    Args:
        name: As for `SentenceEncoder.load`.

    Raises:
        MexmaError: It cannot be loaded.
    """
    settings = read_settings(locate(name))
    try:
        weights = read_weights(settings.transformer, (BESIDE_NGRAMS, *FILES))
        model, report = build_model(settings.config, weights, torch.float32, MODEL_FOR_MASKED_LM_MAPPING)
    except MexmaError:
        raise
    except Exception as error:  # transformers raises whatever it likes
        raise refused(name, error) from None
    base = getattr(model, model.base_model_prefix)
    absent = [key for key in report["missing_keys"] if not key.startswith(f"{model.base_model_prefix}.")]
    if absent:
        log.warning("%s has no masked-LM head: an untrained one takes its place", name)
        return base, VocabularyHead.fresh(model.config)
    bias = model.get_output_embeddings().bias
    if hasattr(model, "lm_head"):
        found = model.lm_head
        return base, VocabularyHead(found.dense, ACT2FN["gelu"], found.layer_norm, bias)
    transform = model.cls.predictions.transform
    return base, VocabularyHead(transform.dense, transform.transform_act_fn, transform.LayerNorm, bias)
