"""A training step against the authors' way, side by side in one run: tokens a second, and memory.

    python benchmarks/train.py --data DIR [--shape small] [--pairs 32] [--steps 4] [--rounds 3] [--device cpu]

The same pairs of real text (DIR: tatoeba_mt/ and bible/ below it), one shape, MEXMA's whole loss and AdamW.
Programs, each in a process of its own and by turns:

  mexma-fp32, mexma-bf16  our trainer, as `mexma train` runs it
  authors                 their step made again: four passes (clean and masked, both sides) over padded
                          batches, the head on padded batches, logits of every token, no grouping by length
  authors-grouped         the same on batches of pairs of like length, which wastes less on padding

A token is one of a clean or masked view; padding does not count. Before the measured steps one step without
dropout tells the losses of all programs, which must be the same. Memory is the peak of the process, and the
peak above what it held when model and optimiser stood. On a processor each program's matrix products a second
(weights times tokens, three times for forward and backward; attention's own left out) stand beside torch's
best product of that precision here. The last lines are what is left above us: how much faster than the
authors' step, as it ran, ours would be if it were nothing but products at torch's best.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from embed import SHAPES, peak_rates
from torch import nn

PROGRAMS = ("mexma-bf16", "mexma-fp32", "authors", "authors-grouped")
LANGUAGES = ("fra_Latn", "deu_Latn", "spa_Latn", "rus_Cyrl")
POOL = 4096
"""Pairs from which batches are drawn."""


class RealPairs:
    """Pairs of sentences as `Trainer` takes them."""

    def __init__(self, pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
        self._pairs = pairs

    def ids(self, start: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs start to start + count, from the beginning again after the last."""
        return [self._pairs[at % len(self._pairs)] for at in range(start, start + count)]

    def languages(self, start: int, count: int) -> np.ndarray:
        """All of one."""
        return np.zeros(count, dtype=np.int64)

    def names(self, start: int, count: int) -> list[str]:
        """Their numbers."""
        return [str(at % len(self._pairs)) for at in range(start, start + count)]


