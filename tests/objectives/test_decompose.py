"""What the decomposers' terms are made of beside the released numbers, and which parameters they move."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from mexma_cli.objectives.decompose.loss import Decomposer, Meat, VectorPairs, intra_class
from mexma_cli.settings.registry import DecomposerSettings

B, DIM, LANGUAGES = 6, 5, 3


def decomposer(name: str, **other: Any) -> Decomposer:
    torch.manual_seed(1)
    chosen = DecomposerSettings.chosen({"name": name, **other})
    maps: Decomposer = chosen.losses()(DIM, LANGUAGES, chosen)
    return maps


def batch() -> VectorPairs:
    random = torch.Generator().manual_seed(2)
    languages = torch.tensor([1, 2, 1, 1, 2, 2])
    return VectorPairs(
        torch.randn(B, DIM, generator=random),
        torch.randn(B, DIM, generator=random),
        torch.zeros(B, dtype=torch.long),
        languages,
    )


def mean_distance(vectors: torch.Tensor, codes: list[int]) -> float:
    """Of all pairs of rows with one code."""
    rows = vectors.numpy()
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    alike = [(i, j) for i in range(B) for j in range(B) if codes[i] == codes[j]]
    return float(np.mean([1 - unit[i] @ unit[j] for i, j in alike]))


@pytest.mark.parametrize("by_language", [False, True])
def test_intra_class(by_language: bool) -> None:
    pairs = batch()
    sides = ((pairs.source, pairs.source_language), (pairs.target, pairs.target_language))
    codes = [side[1] for side in sides] if by_language else [None, None]
    found = intra_class(pairs.source, pairs.target, *codes)
    wanted = sum(mean_distance(v, of.tolist() if by_language else [0] * B) for v, of in sides)
    assert found.item() == pytest.approx(wanted, rel=1e-5)


def test_dream_leaves_out_the_last_of_an_odd_number() -> None:
    pairs, maps = batch(), decomposer("dream")

    def first(count: int) -> dict[str, torch.Tensor]:
        cut = (pairs.source, pairs.target, pairs.source_language, pairs.target_language)
        return maps(VectorPairs(*(one[:count] for one in cut)))

    five, four = first(5), first(4)
    assert all(five[name].item() == pytest.approx(four[name].item()) for name in five)


def test_the_adversarial_loss_is_least_where_nothing_can_be_told() -> None:
    maps = decomposer("meat")
    assert isinstance(maps, Meat)
    torch.nn.init.zeros_(maps.adversary.weight)
    torch.nn.init.zeros_(maps.adversary.bias)
    assert maps(batch())["adversarial"].item() == pytest.approx(2 * math.log(LANGUAGES))


@pytest.mark.parametrize(
    ("settings", "terms"),
    [
        ({"name": "dream"}, {"semantic", "reconstruction", "language", "classification"}),
        ({"name": "meat"}, {"reconstruction", "cross_reconstruction", "language", "adversarial"}),
        ({"name": "oracle", "intra_class": 1, "inter_class": 1}, {"intra_class", "inter_class"}),
        ({"name": "oracle", "inter_class": 1}, {"inter_class"}),
    ],
    ids=["dream", "meat", "oracle", "inter"],
)
def test_terms_and_their_weights(settings: dict[str, Any], terms: set[str]) -> None:
    maps = decomposer(**settings)
    assert maps(batch()).keys() == terms
    more = decomposer(**{**settings, "intra_class": 0.5, "inter_class": 2.0})
    found = more(batch())
    assert found.keys() == terms | {"intra_class", "inter_class"}
    weights = {"intra_class": 0.5, "inter_class": 2.0}
    wanted = sum(weights.get(name, 1.0) * term.item() for name, term in found.items())
    assert more.loss(found).item() == pytest.approx(wanted)


def moved(maps: Decomposer, terms: Callable[[VectorPairs], dict[str, torch.Tensor]]) -> set[str]:
    """The parameters that a loss has a gradient for."""
    maps.zero_grad(set_to_none=True)
    maps.loss(terms(batch())).backward()
    return {name.split(".")[0] for name, p in maps.named_parameters() if p.grad is not None}


def test_the_adversarys_turn_moves_the_adversary_alone() -> None:
    maps = decomposer("meat", intra_class=1, inter_class=1)
    adversary, own = maps.players()
    assert [player.name for player in maps.players()] == ["adversary", "maps"]
    assert moved(maps, adversary.terms) == {"adversary"}
    assert isinstance(maps, Meat)
    assert {id(p) for p in adversary.parameters} == {id(p) for p in maps.adversary.parameters()}
    theirs = [p for layer in (maps.meaning, maps.language) for p in layer.parameters()]
    assert {id(p) for p in own.parameters} == {id(p) for p in theirs}


def test_dream_has_one_player_with_its_classifier() -> None:
    maps = decomposer("dream")
    (player,) = maps.players()
    assert len(player.parameters) == 6
    assert moved(maps, player.terms) == {"meaning", "language", "classifier"}


def test_the_released_inter_class_term_leaves_the_meaning_alone() -> None:
    maps = decomposer("oracle", inter_class=1, is_mode="language_language")
    assert moved(maps, maps.forward) == {"language"}
    paper = decomposer("oracle", inter_class=1)
    assert moved(paper, paper.forward) == {"meaning", "language"}
