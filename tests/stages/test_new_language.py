"""Dev text that is split off: always the same, and nowhere else in the text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.stages.new_language import begin
from mexma_cli.text.duplicates import fold
from tests.command import write
from tests.examples import demo_pairs


def pairs(count: int) -> list[str]:
    """As many lines: most once, some again with another case or translation, some that rules drop."""
    found = [f"kalma {n} ce {n * 7}\tword {n} is {n * 7}" for n in range(count)]
    found += [f"KALMA {n} ce {n * 7}!\tanother {n}" for n in range(0, count, 3)]
    found += [f"wata {n}\tword {n} is, {n * 7}." for n in range(1, count, 3)]
    return [*found, "only one side\t", "\t", "x\t" + "y" * 400]


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_what_is_split_off_is_nowhere_else(tmp_path: Path) -> None:
    lines = pairs(600)
    begin("hau_Latn", [write(tmp_path / "a.tsv", *lines)], tmp_path / "run")
    folder = tmp_path / "run" / "dev"
    dev = set(zip(read(folder / "hau_Latn.txt"), read(folder / "eng_Latn.txt"), strict=True))
    assert len(dev) == 1000 // 20  # of the pairs that rules let pass, 600 and twice 200
    held_out = {fold(sentence) for pair in dev for sentence in pair}
    rest = [line.split("\t") for line in lines if tuple(line.split("\t")) not in dev]
    assert len(rest) == len(lines) - len(dev)
    assert not held_out & {fold(sentence) for pair in rest for sentence in pair}


def test_the_mining_set_has_the_dev_pairs_and_no_other_translations(tmp_path: Path) -> None:
    lines = pairs(600)
    begin("hau_Latn", [write(tmp_path / "a.tsv", *lines)], tmp_path / "run")
    folder = tmp_path / "run" / "dev"
    name = "hau_Latn-eng_Latn"
    sides = [
        dict(line.split("\t") for line in read(folder / f"{name}.{code}.tsv")) for code in name.split("-")
    ]
    gold = {
        tuple(side[one] for side, one in zip(sides, line.split("\t"), strict=True))
        for line in read(folder / f"{name}.gold.tsv")
    }
    dev = set(zip(read(folder / "hau_Latn.txt"), read(folder / "eng_Latn.txt"), strict=True))
    assert gold == dev
    assert min(map(len, sides)) > len(dev)
    there = {line for line in lines if set(line.split("\t")) <= {*sides[0].values(), *sides[1].values()}}
    assert there == {"\t".join(pair) for pair in dev}


def test_the_split_is_of_the_content(tmp_path: Path) -> None:
    """Whatever the order of lines, the number of files, and the run's name."""
    lines = pairs(600)
    begin("hau_Latn", [write(tmp_path / "a.tsv", *lines)], tmp_path / "one")
    parts = [write(tmp_path / "b.tsv", *reversed(lines[500:])), write(tmp_path / "c.tsv", *lines[:500])]
    begin("hau_Latn", parts, tmp_path / "two")
    for path in (tmp_path / "one" / "dev").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / "dev" / path.name).read_bytes()


def test_repeated_pairs_are_split_off_once(tmp_path: Path) -> None:
    """Within a file, in several files, and where a file is named twice."""
    lines = demo_pairs(400)
    text, again = write(tmp_path / "a.tsv", *lines), write(tmp_path / "b.tsv", *reversed(lines))
    begin("spa_Latn", [text], tmp_path / "one")
    begin("spa_Latn", [text, text], tmp_path / "named")
    begin("spa_Latn", [text, again], tmp_path / "files")
    begin("spa_Latn", [write(tmp_path / "c.tsv", *lines, *lines)], tmp_path / "file")
    dev = read(tmp_path / "one" / "dev" / "spa_Latn.txt")
    assert len(dev) == 20
    for name in ("named", "files", "file"):
        assert read(tmp_path / name / "dev" / "spa_Latn.txt") == dev


def test_no_pair_with_sentences_of_its_own(tmp_path: Path) -> None:
    lines = [line for pair in demo_pairs(150) for line in (pair, pair.upper())]
    with pytest.raises(MexmaError, match=r"no pair is left for dev text: of 300 different pairs, 300 were"):
        begin("spa_Latn", [write(tmp_path / "a.tsv", *lines)], tmp_path / "run")


def test_killed_while_it_is_split_off(tmp_path: Path) -> None:
    text, run = write(tmp_path / "a.tsv", *pairs(600)), tmp_path / "run"
    begin("hau_Latn", [text], run)
    gold = run / "dev" / "hau_Latn-eng_Latn.gold.tsv"
    before = gold.read_bytes()
    gold.unlink()
    write(run / "dev" / "eng_Latn.txt", "half")
    begin("hau_Latn", [text], run)
    assert gold.read_bytes() == before and len(read(run / "dev" / "eng_Latn.txt")) == 50
    (run / "data" / "prepare.partial").mkdir(parents=True)  # what a power cut leaves of what is finished
    write(run / "dev" / f"{gold.name}.partial" / ".mexma")
    begin("hau_Latn", [text], run)
    assert not [*run.rglob("*.partial")]


