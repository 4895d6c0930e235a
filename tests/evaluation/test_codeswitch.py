"""Code-switched sentences: which words, how many, always the same by seed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.codeswitch import code_switched, read_dictionary, write_code_switched
from mexma_cli.settings.stages import Switching
from tests.command import write
from tests.faults.running import tree
from tests.stores import full_disk

SOURCE = ["Le chien mange.", "Où est le chat ?", "Rien ici", "", "Le chat, le chien !", "Le chien mange."]
TARGET = ["The dog eats.", "Where is the cat?", "Nothing here", "x", "The cat, the dog!", "A dog eats."]
WORDS = {"chien": ("dog", "hound"), "chat": ("cat",), "mange": ("eats",)}


def test_the_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "fr-en.txt"
    path.write_text("chien dog\nChien hound\nchat\tcat\n\nparis Paris\nchien dog\n\n", encoding="utf-8")
    assert read_dictionary(path) == {"chien": ("dog", "hound"), "chat": ("cat",)}


def test_every_known_word_at_rate_1() -> None:
    made = code_switched(SOURCE, TARGET, WORDS, Switching(sentences=10, rate=1.0, seed=0))
    assert made.rows == [0, 1, 4]  # nothing to replace in 2, 3 is empty, 5 is 0 again
    assert made.sentences[1] == "Où est le cat ?"
    assert made.sentences[0] in {"Le dog eats.", "Le hound eats."}
    assert (made.usable, made.words, made.replaced) == (3, 3 + 4 + 4, 2 + 1 + 2)


def test_one_word_at_rate_0() -> None:
    made = code_switched(SOURCE, TARGET, WORDS, Switching(sentences=10, rate=0.0, seed=0))
    assert made.replaced == len(made.rows) == 3
    assert made.sentences[1] == "Où est le cat ?"


def test_polysemous_words_get_any_translation() -> None:
    source = [f"chien {n}" for n in range(60)]
    made = code_switched(source, source, WORDS, Switching(sentences=60, rate=0.5, seed=1))
    assert {sentence.split()[0] for sentence in made.sentences} == {"dog", "hound"}


def test_the_rate_is_one_of_words() -> None:
    source = [" ".join(["chat"] * 50) + f" {n}" for n in range(40)]
    made = code_switched(source, source, WORDS, Switching(sentences=40, rate=0.3, seed=1))
    assert 0.25 < made.replaced / (50 * 40) < 0.35


def test_marks_and_elisions() -> None:
    found = code_switched(
        ["l'école हिन्दी"],
        ["x"],
        {"école": ("school",), "हिन्दी": ("Hindi",)},
        Switching(sentences=1, rate=1.0, seed=0),
    )
    assert found.sentences == ["l'school Hindi"]


def test_nothing_to_replace() -> None:
    with pytest.raises(MexmaError, match="none of 6 sentences has a word of the dictionary"):
        code_switched(SOURCE, TARGET, {"gato": ("cat",)}, Switching(sentences=5, rate=0.5, seed=0))


@given(seed=st.integers(0, 2**31), count=st.integers(1, 12))
def test_equal_seeds_give_equal_sets(seed: int, count: int) -> None:
    source = [f"le chien {n} mange le chat" for n in range(12)]
    one = code_switched(source, source, WORDS, Switching(sentences=count, rate=0.5, seed=seed))
    assert one == code_switched(source, source, WORDS, Switching(sentences=count, rate=0.5, seed=seed))
    assert len(one.rows) == count and one.rows == sorted(set(one.rows))
    assert all(text != source[row] for row, text in zip(one.rows, one.sentences, strict=True))
    whole = code_switched(source, source, WORDS, Switching(sentences=12, rate=0.5, seed=seed))
    assert [whole.sentences[row] for row in one.rows] == one.sentences  # not a matter of the others


def test_the_files_of_a_set_change_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = write(tmp_path / "fra.txt", *SOURCE), write(tmp_path / "eng.txt", *TARGET)
    dictionary = write(tmp_path / "words", "chien dog", "chat cat")
    write_code_switched(texts, dictionary, tmp_path / "set", "fra", Switching())
    before, synced = tree(tmp_path), list[int]()

    def full_at_the_last(file: int) -> None:
        synced.append(file)
        if len(synced) == 3:
            full_disk()

    monkeypatch.setattr(os, "fsync", full_at_the_last)
    with pytest.raises(MexmaError, match="no space left on the disk"):
        write_code_switched(texts, dictionary, tmp_path / "set", "fra", Switching(seed=1))
    assert tree(tmp_path) == before
