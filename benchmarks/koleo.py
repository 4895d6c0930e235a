"""KoLeo with the MEXMA paper's weights, by size, batch, steps and start: a picture and its table.

    python benchmarks/koleo.py --data DIR [--out DIR] [--only NAME ...] [--picture FILE.svg]

(DIR: as for benchmarks/reproduction.py.) Trains ablations/small/mexma with alpha 1 and gamma 0.005, seed 1,
in each of the settings below, and draws KoLeo's term (higher: vectors nearer to one another) and the
alignment loss over the steps. "after TR" starts from an encoder that systems/small/tr has trained, in place
of the sum of embeddings that the small recipes start from. All warm up for 30 steps. What is finished is kept
in --out, so a killed call goes on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import yaml
from reproduction import BASE, Runs

from mexma_cli.reporting.plot import COLOURS, new_figure, save, tidy
from mexma_cli.settings.load import load

PAPER = ("phases.train.objective.alpha=1", "phases.train.objective.gamma=0.005")
LARGER = ("encoder.new.layers=4", "encoder.new.width=256", "encoder.new.ffn=1024")
SETTINGS: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "2 layers of 96, 64 pairs": (64, 3000, ()),
    "the same, after TR": (64, 1000, ()),
    "the same, 256 pairs": (256, 120, ()),
    "the same, 1,024 pairs": (1024, 60, ()),
    "4 layers of 256, 64 pairs": (64, 150, LARGER),
}
"""Pairs a step, steps, and what else is set."""
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
TERMS = {"koleo": "KoLeo's term (higher: vectors nearer)", "alignment": "alignment loss"}
SHOWN = (20, 40, 60, 100, 150, 300, 500, 1000, 2000, 3000)


class KoleoRuns(Runs):
    """The runs of one encoder's size: another size has another start."""

    def changed(self, name: str) -> tuple[str, list[str]]:
        """The recipe of a setting, by its name."""
        if name not in SETTINGS:
            return name, []
        pairs, steps, _ = SETTINGS[name]
        trainer = {"batch_pairs": pairs, "steps": steps, "warmup": 30 / steps, "log_every": 10}
        own = [*PAPER, *(f"phases.train.trainer.{key}={value}" for key, value in trainer.items())]
        return str(after_tr(self.out)) if "after TR" in name else BASE, own


def after_tr(out: Path) -> Path:
    """A recipe with 500 steps of TR between the sum of embeddings and the phase that is looked at."""
    raw, other = (yaml.safe_load(load(name).to_yaml()) for name in (BASE, "systems/small/tr"))
    tr = other["phases"][1] | {"name": "tr"}
    tr["trainer"]["steps"] = 500
    raw["phases"].insert(1, tr)
    path = out / "after-tr.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(raw))
    return path


def curves(typed: argparse.Namespace, name: str) -> list[dict[str, Any]]:
    """The records of a setting's last phase, from an earlier call if it is finished."""
    _, _, size = SETTINGS[name]
    runs = KoleoRuns(typed.data, typed.out / ("larger" if size else "small"), list(size))
    run = runs.trained(name, 1)
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [record for record in records if record["phase"] == "train"]


def thinned(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that lie apart on an axis of logarithms."""
    kept = records[:1]
    for record in records[1:]:
        if record["step"] >= 1.05 * kept[-1]["step"]:
            kept.append(record)
    return kept


def draw(path: Path, found: dict[str, list[dict[str, Any]]]) -> None:
    """Both terms of all settings over the steps, one panel each."""
    figure = new_figure(8.4, 3.4)
    for place, (term, title) in enumerate(TERMS.items(), 1):
        axes = figure.add_subplot(1, 2, place)
        for colour, dashes, (name, records) in zip(COLOURS, DASHES, found.items(), strict=False):
            points = [(record["step"], record["terms"][term]) for record in thinned(records)]
            axes.plot(*zip(*points, strict=True), linestyle=dashes, color=colour, label=name)
        axes.set_xscale("log")
        if term == "alignment":
            axes.set_yscale("log")
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("steps", fontsize=9)
        tidy(axes, grid=True)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    save(figure, path)


def print_table(found: dict[str, list[dict[str, Any]]]) -> None:
    """KoLeo's term and, in parentheses, the alignment loss at some steps."""
    print("| step | " + " | ".join(found) + " |\n" + "|---" * (len(found) + 1) + "|")
    for step in SHOWN:
        cells = []
        for records in found.values():
            terms = [record["terms"] for record in records if record["step"] == step]
            cells.append(f"{terms[0]['koleo']:.2f} ({terms[0]['alignment']:.3f})" if terms else "")
        print(f"| {step:,} | " + " | ".join(cells) + " |")


def main() -> None:
    """Train what is missing, print the table, draw the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/koleo"))
    parser.add_argument("--only", nargs="+", default=list(SETTINGS), choices=SETTINGS, metavar="NAME")
    parser.add_argument("--picture", type=Path, default=Path("koleo.svg"))
    typed = parser.parse_args()
    found = {name: curves(typed, name) for name in typed.only}
    print_table(found)
    draw(typed.picture, found)


if __name__ == "__main__":
    main()
