"""XNLI: an encoder fine-tuned on English inference, tested on other languages (DAP, Appendix C).

A cross-encoder reads premise and hypothesis as one sequence; a fresh pooler (Linear, tanh) and a fresh
classifier stand on its first token, as in Hugging Face's models for sequence classification. AdamW, linear
decay without warm-up, gradients clipped at 1: the defaults of Hugging Face's trainer, which DAP used.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import nn

from mexma_cli.encoder.loading.tokenizer import panic_as_message
from mexma_cli.encoder.model.attention import attention_arguments
from mexma_cli.encoder.model.packing import by_token_budget, pack
from mexma_cli.encoder.model.transformer import first_position
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.reading import columns_named, filled_lines, parsed_lines, require_folder
from mexma_cli.reporting.result import Result, describe
from mexma_cli.settings.stages import FineTuning
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import ENDINGS

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

log = logging.getLogger(__name__)

CLASSES = ("entailment", "neutral", "contradiction")
LAYOUTS = """needed in the folder or below it: the English train set, multinli.train.en.tsv (XNLI-MT-1.0) or
multinli_1.0_train.jsonl or .txt (MultiNLI), and the test set, xnli.test.tsv or xnli.test.jsonl (XNLI-1.0).
Published at https://cims.nyu.edu/~sbowman/xnli and https://cims.nyu.edu/~sbowman/multinli"""
TRAIN = ("multinli.train.en.tsv", "multinli_1.0_train.jsonl", "multinli_1.0_train.txt")
TEST = ("xnli.test.tsv", "xnli.test.jsonl")
_ALIASES = {"contradictory": "contradiction"}


@dataclass(frozen=True)
class Inference:
    """n pairs of sentences and their classes (int64 [n], places in CLASSES)."""

    premises: Sequence[str]
    hypotheses: Sequence[str]
    classes: np.ndarray


@dataclass(frozen=True)
class InferenceData:
    """The English train set, and the test sets by language, with the files that they are from."""

    train_path: Path
    train: Inference
    test_path: Path
    tests: dict[str, Inference]


def read_data(folder: Path) -> InferenceData:
    """Read the train and test sets of a folder. Pairs on whose class people did not agree are left out and
    counted in the log. Both must be there, and the train set must have English."""
    train_path, test_path = find_data(folder, TRAIN), find_data(folder, TEST)
    train, undecided = read_inference(train_path)
    if "en" not in train:
        raise MexmaError(f"{train_path} has no English pairs")
    tests, untested = read_inference(test_path)
    for path, count in ((train_path, undecided), (test_path, untested)):
        if count:
            log.info("%s: left out, since people did not agree on a class: %s", path, counted(count, "pair"))
    return InferenceData(train_path, train["en"], test_path, tests)


def find_data(folder: Path, names: tuple[str, ...]) -> Path:
    """The first of these files in a folder or below it, compressed or not, of which one must be there."""
    require_folder(folder, LAYOUTS)
    for name in names:
        for ending in ("", *ENDINGS):
            found = sorted(folder.rglob(name + ending))
            if found:
                return found[0]
    raise MexmaError(f"{folder}: no {' or '.join(names)}", LAYOUTS)


def read_inference(path: Path) -> tuple[dict[str, Inference], int]:
    """The pairs of a file by language, as the file names it (`en` where it names none), and how many are left
    out because people did not agree on a class (`-`). Refused, with its number: a line that is not as the
    others."""
    lines = filled_lines(path)
    split: Callable[[str], _Pair] = _from_json
    if ".jsonl" not in path.name:
        first = next(lines, None)
        if first is None:
            raise MexmaError(f"{path} is empty", LAYOUTS)
        (split,) = parsed_lines(path, [first], _from_header, LAYOUTS)
    rows: dict[str, list[tuple[str, str, int]]] = {}
    undecided = 0
    for pair, place in parsed_lines(path, lines, lambda line: _with_class(split(line)), LAYOUTS):
        if place is None:
            undecided += 1
        else:
            rows.setdefault(pair.language, []).append((pair.premise, pair.hypothesis, place))
    if not rows:
        raise MexmaError(f"{path} has no pairs", LAYOUTS)
    found = {}
    for language, pairs in rows.items():
        premises, hypotheses, classes = zip(*pairs, strict=True)
        found[language] = Inference(premises, hypotheses, np.array(classes))
    return found, undecided


