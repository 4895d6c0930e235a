"""What a second phase adds to a bag of words, by objective and steps: the tables of notes/second-phase.md.

    python benchmarks/second_phase.py --data DIR [--seeds 3] [--only NAME ...] [--set KEY=VALUE] [--out DIR]

(DIR: what recipes/transformer.yaml reads, ntrex128/, mining/ and wmt_newstest/.) Each seed has a bag of its
own. A NAME is an objective of `PHASES` and a number of steps, as in mexma/200; or an objective and a rate,
as in mexma@0.0001, which is a trial: `STEPS[0]` steps with seed 1, measured on text that is in no table.
The rate is constant after a warm-up, and what is measured is a running mean of the weights, so the run of
200 steps goes on from that of 60. What is finished is kept in --out, as in benchmarks/reproduction.py.
Printed are means, and in parentheses the lowest and the highest seed; --out gets a picture of them,
xsim++.svg.
"""

from __future__ import annotations

import gzip
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean

import numpy as np
from encoder import mining_f1, mining_set
from reproduction import START, Result, Runs, arguments

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.evaluation.aligned import AlignedTexts, read_texts
from mexma_cli.evaluation.augment import KINDS, Augmented, augment
from mexma_cli.evaluation.embedder import Embedder
from mexma_cli.evaluation.xsim import evaluate as evaluate_xsim
from mexma_cli.evaluation.xsim import evaluate_xsimpp
from mexma_cli.files import read_json, write_json_atomic
from mexma_cli.reporting import plot
from mexma_cli.stages.score import unit_vectors
from mexma_cli.stages.train.train import train
from mexma_cli.text.lines import read_lines

RECIPE = "transformer"
PHASE = "train"
HARD = "hard_negatives: 0.3"
RANKED = "temperature: 0.07, margin: 0.2"
HEAD = "head: {layers: 1, heads: 5, ffn: 640, layer_norm_eps: 1.0e-5, dropout: 0.0, output_scale: 0.03}"
PHASES = {
    "contrastive": (f"name: contrastive, {RANKED}", "0.00003"),
    "mexma": (f"name: mexma, {HEAD}", "0.00003"),
    "mexma-contrastive": (f"name: mexma, contrastive: 1, {RANKED}, {HEAD}", "0.0001"),
    "negatives": (f"name: contrastive, {RANKED}, {HARD}", "0.0001"),
    "mexma-negatives": (f"name: mexma, contrastive: 1, {RANKED}, {HARD}, {HEAD}", "0.0001"),
    "unmasking-negatives": (
        f"name: mexma, alpha: 0, gamma: 0, contrastive: 1, {RANKED}, {HARD}, {HEAD}",
        "0.0001",
    ),
}
"""The objectives, and the rate of each: the best of `RATES` by xsim++ on newstest2008 (`trial`)."""
RATES = ("0.00003", "0.0001", "0.0003")
STEPS = (60, 200, 600, 2000)
WARMUP = 20
BAG_NEGATIVES = "bag-negatives"
"""No second phase, and hard negatives in the first one."""
TRIALS = (f"{START}@0", *(f"{objective}@{rate}" for objective in PHASES for rate in RATES))
CURVE = (
    START,
    BAG_NEGATIVES,
    *(f"{objective}/{steps}" for steps in STEPS for objective in PHASES),
)
LANGUAGES = "fra,deu,spa,rus"
MEASURES = ("xsim++", *KINDS, "order", "xsim", "F1", "cpu")
MINED = "fra-eng"
DEV = "newstest2008"
DEV_LINES = 500
SPENT = "cpu_seconds.json"


