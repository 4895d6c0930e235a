"""`mexma mine` by probability, which is its way with mini, and by margin."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from mexma_cli import mine
from mexma_cli.classifier.precision import PairPrecision
from mexma_cli.settings.stages import MineSettings
from mexma_cli.stages.mine.probable import with_score
from mexma_cli.store.embeddings import EmbeddingStore
from tests.command import fails, ok, run, write

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/spa-eng"
GOLD = [line.split("\t") for line in (EXAMPLE / "gold.tsv").read_text("utf-8").splitlines()][:200]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The first sentences of the demo that have translations, among others; as mini embeds them."""
    folder, found = tmp_path_factory.mktemp("probable"), []
    for side, name in enumerate(("spa", "eng")):
        known = [pair[side] for pair in GOLD]
        others = (ROOT / f"examples/spa-eng/{name}.txt").read_text("utf-8").splitlines()
        text = write(folder / f"{name}.txt", *sorted({*known, *others[: 300 + 100 * side]}))
        ok(run("embed", text, "--lang", name, "--model", "mini", "-o", folder / f"{name}.emb"))
        found.append(folder / f"{name}.emb")
    return found[0], found[1]


def best_f1(lines: list[str]) -> float:
    gold = {"\t".join(pair) for pair in GOLD}
    every = {line for line in (ROOT / "examples/spa-eng/gold.tsv").read_text("utf-8").splitlines()}
    right, best = 0, 0.0
    for place, line in enumerate(lines, 1):
        right += line.partition("\t")[2] in every
        best = max(best, 2 * right / (place + len(gold)))
    return best


def test_a_threshold_is_advised_where_there_are_others_to_drop(stores: tuple[Path, Path]) -> None:
    """The best pairs are as sure as they are among all."""
    advice = "; --threshold 0.5 or --precision 0.95 drops most of the others"
    assert advice in ok(run("mine", *stores)).stderr
    best = ok(run("mine", *stores, "--top", 10)).stderr
    (low,) = re.findall(r"about 10 \((\d+) to 10\) are translations\n", best)
    assert int(low) >= 7


def test_the_classifier_finds_more_than_the_margin(stores: tuple[Path, Path]) -> None:
    by_margin = ok(run("mine", *stores, "--margin", "ratio")).stdout.splitlines()
    assert by_margin == ok(run("mine", *stores, "--score", "margin")).stdout.splitlines()
    probable = ok(run("mine", *stores)).stdout.splitlines()
    assert probable == ok(run("mine", *stores, "--score", "probability")).stdout.splitlines()
    assert best_f1(probable) > best_f1(by_margin)
    scores = [float(line.partition("\t")[0]) for line in probable]
    assert scores == sorted(scores, reverse=True) and 0 < scores[-1] < scores[0] < 1
    for column in (1, 2):
        used = [line.split("\t")[column] for line in probable]
        assert len(set(used)) == len(used)
    half = ok(run("mine", *stores, "--threshold", "0.5")).stdout.splitlines()
    assert half == [line for line, score in zip(probable, scores, strict=True) if score > 0.5]


def test_vectors_of_another_encoder_are_said(stores: tuple[Path, Path], tiny_encoder: Path) -> None:
    texts = [store.with_suffix(".txt") for store in stores]
    done = ok(run("mine", *texts, "--model", tiny_encoder, "--score", "probability"))
    assert "the classifier was trained with the vectors of mini" in done.stderr and done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--threshold", "1.06"], "threshold 1.06 is of margins"),
        (["--max-score", "1.25"], "--max-score is for margins"),
        (["--memory", "300M"], "too little"),
        (["--score", "probability", "--margin", "distance"], "ratio margins, and not distance ones"),
        (["--score", "probability", "--retrieval", "intersect"], "not the pairs of retrieval intersect"),
        (["--score", "probability", "--all-candidates"], "not the pairs of retrieval all"),
    ],
)
def test_what_is_for_margins_is_refused(stores: tuple[Path, Path], options: list[str], said: str) -> None:
    fails(run("mine", *stores, *options), 1, said)


def test_texts_are_not_embedded_for_a_threshold_of_margins(stores: tuple[Path, Path]) -> None:
    texts = [store.with_suffix(".txt") for store in stores]
    done = fails(run("mine", *texts, "--threshold", "1.06"), 1, "threshold 1.06 is of margins")
    assert "embedding" not in done.stderr


def test_where_probabilities_cannot_be_had_it_is_said(stores: tuple[Path, Path]) -> None:
    documents = [
        write(store.with_suffix(".docs"), *["d"] * EmbeddingStore.open(store).rows) for store in stores
    ]
    for options, reason in (
        ([*stores, "--all-candidates"], "takes each sentence once"),
        ([stores[0]], "two different texts"),
        ([*stores, "--within", *documents], "documents that are paired"),
    ):
        done = ok(run("mine", *options, "--threshold", "1.2"))
        assert done.stderr.count("scored by margin, without the classifier") == 1 and reason in done.stderr
        assert float(done.stdout.split("\t")[0]) > 1.2


def test_a_classifier_that_is_left_out_is_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    settings = MineSettings(classifier=Path("own.json"))
    assert with_score(settings, "another encoder", one_text=True).score == "margin"
    assert "scored by margin, without the classifier: it is for two different texts" in caplog.text


