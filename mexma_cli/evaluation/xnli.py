"""XNLI: an encoder fine-tuned on English inference, tested on other languages (DAP, Appendix C).

A cross-encoder reads premise and hypothesis as one sequence; a fresh pooler (Linear, tanh) and a fresh
classifier stand on its first token, as in Hugging Face's models for sequence classification. AdamW, linear
decay without warm-up, gradients clipped at 1: the defaults of Hugging Face's trainer, which DAP used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from mexma_cli.encoder.loading.tokenizer import panic_as_message
from mexma_cli.encoder.model.attention import attention_arguments
from mexma_cli.encoder.model.packing import by_token_budget, pack
from mexma_cli.encoder.model.transformer import first_position
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.readers.xnli import CLASSES, Inference, InferenceData
from mexma_cli.reporting.result import Result, describe
from mexma_cli.settings.evaluate import FineTuning

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

TOKENS_PER_BATCH = 8192
CLIP = 1.0
SMALLEST_SCALE = 1e-4
"""The smallest scale of the loss in float16: below it, every gradient overflows."""
TEST_PAIRS, LANGUAGES = 5010, 15
"""XNLI's test set has as many pairs in each of its languages."""
TRAIN_PAIRS = 392_702
"""MultiNLI's; copies differ by a few."""

OnStep = Callable[[int, float], object]
"""Called after every step with the pairs in it and its mean loss."""


@dataclass(frozen=True)
class PairTokens:
    """Pairs as token ids, with the sentence (0 or 1) that each token is of."""

    ids: list[np.ndarray]
    types: list[np.ndarray]


class PairClassifier(nn.Module):
    """The transformer of an encoder under a fresh pooler and a fresh classifier.

    The transformer is not copied: fine-tuning changes it.

    Args:
        max_tokens: Of a pair; fewer where the transformer has not as many positions.
        low: bfloat16 or float16, to compute in that; None: in float32. The weights stay as they are.
    """

    def __init__(self, encoder: SentenceEncoder, max_tokens: int, low: torch.dtype | None = None) -> None:
        super().__init__()
        self.transformer = encoder.model
        self.tokenizer = encoder.tokenizer
        self.low = low
        config = encoder.model.config
        self.max_tokens = min(max_tokens, config.max_position_embeddings - first_position(encoder.model))
        width = config.hidden_size
        rate = getattr(config, "classifier_dropout", None)
        self.dropout = nn.Dropout(config.hidden_dropout_prob if rate is None else rate)
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, len(CLASSES))
        for layer in (self.pooler, self.classifier):
            nn.init.normal_(layer.weight, std=getattr(config, "initializer_range", 0.02))
            nn.init.zeros_(layer.bias)

    @panic_as_message()
    def sequences(self, pairs: Inference) -> PairTokens:
        """Premise and hypothesis as one sequence; of the longer one tokens are cut until both fit."""
        backend = self.tokenizer.backend_tokenizer
        backend.no_padding()
        side = self.tokenizer.truncation_side
        backend.enable_truncation(self.max_tokens, strategy="longest_first", direction=side)
        try:
            found = backend.encode_batch(list(zip(pairs.premises, pairs.hypotheses, strict=True)))
        finally:
            backend.no_truncation()
        return PairTokens([np.array(one.ids) for one in found], [np.array(one.type_ids) for one in found])

    def forward(self, pairs: PairTokens, rows: np.ndarray) -> torch.Tensor:
        """Logits of n pairs, float32 [n, 3]."""
        device = self.classifier.weight.device
        batch = pack([pairs.ids[row] for row in rows], first_position(self.transformer)).to(device)
        # Attention with dropout needs this backend: torch's variable-length one has none.
        inputs: dict[str, Any] = attention_arguments(batch, "bucketed")
        if getattr(self.transformer.config, "type_vocab_size", 1) > 1:
            types = np.concatenate([pairs.types[row] for row in rows])
            inputs["token_type_ids"] = torch.from_numpy(types).to(device)[None]
        with torch.autocast(device.type, dtype=self.low, enabled=self.low is not None):
            states = self.transformer(
                input_ids=batch.input_ids[None], position_ids=batch.position_ids[None], **inputs
            ).last_hidden_state[0]
            first = states[batch.cu_seqlens[:-1].long()]
            logits = self.classifier(self.dropout(torch.tanh(self.pooler(self.dropout(first)))))
        return logits.float()


