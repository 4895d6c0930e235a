"""DAP: RTL against the released program's way of computing it, and where its gradients go."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.dap import loss as module
from mexma_cli.objectives.dap.loss import Dap, DapViews
from mexma_cli.objectives.dap.settings import DapSettings
from mexma_cli.objectives.views import PairViews, TokenPairs
from tests.objectives.formulas import log_softmax
from tests.objectives.pairs import token_ids

Sentences = dict[str, list[str]]
FAMILIES = ["xlm-roberta", "bert"]
CASES = [("forward", 1.0), ("forward", 0.5), ("backward", 1.0), ("backward", 0.5), ("both", 1.0)]


def objective_of(folder: Path, start: Path | None, **settings: Any) -> Dap:
    encoder = SentenceEncoder.load(str(folder), "cpu", max_tokens=48)
    torch.manual_seed(0)
    chosen = DapSettings.model_validate({"name": "dap", "rtl": settings})
    return Dap(encoder, chosen, None if start is None else str(start), languages=3).eval()


def views_of(objective: Dap, sentences: Sentences, start: int = 0) -> DapViews:
    pairs = token_ids(objective.encoder, sentences)
    return objective.batch(TokenPairs(pairs, 3, start, np.arange(len(pairs)) % 3))


def hidden_tokens(views: DapViews) -> set[int]:
    """Where in the batch the tokens stand that are predicted."""
    return set(views.head.places[views.head.chosen].tolist())


def released(
    objective: Dap, folder: Path, layers: int, views: PairViews, pair: int, backward: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels of one pair as the released program has them: not packed, first tokens blocked.

    transformers' own masked language model, its first layers taken away, over
    concat(encoder states, embedded masks), with a mask of keys.
    """
    encoder = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
    head = AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()
    base = getattr(head, head.base_model_prefix)
    base.encoder.layer = base.encoder.layer[-layers:]
    starts = views.batch.cu_seqlens.tolist()
    spans = [
        range(starts[row], starts[row + 1]) for row in (views.source_rows[pair], views.target_rows[pair])
    ]
    tokenizer = objective.encoder.tokenizer
    with torch.no_grad():
        parts = []
        for side, span in enumerate(spans):
            ids = views.batch.input_ids[None, list(span)]
            states = encoder(ids).last_hidden_state[0]
            if side == int(not backward):
                masks = base.embeddings(input_ids=torch.full_like(ids, tokenizer.mask_token_id))[0]
                chosen = torch.tensor([place in hidden_tokens(views) for place in span])
                states = torch.where(chosen[:, None], masks, states)
                if backward:
                    assert objective.head.languages is not None
                    states = states + objective.head.languages.weight[pair % 3]
            parts.append(states)
        seen = torch.cat(parts)[None]
        keys = torch.ones(1, seen.shape[1], dtype=torch.long)
        keys[0, [0, len(spans[0])]] = 0
        logits = head(inputs_embeds=seen, attention_mask=keys).logits[0].double().numpy()
    places = [*spans[0], *spans[1]]
    wanted = [n for n, place in enumerate(places) if place in hidden_tokens(views)]
    return logits[wanted], views.batch.input_ids[[places[n] for n in wanted]].numpy()


@pytest.mark.parametrize(
    ("family", "direction", "ratio"),
    [
        pytest.param(family, *case, marks=pytest.mark.slow if n % 9 else ())  # a sample
        for n, (family, case) in enumerate(product(FAMILIES, CASES))
    ],
)
def test_the_loss_is_the_released_programs(
    family: str, direction: str, ratio: float, masked_lms: dict[str, Path], sentences: Sentences
) -> None:
    folder = masked_lms[family]
    objective = objective_of(folder, folder, direction=direction, ratio=ratio, layers=2)
    views = views_of(objective, sentences)
    terms = objective(views)
    assert set(terms) == set(objective.weights) == {"contrastive", "rtl"}
    means = []
    for backward in {"forward": [False], "backward": [True], "both": [False, True]}[direction]:
        pairs = [i for i in range(8) if direction != "both" or (i % 2 == 0) == backward]
        found = [released(objective, folder, 2, views, pair, backward) for pair in pairs]
        logits, labels = (np.concatenate(part) for part in zip(*found, strict=True))
        means.append(-log_softmax(logits)[np.arange(len(labels)), labels].mean())
    assert float(terms["rtl"].detach()) == pytest.approx(np.mean(means), rel=1e-4)


def test_all_tokens_but_the_first_are_predicted(masked_lms: dict[str, Path], sentences: Sentences) -> None:
    """The end of the sentence is among them; with a ratio about so many."""
    folder = masked_lms["bert"]
    objective = objective_of(folder, folder)
    views = views_of(objective, sentences)
    starts = views.batch.cu_seqlens.tolist()
    targets = [set(range(starts[row] + 1, starts[row + 1])) for row in views.target_rows.tolist()]
    assert hidden_tokens(views) == set.union(*targets)
    half = views_of(objective_of(folder, folder, ratio=0.5), sentences)
    assert hidden_tokens(half) < set.union(*targets)
    assert 0.35 < len(hidden_tokens(half)) / len(hidden_tokens(views)) < 0.65


