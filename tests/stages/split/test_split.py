"""Documents to sentences: every kind of input, every reason, and the same bytes however it is run."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import lzma
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from mexma_cli.errors import MexmaError
from mexma_cli.files import Unfinished
from mexma_cli.settings.stages import SplitSettings
from mexma_cli.stages.split import inputs as reading
from mexma_cli.stages.split import split as splitting
from mexma_cli.stages.split.chunk import ChunkWorker
from mexma_cli.stages.split.inputs import Splitting, find_inputs, ids_of_files, names_of
from mexma_cli.stages.split.split import SplitOutputs, SplitReport, split
from mexma_cli.store.journal import GOES_ON
from tests.processes import forks_of_pools

SPANISH = (Path(__file__).parents[3] / "examples" / "spa-eng" / "spa.txt").read_text("utf-8").splitlines()
ONE, TWO = "Il est venu dans la maison de ma mère.", "Où se trouve la gare la plus proche ?"


def run(
    *paths: Path,
    to: Path,
    language: str = "fra_Latn",
    workers: int = 1,
    on: tuple[str, ...] = (),
    off: tuple[str, ...] = (),
    **how: str,
) -> SplitReport:
    text_field, id_field = how.pop("fields", "text id").split()
    settings = SplitSettings.model_validate(
        {"on": on, "off": off, "text_field": text_field, "id_field": id_field, **how}
    )
    outputs = SplitOutputs(to, to.with_name("rejects.tsv"))
    found = find_inputs([str(path) for path in paths], language)
    return split(found, Splitting(language, settings, rejects=True), outputs, workers)


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "fra.txt"


def test_spans_are_places_in_the_document(tmp_path: Path, out: Path) -> None:
    document = f"  {ONE}  Elle\u00a0a   vendu sa maison.\t{TWO}"
    (tmp_path / "a.txt").write_text(f"{document}\n{TWO}x\n", "utf-8")
    report = run(tmp_path / "a.txt", to=out)
    sentences = out.read_text("utf-8").splitlines()
    assert sentences == [ONE, "Elle a vendu sa maison.", TWO, f"{TWO}x"]
    places = rows(out.with_name("fra.docs"))
    assert [place[0] for place in places] == ["1", "1", "1", "2"]
    for sentence, (_, start, end) in zip(sentences[:3], places[:3], strict=True):
        assert " ".join(document[int(start) : int(end)].split()) == sentence
    assert (report.documents, report.sentences, report.kept, report.dropped) == (2, 4, 4, {})
    assert json.loads(out.with_name("fra.report.json").read_text())["sentences"]["kept"] == 4
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "fra.docs",
        "fra.report.json",
        "fra.txt",
        "rejects.tsv",
    ]


def test_what_a_document_is(tmp_path: Path, out: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text(f"\n{ONE}\n{TWO}\n\n \nElle a vendu sa maison.\n", "utf-8")
    wanted = {"line": ["2", "3", "6"], "blank": ["2", "2", "6"], "file": ["a"] * 3}
    for unit, names in wanted.items():
        run(text, to=out, document=unit)
        assert [row[0] for row in rows(out.with_name("fra.docs"))] == names, unit


def test_lines_in_which_nothing_can_be_seen_are_empty(tmp_path: Path, out: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text(f"{ONE}\n\u200e\u200f\n{TWO}\n\u3164\n", "utf-8")
    report = run(text, to=out, off=("all",))
    assert out.read_text("utf-8").splitlines() == [ONE, TWO]
    assert report.documents_dropped == {"empty": 2} and report.sentences == 2
    run(text, to=out, document="blank", off=("all",))
    assert [row[0] for row in rows(out.with_name("fra.docs"))] == ["1", "3"]
    run(text, to=out, document="file", off=("all",))
    assert out.read_text("utf-8").splitlines() == [ONE, TWO]


def test_old_macs_line_ends(tmp_path: Path, out: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_bytes(f"{ONE}\r{TWO}\r\r{ONE}x\r".encode())
    for unit, names in {"line": ["1", "2", "4"], "blank": ["1", "1", "4"], "file": ["a"] * 3}.items():
        run(text, to=out, document=unit)
        assert out.read_text("utf-8").splitlines() == [ONE, TWO, f"{ONE}x"]
        assert [row[0] for row in rows(out.with_name("fra.docs"))] == names, unit


def test_a_line_end_in_a_paragraph_is_white_space(tmp_path: Path, out: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text(
        "Il est venu\ndans la  maison\n\tde ma mère. Où se\ntrouve\u2028la gare ?\n \u200b\nElle dort.\n",
        "utf-8",
    )
    wanted = ["Il est venu dans la maison de ma mère.", "Où se trouve la gare ?", "Elle dort."]
    for unit, names in {"blank": ["1", "1", "6"], "file": ["a"] * 3}.items():
        run(text, to=out, document=unit, off=("all",))
        assert out.read_text("utf-8").splitlines() == wanted
        places = rows(out.with_name("fra.docs"))
        assert [row[0] for row in places] == names
    document = text.read_text("utf-8")
    for sentence, (_, start, end) in zip(wanted[:2], places, strict=False):
        assert " ".join(document[int(start) : int(end)].split()) == sentence
    run(text, to=out, off=("all",))
    assert out.read_text("utf-8").splitlines()[:2] == ["Il est venu", "dans la maison"], (
        "a line is a document"
    )


def test_a_page_and_a_text_have_one_name() -> None:
    for names, wanted in (
        (["x/a.html", "x/b.txt.gz", "x/c.fr", "x/d.jsonl"], ["a", "b", "c.fr", "d.jsonl"]),
        (["x/a.html", "x/a.txt", "x/b.htm"], ["a.html", "a.txt", "b"]),
    ):
        assert names_of(list(map(Path, names))) == wanted


def test_names_that_are_alike(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text(f"{ONE}\n", "utf-8")
    (folder / "a.txt.gz").write_bytes(gzip.compress(TWO.encode()))
    (folder / "b.txt.gz").write_bytes(gzip.compress(f"{TWO}b".encode()))
    (folder / "e\u0301.txt").write_text(f"{ONE}e\n", "utf-8")
    with open(os.fsencode(folder) + b"/caf\xe9.txt", "w", encoding="utf-8") as file:
        file.write(f"{ONE}c\n")
    run(folder, to=out)
    names = sorted(row[0] for row in rows(out.with_name("fra.docs")))
    assert names == ["a.txt.gz:1", "a.txt:1", "b:1", "caf\\udce9:1", "é:1"]
    (folder / "é.txt").write_text("x\n")
    with pytest.raises(MexmaError, match=r"would both be the document 'é\.txt'"):
        run(folder, to=out)


@pytest.mark.parametrize(
    ("lines", "fields", "message"),
    [
        (['{"text": "Oui."}', '{"text": "Non.", "id": 2}'], "text url", "no object has the field 'url'"),
        (
            ['{"url": "x", "body": "Oui."}', "", "{x"],
            "text id",
            "no document can be read: 2 malformed",
        ),
    ],
)
def test_fields_that_no_object_has(
    lines: list[str],
    fields: str,
    message: str,
    tmp_path: Path,
    out: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(MexmaError, match=message) as caught, caplog.at_level(logging.INFO):
        run(tmp_path / "a.jsonl", to=out, fields=fields)
    assert not out.parent.exists(), "nothing is left that the right fields would be refused for"
    assert "the same command goes on" not in caplog.text
    assert "malformed" not in message or caught.value.hint == (
        "--text-field names the field of the text; the first object has texts in body, url"
    )


def test_a_file_of_which_no_document_can_be_read_is_told_of(tmp_path: Path, out: Path) -> None:
    """With the reason and what mends it, though others are read; blank lines are no documents."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text(f"{ONE}\n")
    (tmp_path / "in/dump.jsonl").write_text('{"url": "x", "body": "Oui, oui."}\n\n{"body": "Non."}\n')
    report = run(tmp_path / "in", to=out)
    assert report.documents_dropped == {"malformed": 2, "empty": 1}
    assert report.warnings("fra_Latn") == [
        "no document of 1 file can be read, such as dump.jsonl (2 malformed): --text-field names the field "
        "of the text; the first object has texts in body, url"
    ]
    (tmp_path / "in/dump.jsonl").write_text('{"text": "Oui, oui."}\n{"body": "Non."}\n')
    (tmp_path / "in/page.html").write_text("<html></html>")
    assert not run(tmp_path / "in", to=out).warnings("fra_Latn")