class Phases(Runs):
    """Runs that go on from one bag a seed."""

    def trained(self, name: str, seed: int) -> Path:
        """The run of an objective, a rate and steps, such as mexma@0.0001/200, or of `BAG_NEGATIVES`.

        It goes on from the longest of those with fewer steps.
        """
        if name == BAG_NEGATIVES:
            return self.start(seed, name)
        run, recipe = self.begun(name, seed)
        began, spent = time.process_time(), 0.0
        if (run / SPENT).is_file():
            return run
        objective, steps = name.split("/")
        shorter = [run.with_name(f"{objective}-{fewer}") for fewer in STEPS if fewer < int(steps)]
        for before in [path for path in shorter if (path / SPENT).is_file()][-1:]:
            spent = read_json(before / SPENT)
            if not (run / PHASE).exists():
                part = run / "part"
                shutil.copytree(before / PHASE / "checkpoints", part / "checkpoints", dirs_exist_ok=True)
                shutil.copy(before / "log.jsonl", run)
                part.rename(run / PHASE)
        train(recipe, resume=True)
        write_json_atomic(run / SPENT, spent + time.process_time() - began)
        return run

    def changed(self, name: str) -> tuple[str, list[str]]:
        """The recipe with the objective, the rate and the steps of a name."""
        if name == RECIPE:
            return RECIPE, []
        if name == BAG_NEGATIVES:
            return RECIPE, [f"phases.bag.objective.{HARD.replace(': ', '=')}"]
        objective, rate, steps = re.split("[@/]", name)
        settings, _ = PHASES[objective]
        trainer = {"steps": steps, "learning_rate": rate, "warmup": WARMUP / int(steps)}
        changes = [f"phases.{PHASE}.trainer.{key}={value}" for key, value in trainer.items()]
        changes.append(f"phases.{PHASE}.objective={{{settings}}}")
        return RECIPE, changes + ["data.negatives=0"] * (HARD not in settings)

    def measured(self, name: str, seed: int) -> Result:
        """Train, and measure: all of `MEASURES`, of a trial xsim++ and xsim on other text."""
        if name in TRIALS:
            at_bag = name.startswith(START)
            return self.scores(
                self.start(seed) if at_bag else self.trained(f"{name}/{STEPS[0]}", seed), self.dev()
            )
        if name == START:
            run = self.start(seed)
        elif name == BAG_NEGATIVES:
            run = self.trained(name, seed)
        else:
            objective, steps = name.split("/")
            run = self.trained(f"{objective}@{PHASES[objective][1]}/{steps}", seed)
        found = self.scores(run, read_texts(self.data / "ntrex128", "devtest", LANGUAGES, "eng_Latn"))
        if name.endswith(f"/{STEPS[0]}"):
            return found
        encoder = SentenceEncoder.load(str(run), "cpu")
        texts, gold = mining_set(self.data / "mining" / MINED)
        best = mining_f1([encoder.embed(text) for text in texts], texts, gold)
        return {**found, "F1": 100 * best.f1}

    def scores(self, run: Path, data: AlignedTexts) -> Result:
        """xsim++, its errors by kind, order and xsim, in percent; and the processor seconds of the phase."""
        embed = Embedder(SentenceEncoder.load(str(run), "cpu"), self.out / "vectors")
        kinds = {one.sentence: (one.source, one.kind) for one in augment(data.lines)}
        hard = Augmented(self.data, list(kinds), kinds, own=True)
        found = {
            **evaluate_xsimpp(data, hard, embed).scores,
            **evaluate_xsim(data, embed).scores,
            "order": order_errors(embed, data),
            "cpu": read_json(run / SPENT) if (run / SPENT).exists() else 0.0,
        }
        shutil.rmtree(self.out / "vectors")
        return found

    def dev(self) -> AlignedTexts:
        """News that is in no table: `DEV_LINES` sentences that all of its languages but Russian have."""
        folder = self.out / DEV
        folder.mkdir(parents=True, exist_ok=True)
        texts = {}
        for path in sorted((self.data / "wmt_newstest").glob("*-eng.tsv.gz")):
            if path.name[:3] in LANGUAGES:
                rows = [line.split("\t") for line in read_lines(path)]
                texts[path.name[:8]] = {english: text for text, english, kept in rows if kept == DEV}
        texts = {code: lines for code, lines in texts.items() if lines}
        english = [line for line in next(iter(texts.values())) if all(line in one for one in texts.values())]
        texts["eng_Latn"] = {line: line for line in english}
        for code, lines in texts.items():
            with gzip.open(folder / f"{code}.txt.gz", "wt", encoding="utf-8") as file:
                file.writelines(f"{lines[line]}\n" for line in english[:DEV_LINES])
        return read_texts(folder, "devtest", None, "eng_Latn")


