from __future__ import annotations

import gzip
import html
import json
import os
import signal
from pathlib import Path

import pytest
import torch

from mexma_cli import align
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.stages.align.sides import documents_in
from tests.command import fails, ok, run, write
from tests.examples import demo_pairs
from tests.processes import MEXMA, Program

KILLED = """
import os, signal
from mexma_cli.stages.align import align
from mexma_cli.store import journal
from mexma_cli.store.journal import AlignmentJournal
align.GROUP = 16
journal.SECONDS = 0
add = AlignmentJournal.add
def add_and_die(self, *given):
    add(self, *given)
    if self.groups == 2:
        os.kill(os.getpid(), signal.SIGKILL)
AlignmentJournal.add = add_and_die
"""
UNALIGNED = ("source.txt", "target.txt", "source.docs", "target.docs", "pairs.tsv")
DOCUMENTS = {"a": (0, 6), "b": (6, 14), "c": (14, 20), "d": (20, 29), "e": (29, 36)}
"""Which of the demo's translations are in which document."""


def sides() -> tuple[list[str], list[str]]:
    """36 Spanish sentences and their translations."""
    source, target = (list(side) for side in zip(*(pair.split("\t") for pair in demo_pairs(36)), strict=True))
    return source, target


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    """spa.txt and eng.txt, where documents are in another order, with spa.docs and eng.docs."""
    source, target = sides()
    order = sorted(DOCUMENTS, reverse=True)
    ids = [name for name, (first, last) in DOCUMENTS.items() for _ in range(first, last)]
    english = [line for name in order for line in target[slice(*DOCUMENTS[name])]]
    places = [f"{name}\t{n}\t{n + 1}" for name in order for n in range(*DOCUMENTS[name])]
    return [
        write(tmp_path / name, *lines)
        for name, lines in (
            ("spa.txt", source),
            ("eng.txt", english),
            ("spa.docs", ids),
            ("eng.docs", places),
        )
    ]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """The same, a document a file; one of the source is missing, and the last one is packed."""
    found = []
    for language, lines in zip(("spa", "eng"), sides(), strict=True):
        found.append(folder := tmp_path / language)
        (folder / "deep").mkdir(parents=True)
        for name, span in DOCUMENTS.items():
            if (language, name) != ("spa", "c"):
                write(folder / "deep" / f"{name}.{language}", *lines[slice(*span)])
        last = folder / "deep" / f"e.{language}"
        last.with_name(f"{last.name}.gz").write_bytes(gzip.compress(last.read_bytes()))
        last.unlink()
    return found


def pairs_of(printed: str) -> list[tuple[str, str]]:
    return [(source, target) for _, source, target, *_ in (line.split("\t") for line in printed.splitlines())]