def test_ids_that_are_line_numbers_or_no_unicode(tmp_path: Path, out: Path) -> None:
    objects = {"text": ONE, "n": 1}, {"text": TWO, "n": "\ud800"}
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in objects))
    run(tmp_path / "a.jsonl", to=out, fields="text n")
    assert [row[0] for row in rows(out.with_name("fra.docs"))] == ["1", "\\ud800"]


def test_documents_that_share_their_ids(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"text": f"{ONE} {number}", "year": 2010 + number % 2} for number in range(5)]
    lines.append({"text": " ", "year": 2010})  # is no document
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    taken = "`align --docs` and `mine --within` take those with the same id as one document"
    said = f"5 documents have 2 different ids, and {taken}: --id-field names a field that differs"
    report = run(tmp_path / "a.jsonl", to=out, fields="text year")
    assert report.warnings("fra_Latn") == [said]
    assert run(tmp_path / "a.jsonl", to=out).warnings("fra_Latn") == []
    monkeypatch.setattr(splitting, "_COMPARED", 3)
    report = run(tmp_path / "a.jsonl", to=out, fields="text year")
    assert report.warnings("fra_Latn") == [f"the first {said.replace('5', '3', 1)}"]


def test_folders_compressions_and_names(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "in"
    (folder / "b" / ".hidden").mkdir(parents=True)
    (folder / "b" / ".hidden" / "x.txt").write_text("Il ne faut pas lire ceci.\n")
    (folder / "picture.npy").write_bytes(b"x")
    (folder / "style.css").write_text("body { color: red }\n")
    packers = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.compress}
    for number, (ending, pack) in enumerate(packers.items()):
        line = f"Elle a vendu sa maison il y a {number + 2} ans.\n"
        (folder / "b" / f"{ending}.txt.{ending}").write_bytes(pack(line.encode()))
    (folder / "doc.en-fr.fr").write_text("Mon frère travaille ici.\n", "utf-8")
    (folder / "doc.en-fr.en").write_text("My brother works here.\n")
    report = run(folder, to=out)
    names = [row[0] for row in rows(out.with_name("fra.docs"))]
    assert names == ["b/bz2:1", "b/gz:1", "b/xz:1", "b/zst:1", "doc.en-fr.fr:1"]
    passed_over = {
        "named .npy, and no text": 1,
        "named .css, and no text": 1,
        "other sides of Moses pairs": 1,
    }
    assert report.passed_over == passed_over
    run(Path(f"{folder}/b/*.gz"), to=out)
    assert [row[0] for row in rows(out.with_name("fra.docs"))] == ["1"]