class _Pair(NamedTuple):
    language: str
    label: str
    premise: str
    hypothesis: str


def _with_class(pair: _Pair) -> tuple[_Pair, int | None]:
    """A pair and the place of its label in CLASSES; None where people did not agree."""
    label = _ALIASES.get(pair.label, pair.label)
    if label not in (*CLASSES, "-"):
        raise ValueError(f"{label!r} is none of {', '.join(CLASSES)}")
    return pair, None if label == "-" else CLASSES.index(label)


def _from_json(line: str) -> _Pair:
    try:
        record = json.loads(line)
        named = [record[key] for key in ("gold_label", "sentence1", "sentence2")]
        pair = _Pair(record.get("language", "en"), *named)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:  # no such object
        raise ValueError(f"no pair of XNLI in JSON ({error})") from None
    for value in pair:
        if not isinstance(value, str):
            raise ValueError(f"{json.dumps(value)} where a text should be")
    return pair


def _from_header(line: str) -> Callable[[str], _Pair]:
    """A function that splits a line of the file with this header."""
    header = line.split("\t")
    names = ("label", "premise", "hypo") if "premise" in header else ("gold_label", "sentence1", "sentence2")
    places = columns_named(header, names)
    language = header.index("language") if "language" in header else None

    def split(line: str) -> _Pair:
        cells = line.split("\t")
        # MultiNLI's own lines may lack cells at their end: labels that were not given.
        if not max(*places, language or 0) < len(cells) <= len(header):
            raise ValueError(f"{len(cells)} columns, {len(header)} in the header")
        label, premise, hypothesis = (cells[place] for place in places)
        return _Pair("en" if language is None else cells[language], label, premise, hypothesis)

    return split


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
class SentencePairs:
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
    def sequences(self, pairs: Inference) -> SentencePairs:
        """Premise and hypothesis as one sequence; of the longer one tokens are cut until both fit."""
        backend = self.tokenizer.backend_tokenizer
        backend.no_padding()
        side = self.tokenizer.truncation_side
        backend.enable_truncation(self.max_tokens, strategy="longest_first", direction=side)
        try:
            found = backend.encode_batch(list(zip(pairs.premises, pairs.hypotheses, strict=True)))
        finally:
            backend.no_truncation()
        return SentencePairs([np.array(one.ids) for one in found], [np.array(one.type_ids) for one in found])

    def forward(self, pairs: SentencePairs, rows: np.ndarray) -> torch.Tensor:
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
    model: PairClassifier, train: Inference, settings: FineTuning, on_step: OnStep = lambda pairs, loss: None
) -> None:
    """Train all weights on pairs of one language.

    In float16 the loss is scaled, or small gradients would be zeros. A step whose gradients overflow changes
    only the scale; an error says that they do so with every scale, or that the loss is not a number any more.
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


def _by_budget(tokens: SentencePairs, rows: np.ndarray) -> Iterator[np.ndarray]:
    for part in by_token_budget([len(tokens.ids[row]) for row in rows], TOKENS_PER_BATCH):
        yield rows[part]


def evaluate(
    encoder: SentenceEncoder,
    data: InferenceData,
    settings: FineTuning,
    precision: str,
    on_step: OnStep = lambda pairs, loss: None,
) -> Result:
    """Fine-tune the encoder, whose weights are float32 and which this changes, and test it: accuracy by
    language, and the mean of these. Products are of the `precision` float32, bfloat16 or float16."""
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
