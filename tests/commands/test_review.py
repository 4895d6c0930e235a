from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command import fails, ok, run, write

PAIRS = [
    *(f"0.{90 - n}\tUne phrase {n}.\tA sentence {n}." for n in range(30)),
    '0.5\tIl a 40 <b>ans</b>.\tHe is 14 & "old" <script>x</script>.',
    "0.4\tLa fin.\tThe end.",
]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write(tmp_path / "pairs.tsv", *PAIRS)


def articles(page: Path) -> list[str]:
    return re.findall(r"<article.*?</article>", page.read_text(encoding="utf-8"), re.DOTALL)


def test_pairs_are_shown_best_first_and_what_differs_is_marked(pairs: Path, tmp_path: Path) -> None:
    page = tmp_path / "review.html"
    done = ok(run("review", pairs, "-o", page))
    assert done.stdout == "" and "32 pairs of 32 in" in done.stderr
    found = articles(page)
    assert [re.findall(r'data-number="(\d+)"', one) for one in found] == [[str(n)] for n in range(1, 33)]
    assert "Il a <mark>40</mark> &lt;b&gt;ans&lt;/b&gt;." in found[30] and "<mark>14</mark>" in found[30]
    assert "numbers differ: 40 / 14" in found[30] and "why" not in found[29]
    assert 'data-lines="0\t0"' in found[0], "not known"
    assert "<script>x" not in page.read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)=\"(?!#)", page.read_text(encoding="utf-8"))


def test_some_are_drawn_or_those_around_a_score(pairs: Path, tmp_path: Path) -> None:
    page = tmp_path / "review.html"
    ok(run("review", pairs, "-o", page, "--count", 5))
    drawn = articles(page)
    ok(run("review", pairs, "-o", page, "--count", 5))
    assert articles(page) == drawn and len(drawn) == 5
    ok(run("review", pairs, "-o", page, "--count", 2, "--around", 0.46))
    assert ["La fin." in html.unescape(one) for one in articles(page)] == [False, True]
    sides = [write(tmp_path / name, "one", "two") for name in ("a.txt", "b.txt")]
    assert "2 pairs of 2" in ok(run("review", *sides, "-o", page)).stderr
    assert "/b.txt</title>" in page.read_text() and "/a.txt and " in page.read_text()
    ok(run("review", pairs.rename(tmp_path / "caf\udce9.tsv"), "-o", page))
    assert "<title>Pairs of " in page.read_text() and "caf\\udce9.tsv</title>" in page.read_text()


def test_the_score_is_the_column_of_scores_and_a_probability_is_called_so(tmp_path: Path) -> None:
    """As `mexma score --probability` writes them."""
    rows = [f"{1 + n / 10}\tUne phrase {n}.\tA sentence {n}.\t{0.9 - n / 10:.1f}" for n in range(5)]
    pairs, page = write(tmp_path / "pairs.tsv", *rows), tmp_path / "review.html"
    ok(run("review", pairs, "-o", page, "--around", 1.1, "--count", 1))
    (only,) = articles(page)
    assert "Une phrase 1." in only and 'data-score="1.1"' in only
    assert '<span title="score">1.1000</span> <span title="probability">prob.&nbsp;0.8000</span> ' in only
    ok(run("review", pairs, "-o", page))
    assert [re.findall(r"phrase (\d)", one) for one in articles(page)] == [[n] for n in "43210"], "best score"


def test_units_without_both_languages_are_left_out_and_counted(tmp_path: Path) -> None:
    texts = [
        {"ka": "ერთი", "en": "one"},
        {"lt": "du", "en": "two"},
        {"ka": "სამი", "en": "three"},
        {"lt": "a"},
    ]
    units = (
        "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in unit.items())
        for unit in texts
    )
    body = "".join(f"<tu>{unit}</tu>" for unit in units)
    memory, page = write(tmp_path / "memory.tmx", f"<tmx><body>{body}</body></tmx>"), tmp_path / "review.html"
    done = ok(run("review", memory, "--source-lang", "ka", "--target-lang", "en", "-o", page))
    assert "2 pairs of 2 in" in done.stderr and "left out: pairs with an empty side (2)" in done.stderr
    assert [re.findall(r'data-number="(\d)"', one) for one in articles(page)] == [["1"], ["3"]]
    scored = write(tmp_path / "pairs.tsv", "1.5\t\tone", "1.2\tdeux\ttwo", "1.1\ttrois\tthree")
    done = ok(run("review", scored, "-o", page, "--around", 1.5, "--count", 1))
    assert "1 pair of 2 in" in done.stderr and "deux" in articles(page)[0]
    fails(run("review", write(tmp_path / "no.tsv", "1.5\t\tone"), "-o", page), 1, "has no pairs")


