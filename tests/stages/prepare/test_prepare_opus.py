"""Corpora as OPUS and mtdata leave them, prepared in several processes."""

from __future__ import annotations

import gzip
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.stages.prepare.prepare import prepare
from tests.processes import forks_of_pools
from tests.stages.prepare.preparing import recipe, texts


def zipped(path: Path, stem: str, sides: dict[str, list[str]]) -> None:
    """A Moses zip as OPUS has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README", "about the corpus")
        for code, lines in sides.items():
            archive.writestr(f"{stem}.{code}", "".join(f"{line}\n" for line in lines))


@pytest.fixture
def opus(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    """French in two corpora, in both orders and with three sorts of codes; German in one of them."""
    fra, eng = sentences["fra"], sentences["eng"]
    one, two = tmp_path / "opus" / "One", tmp_path / "opus" / "Two"
    zipped(one / "One_latest_moses_en-fr.txt.zip", "One.en-fr", {"en": eng[:4], "fr": fra[:4]})
    zipped(
        one / "One_latest_moses_de-en.txt.zip", "One.de-en", {"de": ["Wo ist er?"], "en": ["Where is he?"]}
    )
    zipped(one / "One_latest_moses_de-fr.txt.zip", "One.de-fr", {"de": ["Wo?"], "fr": ["Où ?"]})
    zipped(
        two / "OPUS-Two-v1-moses-eng-fra.zip",
        "Two.eng-fra",
        {"eng": eng, "fra": fra, "ids": ["1"] * len(fra)},
    )
    zipped(two / "x.zip", "Two.en-fr-CA", {"en": ["The house is new."], "fr-CA": ["La maison."]})
    return tmp_path


OPUS = [
    {"name": "one", "format": "opus", "path": "opus/One"},
    {"name": "two", "format": "opus", "path": "opus/Two/*.zip"},
]
LANGUAGES = {"languages": ["deu_Latn", "fra_Latn"], "exclude": []}


def test_opus_zips_by_their_members(
    opus: Path, start: dict[str, Any], tiny_encoder: Path, sentences: dict[str, list[str]]
) -> None:
    reports = prepare(recipe(opus, start, corpora=OPUS, **LANGUAGES))
    found = {(report.corpus, report.language): report for report in reports}
    assert {key: report.kept for key, report in found.items()} == {
        ("one", "deu_Latn"): 1,
        ("one", "fra_Latn"): 4,
        ("two", "deu_Latn"): 0,
        ("two", "fra_Latn"): 9,
    }
    assert found["two", "deu_Latn"].skipped == "no files"
    assert texts(found["one", "deu_Latn"], tiny_encoder)[0][1] == "Where is he?", "English is the target"
    pairs = list(zip(sentences["fra"], sentences["eng"], strict=True))
    assert texts(found["two", "fra_Latn"], tiny_encoder) == [
        *pairs,
        ("La maison.", "The house is new."),
    ]


def test_a_root_whose_name_has_the_letters_of_a_glob(
    opus: Path, start: dict[str, Any], sentences: dict[str, list[str]]
) -> None:
    test_set = {"source": "", "target": sentences["eng"][0]}
    (opus / "test.jsonl").write_text(json.dumps(test_set))
    there = opus.rename(opus.with_name("text [2024]*"))
    reports = prepare(recipe(there, start, corpora=OPUS, **LANGUAGES | {"exclude": ["test.*"]}))
    assert [(report.kept, report.dropped) for report in reports] == [
        (1, {}),
        (3, {"excluded": 1}),
        (0, {}),
        (8, {"excluded": 1}),
    ]


def test_a_language_in_two_spellings_is_refused(opus: Path, start: dict[str, Any]) -> None:
    """Both would have all of its files."""
    with pytest.raises(MexmaError, match="'one': fr and fra_Latn are one language"):
        prepare(recipe(opus, start, corpora=OPUS, languages=["deu_Latn", "fr", "fra_Latn"], exclude=[]))


def test_plain_and_packed_sides_in_a_folder_and_codes_of_their_own(
    tmp_path: Path, start: dict[str, Any], sentences: dict[str, list[str]]
) -> None:
    (tmp_path / "X.en-qq.en").write_text("\n".join(sentences["eng"]))
    (tmp_path / "X.en-qq.qq.gz").write_bytes(gzip.compress("\n".join(sentences["fra"]).encode()))
    corpora = [{"name": "x", "format": "opus", "path": "."}]
    settings = {"languages": ["fra_Latn"], "exclude": []}
    with pytest.raises(MexmaError, match="no data for fra_Latn"):
        prepare(recipe(tmp_path, start, corpora=corpora, **settings))
    (report,) = prepare(recipe(tmp_path, start, corpora=corpora, codes={"fra_Latn": ["qq"]}, **settings))
    assert report.kept == 8


def test_an_mtdata_folder_gives_its_training_text(
    tmp_path: Path, start: dict[str, Any], sentences: dict[str, list[str]]
) -> None:
    for part, rows in (("train-parts", slice(0, 5)), ("tests", slice(5, 8))):
        folder = tmp_path / "mtdata" / "fra" / part
        folder.mkdir(parents=True)
        for code in ("eng", "fra"):
            text = "\n".join(sentences[code][rows])
            (folder / f"OPUS-dgt-v2019-eng-fra.{code}.gz").write_bytes(gzip.compress(text.encode()))
        (folder / "OPUS-dgt-v2019-eng-fra.meta.jsonl.gz").write_bytes(gzip.compress(b"{}"))
        (folder / ".valid.OPUS-dgt-v2019-eng-fra").touch()
    corpora = [{"name": "m", "format": "mtdata", "path": "mtdata/*", "languages": ["fr"]}]
    (report,) = prepare(recipe(tmp_path, start, corpora=corpora, exclude=[]))
    assert report.kept == 5


def contents(store: Path) -> dict[str, bytes]:
    """All files below a folder of stores but for the note of what was read when."""
    files = (path for path in store.rglob("*") if path.is_file() and path.name != "files.json")
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


@pytest.mark.parametrize("trained", [False, True], ids=["given tokeniser", "trained tokeniser"])
def test_the_same_bytes_from_any_number_of_processes(
    trained: bool, opus: Path, start: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    forks_of_pools(monkeypatch)
    encoder = (
        {"new": {"layers": 1, "width": 16, "heads": 2, "ffn": 16}, "tokenizer": {"vocabulary": 300}}
        if trained
        else start
    )
    limits = {"cap_per_language": 9, "minimum_per_language": 6}
    corpora = [OPUS[0], OPUS[1] | {"top_up": True}]
    stores: list[dict[str, bytes]] = []
    for workers in (2, 1):
        store = opus / f"store-{workers}"
        if trained and stores:  # training one is not repeatable to the bit
            shutil.copytree(opus / "store-2" / "tokenizer", store / "tokenizer")
        made = recipe(opus, encoder, corpora=corpora, store=str(store), **LANGUAGES, **limits)
        reports = prepare(made, workers=workers)
        assert [report.kept for report in reports] == [1, 4, 0, 2]
        assert all(report.reused for report in prepare(made, workers=workers))
        assert not list(store.glob("*.partial"))
        stores.append(contents(store))
    assert stores[0] == stores[1]
    assert len(stores[0]) >= 4 * 5


def test_a_cap_over_corpora_fills_in_their_order(opus: Path, start: dict[str, Any]) -> None:
    def kept(corpora: list[dict[str, Any]], **limits: int) -> list[tuple[int, int, str]]:
        data: dict[str, Any] = {"languages": ["fra_Latn"], "exclude": [], "corpora": corpora}
        reports = prepare(recipe(opus, start, **data, **limits))
        return [(report.kept, report.dropped.get("cap", 0), report.skipped) for report in reports]

    one, two = OPUS
    assert kept([one, two], cap_per_language=7) == [(4, 0, ""), (3, 6, "")]
    assert kept([one, two], cap_per_language=3) == [(3, 1, ""), (0, 0, "not needed")]
    assert kept([two, one], cap_per_language=10) == [(9, 0, ""), (1, 3, "")]
    assert kept([one, two | {"cap": 2}], cap_per_language=7) == [(4, 0, ""), (2, 7, "")]
    assert kept([two | {"top_up": True}, one], minimum_per_language=6) == [(2, 7, ""), (4, 0, "")]
    assert kept([two | {"top_up": True}, one], minimum_per_language=4) == [(0, 0, "not needed"), (4, 0, "")]
    assert kept([one, two | {"top_up": True}], minimum_per_language=99) == [(4, 0, ""), (9, 0, "")]


@pytest.mark.parametrize("trained", [False, True], ids=["given tokeniser", "trained tokeniser"])
def test_a_cap_at_random_takes_of_each_corpus_its_share(
    trained: bool, tmp_path: Path, start: dict[str, Any]
) -> None:
    """Three equal corpora gave 500, 0 and 0 of 500 pairs."""
    encoder = (
        {"new": {"layers": 1, "width": 16, "heads": 2, "ffn": 16}, "tokenizer": {"vocabulary": 300}}
        if trained
        else start
    )
    for name, pairs in {"a": 40, "b": 40, "c": 40, "d": 13}.items():
        lines = (f"La ligne {name} {n}\tThe line {name} {n}\n" for n in range(pairs))
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    corpora = [{"name": n, "format": "tsv", "path": f"{n}.tsv", "languages": ["fra"]} for n in "abcd"]

    def kept(other: dict[str, Any] | None = None, **limits: int) -> list[tuple[int, int]]:
        data = {"exclude": [], "corpora": [corpora[0] | (other or {}), *corpora[1:]], "fill": "random"}
        made = recipe(tmp_path, encoder, **data, **limits)
        reports = prepare(made)
        assert all(report.reused for report in prepare(made))
        assert not list((tmp_path / "store").glob("*.partial"))
        return [(report.kept, report.dropped.get("cap", 0)) for report in reports]

    assert kept(cap_per_language=60) == [(18, 22), (18, 22), (18, 22), (6, 7)]
    assert kept(cap_per_language=61) == [(19, 21), (18, 22), (18, 22), (6, 7)]
    assert kept(cap_per_language=200) == [(40, 0), (40, 0), (40, 0), (13, 0)]
    assert kept({"cap": 10}, cap_per_language=60) == [(6, 34), (23, 17), (23, 17), (8, 5)]
    top_up = {"cap_per_language": 100, "minimum_per_language": 99}
    assert kept({"top_up": True}, **top_up) == [(6, 34), (40, 0), (40, 0), (13, 0)]


def test_sides_of_a_zip_that_differ_in_length(
    opus: Path, start: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    forks_of_pools(monkeypatch)
    zipped(
        opus / "opus" / "Two" / "x.zip", "Two.en-fr", {"en": ["one", "two", "three"], "fr": ["un", "deux"]}
    )
    for workers in (1, 2):
        with pytest.raises(MexmaError, match=r"x\.zip:Two\.en-fr\.fr has 2 lines, .*en has 3 lines"):
            prepare(recipe(opus, start, corpora=OPUS, **LANGUAGES), workers=workers)
    assert not list((opus / "store").glob("*.partial"))


def test_a_damaged_zip(opus: Path, start: dict[str, Any]) -> None:
    path = opus / "opus" / "Two" / "OPUS-Two-v1-moses-eng-fra.zip"
    content = bytearray(path.read_bytes())
    content[len(content) // 2 - 200] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(MexmaError, match=r"eng-fra\.zip.* damaged"):
        prepare(recipe(opus, start, corpora=OPUS, **LANGUAGES))
    path.write_bytes(content[:100])
    with pytest.raises(MexmaError, match=r"eng-fra\.zip is damaged: File is not a zip file"):
        prepare(recipe(opus, start, corpora=OPUS, **LANGUAGES))


def test_a_zip_of_very_many_files_is_refused(opus: Path, start: dict[str, Any]) -> None:
    with zipfile.ZipFile(opus / "opus" / "One" / "many.zip", "w") as archive:
        for number in range(2002):
            archive.writestr(f"{number // 2}.en-fr.{('en', 'fr')[number % 2]}", "")
    with pytest.raises(MexmaError, match=r"many\.zip holds 1,001 pairs of files, the limit is 1,000"):
        prepare(recipe(opus, start, corpora=OPUS, **LANGUAGES))


def test_a_language_that_a_corpus_or_all_lack(opus: Path, start: dict[str, Any]) -> None:
    languages = {"languages": ["deu_Latn", "fra_Latn", "ita_Latn", "ckb_Arab"], "exclude": []}
    with pytest.raises(MexmaError) as caught:
        prepare(recipe(opus, start, corpora=OPUS, **languages))
    assert "no data for ita_Latn, ckb_Arab with eng_Latn in any corpus; looked in" in caught.value.message
    assert str(opus / "opus" / "Two") in caught.value.message
    assert "more like this" not in caught.value.message, "one complaint for all languages"
    corpora = [OPUS[0], OPUS[1] | {"languages": ["deu_Latn"]}]
    with pytest.raises(MexmaError, match=r"opus/Two.*: no pair of files for deu_Latn and eng_Latn"):
        prepare(recipe(opus, start, corpora=corpora, languages=["fra_Latn", "deu_Latn"], exclude=[]))
