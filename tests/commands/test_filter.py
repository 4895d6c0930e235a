"""`mexma filter`: what is kept is as it was read, and what is not has a reason."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path

import pytest
from click.testing import Result

from mexma_cli.formats.bitext import MinedPair, formats, open_pairs, write_pairs
from mexma_cli.formats.documents import DocumentPair
from mexma_cli.stages import filter as filtering
from mexma_cli.stages import worker_pool
from mexma_cli.text.lines import read_lines
from mexma_cli.text.rules import RULES
from mexma_cli.text.writing import write_chunks
from tests.command import fails, ok, run, write
from tests.processes import forks_of_pools

FINE = ("Il a plu toute la nuit.", "It rained all night long.")
PAIRS = [
    ("", *FINE),
    ("missing", "", "It rained all night long."),
    ("html", "Lire <b>la suite</b> ici", "Read the rest of it here"),
    ("ratio", "Oui, merci.", "Yes, thank you, that is very kind of you, and I will gladly take it along."),
    ("copy", "Paris Saint-Germain 2018", "Paris Saint-Germain 2019"),
    ("numbers", "Il en reste 12 ou 13.", "There are 14 or 15 left."),
    ("", 'Elle dit "oui" (deux fois)', "She said yes (twice)"),
    ("duplicate", *FINE),
    ("language", "El perro duerme en la cocina de la casa.", "The dog sleeps in the kitchen."),
    ("script", "Он спит на кухне", "He sleeps in the kitchen"),
]
LANGUAGES = ("--source-lang", "fr", "--target-lang", "en")


def mined(*pairs: tuple[str, str, str]) -> list[MinedPair]:
    return [
        MinedPair(1.5 - number / 8, source, target, number + 1, 9, 1, 0, 0.25, 0.5, 0.75)
        for number, (_, source, target) in enumerate(pairs)
    ]


def made(path: Path, kind: str = "tsv", with_ids: bool = True) -> Path:
    languages = ("fra_Latn", "eng_Latn")
    write_chunks([path], formats()[kind].write(mined(*PAIRS), languages, with_ids))
    return path


def filtered(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    return run("filter", *arguments, stdin=stdin)


@pytest.mark.parametrize("kind", [pytest.param("tsv", marks=pytest.mark.slow), "jsonl"])
def test_several_processes_give_the_same_bytes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks_of_pools(monkeypatch)
    monkeypatch.setattr(filtering, "_BATCH", 2)
    monkeypatch.setattr(filtering, "_ALONE", 1)
    path, started = made(tmp_path / f"mined.{kind}", kind), []
    pool = worker_pool.ProcessPoolExecutor
    monkeypatch.setattr(
        worker_pool, "ProcessPoolExecutor", lambda *how: (started.append(how[0]), pool(*how))[1]
    )
    found = []
    for workers in "12":
        outputs = tmp_path / "out.tsv", tmp_path / "dropped.tsv", tmp_path / "report.json"
        words = (path, *LANGUAGES, "-o", outputs[0], "--rejects", outputs[1], "--report", outputs[2])
        ok(filtered(*words, "--workers", workers))
        report = json.loads(outputs[2].read_text())
        found.append([outputs[0].read_bytes(), outputs[1].read_bytes(), report["dropped"], report["kept"]])
    assert found[0] == found[1] and found[0][0] and found[0][1] and started == [2]


def test_an_input_that_breaks_off_while_others_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forks_of_pools(monkeypatch)
    monkeypatch.setattr(filtering, "_BATCH", 1)
    monkeypatch.setattr(filtering, "_ALONE", 0)
    path = tmp_path / "pairs.tsv"
    path.write_bytes("".join(f"{a}\t{b}\n" for _, a, b in PAIRS).encode() + b"\xff\xff\tx\n")
    fails(filtered(path, *LANGUAGES, "-o", tmp_path / "out.tsv", "--workers", "2"), 1, "line 11")
    assert not (tmp_path / "out.tsv").exists()


def test_excluded_sentences_from_a_pipe_reach_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of `--exclude <(zcat dev.gz)`, which can be read once, by the process that has it."""
    forks_of_pools(monkeypatch)
    monkeypatch.setattr(filtering, "_ALONE", 0)
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "w") as pipe:
        pipe.write(FINE[1] + "\n")
    out, path = tmp_path / "out.tsv", write(tmp_path / "pairs.tsv", "\t".join(FINE), "Un mot.\tA word.")
    ok(filtered(path, *LANGUAGES, "--exclude", f"/dev/fd/{ours}", "-o", out, "--workers", "2"))
    os.close(ours)
    assert out.read_text() == "Un mot.\tA word.\n"


