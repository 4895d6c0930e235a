"""The rules: each breaks what it should and nothing else, in any batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError, message_lines
from mexma_cli.text.duplicates import fold
from mexma_cli.text.rules import (
    CODES,
    NAMES,
    OF_SENTENCES,
    RULES,
    SMOOTHING,
    PairRules,
    SentenceRules,
    chosen_limits,
)
from tests.endless import processor_seconds

UNSPACED = ("Jpan", "Hans", "Thai")
FINE = (
    "The committee met on 12 March 2019 in Geneva, and 45 of its 60 members voted for it.",
    "Die Donaudampfschifffahrtsgesellschaft wurde 1829 gegründet.",
    "R&D & AT&T: a < b, but c > d; I <3 you!",
    "NÃO SOU EU, IRMÃ.",
    "La Â de l'alphabet…",
    "Yes.",
    "Holy, holy, holy is the Lord God Almighty, who was, and is, and is to come.",
)


def reasons(sentences: list[str], script: str | None = "Latn", *on: str) -> list[str]:
    limits = chosen_limits(on, ["all"]) if on else chosen_limits()
    return [NAMES[code] for code in SentenceRules(limits, script).codes(sentences)]


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        *((sentence, "") for sentence in FINE),
        ("", "missing"),
        ("Proběhlo vyÅ¡etřování případu", "encoding"),
        ("PÅ™ípad byl uzavřen", "encoding"),
        ("Příliš žluÅ¥oučký kůň", "encoding"),
        ("Hij zei dat het cafÃ© dé plek is", "encoding"),
        ("Le CAFÉ™ est là, dit-il", ""),
        ("Han råbte »BLÅ« og gik hjem", ""),
        ("”Ääni on ääni”, hän sanoi", ""),
        ("\u200b \u200e", "missing"),
        ("No", "short"),
        ("a b " * 300, "long"),
        ("x" * 61, "long-word"),
        ("See " + "ab" * 31 + " for more", "long-word"),
        ("A line with a bell\a in it", "encoding"),
        ("Na\ufffdve readers", "encoding"),
        ("PrÃ©sident de la RÃ©publique", "encoding"),
        ("It is â€œquotedâ€\u009d here", "encoding"),
        ("Read <b>this</b> first", "html"),
        ("Fish &amp; chips", "html"),
        ("Time&nbsp;flies", "html"),
        ("? - ! (a) - ;", "letters"),
        ("Tel 0123 4567", "digits"),
        ("Price ↑↑↑↑ today", "symbols"),
        ("Это предложение.", "script"),
        ("Read more .........", "repeated-characters"),
        ("buy it now " * 6, "repeated-words"),
    ],
)
def test_reasons(sentence: str, reason: str) -> None:
    assert reasons([sentence.strip()]) == [reason]


def test_half_repaired_mojibake_of_every_code_page() -> None:
    spoilt = {
        "windows-1252": ["Das ist fÃ¼r mich schön", "Η λέξη ÎµÎ´ÏŽ είναι λάθος"],
        "windows-1250": ["Czeski Ĺľaden błąd", "Članovi ÄŤitave skupštine", "Liczba zakaĹĽeń rośnie"],
        "windows-1251": ["Это слово РїСЂРёРІРµС‚ не читается", "Der Zug fГ¤hrt früh", "Це малРёна"],
        "windows-1253": ["Das GerΓ¤t ist schön", "Η λέξη ΞµΞ΄ΟŽ είναι λάθος", "Το όνομΞ± του"],
        "windows-1257": ["Lietuvių Å¾odis yra gražus", "Det er rødt og blĆ„tt"],
        "macroman": ["Das Ger√§t ist schön", "Это слово –ø—Ä–∏–≤–µ—Ç не читается"],
        "cp437": ["Das Ger├ñt ist schön", "Это ╨┐╤Ç╨╕╨▓╨╡╤é не читается"],
        "national": ["ط§ظ„ط¹ط±ط¨ظٹط© هنا", "Он сказал п©я─п╦п╡п╣я┌ нам", "เธ—เธ”เธชเธญเธš ครับ"],
        "U+FFFD": ["他说锟斤拷你好", "На улицпїЅ", "Το καφοΏ½"],
    }
    for page, lines in spoilt.items():
        assert reasons(lines, None, "encoding") == ["encoding"] * len(lines), page
    good = [
        "Дійшовши ж до Мізії, хотіли піти до Вітінії",
        "і межаў Лібіі каля Кірэнэі, Нініўцы ўстануць",
        "мaртa изaђe из EУ”, кaжe Maрвин",
        "ΤΟ ΈΡΓΟ «ΑΥΤΟ» – ΕΊΝΑΙ ΕΔΏ… Η ΆΔΕΙΑ΄",
        "Сјајно «МЋ» и Рјечник, Сњежана…",
        "ZAŻÓŁĆ GĘŚLĄ JAŹŃ, ŻÓŁW",
        "Ärzte: „Ü“, »Ö«, ‚Ä‘ — Å… É”",
        "√2 ≈ 1.41, 2√π, a ÷ b, Δx ± σ²",
        "a ├── b │ c └── d",
        "«MAÇÃ», “IRMÃ” e MANHÃ—disse: ROMÂ…",
        "1250 Å², EĞİTİMÎ”",
        "دری که غژغژ می‌کند عمرش بیشتر است.",
    ]
    assert reasons(good, None, "encoding") == [""] * len(good)


def test_every_rule_of_sentences_is_tried_here() -> None:
    tried = {mark.args[1][n][1] for mark in test_reasons.pytestmark for n in range(len(mark.args[1]))}
    here = {name for name, rule in RULES.items() if rule.of == "sentence"}
    assert here - tried == {"few-words", "many-words", "url"}


def test_rules_that_must_be_asked_for() -> None:
    assert reasons(["Two words", "Now three words"], "Latn", "few-words") == ["few-words", ""]
    assert reasons(["one two three", "one two"], "Latn", "many-words=2") == ["many-words", ""]
    written = ["See www.example.org/a", "Mail a.b@c.org", "see https://x", "100% @ home", "www. what?"]
    assert reasons(written, "Latn", "url") == ["url", "url", "url", "", ""]


def test_an_endless_word_with_an_at_sign_takes_no_endless_time() -> None:
    with processor_seconds(60):
        assert reasons(["a" * 1_000_000 + "@ home", "." * 1_000_000 + "@b.org"], "Latn", "url") == ["", "url"]


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("Jpan", "これは日本語の文です。"),
        ("Hans", "球最后避开守门的 Kepa Arrizabalaga 并成功射入龙门。"),
        ("Kore", "한국어 문장입니다."),
        ("Deva", "यह हिन्दी का वाक्य है।"),
        ("Thai", "นี่คือประโยคภาษาไทยที่ยาวมากกว่าหกสิบตัวอักษรโดยไม่มีช่องว่างระหว่างคำเลยแม้แต่ช่องเดียว"),
        ("Arab", "این یک جمله فارسی است."),
        (None, "В каком письме, не сказано."),
    ],
)
def test_every_script_is_written_in_its_own_way(script: str | None, sentence: str) -> None:
    assert reasons([sentence], script) == [""]
    assert reasons([sentence], "Geor") == ["script"]
    assert reasons([sentence], "Qaaa") == [""], "of private use"
    assert reasons([sentence], script, "few-words=9") == [
        "few-words" if " " in sentence and script not in UNSPACED else ""
    ]


SENTENCES = st.lists(st.text("ab 漢é9<&;>Ã©…。\t\n", max_size=30).map(str.strip), max_size=20)


@given(SENTENCES, st.integers(0, 20))
def test_a_sentence_is_judged_alone(sentences: list[str], cut: int) -> None:
    rules = SentenceRules({rule.name: rule.limit or 0.0 for rule in RULES.values()}, "Latn")
    parts = [rules.codes(sentences[:cut]), rules.codes(sentences[cut:])]
    assert rules.codes(sentences).tolist() == np.concatenate(parts).tolist()


def test_the_first_rule_gives_the_reason() -> None:
    rules = SentenceRules(chosen_limits(), "Latn")
    assert rules.codes(["<b>" * 400])[0] == min(CODES["long"], CODES["html"])


def test_rules_are_turned_on_and_off_by_name() -> None:
    assert "url" not in chosen_limits() and "html" in chosen_limits()
    changed = chosen_limits(["url", "short=5"], ["html"])
    assert changed["short"] == 5 and "url" in changed and "html" not in changed
    assert chosen_limits(["digits"], ["all"]) == {"digits": RULES["digits"].limit}
    assert list(changed) == [name for name in RULES if name in changed]


@pytest.mark.parametrize(
    ("on", "off", "message"),
    [
        (["shrot=3"], [], "there is no rule 'shrot'"),
        ([], ["htm"], "there is no rule 'htm'"),
        (["html=3"], [], "the rule html has no limit"),
        (["short=many"], [], "short=many: the limit is no number"),
        (["short=-1"], [], "short=-1: the limit is no number of 0 or more"),
        (["copy=95"], [], "copy=95: the limit is a share, at most 1; did you mean 0.95?"),
    ],
)
def test_mistakes_in_names_and_limits(on: list[str], off: list[str], message: str) -> None:
    with pytest.raises(MexmaError) as caught:
        chosen_limits(on, off)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("name", "of", "near"),
    [
        ("lenght", (), "short, long or ratio"),
        ("lenght", OF_SENTENCES, "short or long"),
        ("ratoi", (), "ratio"),
        ("numbrs", (), "numbers"),
        ("lang", OF_SENTENCES, "language"),
    ],
)
def test_the_nearest_rules_are_named_and_what_lists_all(name: str, of: Sequence[str], near: str) -> None:
    with pytest.raises(MexmaError) as caught:
        chosen_limits([name], of=of)
    asked, _, listed = (caught.value.hint or "").partition("? ")
    assert asked == f"did you mean {near}"
    assert "duplicate" in listed or listed == f"`mexma {'split' if of else 'filter'} --help` lists the rules"
    assert not any("…" in line for line in message_lines(caught.value))


def test_a_rule_says_its_limit() -> None:
    assert RULES["short"].says() == "fewer than 3 characters"
    assert RULES["short"].says(12.0) == "fewer than 12 characters"
    assert RULES["html"].says(0.0) == RULES["html"].about


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("Bonjour", "Hello", ""),
        ("", "Hello", "missing"),
        ("a", "Hello", "short"),
        ("x" * 51, "Hello", "long"),
        ("abcde", "x" * 35, ""),
        ("abcde", "x" * 36, "ratio"),
        ("Good MORNING", "Bonjour", "excluded"),
        ("Bonjour", "good  morning ", "excluded"),
        ("Read this", "read this!", "copy"),
        ("En 2019, 1 000 élus", "In 2019, 1,000 members", ""),
        ("En 2019, 2 000 élus", "In 2020, 1,000 members", "numbers"),
        ("Il a 5 ans", "He is five", ""),
        ("٣٥ من ٤٠", "35 of 40", ""),
        ("Le 12 mai 2019", "May 12 of 2018", ""),
    ],
)
def test_reasons_of_pairs(source: str, target: str, reason: str) -> None:
    on = ["short=2", "long=50", "ratio", "missing", "excluded", "copy", "numbers"]
    rules = PairRules(chosen_limits(on, ["all"]), excluded={fold("Good morning")})
    for pair in ((source, target), (target, source)):
        assert [NAMES[code] for code in rules.codes(*([side] for side in pair))] == [reason]


TEXT = st.text("ab é漢 ", max_size=40).map(str.strip)


@given(TEXT, TEXT, st.sampled_from([1.5, 3.0]), st.integers(1, 5), st.integers(10, 30))
def test_what_is_kept_is_within_the_limits(a: str, b: str, ratio: float, shortest: int, longest: int) -> None:
    rules = PairRules({"short": shortest, "long": longest, "ratio": ratio})
    sizes = sorted((len(a), len(b)))
    fits = sizes[0] >= shortest and sizes[1] <= longest
    fits = fits and sizes[1] + SMOOTHING <= ratio * (sizes[0] + SMOOTHING)
    assert bool(rules.codes([a], [b])[0]) != fits


def test_score_bands() -> None:
    rules = PairRules(chosen_limits(["low-score=1.1", "high-score=1.3"], ["all"]))
    scores = [1.09, 1.1, 1.3, 1.31, float("nan")]
    found = [NAMES[code] for code in rules.codes(["a"] * 5, ["b"] * 5, scores)]
    assert found == ["low-score", "", "", "high-score", "low-score"]
    assert [NAMES[code] for code in rules.codes(["a"], ["b"])] == ["low-score"], "there is none"


def test_a_chinese_character_is_three_letters() -> None:
    pair = ["他" * 20], ["x" * 60]
    for scripts, kept in (
        (("Latn", "Latn"), False),
        (("Hans", "Latn"), True),
        (("Hans", "Jpan"), False),
        (("Jpan", "Latn"), True),
        (("Hang", None), False),
    ):
        codes = PairRules({"ratio": 1.35}, scripts).codes(*pair)
        assert [NAMES[code] for code in codes] == ["" if kept else "ratio"]


def test_repetition_is_found_next_to_the_limit() -> None:
    rules = SentenceRules({"repeated-characters": 3, "repeated-words": 0.5})
    sentences = [
        "Nooo",
        "Noooo",
        "",
        "so so",
        "ab " * 9 + "c",
        "ab " * 5 + "c d e f g",
        "\u3000".join("ababababab"),
    ]
    found = [NAMES[code] for code in rules.codes(sentences).tolist()]
    assert found == ["", "repeated-characters", "", "", "repeated-words", "", "repeated-words"]
    assert NAMES[rules.codes(["aa"])[0]] == ""
    assert NAMES[SentenceRules({"repeated-characters": 0}).codes(["a"])[0]] == "repeated-characters"
