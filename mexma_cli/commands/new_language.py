"""`mexma new-language`: sentence pairs of one language into an encoder, and what it is worth."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.completion import CODE
from mexma_cli.commands.options import output_option, set_option
from mexma_cli.languages import name, resolve
from mexma_cli.reporting.tables import warn_of_few
from mexma_cli.text.amounts import counted

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from mexma_cli.stages.new_language import Worth


@click.command("new-language")
@click.argument("lang", type=CODE)
@click.argument("pairs", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_option("RUN", "Folder of the run.  [default: runs/ and the FLORES-200 code]")
@set_option
def command(lang: str, pairs: tuple[Path, ...], output: Path | None, overrides: tuple[str, ...]) -> None:
    """Train an encoder for LANG from sentence pairs with English, and measure it.

    PAIRS are files of sentence TAB English sentence, or of pairs in another format, such as TMX. A
    twentieth of the pairs, at most 1,000, becomes dev text, which shares no sentence with the training. The
    recipe, RUN/new-language.yaml, extends one-language. Printed are the xsim error on the dev text,
    F1 (with its 95 % interval), precision and recall when the dev text is mined from among 9 times as many
    lines, xsim error and F1 of mini on the same pairs, and a command that mines other text with the encoder.

    The same command continues a killed run, and measures a finished one again.

    \b
    Examples:
      mexma new-language hau pairs.tsv
      mexma new-language hau news.tsv.gz bible.tsv.gz -o runs/hausa
    """
    from mexma_cli.commands.train import train_recipe
    from mexma_cli.stages.new_language import begin, dev_pairs, is_known, worth
    from mexma_cli.stages.train.run_folder import RECIPE

    code = resolve(lang)
    run = output or Path("runs") / code
    if is_known(code):
        log.info("mini knows %s already, without training", name(code))
    recipe = begin(code, pairs, run, overrides)
    train_recipe(recipe, (run / RECIPE).is_file(), "the same command goes on from there", dev_pairs(run))
    found = worth(recipe)
    for line in _lines(found, code, run, worth(recipe, bundled=True)):
        click.echo(line)
    warn_of_few(
        found.pairs,
        f"the xsim error is lower among only {counted(found.pairs, 'pair')} of dev text than among many; "
        "have ten thousand pairs, if need be with those of a related language",
    )


def _lines(found: Worth, code: str, run: Path, mini: Worth) -> list[str]:
    """The lines to print: how good the encoder is, and mini to compare; a command that uses the encoder."""
    lines = []
    if found.xsim_error is not None:
        lines.append(
            f"dev xsim error  {found.xsim_error:.2f}%, {found.pairs:,} pairs of the training's kind of text; "
            "other text is harder"
        )
    if found.mining is not None:
        lines.append(
            f"mining F1       {_f1(found)}, precision {100 * found.mining.precision:.1f}, recall "
            f"{100 * found.mining.recall:.1f}, the same pairs among {found.lines[0]:,} and "
            f"{found.lines[1]:,} lines"
        )
    if mini.xsim_error is not None:
        f1 = f", mining F1 {_f1(mini)}" if mini.mining else ""
        lines.append(
            f"mini            dev xsim error {mini.xsim_error:.2f}%{f1}, as it is, on the same pairs"
        )
    if found.f1_interval and mini.f1_interval:
        (low, high), (mini_low, mini_high) = found.f1_interval, mini.f1_interval
        if low <= mini_high and mini_low <= high:
            lines.append("                which of the two mines better cannot be told from these pairs")
    how = f"--model {shlex.quote(str(run))} --score probability --precision 0.95"
    return [*lines, f"mine with       mexma mine {code}.txt eng.txt {how} -o mined.tsv"]


def _f1(worth: Worth) -> str:
    """The F1 of mining in percent, with its interval."""
    assert worth.mining and worth.f1_interval
    low, high = (100 * end for end in worth.f1_interval)
    return f"{100 * worth.mining.f1:.1f} ({low:.1f} to {high:.1f})"
