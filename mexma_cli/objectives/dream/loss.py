"""DREAM (Tiyajamorn et al. 2021): a classifier tells the language of the language part."""

from __future__ import annotations

from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from mexma_cli.objectives.decomposer import Decomposer, Terms, VectorPairs, VectorParts, overlap
from mexma_cli.objectives.losses import cosine_distance
from mexma_cli.objectives.shared_settings import OracleTerms


class Dream(Decomposer):
    """The two maps and the classifier, all trained by one loss."""

    def __init__(self, dim: int, languages: int, settings: OracleTerms) -> None:
        super().__init__(dim, languages, settings)
        self.classifier = nn.Linear(dim, languages)

    def own_terms(self, parts: VectorParts, pairs: VectorPairs) -> Terms:
        """DREAM's four terms as ORACLE trains it: the batch's second half is the first's other text.

        Semantic loss, reconstruction by the mean squared error, language embedding loss (languages of the
        other half are not looked at; DREAM's own code draws it from the same language), and language
        classification. There are at least 2 pairs, and the last of an odd number is left out.
        """
        half = len(pairs.source) // 2
        true, other = parts.rows(slice(half)), parts.rows(slice(half, 2 * half))
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
