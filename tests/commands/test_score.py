from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.command import fails, ok, run, write


@pytest.fixture
def files(tmp_path: Path, sentences: dict[str, list[str]]) -> tuple[Path, Path, Path]:
    """Two texts, and the same as one TSV; the third line has no translation, the first comes again."""
    source = [*sentences["fra"], sentences["fra"][0]]
    target = [*sentences["eng"], sentences["eng"][0]]
    target[2] = ""
    contents = source, target, ["\t".join(pair) for pair in zip(source, target, strict=True)]
    paths = tmp_path / "fra.txt", tmp_path / "eng.txt", tmp_path / "pairs.tsv"
    for path, lines in zip(paths, contents, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def test_all_ways_to_give_a_bitext(
    files: tuple[Path, Path, Path], tiny_encoder: Path, tmp_path: Path
) -> None:
    source, target, tsv = files
    model = ("--model", tiny_encoder)
    done = ok(run("score", source, target, *model))
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert ["\t".join(row[1:]) for row in rows] == tsv.read_text(encoding="utf-8").splitlines()
    assert [row[0] == "nan" for row in rows] == [number == 2 for number in range(9)]
    assert rows[0] == rows[8] and len({row[0] for row in rows}) == 8
    assert "9 lines scored in" in done.stderr
    assert "warning: 1 line with an empty side without a score: nan" in done.stderr

    scored, packed = tmp_path / "scored.tsv", tmp_path / "pairs.tsv.gz"
    scored.write_text(done.stdout, encoding="utf-8")
    packed.write_bytes(gzip.compress(tsv.read_bytes()))
    for given in (tsv, scored, packed):
        assert run("score", given, *model).stdout == done.stdout
    assert run("score", "-", *model, stdin=tsv.read_bytes()).stdout == done.stdout
    assert run("score", "-", target, *model, stdin=source.read_bytes()).stdout == done.stdout

    for text in (source, target):
        ok(run("embed", text, *model))
    stores = tmp_path / "fra.emb", tmp_path / "eng.emb"
    assert run("score", *stores).stdout == done.stdout
    assert run("score", stores[0], target).stdout == done.stdout
    assert run("score", tsv, *model, "--background", *stores).stdout == done.stdout

    objects = [json.loads(line) for line in run("score", *stores, "--json").stdout.splitlines()]
    assert [(str(one["score"]), one["source"], one["target"]) for one in objects if one["score"]] == [
        tuple(row) for row in rows if row[0] != "nan"
    ]
    assert all(len(row[0]) <= len("0.123456789") for row in rows)  # of float32, no more digits than it has
    assert run("score", *stores, "-o", tmp_path / "out.jsonl").stdout == ""
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").open(encoding="utf-8")] == objects
    fails(run("score", *stores, "--json", "--scores-only"), 2, "leave it out")

    alone = run("score", tsv, *model, "--scores-only")
    assert alone.stdout.splitlines() == [row[0] for row in rows]
    assert run("score", tsv, *model, "-o", tmp_path / "out.tsv.gz").stdout == ""
    assert gzip.decompress((tmp_path / "out.tsv.gz").read_bytes()).decode() == done.stdout
    assert not list(tmp_path.glob("*tmp*"))


def test_another_background_gives_other_scores(
    files: tuple[Path, Path, Path], tiny_encoder: Path, tmp_path: Path
) -> None:
    few = tmp_path / "few.txt"
    few.write_text("One sentence.\nAnother one.\n")
    options = ("--model", tiny_encoder, "--scores-only")

    def scores(*more: str | Path) -> list[float]:
        done = ok(run("score", files[2], *options, *more))
        return [float(line) for line in done.stdout.splitlines()]

    own, other = scores(), scores("--background", few, few)
    assert len(own) == len(other) == 9
    assert not np.isclose(np.delete(own, 2), np.delete(other, 2)).any()
    assert scores("--margin", "absolute") != own
    done = run("score", files[2], *options, "--background", few, few)
    assert "warning: neighbourhoods are of 2 sentences" in done.stderr


def test_a_background_is_in_the_languages_of_the_pairs(
    files: tuple[Path, Path, Path], tiny_encoder: Path, tmp_path: Path
) -> None:
    stores = tmp_path / "fra.emb", tmp_path / "eng.emb"
    for text, store, code in zip(files, stores, ("fr", "en"), strict=False):
        ok(run("embed", text, "--model", tiny_encoder, "--lang", code, "-o", store))
    stated = files[2], "--source-lang", "fr", "--target-lang", "en"
    wrong = "eng.emb is in eng_Latn, not in fra_Latn", "fra.emb is in fra_Latn, not in eng_Latn"
    for pairs in (stated, stores, (*files[:2], *stated[1:])):
        for background, message in ((stores[::-1], wrong[0]), ((stores[0], stores[0]), wrong[1])):
            done = fails(run("score", *pairs, "--background", *background), 1, message)
            assert "embedding" not in done.stderr
        ok(run("score", *pairs, "--background", *stores))
    ok(run("score", files[2], "--background", *stores[::-1]))  # nobody says what language a side is in


@pytest.mark.parametrize(
    "bad",
    [
        ("source\ttarget", "", "no tab", "\t"),
        ("", "{}", '{"source": "\\ud83d", "target": "x"}', '{"source": "", "target": "x"}'),
    ],
)
@pytest.mark.parametrize("margin", ["absolute", "ratio"])
def test_scores_alone_are_as_many_as_lines(
    bad: tuple[str, ...], margin: str, tiny_encoder: Path, tmp_path: Path
) -> None:
    pairs = [("Le chat dort.", "The cat sleeps."), ("Il pleut.", "It rains."), ("Merci.", "Thanks.")]
    if bad[0]:
        good = ["\t".join(pair) for pair in pairs]
    else:
        good = [json.dumps(dict(zip(("source", "target"), pair, strict=True))) for pair in pairs]
    lines = [bad[0], good[0], bad[1], good[1], bad[2], good[2], bad[3]]
    (tmp_path / "pairs").write_text("\n".join(lines) + "\n")
    done = ok(run("score", "--scores-only", "--margin", margin, tmp_path / "pairs", "--model", tiny_encoder))
    assert [line == "nan" for line in done.stdout.splitlines()] == [True, False] * 3 + [True]


def test_refusals(files: tuple[Path, Path, Path], tiny_encoder: Path, tmp_path: Path) -> None:
    source, target, tsv = files
    output, model = tmp_path / "out.tsv", ("--model", tiny_encoder)
    short = tmp_path / "short.txt"
    short.write_text("one\n")
    broken = tmp_path / "broken.tsv"
    broken.write_text("a\tb\nc\n")
    (tmp_path / "empty.tsv").write_bytes(b"")
    run("embed", source, *model, "-o", tmp_path / "fra.emb")
    for code, message, *arguments in (
        (2, "one file of pairs or two files, not 3 files", source, target, tsv),
        (2, "Only one of the inputs can be stdin", "-", "-"),
        (2, "name the store of the other side too", tmp_path / "fra.emb"),
        (2, "--margin absolute has no neighbourhoods", tsv, "--margin", "absolute", "--background", tsv, tsv),
        (2, "are embedded already", tmp_path / "fra.emb", tmp_path / "fra.emb", *model),
        (1, f"{source} has 9 lines, {short} has 1", source, short, *model),
        (1, f"fra.emb has 9 lines, {short} has 1", tmp_path / "fra.emb", short),
        (1, "broken.tsv, line 2: 1 tab-separated field, expected 2", broken, *model),
        (1, "empty.tsv has no pairs", tmp_path / "empty.tsv", *model),
        (1, "none.tsv: no such file", tmp_path / "none.tsv", *model),
        (1, "none.txt: no such file", source, tmp_path / "none.txt", *model),
        (1, "different encoders", tmp_path / "fra.emb", target, "--model", "mini"),
        (2, "pairs.tsv is an input", tsv, *model, "-o", tsv),
        (1, "out.tmx: pairs are not written as .tmx", tsv, *model, "-o", tmp_path / "out.tmx"),
        (1, f"{tsv}: the folder cannot be made", tsv, *model, "-o", tsv / "out.tsv"),
    ):  # fmt: skip
        options = () if "-o" in arguments else ("-o", output)
        done = fails(run("score", *arguments, *options), code, message)
        assert "embedding" not in done.stderr
    assert not list(tmp_path.glob("out*"))


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Translations of the demo as a file of pairs, every fourth with the target of the next such pair."""
    lines = (Path(__file__).parents[2] / "examples/spa-eng/gold.tsv").read_text("utf-8").splitlines()[:240]
    pairs = [line.split("\t") for line in lines]
    others = [target for _, target in pairs[::4]]
    for place, other in enumerate([*others[1:], others[0]]):
        pairs[4 * place][1] = other
    path = tmp_path_factory.mktemp("noisy") / "pairs.tsv"
    return write(path, *map("\t".join, pairs), "Hola.\t")


def test_probabilities_tell_translations(noisy: Path, tmp_path: Path) -> None:
    options = ("--model", "mini", "--probability")
    scored = ok(run("score", noisy, *options)).stdout.splitlines()
    rows = [line.split("\t") for line in scored]
    plain = ok(run("score", noisy, "--model", "mini")).stdout.splitlines()
    assert ["\t".join(row[:3]) for row in rows] == plain
    right = np.array([float(row[3]) > 0.5 for row in rows[:-1]])
    wanted = np.arange(240) % 4 != 0
    assert not (right & ~wanted).any() and (right == wanted).mean() > 0.85 and rows[-1][3] == "nan"
    sure = np.array([float(row[3]) for row in rows[:-1]])
    assert sure.mean() == pytest.approx(0.75, abs=0.15)
    objects = ok(run("score", noisy, *options, "--json")).stdout.splitlines()
    read = [json.loads(line) for line in objects]
    assert [one["probability"] for one in read[:-1]] == [float(row[3]) for row in rows[:-1]]
    assert read[-1]["probability"] is None

    for name, lines in (("scored.tsv", scored), ("scored.jsonl", objects)):
        found = write(tmp_path / name, *lines)
        kept = ok(run("filter", found, "--off", "all", "--on", "probability=0.9")).stdout.splitlines()
        assert kept == [line for line, one in zip(lines, sure, strict=False) if one >= 0.9]
        assert 100 < len(kept) < 180


def test_it_says_why_a_pair_may_be_none(noisy: Path, tmp_path: Path) -> None:
    lines = [*noisy.read_text(encoding="utf-8").splitlines()[:60], "Il a 40 ans.\tHe is 14 years old."]
    pairs, found = write(tmp_path / "pairs.tsv", *lines), tmp_path / "found.tsv"
    ok(run("score", pairs, "--model", "mini", "--explain", "-o", found))
    rows = [line.split("\t") for line in found.read_text(encoding="utf-8").splitlines()]
    assert {len(row) for row in rows} == {5} and rows[-1][4].startswith("numbers differ: 40 / 14")
    assert sum(bool(row[4]) for row in rows[:45] if float(row[3]) > 0.5) < 5
    assert all(row[4] for row in rows if float(row[3]) < 0.5), "also where the texts tell nothing"
    assert any("is nearer to this" in row[4] for row in rows)
    objects = ok(run("score", pairs, "--model", "mini", "--explain", "--json")).stdout.splitlines()
    assert [json.loads(line)["doubts"] for line in objects] == [row[4] for row in rows]
    kept = ok(run("filter", found, "--off", "all", "--on", "probability=0")).stdout.splitlines()
    assert len(kept) == len(lines) and set(kept) <= set(found.read_text(encoding="utf-8").splitlines())
    fails(run("score", pairs, "--explain", "--scores-only"), 2, "--explain does not go with --scores-only")


def test_a_column_that_is_not_there_is_not_read(noisy: Path) -> None:
    done = run("filter", noisy, "--on", "probability=0.5")
    fails(done, 1, "reads a column of probabilities, and these pairs have none", "mexma score --probability")


def test_probabilities_are_of_the_bitext_alone(noisy: Path) -> None:
    for option in (("--scores-only",), ("--background", noisy, noisy)):
        fails(run("score", noisy, "--probability", *option), 2, f"does not go with {option[0]}")
