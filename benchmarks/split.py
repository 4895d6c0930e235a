"""How well and how fast `mexma split` works: splitting, languages, hyphens at line ends, every reason.
Throughput and memory, also of `langid` and `filter`.

    python benchmarks/split.py splitting ../shared/data
    python benchmarks/split.py languages ../shared/data
    python benchmarks/split.py kindred ../shared/data
    python benchmarks/split.py hyphens ../shared/data [--patterns]
    python benchmarks/split.py dirty ../shared/data --lang fra_Latn
    python benchmarks/split.py speed ../shared/data --megabytes 400 --workers 1 2
    python benchmarks/split.py speed ../shared/data --megabytes 10000 --only filter --minutes 90

DATA has ntrex128/CODE.txt.gz with ntrex128/docids.txt.gz (NTREX-128: news, a sentence a line, and the
document of each) and bible/CODE.txt.gz (verses); `kindred` takes quran/ (the same), and the first column of
tatoeba_mt/, tico19/, stories/ and lafand/[PART.]CODE-eng.tsv.gz, too, and `hyphens` that of wmt_newstest/.
With --patterns words are divided by pyphen's patterns (`pip install pyphen`). The times are of the processor,
of all processes together.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import os
import random
import re
import resource
import string
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from pathlib import Path
from threading import Thread

import numpy as np

from mexma_cli import languages
from mexma_cli.files import checksum_file
from mexma_cli.text.hyphens import without_line_hyphens
from mexma_cli.text.identify import Identifier, identifier, in_other_language, iso3, kindred
from mexma_cli.text.splitting import default_splitter, splitter

UNSPACED = ("Jpan", "Hans", "Hant")


def lines_of(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().split("\n")


def codes_in(data: Path) -> list[str]:
    names = sorted(path.name.removesuffix(".txt.gz") for path in (data / "ntrex128").glob("*.txt.gz"))
    return [name for name in names if name != "docids"]


def documents(data: Path, code: str) -> list[list[str]]:
    """The sentences of each NTREX document."""
    found: dict[str, list[str]] = defaultdict(list)
    ids = lines_of(data / "ntrex128" / "docids.txt.gz")
    for name, sentence in zip(ids, lines_of(data / "ntrex128" / f"{code}.txt.gz"), strict=True):
        if name and sentence.strip():
            found[name].append(sentence.strip())
    return list(found.values())


# Splitting


def boundary_f1(name: str, code: str, texts: list[list[str]]) -> float:
    """F1 in percent of the sentence ends inside documents that were joined, by letters before them."""
    split = splitter(name, code)
    between = "" if code.endswith(UNSPACED) else " "
    right = found = wanted = 0
    for sentences in texts:
        text = between.join(sentences)
        true = _ends(sentences)
        ours = _ends([text[start:end] for start, end in split(text)])
        right, found, wanted = right + len(true & ours), found + len(ours), wanted + len(true)
    return 200 * right / (found + wanted)


def _ends(sentences: list[str]) -> set[int]:
    ends, letters = set(), 0
    for sentence in sentences[:-1]:
        letters += len("".join(sentence.split()))
        ends.add(letters)
    return ends


def splitting(data: Path) -> None:
    """A row a language, and the mean of what `auto` takes; then how fast."""
    print("| language | sentencex | Moses | taken |\n| --- | --- | --- | --- |")
    best, taken, each = [], [], defaultdict(list)
    for code in codes_in(data):
        texts = documents(data, code)
        scores = {name: boundary_f1(name, code, texts) for name in ("sentencex", "moses")}
        chosen = default_splitter(code)
        best.append(max(scores.values()))
        taken.append(scores[chosen])
        for name, score in scores.items():
            each[name].append(score)
        mark = "" if scores[chosen] == best[-1] else " (worse)"
        print(f"| {code} | {scores['sentencex']:.1f} | {scores['moses']:.1f} | {chosen}{mark} |")
    means = {name: sum(scores) / len(scores) for name, scores in each.items()}
    mean = sum(taken) / len(taken)
    print(f"| mean | {means['sentencex']:.1f} | {means['moses']:.1f} | {mean:.1f} |")
    print(f"\nbest of both in each language: {sum(best) / len(best):.1f}")


# Hyphens at line ends

FITTED = "deu eng fin fra hun swe"
"""The languages that were looked at while the rules were made."""
HYPHENATED = f"{FITTED} ces ell est isl ita nld pol por rus spa ukr"
_OWN_HYPHEN = re.compile(r"(?<=\w)-(?=\w)")
_LETTERS = re.compile(r"[^\W\d_]{5,}")
_WIDTH, _DIVIDED, _SCANNED = 60, 0.7, 8000
"""Characters of a line; which share of the words is divided that could be; lines of a text."""


def hyphens(data: Path, patterns: bool) -> None:
    """A row a text: words that were divided at line ends, and how many `split` puts together as they were;
    the same of words that were divided at a hyphen of their own, and of hyphens that a space follows."""
    print("| text | divided | right % | at their own hyphen | right % | hyphen, space | right % |")
    print(f"|{' --- |' * 7}")
    totals: dict[str, list[Counter[str]]] = defaultdict(lambda: [Counter(), Counter()])
    for name, code in itertools.product(("bible", "ntrex128", "wmt_newstest"), HYPHENATED.split()):
        column = int(code == "eng" and name == "wmt_newstest")
        paths = sorted((data / name).glob(f"{'ces' if column else code}_*.gz"))
        if paths:
            lines = [line.split("\t")[column] for line in lines_of(paths[0]) if line][:_SCANNED]
            found = _put_together(" ".join(lines).split(), code if patterns else None)
            for total, counts in zip(totals["first six" if code in FITTED else "others"], found, strict=True):
                total.update(counts)
            _print_ends(f"{name} {code}", *found)
    for group, total in totals.items():
        _print_ends(f"all: {group}", *total)


def _print_ends(name: str, counts: Counter[str], right: Counter[str]) -> None:
    shares = [(counts[end], f"{100 * right[end] / max(counts[end], 1):.1f}") for end in ("", "-", "- ")]
    print(f"| {name} |", " | ".join(str(cell) for cells in shares for cell in cells), "|")


def _put_together(words: list[str], language: str | None) -> tuple[Counter[str], Counter[str]]:
    """How many line ends in a text that is wrapped and hyphenated had nothing, a hyphen, or a hyphen and a
    space in their places, and how many have it again."""
    lines, ends = _wrapped(words, language)
    (text,), _ = without_line_hyphens(["\n".join(lines)], [0])
    counts, right, place = Counter(ends), Counter[str](), 0
    for line, end in zip(lines, [*ends, None], strict=True):
        bare = line if end is None else line.removesuffix("-")
        assert text.startswith(bare, place)
        place += len(bare)
        found = re.compile(r"-?\s?").match(text, place)
        assert found is not None
        place = found.end()
        if end is not None:
            right[end] += found[0].replace("\n", " ") == end
    return counts, right


def _wrapped(words: list[str], language: str | None) -> tuple[list[str], list[str | None]]:
    """The lines of a text, and what each line end but the last stands for; None for a space."""
    chance, line = random.Random(0), ""
    lines: list[str] = []
    ends: list[str | None] = []
    for word in words:
        while len(line) + 1 + len(word) > _WIDTH:
            room = _WIDTH - len(line) - 1
            own = [found.end() for found in _OWN_HYPHEN.finditer(word) if found.end() <= room]
            places = own or [place for place in _division(word, language) if place < room]
            at = chance.choice(places) if places and chance.random() < _DIVIDED else 0
            if not (at or line):
                break  # a word without a place to divide it, longer than a line
            hyphenated = line[-1:] == "-" and line[-2:-1].isalnum()
            ends.append(("-" if own else "") if at else "- " if hyphenated else None)
            lines.append(f"{line} {word[:at]}{'' if own else '-'}".strip() if at else line)
            line, word = "", word[at:]
        line = f"{line} {word}".strip()
    return [*lines, line], ends


def _division(word: str, language: str | None) -> list[int]:
    """Where a word may be divided: by the patterns of a language, or between any letters, but for two at its
    beginning and three at its end; nowhere if it has a hyphen."""
    if "-" in word:
        return []
    if language is None:
        return [
            place for part in _LETTERS.finditer(word) for place in range(part.start() + 2, part.end() - 2)
        ]
    import langcodes
    import pyphen

    name = pyphen.language_fallback(langcodes.standardize_tag(language))
    return [] if name is None else list(pyphen.Pyphen(lang=name, left=2, right=3).positions(word))


# Languages


def languages_known(data: Path) -> None:
    """Accuracy of identifiers on sentences of the languages that they know, and their speed."""
    codes = codes_in(data)
    texts = {code: [s for s in lines_of(data / "ntrex128" / f"{code}.txt.gz") if s.strip()] for code in codes}
    for name in ("py3langid", "heliport"):
        model = identifier(name)
        assert model is not None
        known = [code for code in codes if iso3(code) in model.known]
        exact, kin = (
            sum(_share(model, code, texts[code], wanted) for code in known) / len(known)
            for wanted in (lambda code: {iso3(code)}, kindred)
        )
        sample = [line for code in known for line in texts[code]]
        seconds = _seconds(lambda model=model, sample=sample: model.identify(sample))
        size = sum(len(line.encode()) for line in sample)
        print(f"{model.name}: {len(known)} of {len(codes)} languages, {exact:.1f} % right, ", end="")
        print(f"{kin:.1f} % with kindred ones, {size / 1e6 / seconds:.1f} MB/s")
    from py3langid.langid import LanguageIdentifier

    theirs = LanguageIdentifier.from_model_file("data/model.npz.xz", norm_probs=True)
    sample = [line for code in codes for line in texts[code][:40]]
    seconds = _seconds(lambda: [theirs.classify(line) for line in sample])
    print(f"py3langid itself: {sum(len(line.encode()) for line in sample) / 1e6 / seconds:.1f} MB/s")


KINDRED = ["ind zsm", "dan nob nno", "glg por", "xho zul", "bak tat"]
"""Of which kindred.tsv says that documents are told apart."""
CORPORA = ["bible", "quran", "stories", "lafand", "tico19", "tatoeba_mt", "ntrex128"]


def kindred_documents(data: Path) -> None:
    """How many documents of 1,000 characters and more (lines in a row of one corpus) are dropped, of those in
    the stated language and of those in a kindred one."""
    model = identifier("py3langid")
    assert model is not None
    print("| stated | documents in it | dropped | dropped % | documents in kindred ones | found % |")
    print(f"|{' --- |' * 6}")
    for group in map(str.split, KINDRED):
        texts = {code: {name: _long_documents(data / name, code) for name in CORPORA} for code in group}
        count = {code: sum(map(len, of.values())) for code, of in texts.items()}
        for stated in group:
            gone = {
                code: {name: _gone(model, stated, documents) for name, documents in of.items()}
                for code, of in texts.items()
            }
            lost = ", ".join(f"{some} in {name}" for name, some in gone[stated].items() if some) or 0
            share = 100 * sum(gone.pop(stated).values()) / count[stated]
            others, found = sum(map(count.get, gone)), sum(sum(of.values()) for of in gone.values())
            row = [stated, count[stated], lost, f"{share:.2f}", others, f"{100 * found / others:.1f}"]
            print("|", " | ".join(map(str, row)), "|")


def _long_documents(corpus: Path, code: str) -> list[list[str]]:
    lines = []
    for path in sorted(corpus.glob("*.gz")):
        name = path.name.removeprefix("dev.").removeprefix("train.").partition(".")[0].partition("-")[0]
        if corpus.name != "tatoeba_mt":
            lines += [row.partition("\t")[0] for row in lines_of(path) if iso3(name) == code]
        elif iso3(name) in kindred(code):  # with the language of each line
            rows = [row.split("\t") for row in lines_of(path)[:-1]]
            lines += [row[0] for row in rows if row[2] in (code, languages.resolve(code))]
    found: list[list[str]] = [[]]
    for line in filter(str.strip, lines):
        if sum(map(len, found[-1])) >= 1000:
            found.append([])
        found[-1].append(line)
    return found[:-1]


def _gone(model: Identifier, stated: str, documents: list[list[str]]) -> int:
    """How many documents are dropped whole."""
    lines = [line for document in documents for line in document]
    numbers = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
    other = in_other_language(lines, model, stated, numbers)
    return len(documents) - len(np.unique(numbers[~other]))


def _share(model: Identifier, code: str, lines: list[str], wanted: Callable[[str], object]) -> float:
    right = wanted(code)
    return 100 * sum(found.language in right for found in model.identify(lines)) / len(lines)  # type: ignore


def _seconds(work: Callable[[], object]) -> float:
    work()
    began = time.process_time()
    work()
    return time.process_time() - began


# A dirty corpus

OTHERS = ("eng_Latn", "deu_Latn", "spa_Latn", "ita_Latn", "nld_Latn", "pol_Latn", "tur_Latn", "vie_Latn")
OTHER_SCRIPTS = ("rus_Cyrl", "ell_Grek", "arb_Arab", "jpn_Jpan", "hin_Deva")
REPAIRED = ("mojibake", "entities", "control")
"""Defects that are mended, not dropped."""


def dirty_lines(data: Path, code: str, chance: random.Random) -> Iterator[tuple[str, str, str]]:
    """(label, line, line as it should be) in the order of the corpus; the label of a good line is ""."""
    good = [s for s in lines_of(data / "ntrex128" / f"{code}.txt.gz") if len(s) > 30]
    bible = data / "bible" / f"{code}.txt.gz"
    good += [s for s in lines_of(bible) if len(s) > 30][:8000] if bible.is_file() else []
    chance.shuffle(good)
    good = distinct([" ".join(line.split()) for line in good], code)
    good, fresh = good[: -len(good) // 10], good[-len(good) // 10 :]  # fresh: for what is repaired and kept
    ntrex = {c: lines_of(data / "ntrex128" / f"{c}.txt.gz") for c in OTHERS + OTHER_SCRIPTS}
    other = [line for c in OTHERS for line in ntrex[c] if len(line) > 30 and c != code]
    scripts = [line for c in OTHER_SCRIPTS for line in ntrex[c] if len(line) > 20]
    menu = [fresh.pop() for _ in range(18)]
    makers: dict[str, Callable[[str], str | None]] = {
        "language": lambda line: chance.choice(other),
        "script": lambda line: chance.choice(scripts),
        "html": lambda line: f'<p class="text">{line}</p>' if chance.random() < 0.5 else f"<b>{line}<br/>",
        "digits": lambda line: " ".join(str(chance.randrange(10**5)) for _ in range(8)),
        "symbols": lambda line: " ".join(chance.choices([*"★►|=©™", line.split()[0]], k=9)),
        "letters": lambda line: "(12:30) – [4/5] – " + "; ".join(line.split()[:2]) + " – (:) – (/) – ((-))",
        "encoding": lambda line: line.replace("a", "\ufffd", 3),
        "short": lambda line: chance.choice(["a", "x", "»", "–", "A"]),
        "long": lambda line: ", ".join(chance.sample(good, 14)).replace(".", ""),
        "long-word": lambda line: "".join(chance.choices(string.ascii_letters, k=90)) + " " + line,
        "repeated-characters": lambda line: line.replace("a", "a" * 20, 1),
        "repeated-words": lambda line: " ".join(line.split()[:2] * 12),
        "mojibake": lambda line: _broken(line),
        "entities": lambda line: line.replace(" ", "&nbsp;", 2).replace("a", "&#97;"),
        "control": lambda line: line[:9] + "\x00\x07" + line[9:],
        "near-duplicate": lambda line: _nearly(line, chance),
    }
    repeated = good[:200]
    for number, line in enumerate(good):
        yield "", line, line
        if number % 12 == 3:
            label = list(makers)[number // 12 % len(makers)]
            source = fresh.pop() if label in REPAIRED else chance.choice(good[: max(1, number)])
            made = makers[label](source)
            if made:
                yield label, made, source if label in REPAIRED else made
        if number > 400 and number % 31 == 0:
            again = chance.choice(repeated)
            yield "duplicate", again, again
        if number % 9 == 0:
            line = chance.choice(menu)
            yield "boilerplate", line, line


def distinct(lines: list[str], code: str) -> list[str]:
    """Lines of which no sentence came before, nor a line with a third of its runs of five characters."""
    split = splitter("auto", code)
    seen: set[str] = set()
    holders: dict[str, list[int]] = defaultdict(list)
    kept = []
    for line in lines:
        sentences = {line[start:end] for start, end in split(line)}
        runs = {line[place : place + 5] for place in range(len(line) - 4)}
        shared = Counter(holder for run in runs for holder in holders[run])
        if sentences & seen or any(count > len(runs) / 3 for count in shared.values()):
            continue
        for run in runs:
            if len(holders[run]) < 1000:
                holders[run].append(len(kept))
        seen |= sentences
        kept.append(line)
    return kept


def _broken(line: str) -> str | None:
    """UTF-8 that was read as Windows-1252, where that is something else and can be."""
    if sum(letter > "\x7f" for letter in line) < 2:
        return None
    return line.encode().decode("windows-1252", "ignore") if b"\x9d" not in line.encode() else None


def _nearly(line: str, chance: random.Random) -> str | None:
    """One word less, of a line of many."""
    words = line.split()
    if len(words) < 16:
        return None
    del words[chance.randrange(4, len(words) - 2)]
    return " ".join(words)


def dirty(data: Path, code: str) -> None:
    """Precision and recall of every reason, on text whose defects are known."""
    chance = random.Random(7)
    rows = list(dirty_lines(data, code, chance))
    by_line = {}
    with tempfile.TemporaryDirectory() as folder:
        text, out, rejects = (Path(folder) / name for name in ("in.jsonl", "out.txt", "rejects.tsv"))
        documents = []  # of ten lines, and now and then one of another encoding
        for start in range(0, len(rows), 10):
            for place, (label, _, right) in enumerate(rows[start : start + 10]):
                by_line[str(len(documents) + 1), place] = (label, right)
            content = "\n".join(line for _, line, _ in rows[start : start + 10])
            documents.append(json.dumps({"text": content}, ensure_ascii=False).encode())
            if start % 200 == 0:
                by_line[str(len(documents) + 1), 0] = ("not UTF-8", "")
                foreign = json.dumps({"text": f"é {rows[start][1]}"}, ensure_ascii=False)
                documents.append(foreign.encode("latin-1", "replace"))
        text.write_bytes(b"".join(document + b"\n" for document in documents))
        command = ["split", str(text), "--lang", code, "-o", str(out)]
        _mexma([*command, "--workers", "1", "--rejects", str(rejects), "--on", "near-duplicate"])
        found = _outcomes(text, out, rejects)
    _print_outcomes(by_line, found)
    _print_similar(found)


def _print_similar(found: dict[tuple[str, int], list[tuple[str, str]]]) -> None:
    """How many near-duplicates have 0.7 or more of their runs in common with another sentence."""
    kept = [_runs(text) for rows in found.values() for reason, text in rows if not reason]
    near = [_runs(text) for rows in found.values() for reason, text in rows if reason == "near-duplicate"]
    similar = sum(
        any(len(runs & other) >= 0.7 * len(runs | other) for other in kept + near if other is not runs)
        for runs in near
    )
    print(f"sentences dropped as near-duplicate: {len(near)}, with a similarity of 0.7 or more: {similar}")


def _runs(text: str) -> set[str]:
    return {text.casefold()[place : place + 5] for place in range(len(text) - 4)}


def _mexma(arguments: list[str]) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-m", "mexma_cli", "-q", *arguments], env=environment, text=True,
                          stderr=subprocess.PIPE, check=False)  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)


def _outcomes(text: Path, out: Path, rejects: Path) -> dict[tuple[str, int], list[tuple[str, str]]]:
    """(document, line in it) -> (reason or "", text) of each sentence there."""
    from mexma_cli.text.repair import repair

    counts: Counter[str] = Counter()
    starts: dict[str, list[int]] = {}
    for number, document in enumerate(text.read_bytes().splitlines(), 1):
        ends, end = [], 0
        for line in repair([json.loads(document.decode("utf-8", "replace"))["text"]], counts)[0].split("\n"):
            end += len(line) + 1
            ends += [end] * bool(line.strip())  # the others are tags that became line ends
        starts[str(number)] = ends
    found: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    places = out.with_name("out.docs").read_text(encoding="utf-8").splitlines()
    kept = zip(places, out.read_text(encoding="utf-8").splitlines(), strict=True)
    table = [("", *place.split("\t")[:2], sentence) for place, sentence in kept]
    for row in rejects.read_text(encoding="utf-8").splitlines():
        reason, name, start, _, sentence = row.split("\t")
        table.append((reason, name, start, sentence))
    for reason, name, start, sentence in table:
        line = sum(int(start) >= end for end in starts[name])
        found[name, line].append((reason, sentence))
    return found


def _print_outcomes(
    planted: dict[tuple[str, int], tuple[str, str]], found: dict[tuple[str, int], list[tuple[str, str]]]
) -> None:
    lines = Counter(label for label, _ in planted.values())
    right: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    wrong: dict[str, Counter[str]] = defaultdict(Counter)
    for place, (label, _) in planted.items():
        reasons = {reason for reason, _ in found.get(place, [])} - {""}
        for reason in reasons:
            dropped[reason] += 1
            if reason != label:
                wrong[reason][label or "good"] += 1
        right[label] += label in reasons
    print("| reason | planted lines | dropped lines | precision % | recall % | what else had this reason |")
    print("| --- | --- | --- | --- | --- | --- |")
    for label in sorted((set(lines) | set(dropped)) - {"", *REPAIRED}):
        precision = f"{100 * right[label] / dropped[label]:.1f}" if dropped[label] else "-"
        recall = f"{100 * right[label] / lines[label]:.1f}" if lines[label] else "-"
        rest = ", ".join(f"{count} {name}" for name, count in wrong[label].most_common(3))
        print(f"| {label} | {lines[label]} | {dropped[label]} | {precision} | {recall} | {rest} |")
    print("\n| repaired | planted lines | as they were before % |\n| --- | --- | --- |")
    for label in REPAIRED:
        same = sum(
            "".join("".join(s.split()) for _, s in found.get(place, [])) == "".join(right_text.split())
            for place, (name, right_text) in planted.items()
            if name == label
        )
        print(f"| {label} | {lines[label]} | {100 * same / max(1, lines[label]):.1f} |")
    good = [place for place, (label, _) in planted.items() if not label]
    lost = sum(any(reason for reason, _ in found.get(place, [])) for place in good)
    changed = sum(
        "".join("".join(s.split()) for _, s in found.get(place, [])) != "".join(planted[place][1].split())
        for place in good
    )
    print(f"\ngood lines: {len(good)}, dropped in whole or part {100 * lost / len(good):.2f} %, ", end="")
    print(f"changed {100 * changed / len(good):.2f} %")


# Speed


def speed(data: Path, code: str, megabytes: int, minutes: float, workers: list[int], only: list[str]) -> None:
    """Throughput and memory of `split`, `langid` and `filter` on text made larger by changing words,
    so that few lines are equal; for `filter` beside each sentence its translation, changed, too."""
    print(
        "| command | MB | processes | CPU s | MB/s a core | peak MB | MB in memory, by tenths of the time |"
    )
    print(f"|{' --- |' * 7}", flush=True)
    sides = {"split": ["--lang", code], "filter": ["--source-lang", code, "--target-lang", "eng_Latn"]}
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out.txt"
        for command in only:
            outputs = set()
            for count in [1] if command == "langid" else workers:
                split_up = [] if command == "langid" else ["--workers", str(count)]
                words = [command, "-", *sides.get(command, []), "-o", str(out), *split_up]
                until = time.monotonic() + 60 * minutes
                lines = takewhile(lambda _, until=until: time.monotonic() < until, SPEED[command](data, code))
                size, used, memory = fed(words, lines, megabytes * 10**6)
                if size >= megabytes * 10**6:
                    outputs.add(checksum_file(out))
                seconds = used.ru_utime + used.ru_stime
                tenths = " ".join(f"{memory[len(memory) * tenth // 10]:.0f}" for tenth in range(10))
                print(f"| {command} | {size / 1e6:.0f} | {count} | {seconds:.0f} | ", end="")
                print(f"{size / 1e6 / seconds:.2f} | {used.ru_maxrss / 1024:.0f} | {tenths} |", flush=True)
            if len(outputs) > 1:
                print("OTHER BYTES")


def fed(
    words: list[str], lines: Iterator[str], limit: int
) -> tuple[int, resource.struct_rusage, list[float]]:
    """Run a command on lines at its standard input, until there are `limit` bytes of them.

    Returns:
        The bytes, what the command and its workers used, and megabytes in memory of all of them, by time.
    """
    process = subprocess.Popen([sys.executable, "-m", "mexma_cli", "-q", *words], stdin=subprocess.PIPE)
    size = 0

    def feed() -> None:
        nonlocal size
        assert process.stdin is not None
        with process.stdin as pipe:
            while size < limit and (some := list(islice(lines, 1000))):
                size += pipe.write("\n".join([*some, ""]).encode())

    feeder = Thread(target=feed)
    feeder.start()
    memory, status, told = [_memory(process.pid)], None, time.monotonic()
    while status is None:
        time.sleep(min(5, 0.2 * len(memory)))
        found, ended, used = os.wait4(process.pid, os.WNOHANG)
        if found:
            status = process.returncode = os.waitstatus_to_exitcode(ended)
        else:
            memory.append(_memory(process.pid))
            if time.monotonic() > told + 300:
                told += 300
                print(f"{words[0]}: {size / 1e6:.0f} MB read, {memory[-1]:.0f} MB of memory", file=sys.stderr)
    feeder.join()
    if status:
        sys.exit(status)
    return size, used, memory


def _memory(pid: int) -> float:
    """Megabytes of a process and all below it that are in memory."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,rss="], capture_output=True, text=True, check=True)
    rows = sorted(tuple(map(int, line.split())) for line in listed.stdout.splitlines())
    own, size = {pid}, 0
    for process, parent, resident in rows:
        if process in own or parent in own:
            own.add(process)
            size += resident
    return size / 1024


