"""DAP: translation ranking, and the words of one side rebuilt from the other side's token states (RTL).

Li et al. 2023, section 3.3, computed as the released program does. Its head is a small masked language model
of its own, with its own embeddings. It sees the source's states, one after the other, and for each target
token an embedded <mask>; all of that goes through its embeddings once more (positions of the concatenation,
LayerNorm), and the first tokens of both sides are blocked as keys. So the sentence vectors take no part in
RTL (section 3.3.2 says why), and get no gradient from it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import run_packed, use_packed_attention
from mexma_cli.encoder.model.packing import OfTensors, PackedBatch
from mexma_cli.errors import MexmaError
from mexma_cli.objectives import losses
from mexma_cli.objectives.base import Start, check_first_token, check_mask_token
from mexma_cli.objectives.dap.settings import DapSettings, Rtl
from mexma_cli.objectives.masking import VocabularyHead, load_masked_lm, token_keys, uniform
from mexma_cli.objectives.ranking import TranslationRanking
from mexma_cli.objectives.views import PairViews, StackedSides, TokenPairs


@dataclass(frozen=True)
class HeadInputs(OfTensors):
    """B pairs as RTL's head takes them: source then target, each without its first token.

    In the released program the first tokens are there and blocked as keys in every layer. Nothing reads
    them then, so leaving them out is the same; the positions count them.

    Attributes:
        batch: B sequences of S tokens in all. Positions are those in the concatenation of the whole
            sentences; the ids are what is to be found.
        places: int64 [S], where each token stands in the clean batch.
        chosen: bool [S], tokens whose states are hidden from the head: those to be found.
        backward: bool [S], tokens of a source that is predicted from its target.
        languages: int64 [S], which of the run's source languages each token's pair has.
    """

    batch: PackedBatch
    places: torch.Tensor
    chosen: torch.Tensor
    backward: torch.Tensor
    languages: torch.Tensor

    @classmethod
    def of(cls, views: PairViews, sides: StackedSides, pairs: TokenPairs, settings: Rtl) -> HeadInputs:
        """Where the head finds the tokens of each pair, by length, and which of them are hidden from it."""
        batch = views.batch
        row = torch.cat([views.source_rows, views.target_rows]).numpy()
        count = len(row) // 2
        starts, lengths = batch.cu_seqlens.numpy()[row], np.array(batch.lengths)[row]
        order = np.argsort(lengths[:count] + lengths[count:], kind="stable")
        in_turns = sides.of_run[:count] // 2 % 2 == 0
        backward = in_turns if settings.direction == "both" else settings.direction == "backward"
        backward = np.broadcast_to(backward, count)[order]
        parts = np.stack([order, order + count], axis=1).ravel()
        inner = lengths[parts] - 1
        within = np.arange(inner.sum()) - np.repeat(np.cumsum(inner) - inner, inner) + 1
        offset = np.where(parts < count, 0, lengths[parts - count])
        is_predicted = np.repeat((parts < count) == np.repeat(backward, 2), inner)
        keys = token_keys(inner.tolist(), sides.of_run[parts].astype(np.uint64), pairs.seed)
        pair_lengths = inner.reshape(count, 2).sum(axis=1)
        language = np.zeros(count, np.int64) if pairs.languages is None else pairs.languages
        places = np.repeat(starts[parts], inner) + within
        packed = PackedBatch(
            batch.input_ids[torch.from_numpy(places)],
            torch.from_numpy(np.repeat(offset, inner) + within + sides.first_position),
            torch.from_numpy(np.concatenate([[0], np.cumsum(pair_lengths)]).astype(np.int32)),
            tuple(pair_lengths.tolist()),
        )
        return cls(
            packed,
            torch.from_numpy(places),
            torch.from_numpy(is_predicted & (uniform(keys, 4) < settings.ratio)),
            torch.from_numpy(is_predicted & np.repeat(backward, pair_lengths)),
            torch.from_numpy(np.repeat(language[order], pair_lengths)),
        )


@dataclass(frozen=True)
class DapViews(PairViews):
    """The clean sentences, and the same pairs as RTL's head takes them."""

    head: HeadInputs


