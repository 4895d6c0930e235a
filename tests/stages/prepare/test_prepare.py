"""Parallel text to stores: what is kept, what is dropped and why, and nothing done twice."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.augment import negatives_of
from mexma_cli.files import checksum_file, only_writer
from mexma_cli.stages.prepare.corpora import PairFiles
from mexma_cli.stages.prepare.prepare import CorpusReport, prepare
from mexma_cli.stages.prepare.tokenizer import SEED, load_fast_tokenizer, tokenizer_path
from mexma_cli.store.pairs import TokenisedPairs
from tests.processes import MEXMA, Program
from tests.stages.prepare.preparing import recipe, texts
from tests.stores import flip


@pytest.fixture
def folder(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    """A TSV with 8 good pairs and one bad pair of each sort; two aligned files with a split."""
    good = [f"{fra}\t{eng}\tmore" for fra, eng in zip(sentences["fra"], sentences["eng"], strict=True)]
    bad = [
        "no tab here",
        "\tThe left side is empty",
        good[0],
        "court\tThis is very much longer than the short word on the other side of the line.",
        "x" * 1001 + "\t" + "y" * 1001,
        "une phrase secrète\tA secret   SENTENCE",
        "\u200b\u2060\t\u200b",
    ]
    (tmp_path / "fra-eng.tsv.gz").write_bytes(gzip.compress("\n".join([*good, *bad]).encode()))
    (tmp_path / "test.txt").write_text("17\ta secret sentence\tx\nanother\n")
    (tmp_path / "a.fra").write_text("\n".join(["", *sentences["fra"][1:]]) + "\n")
    (tmp_path / "a.eng").write_text("\n".join(sentences["eng"]) + "\n")
    (tmp_path / "split.txt").write_text("train\n" * 6 + "dev\n" * 2)
    return tmp_path


def test_kept_and_dropped_with_reasons(
    folder: Path, start: dict[str, Any], tiny_encoder: Path, sentences: dict[str, list[str]]
) -> None:
    tsv, verses = prepare(recipe(folder, start))
    assert (tsv.corpus, tsv.language, tsv.target, tsv.read, tsv.kept) == ("tsv", "fra", "eng_Latn", 15, 8)
    assert tsv.dropped == {
        "missing": 2,
        "malformed": 1,
        "long": 1,
        "ratio": 1,
        "excluded": 1,
        "duplicate": 1,
    }
    assert tsv.read == tsv.kept + sum(tsv.dropped.values())
    assert texts(tsv, tiny_encoder) == list(zip(sentences["fra"], sentences["eng"], strict=True))
    assert (verses.read, verses.kept, verses.dropped) == (8, 5, {"missing": 1, "other part": 2})
    store = TokenisedPairs.open(tsv.path)
    assert store.manifest.source_language == "fra_Latn"
    assert tsv.tokens == sum(len(side) for row in range(8) for side in store.pair(row))
    special = set(load_fast_tokenizer(tiny_encoder).all_special_ids) - {3}
    assert not special & {token for row in range(8) for side in store.pair(row) for token in side.tolist()}


def test_equal_pairs_in_several_files_of_a_corpus_are_kept_once(
    folder: Path, start: dict[str, Any], tiny_encoder: Path, sentences: dict[str, list[str]]
) -> None:
    pairs = list(zip(sentences["fra"], sentences["eng"], strict=True))
    for name, some in (("fra-1.tsv", pairs[:5]), ("fra-2.tsv", pairs[3:])):
        (folder / name).write_text("".join(f"{fra}\t{eng}\n" for fra, eng in some))
    corpus = {"name": "t", "format": "tsv", "path": ["{lang}-1.tsv", "{lang}-2.tsv"], "languages": ["fra"]}
    (report,) = prepare(recipe(folder, start, corpora=[corpus], exclude=[]))
    assert (report.read, report.kept, report.dropped) == (10, 8, {"duplicate": 2})
    assert texts(report, tiny_encoder) == pairs


def test_the_same_again_is_kept_and_a_change_is_made_again(folder: Path, start: dict[str, Any]) -> None:
    prepare(recipe(folder, start))
    written = (folder / "store" / "tsv.fra" / "source.ids.npy").stat().st_mtime_ns
    assert all(report.reused for report in prepare(recipe(folder, start)))
    assert (folder / "store" / "tsv.fra" / "source.ids.npy").stat().st_mtime_ns == written
    (folder / "a.eng").write_text((folder / "a.eng").read_text().replace("boat", "ship"))
    assert [report.reused for report in prepare(recipe(folder, start))] == [True, False]
    assert not any(report.reused for report in prepare(recipe(folder, start, max_chars=900)))
    (folder / "store" / "tsv.fra" / "target.ids.npy").unlink()
    assert [report.reused for report in prepare(recipe(folder, start, max_chars=900))] == [False, True]


def test_a_cap_chooses_the_same_pairs_in_any_order(
    folder: Path, start: dict[str, Any], tiny_encoder: Path, sentences: dict[str, list[str]]
) -> None:
    rows = [f"{fra} {more}\t{fra}" for more in sentences["fra"] for fra in sentences["fra"]]
    corpus = [{"name": "t", "format": "tsv", "path": "t.tsv", "languages": ["fra"], "cap": 30}]
    chosen = []
    for seed in (1, 2):
        random.Random(seed).shuffle(rows)
        (folder / "t.tsv").write_text("\n".join(rows))
        (report,) = prepare(recipe(folder, start, corpora=corpus))
        assert (report.kept, report.dropped) == (30, {"cap": 34})
        chosen.append(set(texts(report, tiny_encoder)))
    assert chosen[0] == chosen[1]
    assert len({target for _, target in chosen[0]}) > 5, "from everywhere"


def test_long_sentences_are_cut_and_counted(folder: Path, start: dict[str, Any]) -> None:
    (report, _) = prepare(recipe(folder, start, max_tokens=12))
    store = TokenisedPairs.open(report.path)
    lengths = [len(side) for row in range(len(store)) for side in store.pair(row)]
    assert max(lengths) == 10
    assert report.truncated >= sum(length == 10 for length in lengths) - 3 > 0


def test_filters_can_be_off(folder: Path, start: dict[str, Any]) -> None:
    tsv, _ = prepare(
        recipe(folder, start, max_length_ratio=0, drop_duplicates=False, exclude=[], max_chars=2000)
    )
    assert set(tsv.dropped) == {"missing", "malformed"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1\tOui.", "2\tNon."] * 9, "the sources are numbers; each line must be: source TAB target"),
        (["Oui.,Yes.", "Non.,No."] * 9, r"line 1: 1 tab-separated field, expected 2 \(source, target\): .*"),
    ],
)
def test_a_file_that_is_no_list_of_pairs(
    lines: list[str], message: str, folder: Path, start: dict[str, Any]
) -> None:
    corpus = [{"name": "t", "format": "tsv", "path": "t.tsv", "languages": ["fra"]}]
    (folder / "t.tsv").write_text("\n".join(lines))
    with pytest.raises(MexmaError, match=rf"(?m)t\.tsv(:|,) {message}$"):
        prepare(recipe(folder, start, corpora=corpus))
    (folder / "t.tsv").write_text("\n".join(["Deux.\tTwo.", *lines, "Et alors ?\tSo what?\t"]))
    prepare(recipe(folder, start, corpora=corpus))


@pytest.mark.parametrize(
    "text",
    [
        'source\ttarget\tid\nOui, bien sûr.\tYes, of course.\t7\nUne "fin".\tAn "end".\t8\n',
        'src,trg\n"Oui, bien sûr.","Yes, of course."\n"Une ""fin"".","An ""end""."\n',
        '1.5\tOui, bien sûr.\tYes, of course.\n1.25\tUne "fin".\tAn "end".\n',
    ],
)
def test_headers_quotes_and_scores_of_files_of_pairs(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text(text)
    header, *rows = [row[:3] for row in PairFiles((tmp_path / "t.tsv",)).rows(("fra_Latn", "eng_Latn"))]
    rows = rows if header[0] == "malformed" else [header, *rows]
    assert (header[0] == "malformed") == (text[0] == "s")
    assert rows == [(None, "Oui, bien sûr.", "Yes, of course."), (None, 'Une "fin".', 'An "end".')]


def test_files_to_exclude_that_are_not_there(folder: Path, start: dict[str, Any]) -> None:
    with pytest.raises(MexmaError, match=r"(?m)no file is called .*dev\.\*$") as caught:
        prepare(recipe(folder, start, exclude=["dev.*"]))
    assert caught.value.hint is not None and "`exclude: []` in a recipe" in caught.value.hint


def test_a_tokeniser_is_trained_on_what_is_kept_and_used_again(folder: Path) -> None:
    encoder = {
        "new": {"layers": 1, "width": 16, "heads": 2, "ffn": 16},
        "tokenizer": {"vocabulary": 400, "max_sentences": 1000},
    }
    made = recipe(folder, encoder)
    first = prepare(made)
    note = (tokenizer_path(made) / "tokenizer.json").stat().st_mtime_ns
    tokenizer = load_fast_tokenizer(tokenizer_path(made))
    assert not any("x" * 5 in piece for piece in tokenizer.get_vocab()), "trained on a dropped pair"
    assert all(report.reused for report in prepare(made))
    assert (tokenizer_path(made) / "tokenizer.json").stat().st_mtime_ns == note
    assert TokenisedPairs.open(first[0].path).manifest.vocabulary == len(tokenizer)
    flip(tokenizer_path(made) / "tokenizer.json", 1000)
    for read in (prepare, lambda recipe: load_fast_tokenizer(tokenizer_path(recipe))):
        with pytest.raises(MexmaError, match=r"tokenizer\.json is damaged: its checksum") as caught:
            read(made)
        assert f"delete {tokenizer_path(made)} and run `mexma prepare` again" in str(caught.value.hint)
    shutil.rmtree(tokenizer_path(made))
    prepare(made)
    assert len(load_fast_tokenizer(tokenizer_path(made))) == len(tokenizer)


def test_a_folder_of_the_users_by_the_tokenisers_name_is_refused(folder: Path) -> None:
    made = recipe(folder, {"new": {"layers": 1, "width": 16, "heads": 2, "ffn": 16}, "tokenizer": {}})
    tokenizer_path(made).mkdir(parents=True)
    (tokenizer_path(made) / "tokenizer.json").write_text("my own")
    with pytest.raises(MexmaError, match="tokenizer is no tokeniser that mexma trained"):
        prepare(made)
    assert (tokenizer_path(made) / "tokenizer.json").read_text() == "my own"


def test_another_tokeniser_in_the_same_process(folder: Path) -> None:
    shape = {"layers": 1, "width": 16, "heads": 2, "ffn": 16}
    for lowercase in (False, True):
        made = recipe(folder, {"new": shape, "tokenizer": {"vocabulary": 300, "lowercase": lowercase}})
        report = prepare(made)[0]
        assert not report.reused
        assert TokenisedPairs.open(report.path).manifest.vocabulary == len(
            load_fast_tokenizer(tokenizer_path(made))
        )


@pytest.mark.parametrize("odd", ["text in lower case", "a folder for the transformer", "the end is kept"])
def test_the_tokens_are_those_that_the_encoder_embeds(
    odd: str, folder: Path, tiny_encoder: Path, sentences: dict[str, list[str]], tmp_path: Path
) -> None:
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, encoder)
    if odd == "text in lower case":
        limits = {"max_seq_length": 64, "do_lower_case": True}
        (encoder / "sentence_bert_config.json").write_text(json.dumps(limits))
    elif odd == "the end is kept":
        tokens = json.loads((encoder / "tokenizer_config.json").read_text()) | {"truncation_side": "left"}
        (encoder / "tokenizer_config.json").write_text(json.dumps(tokens))
    else:
        files = [path for path in encoder.iterdir() if path.is_file() and path.name != "modules.json"]
        (encoder / "0_Transformer").mkdir()
        for path in files:
            path.rename(encoder / "0_Transformer" / path.name)
        modules = json.loads((encoder / "modules.json").read_text())
        modules[0]["path"] = "0_Transformer"
        (encoder / "modules.json").write_text(json.dumps(modules))
    report = prepare(recipe(folder, {"from": str(encoder)}, max_tokens=12))[0]
    store = TokenisedPairs.open(report.path)
    loaded = SentenceEncoder.load(str(encoder), "cpu", max_tokens=12)
    for row, pair in enumerate(zip(sentences["fra"], sentences["eng"], strict=True)):
        for ids, wanted in zip(store.pair(row), loaded.tokenize(pair), strict=True):
            assert ids.tolist() == wanted[1:-1].tolist()


ALIGNED = {
    "name": "v",
    "format": "aligned",
    "source_path": "a.fra",
    "target_path": "a.eng",
    "languages": ["fra"],
}
TSV = {"name": "t", "format": "tsv", "path": "{lang}-eng.tsv.gz", "languages": ["fra"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"corpora": [TSV | {"languages": ["fra", "deu"]}]},
            r"deu-eng\.tsv\.gz: no such file \(corpus 't', deu\)",
        ),
        (
            {"corpora": [TSV | {"languages": ["fra", "deu"], "path": ["{lang}-eng.tsv.gz", "empty"]}]},
            "no {lang} in its path",
        ),
        ({"corpora": [TSV | {"path": ["fra-eng.tsv.gz", "more.tsv"]}]}, r"more\.tsv: no such file"),
        ({"corpora": [TSV | {"languages": ["fra_Ltn"]}]}, "unknown language code 'fra_Ltn'"),
        ({"corpora": [TSV | {"target": "englisch"}]}, "unknown language code 'englisch'"),
        ({"corpora": [TSV, TSV]}, "corpus 't' has fra twice"),
        ({"corpora": [TSV | {"name": "../up"}]}, "a name is letters"),
        (
            {"corpora": [ALIGNED | {"target_path": "short.eng"}]},
            r"a\.fra has 8 lines, .*short\.eng has 2 lines",
        ),
        (
            {"corpora": [ALIGNED | {"keep": {"path": "short.eng", "value": "a"}}]},
            r"differ in length .*line 3",
        ),
        ({"corpora": [ALIGNED | {"target_path": "latin1.eng"}]}, r"latin1\.eng, line 2, byte 4: not UTF-8"),
        ({"corpora": [ALIGNED | {"source_path": "empty", "target_path": "empty"}]}, "empty: no lines"),
        ({"corpora": [TSV | {"path": "empty"}]}, "empty: no lines"),
        ({"exclude": ["nothing-*.txt"]}, r"no file is called .*nothing-\*\.txt"),
        ({"min_chars": 500}, "no pair is left"),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], words: str, folder: Path, start: dict[str, Any]) -> None:
    (folder / "short.eng").write_text("a\nb\n")
    (folder / "empty").write_text("")
    (folder / "latin1.eng").write_bytes(b"ok\ncaf\xe9\n")
    with pytest.raises(MexmaError, match=words):
        prepare(recipe(folder, start, **change))
    assert not list((folder / "store").glob("*.partial"))


@pytest.mark.parametrize(
    ("corpus", "words"),
    [
        (TSV | {"languages": ["fra_Latn"]}, "'t', fra_Latn); fra-eng.tsv.gz is there: write fra in"),
        (
            TSV | {"languages": ["fr"], "optional": True},
            "fr-eng.tsv.gz; fra-eng.tsv.gz is there: write fra in",
        ),
        (ALIGNED | {"source_path": "a.{lang}", "languages": ["fre"]}, "; a.fra is there: write fra in"),
        (TSV | {"languages": ["deu"]}, "no such file (corpus 't', deu)"),
        (TSV | {"path": "fra-eng.tsv.gz", "keep": {"path": "{lang}.txt", "value": "x"}}, "(corpus 't', fra)"),
        (TSV | {"keep": {"path": "{lang}.txt", "value": "x"}}, "(corpus 't', fra)"),
    ],
)
def test_files_under_another_code_are_named(
    corpus: dict[str, Any], words: str, folder: Path, start: dict[str, Any]
) -> None:
    with pytest.raises(MexmaError) as caught:
        prepare(recipe(folder, start, corpora=[corpus]))
    assert words in caught.value.message
    assert ("is there" in words) == ("is there" in caught.value.message)


def test_text_is_read_again_only_where_a_file_changed(
    folder: Path, start: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def noted(path: Path) -> str:
        read.append(path.name)
        return checksum_file(path)

    monkeypatch.setattr("mexma_cli.stages.prepare.corpora.checksum_file", noted)
    prepare(recipe(folder, start))
    assert sorted(read) == ["a.eng", "a.fra", "fra-eng.tsv.gz", "split.txt"]
    read.clear()
    prepare(recipe(folder, start))
    assert read == []
    os.utime(folder / "a.eng", (1, 1))
    assert all(report.reused for report in prepare(recipe(folder, start)))
    assert read == ["a.eng"]
    monkeypatch.setenv("MEXMA_ENCODING", "cp1252")
    assert not any(report.reused for report in prepare(recipe(folder, start)))
    monkeypatch.setenv("MEXMA_ENCODING", "utf-8")
    assert not any(report.reused for report in prepare(recipe(folder, start)))
    before, text = (folder / "a.eng").stat(), (folder / "a.eng").read_bytes()
    (folder / "a.eng").write_bytes(text.swapcase())
    os.utime(folder / "a.eng", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not all(report.reused for report in prepare(recipe(folder, start)))


def negatives(report: CorpusReport, tokenizer: Path) -> list[list[str]]:
    store, decoder = TokenisedPairs.open(report.path, verify=True), load_fast_tokenizer(tokenizer)
    found = (store.extra("negatives", row) for row in range(len(store)))
    return [[decoder.decode(ids) for ids in own if len(ids)] for own in found]


def test_hard_negatives_by_rule(
    folder: Path, start: dict[str, Any], tiny_encoder: Path, sentences: dict[str, list[str]]
) -> None:
    """None is a target, each target's are its own, and neither they nor their number change the pairs."""
    plain = texts(prepare(recipe(folder, start))[0], tiny_encoder)
    made = recipe(folder, start, negatives=2)
    reports = prepare(made)
    assert not any(report.reused for report in reports)
    found = negatives(reports[0], tiny_encoder)
    wanted = negatives_of(sentences["eng"], 2, SEED)
    assert found == [wanted.get(target, []) for target in sentences["eng"]]
    assert "It has not been raining for three days and the river is rising." in found[1]
    assert reports[0].negatives == {"kept": sum(map(len, found)), "alike": 0}
    assert texts(reports[0], tiny_encoder) == plain
    assert all(report.reused for report in prepare(made))
    (folder / "store" / "tsv.fra" / "negatives.ids.npy").unlink()
    assert [report.reused for report in prepare(made)] == [False, True]
    other = [{"name": "t", "format": "tsv", "path": "fra-eng.tsv.gz", "languages": ["eng"], "target": "fra"}]
    with pytest.raises(MexmaError, match="made of English sentences, its target is fra_Latn"):
        prepare(recipe(folder, start, negatives=2, corpora=other))


