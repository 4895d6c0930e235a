"""Benchmarks' files that are damaged or missing: the message says which file, which line, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation import bucc, sts, xnli
from mexma_cli.evaluation.aligned import read_texts
from mexma_cli.evaluation.augment import find_augmented
from mexma_cli.evaluation.codeswitch import read_dictionary
from mexma_cli.evaluation.senteval import read_tasks
from mexma_cli.evaluation.tatoeba import read_tatoeba
from tests.evaluation.given import put


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def senteval(folder: Path) -> object:
    return read_tasks([folder], kfold=0)


def similar(folder: Path) -> object:
    return sts.read_pairs(sts.find_files([folder / "x"] if not any(folder.iterdir()) else [only(folder)])[0])


def inference(folder: Path) -> object:
    return xnli.read_inference(only(folder))


def aligned(folder: Path, languages: str | None = None) -> object:
    return read_texts(folder, "devtest", languages, "eng_Latn")


def of_three(folder: Path) -> object:
    return aligned(folder, "fra,deu,xh")


def hard(folder: Path, where: str | None = None) -> object:
    put(folder, TEXTS)
    data = read_texts(folder, "devtest", None, "eng_Latn")
    return find_augmented(data, folder / where if where else None)


def hard_elsewhere(folder: Path) -> object:
    return hard(folder, "other")


def sets(folder: Path) -> object:
    return bucc.read_sets([folder])


def dictionary(folder: Path) -> object:
    return read_dictionary(only(folder))


TEXTS = {"devtest/eng_Latn.devtest": "Rome is old.\n", "devtest/fra_Latn.devtest": "un\n"}
TEXTS["devtest_augmented/eng_Latn_augmented.devtest"] = "Oslo is old.\n"
KINDS = "devtest_augmented/eng_Latn_errtype.devtest.json"
BUCC = {"fr-en.training.fr": "fr-1\tla pluie\n", "fr-en.training.en": "en-1\tthe rain\n"}
ENGLISH, GOLD = "fr-en.training.en", "fr-en.training.gold"
XNLI = "language\tgold_label\tsentence1_binary_parse\tsentence1\tsentence2\tpairID\n"
CASES: list[tuple[Callable[[Path], object], Mapping[str, str], str]] = [
    (senteval, {}, "none of SentEval's files is there.*get_transfer_data.bash"),
    (senteval, {"CR.tsv": "0\tfine\n1\n"}, "CR.tsv, line 2: not the layout"),
    (senteval, {"CR.tsv": "0\tfine\n0\tbad\n"}, "CR.tsv has one class only: 0"),
    (senteval, {"CR.tsv": "\n"}, "CR.tsv is empty"),
    (senteval, {"CR/custrev.pos": "fine\n"}, "CR/custrev.neg: no such file"),
    (senteval, {"TREC/TREC_10.label": "D:x How ?\nWhat ?\n"}, "TREC_10.label, line 2: not the layout"),
    (senteval, {"SST/binary/sentiment-dev": "good 1\n"}, "sentiment-dev, line 1: not the layout"),
    (senteval, {"MRPC.test.tsv": "2\ta\tb\n"}, "MRPC.test.tsv, line 1: not the layout"),
    (senteval, {"MRPC.test.tsv": "1\ta\tb\n\ta\tb\n"}, "MRPC.test.tsv, line 2: not the layout"),
    (senteval, {"MRPC.test.tsv": "1\ta\tb\n01\ta\tb\n"}, "MRPC.test.tsv, line 2: not the layout"),
    (similar, {"a.tsv": "5\ta\tb\n4\tc\n"}, "a.tsv, line 2: 2 columns, 3 expected"),
    (similar, {"a.tsv": "5\ta\tb\nhigh\tc\td\n"}, "a.tsv, line 2: the score 'high' is no number"),
    (similar, {"a.tsv": "5\ta\tb\nnan\tc\td\n"}, "a.tsv, line 2: the score 'nan' is no number"),
    (similar, {"a.tsv": "5\ta\tb\n"}, "a.tsv has 1 scored pair: too few"),
    (similar, {"a.tsv": "5\ta\tb\n5\tc\td\n"}, "a.tsv: all scores are 5"),
    (similar, {"a.tsv": ""}, "a.tsv has no lines"),
    (similar, {"a.tsv": "5\ta\n"}, "a.tsv, line 1: 2 columns, which is no layout known"),
    (similar, {"a.csv": "a,b,5\na,b\n"}, "a.csv, line 2: 2 columns, sentence,sentence,score expected"),
    (similar, {"a.csv": "a,b,5\na\rb,c,1\n"}, "a.csv, line 2: new-line character seen"),
    (similar, {"SICK.txt": "pair_ID\tsentence_A\tsentence_B\n"}, "no column relatedness_score in the head"),
    (similar, {"STS.input.x.txt": "a\tb\n"}, "STS.gs.x.txt: no such file"),
    (similar, {"folder/a.md": ""}, "folder has no file of scored pairs.*stswiki"),
    (similar, {}, "x: no such file or folder.*stswiki"),
    (inference, {"x.tsv": XNLI + "ar\tmaybe\tx\ta\tb\t1\n"}, "x.tsv, line 2: 'maybe' is none of"),
    (inference, {"x.tsv": XNLI + "ar\tneutral\tx\ta\n"}, "x.tsv, line 2: 4 columns, 6 in the header"),
    (inference, {"x.tsv": "language\tlabel\n"}, "x.tsv, line 1: no column gold_label"),
    (inference, {"x.tsv": XNLI}, "x.tsv has no pairs"),
    (inference, {"x.tsv": ""}, "x.tsv is empty"),
    (inference, {"x.jsonl": '{"gold_label": "neutral"}\n'}, "x.jsonl, line 1: no pair of XNLI"),
    (inference, {"x.jsonl": "neutral\n"}, "x.jsonl, line 1: no pair of XNLI"),
    (inference, {"x.jsonl": "[]\n"}, "x.jsonl, line 1: no pair of XNLI"),
    (inference, {"x.jsonl": "null\n"}, "x.jsonl, line 1: no pair of XNLI"),
    (inference, {"x.jsonl": 9999 * "[" + "\n"}, "x.jsonl, line 1: no pair of XNLI"),
    (
        inference,
        {"x.tsv": "gold_label\tsentence1\tsentence2\tlanguage\nneutral\ta\tb\n"},
        "x.tsv, line 2: 3 columns, 4 in the header",
    ),
    (
        inference,
        {"x.jsonl": '{"gold_label": "neutral", "sentence1": null, "sentence2": "b"}\n'},
        "x.jsonl, line 1: null where a text should be",
    ),
    (
        inference,
        {"x.jsonl": '{"gold_label": ["neutral"], "sentence1": "a", "sentence2": "b"}\n'},
        r'x.jsonl, line 1: \["neutral"\] where a text should be',
    ),
    (xnli.read_data, {}, r"no multinli\.train\.en\.tsv.*https://cims.nyu.edu/~sbowman/xnli"),
    (aligned, {}, "no line-aligned files, split 'devtest'.*github.com/facebookresearch/flores"),
    (aligned, {"fra.txt": "a\n"}, "no <code>.txt for eng_Latn"),
    (aligned, {"eng.txt": "a\n"}, "no language besides eng_Latn"),
    (aligned, {"eng.txt": "", "fra.txt": "a\n"}, "eng.txt is empty"),
    (of_three, {"eng.txt": "a\n", "fra.txt": "a\n"}, "no <code>.txt for deu, xh"),
    (
        aligned,
        {"eng.txt": "a\nb\nc\n", "fra.txt": "a\nb\n"},
        "fra.txt has 2 lines, .*eng.txt has 3: line 3 of .*eng.txt has no counterpart in .*fra.txt",
    ),
    (
        aligned,
        {"eng.txt": "a\n", "fra.txt": "a\nb\n"},
        "fra.txt has 2 lines, .*: line 2 of .*fra.txt has no counterpart in .*eng.txt",
    ),
    (hard, {KINDS: '{"a": {"src": "b",\n "errtype"}}'}, "errtype.devtest.json, line 2, column 11: not JSON"),
    (hard, {KINDS: '["a"]'}, "errtype.devtest.json: this is a list"),
    (hard, {KINDS: "{}"}, "errtype.devtest.json: this is empty"),
    (hard, {KINDS: 9999 * "["}, "errtype.devtest.json: JSON that cannot be read"),
    (hard, {KINDS: 5000 * "9"}, "errtype.devtest.json: JSON that cannot be read"),
    (
        hard,
        {KINDS: '{"a": {"src": "b", "errtype": "c"},\n"d": {"src": "e"}}'},
        r"json, line 2, entry 2 \('d'\): no `errtype`",
    ),
    (hard, {KINDS: '{"a": "number"}'}, r"json, line 1, entry 1 \('a'\): no `src`"),
    (hard, {KINDS: '{"a": {"src": "b", "errtype": "c"}}'}, "augmented.devtest, line 1: neither this nor an"),
    (
        hard,
        {KINDS: '{"Oslo is old.": {"src": "Of another text.", "errtype": "entity"}}'},
        "no `src` is a sentence of the target; the first is 'Of another text.'",
    ),
    (hard, {}, "errtype.devtest.json is missing beside eng_Latn_augmented"),
    (hard_elsewhere, {}, "other: no eng_Latn_augmented.devtest.*LASER.*`mexma augment`"),
    (sets, {}, "no mining set"),
    (sets, BUCC | {GOLD: ""}, "fr-en.training.gold is empty"),
    (
        sets,
        BUCC | {GOLD: "fr-1\ten-1\nfr-99\ten-1\n"},
        "gold, line 2: the id 'fr-99' is not in .*fr",
    ),
    (sets, BUCC | {GOLD: "fr-1\tfr-1\n"}, "gold, line 1: the id 'fr-1' is not in .*training.en"),
    (sets, BUCC, "the gold file of fr-en is missing beside fr-en.training"),
    (sets, BUCC | {GOLD: "fr-1\ten-1\n", ENGLISH: "en-1\ta\nno tab\n"}, "training.en, line 2: no tab"),
    (
        sets,
        BUCC | {GOLD: "\n", ENGLISH: "en-1\ta\nen-1\tb\n"},
        "en, line 2: the id 'en-1' occurs twice",
    ),
    (sets, BUCC | {GOLD: "fr-1\ten-1\n", ENGLISH: ""}, "training.en is empty"),
    (read_tatoeba, {"tatoeba.cmn-eng.cmn": "c\n"}, "tatoeba.cmn-eng.eng is missing"),
    (
        read_tatoeba,
        {"tatoeba.cmn-eng.cmn": "c\n", "tatoeba.cmn-eng.eng": "C\nD\n"},
        "cmn has 1 line,.*line 2 of .*cmn-eng.eng has no",
    ),
    (
        dictionary,
        {"fr-en.txt": "chien dog\nchat\n"},
        "fr-en.txt, line 2: 1 words where a word and its translation should be, 'chat'.*MUSE",
    ),
    (dictionary, {"fr-en.txt": "chien dog hound\n"}, "fr-en.txt, line 1: 3 words"),
    (dictionary, {"fr-en.txt": "paris paris\n"}, "fr-en.txt has no translations"),
]


@pytest.mark.parametrize(("read", "files", "said"), CASES)
def test_what_is_wrong_is_said(
    tmp_path: Path, read: Callable[[Path], object], files: Mapping[str, str], said: str
) -> None:
    with pytest.raises(MexmaError) as caught:
        read(put(tmp_path, files))
    assert re.search(said, f"{caught.value.message}\n{caught.value.hint}", re.DOTALL)
