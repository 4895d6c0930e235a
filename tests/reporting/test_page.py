"""The page of results: one file, all numbers, pictures that are well-formed."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mexma_cli.commands.eval import headings
from mexma_cli.reporting import templates
from mexma_cli.reporting.page import TEMPLATE, Chart, Series, compared, content, ticks_of, write_results_page
from mexma_cli.reporting.result import Result

XSIM = Result(
    "xsim",
    {"name": "tiny <1>", "fingerprint": "f"},
    {"data": "flores", "margin": "ratio"},
    {"xsim": 12.5},
    [
        {"language": "fra_Latn", "name": "French", "sentences": 1012, "errors": 5, "xsim": 5.0},
        {"language": "deu_Latn", "name": "German", "sentences": 1012, "errors": 20, "xsim": 20.0},
    ],
    "xsim-81",
)


def page(*results: Result) -> str:
    return templates.page(TEMPLATE, **content(results, headings()))


def chart(*series: Series) -> str:
    """What is drawn of three lines, titled p."""
    parts = templates._environment().get_template("reporting/parts.html").module
    return str(parts.dots(Chart("p", ["a", "b", "<c>"], series)))  # type: ignore[attr-defined]


class Balanced(HTMLParser):
    """Complains about tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def test_page_holds_everything(tmp_path: Path) -> None:
    other = replace(XSIM, encoder={"name": "second", "fingerprint": "g"}, scores={"xsim": 3.25})
    bucc = Result("bucc", XSIM.encoder, {}, {"cosine f1": 90.0}, [{"pair": "fra-eng", "cosine f1": 90.0}])
    write_results_page(tmp_path / "page.html", [XSIM, other, bucc], headings())
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    parser = Balanced()
    parser.feed(text)
    assert not parser.open
    for word in (
        "tiny <1> (here)",
        "second (here)",
        "12.50",
        "3.25",
        "SONAR",
        "MEXMA paper, Table 1",
        "fra-eng",
        "xsim ↓, mean of 2 languages",
    ):
        assert word in parser.words, word
    assert not re.search(r"src=|href=\"[^#]|@import|url\(", text), "the page refers to something outside"
    for number in (1, 2):  # both encoders in one section, and its line in the overview leads there
        assert text.count(f'href="#r{number}"') == text.count(f'id="r{number}"') == 1
    assert 'id="r3"' not in text
    assert parser.words.count("fra_Latn French") == 1 and parser.words.count("fra_Latn") == 2  # chart, tables


def test_page_says_which_way_is_better_and_when_and_on_what_it_was_measured() -> None:
    made = {"date": "2026-01-02", "mexma": "0.1", "processor": "A <B>"}
    tatoeba = replace(XSIM, task="tatoeba", benchmark=None)
    text = page(replace(XSIM, made=made), tatoeba)
    assert text.count("lower is better</p>") == text.count("higher is better</p>") == 1
    assert "tiny &lt;1&gt;: measured 2026-01-02 with mexma 0.1 on A &lt;B&gt;" in text
    assert "xsim ↓, mean" in text and "xsim ↑, mean" in text


def test_encoders_of_one_name_are_told_apart() -> None:
    pooled = [
        replace(XSIM, encoder={"name": "mini", "fingerprint": mark, "pooling": pooling})
        for mark, pooling in (("f", "cls"), ("g", "mean"))
    ]
    text = page(*pooled)
    assert "mini, cls (here)" in text and "mini, mean (here)" in text
    assert "mini (here)" in page(pooled[0])
    retrained = replace(XSIM, encoder=pooled[0].encoder | {"fingerprint": "h"}, scores={"xsim": 7.25})
    text = page(*pooled, retrained)  # the same words, other weights
    assert "mini, f, cls (here)" in text and "mini, h, cls (here)" in text
    overview = text[: text.index("</section>")]
    assert overview.count(">12.50</td>") == 2 and overview.count(">7.25</td>") == 1


