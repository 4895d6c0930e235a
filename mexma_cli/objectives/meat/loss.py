"""MEAT (Kuroda et al. 2022): an adversary tries to tell the language of the meaning part."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from mexma_cli.objectives.decomposer import Decomposer, Parts, Player, Terms, VectorPairs, overlap
from mexma_cli.objectives.losses import cosine_distance
from mexma_cli.objectives.shared_settings import OracleTerms


class Meat(Decomposer):
    """The two maps, and the adversary, which moves before them by a loss of its own."""

    def __init__(self, dim: int, languages: int, settings: OracleTerms) -> None:
        super().__init__(dim, languages, settings)
        self.adversary = nn.Linear(dim, languages)

    def own_terms(self, parts: Parts, pairs: VectorPairs) -> Terms:
        """MEAT's terms of the maps."""
        return meat(parts, pairs, self.adversary)

    def players(self) -> list[Player]:
        """The adversary, then the maps."""
        adversary = list(self.adversary.parameters())
        maps = [*self.meaning.parameters(), *self.language.parameters()]
        return [
            Player("adversary", adversary, lambda p: adversary_terms(self.parts(p), p, self.adversary)),
            Player("maps", maps, self.forward),
        ]


def meat(parts: Parts, pairs: VectorPairs, adversary: nn.Module) -> Terms:
    """MEAT (Kuroda et al. 2022): reconstruction, from the own and from each other's meaning, by cosine;
    language parts of a pair orthogonal; and an adversary that cannot tell the language of a meaning.

    Args:
        adversary: float32 [n, dim] meaning parts to [n, languages] logits; its parameters are not meant to
            move by this loss.
    """
    return {
        "reconstruction": cosine_distance(parts.source_meaning + parts.source_language, pairs.source)
        + cosine_distance(parts.target_meaning + parts.target_language, pairs.target),
        "cross_reconstruction": cosine_distance(parts.source_meaning + parts.target_language, pairs.target)
        + cosine_distance(parts.target_meaning + parts.source_language, pairs.source),
        "language": overlap(parts.source_language, parts.target_language),
        "adversarial": undecided(adversary(parts.source_meaning))
        + undecided(adversary(parts.target_meaning)),
    }


def undecided(logits: torch.Tensor) -> torch.Tensor:
    """Cross-entropy [n, languages] against the uniform distribution; its least value is ln(languages)."""
    return -functional.log_softmax(logits, dim=-1).mean(dim=-1).mean()


def adversary_terms(parts: Parts, pairs: VectorPairs, adversary: nn.Module) -> Terms:
    """MEAT's other player: cross-entropy of the languages of both meanings, which do not move by it."""
    return {
        "adversary": functional.cross_entropy(adversary(parts.source_meaning.detach()), pairs.source_language)
        + functional.cross_entropy(adversary(parts.target_meaning.detach()), pairs.target_language)
    }
