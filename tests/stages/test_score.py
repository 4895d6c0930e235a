from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.settings.stages import JudgingSettings, MineSettings
from mexma_cli.stages.score import score, scored_lines, split_sides
from mexma_cli.store.embeddings import StorePair
from tests.reference import laser, laser_text
from tests.stores import make_store, mine


def random_vectors(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, 8)).astype(np.float32)


def bitext(folder: Path, rows: int, seed: int = 0) -> StorePair:
    x = random_vectors(rows, seed)
    return (
        make_store(folder / "s.emb", [f"s{row}" for row in range(rows)], x),
        make_store(folder / "t.emb", [f"t{row}" for row in range(rows)], x + random_vectors(rows, seed + 1)),
    )


def by_hand(
    lines: tuple[list[str], list[str]], vectors: tuple[np.ndarray, np.ndarray], k: int, kind: str
) -> list[float]:
    """Scores in float64, pair by pair, against the different lines of both sides."""
    units = [side.astype(np.float64) / np.linalg.norm(side, axis=1, keepdims=True) for side in vectors]
    last = [
        [row for row, line in enumerate(side) if line.strip() and line not in side[row + 1 :]]
        for side in lines
    ]

    def mean(side: int, row: int) -> float:
        cosines = sorted(units[1 - side][last[1 - side]] @ units[side][row], reverse=True)
        return float(np.mean(cosines[:k]))

    scores = []
    for row, pair in enumerate(zip(*lines, strict=True)):
        if not all(text.strip() for text in pair):
            scores.append(np.nan)
            continue
        cosine, around = float(units[0][row] @ units[1][row]), (mean(0, row) + mean(1, row)) / 2
        scores.append({"absolute": cosine, "distance": cosine - around, "ratio": cosine / around}[kind])
    return scores


@pytest.mark.parametrize("k", [4, 16])
@pytest.mark.parametrize("kind", ["ratio", "distance", "absolute"])
def test_scores_are_lasers(kind: str, k: int, tmp_path: Path) -> None:
    """LASER scores as many lines as the shorter file has, and takes both whole files for neighbourhoods."""
    whole, cut = [], []
    for side in ("src", "tgt"):
        text, vectors = laser_text(side), laser()[side]
        whole.append(make_store(tmp_path / f"{side}.emb", text, vectors))
        cut.append(make_store(tmp_path / f"{side}1000.emb", text[:1000], vectors[:1000]))
    found = score(cut[0], cut[1], JudgingSettings(margin=kind, k=k), background=(whole[0], whole[1]))
    ours = [line[:-1].split("\t") for (line,), _ in scored_lines(cut[0], cut[1], found)]
    assert [row[1:] for row in ours] == [[f"s-{row}", f"t-{row}"] for row in range(1000)]
    theirs = laser()[f"score.max.{kind}.k{k}.scores"]
    assert np.abs(np.array([float(row[0]) for row in ours]) - theirs).max() < 1e-6


@given(
    texts=st.lists(
        st.tuples(*[st.sampled_from(["a", "b", "c", "d", "e", " "])] * 2), min_size=1, max_size=12
    ),
    k=st.integers(1, 5),
    kind=st.sampled_from(["ratio", "distance", "absolute"]),
    seed=st.integers(0, 99),
)
def test_every_line_has_the_score_of_its_own_row(
    texts: list[tuple[str, str]], k: int, kind: str, seed: int
) -> None:
    """Repeated lines too, whether their vectors differ or not, where LASER's score mode takes wrong rows."""
    lines = [pair[0] for pair in texts], [pair[1] for pair in texts]
    x = np.abs(random_vectors(len(texts), seed)) + 0.1
    y = np.abs(random_vectors(len(texts), seed + 100)) + 0.1  # far from a background of 0
    if seed % 2:
        x, y = (v[[side.index(line) for line in side]] for v, side in zip((x, y), lines, strict=True))
    wanted = (
        [np.nan] * len(texts)
        if any(all(not line.strip() for line in side) for side in lines)
        else by_hand(lines, (x, y), k, kind)
    )
    with tempfile.TemporaryDirectory() as folder:
        stores = [
            make_store(Path(folder) / name, side, v)
            for name, side, v in zip("st", lines, (x, y), strict=True)
        ]
        found = score(stores[0], stores[1], JudgingSettings(margin=kind, k=k))
    assert found.scores.dtype == np.float32 and found.scores == pytest.approx(wanted, abs=1e-5, nan_ok=True)
    assert found.empty == sum(not (a.strip() and b.strip()) for a, b in texts)


