"""From a crawl with noise to pairs of sentences, against the truth: how many pairs, how many of them
right, and in which step the others were lost.

    python benchmarks/crawl.py ../shared/data
    python benchmarks/crawl.py ../shared/data --languages swh_Latn --keep crawl

DATA has ntrex128/CODE.txt.gz with ntrex128/docids.txt.gz (NTREX-128: news and their translations, a sentence
a line). The sentences are real, the crawl is made up: every document becomes a WARC record (HTML, in chunks,
packed, in old encodings) or an object of JSONL, with menus and notices, markup and entities, mojibake,
invisible characters, wrapped lines and sentences of other languages; some come twice, or nearly; some have no
counterpart; error pages, documents in other languages and broken lines stand between them. The same documents
as clean text show what is lost without all that. Encoder: `mini`.
"""

from __future__ import annotations

import argparse
import gzip
import html
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

from mexma_cli.languages import name as language_name

TARGET = "eng_Latn"
OTHERS = ("deu_Latn", "spa_Latn", "pol_Latn", "rus_Cyrl")
NOTICES = {
    "fra_Latn": ["Accueil", "Lire la suite", "Nous contacter", "Tous droits réservés.",
                 "Ce site utilise des cookies pour améliorer votre expérience.",
                 "Inscrivez-vous à notre lettre d'information pour recevoir nos articles."],
    "swh_Latn": ["Nyumbani", "Soma zaidi", "Wasiliana nasi", "Haki zote zimehifadhiwa.",
                 "Tovuti hii hutumia vidakuzi ili kuboresha matumizi yako.",
                 "Jiandikishe kwa jarida letu ili kupokea habari zetu."],
    "eng_Latn": ["Home", "Read more", "Contact us", "All rights reserved.",
                 "This site uses cookies to improve your experience.",
                 "Sign up for our newsletter to receive our articles."],
}  # fmt: skip
"""Menus and notices of pages in languages that may be measured."""
GRAM = 8
"""Letters of the runs by which a sentence of the output is found in the truth."""
Documents = dict[str, list[tuple[str, str]]]
"""Name -> the pairs of sentences."""


# The crawl


def documents(data: Path, code: str) -> Documents:
    folder = data / "ntrex128"
    names, sources, targets = (
        gzip.decompress((folder / f"{part}.txt.gz").read_bytes()).decode().split("\n")
        for part in ("docids", code, TARGET)
    )
    found: Documents = defaultdict(list)
    for name, source, target in zip(names, sources, targets, strict=True):
        if name and source.strip() and target.strip():
            found[name].append((" ".join(source.split()), " ".join(target.split())))
    return found


class Page(NamedTuple):
    """A document of one side: its address and its paragraphs, of some sentences each."""

    address: str
    paragraphs: list[list[str]]

    @property
    def lines(self) -> list[str]:
        return [" ".join(sentences) for sentences in self.paragraphs]


def pages(texts: Documents, side: int, only_here: set[str], only_there: set[str]) -> list[Page]:
    """The documents of a side, without those that are on the other side alone."""
    chance, found = random.Random(f"paragraphs {side}"), []
    assert not only_here & only_there
    for name, pairs in texts.items():
        if name in only_there:
            continue
        sentences = iter([pair[side] for pair in pairs])
        paragraphs = list(iter(lambda sentences=sentences: list(islice(sentences, chance.randint(1, 4))), []))
        found.append(Page(f"http://news.example/{name}", paragraphs))
    return found


def write_clean(path: Path, found: Sequence[Page]) -> None:
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        for page in found:
            file.write(
                json.dumps({"id": page.address, "text": "\n".join(page.lines)}, ensure_ascii=False) + "\n"
            )


def write_crawl(folder: Path, found: Sequence[Page], code: str, others: dict[str, list[str]]) -> None:
    """A WARC and a JSONL, with noise."""
    chance = random.Random(f"noise {code}")
    records: list[bytes] = []
    objects: list[str] = []
    for page in [*found, *more_pages(found, others, chance)]:
        page = with_foreign_sentence(page, others, chance)
        if chance.random() < 0.6:
            records += html_records(page, code, chance)
        else:
            lines = [chance.choice(NOISES)(line, chance) for line in page.lines]
            lines = [*NOTICES[code][:2], *lines, *NOTICES[code][2:5]]
            if chance.random() < 0.2:
                lines = [mojibake(line) for line in lines]
            ends = "\r\n" if chance.random() < 0.2 else "\n"
            objects.append(
                json.dumps({"id": page.address, "text": ends.join(lines)}, ensure_ascii=chance.random() < 0.5)
            )
        if chance.random() < 0.1:
            objects.append(chance.choice(["", '{"id": "x", "text": ""}', '{"id": "y"', '{"url": "z"}']))
            records.append(error_page(code, chance))
    fields = "application/warc-fields"
    records.append(record("metadata", "http://news.example/m", b"fetchTimeMs: 7\r\n", fields))
    chance.shuffle(records)
    chance.shuffle(objects)
    info = record("warcinfo", "", b"software: none\r\n", fields)
    with gzip.open(folder / "pages.warc.gz", "wb", compresslevel=1) as file:
        file.write(b"".join([info, *records]))
    (folder / "dump.jsonl").write_text("\n".join(objects) + "\n", encoding="utf-8")


