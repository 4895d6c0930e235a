"""`mexma train`: a recipe into an encoder."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.completion import RECIPE
from mexma_cli.commands.options import json_option, plugin_option, set_option
from mexma_cli.commands.progress import follow, progress
from mexma_cli.text.amounts import counted, size

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.settings.training import DecomposeRecipe, Phase, Recipe
    from mexma_cli.stages.train.estimate import TrainingEstimate
    from mexma_cli.training.decomposing import DecomposerTraining
    from mexma_cli.training.distributed import Processes

log = logging.getLogger(__name__)

SHORT = {
    "unmask_source": "unmask",
    "unmask_target": "unmask'",
    "alignment": "align",
    "contrastive": "contrast",
    "hard_negatives": "hard",
}


@click.command("train")
@click.argument("recipe", type=RECIPE)
@set_option
@plugin_option
@json_option
@click.option(
    "--resume",
    is_flag=True,
    help="Continue a run that was stopped or killed, with its --set; begin one that is not there.",
)
@click.option(
    "--nproc-per-node",
    "processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Train in N processes on this machine, with a GPU each.",
)
@click.option(
    "--max-restarts",
    "restarts",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="With --nproc-per-node: restarts from the last checkpoint after a process died, at most.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the resolved recipe, and what it takes: parameters, memory, tokens, operations, GPU hours.",
)
def command(
    recipe: str,
    overrides: tuple[str, ...],
    plugins: tuple[str, ...],
    as_json: bool,
    resume: bool,
    processes: int | None,
    restarts: int,
    dry_run: bool,
) -> None:
    """Train an encoder from a recipe, and print its folder.

    RECIPE is a YAML file or the name of a shipped recipe. Text that is not prepared yet is prepared first.
    The run's folder gets the resolved recipe, log.jsonl, checkpoints and the encoder, a Hugging Face folder.
    Ctrl-C and SIGTERM write a checkpoint and stop. On several machines: torchrun -m mexma_cli train.

    A recipe of kind decompose (systems/meat-oracle) trains a decomposer of stored vectors for `mexma
    project`.

    \b
    Examples:
      mexma train mini --set data.root=DIR
      mexma train my.yaml --set trainer.steps=2000 --set run=runs/longer
      mexma train my.yaml --resume
      mexma train my.yaml --nproc-per-node 8
      mexma train 81langs --nproc-per-node 8 --dry-run
      mexma train my.yaml --plugin my_loss.py
    """
    from mexma_cli.settings.registry import load_plugin
    from mexma_cli.settings.training import DecomposeRecipe
    from mexma_cli.stages.train.run_folder import load_for
    from mexma_cli.training.launch import end_with_launcher

    end_with_launcher()
    for plugin in plugins:
        load_plugin(plugin)
    settings = load_for(recipe, overrides, resume)
    if dry_run:
        _print_estimate(settings, processes or int(os.environ.get("WORLD_SIZE", "1")), as_json)
        return
    if "WORLD_SIZE" not in os.environ:
        _check_text(settings, resume)
    if isinstance(settings, DecomposeRecipe):
        if processes is not None or restarts or int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise click.UsageError(
                "A decomposer trains in one process: leave out --nproc-per-node, --max-restarts and torchrun."
            )
        _print_trained(train_decomposer(settings, resume, _go_on(settings, plugins)), settings.run, as_json)
        return
    if processes is None:
        if restarts:
            raise click.UsageError("--max-restarts is for --nproc-per-node; torchrun has its own.")
        finished = train_recipe(settings, resume, _go_on(settings, plugins))
        if finished is not None:
            _print_trained(finished, settings.run, as_json)
        return
    if "WORLD_SIZE" in os.environ:
        raise click.UsageError("--nproc-per-node starts the processes itself; leave torchrun out.")
    from mexma_cli.stages.train.run_folder import check_run
    from mexma_cli.training.launch import launch

    check_run(Path(settings.run), settings, resume, processes)
    flags = {logging.WARNING: ["--quiet"], logging.DEBUG: ["--verbose"]}.get(log.getEffectiveLevel(), [])
    arguments = [part for override in settings.overrides for part in ("--set", override)]
    arguments += [part for plugin in plugins for part in ("--plugin", plugin)]
    arguments += ["--resume"] * resume + ["--json"] * as_json
    hint = _go_on(settings, plugins, processes)
    sys.exit(launch([*flags, "train", recipe, *arguments], processes, restarts, hint))


def _go_on(settings: Recipe | DecomposeRecipe, plugins: Sequence[str], processes: int | None = None) -> str:
    """Say which command goes on with a run of so many processes, or of those that this one is of."""
    from mexma_cli.stages.train.run_folder import RECIPE as RESOLVED
    from mexma_cli.training.launch import launched

    processes = processes or int(os.environ.get("WORLD_SIZE", "1"))
    by_torchrun = "WORLD_SIZE" in os.environ and not launched()
    words = ["torchrun", "...", "-m", "mexma_cli"] if by_torchrun else ["mexma"]
    words += ["train", str(Path(settings.run) / RESOLVED), "--resume"]
    words += [part for plugin in plugins for part in ("--plugin", plugin)]
    words += ["--nproc-per-node", str(processes)] * (processes > 1 and not by_torchrun)
    return f"`{shlex.join(words)}` goes on from the last checkpoint"


def _check_text(settings: Recipe | DecomposeRecipe, resume: bool) -> None:
    """Refuse to begin without the text or the stores, before torch is loaded, which takes a while. A run that
    goes on has its text already."""
    from mexma_cli.settings.training import DecomposeRecipe
    from mexma_cli.stages.prepare.corpora import bitexts_of
    from mexma_cli.stages.train.run_folder import RECIPE as RESOLVED
    from mexma_cli.store.embeddings import EmbeddingStore

    if resume and (Path(settings.run) / RESOLVED).is_file():
        return
    if not isinstance(settings, DecomposeRecipe):
        bitexts_of(settings.data)
        return
    for source, target in settings.data.paths():
        if not source.exists() and not target.exists():
            EmbeddingStore.open(source)


def _print_estimate(settings: Recipe | DecomposeRecipe, processes: int, as_json: bool) -> None:
    """Print the recipe, and behind # what it takes; text that is missing makes it an error."""
    from mexma_cli.settings.training import DecomposeRecipe
    from mexma_cli.stages.prepare.corpora import bitexts_of
    from mexma_cli.stages.train.estimate import as_numbers, estimate_training

    if isinstance(settings, DecomposeRecipe):
        raise click.UsageError("--dry-run is for recipes that train an encoder; a decomposer takes minutes.")
    found = estimate_training(settings, processes)
    if as_json:
        recipe = settings.model_dump(mode="json", by_alias=True)
        click.echo(json.dumps({"recipe": recipe, "estimate": as_numbers(found)}, ensure_ascii=False))
    else:
        click.echo(settings.to_yaml())
        for line in estimate_in_words(found):
            click.echo(f"# {line}".rstrip())
    if not found.prepared:
        bitexts_of(settings.data)


