"""Make examples/spa-eng: two monolingual files with 1,000 translations hidden in them, and the gold list.

    python examples/make_demo.py ../shared/data examples/spa-eng

Reads Tatoeba sentences (CC BY 2.0 FR) from a folder with `tatoeba/` (the line-aligned LASER test sets, which
are only ever measured on) and `tatoeba_mt/` (other pairs, as `sentence TAB English TAB label`, gzip).
The same input gives the same bytes.
"""

from __future__ import annotations

import gzip
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SEED = 20240918
NUM_DISTRACTORS = 2000

_CONTRACTIONS = [
    (re.compile(r"\bcan't\b"), "can not"),
    (re.compile(r"\bcannot\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"'m\b"), " am"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'s\b"), " is"),
]


def key(sentence: str) -> str:
    """What two lines share when they differ in case, punctuation or contractions only."""
    text = sentence.casefold().replace("\u2019", "'")
    for pattern, full in _CONTRACTIONS:
        text = pattern.sub(full, text)
    return " ".join(re.findall(r"\w+", text))


def read_tatoeba(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(language, sentence, English) of every measured set, in the order of the file names."""
    for english_path in sorted(folder.glob("tatoeba.*-eng.eng")):
        language = english_path.name.split(".")[1].removesuffix("-eng")
        source = english_path.with_suffix(f".{language}").read_text(encoding="utf-8").splitlines()
        english = english_path.read_text(encoding="utf-8").splitlines()
        for sentence, translation in zip(source, english, strict=True):
            yield language, sentence.strip(), translation.strip()


def read_tatoeba_mt(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(language, sentence, English) of every other pair."""
    for path in sorted(folder.glob("*-eng.tsv.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                sentence, english, _ = line.rstrip("\n").split("\t")
                yield path.name.split("-")[0], sentence.strip(), english.strip()


def choose_gold(measured: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """The Spanish set without the pairs whose Spanish or English stands there twice."""
    pairs = [(spanish, english) for language, spanish, english in measured if language == "spa"]
    counts: dict[str, int] = defaultdict(int)
    for spanish, english in pairs:
        counts["spa " + key(spanish)] += 1
        counts["eng " + key(english)] += 1
    return [(s, e) for s, e in pairs if counts["spa " + key(s)] == 1 and counts["eng " + key(e)] == 1]


def main(data: Path, output: Path) -> None:
    measured = list(read_tatoeba(data / "tatoeba"))
    others = list(read_tatoeba_mt(data / "tatoeba_mt"))
    gold = choose_gold(measured)

    # Two English sentences that translate the same foreign sentence say the same thing.
    said_by: dict[str, set[str]] = defaultdict(set)  # key of an English sentence -> foreign sentences
    english_of: dict[str, set[str]] = defaultdict(set)  # foreign sentence -> keys of its English
    spanish_of: dict[str, set[str]] = defaultdict(set)  # key of an English sentence -> keys of its Spanish
    for language, sentence, english in measured + others:
        foreign = f"{language.split('_')[0]} {key(sentence)}"
        said_by[key(english)].add(foreign)
        english_of[foreign].add(key(english))
        if foreign.startswith("spa "):
            spanish_of[key(english)].add(key(sentence))

    def paraphrases(english_key: str) -> set[str]:
        return {other for foreign in said_by[english_key] for other in english_of[foreign]} | {english_key}

    rng = random.Random(SEED)
    gold_english = {key(english) for _, english in gold}
    taken_english = {other for english in gold_english for other in paraphrases(english)}
    # Spanish that translates a gold English sentence, or a paraphrase of one, would be gold too.
    taken_spanish = {spanish for english in taken_english for spanish in spanish_of[english]}

    candidates = sorted({s for language, s, _ in others if language == "spa_Latn" and key(s)})
    rng.shuffle(candidates)
    spanish_distractors: list[str] = []
    for spanish in candidates:
        if len(spanish_distractors) == NUM_DISTRACTORS:
            break
        if key(spanish) in taken_spanish:
            continue
        taken_spanish.add(key(spanish))
        spanish_distractors.append(spanish)
        for english in english_of[f"spa {key(spanish)}"]:
            taken_english |= paraphrases(english)

    candidates = sorted({english for language, _, english in measured if language != "spa" and key(english)})
    rng.shuffle(candidates)
    english_distractors: list[str] = []
    for english in candidates:
        if len(english_distractors) == NUM_DISTRACTORS:
            break
        if key(english) in taken_english:
            continue
        taken_english |= paraphrases(key(english))
        english_distractors.append(english)

    spanish_lines = [spanish for spanish, _ in gold] + spanish_distractors
    english_lines = [english for _, english in gold] + english_distractors
    rng.shuffle(spanish_lines)
    rng.shuffle(english_lines)
    gold.sort(key=lambda pair: spanish_lines.index(pair[0]))

    output.mkdir(parents=True, exist_ok=True)
    for name, lines in [
        ("spa.txt", spanish_lines),
        ("eng.txt", english_lines),
        ("gold.tsv", [f"{spanish}\t{english}" for spanish, english in gold]),
    ]:
        assert all("\n" not in line and line for line in lines)
        (output / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
        print(f"{output / name}: {len(lines)} lines", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} DATA_FOLDER OUTPUT_FOLDER")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