def test_files_are_read_as_people_count(tmp_path: Path, out: Path) -> None:
    for name in ("1", "2", "10"):
        (tmp_path / f"{name}.fejezet.txt").write_text(f"{ONE}{name}\n", "utf-8")
    for given in (tmp_path, f"{tmp_path}/*.txt"):
        assert find_inputs([str(given)], "fra_Latn").names == ["1.fejezet", "2.fejezet", "10.fejezet"]
    chosen = [str(tmp_path / f"{name}.fejezet.txt") for name in ("10", "1", "2")]
    assert find_inputs(chosen, "fra_Latn").files == list(map(Path, chosen)), "files keep the order given"


def test_jsonl_and_tmx(tmp_path: Path, out: Path) -> None:
    lines = [{"url": "u1", "body": ONE}, {"body": TWO, "url": None}, {"url": "u3"}, 7]
    text = "".join(f"{json.dumps(line)}\n" for line in lines) + "{broken\n" + '{"body": "\\ud800 non"}\n'
    (tmp_path / "a.jsonl").write_text(text)
    report = run(tmp_path / "a.jsonl", to=out, fields="body url")
    assert [row[0] for row in rows(out.with_name("fra.docs"))] == ["u1", "2", "6"]
    assert report.documents_dropped == {"malformed": 3}
    units = "".join(
        f'<tu><tuv xml:lang="{code}"><seg>{text}</seg></tuv><tuv xml:lang="en"><seg>x</seg></tuv></tu>'
        for code, text in (("fr", ONE), ("fr", TWO))
    )
    header = '<header srclang="fr"/>'
    (tmp_path / "a.tmx").write_text(
        f'<?xml version="1.0"?><tmx version="1.4">{header}<body>{units}</body></tmx>'
    )
    run(tmp_path / "a.tmx", to=out)
    assert out.read_text("utf-8").splitlines() == [ONE, TWO]


