"""DREAM, MEAT and ORACLE against numbers that their released program printed.

Made with github.com/dayeonki/oracle at 1315220: `OracleNewLoss`, which the published configurations name, and
`OracleMainLoss` of loss/dream.py and loss/meat.py, and `DiscriminatorLoss`, on the numbers of `inputs`.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mexma_cli.objectives.decompose.loss import Decomposer, VectorPairs
from mexma_cli.settings.registry import DecomposerSettings

B, DIM, LANGUAGES = 6, 5, 3
RELEASED = {
    "dream": {
        "semantic": 1.1440036296844482,
        "reconstruction": 17.29298210144043,
        "language": 1.3796262741088867,
        "classification": 4.153263568878174,
    },
    "meat": {
        "reconstruction": 2.099365711212158,
        "cross_reconstruction": 2.2995309829711914,
        "language": 0.3403284251689911,
        "adversarial": 6.340341567993164,
    },
}
TOTAL = {"dream": 25.651708602905273, "meat": 12.761399269104004}
ORACLE = 1.6818325519561768
INTER_CLASS_OF_ORACLE_MAIN = 0.32396891713142395
ADVERSARY = 6.006496906280518


def inputs(name: str, **settings: object) -> tuple[Decomposer, VectorPairs]:
    random = np.random.default_rng(7)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.from_numpy(random.standard_normal(shape).astype(np.float32))

    source, target = numbers(B, DIM), numbers(B, DIM)
    chosen = DecomposerSettings.chosen({"name": name, **settings})
    maps: Decomposer = chosen.losses()(DIM, LANGUAGES, chosen)
    told = getattr(maps, "classifier" if name == "dream" else "adversary")
    with torch.no_grad():
        for layer in (maps.meaning, maps.language, told):
            layer.weight.copy_(numbers(*layer.weight.shape))
            layer.bias.copy_(numbers(*layer.bias.shape))
    languages = torch.zeros(B, dtype=torch.long), torch.tensor([1, 2, 1, 1, 2, 2])
    return maps, VectorPairs(source, target, *languages)


@pytest.mark.parametrize("name", ["dream", "meat"])
def test_the_terms_are_the_released_programs(name: str) -> None:
    maps, pairs = inputs(name, intra_class=1, inter_class=1, is_mode="language_language")
    terms = maps(pairs)
    for term, value in RELEASED[name].items():
        assert terms[term].item() == pytest.approx(value, rel=1e-5), term
    assert (terms["intra_class"] + terms["inter_class"]).item() == pytest.approx(ORACLE, rel=1e-5)
    assert maps.loss(terms).item() == pytest.approx(TOTAL[name], rel=1e-5)


def test_the_adversarys_loss_is_the_released_programs() -> None:
    maps, pairs = inputs("meat")
    adversary, _ = maps.players()
    assert maps.loss(adversary.terms(pairs)).item() == pytest.approx(ADVERSARY, rel=1e-5)


def test_the_papers_inter_class_term_is_twice_the_released_one() -> None:
    """Equation 6 adds up both sides, of which the program takes the mean."""
    maps, pairs = inputs("meat", inter_class=1)
    assert maps(pairs)["inter_class"].item() == pytest.approx(2 * INTER_CLASS_OF_ORACLE_MAIN, rel=1e-5)