def test_columns_and_their_names_stay(tmp_path: Path) -> None:
    path, out = tmp_path / "pairs.tsv", tmp_path / "out.tsv"
    path.write_text("url\tsource\ttarget\nu\tUn mot.\tA word.\nv\t\tx\nw\tDeux mots.\tTwo words.\n")
    ok(filtered(path, "--off", "all", "--on", "missing", "-o", out))
    assert out.read_text() == path.read_text().replace("v\t\tx\n", "")
    ok(filtered(out, "--off", "all", "--on", "missing", "-o", tmp_path / "again.tsv"))
    assert (tmp_path / "again.tsv").read_text() == out.read_text(), "what was written is read"


def test_lines_come_out_as_they_went_in_or_with_their_reason(tmp_path: Path) -> None:
    path = made(tmp_path / "mined.tsv.gz")
    lines = [line for line, _ in open_pairs(path).records]
    outputs = tmp_path / "out.tsv", tmp_path / "dropped.tsv", tmp_path / "report.json"
    done = ok(filtered(path, *LANGUAGES, "-o", outputs[0], "--rejects", outputs[1], "--report", outputs[2]))
    wanted = [reason for reason, *_ in PAIRS]
    kept = [line for line, reason in zip(lines, wanted, strict=True) if not reason]
    assert outputs[0].read_text().splitlines() == kept
    rows = enumerate(zip(wanted, lines, strict=True), 1)
    seen = {"language": "language: source spa_Latn"}
    assert outputs[1].read_text().splitlines() == [
        f"{seen.get(reason, reason)}\t{number}\t{line}" for number, (reason, line) in rows if reason
    ]
    ok(filtered(path, *LANGUAGES, "-o", outputs[0], "--rejects", tmp_path / "dropped.csv"))
    with (tmp_path / "dropped.csv").open(encoding="utf-8") as file:
        table = [["reason", "number", *MinedPair._fields[: lines[0].count("\t") + 1]]]
        assert [*csv.reader(file)] == table + [row.split("\t") for row in outputs[1].read_text().splitlines()]
    counts = {reason: wanted.count(reason) for reason in RULES if reason in wanted}
    report = json.loads(outputs[2].read_text())
    assert (report["read"], report["kept"], report["dropped"]) == (len(PAIRS), 2, counts)
    assert report["rules"]["ratio"] == 3 and report["languages"] == ["fra_Latn", "eng_Latn"]
    head, *table = done.stderr.splitlines()[-len(counts) - 1 :]
    assert head == "2 of 10 pairs kept (20.0 %)" and done.stdout == ""
    assert [line.split()[:2] for line in table] == [[reason, str(count)] for reason, count in counts.items()]


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "tmx", "parquet"])
@pytest.mark.parametrize("written", ["tsv", "jsonl"])
def test_rejects_have_the_same_columns_from_and_to_each_format(
    kind: str, written: str, tmp_path: Path
) -> None:
    path, dropped = made(tmp_path / f"mined.{kind}", kind), tmp_path / "dropped.tsv.zst"
    ok(filtered(path, *LANGUAGES, "-o", tmp_path / f"out.{written}", "--rejects", dropped))
    rows = [line.split("\t", 2) for line in read_lines(dropped)]
    wanted = zip([reason for reason, *_ in PAIRS], read_lines(made(tmp_path / "all.tsv")), strict=True)
    places = [(reason, str(number), line) for number, (reason, line) in enumerate(wanted, 1) if reason]
    assert [(reason.partition(":")[0], *rest) for reason, *rest in rows] == places