def test_hard_negatives_from_columns(folder: Path, start: dict[str, Any], tiny_encoder: Path) -> None:
    (folder / "t.tsv").write_text("Oui.\tYes.\tNo.\t\tNever. \tMaybe.\nNon.\tNo.\nSi.\tIf.\tIf.\tIs.\tIs.\n")
    corpus = {"name": "t", "format": "tsv", "path": "t.tsv", "languages": ["fra"], "negatives": "columns"}
    (report,) = prepare(recipe(folder, start, negatives=3, corpora=[corpus]))
    assert negatives(report, tiny_encoder) == [["No.", "Never.", "Maybe."], [], ["Is."]]
    assert report.negatives == {"kept": 4, "alike": 2}
    for text in ("anchor\tpositive\tnegative\n1\tIs.\tNo.\n1\tNo.\tIs.\n", "1\tIs.\tNo.\nNon.\tNo.\tIs.\n"):
        (folder / "t.tsv").write_text(text)
        (report,) = prepare(recipe(folder, start, negatives=3, corpora=[corpus]))
        assert negatives(report, tiny_encoder) == [["No."], ["Is."]]
    with pytest.raises(MexmaError, match="`negatives: columns` are of format tsv only"):
        recipe(folder, start, negatives=3, corpora=[ALIGNED | {"negatives": "columns"}])