def test_pages(tmp_path: Path, out: Path) -> None:
    pytest.importorskip("trafilatura")
    paragraphs = "".join(f"<p>{ONE[:-1]} numéro {number}, et {TWO}</p>" for number in range(9))
    page = f"<meta charset=latin1><body><nav>Accueil</nav><article>{paragraphs}</article></body></html>"
    for encoding in ("utf-8", "cp1252"):
        (tmp_path / "a.html").write_bytes(f"<html>{page}".encode(encoding))
        run(tmp_path / "a.html", to=out)
        assert out.read_text("utf-8").startswith(ONE[:-1]) and "Accueil" not in out.read_text("utf-8")


def test_mojibake_in_pages_is_repaired_as_in_texts(tmp_path: Path, out: Path) -> None:
    """Half of its characters are controls, which trafilatura leaves out."""
    pytest.importorskip("trafilatura")
    lines = ["Президент сказав це на зустрічі з журналістами у Києві.", "Это хороший дом, сказал он."]
    broken = [line.encode().decode("latin-1") for line in lines]
    paragraphs = "".join(f"<p>{line}</p>" for line in broken)
    (tmp_path / "a.html").write_text(f"<html><body><article>{paragraphs}</article></body></html>", "utf-8")
    report = run(tmp_path / "a.html", to=out, language="ukr_Cyrl", off=("language", "duplicate"))
    assert out.read_text("utf-8").splitlines() == lines and report.repaired["mojibake"] == 1


def test_a_tag_with_more_attributes_than_anyone_writes(tmp_path: Path, out: Path) -> None:
    """The parser compares each of them with all others."""
    pytest.importorskip("trafilatura")
    for number, value in enumerate(("x", '">"')):
        many = " ".join(f"a{n}={value}" for n in range(50_000))
        (tmp_path / f"{number}.html").write_text(f"<html><body><p {many}>{ONE}</p></body></html>")
    (tmp_path / "good.html").write_text(f"<html><body><p>{ONE}</p><img src='{'/x ' * 9999}'></body></html>")
    report = run(*sorted(tmp_path.glob("*.html")), to=out)
    assert report.documents_dropped == {"malformed": 2} and out.read_text("utf-8") == f"{ONE}\n"


def test_the_half_of_a_surrogate_pair_in_a_documents_id(tmp_path: Path, out: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "d\udcff", "text": ONE}) + "\n")
    run(tmp_path / "a.jsonl", to=out)
    assert out.read_text("utf-8") == f"{ONE}\n"
    assert rows(out.with_suffix(".docs"))[0][0].startswith("d")