def more_pages(found: Sequence[Page], others: dict[str, list[str]], chance: random.Random) -> Iterator[Page]:
    """Copies, near-copies, and pages in other languages."""
    for page in chance.sample(list(found), len(found) // 8):
        yield Page(f"{page.address}?print=1", page.paragraphs)
    for page in chance.sample(list(found), len(found) // 8):
        yield Page(
            f"{page.address}?old=1", [[shortened(one, chance) for one in lines] for lines in page.paragraphs]
        )
    for code, lines in others.items():
        for number in range(3):
            yield Page(f"http://other.example/{code}/{number}", [chance.sample(lines, 3) for _ in range(4)])


def with_foreign_sentence(page: Page, others: dict[str, list[str]], chance: random.Random) -> Page:
    if chance.random() < 0.5:
        return page
    paragraphs = list(page.paragraphs)
    quoted = [chance.choice(others[chance.choice(list(others))])]
    paragraphs.insert(chance.randint(0, len(paragraphs)), quoted)
    return Page(page.address, paragraphs)


def shortened(sentence: str, chance: random.Random) -> str:
    words = sentence.split()
    if len(words) > 8:
        del words[chance.randrange(2, len(words) - 2)]
    return " ".join(words)


def mojibake(line: str) -> str:
    try:
        return line.encode("utf-8").decode("windows-1252")
    except UnicodeDecodeError:
        return line.encode("utf-8").decode("latin-1")


def marked_up(line: str, chance: random.Random) -> str:
    """Tags around words and the line, and entities."""
    words = html.escape(line, quote=False).split(" ")
    for place in chance.sample(range(len(words)), min(3, len(words))):
        tag = chance.choice(["b", "i", "em", "span", "a"])
        more = {"span": ' class="name"', "a": ' href="/more.html"'}.get(tag, "")
        words[place] = f"<{tag}{more}>{words[place]}</{tag}>"
    text = " ".join(words)
    if chance.random() < 0.5:
        text = "".join(f"&#{ord(letter)};" if letter > "\x7f" else letter for letter in text)
    return f"<p>{text}</p>" if chance.random() < 0.5 else f"{text}<br/>"


def invisible(line: str, chance: random.Random) -> str:
    words = line.split(" ")
    for place in chance.sample(range(len(words)), min(4, len(words))):
        word = words[place]
        cut = len(word) // 2
        words[place] = word[:cut] + chance.choice("\u200b\u00ad\u2060\ufeff") + word[cut:]
    return "\u200e" + chance.choice(" \u00a0").join(words)


def wrapped(line: str, width: int = 70) -> str:
    words, lines = line.split(" "), [""]
    for word in words:
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += f"{word} "
    return "\n".join(lines)


NOISES: list[Callable[[str, random.Random], str]] = [
    lambda line, chance: line,
    lambda line, chance: line,
    marked_up,
    invisible,
    lambda line, chance: unicodedata.normalize("NFD", line),
    lambda line, chance: f"  {line.replace(' ', '  ')}\t",
]


def html_records(page: Page, code: str, chance: random.Random) -> list[bytes]:
    """The request for a page and the response, and what HTTP does to it."""
    lines = page.lines
    first = lines[0]
    made = (marked_up(line, chance) if chance.random() < 0.5 else html.escape(line) for line in lines)
    body = "".join(f"<p>\n{wrapped(line)}\n</p>\n" for line in made)
    notices = [html.escape(line) for line in NOTICES[code]]
    encodings = [("utf-8", "utf-8"), ("utf-8", "utf-8"), ("iso-8859-1", "windows-1252")]
    charset, encoding = chance.choice(encodings)
    stated = chance.choice(["header", "meta"])
    meta = f'<meta charset="{charset}">' if stated == "meta" else ""
    menu = "".join(f'<li><a href="/{n}">{line}</a></li>' for n, line in enumerate(notices[:3]))
    text = (
        f"<!DOCTYPE html>\n<html><head>{meta}<title>{html.escape(first[:60])}</title>"
        "<style>p { color: black }</style><script>if (a < b) { c('<p>no</p>'); }</script></head><body>"
        f"<nav><ul>{menu}</ul></nav>"
        f'<div class="cookies">{notices[4]}</div><article>{body}</article>'
        f"<footer><p>{notices[3]}</p><p>{notices[5]}</p></footer></body></html>"
    )
    content = text.encode(encoding, "xmlcharrefreplace")
    headers = [f"Content-Type: {chance.choice(['text/html', 'TEXT/HTML'])}"]
    if stated == "header":
        headers[0] += f"; charset={charset}"
    if chance.random() < 0.3:
        content, headers = gzip.compress(content), [*headers, "Content-Encoding: gzip"]
    if chance.random() < 0.3:
        cuts = [*range(0, len(content), 1000), len(content)]
        chunks = [content[start:end] for start, end in pairwise(cuts)]
        content = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])
        headers.append("Transfer-Encoding: chunked")
    head = "\r\n".join(["HTTP/1.1 200 OK", *headers, "", ""]).encode()
    asked = record("request", page.address, b"GET / HTTP/1.1\r\n\r\n", "application/http; msgtype=request")
    return [asked, record("response", page.address, head + content, "application/http; msgtype=response")]