def _pairs(data: Path, code: str) -> Iterator[tuple[str, ...]]:
    """Sentences and their translations, with one word changed on each side."""
    chance, sides, vocabularies = random.Random(3).random, [], []
    for side in (code, "eng_Latn"):
        lines = lines_of(data / "ntrex128" / f"{side}.txt.gz")
        sides.append(lines + lines_of(data / "bible" / f"{side}.txt.gz"))
        vocabularies.append(sorted({word for line in sides[-1] for word in line.split() if word.isalpha()}))
    good = [tuple(map(str.split, pair)) for pair in zip(*sides, strict=True) if all(map(str.strip, pair))]
    while True:
        changed = []
        for words, others in zip(good[int(chance() * len(good))], vocabularies, strict=True):
            at = int(chance() * len(words))
            changed.append(" ".join([*words[:at], others[int(chance() * len(others))], *words[at + 1 :]]))
        yield tuple(changed)


def _sentences(data: Path, code: str) -> Iterator[str]:
    return (pair[0] for pair in _pairs(data, code))


def _documents(data: Path, code: str) -> Iterator[str]:
    """Eight sentences each."""
    sentences = _sentences(data, code)
    while True:
        yield " ".join(islice(sentences, 8))


def _tables(data: Path, code: str) -> Iterator[str]:
    return map("\t".join, _pairs(data, code))


SPEED = {"split": _documents, "langid": _sentences, "filter": _tables}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["splitting", "languages", "kindred", "hyphens", "dirty", "speed"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--lang", default="fra_Latn", type=languages.resolve)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--only", nargs="+", choices=SPEED, default=list(SPEED))
    parser.add_argument("--patterns", action="store_true")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no more text is given")
    given = parser.parse_args()
    if given.what == "splitting":
        splitting(given.data)
    elif given.what == "languages":
        languages_known(given.data)
    elif given.what == "kindred":
        kindred_documents(given.data)
    elif given.what == "hyphens":
        hyphens(given.data, given.patterns)
    elif given.what == "dirty":
        dirty(given.data, given.lang)
    else:
        speed(given.data, given.lang, given.megabytes, given.minutes, given.workers, given.only)


if __name__ == "__main__":
    main()
