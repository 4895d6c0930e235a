"""The families of transformers that an encoder may be of: BERT and its relatives."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """What one family has of its own; they all compute the same."""

    model: str
    """Its class in transformers, whose code attends through AttentionInterface."""
    behind_padding: bool
    """Whether positions begin behind the padding id, as in RoBERTa, and not at 0."""


FAMILIES = {
    "xlm-roberta": Family("XLMRobertaModel", behind_padding=True),
    "roberta": Family("RobertaModel", behind_padding=True),
    "camembert": Family("CamembertModel", behind_padding=True),
    "bert": Family("BertModel", behind_padding=False),
}
"""By the model type in config.json. An encoder of another family is refused."""