def test_rejects_of_pairs_with_other_fields_have_the_same_columns(tmp_path: Path) -> None:
    objects = [{"source": "a", "target": "a"}, {"score": 1.5, "source": "b", "target": "b"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects))
    options = ("--off", "all", "--on", "copy", "-o", tmp_path / "o.tsv", "--rejects", tmp_path / "r.csv")
    ok(filtered(tmp_path / "in.jsonl", *options))
    with (tmp_path / "r.csv").open(newline="") as file:
        names, *rows = csv.reader(file)
    assert names == ["reason", "number", "score", "source", "target"]
    assert rows == [["copy", "1", "nan", "a", "a"], ["copy", "2", "1.5", "b", "b"]]


@pytest.mark.parametrize("kind", ["tsv", "jsonl", "tmx"])
def test_a_pipe_keeps_the_format(kind: str, tmp_path: Path) -> None:
    content = made(tmp_path / "in", kind).read_bytes()
    (tmp_path / "out").write_bytes(ok(filtered("-", *LANGUAGES, stdin=content)).stdout_bytes)
    found = open_pairs(tmp_path / "out", languages=("fra_Latn", "eng_Latn"))
    kept = [pair for pair, (reason, *_) in zip(mined(*PAIRS), PAIRS, strict=True) if not reason]
    assert found.format == kind and list(found.pairs) == kept


def test_formats_are_changed_with_scores_and_ids(tmp_path: Path) -> None:
    path, wanted = made(tmp_path / "in.jsonl", "jsonl"), [reason for reason, *_ in PAIRS]
    kept = [pair for pair, reason in zip(mined(*PAIRS), wanted, strict=True) if not reason]
    for name in ("a.tsv", "b.tmx", "c.parquet"):
        ok(filtered(path, *LANGUAGES, "-o", tmp_path / name))
        found = open_pairs(tmp_path / name, languages=("fra_Latn", "eng_Latn"))
        assert list(found.pairs) == kept
    ok(filtered(path, *LANGUAGES, "--format", "moses", "-o", tmp_path / "d"))
    sides = [(tmp_path / f"d.{code}").read_text().splitlines() for code in ("fra", "eng")]
    assert sides == [[pair.source for pair in kept], [pair.target for pair in kept]]
    ok(
        filtered(
            tmp_path / "d.fra", tmp_path / "d.eng", *LANGUAGES, "--format", "moses", "-o", tmp_path / "e"
        )
    )
    assert sorted(path.name for path in tmp_path.glob("e.*")) == ["e.eng", "e.fra"]


def test_a_document_with_languages_needs_no_options(tmp_path: Path) -> None:
    path = made(tmp_path / "in.tmx", "tmx", with_ids=False)
    done = ok(filtered(path, "-o", tmp_path / "out.tmx"))
    assert "2 of 10 pairs kept" in done.stderr and "warning" not in done.stderr
    assert open_pairs(tmp_path / "out.tmx").languages == ("fra_Latn", "eng_Latn")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("test.csv", 'French,English\n"Oui, oui","IT RAINED all\nnight long"'),
        ("sides.csv", "French;English\nOui;IT RAINED all night long"),
        ("one.csv", "Il a plu, toute la nuit"),
        ("named.txt", 'source,target\n"Oui, oui",IT RAINED all night long'),
        ("test.jsonl", '{"source": "Oui", "target": "IT RAINED all night long"}'),
        ("test.json", '{"uid": 1, "fra": "Oui", "eng": "IT RAINED all night long", "deu": "Ja"}'),
        ("test.tmx", ""),
        ("test.parquet", ""),
    ],
)
def test_a_test_set_in_any_format_is_excluded(name: str, text: str, tmp_path: Path) -> None:
    path = made(tmp_path / "in.tsv")
    test_set = write(tmp_path / name, text)
    if not text:
        write_pairs(test_set, formats()[test_set.suffix[1:]], mined(PAIRS[1]), ("fra_Latn", "eng_Latn"))
    options = (*LANGUAGES, "--off", "all", "--exclude", test_set)
    done = ok(filtered(path, *options, "--rejects", tmp_path / "r"))
    dropped = [line.split("\t")[0] for line in (tmp_path / "r").read_text().splitlines()]
    assert dropped == ["excluded"] * (2 if name == "one.csv" else 3) and "warning" not in done.stderr


