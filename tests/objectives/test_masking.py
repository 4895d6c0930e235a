"""Masking: the rates, what is never touched, and how the masked half lies beside the clean one."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForMaskedLM

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.contrastive.loss import concatenated_views
from mexma_cli.objectives.dap.loss import HeadInputs
from mexma_cli.objectives.dap.settings import Rtl
from mexma_cli.objectives.masking import (
    Masking,
    VocabularyHead,
    load_masked_lm,
    mask_tokens,
    masked_views,
    token_keys,
)
from mexma_cli.objectives.views import PairViews, StackedSides, TokenPairs, Vocabulary

VOCABULARY = Vocabulary(
    bos=0, eos=2, mask=999, special=frozenset({0, 1, 2, 3, 999}), size=1000, first_position=2
)
PAPER = Masking(0.4, 0.8, 0.1)

Pairs = list[tuple[np.ndarray, np.ndarray]]


def random_pairs(count: int, seed: int = 0, longest: int = 30) -> Pairs:
    rng = np.random.default_rng(seed)

    def sentence() -> np.ndarray:
        return rng.integers(4, 999, rng.integers(0, longest + 1)).astype(np.uint16)

    return [(sentence(), sentence()) for _ in range(count)]


def test_rates() -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(4, 999, 200_000)
    replaced, places = mask_tokens(ids, token_keys([len(ids)], np.zeros(1, np.uint64), 0), PAPER, VOCABULARY)
    assert len(places) / len(ids) == pytest.approx(0.4, abs=0.005)
    became_mask = replaced[places] == VOCABULARY.mask
    stayed = replaced[places] == ids[places]
    assert became_mask.mean() == pytest.approx(0.8, abs=0.005)
    assert stayed.mean() == pytest.approx(0.1, abs=0.005)
    assert (~became_mask & ~stayed).mean() == pytest.approx(0.1, abs=0.005)
    untouched = np.ones(len(ids), dtype=bool)
    untouched[places] = False
    assert np.array_equal(replaced[untouched], ids[untouched])


def test_special_tokens_are_never_chosen() -> None:
    ids = np.array(sorted(VOCABULARY.special) * 200)
    keys = token_keys([len(ids)], np.zeros(1, np.uint64), 0)
    replaced, places = mask_tokens(ids, keys, Masking(0.99, 0.8, 0.1), VOCABULARY)
    assert not len(places) and np.array_equal(replaced, ids)


def test_the_same_seed_masks_the_same() -> None:
    pairs = random_pairs(5)
    one, two = (masked_views(TokenPairs(pairs, 4), VOCABULARY, PAPER) for _ in "ab")
    assert one.batch.input_ids.tolist() == two.batch.input_ids.tolist()


def test_a_pair_is_masked_the_same_in_every_batch() -> None:
    """However a run is cut into batches and processes: position and seed decide, and nothing else."""
    pairs = random_pairs(8)
    whole = masked_views(TokenPairs(pairs, 4, 1000), VOCABULARY, PAPER)
    halves = [masked_views(TokenPairs(pairs[i : i + 4], 4, 1000 + i), VOCABULARY, PAPER) for i in (0, 4)]
    for i in range(8):
        half, place = halves[i // 4], i % 4
        for rows in ("source_rows", "target_rows"):
            here = sentence(whole, 16 + int(getattr(whole, rows)[i]))
            assert here == sentence(half, 8 + int(getattr(half, rows)[place]))
    for other in (
        masked_views(TokenPairs(pairs, 4, 2000), VOCABULARY, PAPER),
        masked_views(TokenPairs(pairs, 5, 1000), VOCABULARY, PAPER),
    ):
        assert other.batch.input_ids.tolist() != whole.batch.input_ids.tolist()
        assert other.batch.lengths == whole.batch.lengths


def test_identities_are_the_same_in_every_process() -> None:
    """They are compared between processes, whose own hashes of bytes differ."""
    views = StackedSides.of(TokenPairs([(np.array([5]), np.array([6]))]), VOCABULARY).views()
    assert views.identities.tolist() == [1450421889531408521, 1234376946377559886]


def sentence(views: PairViews, row: int) -> list[int]:
    start, end = views.batch.cu_seqlens[row : row + 2].tolist()
    return views.batch.input_ids[start:end].tolist()


@given(st.integers(1, 12), st.integers(0, 1000))
def test_views_hold_every_sentence_where_they_say(count: int, seed: int) -> None:
    pairs = random_pairs(count, seed)
    views = masked_views(TokenPairs(pairs, seed), VOCABULARY, PAPER)
    assert len(views.batch.lengths) == 4 * count
    sources, targets = views.source_rows.tolist(), views.target_rows.tolist()
    assert sorted(sources + targets) == list(range(2 * count))
    for i, (source, target) in enumerate(pairs):
        assert sentence(views, sources[i]) == [0, *source.tolist(), 2]
        assert sentence(views, targets[i]) == [0, *target.tolist(), 2]
        assert views.partners[sources[i]] == targets[i] and views.partners[targets[i]] == sources[i]


@given(st.integers(1, 12), st.integers(0, 1000))
def test_the_masked_half_lies_as_the_clean_half(count: int, seed: int) -> None:
    pairs = random_pairs(count, seed)
    views = masked_views(TokenPairs(pairs, seed), VOCABULARY, PAPER)
    lengths = views.batch.lengths
    assert lengths[: 2 * count] == lengths[2 * count :]
    assert list(lengths[: 2 * count]) == sorted(lengths[: 2 * count])
    tokens = sum(lengths) // 2
    clean, masked = views.batch.input_ids[:tokens].numpy(), views.batch.input_ids[tokens:].numpy()
    assert np.array_equal(views.batch.position_ids[:tokens], views.batch.position_ids[tokens:])
    places = views.masked_tokens.numpy()
    assert np.array_equal(clean[places], views.labels)
    assert not np.isin(views.labels, list(VOCABULARY.special)).any()
    same = np.ones(tokens, dtype=bool)
    same[places] = False
    assert np.array_equal(clean[same], masked[same])
    row_of = np.repeat(np.arange(2 * count), lengths[: 2 * count])[places]
    assert np.array_equal(np.isin(row_of, views.source_rows), np.arange(len(places)) < views.source_labels)


def test_without_masking_there_is_one_half() -> None:
    views = StackedSides.of(TokenPairs(random_pairs(3)), VOCABULARY).views()
    assert len(views.batch.lengths) == 6
    assert len(views.masked_tokens) == len(views.labels) == views.source_labels == 0


def test_pairs_that_share_a_sentence_are_no_negatives() -> None:
    a, b, c, d = (np.array([10 + i, 20 + i]) for i in range(4))
    pairs = [(a, b), (a, c), (d, c), (d, np.array([77]))]
    views = StackedSides.of(TokenPairs(pairs), VOCABULARY).views()
    _, _, repeated = views.negatives(torch.zeros(len(views.identities), 1))
    expected = np.zeros((4, 4), dtype=bool)
    for i, j in [(0, 1), (1, 2), (2, 3)]:
        expected[i, j] = expected[j, i] = True
    assert np.array_equal(repeated, expected)


def test_one_side_of_each_pair_is_masked_and_the_other_clean() -> None:
    pairs = [(np.append(a, 4 + i), np.append(b, 64 + i)) for i, (a, b) in enumerate(random_pairs(60))]
    both = masked_views(TokenPairs(pairs, 3, 100), VOCABULARY, PAPER)
    one = masked_views(TokenPairs(pairs, 3, 100), VOCABULARY, PAPER, symmetric=False)
    assert len(one.batch.lengths) == 120 and len(one.partners) == len(one.identities) == 60
    assert len(one.source_rows) == len(one.target_rows) == 0

    def sentences(views: PairViews) -> list[list[int]]:
        borders = views.batch.cu_seqlens.tolist()
        return [views.batch.input_ids[a:b].tolist() for a, b in pairwise(borders)]

    all_sentences = sentences(both)
    place = {tuple(ids): i for i, ids in enumerate(all_sentences[:120])}  # no two are alike
    assert len(place) == 120
    clean = [place[tuple(ids)] for ids in sentences(one)[:60]]
    masked = both.partners[clean].tolist()
    assert sorted(clean + masked) == list(range(120))
    sources = len(set(clean) & set(both.source_rows.tolist()))
    assert 15 < sources < 45  # which side it is, is drawn
    # Each masked sentence is masked as it is with both sides, and knows where its translation stands.
    shown = [clean[partner] for partner in one.partners.tolist()]
    hidden = both.partners[shown].tolist()
    assert hidden == sorted(masked)
    assert sentences(one)[60:] == [all_sentences[120 + i] for i in hidden]
    tokens = sum(one.batch.lengths[:60])
    holders = np.searchsorted(
        one.batch.cu_seqlens[61:].numpy() - tokens, one.masked_tokens.numpy(), side="right"
    )
    assert [hidden[i] in both.source_rows for i in holders] == [
        place < one.source_labels for place in range(len(holders))
    ]
    borders = both.batch.cu_seqlens[1:121].numpy()
    holders_of_both = np.searchsorted(borders, both.masked_tokens.numpy(), side="right")
    kept = np.isin(holders_of_both, hidden)
    assert one.labels.tolist() == both.labels[kept].tolist()


@given(st.integers(1, 9), st.sampled_from(["forward", "backward", "both"]), st.sampled_from([0.5, 1.0]))
def test_pairs_for_the_head_of_dap_lie_where_they_say(count: int, direction: Any, ratio: float) -> None:
    """Each sequence is a pair without its first tokens; only the predicted side has hidden ones."""
    pairs, start = random_pairs(count, count), 7
    chosen = TokenPairs(pairs, 3, start, np.arange(count) + 10)
    sides = StackedSides.of(chosen, VOCABULARY)
    views = sides.views()
    head = HeadInputs.of(views, sides, chosen, Rtl(ratio=ratio, direction=direction))
    assert len(views.batch.lengths) == 2 * count
    assert torch.equal(head.batch.input_ids, views.batch.input_ids[head.places])
    assert list(head.batch.lengths) == sorted(head.batch.lengths)
    seen = set()
    for a, b in pairwise(head.batch.cu_seqlens.tolist()):
        (pair,) = set((head.languages[a:b] - 10).tolist())
        seen.add(pair)
        source, target = (len(side) + 2 for side in pairs[pair])
        expected = [*pairs[pair][0].tolist(), 2, *pairs[pair][1].tolist(), 2]
        assert head.batch.input_ids[a:b].tolist() == expected
        positions = [*range(1, source), *range(source + 1, source + target)]
        assert head.batch.position_ids[a:b].tolist() == [2 + n for n in positions]
        backward = direction == "backward" or (direction == "both" and (start + pair) % 2 == 0)
        is_source = torch.arange(b - a) < source - 1
        assert torch.equal(head.backward[a:b], is_source & backward)
        side = is_source if backward else ~is_source
        assert not head.chosen[a:b][~side].any()
        if ratio == 1:
            assert torch.equal(head.chosen[a:b], side)
    assert seen == set(range(count))


def test_concatenated_pairs_come_after_both_clean_sides() -> None:
    """Without a joint (BERT) the second sentence has no first token, and keeps its positions."""
    pairs = random_pairs(6)
    masking = Masking(0.2, 0.8, 0.1)
    for joint in (None, 2):
        vocabulary = replace(VOCABULARY, joint=joint)
        views = concatenated_views(TokenPairs(pairs, 1), vocabulary, masking)
        assert len(views.batch.lengths) == 18 and len(views.identities) == 12
        tokens = sum(views.batch.lengths[:12])
        ids, positions = views.batch.input_ids[tokens:].clone(), views.batch.position_ids[tokens:]
        ids[views.masked_tokens] = views.labels
        borders = (views.batch.cu_seqlens[12:] - tokens).tolist()
        found = sorted((ids[a:b].tolist(), positions[a:b].tolist()) for a, b in pairwise(borders))
        between, skipped = ([], 1) if joint is None else ([2], 0)
        expected = []
        for x, y in pairs:
            places = [*range(len(x) + 2), *range(skipped, len(y) + 2)]
            expected.append(([0, *x.tolist(), 2, *between, *y.tolist(), 2], [2 + n for n in places]))
        assert found == sorted(expected)
        assert list(views.batch.lengths[12:]) == sorted(views.batch.lengths[12:])


def test_sides_of_masked_tokens_of_concatenated_pairs() -> None:
    source, target = np.full(40, 10), np.full(40, 20)
    views = concatenated_views(TokenPairs([(source, target)]), VOCABULARY, Masking(0.5, 1.0, 0.0))
    assert len(views.labels) > 20
    assert views.labels.tolist() == [10] * views.source_labels + [20] * (
        len(views.labels) - views.source_labels
    )


@pytest.mark.parametrize("family", ["xlm-roberta", "bert", "bert-relu"])
def test_the_heads_logits_are_the_checkpoints(
    family: str, masked_lms: dict[str, Path], tmp_path: Path
) -> None:
    folder = masked_lms[family.removesuffix("-relu")]
    if family == "bert-relu":  # BERT's head has the configuration's activation
        shutil.copytree(folder, tmp_path / "relu")
        folder = tmp_path / "relu"
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    theirs = AutoModelForMaskedLM.from_pretrained(folder).eval()
    base, head = load_masked_lm(str(folder))
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        hidden = base.eval()(ids).last_hidden_state[0]
        ours = head(hidden) @ base.get_input_embeddings().weight.T + head.bias
        torch.testing.assert_close(ours, theirs(ids).logits[0])
    assert head.bias.abs().max() > 0.1


def test_half_precision_checkpoints_become_float32(masked_lms: dict[str, Path], tmp_path: Path) -> None:
    model = AutoModelForMaskedLM.from_pretrained(masked_lms["bert"], dtype=torch.float16)
    model.save_pretrained(tmp_path / "half")
    base, head = load_masked_lm(str(tmp_path / "half"))
    assert {p.dtype for p in [*base.parameters(), *head.parameters()]} == {torch.float32}


def test_an_encoders_folder_has_no_head(
    masked_lms: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The transformer is taken all the same; modules.json may be there."""
    encoder = SentenceEncoder.load(str(masked_lms["xlm-roberta"]), "cpu")
    encoder.save(tmp_path / "saved")
    caplog.clear()
    base, head = load_masked_lm(str(tmp_path / "saved"))
    assert caplog.messages == [
        f"{tmp_path / 'saved'} has no masked-LM head: an untrained one takes its place"
    ]
    for name, value in encoder.model.state_dict().items():
        assert torch.equal(base.state_dict()[name], value)
    assert isinstance(head, VocabularyHead) and not head.bias.detach().any()


def test_a_damaged_checkpoint(masked_lms: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(masked_lms["bert"], tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"x")
    with pytest.raises(MexmaError, match=r"damaged/model\.safetensors cannot be read"):
        load_masked_lm(str(tmp_path / "damaged"))