def estimate_in_words(found: TrainingEstimate) -> list[str]:
    """An estimate in words: a line a phase and figure."""
    from mexma_cli.stages.costs import PEAKS
    from mexma_cli.stages.train.estimate import EFFICIENCY

    lines = []
    for phase in found.phases:
        beside = f", and {phase.frozen / 1e6:,.1f} million that are not trained" if phase.frozen else ""
        hours = ", ".join(f"{_about(hours)} of an {name}" for name, hours in phase.gpu_hours.items())
        rows = [
            ("parameters", f"{phase.trained / 1e6:,.1f} million in training{beside}"),
            ("memory", f"{size(phase.memory)} on each of {counted(found.processes, 'GPU')}, about"),
            ("steps", f"{phase.steps:,} of {phase.pairs_per_step:,} pairs: {phase.pairs:,} pairs"),
            ("tokens", f"{phase.tokens / 1e9:,.2f} billion through encoder and heads"),
            ("operations", f"{phase.operations:.2e}; {phase.forward / 1e9:,.1f} billion a pair forward"),
            ("GPU hours", f"{hours}, at {EFFICIENCY:.0%} of its peak"),
        ]
        lines += [f"phase {phase.phase}", *(f"  {name:<11}{value}" for name, value in rows)]
    lines += [f"phase {name}: its objective is not counted" for name in found.uncounted]
    where = f"measured on {found.prepared:,} prepared pairs" if found.measured else "assumed"
    peaks = ", ".join(f"{name} {peak / 1e12:.0f}" for name, peak in PEAKS.items())
    lines.append(f"tokens a sentence: {found.length:.1f}, {where}; peaks: {peaks} TFLOPS, bfloat16")
    return lines