@pytest.mark.parametrize("text", ["", " \n\t\n", "<tmx><body></body></tmx>"])
def test_a_file_that_excludes_nothing_is_told(text: str, tmp_path: Path) -> None:
    path, nothing = made(tmp_path / "in.tsv"), tmp_path / "nothing.txt"
    nothing.write_text(text)
    done = ok(filtered(path, "--off", "all", "--exclude", nothing))
    assert "nothing.txt has no sentence" in done.stderr


def test_ids_are_kept_where_the_first_pair_has_none(tmp_path: Path) -> None:
    rows = {"score": 0.5, "source": "un", "target": "one"}, {"score": 1.5, "source": "deux", "target": "two"}
    path = write(tmp_path / "in.jsonl", json.dumps(rows[0]), json.dumps(rows[1] | {"source_line": 4}))
    found = ok(filtered(path, "--off", "all", "--format", "tsv")).stdout.splitlines()
    assert [line.split("\t")[3] for line in found] == ["", "4"]


def test_ids_of_units_that_are_not_kept_are_counted(tmp_path: Path) -> None:
    path = made(tmp_path / "in.tmx", "tmx")
    assert "tuid" not in ok(filtered(path, "--off", "all", "-o", tmp_path / "same.tmx")).stderr
    path.write_text(path.read_text().replace('tuid="', 'tuid="a'))
    done = ok(filtered(path, "--off", "all", "-o", tmp_path / "out.tmx"))
    assert "left out: ids of units (tuid) (10)" in done.stderr


def test_two_files_of_lines(tmp_path: Path) -> None:
    sides = [write(tmp_path / f"x.{side}", *(pair[side] for pair in PAIRS)) for side in (1, 2)]
    done = ok(filtered(*sides, *LANGUAGES, "--rejects", tmp_path / "r"))
    assert done.stdout.splitlines() == ["\t".join(pair[1:]) for pair in PAIRS if not pair[0]]
    assert (tmp_path / "r").read_text().splitlines()[0] == f"missing\t2\t\t{FINE[1]}"
    sides[0].write_text("one\n")
    fails(filtered(*sides), 1, "x.1 has 1 line")


def test_rules_by_name(tmp_path: Path) -> None:
    path = made(tmp_path / "in.tsv")

    def reasons(*options: str) -> list[str]:
        ok(filtered(path, "--rejects", tmp_path / "r", *options))
        return [line.split("\t")[0] for line in (tmp_path / "r").read_text().splitlines()]

    assert reasons("--off", "all", "--on", "html") == ["html"]
    assert reasons("--off", "all", "--on", "low-score=1.3") == ["low-score"] * 8
    assert reasons("--off", "all", "--on", "duplicate-target") == ["duplicate-target"] * 2
    assert "copy" not in reasons("--off", "copy", "--off", "numbers")
    assert reasons("--off", "all", "--on", "duplicate-letters") == ["duplicate-letters"]
    test_set = write(tmp_path / "test.txt", "x\tIT RAINED all night long")
    assert reasons("--off", "all", "--on", "excluded", "--exclude", str(test_set)) == ["excluded"] * 3
    marked = write(
        tmp_path / "labels.tsv", "y\t0\t0\t" + "\t".join(FINE), "n\t3\t4\t" + "\t".join(PAIRS[3][1:])
    )
    assert reasons("--off", "all", "--on", "excluded", "--exclude", str(marked)) == ["excluded"]
    with marked.open("a") as file:
        file.write("n\tno\n")
    fails(filtered(path, "--exclude", marked), 1, "labels.tsv, line 3: not a label")
    for changed in ("Y", "yes", '"y"', "answer\tsource line\ttarget line\tsource\ttarget\ny"):
        marked.write_text(f"{changed}\t0\t0\t" + "\t".join(FINE) + "\n", "utf-8")
        fails(filtered(path, "--exclude", marked), 1, "labels.tsv, line 1: not a label")
    plain = write(tmp_path / "plain.tsv", "\t".join(FINE))
    fails(
        filtered(plain, "--on", "low-score=0.5"), 1, "the rule low-score reads a column of scores, and these"
    )
    low, high = ("0.9", "0.04"), ("1.2", "0.98")
    for scores, rule, told in (
        (low, "low-score=1.06", "low-score=1.06 is for margins, and these scores look like probabilities,"),
        (low, "low-score", "low-score=1 is for margins, and these scores look like probabilities, from 0.04"),
        (low, "high-score", "from 0.04 to 0.9: name a limit, such as --on high-score=0.5\n"),
        (
            high,
            "low-score=0.5",
            "low-score=0.5 is for probabilities, and these scores look like margins,",
        ),
        (high, "low-score", None),
        (low, "low-score=0.5", None),
        (("0.9", "-0.1"), "low-score=1", None),
    ):
        scored = write(tmp_path / "scored.tsv", *("\t".join((score, *FINE)) for score in scores))
        done = ok(filtered(scored, "--off", "all", "--on", rule))
        assert told in done.stderr if told else "these scores look" not in done.stderr
    fails(filtered(path, "--off", "htlm"), 1, "there is no rule 'htlm'", "did you mean html?")
    near = "there is no rule 'near-duplicate'", "did you mean duplicate-letters?"
    fails(filtered(path, "--on", "near-duplicate"), 1, *near)
    fails(filtered(path, "--on", "html=3"), 1, "the rule html has no limit")