def test_what_was_finished_before_a_kill_is_kept(
    tmp_path: Path, tiny_encoder: Path, sentences: dict[str, list[str]], start: dict[str, Any]
) -> None:
    """Two processes, killed with the first one while they work on a corpus that takes its time."""
    for name, count in (("first", 1), ("second", 1), ("long", 15_000)):
        lines = (f"{sentences['fra'][n % 8]} {n}\t{sentences['eng'][n % 8]}" for n in range(count))
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines))
    corpora = [
        {"name": name, "format": "tsv", "path": f"{name}.tsv", "languages": ["fra_Latn"]}
        for name in ("first", "second", "long")
    ]
    made = recipe(tmp_path, start, corpora=corpora, exclude=[], negatives=1)
    store = tmp_path / "store"
    running = Program(MEXMA, "prepare", tmp_path / "recipe.yaml", "--workers", "2")
    running.until(lambda: all((store / f"{name}.fra_Latn").is_dir() for name in ("first", "second")))
    assert not (store / "long.fra_Latn").exists()
    running.kill()
    running.wait()
    (store / "tokenizer.partial").mkdir()
    (store / "tokenizer.partial" / ".mexma").touch()  # as a run leaves that is killed while it writes one
    deadline = time.monotonic() + 10
    reports = None
    while reports is None:  # until the other processes noticed
        try:
            reports = prepare(made)
        except MexmaError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert [report.reused for report in reports] == [True, True, False]
    assert [report.kept for report in reports] == [1, 1, 15_000]
    assert TokenisedPairs.open(reports[2].path, verify=True).manifest.negatives["kept"] > 5_000
    assert not list(store.glob("*.partial"))