@settings(max_examples=10)
@given(order=st.permutations(range(9)), kind=st.sampled_from(["ratio", "distance", "absolute"]))
def test_a_score_does_not_depend_on_the_order_of_the_lines(order: list[int], kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stores = bitext(Path(folder), 9)
        shuffled = [
            make_store(
                Path(folder) / f"{store.path.name}2",
                [list(store.sentences())[row] for row in order],
                store.vectors(0, 9)[order],
            )
            for store in stores
        ]
        straight, mixed = (
            score(*pair, JudgingSettings(margin=kind, k=3)).scores for pair in (stores, shuffled)
        )
    assert mixed == pytest.approx(straight[order], rel=1e-6)
    if kind == "absolute":
        assert np.array_equal(mixed, straight[order])


def test_absolute_does_not_depend_on_the_other_lines(tmp_path: Path) -> None:
    stores = bitext(tmp_path, 9)
    alone = [make_store(tmp_path / f"{s.path.name}1", ["x"], s.vectors(4, 5)) for s in stores]
    found = score(*stores, JudgingSettings(margin="absolute"))
    all_scores = found.scores
    assert found.fewest is None and score(*stores).fewest == 9
    assert score(alone[0], alone[1], JudgingSettings(margin="absolute")).scores[0] == all_scores[4]


@pytest.mark.parametrize("kind", ["ratio", "distance", "absolute"])
def test_mined_pairs_get_the_scores_that_they_were_mined_with(kind: str, tmp_path: Path) -> None:
    stores = bitext(tmp_path, 30)
    found = mine(*stores, MineSettings(margin=kind, k=4, retrieval="forward")).candidates
    assert len(found) == 30
    pairs = [
        make_store(
            tmp_path / f"mined-{store.path.name}", [str(row) for row in rows], store.vectors(0, 30)[rows]
        )
        for store, rows in zip(stores, (found.source, found.target), strict=True)
    ]
    again = score(pairs[0], pairs[1], JudgingSettings(margin=kind, k=4), background=stores)
    assert again.scores == pytest.approx(found.scores, abs=1e-6)


def test_lines_without_a_score_keep_their_place(tmp_path: Path) -> None:
    x, y = random_vectors(5), random_vectors(5, 1)
    x[1] = y[3] = 0
    source = make_store(tmp_path / "s.emb", ["a", "b", "", "d", "e"], x)
    target = make_store(tmp_path / "t.emb", ["A", "B", "C", "D", "E"], y)
    for kind in ("ratio", "absolute"):
        found = score(source, target, JudgingSettings(margin=kind))
        assert np.isnan(found.scores).tolist() == [False, True, True, True, False]
        assert (found.empty, found.unusable) == (1, 2)
    alone = [np.float32(line) for (line,), _ in scored_lines(source, target, found, scores_only=True)]
    assert np.array_equal(alone, found.scores, equal_nan=True)


def test_nothing_but_empty_lines(tmp_path: Path) -> None:
    stores = [make_store(tmp_path / name, ["", " "], random_vectors(2)) for name in "st"]
    found = score(stores[0], stores[1])
    assert np.isnan(found.scores).all() and found.empty == 2


def test_few_sentences_are_told(tmp_path: Path) -> None:
    stores = bitext(tmp_path, 3)
    assert score(*stores, JudgingSettings(k=4)).fewest == 3
    assert score(*stores, JudgingSettings(k=2)).fewest >= 2


def test_refuses_what_does_not_fit(tmp_path: Path) -> None:
    stores = bitext(tmp_path, 3)
    longer = make_store(tmp_path / "l.emb", list("abcd"), random_vectors(4))
    other = make_store(tmp_path / "o.emb", list("abc"), random_vectors(3), fingerprint="other")
    empty = make_store(tmp_path / "e.emb", ["", " "], random_vectors(2))
    with pytest.raises(MexmaError, match=r"s\.emb has 3 rows, .*l\.emb has 4"):
        score(stores[0], longer)
    for wrong in ((stores[0], other), (other, stores[1])):
        with pytest.raises(MexmaError, match="different encoders"):
            score(*wrong)
        with pytest.raises(MexmaError, match="different encoders"):
            score(*stores, background=wrong)
    with pytest.raises(MexmaError, match="has no sentence to make a neighbourhood of"):
        score(*stores, background=(empty, stores[1]))


@pytest.mark.parametrize("margin", ["ratio", "distance", "absolute"])
def test_the_score_of_a_pair_is_the_one_that_mining_gave_it_to_the_last_bit(
    margin: str, tmp_path: Path
) -> None:
    pair = bitext(tmp_path, 200)
    mined = mine(*pair, MineSettings(margin=margin, retrieval="all")).candidates
    scores = score(*pair, JudgingSettings(margin=margin)).scores
    aligned = mined.source == mined.target
    assert aligned.sum() > 100
    np.testing.assert_array_equal(mined.scores[aligned], scores[mined.source[aligned]])


class TestSplit:
    def split(self, folder: Path, content: str) -> tuple[str, str]:
        (folder / "pairs.tsv").write_text(content, encoding="utf-8")
        split_sides(folder / "pairs.tsv", [folder / "s", folder / "t"])
        return (folder / "s").read_text(encoding="utf-8"), (folder / "t").read_text(encoding="utf-8")

    @pytest.mark.parametrize(
        ("content", "source", "target"),
        [
            ("a\tA\nb\tB\n", "a\nb\n", "A\nB\n"),
            ("1.5\ta\tA\nnan\tb\tB\n", "a\nb\n", "A\nB\n"),
            ("1.5\tA\n\t\n", "1.5\n\n", "A\n\n"),
            ('1.2\t"so ""he"" said"\tx\n', 'so "he" said\n', "x\n"),
            ("1.5\ta\tA\t1\t2\t1\t0\t0.9\t0.5\t0.4\n1.5\tb\tB\n", "a\nb\n", "A\nB\n"),
        ],
    )
    def test_two_or_three_columns(self, content: str, source: str, target: str, tmp_path: Path) -> None:
        assert self.split(tmp_path, content) == (source, target)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a\tA\nb\n", r"pairs\.tsv, line 2: 1 tab-separated field, expected 2 \(source, target\)"),
            ("a\tA\nb\tB\tC\n", r"pairs\.tsv, line 2: 3 tab-separated fields, expected 2"),
            ("1\ta\tA\nb\tB\n", r"pairs\.tsv, line 2: 2 tab-separated fields, expected 3 \(score, source"),
            ("x\ta\tA\n", r"pairs\.tsv, line 1: 3 tab-separated fields, expected 2"),
            ("1\ta\tA\nb\tB\tC\n", r"pairs\.tsv, line 2: no score, expected 3"),
            ("", r"pairs\.tsv has no pairs"),
            ("\n", r"pairs\.tsv has no pairs"),
            ("1\ta\tA\n2\tB" + 8 * "\tC", r"line 2: 10 tab-separated fields, expected 3 \(id, source, t"),
            ("1\ta\tA\nb\n", r"pairs\.tsv, line 2: 1 tab-separated field, expected 3 \(score, source"),
        ],
    )
    def test_a_wrong_line_is_named(self, content: str, message: str, tmp_path: Path) -> None:
        with pytest.raises(MexmaError, match=message):
            self.split(tmp_path, content)

    def test_jsonl_with_and_without_scores(self, tmp_path: Path) -> None:
        lines = ['{"score": 1.5, "source": "a\\tb", "target": "A", "cosine": 0.5}']
        lines += ['{"target": "B", "source": "\\u00e9"}', '{"source": "{", "target": ""}']
        assert self.split(tmp_path, "\n".join(lines)) == ("a b\né\n{\n", "A\nB\n\n")
        with pytest.raises(MexmaError, match=r"pairs\.tsv, line 2: not an object with the texts"):
            self.split(tmp_path, lines[0] + "\na\tA\n")
        assert self.split(tmp_path, "{\tA\n") == ("{\n", "A\n")

    @pytest.mark.parametrize(
        ("line", "hint"),
        [
            ("one text", "Name the other one too"),
            ("<html>", "like XML"),
            ("a\tA\tfra", "`cut -f 1,2`"),
            ("Er gik.\thttps://a.dk/1?b=c d\tHe went.", "`cut -f 1,2`"),
            ("God dag\thttps://a.dk/1\tGood day", "`cut -f 1,3`"),
            ("12\tda\twww.a.dk\tGod dag, du\ten\tGood day", "`cut -f 4,6`"),
            ("0.5\t7\t\t\tgod\tgood", "`cut -f 5,6`"),
            ("My glossary", "remove a title above the names of columns"),
            ("My\tglossary\nsource\ttarget\turl", "remove the lines above these names"),
        ],
    )
    def test_what_is_no_tsv_gets_a_hint(self, line: str, hint: str, tmp_path: Path) -> None:
        with pytest.raises(MexmaError, match=r"line \d: \d tab-separated field") as error:
            self.split(tmp_path, f"{line}\n")
        assert hint in (error.value.hint or "")
