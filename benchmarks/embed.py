"""Embedding against its peers, side by side in one run, from a text file to vectors on the disk.

    python benchmarks/embed.py --data DIR [--shape base] [--lines 2000] [--threads 2] [--rounds 3]
                               [--device cpu]
    python benchmarks/embed.py --data DIR --model FOLDER        (an encoder's folder in place of a shape)
    python benchmarks/embed.py --data DIR --parts --lines 100 --join 4 --programs mexma-bf16 mexma-fp32
    python benchmarks/embed.py --data DIR --start 100
    python benchmarks/embed.py --data DIR --memory 100000 1000000

Real lines of DIR (ntrex128/ and tatoeba/ below it, eight languages), the same weights for all, everything
counted but the loading of weights: reading, tokenising, computing, writing. Programs, each in a process of
its own and by turns:

  mexma         what `mexma embed` does, in bfloat16 and in float32
  st            sentence-transformers' `encode` in batches of 32 (sorted by length, padded), numpy.save
  loop          the loop of MEXMA's README: tokenizer(padding=True), model, first token, 32 lines at a time in
                the order of the file
  st-bf16       sentence-transformers with the model in bfloat16

The weights of a shape are random, matrices twice as large as XLM-R's first ones, so that layers do something.
Ratios are medians over rounds of seconds divided by those of `mexma` in the same round. --join 4 makes lines
four times as long. --busy is for a machine that does other work, too: one thread, and the processor's time in
place of the clock's; --parts, which implies it, adds how the time of mexma's fastest round divides, for an
encoder of BERT's family. --start counts all of a process, from its start to its end, for that many lines with
`mini`'s weights: the command, and four lines of Python for sentence-transformers. --memory embeds that many
lines with `mini`, of these languages and of all of ntrex128, and prints the largest memory that was held.
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
from collections.abc import Callable
from itertools import cycle, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from mexma_cli.settings.training import NewEncoder

PROGRAMS = ("mexma-bf16", "mexma-fp32", "st", "loop", "st-bf16")
LANGUAGES = ("fra", "deu", "spa", "ita", "por", "nld", "rus")
SHAPES = {
    "base": NewEncoder(width=768, layers=12, heads=12, ffn=3072),
    "large": NewEncoder(width=1024, layers=24, heads=16, ffn=4096),
    "small": NewEncoder(width=384, layers=6, heads=12, ffn=1536),
}
SCRIPT = """
import sys, numpy
from sentence_transformers import SentenceTransformer
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
numpy.save(sys.argv[3], SentenceTransformer(sys.argv[1], device="cpu").encode(lines, show_progress_bar=False))
"""
# With --busy the processes measure the processor's time.
clock = time.process_time if "BUSY" in os.environ else time.perf_counter
BATCH = 32
MAX_TOKENS = 200


def real_lines(data: Path, count: int) -> list[str]:
    """Lines of news (long) and of Tatoeba (short) by turns over the languages; repeated with a number each
    where there are not enough."""
    from mexma_cli.text.lines import read_lines

    news = [sorted((data / "ntrex128").glob(f"{code}_*.txt.gz"))[0] for code in LANGUAGES]
    short = [sorted((data / "tatoeba_mt").glob(f"{code}_*-eng.tsv.gz"))[0] for code in LANGUAGES]
    columns = [list(read_lines(path)) for path in [*news, *short]]
    longest = max(map(len, columns[: len(news)]))
    columns = [[line.split("\t")[0] for line in column[:longest]] for column in columns]
    lines = [line for row in zip_longest(*columns) for line in row if line]
    lines = list(dict.fromkeys(lines))
    if count <= len(lines):
        return lines[:count]
    return [f"{line} {at // len(lines)}" for at, line in zip(range(count), cycle(lines), strict=False)]


def make_folder(shape: str, folder: Path) -> Path:
    """An untrained encoder of a shape, with the tokeniser of `mini`."""
    import torch

    from mexma_cli.encoder.encoder import SentenceEncoder

    encoder = SentenceEncoder.new(SHAPES[shape], SentenceEncoder.load("mini", "cpu").tokenizer, 512, 0)
    encoder.max_tokens = MAX_TOKENS
    with torch.no_grad():
        for name, weight in encoder.model.named_parameters():
            if weight.dim() == 2 and "embeddings" not in name:
                weight *= 2
    encoder.save(folder)
    return folder


def time_parts() -> dict[str, float]:
    """Let the parts of embedding by the engine add up their seconds in what is returned."""
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.encoder.loading.tokenizer import LazyTokenizer
    from mexma_cli.encoder.model import engine

    parts: list[tuple[str, Any, str]] = [
        ("products, with GELU", engine.Linear, "__call__"),
        ("attention", engine, "attend"),
        ("residuals and norms", engine._Norm, "__call__"),
        ("embedding lookup", engine.Engine, "_embed"),
        ("tokenising", LazyTokenizer, "encode"),
        ("packing, pooling", SentenceEncoder, "embed"),
    ]
    seconds = dict.fromkeys([name for name, _, _ in parts], 0.0)
    inside: list[float] = []  # seconds of the parts within those that run

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            inside.append(0.0)
            began = clock()
            found = function(*given, **named)
            took = clock() - began
            seconds[name] += took - inside.pop()
            if inside:
                inside[-1] += took
            return found

        return run

    for name, owner, function in parts:
        setattr(owner, function, timed(name, getattr(owner, function)))
    return seconds


def run_one(program: str, folder: str, text: str, output: str, device: str, parts: bool) -> dict[str, Any]:
    """Embed a text with one program; vectors as they are left on the disk go to OUTPUT.npy."""
    import torch

    if program.startswith("mexma"):
        from mexma_cli.encoder.encoder import SentenceEncoder
        from mexma_cli.settings.stages import EmbedSettings
        from mexma_cli.stages.embed.embed import EmbedOptions, embed_file

        dtype = "bfloat16" if program.endswith("bf16") else "float32"
        encoder = SentenceEncoder.load(folder, device, dtype)
        encoder.embed(["warm up"])  # packs the weights, which is part of loading
        found = time_parts() if parts else {}
        began = clock()
        store = embed_file(
            encoder, text, output + ".emb", EmbedOptions(settings=EmbedSettings(store_dtype="float32"))
        )
        seconds = clock() - began
        np.save(output, store.vectors(0, store.rows))
        return {"seconds": seconds, "parts": found | {"reading, writing": seconds - sum(found.values())}}
    torch.set_grad_enabled(False)
    if program == "loop":
        from transformers import AutoModel, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModel.from_pretrained(folder, add_pooling_layer=False, dtype="float32").eval().to(device)
        began = clock()
        lines = Path(text).read_text(encoding="utf-8").split("\n")[:-1]
        parts = []
        for start in range(0, len(lines), BATCH):
            some = lines[start : start + BATCH]
            inputs = tokenizer(
                some, return_tensors="pt", padding=True, truncation=True, max_length=MAX_TOKENS
            )
            parts.append(model(**inputs.to(device)).last_hidden_state[:, 0].cpu().numpy())
        np.save(output, np.concatenate(parts))
    else:
        from sentence_transformers import SentenceTransformer

        kind = torch.bfloat16 if program == "st-bf16" else torch.float32
        peer = SentenceTransformer(folder, device=device, model_kwargs={"dtype": kind})
        began = clock()
        lines = Path(text).read_text(encoding="utf-8").split("\n")[:-1]
        vectors = peer.encode(lines, batch_size=BATCH, show_progress_bar=False, convert_to_tensor=True)
        np.save(output, vectors.float().cpu().numpy())
    return {"seconds": clock() - began}


def peak_rates(width: int, ffn: int, device: str = "cpu") -> dict[str, float]:
    """The fastest product of the shape's kinds on a device, in Gflop/s.

    On a processor weights are packed beforehand, as those of encoders are.
    """
    import torch

    from mexma_cli.encoder.model.engine import Linear

    rates = {}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        for columns, rows in ((width, ffn), (ffn, width), (width, 3 * width), (width, width)):
            x = torch.randn(2048, columns, device=device).to(dtype)
            parts = {
                "weight": torch.randn(rows, columns, device=device),
                "bias": torch.zeros(rows, device=device),
            }
            product = (
                Linear(parts, dtype)
                if device == "cpu"
                else torch.nn.Linear(columns, rows, device=device, dtype=dtype)
            )
            seconds = []
            for _ in range(20):
                began = clock()
                with torch.inference_mode():
                    product(x).flatten()[0].item()  # waits for the device
                seconds.append(clock() - began)
            rates[name] = max(rates.get(name, 0.0), 2 * 2048 * columns * rows / min(seconds) / 1e9)
    return rates


def measure(
    settings: argparse.Namespace, program: str, folder: Path, text: Path, output: Path
) -> dict[str, Any]:
    """Seconds of one program in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": str(settings.threads), "TOKENIZERS_PARALLELISM": "true"}
    files = [str(folder), str(text), str(output)]
    command = [sys.executable, __file__, "--one", program, *files, settings.device]
    command += ["--parts"] if settings.parts else []
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def compare(settings: argparse.Namespace, folder: Path) -> None:
    """Everything but the memory."""
    import torch

    from mexma_cli.encoder.encoder import SentenceEncoder

    torch.set_num_threads(settings.threads)
    model = Path(settings.model) if settings.model else make_folder(settings.shape, folder / "model")
    text = folder / "lines.txt"
    single = real_lines(settings.data, settings.join * settings.lines)
    lines = [" ".join(single[at :: settings.lines]) for at in range(settings.lines)]
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    encoder = SentenceEncoder.load(str(model), "cpu")
    tokens = sum(len(ids) for ids in encoder.tokenize(lines))
    config = encoder.model.config
    width, ffn, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    print(f"{len(lines):,} lines, {tokens / len(lines):.1f} tokens a line, {settings.threads} threads")
    print(f"{settings.model or settings.shape}: {layers} layers of {width}")
    rates = peak_rates(width, ffn, settings.device)
    runs: dict[str, list[dict[str, Any]]] = {program: [] for program in settings.programs}
    for number in range(settings.rounds):
        for program in settings.programs:
            output = folder / f"{program}-{number}.npy"
            runs[program].append(measure(settings, program, model, text, output))
    seconds = {program: [run["seconds"] for run in found] for program, found in runs.items()}
    # The last layer needs keys and values of all tokens, and computes the rest for the first ones alone.
    work = 2 * tokens * ((layers - 1) * (4 * width * width + 2 * width * ffn) + 3 * width * width) / 1e9
    vectors = {program: np.load(folder / f"{program}-0.npy") for program in settings.programs}
    for program in settings.programs:
        typical = float(np.median(seconds[program]))
        line = f"{program:11} {typical:8.2f} s {len(lines) / typical:8.1f} sentences/s"
        for ours in ("mexma-bf16", "mexma-fp32"):
            if ours in seconds:
                ratio = np.median(np.array(seconds[program]) / np.array(seconds[ours]))
                line += f"   {ratio:5.2f} x {ours}"
        if program.startswith("mexma"):
            kind = program.removeprefix("mexma-")
            line += f"   {work / typical:5.0f} of {rates[kind]:.0f} Gflop/s in products"
        print(line)
        if settings.parts and program.startswith("mexma"):
            fastest = min(runs[program], key=lambda run: float(run["seconds"]))
            for part, share in fastest["parts"].items():
                print(f"    {share / fastest['seconds']:6.1%} {part}")
    if "st" in vectors:
        for program in settings.programs:
            plain = cosines(vectors[program], vectors["st"])
            mean = vectors["st"].mean(axis=0)
            centred = cosines(vectors[program] - mean, vectors["st"] - mean)
            print(
                f"{program:11} cosine to st: least {plain.min():.6f}, mean {plain.mean():.6f}; "
                f"less the mean vector: least {centred.min():.5f}"
            )


def cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """float32 [n], row by row."""
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    result: np.ndarray = (x * y).sum(axis=1) / lengths
    return result


def start(settings: argparse.Namespace, folder: Path) -> None:
    """Seconds of whole processes, by turns."""
    from mexma_cli.encoder.encoder import SentenceEncoder

    model, text = folder / "model", folder / "lines.txt"
    SentenceEncoder.load("mini", "cpu").save(model)  # with weights that both read
    lines = real_lines(settings.data, settings.start)
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    commands = {
        "mexma embed": ["-m", "mexma_cli", "embed", "--model", str(model), str(text), "-o"],
        "sentence-transformers": ["-c", SCRIPT, str(model), str(text)],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(settings.rounds + 1):
        for name, command in commands.items():
            began = clock()
            output = str(folder / f"{number}.{name[:5]}")
            subprocess.run([sys.executable, *command, output], check=True, capture_output=True)
            seconds[name].append(clock() - began)
    ours = np.array(seconds["mexma embed"][1:])  # the first one filled the caches of the disk
    for name, found in seconds.items():
        ratio = np.median(np.array(found[1:]) / ours)
        print(
            f"{name:22} {np.median(found[1:]):6.2f} s from start to end of {len(lines)} lines {ratio:6.2f} x"
        )


def memory(settings: argparse.Namespace, folder: Path) -> None:
    """The largest memory of `mexma embed` for texts of several lengths and kinds."""
    from mexma_cli.text.lines import read_lines

    columns = [read_lines(path) for path in sorted((settings.data / "ntrex128").glob("*_*.txt.gz"))]
    every = [line for row in zip_longest(*columns) for line in row if line]
    for count in settings.memory:
        mixed = every[:count]
        texts = {
            f"{count:,} lines": real_lines(settings.data, count),
            f"{len(mixed):,} lines in {len(columns)} languages line by line": mixed,
            "16 of these in a line": [" ".join(mixed[at : at + 16]) for at in range(0, len(mixed), 16)],
        }
        for number, (kind, lines) in enumerate(texts.items()):
            text = folder / f"{count}-{number}.txt"
            text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            command = [sys.executable, "-m", "mexma_cli", "embed", str(text)]
            began = clock()
            child = subprocess.Popen([*command, "-o", f"{text}.emb"], stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            assert status == 0, status
            seconds, peak = clock() - began, usage.ru_maxrss * 1024 / 1e9
            print(
                f"{kind}: {peak:.2f} GB at most, {seconds:.0f} s, {len(lines) / seconds:.0f} lines a second",
                flush=True,
            )


def main() -> None:
    """Read the arguments, print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="base")
    parser.add_argument("--model", metavar="FOLDER")
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    parser.add_argument("--join", type=int, default=1, metavar="LINES")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--start", type=int, metavar="LINES")
    parser.add_argument("--memory", type=int, nargs="+", metavar="LINES")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.one:
        found = run_one(*settings.one, settings.parts)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps(found | {"peak": peak}))
        return
    if (settings.busy or settings.parts) and "BUSY" not in os.environ:
        os.environ.update(BUSY="1", RAYON_NUM_THREADS="1", OMP_NUM_THREADS="1")
        os.execv(sys.executable, [sys.executable, *sys.argv, "--threads", "1"])
    if settings.data is None:
        parser.error("--data DIR is needed")
    with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
        measured = memory if settings.memory else start if settings.start else compare
        measured(settings, Path(name))


if __name__ == "__main__":
    main()