def test_a_file_whose_name_is_not_utf8(tmp_path: Path, out: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.txt")
    path.write_text(f"{ONE}\n", encoding="utf-8")
    run(path, to=out, document="file")
    assert out.read_text("utf-8") == f"{ONE}\n"
    assert rows(out.with_suffix(".docs"))[0][0] == "\\udcff"


@pytest.mark.parametrize("kind", ["warc", "tmx", "jsonl"])
def test_a_text_that_begins_as_another_kind_is_refused_by_its_option(
    kind: str, tmp_path: Path, out: Path
) -> None:
    begins = {
        "warc": "WARC/1.0\r\nWARC-Type: response\r\n",
        "tmx": "<tmx><header/><body>",
        "jsonl": f'{{"text": "{ONE}"}}\n',
    }
    (tmp_path / "a").write_text(begins[kind])
    with pytest.raises(MexmaError, match=rf"(?m)a begins as {kind.upper()}$") as caught:
        run(tmp_path / "a", to=out)
    assert caught.value.hint and caught.value.hint.startswith(f"--format {kind}")
    if kind == "jsonl":
        run(tmp_path / "a", to=out, format="jsonl")
        assert out.read_text("utf-8") == f"{ONE}\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '[\n {"text": "Oui."},\n {"text": "Non."}\n]\n', "a.json is a list in JSON"),
        ("a.xlf", '<?xml version="1.0"?>\n<xliff version="1.2"/>', "a.xlf is XML, of which only TMX"),
        ("a.pdf", "%PDF-1.7\n1 0 obj\n", "a.pdf is a PDF, not a text file"),
        ("a.rtf", r"{\rtf1\ansi Bonjour le monde.}", "a.rtf is RTF, not a text file"),
        ("a.csv", "id,text\n1,Bonjour.\n", "a.csv is no text, as its name says"),
        ("a.jsonl", "5\n", "no document can be read: 1 malformed"),
    ],
)
def test_what_holds_no_documents_is_refused(
    name: str, content: str, message: str, tmp_path: Path, out: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(MexmaError, match=message):
        run(tmp_path / name, to=out)
    left = set(tmp_path.rglob("*")) - {tmp_path / name, out.parent}
    assert not left or "malformed" in message, "of a run that has done nothing, nothing stays"


def test_lines_of_a_wrapped_text_without_spaces_between_words(tmp_path: Path, out: Path) -> None:
    text = "我们昨天去了河边的\n老房子。他们坐火车\r\n 去了 Berlin\n和巴黎。\n\n第三句话在这里结束。\n"
    (tmp_path / "a.txt").write_bytes(text.encode())
    run(tmp_path / "a.txt", to=out, language="zho_Hans", document="blank", off=("language",))
    assert out.read_text("utf-8").splitlines() == [
        "我们昨天去了河边的老房子。",
        "他们坐火车去了 Berlin 和巴黎。",
        "第三句话在这里结束。",
    ]
    place = rows(out.with_name("fra.docs"))[0]
    assert place[1:] == ["0", "14"], "the line end is in the document"


def test_wrapped_lines_of_a_page_with_markup_in_paragraphs(tmp_path: Path, out: Path) -> None:
    pytest.importorskip("trafilatura")
    halves = f"{ONE[:16]}\n   <b>{ONE[16:20]}</b>{ONE[20:]}<br>"
    lines = "".join(f"<p>\n{halves.replace('maison', f'maison numéro {n}')}</p>" for n in range(9))
    (tmp_path / "a.html").write_text(f"<html><body><article>{lines}</article></body></html>")
    run(tmp_path / "a.html", to=out)
    assert out.read_text("utf-8").splitlines() == [
        ONE.replace("maison", f"maison numéro {n}") for n in range(9)
    ]


def test_no_break_spaces_between_all_words_are_spaces_to_the_splitter(tmp_path: Path, out: Path) -> None:
    (tmp_path / "a.txt").write_text(
        f"{ONE} {TWO}".replace(" ", "\u00a0") + f"\n{ONE}\u00a0: «\u00a0{TWO}\u00a0»\n"
    )
    run(tmp_path / "a.txt", to=out, off=("duplicate",))
    assert out.read_text("utf-8").splitlines()[:2] == [ONE, TWO]


def test_html_is_taken_out_of_text(tmp_path: Path, out: Path) -> None:
    text = (
        f"<p class='a'>{ONE[:9]}<b>{ONE[9:]}</b></p><div>{TWO}<br/>Si a &lt; b, je t&rsquo;aime &lt;3.</div>"
    )
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "u", "text": text}) + "\n")
    (tmp_path / "b.txt").write_text(f"{ONE}\n", "utf-8")
    report = run(tmp_path / "a.jsonl", tmp_path / "b.txt", to=out, off=("duplicate",))
    assert out.read_text("utf-8").splitlines() == [ONE, TWO, "Si a < b, je t’aime <3.", ONE]
    stripped = f"\n{ONE}\n\n{TWO} Si a < b, je t’aime <3.\n"
    places = rows(out.with_name("fra.docs"))
    assert [stripped[int(start) : int(end)] for name, start, end in places if name == "u"] == [
        ONE,
        TWO,
        "Si a < b, je t’aime <3.",
    ]
    assert report.repaired == {"tags": 1, "entities": 1}
    kept = run(tmp_path / "a.jsonl", to=out, off=("duplicate",), keep_html="true")
    assert kept.repaired == {} and kept.kept == 0 and list(kept.dropped) == ["html"]