def test_near_copies_and_pairs_that_came_before_in_other_numbers_are_counted(tmp_path: Path) -> None:
    pairs = [
        ("", "Seite 12: Lesen Sie mehr.", "Page 12: read more."),
        ("duplicate-letters", "SEITE 13 – lesen Sie mehr!", "Page 13: Read more"),
        ("", "Seite 12: Lesen Sie mehr.", "Page 12: read on."),
        ("copy", "Read all about it", "Read all about if"),
        ("copy", "“The Times”, 4 May", "The Times (5 May)"),
        ("", "Livet var Menneskenes Lys.", "Das Leben war das Licht der Menschen."),
    ]
    path = write(tmp_path / "in.tsv", *("\t".join(pair[1:]) for pair in pairs))
    rules = "--off", "all", "--on", "copy=0.9", "--on", "duplicate-letters"
    done = ok(filtered(path, *rules, "--rejects", tmp_path / "r", "--report", tmp_path / "report.json"))
    assert done.stdout.splitlines() == ["\t".join(pair[1:]) for pair in pairs if not pair[0]]
    rejects = [line.split("\t")[:2] for line in (tmp_path / "r").read_text().splitlines()]
    assert rejects == [[reason, str(row)] for row, (reason, *_) in enumerate(pairs, 1) if reason]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["dropped"] == {"copy": 2, "duplicate-letters": 1} and report["rules"]["copy"] == 0.9


def test_what_cannot_be_checked_is_said(tmp_path: Path) -> None:
    path = made(tmp_path / "in.tsv")
    done = ok(filtered(path, "--target-lang", "eng"))
    unstated = "the language of the source is not checked (rules script and language): --source-lang states"
    assert unstated in done.stderr and "of the target" not in done.stderr
    done = ok(filtered(path, "--source-lang", "tlh", "--target-lang", "eng", "--off", "script"))
    assert re.search(r"the rule language does not check Klingon: py3langid \S+ does not", done.stderr)
    spoken = "--source-lang", "eng", "--target-lang", "fra"
    swapped = ok(filtered(write(tmp_path / "fra-eng.tsv", *["\t".join(FINE)] * 20), *spoken)).stderr
    assert "0% of the sources look English, and 100% of the targets: are the sides swapped" in swapped
    done = ok(filtered(path, "--off", "script", "--off", "language"))
    assert "warning" not in done.stderr