def real_pairs(data: Path, encoder: Any, count: int, grouped: bool) -> RealPairs:
    """Half verses of the Bible, half Tatoeba, shuffled; or batches of like length in shuffled order."""
    from mexma_cli.text.lines import read_lines

    english = list(read_lines(data / "bible" / "eng_Latn.txt.gz"))
    texts: list[tuple[str, str]] = []
    for code in LANGUAGES:
        verses = zip(read_lines(data / "bible" / f"{code}.txt.gz"), english, strict=True)
        rows = (line.split("\t") for line in read_lines(data / "tatoeba_mt" / f"{code}-eng.tsv.gz"))
        half = POOL // len(LANGUAGES) // 2
        texts += islice(((a, b) for a, b in verses if a and b), half)
        texts += islice(((row[0], row[1]) for row in rows), half)
    sides = [encoder.tokenize([text[side] for text in texts]) for side in (0, 1)]
    pairs = [(a[1:-1], b[1:-1]) for a, b in zip(*sides, strict=True)]
    rng = np.random.default_rng(0)
    order = rng.permutation(len(pairs) // count * count)  # whole batches
    if grouped:
        lengths = np.array([max(map(len, pairs[at])) for at in order])
        batches = order[np.argsort(lengths, kind="stable")].reshape(-1, count)
        order = batches[rng.permutation(len(batches))].ravel()
    return RealPairs([pairs[at] for at in order])


def make(shape: str) -> tuple[Any, Any]:
    """An untrained encoder, and MEXMA on it."""
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.objectives.mexma import Mexma
    from mexma_cli.recipe import MexmaObjective

    encoder = SentenceEncoder.new(SHAPES[shape], SentenceEncoder.load("mini", "cpu").tokenizer, 512, 0)
    return encoder, Mexma(encoder, MexmaObjective(name="mexma"))


class Authors(nn.Module):
    """Their step on the same weights: padded, four passes, logits of all tokens (facebookresearch/mexma)."""

    def __init__(self, mexma: Any) -> None:
        super().__init__()
        self.model, self.head, self.bias = mexma.model, mexma.head.layers, mexma.head.bias
        self.model.set_attn_implementation("sdpa")
        for config in (self.model.config, self.head.config):
            config._attn_implementation = "sdpa"

    def forward(self, views: Any) -> dict[str, torch.Tensor]:
        """Both unmasking losses, alignment and KoLeo, with their weights in the paper's formula."""
        from mexma_cli.objectives import losses

        batch, count = views.batch, len(views.partners)
        sentences = list(batch.input_ids.split(list(batch.lengths)))
        labels = torch.full_like(batch.input_ids[sum(batch.lengths[:count]) :], -100)
        labels[views.masked_tokens] = views.labels
        wanted = list(labels.split(list(batch.lengths[count:])))
        rows = {"source": views.source_rows.tolist(), "target": views.target_rows.tolist()}
        clean, masked, masks, targets = {}, {}, {}, {}
        for side, where in rows.items():
            clean[side], _ = self._encode([sentences[row] for row in where])
            masked[side], masks[side] = self._encode([sentences[count + row] for row in where])
            targets[side] = nn.utils.rnn.pad_sequence([wanted[row] for row in where], True, -100)
        terms = {}
        words = self.model.get_input_embeddings().weight
        for side, other in (("source", "target"), ("target", "source")):
            states = torch.cat([clean[other][:, :1], masked[side][:, 1:]], dim=1)
            blocked = (1.0 - masks[side][:, None, None, :].float()) * torch.finfo(torch.float32).min
            logits = nn.functional.linear(self.head(states, blocked).last_hidden_state, words, self.bias)
            terms[f"unmask_{side}"] = nn.functional.cross_entropy(
                logits.flatten(0, 1), targets[side].flatten()
            )
        first, second = clean["source"][:, 0], clean["target"][:, 0]
        terms["alignment"] = nn.functional.mse_loss(first, second)
        identities = (views.identities[views.source_rows], views.identities[views.target_rows])
        terms["koleo"] = sum(map(losses.koleo, (first, second), identities)) / 2
        return terms

    def _encode(self, sentences: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        ids = nn.utils.rnn.pad_sequence(sentences, True, self.model.config.pad_token_id)
        mask = (ids != self.model.config.pad_token_id).long()
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state, mask


def run_one(program: str, settings: argparse.Namespace) -> dict[str, Any]:
    """First losses, tokens a second of each step, and memory in bytes, of one program."""
    from mexma_cli.recipe import Trainer as Settings
    from mexma_cli.stages.train import vocabulary_of
    from mexma_cli.training.distributed import Processes
    from mexma_cli.training.masking import build_views
    from mexma_cli.training.trainer import Trainer

    encoder, mexma = make(settings.shape)
    pairs = real_pairs(settings.data, encoder, settings.pairs, program == "authors-grouped")
    vocabulary = vocabulary_of(encoder)
    device = torch.device(settings.device)

    def views(start: int) -> Any:
        batch = pairs.ids(start, settings.pairs)
        return build_views(batch, mexma.views(), vocabulary, 42, start).to(device)

    plain = program.startswith("authors")
    objective = Authors(mexma) if plain else mexma
    objective.to(device).eval()
    with torch.no_grad():
        first = {name: float(term) for name, term in objective(views(0)).items()}
    held = _memory(device)
    speeds = []
    if plain:
        objective.train()
        optimiser = torch.optim.AdamW(objective.parameters(), lr=1e-4, weight_decay=0.0)
        for step in range(settings.steps):
            began = time.perf_counter()
            batch = views(step * settings.pairs)
            terms = objective(batch)
            loss = sum(mexma.weights[name] * term for name, term in terms.items())
            loss.backward()
            nn.utils.clip_grad_norm_(objective.parameters(), 1.2)
            optimiser.step()
            optimiser.zero_grad()
            loss.item()
            speeds.append(len(batch.batch.input_ids) / (time.perf_counter() - began))
    else:
        keys = {"steps": settings.steps, "batch_pairs": settings.pairs, "accumulate": 1}
        keys |= {"precision": program.removeprefix("mexma-"), "device": settings.device}
        keys |= {"checkpoint_every": settings.steps + 1, "log_every": settings.steps + 1}
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(
                mexma,
                pairs,
                vocabulary,
                Settings(**keys),
                Path(folder),
                None,
                Processes(),  # type: ignore[arg-type]
            )
            trainer.save = lambda *_, **__: Path(folder)  # type: ignore[method-assign]
            trainer.run(_NoLog(), lambda record: speeds.append(record["tokens_per_second"]))
    found = {"first": first, "speeds": speeds, "peak": _memory(device), "above": _memory(device) - held}
    work = [gflop(mexma, views(step * settings.pairs), plain) for step in range(settings.steps)]
    return found | {"work": work}


def gflop(mexma: Any, views: Any, padded: bool) -> float:
    """Of a step's matrix products per token, forward and backward; `padded`: as the authors have them."""
    lengths, count = views.batch.lengths, len(views.partners)
    clean, hidden, masked = sum(lengths[:count]), sum(lengths[count:]), len(views.labels)
    if padded:
        sides = (views.source_rows.tolist(), views.target_rows.tolist())
        clean = hidden = masked = sum(len(rows) * max(lengths[row] for row in rows) for rows in sides)
    encoder, head = (
        sum(p.numel() for p in part.parameters() if p.dim() == 2)
        for part in (mexma.model.encoder, mexma.head.layers)
    )
    words = mexma.model.get_input_embeddings().weight.numel()
    real = sum(lengths)
    return 6 * (encoder * (clean + hidden) + head * hidden + words * masked) / real / 1e9


class _NoLog:
    def write(self, record: dict[str, Any]) -> None:
        """Forget it."""

    def close(self) -> None:
        """Nothing to do."""


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def padding(settings: argparse.Namespace, grouped: bool) -> float:
    """Tokens with padding over tokens, of the authors' four passes."""
    encoder, _ = make("small")
    pairs = real_pairs(settings.data, encoder, settings.pairs, grouped)
    padded = real = 0
    for step in range(settings.steps):
        for side in zip(*pairs.ids(step * settings.pairs, settings.pairs), strict=True):
            lengths = [len(ids) + 2 for ids in side]
            padded, real = padded + max(lengths) * len(lengths), real + sum(lengths)
    return padded / real


def main() -> None:
    """Read the arguments, print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--pairs", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.one:
        torch.set_num_threads(settings.threads)
        print(json.dumps(run_one(settings.one, settings)))
        return
    ratios = ", ".join(f"{name} {padding(settings, name == 'grouped'):.2f}" for name in ("plain", "grouped"))
    print(
        f"{settings.shape}: {settings.pairs} pairs a step, {settings.threads} threads; padded/real: {ratios}"
    )
    torch.set_num_threads(settings.threads)
    shape = SHAPES[settings.shape]
    rates = peak_rates(shape.width, shape.ffn) if settings.device == "cpu" else {}
    found: dict[str, list[dict[str, Any]]] = {program: [] for program in settings.programs}
    for program in chain.from_iterable([settings.programs] * settings.rounds):
        environment = os.environ | {"OMP_NUM_THREADS": str(settings.threads)}
        command = [sys.executable, *sys.argv, "--one", program]
        result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        found[program].append(json.loads(result.stdout.splitlines()[-1]))
    # The first step warms up.
    speeds = {name: [float(np.mean(run["speeds"][1:])) for run in runs] for name, runs in found.items()}
    for program, runs in found.items():
        peak, above = (np.median([run[key] for run in runs]) / 1e9 for key in ("peak", "above"))
        line = f"{program:16}{np.median(speeds[program]):8.0f} tokens/s"
        for peer in ("authors", "authors-grouped"):
            if peer in speeds:
                line += f"   {np.median(np.array(speeds[program]) / np.array(speeds[peer])):6.2f} x {peer}"
        print(f"{line}   peak {peak:.2f} GB, {above:.2f} above the weights")
        if settings.device == "cpu":
            kind = "bf16" if program.endswith("bf16") else "fp32"
            rate = np.median(speeds[program]) * np.mean(runs[0]["work"][1:])
            share = rate / rates[kind]
            print(f"{'':16}products: {rate:.0f} Gflop/s of {rates[kind]:.0f} in {kind}, {100 * share:.0f}%")
        terms = ", ".join(f"{name} {value:.5f}" for name, value in runs[0]["first"].items())
        print(f"{'':16}first losses: {terms}")
    for program in found.keys() & {"mexma-bf16", "mexma-fp32"} if rates and "authors" in found else ():
        limit = rates[program.removeprefix("mexma-")] / np.mean(found[program][0]["work"][1:])
        print(f"{program:16}at torch's best: {limit / np.median(speeds['authors']):.1f} x authors")


if __name__ == "__main__":
    main()
