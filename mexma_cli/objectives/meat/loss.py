"""MEAT (Kuroda et al. 2022): an adversary tries to tell the language of the meaning part."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax

from mexma_cli.objectives.decomposer import Decomposer, Player, Terms, VectorPairs, VectorParts, overlap
from mexma_cli.objectives.losses import cosine_distance
from mexma_cli.objectives.shared_settings import OracleTerms


class Meat(Decomposer):
    """The two maps, and the adversary, which moves before them by a loss of its own."""

    def __init__(self, dim: int, languages: int, settings: OracleTerms) -> None:
        super().__init__(dim, languages, settings)
        self.adversary = nn.Linear(dim, languages)

    def own_terms(self, parts: VectorParts, pairs: VectorPairs) -> Terms:
        """Reconstruction, from the own meaning and from each other's, by cosine; language parts of a pair
        orthogonal; and an adversary that cannot tell the language of a meaning (it does not move by this)."""
        source, target = parts.source_meaning, parts.target_meaning
        source_language, target_language = parts.source_language, parts.target_language
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
        parts = self.parts(pairs)
        source, target = parts.source_meaning.detach(), parts.target_meaning.detach()
        return {
            "adversary": cross_entropy(self.adversary(source), pairs.source_language)
            + cross_entropy(self.adversary(target), pairs.target_language)
        }

    def players(self) -> list[Player]:
        """The adversary, then the maps."""
        adversary = list(self.adversary.parameters())
        maps = [*self.meaning.parameters(), *self.language.parameters()]
        return [
            Player("adversary", adversary, self.adversary_terms),
            Player("maps", maps, self.forward),
        ]


def undecided(logits: torch.Tensor) -> torch.Tensor:
    """Cross-entropy [n, languages] against the uniform distribution; its least value is ln(languages)."""
    return -log_softmax(logits, dim=-1).mean(dim=-1).mean()