def test_two_at_once_are_refused(folder: Path, start: dict[str, Any]) -> None:
    (folder / "store").mkdir()
    with only_writer(folder / "store"), pytest.raises(MexmaError, match="another process is writing there"):
        prepare(recipe(folder, start))


def test_real_verses_and_tables(shared: Path, tmp_path: Path, start: dict[str, Any]) -> None:
    data = {
        "root": str(shared / "data"),
        "corpora": [
            {
                "name": "bible",
                "format": "aligned",
                "source_path": "bible/{lang}.txt.gz",
                "target_path": "bible/eng_Latn.txt.gz",
                "languages": ["hye_Armn"],
                "keep": {"path": "bible/split.txt", "value": "train"},
                "cap": 500,
            },
            {"name": "tico", "format": "tsv", "path": "tico19/{lang}-eng.tsv.gz", "languages": ["fra_Latn"]},
        ],
        "exclude": ["tatoeba/tatoeba.*"],
    }
    if not (shared / "data/tico19/fra_Latn-eng.tsv.gz").exists():
        data["corpora"] = data["corpora"][:1]  # type: ignore[index]
    reports = prepare(recipe(tmp_path, start, **data))
    assert reports[0].kept == 500
    assert (
        reports[0].dropped["missing"] + reports[0].dropped["other part"] + reports[0].dropped["cap"] > 20_000
    )
