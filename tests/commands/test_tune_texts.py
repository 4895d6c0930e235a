"""`mexma tune SOURCE TARGET`: a threshold without a gold list, on the examples' Spanish and English."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from tests.command import fails, ok, run, write

ROOT = Path(__file__).parents[2]
LABELS = 30


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """spa.txt and eng.txt: 450 lines each, 150 of them translations of one another; dev.spa and dev.eng.gz:
    150 known translations."""
    folder, examples = tmp_path_factory.mktemp("plant"), ROOT / "examples/spa-eng"
    pairs = [line.split("\t") for line in (examples / "gold.tsv").read_text("utf-8").splitlines()]
    known, own = pairs[2:900:6], pairs[1:450:3]
    for side, name in enumerate(("spa", "eng")):
        taken = {pair[side] for pair in pairs}
        lines = (examples / f"{name}.txt").read_text("utf-8").splitlines()
        others = [line for line in lines if line not in taken][:300]
        write(folder / f"{name}.txt", *(pair[side] for pair in own), *others)
        write(folder / f"{name}.docs", *(str(row % 6) for row in range(450)))
    write(folder / "dev.spa", *(pair[0] for pair in known))
    (folder / "dev.eng.gz").write_bytes(gzip.compress("".join(p[1] + "\n" for p in known).encode()))
    write(folder / "gold.tsv", *("\t".join(pair) for pair in own))
    for name in ("spa", "eng"):
        ok(run("embed", folder / f"{name}.txt"))
    return folder


def truth(text: Path, threshold: float, *options: str | Path) -> float:
    """The precision of what `mine` writes above a threshold."""
    stores = text / "spa.emb", text / "eng.emb"
    kept = ok(run("mine", *stores, "--threshold", str(threshold), *options)).stdout.splitlines()
    gold = set((text / "gold.tsv").read_text("utf-8").splitlines())
    return sum(line.partition("\t")[2] in gold for line in kept) / len(kept)


@pytest.mark.parametrize("how", ["probability", "margin", "within"])
def test_the_interval_contains_the_true_precision(text: Path, how: str) -> None:
    stores = text / "spa.emb", text / "eng.emb"
    options: tuple[str | Path, ...] = ()
    if how == "within":
        options = ("--within", text / "spa.docs", text / "eng.docs")
    elif how == "margin":
        options = ("--margin", "ratio")
    found = json.loads(ok(run("tune", *stores, *options, "--precision", "0.9", "--json")).stdout)
    low, high = found["precision_interval"]
    assert (found["threshold"] < 1) == (how == "probability")
    assert found["precision"] >= 0.9 and low <= truth(text, found["threshold"], *options) <= high


def test_planted_pairs_say_how_many_come_back(text: Path) -> None:
    stores, known = (text / "spa.emb", text / "eng.emb"), (text / "dev.spa", text / "dev.eng.gz")
    found = json.loads(ok(run("tune", *stores, "--plant", *known, "--json")).stdout)
    planted = found["planted"]
    assert planted["pairs"] == 150 and planted["copies"] == {"source": 0, "target": 0}
    assert not planted["unlike_the_text"] and found["recall"] == pytest.approx(planted["recall"])
    ok(run("mine", *stores, "--margin", "ratio", "-o", text / "mined.tsv"))
    tuned = json.loads(run("tune", text / "mined.tsv", "--gold", text / "gold.tsv", "--json").stdout)
    kept = run(
        "mine", *stores, "--margin", "ratio", "--threshold", str(found["threshold"])
    ).stdout.splitlines()
    gold = set((text / "gold.tsv").read_text("utf-8").splitlines())
    correct = sum(line.partition("\t")[2] in gold for line in kept)
    assert 2 * correct / (len(kept) + len(gold)) > tuned["f1"] - 0.08  # the best there is with a gold list
    low, high = planted["interval"]
    assert low <= correct / len(gold) <= high


def test_scores_alone_tell_no_recall(text: Path) -> None:
    """Translations that score like wrong pairs cannot be counted, so recall would be too high."""
    stores = text / "spa.emb", text / "eng.emb"
    found = json.loads(ok(run("tune", *stores, "--json")).stdout)
    for cut in (found, *found["table"]):
        assert cut["recall"] is None and cut["f1"] is None and 0 < cut["kept"] <= 1
    result = ok(run("tune", *stores))
    assert f"kept       {100 * found['kept']:.2f}  of the translations that stand out" in result.stdout
    assert "recall  " not in result.stdout and "F1" not in result.stdout and "recall and" not in result.stderr


def test_what_is_printed(text: Path) -> None:
    pytest.importorskip("matplotlib")
    sides = text / "spa.txt", text / "eng.emb"  # a text is embedded on the way
    known = "--plant", text / "dev.spa", text / "dev.eng.gz"
    options = ("-k", "3", "--margin", "distance", "--precision", "0.7", "--plot", text / "scores.png")
    result = ok(run("tune", *sides, *known, *options))
    stores = text / "spa.emb", text / "eng.emb"
    found = json.loads(run("tune", *stores, *known, *options, "--json").stdout)
    lines = result.stdout.splitlines()
    assert lines[0] == f"threshold  {found['threshold']:.6f}" and found["precision"] >= 0.7
    assert lines[1].startswith(f"precision  {100 * found['precision']:.2f}  (")
    assert lines[2].startswith(f"recall     {100 * found['recall']:.2f}")
    assert lines[4].startswith(f"pairs      {found['pairs']} above the threshold, about ")
    assert lines[5].startswith("planted    ") and " of 150 come back: " in lines[5]
    header = ["threshold", "precision", "interval", "recall", "F1", "pairs", "right"]
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == header
    assert len(table) == 1 + len(found["table"]) and 4 <= len(found["table"]) <= 6
    assert (text / "scores.png").stat().st_size > 5000


def test_another_kind_of_planted_text_is_told(text: Path, tmp_path: Path) -> None:
    spanish = (text / "dev.spa").read_text("utf-8").splitlines()
    english = gzip.decompress((text / "dev.eng.gz").read_bytes()).decode().splitlines()
    longer, both = ([" ".join(lines[at : at + 3]) for at in range(148)] for lines in (spanish, english))
    known = write(tmp_path / "s", *longer), write(tmp_path / "t", *both)
    done = ok(run("tune", text / "spa.emb", text / "eng.emb", "--plant", *known))
    assert "are of another kind" in done.stderr
    planted = next(line for line in done.stdout.splitlines() if line.startswith("planted"))
    assert "(" not in planted and "(" not in done.stdout.splitlines()[2]


class TestLabels:
    """`--label`: the answers are those of the gold list."""

    def answers(self, text: Path, printed: str) -> str:
        gold = set((text / "gold.tsv").read_text("utf-8").splitlines())
        asked = [block.splitlines() for block in printed.split("\n\n")[1:]]
        return "".join("y\n" if "\t".join(line.strip() for line in a[1:3]) in gold else "n\n" for a in asked)

    def test_answers_are_kept_and_correct_the_estimate(self, text: Path, tmp_path: Path) -> None:
        labels = tmp_path / "labels.tsv"
        command = ("tune", text / "spa.emb", text / "eng.emb", "--label", str(LABELS), "--labels", labels)
        asked = run(*command, stdin="s\n" * LABELS)  # to see the questions
        fails(asked, 1, "no pair is labelled")
        assert labels.read_text("utf-8").count("s\t") >= LABELS - 2
        labels.unlink()
        answers = self.answers(text, asked.stderr)
        run(*command, stdin="".join(answers.splitlines(True)[:7]))  # the input ends: seven are kept
        assert len(labels.read_text("utf-8").splitlines()) == 7
        done = ok(run(*command, "--precision", "0.85", "--json", stdin="".join(answers.splitlines(True)[7:])))
        count = answers.count("\n")
        assert (
            f"1 of {count - 7}" in done.stderr
            and f"{count} labels: {answers.count('y')} right" in done.stderr
        )
        found = json.loads(done.stdout)
        low, high = found["precision_interval"]
        assert low <= truth(text, found["threshold"]) <= high
        again = ok(run(*command, "--precision", "0.85", "--json"))
        assert json.loads(again.stdout) == found and "Is the second" not in again.stderr

    def test_q_stops(self, text: Path, tmp_path: Path) -> None:
        labels = tmp_path / "labels.tsv"
        command = ("tune", text / "spa.emb", text / "eng.emb", "--label", "5", "--labels", labels)
        ok(run(*command, stdin="perhaps\ny\nq\n"))
        assert [line.split("\t")[0] for line in labels.read_text("utf-8").splitlines()] == ["y"]

    def test_ctrl_c_ends_it_and_keeps_the_answers(self, text: Path, tmp_path: Path) -> None:
        class Pressed(io.BytesIO):
            def read1(self, size: int | None = -1) -> bytes:
                if not (answers := super().read1(size)):
                    raise KeyboardInterrupt
                return answers

        labels = tmp_path / "labels.tsv"
        command = ("tune", text / "spa.emb", text / "eng.emb", "--label", "5", "--labels", labels)
        done = fails(run(*command, stdin=Pressed(b"y\n")), 130, "interrupted")
        assert done.stdout == "" and labels.read_text("utf-8").startswith("y\t")

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("y\t1\t1\tother\ttexts", "has labels of other texts"),
            ("y\t1\t451\ta\tb", "has labels of other texts"),
            ("yes\t1\t1\ta\tb", "line 1: not a label"),
            ("y\t-1\t1\ta\tb", "line 1: not a label"),
        ],
    )
    def test_a_file_of_something_else(self, text: Path, tmp_path: Path, line: str, message: str) -> None:
        labels = write(tmp_path / "labels.tsv", line)
        command = ("tune", text / "spa.emb", text / "eng.emb", "--label", "5", "--labels", labels)
        fails(run(*command), 1, message)


def test_bad_input(text: Path) -> None:
    gold = text / "gold.tsv"
    stores, known = (text / "spa.emb", text / "eng.emb"), (text / "dev.spa", text / "dev.eng.gz")
    for code, message, *arguments in (
        (1, "spa.txt has 450", *stores, "--plant", known[0], text / "spa.txt"),
        (1, "none.txt: no such file", *stores, "--plant", known[0], text / "none.txt"),
        (2, "SOURCE and TARGET", stores[0], "--plant", *known),
        (2, "--plant does not go with --gold", gold, "--plant", *known, "--gold", gold),
        (2, "--output does not go with two texts. `mexma mine`", *stores, "-o", text / "kept.tsv"),
        (2, "--margin does not go with --gold", gold, "--gold", gold, "--margin", "ratio"),
        (2, "one file, the CANDIDATES", *stores, "--gold", gold),
        (2, "Give --gold, the true pairs, or the two texts", gold),
        (2, "--labels keeps the answers to --label", *stores, "--labels", text / "labels.tsv"),
        (2, "spa.txt is an input", text / "spa.txt", stores[1], "--label", "5", "--labels", text / "spa.txt"),
    ):
        fails(run("tune", *arguments), code, message)
    empty = write(text / "empty.txt")
    fails(run("tune", *stores, "--plant", empty, empty), 1, "has no lines")
