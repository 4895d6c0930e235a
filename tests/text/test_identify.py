"""Languages of lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from py3langid.langid import LanguageIdentifier

from mexma_cli.errors import MexmaError
from mexma_cli.text.identify import Guess, Identifier, expected, identifier, in_other_language, iso3, kindred

LINES = [
    "Il est venu dans la maison de ma mère.",
    "Er kam in das Haus meiner Mutter.",
    "ОН ПРИШЁЛ В ДОМ МАТЕРИ.",
    "彼は母の家に来た。",
    "Alikuja katika nyumba ya mama yangu.",
    "M.",
    "",
    "12 345",
]
EXAMPLES = Path(__file__).parents[2] / "examples" / "spa-eng"
FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="module")
def model() -> Identifier:
    found = identifier("py3langid")
    assert found is not None
    return found


def test_languages_are_py3langids_with_its_probabilities(model: Identifier) -> None:
    theirs = LanguageIdentifier.from_model_file("data/model.npz.xz", norm_probs=True)
    lines = LINES + (EXAMPLES / "spa.txt").read_text(encoding="utf-8").splitlines()[:200]
    for line, guess in zip(lines, model.identify(lines), strict=True):
        label, probability = theirs.classify(line)
        if guess.language == "und":
            assert probability < 0.02
        else:
            assert guess.language == iso3(label)
            assert guess.probability == pytest.approx(probability, abs=2e-3)
    assert [guess.language for guess in model.identify(LINES)[:5]] == ["fra", "deu", "rus", "jpn", "swh"]


def test_heliport_and_no_identifier() -> None:
    found = identifier("heliport")
    assert found is not None
    assert [guess.language for guess in found.identify(LINES)[:4]] == ["fra", "deu", "rus", "jpn"]
    assert identifier("none") is None


def test_fasttext_models() -> None:
    found = identifier("none", FIXTURES / "lid.bin")
    assert found is not None and found.known == {"spa", "eng"}
    lines = ["¿Dónde está\tla casa de tu madre?", "Where is the house of your mother?", ""]
    assert [guess.language for guess in found.identify(lines)[:2]] == ["spa", "eng"]
    with pytest.raises(MexmaError, match="no fastText model"):
        identifier("none", FIXTURES / "README.md")
    with pytest.raises(MexmaError, match="no such file"):
        identifier("none", FIXTURES / "nothing")


def test_labels_of_all_models_are_iso_639_3() -> None:
    labels = [
        "fr",
        "zh",
        "zho_Hant",
        "hbshrv",
        "msaind",
        "fink",
        "no",
        "wuu",
        "zxx",
        "und",
        "eng_Latn",
        "kpv",
    ]
    meant = ["fra", "zho", "zho", "hrv", "ind", "fin", "nob", "wuu", "zxx", "und", "eng", "kpv"]
    assert [iso3(label) for label in labels] == meant


def test_kindred_languages_are_expected_too(model: Identifier) -> None:
    assert {"hrv", "bos", "srp"} <= kindred("hrv_Latn") == kindred("srp_Cyrl")
    assert kindred("fra_Latn") == {"fra"}
    assert "sdh" in expected("ckb_Arab", model)
    with pytest.raises(MexmaError, match="does not know wol_Latn"):
        expected("wol_Latn", model)


class _Fixed:
    name = "fixed"
    known = frozenset({"fra", "deu"})

    def identify(self, lines: list[str]) -> list[Guess]:
        return [Guess("deu" if "ß" in line else "fra", 0.4 if "?" in line else 0.9) for line in lines]


def test_short_and_unsure_lines_take_their_documents_vote() -> None:
    lines = [
        "ß",
        "ein langer Satz mit ß darin",
        "ein langer Satz mit ß, oder?",
        "französisch" * 3,
        "ß",
        "?" * 30 + "ß",
    ]
    documents = np.array([0, 0, 0, 0, 1, 2])
    french = frozenset({"fra"})

    def other(numbers: np.ndarray | None) -> list[bool]:
        return in_other_language(lines, _Fixed(), french, numbers).tolist()  # type: ignore[arg-type]

    # Document 0 has a `?`, so nobody is sure of it; document 2 neither; document 1 is short, but sure.
    assert other(documents) == [False, True, False, False, True, False]
    assert other(None) == [True, True, False, False, True, False]
    assert in_other_language([], _Fixed(), french, np.zeros(0, int)).tolist() == []  # type: ignore[arg-type]