def test_a_threshold_that_was_found_is_taken_for_its_score(stores: tuple[Path, Path], tmp_path: Path) -> None:
    found = {
        "encoder": "mini", "fingerprint": EmbeddingStore.open(stores[0]).manifest.fingerprint,
        "source": "spa_Latn", "target": "eng_Latn", "score": "margin", "k": 4, "margin": "ratio",
        "threshold": 1.2, "precision": 0.9, "precision_interval": [0.8, 0.95],
    }  # fmt: skip
    (tmp_path / "thresholds.json").write_text(json.dumps([found]))
    kept = ["--thresholds", tmp_path / "thresholds.json"]
    fails(
        run("mine", *stores, *kept),
        1,
        "no threshold for Spanish and English",
        "-k 4 --margin ratio with mini",
    )
    by_margin = ok(run("mine", *stores, *kept, "--margin", "ratio")).stdout
    assert by_margin == ok(run("mine", *stores, "--threshold", "1.2", "--margin", "ratio")).stdout != ""
    (tmp_path / "thresholds.json").write_text(
        json.dumps([found | {"score": "probability", "threshold": 0.4}])
    )
    assert ok(run("mine", *stores, *kept)).stdout == ok(run("mine", *stores, "--threshold", "0.4")).stdout


def test_it_says_how_many_are_translations(stores: tuple[Path, Path]) -> None:
    done = ok(run("mine", *stores))
    chances = np.array([line.split("\t")[0] for line in done.stdout.splitlines()], np.float32)
    errors = mine(*stores).errors
    low, high = PairPrecision(chances, chances, errors).translations_interval
    found = f"about {chances.sum():,.0f} ({low:,.0f} to {high:,.0f}) are translations; --threshold 0.5"
    assert found in done.stderr and low < chances.sum() < high
    above = chances[chances > 0.25]
    low, high = PairPrecision(above, above, errors).translations_interval
    done = ok(run("mine", *stores, "--threshold", "0.25"))
    assert f"about {above.sum():,.0f} ({low:,.0f} to {high:,.0f}) are translations\n" in done.stderr
    assert "are translations" not in ok(run("mine", *stores, "--precision", "0.2")).stderr


@pytest.mark.parametrize(
    ("lines", "share", "again"),
    [
        ((200, 1000), 0.1, False),
        ((1000, 50), 0.5, False),
        ((30, 30), 0.5, False),
        ((200, 2000), 0.0, False),
        ((200, 200), 0.9, True),
    ],
)
def test_the_interval_holds_how_many_are_translations(
    lines: tuple[int, int], share: float, again: bool, tmp_path: Path
) -> None:
    """Also in small texts, where none is, where each translation has a line on one side `again` without its
    last word, and where one text is larger, of which a warning tells."""
    gold = [line.split("\t") for line in (EXAMPLE / "gold.tsv").read_text("utf-8").splitlines()]
    few, texts = int(share * min(lines)), []
    for side, name in enumerate(("spa", "eng")):
        known = [pair[side] for pair in gold]
        every = dict.fromkeys((EXAMPLE / f"{name}.txt").read_text("utf-8").splitlines())
        alone = [line for line in every if line not in known]
        some = [*known[:few], *alone[: lines[side] - few]]
        if again:
            half = some[: few // 2] if side else some[few // 2 : few]
            some += [line.rsplit(" ", 1)[0] + "." for line in half]
        texts.append(write(tmp_path / f"{name}.txt", *some))
    of = *texts, "--source-lang", "spa", "--target-lang", "eng", "-o", tmp_path / "pairs.tsv"
    told = ok(run("mine", *of)).stderr
    low, high = map(int, re.findall(r"about \d+ \((\d+) to (\d+)\) are", told)[0])
    assert low <= few <= high
    more, times = ("target", "source")[lines[0] > lines[1]], max(lines) // min(lines)
    assert (f"the {more} has {times} times as many lines as the" in told) == (times > 1)
    by_margin = ok(run("mine", *of, "--margin", "ratio")).stderr
    assert "times as many" not in by_margin
    assert ("times as many" in ok(run("tune", *of[:-2], "--margin", "ratio")).stderr) == (times > 1)


def test_copies_are_no_translations(tmp_path: Path) -> None:
    """The number is that of the other pairs, and none where all pairs are copies."""
    first = [pair[0] for pair in GOLD[:14]]
    for others, told in ((0, "about 0 (0 to 0) are"), (30, "about 30 (")):
        texts = [write(tmp_path / f"{side}.txt", *first, *(pair[side] for pair in GOLD[20 : 20 + others]))
                 for side in (0, 1)]  # fmt: skip
        done = ok(run("mine", *texts, "--source-lang", "spa", "--target-lang", "eng"))
        assert told in done.stderr and "are translations, besides 14 copies\n" in done.stderr
        assert ("copies, and no translations, among the best 14 pairs: 14" in done.stderr) == (not others)


def test_pairs_within_a_text_are_refused(stores: tuple[Path, Path]) -> None:
    fails(run("mine", stores[0], "--score", "probability"), 1, "two different texts")
    documents = [
        write(store.with_suffix(".docs"), *["d"] * EmbeddingStore.open(store).rows) for store in stores
    ]
    done = run("mine", *stores, "--score", "probability", "--within", *documents)
    fails(done, 1, "not for documents that are paired")
