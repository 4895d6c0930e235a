"""MEXMA against numbers that the authors' program printed, through the packed path."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.encoder.model.transformer import first_position
from mexma_cli.objectives.losses import koleo
from mexma_cli.objectives.masking import Masking, masked_views
from mexma_cli.objectives.mexma.loss import Mexma
from mexma_cli.objectives.mexma.settings import Head, MexmaSettings
from mexma_cli.objectives.views import PairViews, TokenPairs, Vocabulary
from tests.reference import FIXTURES

EXPECTED = json.loads((FIXTURES / "mexma.json").read_text())
BATCH = dict(np.load(FIXTURES / "mexma_batch.npz"))
AUTHORS_HEAD = Head(layers=2, heads=8, ffn=3072, layer_norm_eps=1e-12, dropout=0.0)


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder: Path) -> PreTrainedTokenizerFast:
    return SentenceEncoder.load(str(tiny_encoder), "cpu").tokenizer


@pytest.fixture
def mexma(tokenizer: PreTrainedTokenizerFast) -> Mexma:
    """The authors' weights in our modules; every one of them finds its place."""
    config = XLMRobertaConfig(**EXPECTED["config"])
    encoder = SentenceEncoder(
        "fixture", XLMRobertaModel(config, add_pooling_layer=False), tokenizer, max_tokens=128
    )
    ours = Mexma(encoder, MexmaSettings(name="mexma", head=AUTHORS_HEAD))
    weights = dict(np.load(FIXTURES / "mexma_weights.npz"))
    renamed = {our_name(name): torch.from_numpy(weight).float() for name, weight in weights.items()}
    missing, unexpected = ours.load_state_dict(renamed, strict=False)
    assert not missing and not unexpected
    return ours.eval()


def our_name(name: str) -> str:
    for theirs, ours in (
        ("encoder.", "model."),
        ("unmasking_head.", "head.layers."),
        ("mlp_head.0.bias", "head.bias"),
    ):
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    raise AssertionError(name)


def views() -> PairViews:
    """Their padded batch as our packed one, with their masks in place of ours."""
    masked, clean, labels = {}, {}, {}
    for side, prefix in enumerate(("src", "tgt")):
        for row, mask in enumerate(BATCH[f"{prefix}_attention_mask"].astype(bool)):
            key = (side, row)
            masked[key] = BATCH[f"{prefix}_input_ids"][row][mask]
            labels[key] = BATCH[f"{prefix}_labels"][row][mask]
            clean[key] = np.where(labels[key] >= 0, labels[key], masked[key])
    count = len(BATCH["src_labels"])
    keys = [(side, row) for side in (0, 1) for row in range(count)]
    order = sorted(range(2 * count), key=lambda i: len(clean[keys[i]]))
    pairs = [(clean[0, row][1:-1], clean[1, row][1:-1]) for row in range(count)]
    vocabulary = Vocabulary(0, 2, 599, frozenset({0, 1, 2, 3, 599}), 600, 2)
    built = masked_views(TokenPairs(pairs), vocabulary, Masking(0.4, 0.8, 0.1))
    flat_labels = np.concatenate([labels[keys[i]] for i in order])
    sides = np.concatenate([np.full(len(labels[keys[i]]), keys[i][0]) for i in order])
    places = np.flatnonzero(flat_labels >= 0)
    places = places[np.argsort(sides[places], kind="stable")]
    tokens = len(built.batch.input_ids) // 2
    built.batch.input_ids[tokens:] = torch.from_numpy(np.concatenate([masked[keys[i]] for i in order]))
    assert np.array_equal(
        built.batch.input_ids[:tokens].numpy(), np.concatenate([clean[keys[i]] for i in order])
    )
    return PairViews(
        built.batch,
        built.source_rows,
        built.target_rows,
        built.partners,
        built.negative_rows,
        built.negative_pairs,
        built.identities,
        masked_tokens=torch.from_numpy(places),
        labels=torch.from_numpy(flat_labels[places]),
        source_labels=int((sides[places] == 0).sum()),
    )


def test_losses_are_the_authors(mexma: Mexma) -> None:
    terms = mexma(views())
    ours = {
        "src_mlm_loss": terms["unmask_source"],
        "trg_mlm_loss": terms["unmask_target"],
        "cls_loss": terms["alignment"],
        "koleo_loss": terms["koleo"],
        "loss": sum(mexma.weights[name] * term for name, term in terms.items()),
    }
    for name, value in ours.items():
        assert float(value) == pytest.approx(EXPECTED[name], abs=1e-5), name


def test_koleo_of_the_authors_vectors_is_theirs() -> None:
    """They add 1e-8 to every coordinate of a difference, and to its length.

    At these distances, of 0.09 and more, that changes the logarithm by less than 1e-6; and no second
    neighbour is so close that rounding could choose it (by 4e-3 on one side, 5e-4 on the other).
    """
    sides = [torch.from_numpy(BATCH[f"clean_{side}_cls"]) for side in ("src", "tgt")]
    ours = sum(float(koleo(side)) for side in sides) / 2
    assert ours == pytest.approx(EXPECTED["koleo_loss"], abs=1e-6)


def test_gradient_norms_are_the_authors(mexma: Mexma) -> None:
    terms = mexma(views())
    sum(mexma.weights[name] * term for name, term in terms.items()).backward()
    norms = {name: p.grad.norm() for name, p in mexma.named_parameters() if p.grad is not None}
    expected = EXPECTED["grad_norms"]
    assert {our_name(name) for name in expected} == set(norms)
    for name, value in expected.items():
        # A key's bias moves no attention weight: its gradient is rounding noise, in theirs and in ours.
        tolerance = {"abs": 1e-6} if name.endswith("key.bias") else {"rel": 1e-3}
        assert float(norms[our_name(name)]) == pytest.approx(value, **tolerance), name


def test_clean_cls_is_the_authors(mexma: Mexma) -> None:
    ours = views()
    clean, _ = ours.split()
    with torch.no_grad():
        cls = run_packed(mexma.model, clean, "bucketed")[clean.cu_seqlens[:-1].long()]
    assert np.abs(cls[ours.source_rows].numpy() - BATCH["clean_src_cls"]).max() < 1e-5
    assert np.abs(cls[ours.target_rows].numpy() - BATCH["clean_tgt_cls"]).max() < 1e-5
    assert first_position(mexma.model) == 2
