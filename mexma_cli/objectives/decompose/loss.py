"""Sentence vectors taken apart into a meaning and a language, by DREAM (Tiyajamorn et al. 2021), MEAT (Kuroda
et al. 2022) and ORACLE (Ki et al. 2024).

The encoder is frozen and its vectors are read from disk. Two linear maps of them are trained, `meaning` and
`language`. Formulae as in the ORACLE paper's released code, which trains all three; where the paper differs
there is a key of the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import cross_entropy, log_softmax, mse_loss

from mexma_cli.encoder.model.packing import OfTensors
from mexma_cli.objectives.decompose.settings import OracleTerms
from mexma_cli.objectives.losses import cosine_distance

Terms = dict[str, torch.Tensor]


@dataclass(frozen=True)
class VectorPairs(OfTensors):
    """The vectors of B pairs of translations.

    Attributes:
        source, target: float32 [B, dim], as the encoder made them.
        source_language, target_language: int64 [B], which of the run's languages each is in.
    """

    source: torch.Tensor
    target: torch.Tensor
    source_language: torch.Tensor
    target_language: torch.Tensor


@dataclass(frozen=True)
class DecomposedPairs:
    """Meanings and languages of B pairs of vectors, each float32 [B, dim]."""

    source_meaning: torch.Tensor
    target_meaning: torch.Tensor
    source_language: torch.Tensor
    target_language: torch.Tensor

    def rows(self, chosen: slice) -> DecomposedPairs:
        """The vectors and languages of some of the pairs."""
        every = (self.source_meaning, self.target_meaning, self.source_language, self.target_language)
        return DecomposedPairs(*(one[chosen] for one in every))


@dataclass(frozen=True)
class Player:
    """Parameters that a loss of their own trains, in a turn of their own.

    Attributes:
        parameters: Of its own optimiser; nothing else changes in its turn.
        terms: The terms of its loss, weighed by the objective's `weights`.
    """

    name: str
    parameters: list[nn.Parameter]
    terms: Callable[[VectorPairs], Terms]


def overlap(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Mean of max(0, cos) over the rows of two [B, dim] (CosineEmbeddingLoss with label -1, margin 0)."""
    return functional.cosine_similarity(one, other).clamp_min(0).mean()


def intra_class(
    source: torch.Tensor,
    target: torch.Tensor,
    source_groups: torch.Tensor | None = None,
    target_groups: torch.Tensor | None = None,
) -> torch.Tensor:
    """ORACLE's intra-class clustering (equation 5): the language parts of a side towards one another.

    The mean over all pairs of rows i, j, i = j among them as in the released code, of
    2 - cos(source i, source j) - cos(target i, target j).

    Args:
        source, target: float32 [B, dim], language parts.
        source_groups, target_groups: int64 [B]; only rows of one group are pairs. None: all are, whatever
            their languages, as in the released code.
    """
    return 2 - _mean_cosine(source, source_groups) - _mean_cosine(target, target_groups)


def _mean_cosine(vectors: torch.Tensor, groups: torch.Tensor | None) -> torch.Tensor:
    """The mean cosine of all pairs of rows of a group: |sum of unit vectors|^2 by group, over all pairs."""
    unit = functional.normalize(vectors, dim=-1)
    if groups is None:
        return unit.mean(dim=0).square().sum()
    members = functional.one_hot(groups).to(unit.dtype)  # [B, groups]
    return (members.T @ unit).square().sum() / members.sum(dim=0).square().sum()


def inter_class(decomposed: DecomposedPairs, mode: str) -> torch.Tensor:
    """ORACLE's inter-class separation: no part of the one in the other.

    Args:
        mode: `meaning_language`: meaning and language of a sentence (equation 6), the sum of both sides;
            `language_language`: the languages of a pair, which the released code trains with.
    """
    if mode == "language_language":
        return overlap(decomposed.source_language, decomposed.target_language)
    return overlap(decomposed.source_meaning, decomposed.source_language) + overlap(
        decomposed.target_meaning, decomposed.target_language
    )


