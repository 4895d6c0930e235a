"""MEXMA against numbers that the authors' program printed, through the packed path."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, PreTrainedTokenizerFast

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.body import first_position
from mexma_cli.encoder.model.attention import run_packed
from mexma_cli.objectives.base import Masking, PairViews, split_views
from mexma_cli.objectives.mexma import Mexma
from mexma_cli.recipe import Head, MexmaObjective
from mexma_cli.training.masking import Vocabulary, build_views

AUTHORS_HEAD = Head(layers=2, heads=8, ffn=3072, layer_norm_eps=1e-12, dropout=0.0)


@pytest.fixture(scope="module")
def fixture(shared: Path) -> Path:
    folder = shared / "fixtures" / "mexma"
    if not folder.is_dir():
        pytest.skip("the reference numbers are not there")
    return folder


def objective(fixture: Path, tokenizer: PreTrainedTokenizerFast) -> Mexma:
    """The authors' weights in our modules; every one of them finds its place."""
    model = AutoModel.from_pretrained(fixture / "encoder", add_pooling_layer=False, dtype=torch.float32)
    encoder = SentenceEncoder("fixture", model, tokenizer, max_tokens=128)
    mexma = Mexma(encoder, MexmaObjective(name="mexma", head=AUTHORS_HEAD))
    weights = load_file(fixture / "mexma.safetensors")
    assert torch.equal(weights["mlp_head.0.weight"], weights["encoder.embeddings.word_embeddings.weight"])
    renamed = {our_name(name): value for name, value in weights.items() if name != "mlp_head.0.weight"}
    missing, unexpected = mexma.load_state_dict(renamed, strict=False)
    assert not missing and not unexpected
    return mexma.eval()


def our_name(name: str) -> str:
    for theirs, ours in (
        ("encoder.", "model."),
        ("unmasking_head.", "head.layers."),
        ("mlp_head.0.bias", "head.bias"),
    ):
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    raise AssertionError(name)


def views(fixture: Path) -> PairViews:
    """Their padded batch as our packed one, with their masks in place of ours."""
    batch = np.load(fixture / "batch.npz")
    masked, clean, labels = {}, {}, {}
    for side, prefix in enumerate(("src", "tgt")):
        for row, mask in enumerate(batch[f"{prefix}_attention_mask"].astype(bool)):
            key = (side, row)
            masked[key] = batch[f"{prefix}_input_ids"][row][mask]
            labels[key] = batch[f"{prefix}_labels"][row][mask]
            clean[key] = np.where(labels[key] >= 0, labels[key], masked[key])
    count = len(batch["src_labels"])
    keys = [(side, row) for side in (0, 1) for row in range(count)]
    order = sorted(range(2 * count), key=lambda i: len(clean[keys[i]]))
    pairs = [(clean[0, row][1:-1], clean[1, row][1:-1]) for row in range(count)]
    built = build_views(
        pairs,
        Masking(0.4, 0.8, 0.1),
        Vocabulary(0, 2, 599, frozenset({0, 1, 2, 3, 599}), 600, 2),
    )
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
        built.identities,
        masked_tokens=torch.from_numpy(places),
        labels=torch.from_numpy(flat_labels[places]),
        source_labels=int((sides[places] == 0).sum()),
    )


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder: Path) -> PreTrainedTokenizerFast:
    return SentenceEncoder.load(str(tiny_encoder), "cpu").tokenizer


def test_losses_are_the_authors(fixture: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    expected = json.loads((fixture / "expected.json").read_text())
    mexma = objective(fixture, tokenizer)
    terms = mexma(views(fixture))
    ours = {
        "src_mlm_loss": terms["unmask_source"],
        "trg_mlm_loss": terms["unmask_target"],
        "cls_loss": terms["alignment"],
        "koleo_loss": terms["koleo"],
        "loss": sum(mexma.weights[name] * term for name, term in terms.items()),
    }
    for name, value in ours.items():
        assert float(value) == pytest.approx(expected[name], abs=1e-5), name


def test_gradient_norms_are_the_authors(fixture: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    expected = json.loads((fixture / "expected.json").read_text())["grad_norms"]
    mexma = objective(fixture, tokenizer)
    terms = mexma(views(fixture))
    sum(mexma.weights[name] * term for name, term in terms.items()).backward()
    norms = {name: p.grad.norm() for name, p in mexma.named_parameters() if p.grad is not None}
    assert {our_name(name) for name in expected} == set(norms)
    for name, value in expected.items():
        # A key's bias moves no attention weight: its gradient is rounding noise, in theirs and in ours.
        tolerance = {"abs": 1e-6} if name.endswith("key.bias") else {"rel": 1e-3}
        assert float(norms[our_name(name)]) == pytest.approx(value, **tolerance), name


def test_clean_cls_is_the_authors(fixture: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    batch = np.load(fixture / "batch.npz")
    mexma, ours = objective(fixture, tokenizer), views(fixture)
    clean, _ = split_views(ours)
    with torch.no_grad():
        cls = run_packed(mexma.model, clean, "bucketed")[clean.cu_seqlens[:-1].long()]
    assert np.abs(cls[ours.source_rows].numpy() - batch["clean_src_cls"]).max() < 1e-5
    assert np.abs(cls[ours.target_rows].numpy() - batch["clean_tgt_cls"]).max() < 1e-5
    assert first_position(mexma.model) == 2