def said_by_pages(steps: list[tuple[Path, str]], storage: str = "usual") -> list[str]:
    """What pages of one browser say, which are opened one after the other, and on which keys are pressed."""
    node = shutil.which("node") or pytest.skip("needs node")
    given = json.dumps([(str(page), keys) for page, keys in steps])
    command = [node, str(Path(__file__).with_name("review_pages.js")), storage, given]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return [re.sub(r"^\d+ shown; |:.*% of.*? right(?=;|$)", "", one) for one in json.loads(done.stdout)]


def test_pages_of_a_file_share_the_labels_of_their_pairs(pairs: Path, tmp_path: Path) -> None:
    """The script of the pages, in a small imitation of a browser."""
    every, low, twice = (tmp_path / name for name in ("every.html", "low.html", "twice.html"))
    ok(run("review", pairs, "-o", every))
    ok(run("review", pairs, "-o", low, "--around", 0, "--count", 2))
    again = [PAIRS[0], PAIRS[0], PAIRS[1]]
    ok(run("review", write(tmp_path / "again.tsv", *again), "-o", twice))
    steps = [
        (every, "yYyN"),
        (every, ""),
        (low, "n"),
        (low, ""),
        (every, ""),
        (twice, ""),
        (twice, "u"),
        (every, ""),
    ]
    steps += [(twice, "ju"), (every, "")]
    assert said_by_pages(steps) == [
        "3 right, 1 wrong, 0 unsure",
        "3 right, 1 wrong, 0 unsure",
        "0 right, 1 wrong, 0 unsure",
        "0 right, 1 wrong, 0 unsure",
        "3 right, 2 wrong, 0 unsure",
        "3 right, 0 wrong, 0 unsure",
        "3 right, 0 wrong, 0 unsure",
        "3 right, 2 wrong, 0 unsure",
        "1 right, 0 wrong, 0 unsure",
        "2 right, 2 wrong, 0 unsure",
    ]
    said = ["1 right, 0 wrong, 0 unsure; this browser does not keep the labels: save them"]
    assert said_by_pages([(low, "y")], "full") == said


def test_what_cannot_be_shown(pairs: Path, tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.tsv", "Une phrase.\tA sentence.")
    page = tmp_path / "review.html"
    fails(run("review", plain, "-o", page, "--around", 1), 1, "has no scores")
    fails(run("review", write(tmp_path / "empty.tsv"), "-o", page), 1, "has no pairs")
    fails(run("review", pairs, "-o", pairs), 2, "pairs.tsv")
    fails(run("review", pairs, "-o", plain), 2, "plain.tsv: the page is HTML, so name it .html")
    assert not page.exists() and len(pairs.read_text(encoding="utf-8").splitlines()) == 32


@pytest.mark.slow
def test_keys_label_pairs(pairs: Path, tmp_path: Path) -> None:
    """In a browser: Debian's chromium."""
    browser = shutil.which("chromium") or pytest.skip("needs chromium")
    page = tmp_path / "review.html"
    ok(run("review", pairs, "-o", page))
    keys = """<script>for (const key of ["y", "n", "s", "ArrowDown", "y", "u"])
      document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));</script></body>"""
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", keys), encoding="utf-8")
    options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}")
    command = [browser, *options, "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert re.findall(r'class="pair ?([^"]*)"', shown)[:6] == ["is-y", "is-n", "is-s", "", "is-y", "now"]
    assert "32 shown; 2 right, 1 wrong, 1 unsure: 66.7 %" in shown
