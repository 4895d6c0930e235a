"""Fine-tuning on pairs: the model against Hugging Face's, the loop by what it learns, the files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, XLMRobertaForSequenceClassification

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.xnli import (
    CLASSES,
    TEST,
    TRAIN,
    Inference,
    PairClassifier,
    find_data,
    fine_tune,
    read_inference,
)
from mexma_cli.settings.stages import FineTuning


def toy_pairs(count: int) -> Inference:
    """The hypothesis alone tells the class."""
    ends = ("It rains.", "My brother works.", "Where is the station?")
    classes = np.arange(count) % 3
    premises = [f"The river is rising {n}." for n in range(count)]
    return Inference(premises, [ends[one] for one in classes], classes)


@pytest.mark.parametrize("side", ["right", "left"])
def test_it_is_hugging_faces_model_for_sequence_classification(
    side: str, tiny_encoder: Path, sentences: dict[str, list[str]]
) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), dtype="float32")
    encoder.tokenizer.truncation_side = side
    model = PairClassifier(encoder, max_tokens=24).eval()
    reference = XLMRobertaForSequenceClassification.from_pretrained(tiny_encoder, num_labels=3).eval()
    reference.classifier.dense.load_state_dict(model.pooler.state_dict())
    reference.classifier.out_proj.load_state_dict(model.classifier.state_dict())
    pairs = Inference(sentences["eng"], sentences["fra"], np.zeros(8, dtype=np.int64))
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder, truncation_side=side)
    inputs = tokenizer(
        pairs.premises, pairs.hypotheses, truncation="longest_first", max_length=24, padding=True,
        return_tensors="pt",
    )  # fmt: skip
    tokens = model.sequences(pairs)
    assert [ids.tolist() for ids in tokens.ids] == [
        ids[mask == 1].tolist()
        for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True)
    ]
    assert max(map(len, tokens.ids)) == 24
    with torch.inference_mode():
        expected = reference(inputs["input_ids"], inputs["attention_mask"]).logits
        found = model(tokens, np.arange(8))
    assert torch.allclose(found, expected, atol=1e-5)


def test_equal_seeds_give_equal_losses(tiny_encoder: Path) -> None:
    losses: list[list[float]] = [[], []]
    for found in losses:
        torch.manual_seed(0)
        model = PairClassifier(SentenceEncoder.load(str(tiny_encoder), dtype="float32"), 64)
        add = found.append
        fine_tune(model, toy_pairs(30), FineTuning(epochs=1, batch=8), lambda _, loss, add=add: add(loss))
    assert losses[0] == losses[1] and len(losses[0]) == 4


def test_a_loss_that_is_no_number_ends_it(tiny_encoder: Path) -> None:
    model = PairClassifier(SentenceEncoder.load(str(tiny_encoder), dtype="float32"), 64)
    settings = FineTuning(epochs=2, batch=16, learning_rate=1e30)
    with pytest.raises(MexmaError, match=r"the loss of the fine-tuning is (nan|inf)"):
        fine_tune(model, toy_pairs(90), settings)


def test_small_gradients_do_not_vanish_in_fp16(tiny_encoder: Path) -> None:
    """What is nearly learned: each logit's gradient is about 3e-9, zero in float16."""
    moved: dict[str, float] = {}
    for name, low in (("fp32", None), ("fp16", torch.float16)):
        torch.manual_seed(0)
        model = PairClassifier(SentenceEncoder.load(str(tiny_encoder), dtype="float32"), 64, low)
        torch.nn.init.constant_(model.classifier.bias[1:], -15)
        before = [weights.detach().clone() for weights in model.parameters()]
        pairs = toy_pairs(96)
        sure = Inference(pairs.premises, pairs.hypotheses, np.zeros(96, dtype=np.int64))
        settings = FineTuning(epochs=4, batch=96, learning_rate=1e-3)
        fine_tune(model, sure, settings)
        both = zip(model.parameters(), before, strict=True)
        moved[name] = sum(int((after != weights).sum()) for after, weights in both)
    assert moved["fp32"] > 10_000 and moved["fp16"] > 0.9 * moved["fp32"], moved


@pytest.mark.slow
def test_gradients_that_overflow_with_any_scale_end_it(tiny_encoder: Path) -> None:
    model = PairClassifier(SentenceEncoder.load(str(tiny_encoder), dtype="float32"), 64, torch.float16)
    model.pooler.weight.register_hook(lambda slopes: slopes * float("inf"))
    settings = FineTuning(epochs=40, batch=3)
    with pytest.raises(MexmaError, match="overflow in fp16, however the loss is scaled"):
        fine_tune(model, toy_pairs(3), settings)


def test_a_step_is_one_batch_however_it_is_cut(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after: list[float] = []
    for budget in (8192, 40):
        monkeypatch.setattr("mexma_cli.evaluation.xnli.TOKENS_PER_BATCH", budget)
        torch.manual_seed(0)
        encoder = SentenceEncoder.load(str(tiny_encoder), dtype="float32")
        encoder.model.config.hidden_dropout_prob = 0.0
        model = PairClassifier(encoder, 64)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            if hasattr(module, "attention_probs_dropout_prob"):
                module.attention_probs_dropout_prob = 0.0
        settings = FineTuning(epochs=1, batch=12, learning_rate=1e-3)
        fine_tune(model, toy_pairs(24), settings, lambda _, loss: after.append(loss))
    assert after[:2] == pytest.approx(after[2:], abs=1e-5)


HEADER = "language\tgold_label\tsentence1_binary_parse\tsentence1\tsentence2\tpairID\n"


def test_files_as_published(tmp_path: Path) -> None:
    (tmp_path / "XNLI-1.0").mkdir()
    (tmp_path / "XNLI-1.0/xnli.test.tsv").write_text(
        HEADER
        + "ar\tneutral\tx\tأ\tب\t1\nar\tentailment\tx\tأ\tب\t2\nsw\t-\tx\ta\tb\t3\nsw\tneutral\tx\ta\tb\t4\n"
    )
    (tmp_path / "multinli.train.en.tsv").write_text("premise\thypo\tlabel\na\tb\tcontradictory\n")
    found, undecided = read_inference(find_data(tmp_path, TEST))
    assert undecided == 1 and list(found) == ["ar", "sw"]
    assert [CLASSES[place] for place in found["ar"].classes] == ["neutral", "entailment"]
    train, _ = read_inference(find_data(tmp_path, TRAIN))
    assert (train["en"].premises, CLASSES[train["en"].classes[0]]) == (("a",), "contradiction")


def test_json_lines(tmp_path: Path) -> None:
    pair = {"gold_label": "neutral", "sentence1": "a", "sentence2": "b", "genre": "fiction"}
    path = tmp_path / "multinli_1.0_train.jsonl"
    path.write_text(json.dumps(pair) + "\n" + json.dumps(pair | {"gold_label": "-"}) + "\n")
    found, undecided = read_inference(path)
    assert (found["en"].hypotheses, undecided) == (("b",), 1)