class Dap(TranslationRanking):
    """Translation ranking and RTL.

    Args:
        encoder: The encoder that is trained.
        start: The masked-LM checkpoint that the encoder is from, for RTL's head; None: it starts untrained.
        languages: Source languages of the run; told apart where the source is rebuilt.

    Raises:
        MexmaError: The checkpoint has too few layers, or too few positions for two sentences.
    """

    def __init__(
        self, encoder: SentenceEncoder, settings: DapSettings, start: str | None = None, languages: int = 1
    ) -> None:
        super().__init__(encoder, settings)
        self.rtl = settings.rtl
        self.head = TranslationHead(encoder, settings.rtl, start, languages)
        self.weights = {**self.weights, "rtl": settings.rtl.weight}

    @classmethod
    def check(cls, start: Start, settings: DapSettings) -> None:
        """The encoder's vector is its first token's, it has a mask token, RTL's head can be cut from it."""
        check_first_token(settings.name, start.encoder)
        check_mask_token(settings.name, start.encoder)
        if start.checkpoint is not None:
            check_checkpoint(start.encoder, start.checkpoint, settings.rtl.layers)

    @classmethod
    def build(cls, start: Start, settings: DapSettings) -> Dap:
        """With RTL's head from the encoder's checkpoint."""
        return cls(start.encoder, settings, start.checkpoint, start.languages)

    def batch(self, pairs: TokenPairs) -> DapViews:
        """Both sides clean, and their tokens as the head takes them."""
        sides = StackedSides.of(pairs, self.vocabulary)
        views = sides.views()
        return DapViews(**vars(views), head=HeadInputs.of(views, sides, pairs, self.rtl))

    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """InfoNCE between the sentence vectors, and with hard negatives; RTL from the token states."""
        hidden = run_packed(self.model, views.batch, self.encoder.backend)
        assert isinstance(views, DapViews)
        return {**self.ranked(views, hidden), "rtl": self._translated(hidden, views)}

    def _translated(self, hidden: torch.Tensor, views: DapViews) -> torch.Tensor:
        """Mean cross-entropy over the chosen tokens; of both directions the mean of their means."""
        inputs = views.head
        states = self.head(hidden[inputs.places], views.batch.position_ids[inputs.places], inputs)
        found = []
        for side in {"forward": [False], "backward": [True], "both": [False, True]}[self.rtl.direction]:
            chosen = inputs.chosen & (inputs.backward == side)
            found.append(self.head.loss(states[chosen], inputs.batch.input_ids[chosen]))
        return torch.stack(found).mean()


class TranslationHead(nn.Module):
    """The last K layers of a masked language model, with embeddings and vocabulary of their own."""

    def __init__(self, encoder: SentenceEncoder, settings: Rtl, start: str | None, languages: int) -> None:
        super().__init__()
        self.model: Any
        if start is None:  # untrained, of the encoder's shape, with positions for two sentences
            config = copy.deepcopy(encoder.model.config)
            config.num_hidden_layers = settings.layers
            config.max_position_embeddings = 2 * encoder.max_tokens + encoder.transformer.first_position
            self.model = type(encoder.model)(config, add_pooling_layer=False)
            self.vocabulary = VocabularyHead.fresh(config)
        else:
            check_checkpoint(encoder, start, settings.layers)
            self.model, self.vocabulary = load_masked_lm(start)
            stack = self.model.encoder.layer
            self.model.encoder.layer = stack[len(stack) - settings.layers :]
            self.model.config.num_hidden_layers = settings.layers
        use_packed_attention(self.model)
        mask = encoder.tokenizer.mask_token_id
        self.mask: torch.Tensor
        self.register_buffer("mask", torch.tensor(mask), persistent=False)
        self.languages: nn.Embedding | None = None
        if settings.direction != "forward":  # section 5.1: "we add language embeddings"
            self.languages = nn.Embedding(languages, self.model.config.hidden_size)
            nn.init.normal_(self.languages.weight, std=0.02)
        self.encoder = encoder

    def forward(self, hidden: torch.Tensor, positions: torch.Tensor, inputs: HeadInputs) -> torch.Tensor:
        """States of the last layer.

        Args:
            hidden: [S, dim], the encoder's states in the order of `inputs`.
            positions: int64 [S], their positions in their own sentences.

        Returns:
            [S, dim].
        """
        masks = self.model.embeddings(
            input_ids=self.mask.expand(1, len(positions)), position_ids=positions[None]
        )[0]
        seen = torch.where(inputs.chosen[:, None], masks, hidden)
        if self.languages is not None:
            # Of the side that is rebuilt, the tokens that are not chosen get it as well.
            seen = seen + self.languages(inputs.languages) * inputs.backward[:, None]
        return run_packed(self.model, inputs.batch, self.encoder.backend, inputs_embeds=seen)

    def loss(self, states: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of [M, dim] against int64 [M], over all processes."""
        words = self.model.get_input_embeddings().weight
        return losses.unmasking(self.vocabulary(states), words, self.vocabulary.bias, labels)


def check_checkpoint(encoder: SentenceEncoder, start: str, layers: int) -> None:
    """Refuse a masked-LM checkpoint that no head of so many layers can be cut from.

    Args:
        encoder: From that checkpoint.

    Raises:
        MexmaError: It has fewer layers, or too few positions for two sentences.
    """
    config = encoder.model.config
    if config.num_hidden_layers < layers:
        raise MexmaError(
            f"objective.rtl.layers is {layers}, and {start} has {config.num_hidden_layers} layers",
            "the head is cut from its last ones: take fewer",
        )
    room = config.max_position_embeddings - encoder.transformer.first_position
    if 2 * encoder.max_tokens > room:
        raise MexmaError(
            f"RTL puts two sentences of up to {encoder.max_tokens} tokens one behind the other, and {start} "
            f"has {room} positions",
            f"set data.max_tokens to {room // 2} or less",
        )
