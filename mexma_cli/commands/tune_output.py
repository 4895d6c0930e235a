"""The output of `mexma tune`: lines and tables for people, JSON for programs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.reporting.tables import aligned_columns
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.classifier.precision import EstimatedCut
    from mexma_cli.mining.resampling import Intervals
    from mexma_cli.mining.threshold import Threshold
    from mexma_cli.stages.mine.mine import Estimated
    from mexma_cli.stages.tune.tune import Tuned

log = logging.getLogger(__name__)


def tell_precision(wanted: float | None, cut: Threshold | EstimatedCut, about: str = "") -> None:
    """Say which precision was asked for, and which one the threshold has."""
    if wanted is not None:
        got = f"threshold {_threshold(cut.threshold)} has {100 * cut.precision:.2f} %"
        interval = getattr(cut, "precision_interval", None)
        if interval is not None:
            got += f", as estimated ({_interval(interval)})"
        log.info("%sasked for a precision of %.2f %%: %s", about, 100 * wanted, got)


def tell_estimated(wanted: float | None, cut: EstimatedCut) -> None:
    """Say which threshold `mexma mine` has found by probabilities, for what, and how precise it is."""
    if wanted is not None:
        tell_precision(wanted, cut)
    else:
        said = "threshold auto: %s, with the best F1 and a precision of %.2f %%, as estimated (%s)"
        log.info(said, _threshold(cut.threshold), 100 * cut.precision, _interval(cut.precision_interval))


def tell_copies(copies: int) -> None:
    """Say how many pairs take no part in the estimate, if there are any."""
    if copies:
        log.info("the estimate leaves out %s, which --drop-copies drops", counted(copies, "copy", "copies"))


def print_tuned(found: Tuned) -> None:
    """The lines for a threshold from a gold list."""
    log.info("in parentheses: 95 % intervals, from resampled source sentences")
    _print_figures(found.best, found.intervals)
    best = found.best
    click.echo(f"pairs      {best.count} above the threshold, {best.correct} of {found.gold} gold pairs")
    click.echo(f"all pairs  {_in_words(found.all)}, without a threshold")
    held = found.held_out
    if held is None:
        log.info("no held-out figures: the pairs do not fall into two halves that share no sentence")
    else:
        click.echo(f"held out   {_other_half(held.result, held.gold, 'gold pairs')}")


def print_languages(tuned: dict[str, Tuned]) -> None:
    """A row for each language."""
    header = ["language", "threshold", "precision", "recall", "F1", "F1 interval", "held-out F1", "pairs"]
    rows = [
        [
            language,
            *_cells(found.best),
            _interval(found.intervals.f1),
            f"{100 * found.held_out.result.f1:.2f}" if found.held_out else "-",
            str(found.best.count),
        ]
        for language, found in tuned.items()
    ]
    click.echo("\n".join(aligned_columns([header, *rows], names=1)))


def print_estimated(found: Estimated) -> None:
    """The lines for a threshold from probabilities, and the table of others."""
    best, among, every = found.best, found.translations, len(found.pairs)
    log.info("precision and numbers of translations are estimates; in parentheses: 95 % intervals")
    click.echo(f"threshold  {_threshold(best.threshold)}")
    click.echo(f"precision  {100 * best.precision:.2f}  ({_interval(best.precision_interval)})")
    click.echo(f"kept       {100 * best.kept:.2f}  of the translations among the pairs; recall is not known")
    click.echo(
        f"pairs      {best.count} above the threshold, about {best.right:.0f} of them right, of about "
        f"{among.expected:.0f} ({among.low:.0f} to {among.high:.0f}) translations among all {every}"
    )
    click.echo()
    header = ["threshold", "precision", "interval", "kept", "pairs", "right"]
    rows = [
        [
            _threshold(step.threshold),
            f"{100 * step.precision:.2f}",
            _interval(step.precision_interval),
            f"{100 * step.kept:.2f}",
            str(step.count),
            f"{step.right:.0f}",
        ]
        for step in found.table
    ]
    click.echo("\n".join(aligned_columns([header, *rows], names=0)))


def _figures(cut: Threshold) -> dict[str, float]:
    return {"threshold": cut.threshold, "precision": cut.precision, "recall": cut.recall, "f1": cut.f1}


def tuned_json(found: Tuned) -> dict[str, Any]:
    """A threshold from a gold list."""
    held = found.held_out and _figures(found.held_out.result) | {
        "pairs": found.held_out.result.count,
        "correct": found.held_out.result.correct,
        "gold": found.held_out.gold,
    }
    return _figures(found.best) | {
        "pairs": found.best.count,
        "correct": found.best.correct,
        "gold": found.gold,
        "candidates": len(found.scores),
        "all": {name: value for name, value in _figures(found.all).items() if name != "threshold"},
        "intervals": vars(found.intervals),
        "held_out": held,
    }


def estimated_json(found: Estimated) -> dict[str, Any]:
    """A threshold from probabilities, and the table."""
    among = found.translations
    return _cut_json(found.best) | {
        "translations_interval": [among.low, among.high],
        "candidates": len(found.pairs),
        "copies": among.copies,
        "table": list(map(_cut_json, found.table)),
    }


def _cut_json(cut: EstimatedCut) -> dict[str, Any]:
    return {
        "threshold": cut.threshold,
        "precision": cut.precision,
        "precision_interval": list(cut.precision_interval),
        "kept": cut.kept,
        "pairs": cut.count,
        "right": cut.right,
        "translations": cut.translations,
    }


def _print_figures(best: Threshold, intervals: Intervals) -> None:
    low, high = intervals.threshold
    click.echo(f"threshold  {_threshold(best.threshold)}  ({low:z.4f} to {high:z.4f})")
    click.echo(f"precision  {100 * best.precision:.2f}  ({_interval(intervals.precision)})")
    click.echo(f"recall     {100 * best.recall:.2f}  ({_interval(intervals.recall)})")
    click.echo(f"F1         {100 * best.f1:.2f}  ({_interval(intervals.f1)})")


def _other_half(cut: Threshold, count: int, what: str) -> str:
    return f"{_in_words(cut)} on {count} {what}; threshold {_threshold(cut.threshold)} from the others"


def _in_words(cut: Threshold) -> str:
    f1, precision, recall = (100 * x for x in (cut.f1, cut.precision, cut.recall))
    return f"F1 {f1:.2f}, precision {precision:.2f}, recall {recall:.2f}"


def _cells(cut: Threshold) -> list[str]:
    return [_threshold(cut.threshold), *(f"{100 * x:.2f}" for x in (cut.precision, cut.recall, cut.f1))]


def _threshold(value: float) -> str:
    short = f"{value:.6f}"
    return short if float(short) == value else repr(value)


def _interval(bounds: tuple[float, float]) -> str:
    return f"{100 * bounds[0]:.1f} to {100 * bounds[1]:.1f}"