def test_whole_documents_are_filtered_as_pairs(tmp_path: Path) -> None:
    beads = [(range(1), range(1))]
    document = DocumentPair(("a", "b"), None, 0.5, ([FINE[0]], [FINE[1]]), ([1], [1]), beads, [0.75])
    path = tmp_path / "whole.jsonl"
    write_pairs(path, formats(alignments=True)["documents"], [document], ("fra_Latn", "eng_Latn"))
    fails(
        filtered(path, "-o", tmp_path / "kept.jsonl"), 1, "whole.jsonl has whole documents", "--min-aligned"
    )
    ok(filtered(path, "--format", "jsonl", "-o", tmp_path / "kept.jsonl"))
    assert ok(filtered(path)).stdout.startswith(f"0.75\t{FINE[0]}\t{FINE[1]}\t")
    assert json.loads((tmp_path / "kept.jsonl").read_text())["source_lines"] == [1]


def test_mistakes_leave_no_file(tmp_path: Path) -> None:
    outputs = ("-o", tmp_path / "out.tsv", "--rejects", tmp_path / "r.tsv")
    path = write(tmp_path / "in.tsv", *["1.0\tOui, il pleut.\tYes, it rains."] * 3000, "1.0\tbroken")
    fails(filtered(path, *outputs), 1, "in.tsv, line 3001: 2 tab-separated fields")
    fails(filtered(write(tmp_path / "empty.tsv"), *outputs), 1, "there are no pairs in the input")
    fails(filtered(path, "-o", path), 2, "is an input")
    fails(filtered(path, "--rejects", path), 2, "is an input")
    fails(filtered(path, "--rejects", tmp_path / "r.tmx"), 1, "are not written as .tmx", ".tsv")
    both = tmp_path / "x"
    fails(filtered(path, "-o", both, "--rejects", both), 2, "x is two of the outputs")
    fails(
        filtered(path, "-o", tmp_path / "y", "--rejects", both, "--report", both),
        2,
        "x is two of the outputs",
    )
    fails(filtered(path, path, path), 2, "not 3 files")
    fails(filtered(path, "--format", "moses"), 2, "writes two files")
    fails(filtered(path, "--format", "tmx", "-o", tmp_path / "x.tmx"), 1, "are not stated")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty.tsv", "in.tsv"]


def test_sides_of_a_memory_are_found_by_its_tags(tmp_path: Path) -> None:
    segments = {"en-GB": "The colour is green.", "en-US": "The color is green.", "sh": "Boja je zelena."}
    unit = "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in segments.items())
    memory = write(tmp_path / "m.tmx", f"<tmx><body><tu>{unit}</tu></body></tmx>")
    done, report = tmp_path / "out.tmx", tmp_path / "report.json"
    told = ok(filtered(memory, "--off", "all", "--source-lang", "en-us", "--target-lang", "sh",
                       "-o", done, "--report", report)).stderr  # fmt: skip
    assert "left out: segments in another region of a language (1)" in told
    assert json.loads(report.read_text())["left_out"] == {"segments in another region of a language": 1}
    assert list(open_pairs(done).pairs) == [(segments["en-US"], segments["sh"])]
    ok(filtered(memory, "--off", "all", "--source-lang", "en", "--target-lang", "hr", "-o", done))
    assert list(open_pairs(done).pairs) == [(segments["en-GB"], segments["sh"])]
    memory.write_text(memory.read_text().replace('"en-GB"', '"hr"').replace('"sh"', '"sr"'))
    failed = filtered(memory, "--off", "all", "--source-lang", "sh", "--target-lang", "en")
    fails(failed, 1, "a unit has hr and sr, and sh means each of them")
    assert "hr, sr: --source-lang and --target-lang" in failed.stderr