def test_pairs_of_a_memory_are_read_by_their_languages(tmp_path: Path) -> None:
    """Also where the English side is the first one, beside a third language."""
    plain = [line for line in pairs(600) if all(map(str.strip, line.split("\t")))]
    units = [
        f'<tu><tuv xml:lang="{tag}"><seg>{two}</seg></tuv><tuv xml:lang="ha-NG"><seg>{one}</seg></tuv>'
        '<tuv xml:lang="fr"><seg>x</seg></tuv></tu>'
        for tag, (one, two) in zip(["EN-GB"] * len(plain), (line.split("\t") for line in plain), strict=True)
    ]
    memory = write(tmp_path / "m.tmx", f"<tmx><body>{''.join(units)}</body></tmx>")
    begin("hau_Latn", [memory], tmp_path / "memory")
    begin("hau_Latn", [write(tmp_path / "a.tsv", *plain)], tmp_path / "table")
    for name in ("hau_Latn.txt", "eng_Latn.txt", "hau_Latn-eng_Latn.gold.tsv"):
        assert read(tmp_path / "memory/dev" / name) == read(tmp_path / "table/dev" / name) != []


def test_two_texts_are_no_pairs_and_the_hint_joins_them(tmp_path: Path) -> None:
    texts = [write(tmp_path / name, *(f"{name} {n}" for n in range(300))) for name in ("a.txt", "b.txt")]
    with pytest.raises(MexmaError, match=r"a\.txt, line 1: 1 tab-separated field") as error:
        begin("hau_Latn", texts, tmp_path / "run")
    assert error.value.hint == f"`paste {texts[0]} OTHER > pairs.tsv` joins two aligned texts"


def test_what_is_refused(tmp_path: Path) -> None:
    text, run = write(tmp_path / "a.tsv", *pairs(600)), tmp_path / "run"
    with pytest.raises(MexmaError, match="English already"):
        begin("eng_Latn", [text], run)
    with pytest.raises(MexmaError, match=r"b\.tsv: no such file"):
        begin("hau_Latn", [text, tmp_path / "b.tsv"], run)
    with pytest.raises(MexmaError, match=r"empty\.tsv has no lines"):
        begin("hau_Latn", [text, write(tmp_path / "empty.tsv")], run)
    with pytest.raises(MexmaError, match=r"90 of the pairs can be used, and 200 are the fewest"):
        begin("hau_Latn", [write(tmp_path / "few.tsv", *pairs(600)[:90])], tmp_path / "few")
    (tmp_path / "texts").mkdir()
    with pytest.raises(MexmaError, match=r"texts is a folder, not a text file"):
        begin("hau_Latn", [text, tmp_path / "texts"], run)
    with pytest.raises(MexmaError, match=r"stdin cannot be read twice"):
        begin("hau_Latn", [Path("-")], run)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MexmaError, match=r"pipe cannot be read twice"):
        begin("hau_Latn", [tmp_path / "pipe"], run)
    write(tmp_path / "other" / "thesis.txt", "mine")
    with pytest.raises(MexmaError, match="other holds something else"):
        begin("hau_Latn", [text], tmp_path / "other")
    assert not run.exists()
    begin("hau_Latn", [text], run)
    write(text, *pairs(500))
    with pytest.raises(MexmaError, match=r"new-language\.yaml is of another command or of other text"):
        begin("hau_Latn", [text], run)


def test_swapped_columns_are_refused_and_can_be_mended(tmp_path: Path) -> None:
    swapped = ["\t".join(reversed(line.split("\t"))) for line in demo_pairs(400)]
    text = write(tmp_path / "pairs.tsv", *swapped)
    with pytest.raises(MexmaError, match=r"of the sources look English, and 0% of the targets"):
        begin("spa_Latn", [text], tmp_path / "run")
    begin("spa_Latn", [write(text, *demo_pairs(400))], tmp_path / "run")


def test_a_step_takes_no_more_pairs_than_there_are(tmp_path: Path) -> None:
    """Also when the command is given again, and not where the user says how many."""
    text, run = write(tmp_path / "pairs.tsv", *demo_pairs(400)), tmp_path / "run"
    for _ in range(2):
        assert begin("spa_Latn", [text], run).phases[0].trainer.batch_pairs == 256
    chosen = begin("spa_Latn", [text], tmp_path / "own", ["trainer.batch_pairs=64"])
    assert chosen.phases[0].trainer.batch_pairs == 64


def test_dev_pairs_keep_the_rules_that_training_pairs_keep(tmp_path: Path) -> None:
    """The rule `script`, too, which depends on the languages."""
    other = [f"слово {n} и {n * 7}\tword {n} and {n * 7}" for n in range(600)]
    text = write(tmp_path / "pairs.tsv", *demo_pairs(400), *other)
    begin("spa_Latn", [text], tmp_path / "run", ["data.rules.script=0.5"])
    dev = read(tmp_path / "run" / "dev" / "spa_Latn.txt")
    assert len(dev) == 20 and not [line for line in dev if "слово" in line]
