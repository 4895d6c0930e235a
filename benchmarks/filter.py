"""What `mexma filter` finds in pairs that were damaged on purpose, and how fast it is.

    python benchmarks/filter.py --data DIR
    python benchmarks/filter.py --data DIR --languages fra_Latn swh_Latn --seed 2
    python benchmarks/filter.py --data DIR --mojibake
    python benchmarks/filter.py --data DIR --copies

DIR has ntrex128/ (NTREX-128, a file a language, line-aligned). Of the pairs of each language with English a
quarter is damaged, each pair in one way, by a seed; then all of them are filtered. Recall is the share of the
pairs damaged in a way that were dropped for that reason (and: for any); precision the share of those dropped
for a reason that were damaged, in whatever way. Speed is that of the rules (processor time, files not read).

With --mojibake: of 120 lines of every language, in which one word was read in a code page, as half-repaired
text has it, the share that the rule `encoding` finds; and how many lines of all texts, as they are, it drops.

With --copies: the share that the rule `copy` drops at several limits, of translations between languages that
are close to one another (news, verses), which it should keep, and of English sentences (news, Tatoeba) beside
themselves with something changed; and what of all these translations `duplicate-letters` drops.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from mexma_cli import languages
from mexma_cli.numerics.machine import processor_name
from mexma_cli.settings.stages import RuleSettings
from mexma_cli.stages.filter import HASHES, filter_rules
from mexma_cli.text.duplicates import copy_reasons
from mexma_cli.text.rules import NAMES, RULES, SentenceRules

LANGUAGES = ["fra_Latn", "deu_Latn", "fin_Latn", "swh_Latn", "rus_Cyrl", "arb_Arab", "hin_Deva", "zho_Hans"]
KINDRED = {"fra_Latn": "ita_Latn", "deu_Latn": "nld_Latn", "fin_Latn": "est_Latn", "swh_Latn": "som_Latn"}
KINDRED |= {"rus_Cyrl": "bul_Cyrl", "arb_Arab": "pes_Arab", "hin_Deva": "mar_Deva"}
"""Another language in the same script."""
_NUMBER = re.compile(r"\d+")
Pair = tuple[str, str]


def damages(other: list[str] | None, script: list[str]) -> dict[str, Callable[[Pair, int], Pair | None]]:
    """Ways to damage the pair of a row; None where this one cannot be damaged so.

    Args:
        other: The text in another language in the same script.
        script: The text in another script.
    """

    def mojibake(pair: Pair, row: int) -> Pair | None:
        broken = pair[0].encode().decode("latin-1")
        return None if pair[0].isascii() else (broken, pair[1])

    def number(pair: Pair, row: int) -> Pair | None:
        found = _NUMBER.findall(pair[1])
        if len(found) != 1 or not _NUMBER.search(pair[0]):
            return None
        return pair[0], _NUMBER.sub(str(int(found[0]) + random.randint(1, 99)), pair[1])

    return {
        "missing": lambda pair, row: (pair[0], ""),
        "short": lambda pair, row: (pair[0][:2].strip() or "a", pair[1][:2]),
        "long": lambda pair, row: (" ".join([pair[0]] * (1001 // len(pair[0]) + 1)), pair[1]),
        "long-word": lambda pair, row: (f"{pair[0]} {'Xq7_' * 20}", pair[1]),
        "encoding": mojibake,
        "html": lambda pair, row: (f'<a href="x">{pair[0]}</a>', pair[1]),
        "repeated-characters": lambda pair, row: (pair[0], f"{pair[1]} ............ 12"),
        "digits": lambda pair, row: (
            f"Nr. {random.randrange(10**9)}-{random.randrange(10**6)}",
            pair[1][:20],
        ),
        "symbols": lambda pair, row: (f"{pair[0][:20]} ★→◆☂✔♫☼$€=+", pair[1][:30]),
        "letters": lambda pair, row: (re.sub(r"(\w)\w*", r"\1 . -", pair[0]), pair[1]),
        "script": lambda pair, row: (script[row], pair[1]),
        "repeated-words": lambda pair, row: (pair[0], "click here to read more " * 6),
        "ratio": lambda pair, row: (pair[0], pair[1][:12]) if len(pair[0]) > 70 else None,
        "copy": lambda pair, row: (pair[1], pair[1]),
        "numbers": number,
        "language": lambda pair, row: (other[row], pair[1]) if other else None,
        "duplicate": lambda pair, row: pair,
    }


def read(data: Path, code: str, corpus: str = "ntrex128") -> list[str]:
    with gzip.open(data / corpus / f"{code}.txt.gz", "rt", encoding="utf-8") as file:
        return [line.strip() for line in file]


def damaged(data: Path, code: str) -> tuple[list[Pair], list[str]]:
    """Pairs, and how each was damaged: "" for those that are as they were."""
    texts = read(data, code), read(data, "eng_Latn")
    other = read(data, KINDRED[code]) if code in KINDRED else None
    script = read(data, "rus_Cyrl" if not code.endswith("Cyrl") else "ell_Grek")
    ways = damages(other, script)
    pairs, how = [], []
    for row, pair in enumerate(zip(*texts, strict=True)):
        way = random.choice(list(ways)) if random.random() < 0.25 else ""
        if random.random() < 0.1 and ways["numbers"](pair, row):  # which few pairs allow
            way = "numbers"
        changed = ways[way](pair, row) if way else None
        if way == "duplicate":  # the first one stays as it was
            pairs.append(pair)
            how.append("")
        pairs.append(changed or pair)
        how.append(way if changed else "")
    return pairs, how


def reasons(pairs: list[Pair], code: str, settings: RuleSettings) -> tuple[list[str], float]:
    """Why each pair is dropped, and seconds of processor time."""
    rules = filter_rules(settings, (code, "eng_Latn"))
    rules.codes(["a"], ["b"])
    start, found, seen = time.process_time(), [], set()
    for at in range(0, len(pairs), 2000):
        sources, targets = zip(*pairs[at : at + 2000], strict=True)
        found += [NAMES[code] for code in rules.codes(sources, targets).tolist()]
    seconds = time.process_time() - start
    for row, pair in enumerate(pairs):
        if not found[row] and pair in seen:
            found[row] = "duplicate"
        seen.add(pair)
    return found, seconds


def mojibake(data: Path) -> None:
    import ftfy

    rules = SentenceRules({"encoding": 0.0})
    print("| code page | languages | found, mean of languages |\n| --- | --- | --- |")
    texts = [read(data, path.name[:-7]) for path in sorted(data.glob("ntrex128/*_*.txt.gz"))]
    for page in ftfy.chardata.CHARMAP_ENCODINGS:
        shares = []
        for lines in texts:
            spoilt = [line for line in (with_mojibake(line, page) for line in lines[:120]) if line]
            if len(spoilt) > 20:
                shares.append((rules.codes(spoilt) > 0).mean())
        print(f"| {page.removeprefix('sloppy-')} | {len(shares)} | {100 * sum(shares) / len(shares):.1f} % |")
    dropped = every = 0
    for path in sorted(data.glob("*/*.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            while batch := [line.strip() for line in islice(file, 4096)]:
                every += len(batch)
                dropped += int((rules.codes(batch) > 0).sum())
    print(f"\ndropped of {every:,} lines as they are: {dropped:,}")


def with_mojibake(line: str, page: str) -> str | None:
    """A line of which one word was UTF-8, and was read in a code page; None if there is no such word."""
    words = line.split(" ")
    unusual = [
        place for place, word in enumerate(words) if any(c.isalpha() and not c.isascii() for c in word)
    ]
    if not unusual:
        return None
    place = random.choice(unusual)
    try:
        words[place] = words[place].encode().decode(page)
    except UnicodeError:
        return None
    return " ".join(words)


LIMITS = (0.8, 0.85, 0.9, 0.95, 1.0)
CLOSE = "dan_Latn-nob_Latn nno_Latn-nob_Latn swe_Latn-dan_Latn spa_Latn-por_Latn glg_Latn-por_Latn "
CLOSE += "cat_Latn-spa_Latn ukr_Cyrl-rus_Cyrl bel_Cyrl-ukr_Cyrl bul_Cyrl-mkd_Cyrl ces_Latn-slk_Latn "
CLOSE += "hrv_Latn-bos_Latn ind_Latn-zsm_Latn afr_Latn-nld_Latn hin_Deva-npi_Deva deu_Latn-eng_Latn"


def letter_changed(sentence: str) -> str:
    place = random.choice([place for place, character in enumerate(sentence) if character.isalpha()])
    others = "aeinrst".replace(sentence[place].lower(), "")
    return sentence[:place] + random.choice(others) + sentence[place + 1 :]


def word_changed(sentence: str) -> str:
    words = sentence.split()
    words[random.randrange(len(words))] = random.choice(["Monday", "house", "their", "seen", "two"])
    return " ".join(words)


CHANGES: dict[str, Callable[[str], str]] = {
    "capitals": str.upper,
    "punctuation, a number": lambda sentence: f"“{sentence.rstrip('.!?')}” (12)",
    "a letter": letter_changed,
    "two letters": lambda sentence: letter_changed(letter_changed(sentence)),
    "a word": word_changed,
}


def copies(data: Path) -> None:
    limits = " | ".join(f"{limit:g}" for limit in LIMITS)
    print(f"| dropped, % | pairs | {limits} | `duplicate` | `duplicate-letters` |")
    print("| --- " * (4 + len(LIMITS)) + "|")
    for corpus in ("ntrex128", "bible"):
        for code, other in (pair.split("-") for pair in CLOSE.split()):
            if (data / corpus / f"{code}.txt.gz").exists() and (data / corpus / f"{other}.txt.gz").exists():
                sides = zip(read(data, code, corpus), read(data, other, corpus), strict=True)
                print_copies(f"{corpus}, {code[:3]}-{other[:3]}", [pair for pair in sides if all(pair)])
    tatoeba = (data / "tatoeba" / name for name in ("tatoeba.deu-eng.eng", "tatoeba.spa-eng.eng"))
    short = [line for path in tatoeba if path.exists() for line in path.read_text("utf-8").splitlines()]
    for name, sentences in (("ntrex128", read(data, "eng_Latn")), ("tatoeba", short)):
        for change, changed in CHANGES.items():
            print_copies(f"{name}, {change}", [(one, changed(one)) for one in sentences])


def print_copies(name: str, pairs: list[Pair]) -> None:
    sides = [side for side, _ in pairs], [side for _, side in pairs]
    found = [sum(map(bool, copy_reasons(*sides, limit))) / len(pairs) for limit in LIMITS]
    again = [len(pairs) - len({HASHES[rule](*pair) for pair in pairs}) for rule in list(HASHES)[:2]]
    shares = " | ".join(f"{100 * share:.2f}" for share in found)
    print(f"| {name} | {len(pairs)} | {shares} | {again[0]} | {again[1]} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", nargs="+", default=LANGUAGES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mojibake", action="store_true")
    parser.add_argument("--copies", action="store_true")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    if arguments.mojibake:
        mojibake(arguments.data)
        return
    if arguments.copies:
        copies(arguments.data)
        return
    made: Counter[str] = Counter()
    hit: Counter[str] = Counter()  # dropped for the reason it was damaged for
    caught: Counter[str] = Counter()  # dropped for any
    dropped: Counter[str] = Counter()
    right: Counter[str] = Counter()  # of those, damaged in any way
    spent, size = Counter[str](), 0
    for code in map(languages.resolve, arguments.languages):
        pairs, how = damaged(arguments.data, code)
        found, seconds = reasons(pairs, code, RuleSettings())
        spent["all rules"] += seconds
        spent["without language"] += reasons(pairs, code, RuleSettings(off=("language",)))[1]
        size += sum(len(side.encode()) for pair in pairs for side in pair)
        for way, reason in zip(how, found, strict=True):
            made[way] += 1
            hit[way] += way == reason
            caught[way] += reason != ""
            dropped[reason] += 1
            right[reason] += way != ""
    print("| reason | damaged | recall | for any reason | precision |\n| --- | --- | --- | --- | --- |")
    for rule in (name for name in RULES if made[name]):
        shares = hit[rule] / made[rule], caught[rule] / made[rule], right[rule] / max(1, dropped[rule])
        print(f"| {rule} | {made[rule]} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |")
    lost = f"{caught['']} of {made['']} ({100 * caught[''] / made['']:.2f} %)"
    print(f"\nundamaged pairs that are dropped: {lost}")
    for what, seconds in spent.items():
        print(f"{what}: {size / seconds / 1e6:.1f} MB a second of one core ({processor_name()})")


if __name__ == "__main__":
    main()
