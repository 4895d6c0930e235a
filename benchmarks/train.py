"""A training step against the authors' way, side by side in one run: tokens a second, and memory.

    python benchmarks/train.py --data DIR [--shape small] [--pairs 32] [--steps 4] [--rounds 3] [--device cpu]
                               [--vocabulary N] [--spread SIGMA] [--busy]
    python benchmarks/train.py --data DIR --largest [--memory GB] [--device cuda]

The same pairs of real text (DIR: tatoeba_mt/ and bible/ below it), one shape, MEXMA's whole loss and AdamW.
Their tokens are `mini`'s; with --vocabulary there are as many embeddings, and logits, as an encoder of more
tokens has.
Programs, each in a process of its own and by turns:

  mexma-fp32, mexma-bf16  our trainer, as `mexma train` runs it
  authors                 their step made again: four passes (clean and masked, both sides) over padded
                          batches, the head on padded batches, logits of every token, no grouping by length
  authors-grouped         the same on batches of pairs of like length, which wastes less on padding
  authors-packed          four passes without padding, logits of every token: theirs with xformers

The more lengths differ, the more padding costs. With --spread they are drawn: log-normal, with this standard
deviation of their logarithms (the text's own have 0.6), a median of 28 tokens and at most 187. A pair of such
a length is then one of the text, or up to six neighbouring verses.

With --busy all run on one thread, and the processor's time counts: for a machine that does other work, too.

On a GPU all but mexma-fp32 are in bfloat16. --largest looks for the most pairs a step that fit into the GPU,
or into --memory.

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
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from authors import Packed, Padded
from embed import SHAPES, clock, peak_rates
from torch import nn

PEERS = ("authors", "authors-grouped", "authors-packed")
PROGRAMS = ("mexma-bf16", "mexma-fp32", *PEERS)
LANGUAGES = ("fra_Latn", "deu_Latn", "spa_Latn", "rus_Cyrl")
POOL = 4096
"""Pairs from which batches are drawn, or four batches if that is more."""
MEDIAN, LONGEST = 28, 187
"""Tokens, of lengths that are drawn."""


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


def real_pairs(settings: argparse.Namespace, encoder: Any, grouped: bool) -> RealPairs:
    """Half verses of the Bible, half Tatoeba, shuffled; or batches of like length in shuffled order."""
    from mexma_cli.text.lines import read_lines

    data, count = settings.data, settings.pairs
    english = list(read_lines(data / "bible" / "eng_Latn.txt.gz"))
    texts: list[tuple[str, str]] = []
    for code in LANGUAGES:
        both = zip(read_lines(data / "bible" / f"{code}.txt.gz"), english, strict=True)
        verses = [(a, b) for a, b in both if a and b]
        rows = (line.split("\t") for line in read_lines(data / "tatoeba_mt" / f"{code}-eng.tsv.gz"))
        half = max(POOL, 4 * count) // len(LANGUAGES) // 2
        texts += verses[:half]
        texts += islice(((row[0], row[1]) for row in rows), half)
        for several in range(2, 7) if settings.spread else ():
            start = (several - 1) * half
            groups = (verses[at : at + several] for at in range(start, start + half, several))
            texts += [(" ".join(a for a, _ in group), " ".join(b for _, b in group)) for group in groups]
    sides = [encoder.tokenize([text[side] for text in texts]) for side in (0, 1)]
    pairs = [(a[1:-1], b[1:-1]) for a, b in zip(*sides, strict=True)]
    rng = np.random.default_rng(0)
    if settings.spread:
        pairs = spread(pairs, settings.spread, rng)
    order = rng.permutation(len(pairs) // count * count)  # whole batches
    if grouped:
        lengths = np.array([max(map(len, pairs[at])) for at in order])
        batches = order[np.argsort(lengths, kind="stable")].reshape(-1, count)
        order = batches[rng.permutation(len(batches))].ravel()
    return RealPairs([pairs[at] for at in order])


def spread(
    pairs: list[tuple[np.ndarray, np.ndarray]], sigma: float, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs as long as log-normal draws; some come several times."""
    by_length = sorted(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
    lengths = np.array([len(a) + len(b) for a, b in by_length]) / 2 + 2
    wanted = np.minimum(rng.lognormal(np.log(MEDIAN), sigma, max(POOL, len(pairs) // 4)), LONGEST)
    near = np.searchsorted(lengths, wanted) + rng.integers(-16, 17, len(wanted))
    return [by_length[at] for at in np.clip(near, 0, len(pairs) - 1)]


def make(shape: str, vocabulary: int | None = None) -> tuple[Any, Any]:
    """An untrained encoder, and MEXMA on it."""
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.encoder.model.hugging_face import new_model
    from mexma_cli.objectives.mexma.loss import Mexma
    from mexma_cli.objectives.mexma.settings import MexmaSettings

    tokenizer = SentenceEncoder.load("mini", "cpu").tokenizer
    model = new_model(SHAPES[shape], vocabulary or len(tokenizer), 512, 0)
    encoder = SentenceEncoder("new", model, tokenizer, max_tokens=512)
    return encoder, Mexma(encoder, MexmaSettings(name="mexma"))


def run_one(program: str, settings: argparse.Namespace) -> dict[str, Any]:
    """First losses, tokens a second of each step, and memory in bytes, of one program."""
    from mexma_cli.encoder.model.attention import choose_backend
    from mexma_cli.objectives.views import TokenPairs
    from mexma_cli.settings.training import TrainerSettings
    from mexma_cli.training.distributed import Processes
    from mexma_cli.training.trainer import Trainer

    encoder, mexma = make(settings.shape, settings.vocabulary)
    pairs = real_pairs(settings, encoder, program == "authors-grouped")
    device = torch.device(settings.device)
    if settings.memory:
        _limit(settings.memory, device)
    encoder.backend = choose_backend("auto", device)

    def views(start: int) -> Any:
        batch = pairs.ids(start, settings.pairs)
        return mexma.batch(TokenPairs(batch, 42, start)).to(device)

    plain = program.startswith("authors")
    objective = mexma if not plain else Packed(mexma) if program == "authors-packed" else Padded(mexma)
    low = partial(torch.autocast, device.type, torch.bfloat16, enabled=plain and device.type == "cuda")
    objective.to(device).eval()
    with torch.no_grad(), low():
        first = {name: float(term) for name, term in objective(views(0)).items()}
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)  # of the forward pass, with the authors' logits in it
    held = _memory(device)
    speeds = []
    if plain:
        objective.train()
        optimiser = torch.optim.AdamW(objective.parameters(), lr=1e-4, weight_decay=0.0)
        for step in range(settings.steps):
            began = clock()
            batch = views(step * settings.pairs)
            with low():
                terms = objective(batch)
            loss = sum(mexma.weights[name] * term for name, term in terms.items())
            loss.backward()
            nn.utils.clip_grad_norm_(objective.parameters(), 1.2)
            optimiser.step()
            optimiser.zero_grad()
            loss.item()
            speeds.append(len(batch.batch.input_ids) / (clock() - began))
    else:
        keys = {"steps": settings.steps, "batch_pairs": settings.pairs, "accumulate": 1}
        keys |= {"precision": program.removeprefix("mexma-"), "device": settings.device}
        keys |= {"checkpoint_every": settings.steps + 1, "log_every": settings.steps + 1}
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(
                mexma,
                pairs,
                TrainerSettings(**keys),
                Path(folder),
                None,
                Processes(),  # type: ignore[arg-type]
            )
            trainer.save = lambda *_, **__: Path(folder)  # type: ignore[method-assign]
            moments = [clock()]
            trainer.run(_NoLog(), lambda record: moments.append(clock()))
        tokens = [len(views(step * settings.pairs).batch.input_ids) for step in range(settings.steps)]
        speeds = list(np.array(tokens) / np.diff(moments))
    found = {"first": first, "speeds": speeds, "peak": _memory(device), "above": _memory(device) - held}
    work = [gflop(mexma, views(step * settings.pairs), program) for step in range(settings.steps)]
    return found | {"work": work}


def gflop(mexma: Any, views: Any, program: str) -> float:
    """Of a step's matrix products per token, forward and backward."""
    lengths, count = views.batch.lengths, len(views.partners)
    clean, hidden, masked = sum(lengths[:count]), sum(lengths[count:]), len(views.labels)
    if program == "authors-packed":
        masked = hidden
    elif program in PEERS:
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
    pairs = real_pairs(settings, encoder, grouped)
    padded = real = 0
    for step in range(settings.steps):
        for side in zip(*pairs.ids(step * settings.pairs, settings.pairs), strict=True):
            lengths = [len(ids) + 2 for ids in side]
            padded, real = padded + max(lengths) * len(lengths), real + sum(lengths)
    return padded / real


def _limit(gigabytes: float, device: torch.device) -> None:
    """Let this process have so much memory, as its private data or on its GPU, and no more."""
    if device.type == "cuda":
        whole = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(gigabytes * 1e9 / whole, device)
    else:
        resource.setrlimit(resource.RLIMIT_DATA, (int(gigabytes * 1e9),) * 2)


def apart(
    program: str, settings: argparse.Namespace, arguments: list[str], **how: Any
) -> subprocess.CompletedProcess[str]:
    """One program in a process of its own, with these arguments besides those of this process."""
    environment = os.environ | {"OMP_NUM_THREADS": str(settings.threads)}
    command = [sys.executable, *sys.argv, "--one", program, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False, **how)


def largest(program: str, settings: argparse.Namespace) -> int:
    """The most pairs a step that do not end in an error, to within an eighth; 0 if the first do."""

    def fits(pairs: int) -> bool:
        arguments = ["--pairs", str(pairs), "--steps", "2"]
        return apart(program, settings, arguments, stderr=subprocess.DEVNULL).returncode == 0

    most, too_many = 0, settings.pairs
    while fits(too_many):
        most, too_many = too_many, 2 * too_many
    while most and too_many - most > most // 8:
        middle = (most + too_many) // 2
        most, too_many = (middle, too_many) if fits(middle) else (most, middle)
    return most


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
    parser.add_argument("--memory", type=float, metavar="GB", help="of the processor or the GPU")
    parser.add_argument("--largest", action="store_true", help="the most pairs a step that fit")
    parser.add_argument("--vocabulary", type=int, metavar="N", help="embeddings; XLM-R has 250002")
    parser.add_argument("--spread", type=float, metavar="SIGMA", help="of lengths; without, the text's own")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.busy and "BUSY" not in os.environ:
        os.environ.update(BUSY="1", OMP_NUM_THREADS="1")
        os.execv(sys.executable, [sys.executable, *sys.argv, "--threads", "1"])
    if settings.one:
        torch.set_num_threads(settings.threads)
        print(json.dumps(run_one(settings.one, settings)))
        return
    if settings.largest:
        for program in settings.programs:
            print(f"{program:16}{largest(program, settings):6} pairs a step at most", flush=True)
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
        result = apart(program, settings, [])
        result.check_returncode()
        found[program].append(json.loads(result.stdout.splitlines()[-1]))
    # The first step warms up.
    speeds = {name: [float(np.mean(run["speeds"][1:])) for run in runs] for name, runs in found.items()}
    for program, runs in found.items():
        peak, above = (np.median([run[key] for run in runs]) / 1e9 for key in ("peak", "above"))
        line = f"{program:16}{np.median(speeds[program]):8.0f} tokens/s"
        for peer in PEERS:
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
