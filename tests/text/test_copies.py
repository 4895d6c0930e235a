from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mexma_cli.text.copies import copy_reason


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("The same words.", "The same words.", "identical"),
        (" The same words. ", "The same words.", "identical"),
        ("Version 1.2 (2019)", "VERSION 2.0 [2024]", "near-identical"),
        ("Straße", "STRASSE!", "near-identical"),
        ("ﬁne ｗｏｒｄｓ", "fine words", "near-identical"),
        ("12:30", "8.45", "near-identical"),
        ("मुंबई २०१९", "मुंबई २०२०", "near-identical"),
        (
            "The committee met in Geneva on Monday to discuss the annual report.",
            "The committee met in Geneva on Mondays, to discuss the annual report",
            "near-identical",
        ),
        (
            "The committee met in Geneva on Monday to discuss the annual report.",
            "The commission met in Geneva on Friday to discuss the annual budget.",
            None,
        ),
        ("Le chat dort.", "The cat is asleep.", None),
        ("Ja", "Da", None),
        ("a", "b", None),
        ("O presidente chegou hoje a Madrid.", "El presidente llegó hoy a Madrid.", None),
        ("猫は寝ている。", "猫在睡觉。", None),
        ("Not empty", "123", None),
    ],
)
def test_reasons(source: str, target: str, reason: str | None) -> None:
    assert copy_reason(source, target) == copy_reason(target, source) == reason


@pytest.mark.parametrize(("pair", "share"), [("fra_Latn eng_Latn", 0.002), ("spa_Latn por_Latn", 0.002)])
def test_translations_are_no_copies(shared: Path, pair: str, share: float) -> None:
    """Translated news: headlines made of names may go, nothing else."""
    folder = shared / "data" / "ntrex128"
    sides = [
        gzip.decompress((folder / f"{n}.txt.gz").read_bytes()).decode().splitlines() for n in pair.split()
    ]
    reasons = [copy_reason(*both) for both in zip(*sides, strict=True)]
    assert len(reasons) > 1000 and sum(r is not None for r in reasons) <= share * len(reasons)
    assert all(copy_reason(line, line) == "identical" for line in sides[0][:50])