@pytest.mark.slow
def test_documents_of_two_texts_in_any_format(texts: list[Path], tmp_path: Path) -> None:
    source, target, *docs = texts
    done = ok(run("align", source, target, "--docs", *docs, "--with-ids"))
    assert set(pairs_of(done.stdout)) >= set(zip(*sides(), strict=True))
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert {len(row) for row in rows} == {7} and all(row[3] == row[4] for row in rows)
    english = target.read_text(encoding="utf-8").splitlines()
    for row in rows:
        assert row[2] == " ".join(english[int(line) - 1] for line in row[6].split(","))
    assert "documents: 5 paired; in no pair: 0 of 5 of the source and 0 of 5 of the target" in done.stderr
    assert "36 sentences, of which " in done.stderr
    assert "xsim error" not in done.stderr
    unknown = ok(run("align", source, target, "--docs", *docs, "--with-ids", "--target-lang", "tha"))
    assert "mini reads Thai (tha_Thai) with an xsim" in unknown.stderr and unknown.stdout == done.stdout

    languages = "--source-lang", "spa", "--target-lang", "eng"
    common = ("align", source, target, "--docs", *docs, *languages)
    ok(run(*common, "-o", tmp_path / "o.jsonl"))
    first = json.loads((tmp_path / "o.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert list(first.values())[3:] == ["a", "a", [1], [31]] and str(first["score"]) == rows[0][0]
    ok(run(*common, "-o", tmp_path / "o.tmx"))
    assert (tmp_path / "o.tmx").read_text(encoding="utf-8").count("<tu ") == len(rows)
    ok(run(*common, "--format", "moses", "-o", tmp_path / "o"))
    assert (tmp_path / "o.eng").read_text(encoding="utf-8").splitlines() == [row[2] for row in rows]
    picture = tmp_path / "o.svg"
    ok(run(*common, "-o", tmp_path / "o.align", "--plot", picture))
    drawn = picture.read_text(encoding="utf-8")
    assert "sentence of spa.txt" in drawn and "left out: " in drawn
    fails(run(*common, "-o", picture, "--plot", picture), 1, "pairs are not written as .svg")
    page = tmp_path / "o.html"
    ok(run(*common, "-o", tmp_path / "o.align", "--plot", page))
    shown = html.unescape(page.read_text(encoding="utf-8"))
    assert "<h2>a</h2>" in shown and all(f"{line} </p>" in shown for side in sides() for line in side)
    fails(run(*common, "-o", tmp_path / "o.align", "--plot", tmp_path / "o.gif"), 1, ".html")
    assert (tmp_path / "o.align").read_text(encoding="utf-8").startswith(f"[0]:[30]:{rows[0][0]}:a:a\n")


def test_whole_documents_are_written_and_filter_reads_them(
    texts: list[Path], tmp_path: Path, two_threads: None
) -> None:
    source, target, *docs = texts
    write(source, *source.read_text(encoding="utf-8").splitlines()[:-6], *["Nada de eso, dijo."] * 6)
    command = ("align", source, target, "--docs", *docs, "--source-lang", "spa", "--target-lang", "eng")
    ok(run(*command, "-o", tmp_path / "o.documents"))
    text = (tmp_path / "o.documents").read_text(encoding="utf-8")
    torch.set_num_threads(1)
    assert ok(run(*command, "--format", "documents")).stdout == text
    found = [json.loads(line) for line in text.splitlines()]
    assert [(own["source_document"], own["target_document"]) for own in found] == [
        (name, name) for name in "abcde"
    ]
    assert found[0]["source"] == sides()[0][:6] and found[0]["target"] == sides()[1][:6]
    assert min(own["score"] for own in found[:4]) > found[4]["score"]
    for own in found:
        for side in ("source", "target"):
            places = [place for one in own["alignments"] for place in one[side]]
            assert sorted(places + own[f"{side}_alone"]) == list(range(len(own[side])))

    ok(run("filter", tmp_path / "o.documents", "--off", "all", "-o", tmp_path / "kept.tsv"))
    kept = pairs_of((tmp_path / "kept.tsv").read_text(encoding="utf-8"))
    assert pairs_of(ok(run("filter", tmp_path / "o.documents", "--off", "all")).stdout) == kept
    assert kept == pairs_of(ok(run(*command)).stdout)

    strict = ("--threshold", "0.2", "--min-aligned", "0.6")
    some = ok(run(*command, *strict, "--format", "documents"))
    assert [json.loads(line)["source_document"] for line in some.stdout.splitlines()] == list("abcd")
    too_little = "written: 4 of 5 pairs of documents; of the others too little is aligned, such as e\n"
    assert too_little in some.stderr
    rows = pairs_of(ok(run(*command, *strict)).stdout)
    assert len(rows) > 20 and "Nada de eso, dijo." not in " ".join(row[0] for row in rows)
    pieces = ok(run(*command, "--format", "documents", "--chunks", "30")).stdout.splitlines()
    whole = [line for piece in pieces for line in json.loads(piece)["source"]]
    assert len(pieces) > 10 and whole == source.read_text(encoding="utf-8").splitlines()
    fails(run(*command, "--chunks", "30"), 1, "--chunks cuts whole documents")


def test_two_files_are_one_document_each_as_for_vecalign(tmp_path: Path) -> None:
    source, target = sides()
    paths = write(tmp_path / "s", *source[:9]), write(tmp_path / "t", *target[:4], "", *target[6:9])
    done = ok(run("align", *paths, "--format", "vecalign"))
    lines = [line.split(":") for line in done.stdout.splitlines()]
    assert {len(line) for line in lines} == {3}
    for side, wanted in ((0, [*range(9)]), (1, [0, 1, 2, 3, 5, 6, 7])):
        ids = [number for line in lines for number in json.loads(line[side])]
        assert ids == wanted, "every sentence once, in order; the blank line is none"
    assert lines[0][:2] == ["[0]", "[0]"] and lines[-1][:2] == ["[8]", "[7]"]


def test_texts_in_another_order_are_told_of(tmp_path: Path) -> None:
    source, target = sides()
    spanish = write(tmp_path / "s", *source)
    for lines, told in ((target, False), (target[::-1], True)):
        done = ok(run("align", spanish, write(tmp_path / "t", *lines), "--format", "vecalign"))
        assert ("1 of 1 pair of documents: the mean score" in done.stderr) == told
        assert ("no translations (--threshold 0.3 --min-aligned 0.6 drops most), in" in done.stderr) == told


def test_short_documents_that_are_no_translations_are_told_of_if_they_are_many(tmp_path: Path) -> None:
    source, target = sides()
    for end, others in (
        (4, 0),
        (8, 8),
        (36, 8),
    ):  # documents of four lines; with the next but one, or their own
        for side, lines in (("s", source[:end]), ("t", target[others : others + end] + target[:others])):
            for start in range(0, end, 4):
                (tmp_path / str(end) / side).mkdir(parents=True, exist_ok=True)
                write(tmp_path / str(end) / side / f"{start}.txt", *lines[start : start + 4])
        done = ok(run("align", tmp_path / str(end) / "s", tmp_path / str(end) / "t"))
        assert ("of 9 pairs of documents: the mean score is below 0.25" in done.stderr) == (end == 36)
        assert ("the mean score" in done.stderr) == (end == 36)


def test_a_text_whose_documents_lie_beside_it_is_no_single_document(texts: list[Path]) -> None:
    done = ok(run("align", *texts[:2]))
    assert (
        "spa.txt is aligned as one document; --docs " in done.stderr and "spa.docs says where" in done.stderr
    )


def test_pairs_of_which_hardly_anything_is_aligned_are_named(tmp_path: Path) -> None:
    for name, lines in (("a", 36), ("b", 1)):
        write(tmp_path / f"s/{name}.txt", *sides()[0][:lines])
        write(tmp_path / f"t/{name}.txt", *sides()[1])
    done = ok(run("align", tmp_path / "s", tmp_path / "t"))
    assert "1 of 2 pairs of documents: less than 25 % of the sentences is aligned, such as b\n" in done.stderr


def test_names_in_nfc_and_nfd_or_no_unicode_at_all(tmp_path: Path) -> None:
    for side, lines in zip(("s", "t"), sides(), strict=True):
        name = "e\u0301t\u00e9" if side == "s" else "\u00e9te\u0301"
        write(tmp_path / side / f"{name}.txt", *lines[:2])
        write(tmp_path / f"{side}.docs", *[name] * 2)
        write(tmp_path / side / os.fsdecode(b"caf\xe9.txt"), *lines[2:4])
        write(tmp_path / f"{side}.txt", *lines[:2])
    done = ok(run("align", tmp_path / "s", tmp_path / "t", "--with-ids"))
    names = [row.split("\t")[3] for row in done.stdout.splitlines()]
    assert names == ["caf\\udce9"] * 2 + ["\u00e9t\u00e9"] * 2
    texts, docs = ([tmp_path / f"{side}.{end}" for side in "st"] for end in ("txt", "docs"))
    assert len(ok(run("align", *texts, "--docs", *docs)).stdout.splitlines()) == 2
    pairs = write(tmp_path / "pairs", "\u00e9t\u00e9\te\u0301te\u0301")
    assert len(ok(run("align", *texts, "--docs", *docs, "--document-pairs", pairs)).stdout.splitlines()) == 2


UNSEEN = ("", "\u200b", " \u00ad", "\ufeff", "\u200e\u200f", "\t")


@pytest.mark.parametrize("stores", [False, True])
def test_blank_lines_are_in_no_alignment_and_no_count(tmp_path: Path, stores: bool) -> None:
    def spread(name: str, lines: list[str], gaps: int) -> tuple[Path, Path]:
        rows = [row for line, unseen in zip(lines, UNSEEN, strict=True) for row in (line, *[unseen] * gaps)]
        text = write(tmp_path / name / "text", *rows)
        docs = write(tmp_path / f"{name}.docs", *[f"d{row < 3 * (gaps + 1)}" for row in range(len(rows))])
        if stores:
            ok(run("embed", text, "-o", tmp_path / name / "doc.emb"))
            text.unlink()
            text = tmp_path / name / "doc.emb"
        return text, docs

    (source, source_docs), (target, target_docs) = (
        spread(name, side[:6], gaps) for (name, gaps), side in zip((("s", 1), ("t", 2)), sides(), strict=True)
    )
    one = ok(run("align", source, target, "--keep", "1-1", "--with-ids"))
    wanted = [(str(2 * place + 1), str(3 * place + 1)) for place in range(6)]
    assert [tuple(line.split("\t")[-2:]) for line in one.stdout.splitlines()] == wanted
    assert "6 alignments of 1 pair of documents" in one.stderr and "source: 6 sentences, of wh" in one.stderr
    vecalign = ok(run("align", source, target, "--format", "vecalign")).stdout.splitlines()
    assert [line.rpartition(":")[0] for line in vecalign] == [
        f"[{2 * place}]:[{3 * place}]" for place in range(6)
    ]
    many = ok(run("align", source, target, "--with-ids", "--docs", source_docs, target_docs))
    assert sorted(tuple(line.split("\t")[-2:]) for line in many.stdout.splitlines()) == sorted(wanted)
    report = tmp_path / "r.json"
    folders = ok(
        run("align", source.parent, target.parent, "--with-ids", "--report", report, "-o", tmp_path / "o")
    )
    rows = (tmp_path / "o").read_text(encoding="utf-8").splitlines()
    assert [tuple(line.split("\t")[-2:]) for line in rows] == wanted and folders.exit_code == 0
    said = json.loads(report.read_text(encoding="utf-8"))
    assert (said["source"]["sentences"], said["target"]["sentences"]) == (6, 6)


def test_a_document_a_file_with_what_is_missing_and_what_is_left(folders: list[Path], tmp_path: Path) -> None:
    source, target = folders
    write(source / "deep/only.txt", "Hola.")
    write(target / "deep/empty.txt")
    write(source / "deep/empty.txt", "Buenos días.", "¿Qué tal?")
    (source / "cover.jpg").write_bytes(b"\x8a")
    (target / "cover.jpg").write_bytes(b"\x8a")
    out, report, rest = tmp_path / "o.tsv", tmp_path / "r.json", tmp_path / "rest"
    done = ok(
        run("align", source, target, "-o", out, "--report", report, "--unaligned", rest, "--threshold", "0.2")
    )
    alone = "in no pair: 1 of 6 of the source, such as deep/only; and 1 of 6 of the target, such as deep/c"
    assert f"documents: 5 paired; {alone}\n" in done.stderr
    assert f"{source}: passed over: 1 named .jpg, and no text\n" in done.stderr
    assert "warning: 1 document of the target in these pairs: no sentences" in done.stderr
    said = json.loads(report.read_text(encoding="utf-8"))
    assert said["source"]["sentences"] == 32 and said["target"]["without_sentences"] == 1
    written = pairs_of(out.read_text(encoding="utf-8"))
    assert said["counts"]["written"] == len(written) > 20
    spanish, english, *ids, paired = (
        (rest / name).read_text(encoding="utf-8").splitlines() for name in UNALIGNED
    )
    assert spanish[-2:] == ["Buenos días.", "¿Qué tal?"] and ids[0][-2:] == ["deep/empty"] * 2
    assert (len(spanish), len(english)) == tuple(map(len, ids))
    assert "deep/empty\tdeep/empty" not in paired, "one side has none"
    assert not {side for pair in written for side in pair} & {*spanish, *english}
    assert f"{rest}: no documents have sentences left on both sides, for `mexma mine`" in done.stderr

    patterns = (f"{tmp_path}/spa/deep/*.spa", f"{tmp_path}/eng/deep/*.eng")
    ok(run("align", *patterns, "--threshold", "0.2", "-o", out))  # over what is there
    assert pairs_of(out.read_text(encoding="utf-8")) == [
        pair for pair in written if pair[0] not in sides()[0][29:]
    ]
    listed = write(tmp_path / "list", "a\tb")
    fails(
        run("align", *patterns, "--document-pairs", listed, "--threshold", "0.99"), 0, "nothing was aligned"
    )


def test_documents_are_in_reading_order_on_both_sides(folders: list[Path], tmp_path: Path) -> None:
    chapters = {"1": "a", "2": "b", "10": "d"}
    for folder in folders:
        for path in (folder / "deep").iterdir():
            name = next((name for name, letter in chapters.items() if path.name.startswith(letter)), "")
            path.rename(path.with_name(f"{name}{path.name[1:]}")) if name else path.unlink()
    lines = ok(run("align", *folders, "--format", "jsonl")).stdout.splitlines()
    found = [json.loads(line)["source_document"] for line in lines]
    assert list(dict.fromkeys(found)) == ["deep/1", "deep/2", "deep/10"]
    patterns = [f"{folder}/deep/*.{folder.name}" for folder in folders]
    assert [list(documents_in(Path(pattern))) for pattern in patterns] == [["1", "2", "10"]] * 2


def test_what_is_left_is_mined_within_documents(folders: list[Path], tmp_path: Path) -> None:
    rest = tmp_path / "rest"
    ok(
        run(
            "align",
            *folders,
            "--keep",
            "1-1",
            "--threshold",
            "0.8",
            "--unaligned",
            rest,
            "-o",
            tmp_path / "o",
        )
    )
    names = [rest / name for name in ("source.txt", "target.txt", "source.docs", "target.docs", "pairs.tsv")]
    found = pairs_of(
        ok(run("mine", *names[:2], "--within", *names[2:4], "--document-pairs", names[4])).stdout
    )
    aligned = pairs_of((tmp_path / "o").read_text(encoding="utf-8"))
    both = set(found) | set(aligned)
    assert aligned and found and len(both & set(zip(*sides(), strict=True))) > 25


def test_stores_and_texts_go_together(texts: list[Path], tmp_path: Path, tiny_encoder: Path) -> None:
    source, target, *docs = texts
    for text, name in ((source, "s"), (target, "t")):
        ok(run("embed", text, "--lang", "spa", "--model", tiny_encoder, "-o", tmp_path / f"{name}.emb"))
    wanted = ok(run("align", source, target, "--docs", *docs, "--model", tiny_encoder)).stdout
    for paths in ((tmp_path / "s.emb", target), (tmp_path / "s.emb", tmp_path / "t.emb")):
        found = ok(run("align", *paths, "--docs", *docs)).stdout
        assert pairs_of(found) == pairs_of(wanted), "but for rounding the vectors are the same"
    for name in "ab":
        text = write(tmp_path / name, *source.read_text(encoding="utf-8").splitlines()[:9])
        ok(run("embed", text, "--model", tiny_encoder, "-o", tmp_path / f"stores/{name}.emb"))
    done = ok(run("align", tmp_path / "stores", tmp_path / "stores"))
    assert "documents: 2 paired" in done.stderr and len(pairs_of(done.stdout)) == 18, "a document a store"
    ok(run("embed", target, "-o", tmp_path / "mini.emb"))
    fails(run("align", tmp_path / "s.emb", tmp_path / "mini.emb", "--docs", *docs), 1, "different encoders")
    fails(
        run("align", source, tmp_path / "t.emb", "--model", "mini", "--docs", *docs), 1, "different encoders"
    )


def test_documents_are_found(folders: list[Path], tmp_path: Path) -> None:
    source, target = folders
    for number, path in enumerate(sorted(target.rglob("*.*"))):
        path.rename(path.with_name(f"{number}{path.name[1:]}"))
    done = ok(run("align", source, target, "--find-documents", "-o", tmp_path / "o.jsonl"))
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {(row["source_document"], row["target_document"]) for row in rows} == {
        (f"deep/{name}", f"deep/{'abcde'.index(name)}") for name in "abde"
    }
    assert (
        "documents: 4 paired; in no pair: 0 of 4 of the source and 1 of 5 of the target, such as deep/2"
        in done.stderr
    )


def test_documents_that_are_found_and_are_no_translations_are_dropped(tmp_path: Path) -> None:
    write(tmp_path / "s/x.txt", *sides()[0][:9])
    write(tmp_path / "t/y.txt", *sides()[1][20:29])
    found = ("align", tmp_path / "s", tmp_path / "t", "--find-documents")
    done = ok(run(*found))
    assert not done.stdout and "written: 0 of 1 pair of documents; the others" in done.stderr
    assert "have a mean score below 0.25, such as x and y; --min-aligned 0 keeps them" in done.stderr
    assert len(ok(run(*found, "--min-aligned", "0")).stdout.splitlines()) > 3


def test_python_names_the_number_of_alignments_that_it_gives(tmp_path: Path) -> None:
    """Not sentences without a translation, nor what was dropped."""
    for name, side, others in zip("st", sides(), (slice(9, 18), slice(20, 29)), strict=True):
        write(tmp_path / name / "x.txt", *side[: 9 - (name == "t")])
        write(tmp_path / name / "y.txt", *side[others])
    found = align(tmp_path / "s", tmp_path / "t", min_aligned=0.6, threshold=0.3, encoder="mini")
    given = list(found)
    assert {pair.source_document for pair in given} == {"x"} and found.counts().pairs == 2
    assert repr(found) == f"Aligned({len(given)} alignments of 1 pair of documents)"
    assert len(found.records) > len(given) == found.counts().written


@pytest.mark.parametrize("how", [pytest.param((), marks=pytest.mark.slow), ("--find-documents",)])
def test_killed_and_run_again_it_gives_the_same_bytes(
    texts: list[Path], tmp_path: Path, how: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, *docs = texts
    command = ("align", source, target, "--docs", *docs, *how, "--max-tokens", "8", "--device", "cpu", "-o")
    (tmp_path / "one").mkdir(), (tmp_path / "other").mkdir()
    died = Program(KILLED + MEXMA, *command, tmp_path / "one/o.tsv.gz")
    assert died.wait() == -signal.SIGKILL, died.communicate()
    (partial,) = (tmp_path / "one").glob("*.partial")
    assert (partial / "progress.json").is_file() and not list((tmp_path / "one").glob("*.tsv.gz"))
    fails(run(*command, tmp_path / "one/o.tsv.gz", "--max-size", "4"), 1, "max_size: 5 there, 4 now")
    monkeypatch.setattr("mexma_cli.stages.align.align.GROUP", 16)
    for name in ("one", "other"):
        again = ok(run(*command, tmp_path / name / "o.tsv.gz", "--report", tmp_path / f"{name}.json"))
        assert ("going on with the run" in again.stderr) == (name == "one")
        assert "lines were too long and cut to 8 tokens: that is the limit of the encoder" in again.stderr
    (one,), (other,) = ([*(tmp_path / name).iterdir()] for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes() and len(gzip.decompress(one.read_bytes())) > 2000
    reports = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "other")]
    mini = SentenceEncoder.load("mini", "cpu")
    mini.max_tokens = 8
    mini.count_cut([line for side in sides() for line in side])
    assert [report["encoder"]["truncated"] for report in reports] == [mini.truncated] * 2 != [0, 0]


def test_the_same_bytes_on_any_number_of_threads(
    texts: list[Path], monkeypatch: pytest.MonkeyPatch, two_threads: None
) -> None:
    monkeypatch.setattr("mexma_cli.stages.align.align.GROUP", 16)
    source, target, *docs = texts
    command = ("align", source, target, "--docs", *docs, "--find-documents", "--with-ids")
    on_two = ok(run(*command)).stdout
    assert torch.get_num_threads() == 2, "as before"
    torch.set_num_threads(1)
    assert ok(run(*command)).stdout == on_two


def test_parts_make_the_whole(texts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mexma_cli.stages.align.align.GROUP", 16)
    source, target, *docs = texts
    command = ("align", source, target, "--docs", *docs)
    whole = ok(run(*command)).stdout
    for number in ("1/2", "2/2"):
        ok(run(*command, "--shard", number, "-o", tmp_path / "o.tsv"))
    parts = [(tmp_path / f"o.0000{n}-of-00002.tsv").read_text(encoding="utf-8") for n in (1, 2)]
    assert all(parts) and "".join(parts) == whole
    ok(run(*command, "--shard", "9/9", "-o", tmp_path / "o.tsv"))
    monkeypatch.undo()
    empty = run(*command, "--shard", "1/9", "-o", tmp_path / "e.tsv")
    assert (
        "no pair of documents is in this part: parts are cut between groups of some 4,096" in ok(empty).stderr
    )
    fails(run(*command, "--shard", "1/2"), 2, "--shard names its output")


class TestBadInput:
    def test_usage(self, texts: list[Path], folders: list[Path], tmp_path: Path) -> None:
        source, target, *docs = texts
        fails(run("align", "-", "-"), 2, "Only one of the inputs can be stdin")
        fails(run("align", source, target, "--threshold", "nan"), 2, "'--threshold': no score is")
        fails(run("align", source, target, "--threshold", "1"), 2, "'--threshold': should be less than 1 (is")
        with pytest.raises(MexmaError, match=r"`threshold`: should be less than 1 \(is 1.06\)"):
            align(source, target, threshold=1.06)
        fails(run("align", source, target, "-o", source), 2, "is an input")
        fails(run("align", *folders, "-o", folders[0] / "deep/o.tsv"), 2, "o.tsv lies in an input")
        patterns = (f"{tmp_path}/spa/deep/*.spa", f"{tmp_path}/eng/deep/*.eng")
        fails(run("align", *patterns, "-o", folders[1] / "deep/a.eng"), 2, "a.eng is an input")
        fails(run("align", source, target, "--unaligned", tmp_path, "-o", "o"), 1, "which would be lost")
        rest = tmp_path / "rest"
        fails(run("align", source, target, "--unaligned", rest, "-o", rest / "o"), 2, "lies in the folder of")
        fails(run("align", source, target, "--format", "moses"), 2, "writes two files")
        fails(run("align", source, target, "-o", tmp_path / "o.xls"), 1, "not written as .xls")
        fails(
            run("align", source, target, "-o", tmp_path / "o.tmx"), 1, "tells the sides apart by their lang"
        )
        fails(run("align", *folders, "--docs", *docs), 1, "spa has a document a file")
        fails(run("align", folders[0], target), 1, "eng.txt is one document", "--docs names two files")
        fails(run("align", folders[0], target.parent / "none"), 1, "none: no such file or folder")
        fails(run("align", source, target, "--find-documents"), 1, "spa.txt is one document")
        both = ("--find-documents", "--document-pairs", docs[0])
        fails(run("align", source, target, "--docs", *docs, *both), 2, "give one")

    def test_documents(self, texts: list[Path], folders: list[Path], tmp_path: Path) -> None:
        source, target, *docs = texts
        short = write(tmp_path / "short", "a", "b")
        fails(run("align", source, target, "--docs", short, docs[1]), 1, "short has 2 lines", "36")
        other = write(tmp_path / "x", *(f"x{n}" for n in range(36)))
        fails(run("align", source, target, "--docs", other, docs[1]), 1, "no document id in common")
        pairs = write(tmp_path / "p", "a\tnone")
        fails(run("align", *folders, "--document-pairs", pairs), 1, "the document 'a' is not in")
        fails(run("align", tmp_path / "none/*.a", folders[1]), 1, "no documents there")
        fails(run("align", tmp_path / "*/*.a", folders[1]), 1, "one * stands for the document's name")
        write(folders[0] / "deep/a.txt", "Hola.")
        fails(run("align", *folders), 1, "would both be the document 'deep/a'")
        empty = write(tmp_path / "empty")
        fails(run("align", empty, target), 1, "has no lines")
        (folders[0] / "deep/a.txt").unlink()
        (folders[0] / "deep/b.spa").write_bytes(b"\xff\xfa\n")
        fails(run("align", *folders), 1, "b.spa, line 1, byte 1: not UTF-8")

    def test_documents_in_pieces_are_taken_together(self, texts: list[Path], tmp_path: Path) -> None:
        source, target, *docs = texts
        ids = docs[0].read_text(encoding="utf-8").splitlines()
        lines = source.read_text(encoding="utf-8").splitlines()
        moved = write(tmp_path / "moved", *lines[3:], *lines[:3]), write(tmp_path / "ids", *ids[3:], *ids[:3])
        done = ok(run("align", moved[0], target, "--docs", moved[1], docs[1]))
        assert "are in pieces (5 documents, 6 pieces)" in done.stderr
        assert "source: 36 sentences" in done.stderr

    def test_one_sentence_with_many(self, tmp_path: Path) -> None:
        lines = [f"{n} {line}" for n in range(60) for line in sides()[1]]
        one, many = write(tmp_path / "one", lines[700]), write(tmp_path / "many", *lines)
        done = ok(run("align", one, many, "--format", "vecalign"))
        rows = done.stdout.splitlines()
        assert len([row for row in rows if not row.startswith("[]")]) == 1 and "[700" in done.stdout
        assert f"target: {len(lines):,} sentences, of which" in done.stderr
