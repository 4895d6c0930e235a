"""DREAM, MEAT and ORACLE against plain NumPy written from the formulae, and what moves what."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from mexma_cli.objectives.decomposer import Decomposer, Parts, VectorPairs, inter_class, intra_class
from mexma_cli.objectives.dream.loss import dream
from mexma_cli.objectives.meat.loss import Meat, adversary_terms, meat
from mexma_cli.recipe import DecomposerSettings

B, DIM, LANGUAGES = 6, 5, 3
Array = np.ndarray


@pytest.fixture
def numbers() -> dict[str, Array]:
    """Vectors e, meanings m and languages l of source s and target t, languages and a classifier."""
    random = np.random.default_rng(3)
    names = ("es", "et", "sm", "tm", "sl", "tl")
    found = {name: random.normal(size=(B, DIM)).astype(np.float32) for name in names}
    return found | {
        "ls": np.zeros(B, dtype=np.int64),
        "lt": np.array([1, 2, 1, 1, 2, 2]),
        "w": random.normal(size=(LANGUAGES, DIM)).astype(np.float32),
        "b": random.normal(size=LANGUAGES).astype(np.float32),
    }


@pytest.fixture
def torches(numbers: dict[str, Array]) -> tuple[Parts, VectorPairs, torch.nn.Linear]:
    n = {name: torch.from_numpy(array) for name, array in numbers.items()}
    linear = torch.nn.Linear(DIM, LANGUAGES)
    linear.load_state_dict({"weight": n["w"], "bias": n["b"]})
    parts = Parts(n["sm"], n["tm"], n["sl"], n["tl"])
    return parts, VectorPairs(n["es"], n["et"], n["ls"], n["lt"]), linear


def cos(a: Array, b: Array) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def pos(a: Array, b: Array) -> float:
    return sum(1 - cos(x, y) for x, y in zip(a, b, strict=True)) / len(a)


def neg(a: Array, b: Array) -> float:
    return sum(max(0.0, cos(x, y)) for x, y in zip(a, b, strict=True)) / len(a)


def mse(a: Array, b: Array) -> float:
    return float(((a - b) ** 2).sum() / a.size)


def ce(numbers: dict[str, Array], x: Array, labels: Array) -> float:
    total = 0.0
    for row, label in zip(x, labels, strict=True):
        logits = numbers["w"] @ row + numbers["b"]
        total -= logits[label] - math.log(np.exp(logits).sum())
    return total / len(x)


def uniform(numbers: dict[str, Array], x: Array) -> float:
    total = 0.0
    for row in x:
        logits = numbers["w"] @ row + numbers["b"]
        total -= sum((logit - math.log(np.exp(logits).sum())) / LANGUAGES for logit in logits)
    return total / len(x)


def close(found: dict[str, torch.Tensor], wanted: dict[str, float]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name].item() == pytest.approx(value, rel=1e-5), name


def test_dream(numbers: dict[str, Array], torches: Any) -> None:
    n, h = numbers, B // 2
    a = {name: n[name][:h] for name in ("es", "et", "sm", "tm", "sl", "tl", "ls", "lt")}
    r = {name: n[name][h:] for name in ("sm", "tm", "sl", "tl")}
    wanted = {
        "semantic": pos(a["sm"], a["tm"]) + neg(a["sm"], r["sm"]) + neg(a["tm"], r["tm"]),
        "reconstruction": mse(a["sm"] + a["sl"], a["es"]) + mse(a["tm"] + a["tl"], a["et"]),
        "language": pos(a["sl"], r["sl"]) + pos(a["tl"], r["tl"]),
        "classification": ce(n, a["sl"], a["ls"]) + ce(n, a["tl"], a["lt"]),
    }
    close(dream(*torches), wanted)


def test_dream_leaves_out_the_last_of_an_odd_number(torches: Any) -> None:
    parts, pairs, classifier = torches

    def first(count: int) -> tuple[Parts, VectorPairs]:
        cut = (pairs.source, pairs.target, pairs.source_language, pairs.target_language)
        return parts.rows(slice(count)), VectorPairs(*(one[:count] for one in cut))

    five, four = dream(*first(5), classifier), dream(*first(4), classifier)
    assert all(five[name] == four[name] for name in five)


def test_meat(numbers: dict[str, Array], torches: Any) -> None:
    n = numbers
    wanted = {
        "reconstruction": pos(n["sm"] + n["sl"], n["es"]) + pos(n["tm"] + n["tl"], n["et"]),
        "cross_reconstruction": pos(n["sm"] + n["tl"], n["et"]) + pos(n["tm"] + n["sl"], n["es"]),
        "language": neg(n["sl"], n["tl"]),
        "adversarial": uniform(n, n["sm"]) + uniform(n, n["tm"]),
    }
    close(meat(*torches), wanted)


def test_the_adversary(numbers: dict[str, Array], torches: Any) -> None:
    n = numbers
    close(adversary_terms(*torches), {"adversary": ce(n, n["sm"], n["ls"]) + ce(n, n["tm"], n["lt"])})


def test_the_adversarial_loss_is_least_where_nothing_can_be_told() -> None:
    maps = decomposer("meat")
    assert isinstance(maps, Meat)
    torch.nn.init.zeros_(maps.adversary.weight)
    torch.nn.init.zeros_(maps.adversary.bias)
    assert maps(batch())["adversarial"].item() == pytest.approx(2 * math.log(LANGUAGES))


def test_intra_class(numbers: dict[str, Array], torches: Any) -> None:
    parts = torches[0]
    sl, tl = numbers["sl"], numbers["tl"]
    everyone = [2 - cos(sl[i], sl[j]) - cos(tl[i], tl[j]) for i in range(B) for j in range(B)]
    found = intra_class(parts.source_language, parts.target_language)
    assert found.item() == pytest.approx(np.mean(everyone), rel=1e-5)


def test_intra_class_by_language(numbers: dict[str, Array], torches: Any) -> None:
    parts, pairs, _ = torches
    sides = []
    for vectors, codes in ((numbers["sl"], numbers["ls"]), (numbers["tl"], numbers["lt"])):
        alike = [(i, j) for i in range(B) for j in range(B) if codes[i] == codes[j]]
        sides.append(np.mean([1 - cos(vectors[i], vectors[j]) for i, j in alike]))
    found = intra_class(
        parts.source_language, parts.target_language, pairs.source_language, pairs.target_language
    )
    assert found.item() == pytest.approx(sum(sides), rel=1e-5)


def test_inter_class_as_in_the_paper_and_as_released(numbers: dict[str, Array], torches: Any) -> None:
    n, parts = numbers, torches[0]
    paper = neg(n["sm"], n["sl"]) + neg(n["tm"], n["tl"])
    assert inter_class(parts, "meaning_language").item() == pytest.approx(paper, rel=1e-5)
    assert inter_class(parts, "language_language").item() == pytest.approx(neg(n["sl"], n["tl"]), rel=1e-5)


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
