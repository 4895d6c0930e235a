"""Languages of lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from py3langid.langid import LanguageIdentifier

from mexma_cli.errors import MexmaError
from mexma_cli.text.identify import (
    FEWEST,
    Guess,
    Identifier,
    another_language,
    another_script,
    expected,
    identifier,
    in_other_language,
    iso3,
    kindred,
    swapped_sides,
    warn_of_languages,
)

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


@pytest.mark.slow
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


PLACES = {"dim": 8, "bucket": 40, "n-gram": 48, "entries": 64, "words": 68, "labels": 72, "kept": 84}
"""Of numbers in the head of a model; its matrices' rows stand before the last of them."""


@pytest.mark.parametrize("value", [2**30, -2, 1001])
@pytest.mark.parametrize("name", [*PLACES, "rows", "width"])
def test_sizes_in_a_fasttext_model_are_those_of_its_file(name: str, value: int, tmp_path: Path) -> None:
    """The library would make room for them, or read beyond its matrices."""
    content = bytearray((FIXTURES / "lid.bin").read_bytes())
    last = len(content) - 4 * 2 * 4 - 16  # two labels, four numbers each
    place = PLACES | {"rows": last, "width": last + 8}
    content[place[name] : place[name] + 4] = value.to_bytes(4, "little", signed=True)
    (tmp_path / "lid.bin").write_bytes(content)
    with pytest.raises(MexmaError, match=r"lid\.bin is no fastText model: "):
        identifier("none", tmp_path / "lid.bin")


@pytest.mark.parametrize("size", [0, 7, 63, 100, 80_000, -1])
def test_a_fasttext_model_that_is_cut_off(size: int, tmp_path: Path) -> None:
    (tmp_path / "lid.bin").write_bytes((FIXTURES / "lid.bin").read_bytes()[:size])
    with pytest.raises(MexmaError, match=r"lid\.bin is no fastText model: "):
        identifier("none", tmp_path / "lid.bin")


def test_a_quantised_fasttext_model(tmp_path: Path) -> None:
    fasttext = pytest.importorskip("fasttext")
    path = tmp_path / "lid.ftz"
    for settings in ({"qnorm": True}, {"cutoff": 600}, {"cutoff": 600, "qnorm": True}):
        model = fasttext.load_model(str(FIXTURES / "lid.bin"))
        model.quantize(**settings)
        model.save_model(str(path))
        found = identifier("none", path)
        assert found is not None and found.known == {"spa", "eng"}
        content = path.read_bytes()
        path.write_bytes(content[:-9] + content[-8:])
        with pytest.raises(MexmaError, match=r"lid\.ftz is no fastText model: "):
            identifier("none", path)


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

    def other(numbers: np.ndarray | None) -> list[bool]:
        return in_other_language(lines, _Fixed(), "fra_Latn", numbers).tolist()  # type: ignore[arg-type]

    # Document 0 has a `?`, so nobody is sure of it; document 2 neither; document 1 is short, but sure.
    assert other(documents) == [False, True, False, False, True, False]
    assert other(None) == [True, True, False, False, True, False]
    assert in_other_language([], _Fixed(), "fra_Latn", np.zeros(0, int)).tolist() == []  # type: ignore[arg-type]


def test_long_documents_in_a_kindred_language_go_whole(model: Identifier) -> None:
    malay = (FIXTURES / "malay.txt").read_text(encoding="utf-8").splitlines()
    lines = [*malay, *malay[:9], "Saya tinggal di Jakarta bersama keluarga saya."]
    documents = np.repeat([3, 5], [10, 10])  # the second is too short to tell

    def dropped(language: str, asked: Identifier = model) -> list[int]:
        return np.flatnonzero(in_other_language(lines, asked, language, documents)).tolist()

    assert dropped("ind_Latn") == list(range(10))
    assert dropped("zsm_Latn") == []
    assert dropped("ind_Latn", _Unmeasured(model)) == []
    assert not in_other_language(lines, model, "ind_Latn").any()


class _Unmeasured:
    name = "another 1.0"

    def __init__(self, model: Identifier) -> None:
        self.known, self.identify = model.known, model.identify


def test_lines_in_another_script_than_the_language_that_is_stated() -> None:
    russian = ["Она живёт здесь в Москве, в IKEA."] * FEWEST
    assert another_script(russian, "rus_Cyrl") == another_script(russian[1:], "srp_Latn") == ""
    wrong = "84 % of the letters are not of the script of srp_Latn, which is stated"
    assert another_script(russian, "srp_Latn") == wrong
    assert another_script(russian, "und") == another_script(["..."] * FEWEST, "srp_Latn") == ""
    few = [*russian[1:], *[" "] * 10]
    assert another_script([*russian, ""], "srp_Latn") == wrong and another_script(few, "srp_Latn") == ""


@pytest.mark.parametrize(("filled", "told"), [(FEWEST, True), (FEWEST - 1, False)])
def test_blank_lines_are_in_no_language(
    filled: int, told: bool, model: Identifier, caplog: pytest.LogCaptureFixture
) -> None:
    english = ["The dog is asleep in the kitchen of the old house."] * filled + [""] * 90
    spanish = ["El perro duerme en la cocina de la casa vieja."] * 50 + ["\u200b"] * 50
    assert another_language(spanish, "spa_Latn", model) == ""
    wrong = "100 % of the {} look English, and Spanish is stated"
    assert another_language(english, "spa_Latn", model) == (wrong.format("lines") if told else "")
    assert swapped_sides((spanish, [""] * 100), ("eng_Latn", "spa_Latn"), model) == ""
    assert swapped_sides((english, spanish), ("spa_Latn", "eng_Latn"), model).startswith("0% of the sources")
    assert swapped_sides((english, spanish), ("eng_Latn", "spa_Latn"), model) == ""
    warn_of_languages((english, spanish), ("eng_Latn", "spa_Latn"), model)
    assert not caplog.text
    warn_of_languages((english, english), ("spa_Latn", "eng_Latn"), model)
    assert (wrong.format("sources") in caplog.text) == told


def test_of_no_pairs_no_side_is_swapped() -> None:
    model = identifier("py3langid")
    assert model is not None
    for sides in ([], [[], []]):
        assert swapped_sides(sides, ("spa_Latn", "eng_Latn"), model) == ""
        warn_of_languages(sides, ("spa_Latn", "eng_Latn"), model)
