"""`mexma languages`: one row a language, by whatever code it is named."""

from __future__ import annotations

import json

from mexma_cli.languages import codes
from tests.command import fails, ok, run


def test_languages_by_any_code() -> None:
    head, *rows = ok(run("languages", "pt_BR.UTF-8", "iw", "zh-TW", "nn", "tlh")).stdout.splitlines()
    assert head.startswith("code      name") and "py3langid" in head
    assert [row.split()[0] for row in rows] == ["por_Latn", "heb_Hebr", "zho_Hant", "nno_Latn", "tlh"]
    assert "mini MEXMA multilingual-e5  moses" in rows[0] and rows[0].endswith("yes")
    assert "Klingon" in rows[4] and rows[4].endswith("no")
    found = ok(run("languages", "Yoruba", "chinese", "Masai"))
    assert [row.split()[0] for row in found.stdout.splitlines()[1:]] == [
        "yor_Latn",
        "zho_Hans",
        "zho_Hant",
        "mas",
    ]
    assert "trained on Masai: `mexma new-language mas PAIRS` trains one" in found.stderr
    assert "Chinese" not in found.stderr
    fails(run("languages", "maasai"), 1, "unknown language code", "mas (Masai)")
    fails(run("languages", "sh"), 1, "'sh' is the code of several languages", "hrv_Latn (Croatian)")


def test_all_as_json() -> None:
    rows = [json.loads(line) for line in ok(run("languages", "--json")).stdout.splitlines()]
    assert [row["code"] for row in rows] == codes()
    known = {row["code"]: row for row in rows}
    assert known["fra_Latn"]["spellings"] == ["fr", "fra", "fre"] and known["fra_Latn"]["script"] == "Latn"
    assert known["fra_Latn"]["encoders"] == ["mini", "facebook/MEXMA", "intfloat/multilingual-e5"]
    trained = {name: sum(name in row["encoders"] for row in rows) for name in known["fra_Latn"]["encoders"]}
    assert trained["mini"] == 50 and trained["facebook/MEXMA"] == 81
    assert known["deu_Latn"]["splitter"] == "sentencex" and known["prs_Arab"]["identified"] == "kin"


def test_without_an_identifier() -> None:
    (line,) = ok(run("languages", "fr", "--json", "--lid", "none")).stdout.splitlines()
    assert json.loads(line)["identified"] == "no"
