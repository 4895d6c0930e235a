"""DREAM, MEAT and ORACLE: sentence vectors taken apart into a meaning and a language.

The encoder is frozen and its vectors are read from disk. Two linear maps of them are trained, `meaning` and
`language`; with DREAM a language classifier on the language part, with MEAT one on the meaning part, a second
player that the first one tries to mislead. Formulae as in the ORACLE paper's released code, which trains all
of these (Ki et al. 2024); where the paper differs there is a key of the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from mexma_cli.objectives.losses import apart
from mexma_cli.recipe.decompose import DecomposeObjective

Terms = dict[str, torch.Tensor]


@dataclass(frozen=True)
class VectorPairs:
    """B translations by their vectors.

    Attributes:
        source, target: float32 [B, dim], as the encoder made them.
        source_language, target_language: int64 [B], which of the run's languages each is in.
    """

    source: torch.Tensor
    target: torch.Tensor
    source_language: torch.Tensor
    target_language: torch.Tensor

    def to(self, device: torch.device) -> VectorPairs:
        """The same pairs on another device."""
        parts = (self.source, self.target, self.source_language, self.target_language)
        return VectorPairs(*(part.to(device, non_blocking=True) for part in parts))


@dataclass(frozen=True)
class Parts:
    """Both parts of B pairs, each float32 [B, dim]."""

    source_meaning: torch.Tensor
    target_meaning: torch.Tensor
    source_language: torch.Tensor
    target_language: torch.Tensor

    def rows(self, chosen: slice) -> Parts:
        """The same of some of the pairs."""
        parts = (self.source_meaning, self.target_meaning, self.source_language, self.target_language)
        return Parts(*(part[chosen] for part in parts))


@dataclass(frozen=True)
class Player:
    """Who moves: parameters, and the loss that moves them.

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


def dream(parts: Parts, pairs: VectorPairs, classifier: nn.Module) -> Terms:
    """DREAM (Tiyajamorn et al. 2021) as ORACLE trains it: the batch's second half is the first's other text.

    Semantic loss, reconstruction by the mean squared error, language embedding loss (languages of the other
    half are not looked at; DREAM's own code draws it from the same language), language classification.

    Args:
        parts: Of `pairs`, at least 2 of them; the last of an odd number is left out.
        classifier: float32 [n, dim] language parts to [n, languages] logits.
    """
    half = len(pairs.source) // 2
    true, other = parts.rows(slice(half)), parts.rows(slice(half, 2 * half))
    return {
        "semantic": apart(true.source_meaning, true.target_meaning)
        + overlap(true.source_meaning, other.source_meaning)
        + overlap(true.target_meaning, other.target_meaning),
        "reconstruction": functional.mse_loss(true.source_meaning + true.source_language, pairs.source[:half])
        + functional.mse_loss(true.target_meaning + true.target_language, pairs.target[:half]),
        "language": apart(true.source_language, other.source_language)
        + apart(true.target_language, other.target_language),
        "classification": functional.cross_entropy(
            classifier(true.source_language), pairs.source_language[:half]
        )
        + functional.cross_entropy(classifier(true.target_language), pairs.target_language[:half]),
    }


def meat(parts: Parts, pairs: VectorPairs, adversary: nn.Module) -> Terms:
    """MEAT (Kuroda et al. 2022): reconstruction, from the own and from each other's meaning, by cosine;
    language parts of a pair orthogonal; and an adversary that cannot tell the language of a meaning.

    Args:
        adversary: float32 [n, dim] meaning parts to [n, languages] logits; its parameters are not meant to
            move by this loss.
    """
    return {
        "reconstruction": apart(parts.source_meaning + parts.source_language, pairs.source)
        + apart(parts.target_meaning + parts.target_language, pairs.target),
        "cross_reconstruction": apart(parts.source_meaning + parts.target_language, pairs.target)
        + apart(parts.target_meaning + parts.source_language, pairs.source),
        "language": overlap(parts.source_language, parts.target_language),
        "adversarial": undecided(adversary(parts.source_meaning))
        + undecided(adversary(parts.target_meaning)),
    }