def test_every_drop_has_its_reason(tmp_path: Path, out: Path) -> None:
    menu = "Accueil du site et plan du site."
    lines = [
        (ONE, None),
        (ONE, "duplicate"),
        ("Er kam gestern in das Haus meiner Mutter.", "language: deu_Latn"),
        ("12 345 678 910 11", "digits"),
        ("Он пришёл в дом моей матери.", "script"),
        ("Il est <verbe>venu</verbe> dans la maison.", "html"),
        ("a", "short"),
        *[(menu, "boilerplate")] * 4,
        ("Il est venu dans la maison de ma mère, Jean.", None),
    ]
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line, _ in lines), "utf-8")
    report = run(tmp_path / "a.txt", to=out, on=("boilerplate=3",))
    rejects = rows(out.with_name("rejects.tsv"))
    assert [(row[1], row[0], row[4]) for row in rejects] == [
        (str(number), reason, line) for number, (line, reason) in enumerate(lines, 1) if reason
    ]
    german = [lines[2][0], "Sie ist nicht da.", "Der Hund schläft in der Küche des Hauses."]
    (tmp_path / "b.txt").write_text("\n".join(german[1:]), "utf-8")
    for workers in (1, 2):  # a short line is in the language of its document
        run(tmp_path / "a.txt", tmp_path / "b.txt", to=out, workers=workers, document="file")
        seen = [row[::4] for row in rows(out.with_name("rejects.tsv")) if row[0].startswith("language")]
        assert seen == [["language: deu_Latn", line] for line in german]
    assert sum(report.dropped.values()) == len(rejects) and report.kept == 2
    near = run(tmp_path / "a.txt", to=out, on=("near-duplicate=0.6",))
    assert near.dropped["near-duplicate"] == 1
    everything = run(tmp_path / "a.txt", to=out, off=("all",))
    assert everything.kept == len(lines)


def test_a_text_in_a_kindred_language_is_dropped_and_that_is_told(tmp_path: Path, out: Path) -> None:
    malay = (Path(__file__).parents[2] / "fixtures" / "malay.txt").read_text("utf-8")
    (tmp_path / "a.txt").write_text(malay, "utf-8")
    report = run(tmp_path / "a.txt", to=out, language="ind_Latn", document="file")
    assert report.kept == 0 and report.dropped == {"language": report.sentences}
    assert report.warnings("ind_Latn")[0].startswith(f"{report.sentences} sentences are not in Indonesian")
    right = run(tmp_path / "a.txt", to=out, language="zsm_Latn", document="file")
    assert right.kept == right.sentences and right.warnings("zsm_Latn") == []


def test_words_divided_at_line_ends_are_put_together(tmp_path: Path, out: Path) -> None:
    text = (
        f"Il est ve-\nnu dans la mai\xad\nson de ma me\u0300\xadre,\nsous-\nmarin. {ONE} Il est sous-marin."
    )
    (tmp_path / "a.txt").write_text(text, "utf-8")
    wanted = ["Il est venu dans la maison de ma mère, sous-marin.", ONE, "Il est sous-marin."]
    for unit in ("blank", "file"):
        report = run(tmp_path / "a.txt", to=out, document=unit, off=("all",))
        assert out.read_text("utf-8").splitlines() == wanted
        assert report.words == 3 and report.repaired == {"control": 1, "composed": 1}
        assert (
            json.loads(out.with_name("fra.report.json").read_text())["documents"]["words_put_together"] == 3
        )
        assert [row[1:] for row in rows(out.with_name("fra.docs"))] == [
            ["0", "50"],
            ["51", "89"],
            ["90", "108"],
        ]
    report = run(tmp_path / "a.txt", to=out, off=("all",))
    assert out.read_text("utf-8").splitlines()[0] == "Il est ve-", "a line a document"
    assert report.words == 0


def test_pages_of_a_book_share_the_words_that_hyphens_are_judged_by(tmp_path: Path, out: Path) -> None:
    book = tmp_path / "book"
    book.mkdir()
    (book / "1.txt").write_text("Il est dans un sous-\nmarin.\n", "utf-8")
    (book / "2.txt").write_text("Le sous-marin est dans la mer.\n", "utf-8")
    run(book, to=out, document="file", off=("all",))
    assert out.read_text("utf-8").splitlines()[0] == "Il est dans un sous-marin."


