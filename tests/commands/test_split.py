"""`mexma split` and `mexma langid`, as users run them."""

from __future__ import annotations

from pathlib import Path

from mexma_cli.stages.mine.documents import read_document_ids
from tests.command import fails, ok, run, write

LINES = ["Il est venu dans la maison. Il pleut depuis trois jours.", "Er kam in das Haus meiner Mutter."]


def test_split_writes_sentences_documents_and_a_report(tmp_path: Path) -> None:
    text, out, rejects = write(tmp_path / "a.txt", *LINES), tmp_path / "fra.txt", tmp_path / "r.tsv"
    done = ok(run("split", text, "--lang", "fr", "-o", out, "--rejects", rejects, "--workers", "1"))
    assert out.read_text("utf-8").splitlines() == LINES[0].replace(". ", ".\n").splitlines()
    assert done.stdout == "" and "language" in done.stderr and "kept" in done.stderr
    quiet = ok(run("-q", "split", text, "--lang", "fr", "-o", out, "--workers", "1"))
    assert quiet.stdout == quiet.stderr == ""
    assert rejects.read_text() == f"language: deu_Latn\t2\t0\t{len(LINES[1])}\t{LINES[1]}\n"
    documents, names = read_document_ids(tmp_path / "fra.docs")
    assert documents.tolist() == [0, 0] and list(names) == ["1"], "mine --within reads it"


def test_split_reads_stdin(tmp_path: Path) -> None:
    out = tmp_path / "fra.txt"
    ok(run("split", "-", "--lang", "fr", "-o", out, "--workers", "1", stdin=LINES[0]))
    assert len(out.read_text("utf-8").splitlines()) == 2
    empty = ok(
        run(
            "split",
            "-",
            "--lang",
            "fr",
            "-o",
            out,
            "--format",
            "jsonl",
            "--workers",
            "1",
            stdin='{"text": ""}',
        )
    )
    assert f"warning: no sentence was kept, so {out} is empty" in empty.stderr
    other = ok(
        run(
            "split",
            write(tmp_path / "b.txt", *LINES),
            "--lang",
            "uk",
            "-o",
            tmp_path / "b.out",
            "--workers",
            "1",
        )
    )
    assert "sentences are not in Ukrainian: is that right?" in other.stderr


def test_mistakes_of_split(tmp_path: Path) -> None:
    text, out = write(tmp_path / "a.txt", *LINES), tmp_path / "fra.txt"
    fails(run("split", text, "--lang", "fr", "-o", text), 2, "is an input")
    fails(run("split", text, "--lang", "fr", "-o", out, "--on", "shorts"), 1, "no rule 'shorts'")
    fails(run("split", text, text, "--lang", "fr", "-o", out), 1, "named twice")
    fails(run("split", tmp_path / "x*", "--lang", "fr", "-o", out), 1, "no such file")
    fails(run("split", text, "--lang", "fr", "-o", out, "--splitter", "sat"), 1, "wtpsplit")


def test_langid_says_a_language_for_each_line(tmp_path: Path) -> None:
    stdin = "\n".join([*LINES, "", "Овај човек је дошао у кућу."]) + "\n"
    done = ok(run("langid", stdin=stdin))
    table = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in table] == ["fra_Latn", "deu_Latn", "und", "srp_Cyrl"]
    assert [row[2] for row in table] == stdin.splitlines()
    ok(run("langid", write(tmp_path / "a", *LINES), "-o", tmp_path / "b", "--lid", "heliport"))
    assert (tmp_path / "b").read_text("utf-8").startswith("fra_Latn\t1.000\t")
    fails(run("langid", "--lid", "none", stdin=stdin), 2, "tells no languages")


def test_a_side_of_a_memory_is_found_by_its_tag(tmp_path: Path) -> None:
    unit = '<tu><tuv xml:lang="{}"><seg>Vrtna vrata su obojena u zeleno.</seg></tuv></tu>'
    memory = tmp_path / "m.tmx"
    memory.write_text(f"<tmx><body>{unit.format('sh')}</body></tmx>")
    for code in ("sh", "hr"):
        done = run("split", memory, "--lang", code, "-o", tmp_path / "out.txt")
        assert done.exit_code == 0, done.output
        assert (tmp_path / "out.txt").read_text() == "Vrtna vrata su obojena u zeleno.\n"
    failed = run("split", memory, "--lang", "en", "-o", tmp_path / "out.txt")
    assert failed.exit_code == 1 and "no unit has en; there are sh" in failed.stderr
    assert "sh: --lang" in failed.stderr


def test_a_text_in_another_encoding_than_is_stated_is_told_of(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_bytes("Kiedyś będzie żył spokojnie, powiedział zły Łukasz.\n".encode("cp1250") * 5)
    said = "a.txt: in the stated encoding it has letters that Polish has not, such as ³ "
    for command in (
        ("split", "--workers", "1", "-o", tmp_path / "s.txt"),
        ("embed", "-o", tmp_path / "s.emb"),
    ):
        for encoding, told in (("windows-1250", False), ("windows-1252", True)):
            over = ("--overwrite",) if command[0] == "embed" else ()
            done = ok(run(*command, *over, text, "--lang", "pol", "--encoding", encoding))
            assert (said in done.stderr) == told
            assert ("is it in windows-1250?" in done.stderr) == told