def fine_tune(
    model: PairClassifier,
    train: Inference,
    settings: FineTuning,
    on_step: OnStep = lambda pairs, loss: None,
) -> None:
    """Train all weights on pairs of one language.

    In float16 the loss is scaled, or small gradients would be zeros. A step whose gradients overflow changes
    only the scale.

    Raises:
        MexmaError: The loss is not a number any more, or gradients overflow with every scale.
    """
    torch.manual_seed(settings.seed)
    shuffled = np.random.default_rng(settings.seed)
    tokens = model.sequences(train)
    classes = torch.from_numpy(train.classes)
    count = len(train.classes)
    steps = settings.epochs * -(-count // settings.batch)
    optimiser = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    device = model.classifier.weight.device.type
    scaler = torch.amp.GradScaler(device, enabled=model.low == torch.float16)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: max(0.0, 1 - step / steps))
    model.train()
    for _ in range(settings.epochs):
        order = shuffled.permutation(count)
        for start in range(0, count, settings.batch):
            rows = order[start : start + settings.batch]
            total = 0.0
            for part in _by_budget(tokens, rows):
                logits = model(tokens, part)
                wanted = classes[part].to(logits.device)
                loss = nn.functional.cross_entropy(logits, wanted, reduction="sum") / len(rows)
                scaler.scale(loss).backward()
                total += float(loss.detach())
            if not math.isfinite(total):
                raise MexmaError(f"the loss of the fine-tuning is {total}", "give a lower --learning-rate")
            scaler.unscale_(optimiser)
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            before = scaler.get_scale()
            scaler.step(optimiser)
            scaler.update()
            if scaler.get_scale() <= SMALLEST_SCALE:
                raise MexmaError(
                    "gradients of the fine-tuning overflow in fp16, however the loss is scaled",
                    "use --dtype bf16 or fp32, or give a lower --learning-rate",
                )
            if scaler.get_scale() >= before:  # as Hugging Face's trainer: not after a step that was left out
                schedule.step()
            optimiser.zero_grad(set_to_none=True)
            on_step(len(rows), total)


@torch.inference_mode()
def predict(model: PairClassifier, pairs: Inference) -> np.ndarray:
    """int64 [n]: the class of each pair."""
    model.eval()
    tokens = model.sequences(pairs)
    found = np.empty(len(pairs.classes), dtype=np.int64)
    for part in _by_budget(tokens, np.arange(len(found))):
        found[part] = model(tokens, part).argmax(dim=1).cpu().numpy()
    return found


def _by_budget(tokens: PairTokens, rows: np.ndarray) -> Iterator[np.ndarray]:
    for part in by_token_budget([len(tokens.ids[row]) for row in rows], TOKENS_PER_BATCH):
        yield rows[part]


def evaluate(
    encoder: SentenceEncoder,
    data: InferenceData,
    settings: FineTuning,
    precision: str,
    on_step: OnStep = lambda pairs, loss: None,
) -> Result:
    """Fine-tune the encoder, which changes it, and test it: accuracy by language, and the mean of these.

    Args:
        encoder: With weights in float32.
        precision: Of the products: float32, bfloat16 or float16.

    Raises:
        MexmaError: As `fine_tune`.
    """
    described = describe(encoder) | {"precision": precision}
    rows = measure(encoder, data, settings, precision, on_step)
    scores = {"accuracy": sum(row["accuracy"] for row in rows) / len(rows)}
    pairs = len(data.train.classes)
    files = {"train": str(data.train_path), "test": str(data.test_path), "train pairs": pairs}
    # The paper chose the learning rate, and the seed says little.
    papers = FineTuning(learning_rate=settings.learning_rate, seed=settings.seed)
    whole = [row["pairs"] for row in rows] == [TEST_PAIRS] * LANGUAGES and pairs >= 0.98 * TRAIN_PAIRS
    benchmark = "xnli" if whole and settings == papers else None
    return Result("xnli", described, files | settings.model_dump(), scores, rows, benchmark)


def measure(
    encoder: SentenceEncoder, data: InferenceData, settings: FineTuning, precision: str, on_step: OnStep
) -> list[dict[str, Any]]:
    """A row a language, after the fine-tuning."""
    low = None if precision == "float32" else getattr(torch, precision)
    torch.manual_seed(settings.seed)
    model = PairClassifier(encoder, settings.max_tokens, low).to(encoder.device)
    fine_tune(model, data.train, settings, on_step)
    return [
        {
            "language": language,
            "pairs": len(pairs.classes),
            "accuracy": 100 * float((predict(model, pairs) == pairs.classes).mean()),
        }
        for language, pairs in data.tests.items()
    ]