def test_measurements_that_differ_in_a_setting_say_which() -> None:
    absolute = replace(XSIM, settings=XSIM.settings | {"margin": "absolute"})
    assert [row[1] for row in compared([XSIM, absolute])[1:]] == [
        "flores, margin ratio, mean of 2 languages",
        "flores, margin absolute, mean of 2 languages",
    ]
    assert compared([XSIM])[1][1] == "flores, mean of 2 languages"
    assert "flores, margin absolute" in page(XSIM, absolute)


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_score_that_one_encoder_lacks_moves_no_other(lacking: int) -> None:
    whole = {"score": 70.0, "eng": 81.25, "zh": 62.5, "fr": 66.25}
    results = [
        Result(
            "mteb",
            {"name": f"tiny{number}"},
            {"tasks": "table4"},
            {"eng": 71.25, "fr": 56.25} if number == lacking else whole,  # zh could not be had
            [{"task": "STS12", "score": 50.0}],
            "mteb-table4",
        )
        for number in (0, 1)
    ]
    section = page(*results).partition('id="r1"')[2].partition("</table>")[0]
    header, *body = [
        re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall("<tr.*?</tr>", section)
    ]
    rows = {row[0]: dict(zip(header, row, strict=True)) for row in body}
    lacks, has = rows[f"tiny{lacking} (here)"], rows[f"tiny{1 - lacking} (here)"]
    assert [lacks[name] for name in ("score", "eng", "zh", "fr")] == ["-", "71.25", "-", "56.25"]
    assert [has[name] for name in ("score", "eng", "zh", "fr")] == ["70.00", "81.25", "62.50", "66.25"]
    assert rows["SONAR"]["score"] == "58.04"


def test_dots_stand_where_their_values_are() -> None:
    text = chart(Series("s", [0.0, 50.0, None]))
    dots = re.findall(r'<u class="c0" style="left:([\d.]+)%" title="(.*?)">', text)
    ticks = {tick: place for place, tick in re.findall(r'<span style="left:([\d.]+)%">([\d.]+)</span>', text)}
    assert dots == [(ticks["0"], "a, s: 0.00"), (ticks["50"], "b, s: 50.00")]
    assert (ticks["0"], ticks["50"]) == ("0.00", "100.00")
    assert "&lt;c&gt;" in text and "<c>" not in text
    equal = chart(Series("s", [50.0] * 3), Series("t", [50 + 1e-14] * 3))
    assert equal.count('style="left:50.00%" title=') == 6


def test_the_best_is_on_top() -> None:
    def order(result: Result) -> list[str]:
        return re.findall(r'class="name(?: odd)?" title="([a-z]{3})_', page(result))

    own = replace(XSIM, benchmark=None)
    assert order(own) == ["fra", "deu"]  # errors
    assert order(replace(own, task="sts")) == ["deu", "fra"]


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 0), (0.02, 0.9), (97.1, 99.3), (-3, 5), (5, 5), (50, 50 + 1e-14), (0, 1e-14), (0, 100)],
)
def test_ticks_hold_all_values(low: float, high: float) -> None:
    ticks = ticks_of(low, high)
    assert ticks[0] <= low and high <= ticks[-1] and 2 <= len(ticks) <= 9
    assert ticks == sorted(set(ticks))


def test_one_page_of_nothing_but_counts() -> None:
    bare = Result("attention", {"name": "x"}, {}, {"entropy": 2.5}, [])
    assert "2.50" in page(bare)


def test_paths_are_relative_to_the_page(tmp_path: Path) -> None:
    data, encoder = tmp_path / "data" / "flores", tmp_path / "pages" / "encoder"
    result = replace(
        XSIM, encoder=XSIM.encoder | {"name": str(encoder)}, settings={"data": [str(data), "sts.tsv"]}
    )
    (tmp_path / "pages").mkdir()
    write_results_page(tmp_path / "pages" / "page.html", [result], headings())
    text = (tmp_path / "pages" / "page.html").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert "../data/flores, sts.tsv" in text and "encoder (here)" in text
