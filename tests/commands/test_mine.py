from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import zstandard

from mexma_cli.files import checksum_file, workplace
from tests.command import fails, ok, run, write
from tests.reference import laser, laser_mined, laser_text


def raw_store(folder: Path, name: str, lines: list[str], vectors: np.ndarray) -> Path:
    raw, text, store = folder / f"{name}.f32", folder / f"{name}.txt", folder / f"{name}.emb"
    raw.write_bytes(vectors.astype(np.float32).tobytes())
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    ok(run("convert", raw, "--dim", str(vectors.shape[1]), "--text", text, "-o", store))
    return store


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Three sentences on either side, two of which are translations; the source has a repeated line, an
    empty one and one with a tab."""
    vectors = np.eye(4)
    source = raw_store(
        tmp_path, "s", ["un\tdeux", "", "deux", "deux", "trois"], vectors[[0, 3, 1, 1, 2]] + 0.01
    )
    target = raw_store(tmp_path, "t", ["two", "one", "four"], vectors[[1, 0, 3]] + 0.02)
    return source, target


def test_laser_raw_vectors_in_laser_pairs_out(tmp_path: Path) -> None:
    for side in ("src", "tgt"):
        raw_store(tmp_path, side, laser_text(side), laser()[side])
    for retrieval, margin, k in (("max", "ratio", 4), ("intersect", "distance", 16)):
        result = run(
            "mine", tmp_path / "src.emb", tmp_path / "tgt.emb",
            "--margin", margin, "-k", k, "--retrieval", retrieval,
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        rows = [line.partition("\t") for line in result.stdout.splitlines()]
        ours = {sentences: float(score) for score, _, sentences in rows}
        theirs = {f"s-{i}\tt-{j}": score for (i, j), score in laser_mined(retrieval, margin, k).items()}
        assert ours.keys() == theirs.keys()
        assert max(abs(ours[pair] - theirs[pair]) for pair in ours) < 1e-6
        assert list(ours.values()) == sorted(ours.values(), reverse=True)


@pytest.mark.parametrize("length", [2.0**100, 2.0**-100])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_vectors_of_any_length_have_their_direction(length: float, tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(2, 6, 8))
    vectors[1] += vectors[0]
    found = {}
    for name, scale in (("one", 1.0), ("other", length)):
        (folder := tmp_path / name).mkdir()
        pair = [
            raw_store(folder, side, [f"{side}{n}" for n in range(6)], scale * vectors[place])
            for place, side in enumerate("st")
        ]
        mined = ok(run("mine", *pair, "-k", "2"))
        assert mined.stderr.endswith("source: 6 lines; target: 6 lines\n")
        scored = ok(run("score", *pair, "--scores-only", "--margin", "absolute"))
        found[name] = mined.stdout, scored.stdout
    assert found["one"] == found["other"] and len(found["one"][0].splitlines()) > 2


def test_texts_in_one_language_are_told_of(tmp_path: Path) -> None:
    source = ["A cat slept.", "The bus was late.", "We walked home.", "Il pleut."]
    target = ["A cat slept!", "The bus was late.", "We walked home.", "It rains."]
    pair = raw_store(tmp_path, "s", source, np.eye(4)), raw_store(tmp_path, "t", target, np.eye(4) + 0.01)
    told = "warning: copies, and no translations, among the best 4 pairs: 3; --drop-copies drops them"
    assert told in ok(run("mine", *pair)).stderr
    assert "copies" not in ok(run("mine", *pair, "--top", "1", "--drop-copies")).stderr
    few = raw_store(tmp_path, "f", [*target[:2], *"xy"], np.eye(4) + 0.01)
    assert "copies" not in ok(run("mine", pair[0], few)).stderr


def test_pairs_on_stdout_and_counts_on_stderr(pair: tuple[Path, Path]) -> None:
    result = ok(run("mine", *pair, "-k", "2", "--threshold", "1.5"))
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert sorted(row[1:] for row in rows) == [["deux", "two"], ["un deux", "one"]]
    assert [float(row[0]) for row in rows] == sorted((float(row[0]) for row in rows), reverse=True)
    assert "2 pairs in" in result.stderr
    assert "source: 5 lines (1 duplicate, 1 empty left out); target: 3 lines" in result.stderr
    assert "tabs or line breaks became spaces in 1 sentence\n" in result.stderr


def test_into_a_file_as_its_name_says(pair: tuple[Path, Path], tmp_path: Path) -> None:
    wanted = run("mine", *pair).stdout
    for name in ("out.tsv", "out.tsv.gz"):
        result = run("mine", *pair, "-o", tmp_path / name)
        assert result.exit_code == 0 and result.stdout == ""
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8") == wanted
    assert gzip.decompress((tmp_path / "out.tsv.gz").read_bytes()).decode() == wanted
    assert not list(tmp_path.glob("*tmp*"))


def test_a_probability_is_no_threshold_of_margins(pair: tuple[Path, Path], tmp_path: Path) -> None:
    for threshold, told in (("0.5", 1), ("1.05", 0)):
        done = ok(run("mine", *pair, "--threshold", threshold, "-o", tmp_path / f"{threshold}.tsv"))
        assert done.stderr.count("threshold 0.5 is none for margins") == told


@pytest.mark.parametrize("score", ["--margin=ratio", "--margin=distance", "--margin=absolute"])
def test_a_threshold_that_drops_nothing_is_warned_of(pair: tuple[Path, Path], score: str) -> None:
    done = ok(run("mine", *pair, score, "--threshold", "-3"))
    rows = done.stdout.splitlines()
    assert f"warning: the threshold drops none of {len(rows)} candidates" in done.stderr and len(rows) > 1
    done = ok(run("mine", *pair, score, "--threshold", rows[-1].split("\t")[0]))
    assert "the threshold drops" not in done.stderr and len(done.stdout.splitlines()) < len(rows)
    done = ok(run("mine", *pair, "--score=probability", "--threshold", "0"))
    assert "warning: the threshold drops none of 3 candidates" in done.stderr
    done = ok(run("mine", *pair, "--score=probability", "--precision", "0.01"))
    assert "asked for a precision of 1.00 %" in done.stderr and "drops none" not in done.stderr


def test_no_pair_above_the_threshold_is_a_warning(pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = run("mine", *pair, "--threshold", "99", "-o", tmp_path / "out.tsv")
    assert result.exit_code == 0 and "warning: no pair was found above 99" in result.stderr
    assert (tmp_path / "out.tsv").read_bytes() == b""


def test_formats_and_ids(pair: tuple[Path, Path], tmp_path: Path) -> None:
    plain = [line.split("\t") for line in run("mine", *pair).stdout.splitlines()]
    with_ids = [line.split("\t") for line in run("mine", *pair, "--with-ids").stdout.splitlines()]
    assert [row[:3] for row in with_ids] == plain and {len(row) for row in with_ids} == {10}
    ids = {row[2]: row[3:7] for row in with_ids}
    assert ids["two"] == ["4", "1", "1", "1"] and ids["one"] == ["1", "2", "1", "1"]

    path = tmp_path / "out.jsonl.gz"
    ok(run("mine", *pair, "-o", path))
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert [[str(r["score"]), r["source"].replace("\t", " "), r["target"]] for r in records] == plain
    assert [[str(value) for value in list(r.values())[3:]] for r in records] == [r[3:] for r in with_ids]

    languages = ("--source-lang", "fr", "--target-lang", "eng")
    result = ok(run("mine", *pair, *languages, "--format", "moses", "-o", tmp_path / "out.gz"))
    for name, place in (("out.fra.gz", 1), ("out.eng.gz", 2)):
        lines = gzip.decompress((tmp_path / name).read_bytes()).decode().splitlines()
        assert lines == [row[place] for row in plain]

    result = run("mine", *pair, *languages, "--format", "tmx")
    assert result.stdout.count("<tu ") == len(plain) and 'srclang="fr"' in result.stdout
    assert not [path for path in tmp_path.iterdir() if ".partial" in path.name]


def test_drops_by_reason_are_counted_and_reported(tmp_path: Path) -> None:
    vectors = np.eye(5)
    turned = vectors + 0.1 * (np.arange(5) == 3)[:, None]
    source = raw_store(tmp_path, "s", ["un", "IBM", "A 1", "deux", "deux"], vectors[[0, 1, 2, 3, 3]])
    target = raw_store(tmp_path, "t", ["one", "IBM", "a 2", "two", ""], turned)
    out, report = tmp_path / "out.tsv", tmp_path / "report.json"
    result = run(
        "mine", source, target, "--margin", "absolute", "--drop-copies", "--max-score", "0.999", "-o", out,
        "--report", report,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "dropped of 4 candidates: 3 above --max-score" in result.stderr
    result = run(
        "mine", source, target, "--margin", "absolute", "--drop-copies", "--threshold", "0.99", "-o", out,
        "--report", report,
    )  # fmt: skip
    assert "1 pair in" in result.stderr
    assert "dropped of 4 candidates: 1 below the threshold, 1 identical, 1 near-identical" in result.stderr
    assert [line.split("\t")[1:] for line in out.read_text().splitlines()] == [["un", "one"]]
    found = json.loads(report.read_text())
    result = run("mine", source, target, "-o", out, "--report", "-")
    assert json.loads(result.stdout)["kind"] == found["kind"] and not Path("-").exists()
    dropped = {"threshold": 1, "identical": 1, "near-identical": 1}
    assert found["counts"] == {"candidates": 4, "dropped": dropped, "written": 1}
    assert found["source"]["left_out"] == {"duplicates": 1, "empty": 0, "unusable_vectors": 0}
    assert (found["target"]["rows"], found["target"]["usable"]) == (5, 4)
    assert found["source"]["path"] == str(source) and found["output"]["files"] == [str(out)]
    assert found["settings"]["threshold"] == 0.99 and found["search"]["index"] == "exact"
    assert found["scores"]["0.5"] == pytest.approx(1) and found["peak_memory_bytes"] > 1 << 20
    assert {"neighbours", "matching", "writing"} <= found["seconds"].keys()


def test_top_and_all_candidates(pair: tuple[Path, Path]) -> None:
    every = run("mine", *pair, "-k", "3", "--all-candidates", "--with-ids")
    rows = [line.split("\t") for line in every.stdout.splitlines()]
    assert sorted((row[3], row[4]) for row in rows) == [(s, t) for s in "145" for t in "123"]
    best = run("mine", *pair, "-k", "3", "--all-candidates", "--with-ids", "--top", "2")
    assert best.stdout.splitlines() == every.stdout.splitlines()[:2]
    assert "dropped of 9 candidates: 7 beyond the top 2" in best.stderr
    none = run("mine", *pair, "-k", "1", "--margin", "distance")  # of the nearest alone: 0 at most
    assert "dropped of 2 candidates: 2 below threshold 0, the default with max" in none.stderr


class TestWithin:
    def documents(self, folder: Path, source: str, target: str) -> tuple[str, Path, Path]:
        paths = folder / "s.docs", folder / "t.docs"
        for path, ids in zip(paths, (source, target), strict=True):
            path.write_text("".join(f"{name}\n" for name in ids))
        return "--within", *paths

    def test_only_paired_documents_make_pairs(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        """`two` is in another document than `deux`; scores are as without documents."""
        everything = run("mine", *pair, "-k", "3", "--all-candidates").stdout.splitlines()
        within = self.documents(tmp_path, "aabbc", "adc")
        result = ok(run("mine", *pair, "-k", "3", "--all-candidates", *within))
        rows = result.stdout.splitlines()
        assert set(rows) < set(everything)
        assert sorted(row.split("\t")[1:] for row in rows) == [["trois", "four"], ["un deux", "two"]]
        alone = "in no pair: 1 of 3 of the source, such as b; and 1 of 3 of the target, such as d"
        assert f"documents: 2 paired; {alone}\n" in result.stderr

        (tmp_path / "pairs").write_text("b\ta\na\td\n")
        report = tmp_path / "report.json"
        result = run("mine", *pair, *within, "--document-pairs", tmp_path / "pairs", "--report", report)
        assert sorted(row.split("\t")[1:] for row in result.stdout.splitlines()) == [
            ["deux", "two"],
            ["un deux", "one"],
        ]
        assert json.loads(report.read_text())["documents"]["pairs"] == 2

    def test_bad_input(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        fails(
            run("mine", *pair, *self.documents(tmp_path, "aab", "aaa")),
            1,
            "s.docs has 3 lines",
            f"{pair[0]} has 5",
        )
        fails(run("mine", *pair, *self.documents(tmp_path, "aaaaa", "bbb")), 1, "no document id in common")
        assert run("mine", *pair, "--document-pairs", tmp_path / "s.docs").exit_code == 2


def test_kept_neighbours_give_the_same_pairs(pair: tuple[Path, Path], tmp_path: Path) -> None:
    kept, report = tmp_path / "pair.knn", tmp_path / "report.json"
    ok(run("knn", *pair, "-k", "3", "-o", kept))
    result = ok(run("mine", *pair, "-k", "2", "--neighbours", kept, "--with-ids", "--report", report))
    assert result.stdout == run("mine", *pair, "-k", "2", "--with-ids").stdout != ""
    search = {"index": "exact", "recall": None, "neighbours": str(kept)}
    assert json.loads(report.read_text())["search"] == search
    result = fails(
        run("mine", pair[1], pair[0], "-k", "2", "--neighbours", kept), 1, "t.emb (3 rows) is another store"
    )
    fails(run("mine", *pair, "--neighbours", kept), 1, "pair.knn has 3 neighbours a row, 4 are wanted")
    fails(run("mine", *pair, "--neighbours", "16"), 2, "-k 16")


def test_a_threshold_that_was_found_before(pair: tuple[Path, Path], tmp_path: Path) -> None:
    manifest = json.loads((pair[0] / "manifest.json").read_text())
    known = {
        "encoder": "x", "fingerprint": manifest["fingerprint"],
        "source": "fra_Latn", "target": "eng_Latn", "k": 2,
        "score": "margin", "margin": "absolute", "threshold": 0.5, "precision": 0.9,
        "precision_interval": [0.8, 1.0],
    }  # fmt: skip
    file = tmp_path / "known.json"
    file.write_text(json.dumps([known]))
    unstated = ("mine", *pair, "--thresholds", file, "--margin", "absolute")
    kept = (*unstated, "--source-lang", "eng", "--target-lang", "fra")
    result = ok(run(*kept, "-k", 2))
    typed = run("mine", *pair, "--margin", "absolute", "-k", 2, "--threshold", 0.5)
    assert result.stdout == typed.stdout != ""
    assert f"threshold 0.5, from {file}" in result.stderr
    fails(run(*kept), 1, "no threshold for English and French with this encoder and -k 4", "one for -k 2")
    fails(run(*unstated, "-k", 2), 1, "of these texts are not stated", "give --source-lang and --target-lang")
    others = (*unstated, "--source-lang", "deu", "--target-lang", "fra")
    fails(
        run(*others), 1, "known.json has no threshold for German and French\nhint: `mexma tune SOURCE TARGET"
    )
    texts = [write(tmp_path / name, "One.", "Two.") for name in ("s.txt", "t.txt")]
    unstated = ("mine", *texts, "--model", "mini", "--thresholds", file)
    assert "embedding" not in fails(run(*unstated), 1, "of these texts are not stated").stderr
    file.write_text('{"threshold": 1}')
    fails(run(*kept), 1, "known.json is no file of thresholds: it has no list of them")
    for wrong, told in (
        ({}, "`encoder` is missing"),
        (known | {"k": "x"}, "`k`: should be a whole number (is 'x')"),
    ):
        file.write_text(json.dumps([wrong]))
        fails(run(*kept), 1, f"known.json is no file of thresholds: {told}\n")
    fails(run(*kept, "--threshold", "1"), 2, "give one of them")
    fails(
        run("mine", *pair, "--threshold", "high"),
        2,
        "'--threshold': should be a number or 'auto' (is 'high')",
    )


class TestBadInput:
    def fails(self, code: int, message: str, *arguments: str | Path) -> None:
        fails(run("mine", *arguments), code, message)

    def test_usage(self, pair: tuple[Path, Path]) -> None:
        self.fails(2, "'cosine' is not one of 'ratio', ", *pair, "--margin", "cosine")
        self.fails(2, "is not one of", *pair, "--retrieval", "best")
        self.fails(2, "0 is not in the range", *pair, "-k", "0")
        self.fails(2, "--all-candidates is instead of", *pair, "--all-candidates", "--retrieval", "max")
        self.fails(2, "0 is not in the range", *pair, "--top", "0")
        self.fails(2, "95 is not between 0 and 1; did you mean 0.95?", *pair, "--precision", "95")
        self.fails(2, "name them with --output", *pair, "--format", "moses")
        self.fails(2, "no place for ids", *pair, "--format", "moses", "--with-ids", "-o", "x")
        self.fails(2, "leave out --index, --memory", *pair, "--neighbours", "x.knn", "--memory", "8G")
        self.fails(2, "--device and --dry-run", *pair, "--neighbours", "x.knn", "--device", "cpu")
        for option, value in (("--dtype", "bf16"), ("--pooling", "mean"), ("--model", "mini")):
            self.fails(2, f"{option} is for texts", *pair, option, value)
        for option in ("--threshold", "--max-score"):
            self.fails(2, f"'{option}': no score is above or below nan", *pair, option, "nan")

    def test_a_store_with_other_lines_than_vectors(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        (lines,) = pair[0].glob("lines-*.zst")
        for text, message in (
            (b"one\ntwo\n", "lines-00000.txt.zst is damaged: 2 lines, the manifest says 5"),
            (b"much\n" * 5_000_000, "lines-00000.txt.zst is damaged: more than 5 lines"),
            (b"too long" * 9_000_000, "lines-00000.txt.zst is damaged: 0 lines, the manifest says 5"),
            (b"of another length", "lines-00000.txt.zst is damaged: "),
        ):
            lines.write_bytes(zstandard.ZstdCompressor().compress(text))
            manifest = json.loads((pair[0] / "manifest.json").read_text())
            if message.endswith(("lines", "5")):
                manifest["shards"][0]["lines"]["bytes"] = lines.stat().st_size
                manifest["shards"][0]["lines"]["checksum"] = checksum_file(lines)
                (pair[0] / "manifest.json").write_text(json.dumps(manifest))
            self.fails(1, message, *pair, "-o", tmp_path / "out.tsv")
        assert not list(tmp_path.glob("out*"))

    def test_outputs_that_would_destroy_something(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        out = tmp_path / "out"
        for report in (out, tmp_path / "new" / ".." / "out"):
            self.fails(2, "is two of the outputs", *pair, "-o", out, "--report", report)
        self.fails(2, "-o and --report go to stdout", *pair, "--report", "-")
        shard = pair[1] / "lines-00000.txt.zst"
        for options in (("-o", shard), ("-o", out, "--report", shard)):
            self.fails(2, "lines-00000.txt.zst lies in an input", *pair, *options)
        assert run("convert", pair[1], "-o", shard).exit_code == 2
        text = tmp_path / "text"
        text.write_text("a\n")
        self.fails(2, "is an input", text, pair[1], "-o", text)
        assert text.read_text() == "a\n"
        (tmp_path / "copy").write_bytes((tmp_path / "t.txt").read_bytes())
        with (tmp_path / "s.txt").open("a") as file:
            file.write("more\n")  # it is still the text that the store names
        for name, store in (("s.txt", pair[0]), ("copy", pair[1])):
            there = tmp_path / name
            self.fails(2, f"{there} is the text that {store} was made of", *pair, "-o", there)
            self.fails(2, f"{there} is the text that", *pair, "-o", out, "--report", there)
            fails(run("search", "--query", "a", store, "-o", there), 2, f"{there} is the text that")
            fails(run("convert", store, "-o", there), 2, f"{there} is the text that")
        for name in ("x.xls", "x.feather.gz"):
            self.fails(1, f"{name}: pairs are not written as", *pair, "-o", tmp_path / name)
        ok(run("mine", *pair, "--format", "tsv", "-o", tmp_path / "x.xls"))  # as asked
        documents = TestWithin().documents(tmp_path, "aaaaa", "aaa")
        (tmp_path / "pairs").write_text("a\ta\n")
        for read in (*documents[1:], tmp_path / "pairs"):
            options = (*documents, "--document-pairs", tmp_path / "pairs")
            self.fails(2, "is an input", *pair, *options, "-o", read)
            self.fails(2, "is an input", *pair, *options, "--report", read)

    def test_languages(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        self.fails(1, "tells the sides apart", *pair, "--format", "tmx")
        raw = tmp_path / "s.f32"
        assert run("convert", raw, "--dim", "4", "--text", tmp_path / "s.txt", "--lang", "fr", "-o",
                   tmp_path / "f.emb").exit_code == 0  # fmt: skip
        self.fails(1, "is in fra_Latn, not in deu_Latn", tmp_path / "f.emb", pair[1], "--source-lang", "de")

    def test_sides_without_enough_sentences(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        result = run("mine", *pair, "-k", "1000")
        assert result.exit_code == 0 and result.stdout
        assert "warning: the target has 3 sentences, so neighbourhoods there are of as many" in result.stderr
        blank = raw_store(tmp_path, "blank", ["", " "], np.ones((2, 4)))
        result = run("mine", blank, pair[1], "-o", tmp_path / "out.tsv")
        assert result.exit_code == 0 and (tmp_path / "out.tsv").read_bytes() == b""
        assert "warning: the source has no sentence that can be mined" in result.stderr

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
    def test_a_full_disk(self, pair: tuple[Path, Path]) -> None:
        self.fails(1, "/dev/full: no space left on the disk", *pair, "-o", "/dev/full")

    def test_a_second_process_on_the_same_output(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        out = tmp_path / "out.tsv"
        with workplace(out):
            self.fails(1, "out.tsv.partial: another process is writing there", *pair, "-o", out)
        assert not out.exists() and run("mine", *pair, "-o", out).exit_code == 0

    def test_an_output_that_cannot_be_written_is_refused_first(
        self, pair: tuple[Path, Path], tmp_path: Path
    ) -> None:
        self.fails(1, "is a folder, not a file", *pair, "-o", tmp_path)
        (tmp_path / "file").write_text("")
        self.fails(1, "file: the folder cannot be made", *pair, "-o", tmp_path / "file" / "out.tsv")
        long = tmp_path / f"{'x' * 250}.tsv"
        self.fails(1, f"error: {long} cannot be written: File name too long", *pair, "-o", long)

    def test_the_folder_of_an_output_is_made(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        out, report = tmp_path / "new" / "inner" / "out.tsv", tmp_path / "more" / "run.json"
        ok(run("mine", *pair, "-o", out, "--report", report))
        assert out.is_file() and report.is_file()

    def test_stores(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        narrow = raw_store(tmp_path, "n", ["a"], np.ones((1, 3)))
        self.fails(1, "different dimensions", pair[0], narrow, "-o", tmp_path / "out.tsv")
        self.fails(1, "none.emb: no such file", pair[0], tmp_path / "none.emb")
        self.fails(1, "no embedding store", pair[0], tmp_path)
        (vectors,) = pair[1].glob("vectors-*.npy")
        vectors.write_bytes(vectors.read_bytes()[:-8])
        self.fails(
            1, "is damaged: the manifest says 3 rows, the file has 2", *pair, "-o", tmp_path / "out.tsv"
        )
        assert not list(tmp_path.glob("out*"))


class TestTexts:
    LINES = ("some words", "other words", "the last line", "")

    def texts(self, folder: Path) -> tuple[Path, Path]:
        source, target = folder / "a.txt", folder / "b.txt.gz"
        source.write_text("".join(f"{line}\n" for line in self.LINES))
        target.write_bytes(gzip.compress("".join(f"{line}\n" for line in reversed(self.LINES)).encode()))
        return source, target

    def test_are_embedded_on_the_way(self, tmp_path: Path, tiny_encoder: Path) -> None:
        source, target = self.texts(tmp_path)
        options = ("--model", tiny_encoder, "-k", "2")
        result = ok(run("mine", source, target, *options, "--source-lang", "fr", "--margin", "absolute"))
        rows = [line.split("\t") for line in result.stdout.splitlines()]
        assert sorted(row[1] for row in rows) == sorted(self.LINES[:3])
        assert all(row[1] == row[2] and float(row[0]) == pytest.approx(1, abs=1e-3) for row in rows)
        assert f"embedding {source} into a temporary folder" in result.stderr
        assert sorted(tmp_path.iterdir()) == [source, target]

        piped = run("mine", "-", target, *options, "--margin", "absolute", stdin=source.read_bytes())
        assert piped.exit_code == 0 and piped.stdout == result.stdout

        cut = ok(run("mine", source, target, *options, "--max-tokens", "3")).stderr
        warning = "3 of 4 lines were too long and cut to 3 tokens: that is the limit of the encoder or of"
        assert f"{source}: 3 lines were cut to 3 tokens\nwarning: {warning}" in cut

    def test_a_text_goes_with_a_store_of_the_same_encoder_only(
        self, tmp_path: Path, tiny_encoder: Path, pair: tuple[Path, Path]
    ) -> None:
        source, target = self.texts(tmp_path)
        ok(run("embed", source, "--model", tiny_encoder, "-o", tmp_path / "a.emb"))
        result = run("mine", tmp_path / "a.emb", target, "--model", tiny_encoder)
        assert result.exit_code == 0 and len(result.stdout.splitlines()) == 3
        fails(
            run("mine", pair[0], target, "--model", tiny_encoder),
            1,
            "different encoders: unknown (raw vectors) for",
            "hint: vectors from `mexma convert` can be compared",
        )

    def test_bad_ones_are_refused_before_anything_is_embedded(
        self, tmp_path: Path, tiny_encoder: Path, pair: tuple[Path, Path]
    ) -> None:
        source, target = self.texts(tmp_path)
        (tmp_path / "latin.txt").write_bytes("fine\ncaf\xe9\n".encode("latin-1"))
        (tmp_path / "empty.txt").write_bytes(b"")
        for name, message in (
            ("latin.txt", "latin.txt, line 2, byte 4: not UTF-8"),
            ("empty.txt", "empty.txt has no lines"),
            ("none.txt", "none.txt: no such file"),
        ):
            result = fails(run("mine", source, tmp_path / name, "--model", tiny_encoder), 1, message)
            assert "embedding" not in result.stderr
        assert run("mine", "-", "-").exit_code == 2
        assert run("mine", *pair, "--model", tiny_encoder).exit_code == 2
        assert run("mine", source, target, "--source-lang", "xx").exit_code == 1


def test_of_one_text_its_paraphrases_each_once(tmp_path: Path) -> None:
    lines = ["a hat", "the hat", "a dog", "", "a hat", "that dog", "a fish"]
    vectors = np.eye(5)[[0, 0, 1, 4, 0, 1, 2]] + 0.05 * np.random.default_rng(0).standard_normal((7, 5))
    store = raw_store(tmp_path, "s", lines, vectors)
    wanted = [["a dog", "that dog", "3", "6"], ["the hat", "a hat", "2", "5"]]
    kept = tmp_path / "s.knn"
    ok(run("knn", store, store, "-k", 3, "-o", kept))
    for names in ([store], [store, store], [store, "--neighbours", kept]):
        result = run("mine", *names, "-k", 2, "--margin", "absolute", "--threshold", 0.9, "--with-ids")
        assert result.exit_code == 0, result.output
        rows = [line.split("\t") for line in result.stdout.splitlines()]
        assert sorted(row[1:5] for row in rows) == wanted
        assert "of the same text" not in result.stderr
    text = tmp_path / "s.docs"
    text.write_text("1\n" * 7)
    fails(run("mine", store, "--within", text, text), 2, "--within is for two texts")