class Decomposer(nn.Module):
    """The two maps, ORACLE's terms where they have a weight, and whose turn it is in a step.

    This is ORACLE without more; DREAM and MEAT add terms of their own.

    Args:
        dim: Numbers in a vector.
        languages: How many there are, both sides together.

    Attributes:
        meaning, language: Linear [dim] to [dim].
        weights: Of each term that a player's loss has.
    """

    def __init__(self, dim: int, languages: int, settings: OracleTerms) -> None:
        super().__init__()
        self.settings = settings
        self.meaning = nn.Linear(dim, dim)
        self.language = nn.Linear(dim, dim)
        self.weights: Mapping[str, float] = {
            "intra_class": settings.intra_class,
            "inter_class": settings.inter_class,
        }

    def decomposed(self, pairs: VectorPairs) -> DecomposedPairs:
        """The meaning and the language of both vectors of every pair."""
        return DecomposedPairs(
            self.meaning(pairs.source),
            self.meaning(pairs.target),
            self.language(pairs.source),
            self.language(pairs.target),
        )

    def own_terms(self, decomposed: DecomposedPairs, pairs: VectorPairs) -> Terms:
        """The terms of the maps' loss beside ORACLE's: none."""
        return {}

    def forward(self, pairs: VectorPairs) -> Terms:
        """The terms that the two maps are trained by, unweighted scalars."""
        decomposed, settings = self.decomposed(pairs), self.settings
        terms = self.own_terms(decomposed, pairs)
        if settings.intra_class:
            by_language = settings.ic_group == "language"
            terms["intra_class"] = intra_class(
                decomposed.source_language,
                decomposed.target_language,
                pairs.source_language if by_language else None,
                pairs.target_language if by_language else None,
            )
        if settings.inter_class:
            terms["inter_class"] = inter_class(decomposed, settings.is_mode)
        return terms

    def loss(self, terms: Terms) -> torch.Tensor:
        """The weighted sum of some terms."""
        return torch.stack([self.weights.get(name, 1.0) * term for name, term in terms.items()]).sum()

    def players(self) -> list[Player]:
        """Who is trained in a step, in this order: here the maps alone, with all that has the same loss."""
        return [Player("maps", list(self.parameters()), self.forward)]


class Meat(Decomposer):
    """MEAT: the two maps, and an adversary that tries to tell the language of the meaning part, and moves
    before them by a loss of its own."""

    def __init__(self, dim: int, languages: int, settings: OracleTerms) -> None:
        super().__init__(dim, languages, settings)
        self.adversary = nn.Linear(dim, languages)

    def own_terms(self, decomposed: DecomposedPairs, pairs: VectorPairs) -> Terms:
        """Reconstruction, from the own meaning and from each other's, by cosine; language parts of a pair
        orthogonal; and an adversary that cannot tell the language of a meaning (it does not move by this)."""
        source, target = decomposed.source_meaning, decomposed.target_meaning
        source_language, target_language = decomposed.source_language, decomposed.target_language
        return {
            "reconstruction": cosine_distance(source + source_language, pairs.source)
            + cosine_distance(target + target_language, pairs.target),
            "cross_reconstruction": cosine_distance(source + target_language, pairs.target)
            + cosine_distance(target + source_language, pairs.source),
            "language": overlap(source_language, target_language),
            "adversarial": undecided(self.adversary(source)) + undecided(self.adversary(target)),
        }

    def adversary_terms(self, pairs: VectorPairs) -> Terms:
        """Cross-entropy of the languages of both meanings, which do not move by it."""
        decomposed = self.decomposed(pairs)
        source, target = decomposed.source_meaning.detach(), decomposed.target_meaning.detach()
        return {
            "adversary": cross_entropy(self.adversary(source), pairs.source_language)
            + cross_entropy(self.adversary(target), pairs.target_language)
        }

    def players(self) -> list[Player]:
        """The adversary, then the maps."""
        adversary = list(self.adversary.parameters())
        maps = [*self.meaning.parameters(), *self.language.parameters()]
        return [Player("adversary", adversary, self.adversary_terms), Player("maps", maps, self.forward)]


def undecided(logits: torch.Tensor) -> torch.Tensor:
    """Cross-entropy [n, languages] against the uniform distribution; its least value is ln(languages)."""
    return -log_softmax(logits, dim=-1).mean(dim=-1).mean()


class Dream(Decomposer):
    """DREAM: the two maps and a classifier of the language part's language, all trained by one loss."""

    def __init__(self, dim: int, languages: int, settings: OracleTerms) -> None:
        super().__init__(dim, languages, settings)
        self.classifier = nn.Linear(dim, languages)

    def own_terms(self, decomposed: DecomposedPairs, pairs: VectorPairs) -> Terms:
        """DREAM's four terms as ORACLE trains it: the batch's second half is the first's other text.

        Semantic loss, reconstruction by the mean squared error, language embedding loss (languages of the
        other half are not looked at; DREAM's own code draws it from the same language), and language
        classification. There are at least 2 pairs, and the last of an odd number is left out.
        """
        half = len(pairs.source) // 2
        true, other = decomposed.rows(slice(half)), decomposed.rows(slice(half, 2 * half))
        return {
            "semantic": cosine_distance(true.source_meaning, true.target_meaning)
            + overlap(true.source_meaning, other.source_meaning)
            + overlap(true.target_meaning, other.target_meaning),
            "reconstruction": mse_loss(true.source_meaning + true.source_language, pairs.source[:half])
            + mse_loss(true.target_meaning + true.target_language, pairs.target[:half]),
            "language": cosine_distance(true.source_language, other.source_language)
            + cosine_distance(true.target_language, other.target_language),
            "classification": cross_entropy(
                self.classifier(true.source_language), pairs.source_language[:half]
            )
            + cross_entropy(self.classifier(true.target_language), pairs.target_language[:half]),
        }