def undecided(logits: torch.Tensor) -> torch.Tensor:
    """Cross-entropy [n, languages] against the uniform distribution; its least value is ln(languages)."""
    return -functional.log_softmax(logits, dim=-1).mean(dim=-1).mean()


def told_apart(parts: Parts, pairs: VectorPairs, adversary: nn.Module) -> Terms:
    """MEAT's other player: cross-entropy of the languages of both meanings, which do not move by it."""
    return {
        "adversary": functional.cross_entropy(adversary(parts.source_meaning.detach()), pairs.source_language)
        + functional.cross_entropy(adversary(parts.target_meaning.detach()), pairs.target_language)
    }


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


def inter_class(parts: Parts, mode: str) -> torch.Tensor:
    """ORACLE's inter-class separation: no part of the one in the other.

    Args:
        mode: `meaning_language`: meaning and language of a sentence (equation 6), the sum of both sides;
            `language_language`: the languages of a pair, which the released code trains with.
    """
    if mode == "language_language":
        return overlap(parts.source_language, parts.target_language)
    return overlap(parts.source_meaning, parts.source_language) + overlap(
        parts.target_meaning, parts.target_language
    )


class Decomposer(nn.Module):
    """The two maps, what is trained with them, and who moves when.

    Args:
        dim: Numbers in a vector.
        languages: How many there are, both sides together.

    Attributes:
        meaning, language: Linear [dim] to [dim].
        weights: Of each term that a player's loss has.
    """

    def __init__(self, dim: int, languages: int, settings: DecomposeObjective) -> None:
        super().__init__()
        self.settings = settings
        self.meaning = nn.Linear(dim, dim)
        self.language = nn.Linear(dim, dim)
        self.classifier = nn.Linear(dim, languages) if settings.name == "dream" else None
        self.adversary = nn.Linear(dim, languages) if settings.name == "meat" else None
        self.weights: Mapping[str, float] = {
            "intra_class": settings.intra_class,
            "inter_class": settings.inter_class,
        }

    def parts(self, pairs: VectorPairs) -> Parts:
        """Both vectors of every pair taken apart."""
        return Parts(
            self.meaning(pairs.source),
            self.meaning(pairs.target),
            self.language(pairs.source),
            self.language(pairs.target),
        )

    def forward(self, pairs: VectorPairs) -> Terms:
        """The terms that the two maps are trained by, unweighted scalars."""
        parts, settings = self.parts(pairs), self.settings
        terms: Terms = {}
        if self.classifier is not None:
            terms = dream(parts, pairs, self.classifier)
        elif self.adversary is not None:
            terms = meat(parts, pairs, self.adversary)
        if settings.intra_class:
            by_language = settings.ic_group == "language"
            terms["intra_class"] = intra_class(
                parts.source_language,
                parts.target_language,
                pairs.source_language if by_language else None,
                pairs.target_language if by_language else None,
            )
        if settings.inter_class:
            terms["inter_class"] = inter_class(parts, settings.is_mode)
        return terms

    def loss(self, terms: Terms) -> torch.Tensor:
        """The weighted sum of some terms."""
        return torch.stack([self.weights.get(name, 1.0) * term for name, term in terms.items()]).sum()

    def players(self) -> list[Player]:
        """Who moves in a step, in order: MEAT's adversary, then the maps (and DREAM's classifier)."""
        adversary = self.adversary
        theirs = [] if adversary is None else list(adversary.parameters())
        held = {id(parameter) for parameter in theirs}
        maps = Player("maps", [p for p in self.parameters() if id(p) not in held], self.forward)
        if adversary is None:
            return [maps]
        return [Player("adversary", theirs, lambda p: told_apart(self.parts(p), p, adversary)), maps]