def test_short_lines_take_their_documents_vote(tmp_path: Path, out: Path) -> None:
    (tmp_path / "a.txt").write_text(
        f"{ONE}\n{TWO}\nMerci, Karl!\n\nEr kam in das Haus. Danke, Jean.\n", "utf-8"
    )
    run(tmp_path / "a.txt", to=out, document="blank")
    assert out.read_text("utf-8").splitlines() == [ONE, TWO, "Merci, Karl!"]


def test_broken_files_are_counted_or_refused(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONGEST", 1000)
    broken = "été".encode("latin-1") + b"\n"
    text = f"\ufeff{ONE}\n".encode() + broken + b"a\0b\n" + b"x" * 5000 + b"\n\n" + f"{TWO}\n".encode()
    (tmp_path / "a.txt").write_bytes(text)
    report = run(tmp_path / "a.txt", to=out)
    assert out.read_text("utf-8").splitlines() == [ONE, TWO]
    assert report.documents_dropped == {"not UTF-8": 1, "too long": 1, "empty": 1}
    assert report.named == {"not UTF-8": ["2"], "too long": ["4"]}
    assert report.repaired == {"control": 1} and report.dropped == {"short": 1}
    places = [row[:2] for row in rows(out.with_name("rejects.tsv"))]
    assert places == [["not UTF-8", "2"], ["short", "3"], ["too long", "4"], ["empty", "5"]]
    run(tmp_path / "a.txt", to=out, document="blank")
    assert out.read_text("utf-8").splitlines() == [TWO]
    refused = {
        "empty.txt": (b"", "no documents"),
        "cut.txt.gz": (gzip.compress(text * 50)[:-20], "cut short"),
        "none.txt": (None, "no such file"),
    }
    for name, (content, message) in refused.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(MexmaError, match=message):
            run(tmp_path / name, to=tmp_path / f"{name}.out")
        assert not (tmp_path / f"{name}.out").exists()


def everything(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "spa.report.json"}


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A text of several chunks."""
    monkeypatch.setattr(reading, "CHUNK", 8 << 10)
    lines = [" ".join(SPANISH[start : start + 3]) for start in range(0, 900, 3)]
    (tmp_path / "spa.in").write_text("\n".join(lines + lines[:40]), "utf-8")
    return tmp_path / "spa.in"


def test_several_processes_give_the_same_bytes(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks_of_pools(monkeypatch)
    for workers in (1, 2):
        run(corpus, to=tmp_path / str(workers) / "spa.txt.zst", language="spa_Latn", workers=workers)
    assert everything(tmp_path / "1") == everything(tmp_path / "2")


def test_a_killed_run_ends_with_the_same_bytes(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run(corpus, to=tmp_path / "whole" / "spa.txt", language="spa_Latn")
    whole, work, done = everything(tmp_path / "whole"), ChunkWorker.work, []

    def until_killed(worker: ChunkWorker, chunk: reading.DocumentChunk) -> object:
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(chunk.number)
        return work(worker, chunk)

    target = tmp_path / "killed" / "spa.txt"
    monkeypatch.setattr(ChunkWorker, "work", until_killed)
    with pytest.raises(KeyboardInterrupt), caplog.at_level(logging.INFO):
        run(corpus, to=target, language="spa_Latn")
    assert "spa.txt.partial; the same command goes on there" in caplog.text
    assert [path.name for path in target.parent.iterdir()] == ["spa.txt.partial"]
    half = (target.parent / "spa.txt.partial" / "kept" / "0000002.npz").read_bytes()
    (target.parent / "spa.txt.partial" / "kept" / "0000002.npz").write_bytes(half[:100])
    done.clear()

    def counted(worker: ChunkWorker, chunk: reading.DocumentChunk) -> object:
        done.append(chunk.number)
        return work(worker, chunk)

    monkeypatch.setattr(ChunkWorker, "work", counted)
    with caplog.at_level(logging.INFO):
        run(corpus, to=target, language="spa_Latn")
    assert GOES_ON in caplog.text
    assert done[0] == 2 and done[1] == 4, "the damaged one, and those that were not done"
    assert everything(tmp_path / "killed") == whole


@pytest.fixture
def begun(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output of a run that was killed when two chunks were done."""
    work, target = ChunkWorker.work, tmp_path / "out" / "spa.txt"

    def killed(worker: ChunkWorker, chunk: reading.DocumentChunk) -> object:
        if chunk.number == 2:
            raise KeyboardInterrupt
        return work(worker, chunk)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ChunkWorker, "work", killed)
        run(corpus, to=target, language="spa_Latn")
    return target


