"""The output of `mexma tune`: lines and tables for people, JSON for programs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.reporting.tables import aligned

if TYPE_CHECKING:
    from mexma_cli.mining.estimate import EstimatedCut
    from mexma_cli.mining.resampling import HeldOut, Intervals
    from mexma_cli.mining.threshold import Threshold
    from mexma_cli.stages.tune.estimate import Estimation
    from mexma_cli.stages.tune.tune import Tuned

log = logging.getLogger(__name__)


def print_tuned(found: Tuned) -> None:
    """The lines for a threshold from a gold list."""
    log.info("in parentheses: 95 % intervals, from resampled source sentences")
    _print_figures(found.best, found.intervals)
    best = found.best
    click.echo(f"pairs      {best.count} above the threshold, {best.correct} of {found.gold} gold pairs")
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
    click.echo("\n".join(aligned([header, *rows], names=1)))


def print_estimated(found: Estimation) -> None:
    """The lines for a threshold from the scores, and the table of others.

    Only planted pairs tell recall. Scores alone show the translations that stand out from wrong pairs.
    """
    best, measured = found.best, found.recall_interval is not None
    what = "precision, recall and F1" if measured else "precision and numbers of translations"
    log.info("%s are estimates; in parentheses: 95 %% intervals", what)
    click.echo(f"threshold  {_threshold(best.threshold)}")
    click.echo(f"precision  {100 * best.precision:.2f}  ({_interval(best.precision_interval)})")
    if found.recall_interval:
        click.echo(f"recall     {100 * best.recall:.2f}  ({_interval(found.recall_interval)})")
        click.echo(f"F1         {100 * best.f1:.2f}")
    else:
        kept = f"{100 * best.recall:.2f}"
        click.echo(f"kept       {kept}  of the translations that stand out; recall is not known")
    where = "in the text" if measured else f"that stand out among all {found.pairs}"
    click.echo(
        f"pairs      {best.count} above the threshold, about {best.right:.0f} of them right "
        f"(of about {best.translations:.0f} translations {where})"
    )
    if found.planted is not None:
        share = found.planted.recall(best.threshold)
        back = round(share * found.planted.pairs)
        click.echo(f"planted    {back} of {found.planted.pairs} come back: {100 * share:.2f}")
    click.echo()
    of_recall = ["recall", "F1"] if measured else ["kept"]
    header = ["threshold", "precision", "interval", *of_recall, "pairs", "right"]
    rows = [
        [
            _threshold(step.threshold),
            f"{100 * step.precision:.2f}",
            _interval(step.precision_interval),
            *(f"{100 * share:.2f}" for share in (step.recall, step.f1)[: len(of_recall)]),
            str(step.count),
            f"{step.right:.0f}",
        ]
        for step in found.steps
    ]
    click.echo("\n".join(aligned([header, *rows], names=0)))


def _figures(cut: Threshold | EstimatedCut) -> dict[str, float]:
    return {"threshold": cut.threshold, "precision": cut.precision, "recall": cut.recall, "f1": cut.f1}


def tuned_json(found: Tuned) -> dict[str, Any]:
    """A threshold from a gold list."""
    return _figures(found.best) | {
        "pairs": found.best.count,
        "correct": found.best.correct,
        "gold": found.gold,
        "candidates": len(found.scores),
        "intervals": vars(found.intervals),
        "held_out": _held_out_json(found.held_out),
    }


def estimated_json(found: Estimation) -> dict[str, Any]:
    """A threshold from the scores, and the table."""
    planted = found.planted
    counts = None
    if planted is not None:
        counts = {
            "pairs": planted.pairs,
            "recall": planted.recall(found.best.threshold),
            "interval": found.recall_interval,
            "unlike_the_text": found.unlike,
            "left_out": {"empty": planted.empty, "repeated": planted.repeated},
            "copies": {"source": planted.copies[0], "target": planted.copies[1]},
        }
    measured = found.recall_interval is not None
    table = [_cut_json(step, measured) for step in found.steps]
    return _cut_json(found.best, measured) | {"candidates": found.pairs, "planted": counts, "table": table}


def _cut_json(cut: EstimatedCut, measured: bool) -> dict[str, Any]:
    """`recall` and `f1` are null where they are not measured; `kept` is then the share that is known."""
    figures: dict[str, Any] = _figures(cut) | {"kept": cut.recall}
    if not measured:
        figures |= {"recall": None, "f1": None}
    more = {"pairs": cut.count, "right": cut.right, "translations": cut.translations}
    return figures | {"precision_interval": list(cut.precision_interval)} | more


def _held_out_json(held: HeldOut | None) -> dict[str, Any] | None:
    if held is None:
        return None
    counts = {"pairs": held.result.count, "correct": held.result.correct, "gold": held.gold}
    return _figures(held.result) | counts


def _print_figures(best: Threshold, intervals: Intervals) -> None:
    low, high = intervals.threshold
    click.echo(f"threshold  {_threshold(best.threshold)}  ({low:.4f} to {high:.4f})")
    click.echo(f"precision  {100 * best.precision:.2f}  ({_interval(intervals.precision)})")
    click.echo(f"recall     {100 * best.recall:.2f}  ({_interval(intervals.recall)})")
    click.echo(f"F1         {100 * best.f1:.2f}  ({_interval(intervals.f1)})")


def _other_half(cut: Threshold, count: int, what: str) -> str:
    f1, precision, recall = (100 * x for x in (cut.f1, cut.precision, cut.recall))
    return (
        f"F1 {f1:.2f}, precision {precision:.2f}, recall {recall:.2f} on {count} {what}; "
        f"threshold {_threshold(cut.threshold)} from the others"
    )


def _cells(cut: Threshold) -> list[str]:
    return [_threshold(cut.threshold), *(f"{100 * x:.2f}" for x in (cut.precision, cut.recall, cut.f1))]


def _threshold(value: float) -> str:
    short = f"{value:.6f}"
    return short if float(short) == value else repr(value)


def _interval(bounds: tuple[float, float]) -> str:
    return f"{100 * bounds[0]:.1f} to {100 * bounds[1]:.1f}"
