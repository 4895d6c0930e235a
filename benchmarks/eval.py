"""xsim over 81 languages x 1,012 sentences, and where the time goes.

    python benchmarks/eval.py --data DIR [--languages 81] [--lines 1012] [--model mini] [--threads 2]

DIR has line-aligned files of one line a sentence as `mexma eval xsim` reads them, NTREX-128 for example: the
text is that of its languages in alphabetical order, and those again from the start, a few lines further on,
where there are fewer; a file with too few lines is repeated from its start. No vectors are kept. Stages:

  loading      imports, and the encoder's weights
  reading      finding, unpacking and reading the files
  tokenising   text to token ids, as within embedding, but alone and once more: a part of the next
  embedding    tokenising and the transformer
  neighbours   the k nearest of both sides, languages in turn
  scoring      margins, errors, means, the table

Target: under two minutes in all on 2 cores.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path


class Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", type=int, default=81)
    parser.add_argument("--lines", type=int, default=1012)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    clock = Clock()
    started = time.perf_counter()
    with clock("loading"):
        from mexma_cli.encoder.encoder import SentenceEncoder
        from mexma_cli.evaluation.aligned import AlignedTexts, aligned_folder
        from mexma_cli.evaluation.reading import read_all_lines
        from mexma_cli.evaluation.xsim import xsim_of, xsim_result
        from mexma_cli.knn.exact import knn
        from mexma_cli.reporting.result import describe
        from mexma_cli.reporting.tables import text_lines

        encoder = SentenceEncoder.load(args.model, dtype=args.dtype)
    with clock("reading"):
        source = aligned_folder(args.data, "devtest")
        files = source.files
        texts = {}
        for number, (code, path) in enumerate(islice(cycle(files.items()), args.languages + 1)):
            around = number // len(files)
            lines = islice(cycle(read_all_lines(path)), 7 * around, 7 * around + args.lines)
            texts[f"{code}" if not around else f"{code} {around + 1}"] = list(lines)
        target = texts.pop("eng_Latn", None) or texts.pop(next(iter(texts)))
    everything = [line for lines in (target, *texts.values()) for line in lines]
    with clock("tokenising"):
        tokens = sum(map(len, encoder.tokenize(everything)))
    with clock("embedding"):
        y = encoder.embed(target)
        vectors = {code: encoder.embed(lines) for code, lines in texts.items()}
    with clock("neighbours"):
        found = {code: knn(x, y, 4) for code, x in vectors.items()}
    with clock("scoring"):
        data = AlignedTexts(source, "all", "eng_Latn", target, texts)
        scored = {code: xsim_of(near, "ratio", target) for code, near in found.items()}
        plain = {code.split()[0]: one for code, one in scored.items()}
        table = text_lines(xsim_result(data, plain, describe(encoder)))
    whole = time.perf_counter() - started - clock.seconds["tokenising"]
    print(table[-1])
    print(
        f"{len(texts)} languages and the target, {len(target):,} sentences each, {tokens:,} tokens, "
        f"{args.threads} threads, {args.model} in {encoder.precision}"
    )
    for stage, seconds in clock.seconds.items():
        part = " (part of embedding)" if stage == "tokenising" else ""
        print(f"{stage:11} {seconds:7.2f} s {100 * seconds / whole:5.1f} %{part}")
    print(f"{'in all':11} {whole:7.2f} s")


if __name__ == "__main__":
    main()
