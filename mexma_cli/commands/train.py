"""`mexma train`: a recipe into an encoder."""

from __future__ import annotations

import logging
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.options import show_bars

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.recipe import Phase

log = logging.getLogger(__name__)

SHORT = {
    "unmask_source": "unmask",
    "unmask_target": "unmask'",
    "alignment": "align",
    "contrastive": "contrast",
}


@click.command("train")
@click.argument("recipe")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the recipe.")
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped or killed.")
def command(recipe: str, overrides: tuple[str, ...], resume: bool) -> None:
    """Train an encoder from RECIPE (a YAML file, or a shipped recipe's name).

    Text that was not prepared yet is prepared first. The run's folder gets the resolved recipe, a log
    (log.jsonl), checkpoints, and at the end the encoder, a Hugging Face folder whose path goes to stdout.
    Ctrl-C and SIGTERM write a checkpoint and stop; --resume goes on from the last one.

    \b
    Examples:
      mexma train mini
      mexma train my.yaml --set trainer.steps=2000 --set run=runs/longer
      mexma train my.yaml --resume
    """
    from tqdm import tqdm

    from mexma_cli.evaluation.dev import dev_scorer
    from mexma_cli.recipe import load
    from mexma_cli.stages.prepare import prepare
    from mexma_cli.stages.train import train

    settings = load(recipe, overrides)
    dev_score = dev_scorer(settings.dev, settings.data.resolve) if settings.dev else None
    prepare(settings, lambda done, jobs, label: log.debug("prepared %s of %s: %s", done, jobs, label))
    stop = _stop_on_signal()
    with tqdm(unit="step", disable=not show_bars(), file=sys.stderr, dynamic_ncols=True) as bar:

        def on_phase(phase: Phase, step: int, encoder: SentenceEncoder) -> None:
            steps = phase.trainer.steps
            log.info(
                "%s: %s steps%s on %s",
                phase.name,
                f"{steps:,}",
                f" from {step:,} on" * bool(step),
                encoder.device,
            )
            bar.reset(total=steps)
            bar.update(step)
            bar.set_description(phase.name)

        def on_step(record: dict[str, Any]) -> None:
            bar.update()
            if "dev" in record or not bar.disable:
                text = _line(record)
                bar.set_postfix_str(text, refresh=False)
                if "dev" in record:
                    tqdm.write(f"{bar.desc or 'step'}{record['step']:>8,}  {text}", file=sys.stderr)

        finished = train(settings, resume, dev_score, on_phase, on_step, lambda: bool(stop))
    if finished is None:
        log.info("stopped; the checkpoint is in %s, --resume goes on from there", settings.run)
        sys.exit(128 + stop[0])
    click.echo(str(finished))


def _line(record: dict[str, Any]) -> str:
    """The live line: loss and its terms, rate, speed, dev score."""
    parts = [f"loss {record['loss']:.3f}"]
    parts += [f"{SHORT.get(name, name)} {value:.3f}" for name, value in record["terms"].items()]
    parts += [f"lr {record['learning_rate']:.1e}", f"{record['tokens_per_second']:,} tokens/s"]
    if "dev" in record:
        parts.append(f"dev xsim error {record['dev']['xsim']:.2f}%")
    return "  ".join(parts)


def _stop_on_signal() -> list[int]:
    """A list that a SIGINT or SIGTERM puts its number into; a second one ends the program at once."""
    seen: list[int] = []

    def handle(number: int, frame: object) -> None:
        if seen:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        seen.append(number)
        log.info("stopping after this step, with a checkpoint")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    return seen