def error_page(code: str, chance: random.Random) -> bytes:
    status = chance.choice(["404 Not Found", "403 Forbidden", "301 Moved Permanently", "500 Error"])
    body = "".join(f"<p>{html.escape(line)}</p>" for line in NOTICES[code]) * 3
    block = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><body>{body}</body></html>"
    )
    name = f"http://news.example/{chance.randrange(10**6)}"
    return record("response", name, block.encode(), "application/http; msgtype=response")


def record(kind: str, address: str, block: bytes, type_: str) -> bytes:
    head = [
        "WARC/1.0",
        f"WARC-Type: {kind}",
        *([f"WARC-Target-URI: {address}"] if address else []),
        f"WARC-Record-ID: <urn:uuid:{random.Random(address + kind).getrandbits(128):032x}>",
        "WARC-Date: 2020-01-01T00:00:00Z",
        f"Content-Type: {type_}",
        f"Content-Length: {len(block)}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


# What came out


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


class Truth:
    """Which sentences of a side are in a line: those with half of the shorter one's runs of letters."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self.whole: dict[str, list[int]] = defaultdict(list)
        self._holders: dict[str, list[int]] = defaultdict(list)
        self._sizes = []
        for place, sentence in enumerate(sentences):
            text = letters(sentence)
            self.whole[text].append(place)
            grams = _grams(text)
            self._sizes.append(len(grams))
            for gram in grams:
                self._holders[gram].append(place)

    def within(self, line: str) -> set[int]:
        text = letters(line)
        grams = _grams(text)
        shared = Counter(place for gram in grams for place in self._holders.get(gram, ()))
        found = {place for place, count in shared.items() if 2 * count >= min(len(grams), self._sizes[place])}
        return found | set(self.whole.get(text, ()))


def _grams(text: str) -> set[str]:
    return {text[start : start + GRAM] for start in range(len(text) - GRAM + 1)}


class Measured:
    """The steps of one crawl, each with what is printed of it."""

    def __init__(self, texts: Documents, both: set[str], codes: Sequence[str]) -> None:
        sides: list[list[str]] = [[pair[side] for name in texts for pair in texts[name]] for side in (0, 1)]
        # Notices are translations of each other, too, which nobody looks for.
        self.sides = [Truth([*side, *NOTICES[code]]) for side, code in zip(sides, codes, strict=True)]
        places = [name in both for name in texts for _ in texts[name]]
        self.wanted = {place for place, is_wanted in enumerate(places) if is_wanted}
        self.rows: dict[str, str] = {"pairs in documents on both sides": f"{len(self.wanted):,}"}

    def split(self, names: Sequence[Path]) -> None:
        """What is left of the wanted pairs, and why the others are not."""
        left, reasons, whole = [], defaultdict(set), []
        for side, path in zip(self.sides, names, strict=True):
            kept = path.read_text(encoding="utf-8").splitlines()
            left.append(set().union(*map(side.within, kept)))
            whole.append({place for line in kept for place in side.whole.get(letters(line), ())})
            lost = self.wanted - left[-1]
            by_place: dict[int, str] = {}
            for row in path.with_suffix(".rejects").read_text(encoding="utf-8").splitlines():
                reason, _, _, _, line = row.split("\t", 4)
                for place in side.within(line) & lost:
                    by_place.setdefault(place, reason)
            for place in lost:
                reasons[by_place.get(place, "not read")].add(place)
        self._row("after split, at least a part of both, %", len(self.wanted & left[0] & left[1]))
        self._row("after split, both as whole lines, %", len(self.wanted & whole[0] & whole[1]))
        for reason, places in sorted(reasons.items(), key=lambda item: -len(item[1])):
            self._row(f"lost in split: {reason}, %", len(places))

    def pairs(self, step: str, path: Path) -> None:
        """Precision and recall of pairs: right ones have a part of the same pair on both sides."""
        found: set[int] = set()
        rows, right = path.read_text(encoding="utf-8").splitlines(), 0
        for row in rows:
            _, source, target, *_ = row.split("\t")
            both = self.sides[0].within(source) & self.sides[1].within(target)
            right += bool(both)
            found |= both & self.wanted
        self.rows[f"{step}: pairs"] = f"{len(rows):,}"
        self.rows[f"{step}: precision %"] = f"{100 * right / max(1, len(rows)):.1f}"
        self._row(f"{step}: recall %", len(found))

    def _row(self, name: str, count: int) -> None:
        self.rows[name] = f"{100 * count / len(self.wanted):.1f}"


def measure(folder: Path, inputs: Sequence[Path], codes: Sequence[str], measured: Measured) -> None:
    """Run the commands, and measure after each."""

    def mexma(*words: str | Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        command = [sys.executable, "-m", "mexma_cli", "-q", *map(str, words)]
        done = subprocess.run(command, env=environment, text=True, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            sys.exit(done.stderr)

    langs = ["--source-lang", codes[0], "--target-lang", codes[1]]
    for use, options in (("mine", []), ("align", ["--off", "duplicate", "--off", "boilerplate"])):
        texts = [folder / f"{use}.{code}.txt" for code in codes]
        for path, text, code in zip(inputs, texts, codes, strict=True):
            rejects = ["--rejects", text.with_suffix(".rejects")]
            mexma("split", path, "--lang", code, "-o", text, *rejects, *options, "--workers", "1")
            mexma("embed", text, "--lang", code, "-o", text.with_suffix(".emb"))
        stores = [text.with_suffix(".emb") for text in texts]
        if use == "mine":
            measured.split(texts)
            margin = ["--score", "margin", "--margin", "ratio", "--threshold", "1.06"]
            mexma("mine", *stores, *margin, "-o", folder / "margin.tsv")
            measured.pairs("mine --margin ratio --threshold 1.06", folder / "margin.tsv")
            mexma("mine", *stores, "--score", "probability", "--threshold", "0.5", "-o", folder / "mine.tsv")
            measured.pairs("mine --score probability --threshold 0.5", folder / "mine.tsv")
        else:
            docs = [text.with_suffix(".docs") for text in texts]
            mexma("align", *stores, "--docs", *docs, "-o", folder / "align.tsv")
            measured.pairs("align --docs", folder / "align.tsv")
        mexma("filter", folder / f"{use}.tsv", *langs, "-o", folder / f"{use}.clean.tsv", "--workers", "1")
        step = {"mine": "mine --score probability", "align": "align"}[use]
        measured.pairs(f"{step}, then filter", folder / f"{use}.clean.tsv")


def crawl(data: Path, code: str, folder: Path) -> list[Measured]:
    """Clean text and the crawl, measured."""
    texts, codes = documents(data, code), (code, TARGET)
    chance = random.Random(5)
    alone = chance.sample(sorted(texts), len(texts) // 4)
    half = len(alone) // 2
    only = set(alone[:half]), set(alone[half:])
    others = {
        other: [line for pair in documents(data, other).values() for line, _ in pair] for other in OTHERS
    }
    found = []
    for kind in ("clean", "crawl"):
        inputs = []
        for side, name in enumerate(codes):
            own = pages(texts, side, only[side], only[1 - side])
            inputs.append(folder / kind / name)
            inputs[-1].mkdir(parents=True)
            if kind == "clean":
                write_clean(inputs[-1] / "dump.jsonl.gz", own)
            else:
                write_crawl(inputs[-1], own, name, others)
        measured = Measured(texts, set(texts) - only[0] - only[1], codes)
        measure(folder / kind, inputs, codes, measured)
        found.append(measured)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--languages", nargs="+", default=["fra_Latn", "swh_Latn"], choices=list(NOTICES)[:-1]
    )
    parser.add_argument("--keep", type=Path, help="write all files into this new folder")
    given = parser.parse_args()
    columns: dict[str, Measured] = {}
    with ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for code in given.languages:
            clean, noisy = crawl(given.data, code, folder / code)
            columns |= {f"{language_name(code)}, clean": clean, f"{language_name(code)}, crawl": noisy}
    names = list(dict.fromkeys(name for measured in columns.values() for name in measured.rows))
    print(f"| | {' | '.join(columns)} |\n| --- |{' --- |' * len(columns)}")
    for name in names:
        print(f"| {name} | {' | '.join(measured.rows.get(name, '0.0') for measured in columns.values())} |")


if __name__ == "__main__":
    main()