def test_what_is_rebuilt_depends_on_the_position_in_the_run_alone(
    masked_lms: dict[str, Path], sentences: Sentences
) -> None:
    folder = masked_lms["bert"]
    objective = objective_of(folder, None, ratio=0.5, direction="both")
    whole = objective(views_of(objective, sentences))["rtl"]
    assert whole != objective(views_of(objective, sentences, start=1))["rtl"]
    assert whole == objective(views_of(objective, sentences, start=0))["rtl"]


def gradients(
    objective: Dap, views: PairViews, term: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[set[int], Dap]:
    """Which of the encoder's states a term reaches; parameters that it reaches have a gradient after."""
    run_packed, seen = module.run_packed, []

    def cut(model: Any, *arguments: Any, **named: Any) -> torch.Tensor:
        out = run_packed(model, *arguments, **named)
        if model is not objective.model:
            return out
        seen.append(out.detach().requires_grad_())
        return seen[-1]

    monkeypatch.setattr(module, "run_packed", cut)
    objective(views)[term].backward()
    monkeypatch.undo()
    (hidden,) = seen
    assert hidden.grad is not None
    return set(hidden.grad.abs().sum(dim=1).nonzero()[:, 0].tolist()), objective


@pytest.mark.parametrize(("direction", "ratio"), CASES)
def test_sentence_vectors_get_no_gradient_from_rtl(
    direction: str,
    ratio: float,
    masked_lms: dict[str, Path],
    sentences: Sentences,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = masked_lms["xlm-roberta"]
    objective = objective_of(folder, folder, direction=direction, ratio=ratio)
    views = views_of(objective, sentences)
    first = set(views.batch.cu_seqlens[:-1].tolist())
    reached, _ = gradients(objective, views, "rtl", monkeypatch)
    # All other states are read, but for those that a <mask> stands for.
    assert reached == set(range(len(views.batch.input_ids))) - first - hidden_tokens(views)


def test_each_term_trains_its_own(
    masked_lms: dict[str, Path], sentences: Sentences, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = masked_lms["xlm-roberta"]
    objective = objective_of(folder, folder, direction="backward")
    assert objective.projection is not None
    views = views_of(objective, sentences)
    reached, _ = gradients(objective, views, "contrastive", monkeypatch)
    assert reached == set(views.batch.cu_seqlens[:-1].tolist())
    assert all(p.grad is None for p in objective.head.parameters())
    objective.zero_grad()
    gradients(objective, views, "rtl", monkeypatch)
    assert all(p.grad is None for p in [*objective.projection.parameters(), *objective.model.parameters()])
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in objective.head.parameters())


def test_the_head_is_the_checkpoints_and_shares_nothing(masked_lms: dict[str, Path]) -> None:
    folder = masked_lms["bert"]
    objective = objective_of(folder, folder, layers=3)
    whole = AutoModelForMaskedLM.from_pretrained(folder).state_dict()
    ours = objective.head.state_dict()
    for layer in range(3):
        name = "output.dense.weight"
        theirs = whole[f"bert.encoder.layer.{layer + 1}.{name}"]
        assert torch.equal(ours[f"model.encoder.layer.{layer}.{name}"], theirs)
    assert len(objective.head.model.encoder.layer) == 3
    words = "embeddings.word_embeddings.weight"
    assert torch.equal(ours[f"model.{words}"], whole[f"bert.{words}"])
    assert torch.equal(ours["vocabulary.bias"], whole["cls.predictions.bias"])
    own = {id(p) for p in objective.head.parameters()}
    assert not own & {id(p) for p in objective.model.parameters()}
    groups = objective.groups()
    assert own <= {id(p) for p in groups["body"]}
    assert objective.export() is objective.encoder


def test_a_new_encoder_has_an_untrained_head(tiny_encoder: Path, sentences: Sentences) -> None:
    objective = objective_of(tiny_encoder, None, layers=5)
    assert len(objective.head.model.encoder.layer) == 5
    positions = objective.head.model.config.max_position_embeddings
    assert positions == 2 * objective.encoder.max_tokens + 2
    long = {side: [" ".join(rows)] for side, rows in sentences.items()}
    views = views_of(objective, long)
    assert views.batch.lengths == (48, 48)  # cut to the limit: two of them have positions
    assert torch.isfinite(objective(views)["rtl"])


def test_fewer_layers_than_the_head_wants(masked_lms: dict[str, Path]) -> None:
    folder = masked_lms["bert"]
    with pytest.raises(MexmaError, match=r"objective\.rtl\.layers is 5, and .* has 4 layers"):
        objective_of(folder, folder, layers=5)


def test_no_positions_for_two_sentences(masked_lms: dict[str, Path]) -> None:
    folder = masked_lms["bert"]
    encoder = SentenceEncoder.load(str(folder), "cpu", max_tokens=60)
    with pytest.raises(MexmaError, match=r"up to 60 tokens.* has 96 positions") as caught:
        Dap(encoder, DapSettings(name="dap"), str(folder))
    assert caught.value.hint == "set data.max_tokens to 48 or less"
