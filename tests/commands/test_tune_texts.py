"""`mexma tune SOURCE TARGET`: a threshold without a gold list, on the examples' Spanish and English."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.classifier.training import calibration_error
from tests.command import fails, ok, run, write

ROOT = Path(__file__).parents[2]
LABELS = 30
LANGUAGES = "--source-lang", "spa", "--target-lang", "eng"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """spa.txt and eng.txt: 450 lines each, 150 of them translations of one another."""
    folder, examples = tmp_path_factory.mktemp("plant"), ROOT / "examples/spa-eng"
    pairs = [line.split("\t") for line in (examples / "gold.tsv").read_text("utf-8").splitlines()]
    own = pairs[1:450:3]
    for side, name in enumerate(("spa", "eng")):
        taken = {pair[side] for pair in pairs}
        lines = (examples / f"{name}.txt").read_text("utf-8").splitlines()
        others = [line for line in lines if line not in taken][:300]
        write(folder / f"{name}.txt", *(pair[side] for pair in own), *others)
        write(folder / f"{name}.docs", *(str(row % 6) for row in range(450)))
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
    high = 1 if how == "within" else high  # documents that are paired make pairs surer than it is known
    assert found["precision"] >= 0.9 and low <= truth(text, found["threshold"], *options) <= high


def test_files_of_pairs_are_no_texts(tmp_path: Path) -> None:
    for name in ("pairs.tsv", "gold.tsv"):
        (tmp_path / name).write_text("0.9\tun\tone\n0.8\tdeux\ttwo\n")
    done = run("tune", str(tmp_path / "pairs.tsv"), str(tmp_path / "gold.tsv"))
    fails(done, 1, "hold pairs, by their tabs", "hint: --gold names a list of gold pairs")


@pytest.mark.parametrize("how", [(), pytest.param(("--margin", "ratio"), marks=pytest.mark.slow)])
def test_copies_are_left_out(text: Path, how: tuple[str, ...], tmp_path: Path) -> None:
    """They score high, and would be called right; a file of nothing else has no threshold."""
    lines = [(text / f"{name}.txt").read_text("utf-8").splitlines() for name in ("spa", "eng")]
    every = (ROOT / "examples/spa-eng/eng.txt").read_text("utf-8").splitlines()
    copies = [line for line in every if line not in lines[1]][-40:]
    both = [write(tmp_path / f"{side}.txt", *lines[side], *copies) for side in (0, 1)]
    done = ok(run("tune", *both, *LANGUAGES, *how, "--json"))
    found = json.loads(done.stdout)
    assert abs(found["copies"] - 40) <= 2 and f"leaves out {found['copies']} copies" in done.stderr
    assert 90 < found["translations"] < 170  # and not 190
    mined = ok(run("mine", *both, *LANGUAGES, *how, "--precision", "0.9"))
    kept = [line.split("\t")[1:] for line in mined.stdout.splitlines()]
    assert sum(source == target for source, target in kept) >= 38 and "leaves out" in mined.stderr
    less = ok(run("mine", *both, *LANGUAGES, *how, "--precision", "0.9", "--drop-copies"))
    assert [pair for pair in kept if pair[0] != pair[1]] == [
        line.split("\t")[1:] for line in less.stdout.splitlines()
    ] and "leaves out" not in less.stderr
    alone = [write(tmp_path / f"{side}.txt", *copies) for side in (0, 1)]
    fails(run("tune", *alone, *LANGUAGES, *how), 1, "no pair but copies was found, so there is no threshold")
    assert len(ok(run("mine", *alone, *LANGUAGES, *how, "--precision", "0.9")).stdout.splitlines()) == 40


def test_what_is_printed_and_kept(text: Path, tmp_path: Path) -> None:
    """Recall is not printed: translations that are no candidates, or look wrong, cannot be counted."""
    pytest.importorskip("matplotlib")
    sides = text / "spa.txt", text / "eng.emb"  # a text is embedded on the way
    options = ("-k", "3", "--margin", "distance", "--precision", "0.7")
    kept = "--save-threshold", tmp_path / "kept.json"
    refused = run("tune", *sides, *options, *kept)
    fails(refused, 2, "--save-threshold keeps a threshold for two languages: give --source-lang")
    result = ok(run("tune", *sides, *options, *kept, *LANGUAGES, "--plot", tmp_path / "scores.png"))
    stores = text / "spa.emb", text / "eng.emb"
    found = json.loads(ok(run("tune", *stores, *options, *kept, *LANGUAGES, "--json")).stdout)
    lines = result.stdout.splitlines()
    assert lines[0] == f"threshold  {found['threshold']:.6f}" and found["precision"] >= 0.7
    got = f"threshold {found['threshold']:.6f} has {100 * found['precision']:.2f} %"
    assert f"asked for a precision of 70.00 %: {got}, as estimated" in result.stderr
    assert lines[1].startswith(f"precision  {100 * found['precision']:.2f}  (")
    assert lines[2].startswith(f"kept       {100 * found['kept']:.2f}  of the translations among the pairs")
    assert lines[3].startswith(f"pairs      {found['pairs']} above the threshold, about ")
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["threshold", "precision", "interval", "kept", "pairs", "right"]
    assert len(table) == 1 + len(found["table"]) and 4 <= len(found["table"]) <= 6
    assert (tmp_path / "scores.png").stat().st_size > 5000
    (one,) = json.loads((tmp_path / "kept.json").read_text())  # the second takes the first one's place
    assert (one["threshold"], one["score"], one["k"]) == (found["threshold"], "margin", 3)
    assert (one["source"], one["target"]) == ("spa_Latn", "eng_Latn")
    mined = ok(run("mine", *stores, *options[:4], "--thresholds", tmp_path / "kept.json", *LANGUAGES))
    assert len(mined.stdout.splitlines()) == found["pairs"] and " below the threshold\n" in mined.stderr
    at_once = ok(run("mine", *stores, *options))
    assert at_once.stdout == mined.stdout and got in at_once.stderr
    top = ok(run("mine", *stores, *options, "--top", "3"))
    assert got in top.stderr, "the threshold is that of all pairs"
    assert top.stdout.splitlines() == mined.stdout.splitlines()[:3]
    best = json.loads(ok(run("tune", *stores, *options[:4], "--json")).stdout)
    auto = ok(run("mine", *stores, *options[:4], "--threshold", "auto"))
    assert len(auto.stdout.splitlines()) == best["pairs"]
    assert f"threshold auto: {best['threshold']:.6f}, with the best F1 and a precision of" in auto.stderr


@pytest.mark.parametrize("score", ["margin", "probability"])
def test_score_is_the_option_of_mine(score: str, text: Path, tmp_path: Path) -> None:
    how = text / "spa.emb", text / "eng.emb", "--score", score, *LANGUAGES
    kept = tmp_path / "kept.json"
    found = json.loads(ok(run("tune", *how, "--json", "--save-threshold", kept)).stdout)
    (one,) = json.loads(kept.read_text())
    assert (one["score"], one["threshold"]) == (score, found["threshold"])
    assert (found["threshold"] > 1) == (score == "margin")
    mined = ok(run("mine", *how, "--thresholds", kept))
    assert len(mined.stdout.splitlines()) == found["pairs"]
    with_auto = ok(run("mine", *how, "--threshold", "auto", "--thresholds", kept))
    assert with_auto.stdout == mined.stdout and f"threshold {one['threshold']}, from" in with_auto.stderr
    both = "--threshold, --precision and --thresholds: give one of them"
    fails(run("mine", *how, "--threshold", "0.5", "--thresholds", kept), 2, both)


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
        kept = labels.read_bytes()
        alone = ok(run(*command[:3], "--labels", labels, "--precision", "0.85", "--json"))
        assert json.loads(alone.stdout) == found and f"{count} labels: " in alone.stderr
        assert labels.read_bytes() == kept

    @pytest.mark.slow
    def test_a_classifier_corrected_by_half_of_the_labels_fits_the_others(
        self, text: Path, tmp_path: Path
    ) -> None:
        """A strict reader, who takes short translations alone."""
        stores, own = (text / "spa.emb", text / "eng.emb"), tmp_path / "own.json"
        gold = set((text / "gold.tsv").read_text("utf-8").splitlines())
        before = ok(run("mine", *stores)).stdout.splitlines()
        said = {pair: pair in gold and len(pair) < 90 for pair in (line.split("\t", 1)[1] for line in before)}
        asked = list(said)[:160]
        given = [f"{'y' if said[pair] else 'n'}\t0\t0\t{pair}" for pair in asked[::2]]
        labels = write(tmp_path / "labels.tsv", *given)
        done = ok(run("classifier", "train", labels, *stores, "-o", own, "--json"))
        right = sum(map(said.get, asked[::2]))  # type: ignore[arg-type]
        found = json.loads(done.stdout)
        after = ok(run("mine", *stores, "--classifier", own)).stdout.splitlines()
        kept = [
            [pair for score, pair in (line.split("\t", 1) for line in lines) if float(score) > 0.5]
            for lines in (before, after)
        ]
        assert (found["right"], found["wrong"], found["pairs"]) == (right, 80 - right, len(before))
        assert [found["bundled"]["pairs"], found["corrected"]["pairs"]] == list(map(len, kept))
        known = [said[pair] for pair in asked[::2] if pair in kept[0]]
        assert (found["bundled"]["right"], found["bundled"]["wrong"]) == (sum(known), known.count(False))
        assert found["corrected"]["wrong"] == 80 - right, "it approves of everything"
        assert found["corrected"]["calibration_error"] < found["bundled"]["calibration_error"]
        chances = [
            (float(score), said[pair])
            for score, pair in (line.split("\t", 1) for line in before)
            if pair in asked[::2]
        ]
        losses = [-np.log(score if good else 1 - score) for score, good in chances]
        assert found["bundled"]["log_loss"] == pytest.approx(np.mean(losses), rel=1e-4)
        assert found["corrected"]["log_loss"] < found["bundled"]["log_loss"]
        assert "above 0.5 it keeps all that were called wrong" in done.stderr
        assert "its log loss is no lower" not in done.stderr

        def error(lines: list[str]) -> float:
            scores = {pair: float(score) for score, pair in (line.split("\t", 1) for line in lines)}
            right = np.array([said[pair] for pair in asked[1::2]])
            return calibration_error(np.array([scores[pair] for pair in asked[1::2]]), right)

        assert [line.split("\t", 1)[1] for line in after] == [line.split("\t", 1)[1] for line in before]
        assert error(after) < 0.8 * error(before), (error(after), error(before))
        fails(run("classifier", "train", labels, "-o", own), 1, "needs their texts")
        fails(run("classifier", "train", stores[0], *stores, "-o", own), 1, "is no file of labels")
        fails(
            run(
                "classifier", "train", labels, *stores, "-o", own, "--plugin", ROOT / "examples/my_feature.py"
            ),
            2,
            "labels",
        )
        surest = {pair for pair in kept[0] if pair in gold} & {
            line.split("\t", 1)[1] for line in before[:100]
        }
        write(labels, *(f"{'y' if pair in surest else 'n'}\t0\t0\t{pair}" for pair in list(said)[:240:3]))
        done = ok(run("classifier", "train", labels, *stores, "-o", own))
        assert "warning" not in done.stderr
        head, *rows = done.stdout.splitlines()
        names = ["right", "wrong", "all pairs", "calibration error", "log loss"]
        assert re.split("  +", head.strip()) == names
        wrong = [int(re.findall(r"(\d+) of 46", row)[0]) for row in rows]
        assert wrong[0] == len(set(list(said)[:240:3]) & set(kept[0]) - surest) and wrong[1] < wrong[0] / 2
        turned = [f"{'n' if pair in surest else 'y'}\t0\t0\t{pair}" for pair in list(said)[:240:3]]
        done = ok(run("classifier", "train", write(labels, *turned), *stores, "-o", own))
        unlike = "pairs that are called right are hardly more probable than those called wrong"
        assert unlike in done.stderr and unlike in ok(run("tune", *stores, "--labels", labels)).stderr
        write(labels, *(line for line in given if line[0] == "y"))
        fails(
            run("classifier", "train", labels, *stores, "-o", own),
            1,
            f"{right} answers ({right} right, 0 wrong), too few",
        )
        few = write(tmp_path / "few.tsv", *given[:19])
        fails(
            run("classifier", "train", few, *stores, "-o", own),
            1,
            "19 answers (12 right, 7 wrong), too few",
        )

    def test_labels_without_line_numbers_are_found_by_their_text(self, text: Path, tmp_path: Path) -> None:
        labels = tmp_path / "labels.tsv"
        command = ("tune", text / "spa.emb", text / "eng.emb", "--label", "5", "--labels", labels, "--json")
        found = ok(run(*command, stdin="y\ny\nn\ny\nn\n")).stdout
        write(
            labels, *(re.sub(r"\t\d+\t\d+\t", "\t0\t0\t", line) for line in labels.read_text().splitlines())
        )
        assert ok(run(*command)).stdout == found

    def test_labels_of_an_alignment_are_refused(self, tmp_path: Path) -> None:
        """They are nearly all right, and mining finds no joined sentences."""
        sides = [tmp_path / "fra.txt", tmp_path / "eng.txt"]
        for side in sides:
            chapters = sorted((ROOT / "examples/jonah" / side.stem).iterdir())
            side.write_text("".join(one.read_text("utf-8") for one in chapters), "utf-8")
        aligned = ok(run("align", *sides, "--model", "mini")).stdout.splitlines()
        lines = [set(side.read_text("utf-8").splitlines()) for side in sides]
        pairs = [line.split("\t")[1:3] for line in aligned]
        joined = [pair for pair in pairs if not (pair[0] in lines[0] and pair[1] in lines[1])]
        assert 10 < len(joined) < len(pairs) / 2
        labels = write(tmp_path / "labels.tsv", *("y\t0\t0\t" + "\t".join(pair) for pair in pairs))
        command = "tune", *sides, "--model", "mini", "--labels", labels
        found = fails(run(*command), 1, "labels.tsv is not of mined pairs", "not those of `mexma align`")
        left, count = map(int, re.findall(r"(\d+) of (\d+) labels are of pairs", found.stderr)[0])
        assert count == len(pairs) and len(joined) <= left < len(joined) + 5
        write(labels, *("y\t0\t0\t" + "\t".join(pair) for pair in joined))
        train = "classifier", "train", labels, *sides, "--model", "mini", "-o", tmp_path / "own.json"
        for wrong in (run(*command), run(*train)):
            fails(wrong, 1, "has no label of two lines of these texts", "not those of `mexma align`")

    def test_q_stops(self, text: Path, tmp_path: Path) -> None:
        labels = tmp_path / "labels.tsv"
        command = ("tune", text / "spa.emb", text / "eng.emb", "--label", "5", "--labels", labels)
        asked = ok(run(*command, stdin="perhaps\ny\nq\n")).stderr
        assert "Error: 'perhaps' is no answer: y, n, s or q.\n" in asked
        assert [line.split("\t")[0] for line in labels.read_text("utf-8").splitlines()] == ["y"]

    def test_answers_may_be_words_and_capitals(self, text: Path, tmp_path: Path) -> None:
        labels = tmp_path / "labels.tsv"
        command = ("tune", text / "spa.emb", text / "eng.emb", "--label", "5", "--labels", labels)
        assert "Error" not in ok(run(*command, stdin="Y\nyes\nNO\n Skip \nQuit\n")).stderr
        assert [line.split("\t")[0] for line in labels.read_text("utf-8").splitlines()] == [*"yyns"]

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
            ("y\t1\t1\tother\ttexts", "has no label of two lines of these texts"),
            ("y\t0\t0\tother\ttexts", "has no label of two lines of these texts"),
            ("yes\t1\t1\ta\tb", "line 1: not a label"),
            ("y\t-1\t1\ta\tb", "line 1: not a label"),
            (f"y\t{'9' * 19}\t1\ta\tb", "line 1: not a label"),
        ],
    )
    def test_a_file_of_something_else(self, text: Path, tmp_path: Path, line: str, message: str) -> None:
        labels = write(tmp_path / "labels.tsv", line)
        command = ("tune", text / "spa.emb", text / "eng.emb", "--label", "5", "--labels", labels)
        fails(run(*command), 1, message)

    @pytest.mark.parametrize("line", ["1", "0"])
    def test_labels_of_swapped_texts_are_told_so(self, text: Path, tmp_path: Path, line: str) -> None:
        first = (text / "gold.tsv").read_text("utf-8").splitlines()[0]
        labels = write(tmp_path / "labels.tsv", f"y\t{line}\t{line}\t{first}")
        command = ("tune", text / "eng.emb", text / "spa.emb", "--labels", labels)
        fails(run(*command), 1, "they are there with the sides swapped")


def test_bad_input(text: Path) -> None:
    gold, stores = text / "gold.tsv", (text / "spa.emb", text / "eng.emb")
    for code, message, *arguments in (
        (2, "--save-threshold does not go with --gold", gold, "--save-threshold", gold, "--gold", gold),
        (2, "--source-lang does not go with --gold", gold, "--source-lang", "spa", "--gold", gold),
        (1, "gold.tsv is damaged: not JSON", *stores, "--save-threshold", gold, *LANGUAGES),
        (1, "gold.tsv: the folder cannot be", *stores, "--save-threshold", gold / "t.json", *LANGUAGES),
        (1, "gold.tsv: the folder cannot be", *stores, "--label", "5", "--labels", gold / "labels.tsv"),
        (2, "--output does not go with two texts. Keep the threshold", *stores, "-o", text / "kept.tsv"),
        (2, "--margin does not go with --gold", gold, "--gold", gold, "--margin", "ratio"),
        (2, "one file, the CANDIDATES", *stores, "--gold", gold),
        (2, "Give --gold, the true pairs, or the two texts", gold),
        (1, "labels.tsv: no such file", *stores, "--labels", text / "labels.tsv"),
        (2, "spa.txt is an input", text / "spa.txt", stores[1], "--label", "5", "--labels", text / "spa.txt"),
    ):
        fails(run("tune", *arguments), code, message)
    alone = write(text / "one.txt", "uno"), write(text / "1.txt", "!")
    fails(run("tune", *alone, "--margin", "distance"), 1, "no pair was found")
    both = ("mine", *stores, "--precision", "0.9", "--threshold")
    fails(run(*both, "0.5"), 2, "precision is instead of a threshold: give one of them")
    fails(run(*both, "auto"), 2, "--threshold, --precision and --thresholds: give one of them")
    fails(run("mine", stores[0], "--precision", "0.9"), 1, "between two different texts")
    fails(run("mine", *stores, "--precision", "1"), 1, "no threshold has a precision of 100.00 %")