@pytest.mark.parametrize(
    ("tags", "stated", "written"),
    [
        (("LT-LT", "EN-GB"), ("lt", "eng"), ("LT-LT", "EN-GB")),
        (("lt", "en-GB"), ("lt-LT", "en-GB"), ("lt", "en-GB")),
        (None, ("lt-LT", "en_GB.UTF-8"), ("lt-LT", "en-GB")),
        (None, ("lit_Latn", "eng"), ("lt", "en")),
    ],
)
def test_a_memory_keeps_its_tags_and_regions_that_are_stated(
    tags: tuple[str, str] | None, stated: tuple[str, str], written: tuple[str, str], tmp_path: Path
) -> None:
    path, pair = tmp_path / "in", ("Katė miega.", "The cat sleeps.")
    if tags is None:
        write(path, "\t".join(pair))
    else:
        sides = zip(tags, pair, strict=True)
        unit = "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in sides)
        write(path, f"<tmx><body><tu>{unit}</tu></body></tmx>")
    how = ("--off", "all", "--source-lang", stated[0], "--target-lang", stated[1])
    ok(filtered(path, *how, "-o", tmp_path / "out.tmx"))
    assert re.findall('xml:lang="(.*?)"', (tmp_path / "out.tmx").read_text()) == [*written]
    assert list(open_pairs(tmp_path / "out.tmx").pairs) == [pair]


def test_a_header_is_left_out_only_where_it_is_not_written(tmp_path: Path) -> None:
    table = write(tmp_path / "in.tsv", "source\ttarget", "", "\t".join(FINE))
    report, same, other = (tmp_path / name for name in ("report.json", "out.tsv", "out.jsonl"))
    for output, wanted in (
        (same, {"blank lines": 1}),
        (other, {"header line": 1, "blank lines": 1}),
    ):
        done = filtered(table, "-o", output, "--report", report, *LANGUAGES)
        assert json.loads(report.read_text())["left_out"] == wanted
        assert ("left out: header line (1)" in done.stderr) == ("header line" in wanted)
    assert same.read_text() == "source\ttarget\n" + "\t".join(FINE) + "\n"
    assert len(other.read_text().splitlines()) == 1


def test_a_line_of_jsonl_that_is_no_pair_is_left_out_alone(tmp_path: Path) -> None:
    half = '{"source": "\\ud83d", "target": "x"}'
    lines = [json.dumps({"source": FINE[0], "target": FINE[1]}), "", half]
    done = ok(filtered(write(tmp_path / "a.jsonl", *lines), "--off", "all"))
    assert done.stdout == f"{lines[0]}\n"
    assert "left out: blank lines (1)" in done.stderr and "a lone surrogate) (1)" in done.stderr
    failed = filtered(write(tmp_path / "b.jsonl", half), "--off", "all")
    fails(failed, 1, "no pairs in the input")
    assert "lone surrogate) (1)" in failed.stderr


def test_fields_of_the_users_own_are_kept_with_their_lines_or_counted(tmp_path: Path) -> None:
    row = {"source": FINE[0], "target": FINE[1], "url": "u", "licence": "cc0"}
    file = write(tmp_path / "a.jsonl", json.dumps(row))
    same = ok(filtered(file, "--off", "all"))
    assert same.stdout == f"{json.dumps(row)}\n" and "left out" not in same.stderr
    for ending in (".tsv", ".csv", ".parquet"):
        done = ok(filtered(file, "--off", "all", "-o", tmp_path / f"out{ending}"))
        assert "left out: values of other columns, such as url, licence (2)" in done.stderr


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".parquet"])
def test_ids_that_only_later_pairs_have_are_written_or_counted(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"score": 0.5, "source": "un", "target": "one"},
        {"score": 0.25, "source": "deux", "target": "two"},
    ]
    rows[1] |= {"source_line": 7, "cosine": 0.75}
    file, out = write(tmp_path / "a.jsonl", *map(json.dumps, rows)), tmp_path / f"out{ending}"
    said = "left out: values that the first pairs have none of (2)"
    assert said not in ok(filtered(file, "--off", "all", "-o", out)).stderr
    first, second = open_pairs(out).pairs
    assert (first, second) == (MinedPair(0.5, "un", "one"), MinedPair(0.25, "deux", "two", 7, cosine=0.75))
    monkeypatch.setattr(filtering, "_BATCH", 1)
    assert said in ok(filtered(file, "--off", "all", "-o", out)).stderr
    assert [pair[:3] for pair in open_pairs(out).pairs] == [(0.5, "un", "one"), (0.25, "deux", "two")]