def _about(hours: float) -> str:
    return f"{hours:,.0f} h" if hours >= 10 else f"{hours:.2g} h"


def _print_trained(finished: Path, run: str, as_json: bool) -> None:
    """Print the folder that was made, or that and the curves as `mexma report` does."""
    if not as_json:
        click.echo(str(finished))
        return
    from mexma_cli.reporting import curves

    (read,) = curves.read_runs([Path(run)])
    click.echo(json.dumps({"folder": str(finished)} | curves.summary(read), ensure_ascii=False))


def train_recipe(settings: Recipe, resume: bool, go_on: str, dev_pairs: int = 0) -> Path | None:
    """Prepare and train in this process, alone or as one of torchrun's; returns the encoder's folder, None in
    all of torchrun's processes but the first. A run that is stopped exits, and says what goes on with it
    (`go_on`). So many `dev_pairs` of the text are kept for dev: they are no loss."""
    import torch

    torch.set_flush_denormal(True)  # torch's threads take it over as they are started; later is too late
    try:
        return _train_here(settings, resume, go_on, dev_pairs)
    finally:
        torch.set_flush_denormal(False)  # a process that goes on counts with denormal numbers again


def _train_here(settings: Recipe, resume: bool, go_on: str, dev_pairs: int) -> Path | None:
    from mexma_cli.evaluation.xsim import dev_scorer
    from mexma_cli.stages.train.train import train
    from mexma_cli.training.distributed import Processes

    resume = resume or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0  # after one has died
    with Processes.joined() as processes:
        if not processes.first:
            logging.getLogger("mexma_cli").setLevel(logging.WARNING)
        dev_score = dev_scorer(settings.dev, settings.data.resolve) if settings.dev else None
        if processes.first:
            _prepare(settings, resume, processes.size, dev_pairs)
        processes.wait()
        stop = _stop_on_signal()
        with _Screen(processes) as screen:
            finished = train(
                settings,
                resume,
                dev_score,
                screen.on_phase,
                screen.on_step,
                lambda: bool(stop),
                processes=processes,
            )
        first = processes.first
    if finished is None:
        log.info("stopped; %s", go_on)
        sys.exit(128 + (stop[0] if stop else signal.SIGTERM))
    if first and screen.idle:
        log.info("%s is finished already: nothing to do", settings.run)
    return finished if first else None


def _prepare(settings: Recipe, resume: bool, processes: int, dev_pairs: int) -> None:
    """Prepare the text if it is wanted, and say how much is left of it."""
    from mexma_cli.stages.train.train import prepare_text

    with progress(desc="preparing", unit="corpus") as bar:
        found = prepare_text(settings, resume, processes, follow(bar))
    if found:
        kept, read = sum(report.kept for report in found), sum(report.read for report in found)
        dropped = sum((Counter(report.dropped) for report in found), Counter[str]())
        for_dev = min(dev_pairs, dropped["excluded"])
        dropped["excluded"] -= for_dev
        said = {"excluded": "that share a sentence with dev or test text"}
        why = ", ".join(f"{count:,} {said.get(reason, reason)}" for reason, count in (+dropped).most_common())
        log.info(
            "%s of %s pairs%s%s",
            f"{kept:,}",
            f"{read:,}",
            f"; {counted(for_dev, 'pair')} kept for dev" if for_dev else "",
            f"; dropped: {why}" if why else "",
        )