def test_chunks_of_other_text_are_not_taken_over(
    begun: Path, corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus.write_text("Una casa muy grande.\n" + corpus.read_text("utf-8"), "utf-8")
    with caplog.at_level(logging.INFO):
        run(corpus, to=begun, language="spa_Latn")
    assert GOES_ON not in caplog.text
    run(corpus, to=tmp_path / "whole" / "spa.txt", language="spa_Latn")
    assert everything(begun.parent) == everything(tmp_path / "whole")


def test_the_beginning_of_another_run_is_named_and_stays(begun: Path, corpus: Path) -> None:
    """Of other settings, or of another command."""
    work = begun.with_name("spa.txt.partial")
    before = [path.read_bytes() for path in sorted(work.rglob("*")) if path.is_file()]
    with pytest.raises(MexmaError, match=r"another run: rule short: .* there, 9.0 now\n") as raised:
        run(corpus, to=begun, language="spa_Latn", on=("short=9",))
    assert f"remove {work} to start anew" in str(raised.value.hint)
    assert before == [path.read_bytes() for path in sorted(work.rglob("*")) if path.is_file()]
    Unfinished(by="mine", of={}).enter(work)
    with pytest.raises(MexmaError, match="another run: command: mine there, split now"):
        run(corpus, to=begun, language="spa_Latn")
    assert (work / "kept" / "0000001.npz").exists()


def test_languages_that_nobody_knows_are_refused_before_the_work(tmp_path: Path, out: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{ONE}\n", "utf-8")
    with pytest.raises(MexmaError, match="does not know wol_Latn"):
        run(tmp_path / "a.txt", to=out, language="wol_Latn")
    assert run(tmp_path / "a.txt", to=out, language="wol_Latn", off=("language",)).kept == 1
    assert run(tmp_path / "a.txt", to=out, language="und").kept == 1


def test_utf16_is_read_and_other_encodings_where_they_are_stated(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        (tmp_path / "a.txt").write_bytes(f"{ONE}\n{TWO}\n".encode(encoding))
        run(tmp_path / "a.txt", to=out)
        assert out.read_text("utf-8").splitlines() == [ONE, TWO], encoding
    monkeypatch.setenv("MEXMA_ENCODING", "latin1")
    (tmp_path / "a.txt").write_bytes("Il est venu d’Orléans, où il pleut.\n".encode("cp1252"))
    run(tmp_path / "a.txt", to=out)
    assert out.read_text("utf-8") == "Il est venu d’Orléans, où il pleut.\n"


@pytest.mark.parametrize(
    ("names", "document", "ids"),
    [
        (("x.html", "y.txt", "z.htm.gz"), "file", ["x", "y", "z"]),
        (("y.txt", "x.html"), "line", ["x", "y:"]),
        (("y.txt", "z.txt"), "blank", ["y:", "z:"]),
        (("y.txt",), "line", None),
        (("x.html", "y.jsonl"), "file", None),
        (("x.html", "y.tmx"), "file", None),
        (("x:1.html", "x.txt"), "line", None),
    ],
)
def test_the_names_of_files_tell_ids(
    names: tuple[str, ...], document: Any, ids: list[str] | None, tmp_path: Path
) -> None:
    files, settings = [tmp_path / name for name in names], SplitSettings(document=document)
    assert ids_of_files(files, settings) == ids
    if ids is not None:
        for file in files:
            text = b"One.\n\nTwo.\n"
            file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
        found = find_inputs(list(map(str, files)), "eng_Latn").documents(Splitting("eng_Latn", settings))
        assert {one.name[: one.name.find(":") + 1] or one.name for one in found} == {*ids}