def order_errors(embed: Embedder, data: AlignedTexts) -> float:
    """How often, in percent, a translation is closer to the target with two words exchanged.

    Half of them for a bag, to which both are the same but for rounding.
    """
    target, exchanged = (
        unit_vectors(embed(lines, data.target)) for lines in (data.lines, list(map(swapped, data.lines)))
    )
    wrong = []
    for language, lines in data.texts.items():
        above = (embed(lines, language) * (exchanged - target)).sum(axis=1)
        wrong.append(np.heaviside(above, 0.5).mean())
    return 100 * fmean(wrong)


def swapped(sentence: str) -> str:
    """A sentence with two of its words exchanged, always the same two."""
    words = sentence.split()
    first, second = Random(sentence).sample(range(len(words)), 2) if len(words) > 1 else (0, 0)
    words[first], words[second] = words[second], words[first]
    return " ".join(words)


def main() -> None:
    """Train and measure what is missing, and print the tables."""
    typed = arguments(__doc__, (*TRIALS, *CURVE), Path("runs/second-phase"))
    runs = Phases(typed.data, typed.out, typed.overrides, RECIPE)
    for seed in range(1, typed.seeds + 1) if not typed.tables else ():
        for name in typed.only:
            if name not in TRIALS or seed == 1:
                runs.result(name, seed)
    heads = [f"rate {rate}" for rate in RATES]
    print(f"| objective, xsim++ ({DEV}) | " + " | ".join(heads) + " |\n|" + " --- |" * (1 + len(RATES)))
    print(f"| {START} | " + spread([one["xsim++"] for one in runs.finished(TRIALS[0])]) + " |" * len(RATES))
    for objective in PHASES:
        found = [runs.finished(f"{objective}@{rate}") for rate in RATES]
        print(
            f"| {objective} | " + " | ".join(spread([one["xsim++"] for one in each]) for each in found) + " |"
        )
    print("\n| objective/steps | seeds | " + " | ".join(MEASURES) + " |\n|" + " --- |" * (2 + len(MEASURES)))
    for name in CURVE:
        if found := runs.finished(name):
            cells = [spread([one[key] for one in found if key in one]) for key in MEASURES]
            print(f"| {name} | {len(found)} | " + " | ".join(cells) + " |")
    draw(runs)


def spread(values: Sequence[float]) -> str:
    """The mean, the lowest and the highest."""
    mean = f"{fmean(values):.2f}" if values else ""
    return mean if len(values) < 2 else f"{mean} ({min(values):.2f} to {max(values):.2f})"


def draw(runs: Runs) -> None:
    """The curve of each objective, and the bag it begins at."""
    figure = plot.new_figure(6.4, 3.8)
    axes = figure.add_subplot()
    for number, objective in enumerate(PHASES):
        found = [(steps, one) for steps in STEPS for one in runs.finished(f"{objective}/{steps}")]
        steps = sorted({step for step, _ in found})
        values = [[one["xsim++"] for step, one in found if step == wanted] for wanted in steps]
        axes.plot(steps, list(map(fmean, values)), "o-", color=plot.COLOURS[number], label=objective)
        if found:
            axes.vlines(steps, list(map(min, values)), list(map(max, values)), color=plot.COLOURS[number])
    for name, style in ((START, "--"), (BAG_NEGATIVES, ":")):
        if found := runs.finished(name):
            axes.axhline(fmean(one["xsim++"] for one in found), color=plot.INK, linestyle=style, label=name)
    axes.set(xscale="log", xlabel="steps of the second phase", ylabel="xsim++ error in percent")
    axes.set_xticks(STEPS, list(map(str, STEPS)))
    plot.tidy(axes, grid=True)
    axes.legend(frameon=False, fontsize=8)
    plot.save(figure, runs.out / "xsim++.svg")


if __name__ == "__main__":
    main()