class _Screen:
    """The display of a training: a bar for each phase, and a line that stays for each dev score."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._phase, self._bar = "", progress(unit="step")

    def __enter__(self) -> _Screen:
        return self

    def __exit__(self, *problem: object) -> None:
        self._bar.close()

    @property
    def idle(self) -> bool:
        """Whether no phase has begun."""
        return not self._phase

    def on_phase(self, phase: Phase, step: int, encoder: SentenceEncoder) -> None:
        """A phase begins, or goes on."""
        from mexma_cli.training.trainer import precision_in

        steps, size = phase.trainer.steps, self._processes.size
        device = self._processes.device(phase.trainer.device)
        log.info(
            "%s: %s%s on %s in %s%s",
            phase.name,
            counted(steps, "step"),
            f", {step:,} of them done," * bool(step),
            device,
            str(precision_in(phase.trainer, device)).removeprefix("torch."),
            f", {size} processes" * (size > 1),
        )
        self._bar.close()
        self._phase = phase.name
        self._bar = progress(desc=phase.name, total=steps, initial=step, unit="step", leave=True)

    def on_step(self, record: dict[str, Any]) -> None:
        """A step is done."""
        text = _line(record)
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update()
        if "dev" in record and not self._bar.disable:
            self._bar.write(f"{self._phase}{record['step']:>8,}  {text}", file=sys.stderr)


def _line(record: dict[str, Any]) -> str:
    """The live line: loss and its terms, rate, speed, dev score."""
    parts = [f"loss {_shown(record['loss'])}"]
    parts += [f"{SHORT.get(name, name)} {_shown(value)}" for name, value in record["terms"].items()]
    parts += [f"lr {record['learning_rate']:.1e}", f"{record['tokens_per_second']:,} tokens/s"]
    if "dev" in record:
        parts.append(f"dev xsim error {record['dev']['xsim']:.2f}%")
    return "  ".join(parts)


def _shown(value: float) -> str:
    """Three decimals, or three digits of a number that would be 0.00 so."""
    return f"{value:.3g}" if 0 < abs(value) < 0.01 else f"{value:.3f}"


def _stop_on_signal() -> list[int]:
    """A list that a SIGINT or SIGTERM puts its number into; a second one ends the program at once."""
    seen: list[int] = []

    def handle(number: int, frame: object) -> None:
        if seen:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        seen.append(number)
        log.info("stopping with a checkpoint, in a few seconds; a second signal ends it without one")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    return seen


def train_decomposer(settings: DecomposeRecipe, resume: bool, go_on: str) -> Path:
    """Train a decomposer, and return the run's folder. A run that is stopped exits, and says what goes on
    with it (`go_on`)."""
    from mexma_cli.stages.train.decompose import decompose

    stop = _stop_on_signal()
    with progress(unit="epoch", leave=True) as bar:

        def on_start(training: DecomposerTraining) -> None:
            log.info(
                "%s: %s pairs in %s languages, %s more held out; %s steps an epoch%s on %s",
                settings.objective.name,
                f"{training.pairs.trained:,}",
                len(training.pairs.languages),
                f"{training.pairs.held_out:,}",
                f"{training.steps_per_epoch:,}",
                f", going on after epoch {training.epoch:,}" * bool(training.step),
                training.device,
            )
            bar.update(training.epoch)
            begun.append(training)

        def on_epoch(record: dict[str, Any]) -> None:
            bar.update()
            bar.set_postfix_str(_epoch_line(record), refresh=False)
            last.update(record)

        begun: list[DecomposerTraining] = []
        last: dict[str, Any] = {}
        finished = decompose(settings, resume, on_start, on_epoch, lambda: bool(stop))
    if finished is None:
        log.info("stopped; %s", go_on)
        sys.exit(128 + (stop[0] if stop else signal.SIGTERM))
    if last:
        log.info("ended after epoch %s: %s", f"{last['epoch']:,}", _epoch_line(last))
    if not begun:
        log.info("%s is finished already: nothing to do", settings.run)
    return finished


def _epoch_line(record: dict[str, Any]) -> str:
    """The live line: validation loss, training loss and its terms."""
    parts = [f"validation {record['validation_loss']:.4f}", f"loss {record['loss']:.4f}"]
    return "  ".join(parts + [f"{name} {value:.3f}" for name, value in record["terms"].items()])
