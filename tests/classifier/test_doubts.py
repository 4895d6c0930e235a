from __future__ import annotations

import pytest

from mexma_cli.classifier.doubts import Doubts, doubts_in_words

NAMES = ["Brych", "Orwell", "Kandinsky", "Toshiba", "Mbappe"]
USUAL = [
    (f"Dann sah {name} {n} große Schiffe in Hamburg.", f"Then {name} saw {n} large ships in Hamburg.")
    for n in range(12)
    for name in NAMES
] + [("Wo ist das?", "Where is that?")]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Es waren 40 Schiffe.", "There were 14 ships.", "numbers differ: 40 / 14"),
        ("Am 12.08.2016 um 9:15", "On 8/12/2016 at 9.15", ""),
        ("Es waren 40 Schiffe.", "There were ships.", "number on one side only: 40"),
        ("Also 1,5 mio. für 3.", "So 1.5 million.", "number on one side only: 3"),
        ("Nun sah Felix alles.", "Now he saw all.", "names without counterpart: Felix"),
        ("Es war so. Dann sah er das.", "It was so. Then he saw it.", ""),
        ("Das weiß in Hamburg keiner!", "das weiß in HAMBURG keiner", "copy"),
        ("Es waren 40 Schiffe.", "Es waren 14 Schiffe.", "copy; numbers differ: 40 / 14"),
        ("Das weiß in Hamburg keiner", "Nobody knows that in Hamburg?", "a question on one side only"),
        (
            "Ja.",
            "Yes, I think that it would be the best thing to do now.",
            "lengths differ: 3 / 55 characters",
        ),
    ],
)
def test_reasons(source: str, target: str, expected: str) -> None:
    assert doubts_in_words(Doubts.usual(USUAL).of(source, target)) == expected


def test_reasons_say_where_they_stand() -> None:
    (doubt,) = Doubts.usual(USUAL).of("Es waren 40 Schiffe.", "There were 14 ships.")
    assert (doubt.source, doubt.target) == ([(9, 11)], [(11, 13)])


def test_what_usual_pairs_have_is_no_reason() -> None:
    """Names that have another form in the other language, and words that are written like names."""
    londons = [(f"Er sah {name} in Londyn.", f"He saw {name} in England.") for name in NAMES * 8]
    usual = Doubts.usual(USUAL + londons)
    assert usual.of("Das ist in Londyn.", "That is here.") == []
    nouns = [(f"Da war ein {word} im {word}.", "There was a thing in it.") for word in ("Haus", "Baum")] * 30
    assert Doubts.usual(nouns).of("Da war ein Wal im Bad.", "There was a thing in it.") == []


def test_copies_say_nothing_of_what_is_usual() -> None:
    """Names of copies have a counterpart: with them, names that translations write otherwise would, too."""
    other = [(f"Dann sah Bremen{n} alles.", "Then he saw all of it.") for n in range(30)]
    copies = [(f"Then {name} saw {n} ships.",) * 2 for n in range(12) for name in NAMES]
    assert Doubts.usual([*copies, *other]) == Doubts.usual(other)
    assert Doubts.usual(other).names[0] is False


def test_of_no_pairs() -> None:
    assert Doubts.usual([]).of("Ja.", "Yes.") == Doubts.usual([]).of(" ", "") == []
