"""Language codes: what a user may write, and what it means inside."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli import languages
from mexma_cli.errors import MexmaError


@pytest.mark.parametrize(
    ("code", "flores"),
    [
        ("fr", "fra_Latn"),
        ("fra", "fra_Latn"),
        ("fre", "fra_Latn"),
        ("FRA_latn", "fra_Latn"),
        ("fr-CA", "fra_Latn"),
        ("zh", "zho_Hans"),
        ("cmn", "zho_Hans"),
        ("zh-TW", "zho_Hant"),
        ("zho_Hant", "zho_Hant"),
        ("ara", "arb_Arab"),
        ("fas", "pes_Arab"),
        ("fa", "pes_Arab"),
        ("swa", "swh_Latn"),
        ("nor", "nob_Latn"),
        ("nb", "nob_Latn"),
        ("msa", "zsm_Latn"),
        ("lav", "lvs_Latn"),
        ("sqi", "als_Latn"),
        ("ekk", "est_Latn"),
        ("iw", "heb_Hebr"),
        ("jw", "jav_Latn"),
        ("sr-Latn", "srp_Latn"),
        ("sr-ME", "srp_Latn"),
        ("sr-RS", "srp_Cyrl"),
        ("pa-PK", "pan_Arab"),
        ("pa-IN", "pan_Guru"),
        ("uz-AF", "uzn_Arab"),
        ("az-IR", "azb_Arab"),
        ("fa-AF", "prs_Arab"),
        ("crh-UA", "crh_Latn"),
        ("ko-KR", "kor_Hang"),
        ("oci", "oci_Latn"),
        ("tlh", "tlh"),
        ("la", "lat"),
        ("ber", "ber"),
        ("fuc", "fuc"),
        ("und", "und"),
        ("fr_FR", "fra_Latn"),
        ("pt-BR", "por_Latn"),
        ("zh-CN", "zho_Hans"),
        ("pt_PT.UTF-8", "por_Latn"),
        ("de_DE@euro", "deu_Latn"),
        ("sr_RS@latin", "srp_Latn"),
        ("sr_RS.UTF-8@latin", "srp_Latn"),
        ("ca@valencia", "cat_Latn"),
    ],
)
def test_codes_resolve(code: str, flores: str) -> None:
    assert languages.resolve(code) == flores


def test_spellings_are_all_of_one_language() -> None:
    assert languages.spellings("fre") == ["fra_Latn", "fr", "fra", "fre"]
    assert languages.spellings("zh-TW")[0] == "zho_Hant"
    assert languages.spellings("tlh") == ["tlh"], "not in the table"
    for code in languages.codes():
        assert {languages.resolve(one) for one in languages.spellings(code)} == {code}


@pytest.mark.parametrize(
    ("code", "nearest"),
    [
        ("fra_Ltn", "fra_Latn"),
        ("french", "fra_Latn"),
        ("engl", "eng_Latn"),
        ("xx", "xho_Latn"),
        ("ua", "did you mean ukr_Cyrl (Ukrainian), "),  # a country
        ("cz", "did you mean ces_Latn (Czech), "),
    ],
)
def test_unknown_code_names_the_nearest(code: str, nearest: str) -> None:
    with pytest.raises(MexmaError) as caught:
        languages.resolve(code)
    assert repr(code) in caught.value.message
    assert nearest in (caught.value.hint or "")


def test_a_language_by_its_name_is_hinted_at_alone() -> None:
    with pytest.raises(MexmaError) as caught:
        languages.resolve("ukrainian")
    assert caught.value.hint == "did you mean ukr_Cyrl (Ukrainian)?"


@pytest.mark.parametrize(
    ("code", "candidates"),
    [
        (
            "sh",
            ["bos_Latn (Bosnian)", "hrv_Latn (Croatian)", "srp_Cyrl (Serbian)", "srp_Latn (Serbian (Latn))"],
        ),
        ("hbs", ["hrv_Latn"]),
        ("hbs_Latn", ["hrv_Latn"]),
        ("bih", ["bho_Deva", "mai_Deva"]),
    ],
)
def test_codes_of_several_languages_name_them(code: str, candidates: list[str]) -> None:
    with pytest.raises(MexmaError, match="several languages") as caught:
        languages.resolve(code)
    for candidate in candidates:
        assert candidate in (caught.value.hint or "")


@pytest.mark.parametrize(
    "code", ["", " ", ".UTF-8", "C.UTF-8", "fr@", "qqq", "fra/..", "fra_Latn_x", "a" * 5000]
)
def test_nonsense_is_refused(code: str) -> None:
    with pytest.raises(MexmaError, match="unknown language code"):
        languages.resolve(code)


@pytest.mark.parametrize("code", ["qaa", "qtz", "qaa_Latn"])
def test_a_language_that_has_no_code(code: str) -> None:
    with pytest.raises(MexmaError, match="unknown language code") as caught:
        languages.resolve(code)
    assert "a language without a code is `und`" in (caught.value.hint or "")


def test_all_flores_codes_resolve_to_themselves_and_have_a_name() -> None:
    assert len(languages.codes()) == 204
    for code in languages.codes():
        assert languages.resolve(code) == code
        assert languages.name(code)


def test_names() -> None:
    assert languages.name("fr") == "French"
    assert languages.name("tlh") == "Klingon"
    assert languages.name("sr-Latn") == "Serbian (Latn)"
    assert languages.name("mni-Mtei") == "Meitei (Mtei)", "not in the Bengali script"
    assert languages.name("und") == "not stated"


@given(st.text(max_size=12))
def test_resolve_is_idempotent_or_refuses(code: str) -> None:
    try:
        resolved = languages.resolve(code)
    except MexmaError:
        return
    assert languages.resolve(resolved) == resolved


def test_common_codes_need_no_import_of_langcodes() -> None:
    program = (
        "import sys; from mexma_cli import languages as l; l.resolve('fr'); print('langcodes' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("code", "script"),
    [
        ("fra", "Latn"),
        ("sr", "Cyrl"),
        ("sr-Latn", "Latn"),
        ("ja", "Jpan"),
        ("zh-TW", "Hant"),
        ("chr", "Cher"),
        ("syc", None),
        ("und", None),
    ],
)
def test_scripts(code: str, script: str | None) -> None:
    assert languages.script(code) == script


def test_languages_that_are_akin() -> None:
    among = ("deu_Latn", "hin_Deva", "ind_Latn", "pol_Latn", "rus_Cyrl", "tat_Cyrl", "tur_Latn")
    for code, near in {
        "ces_Latn": ["pol_Latn"],
        "bel_Cyrl": ["rus_Cyrl"],
        "bul_Cyrl": ["rus_Cyrl"],  # as near as Polish, and in its script
        "kaz_Cyrl": ["tat_Cyrl"],
        "zsm_Latn": ["ind_Latn"],
        "lit_Latn": [],  # Indo-European, and no more than that
        "eus_Latn": [],
        "tlh": [],
    }.items():
        assert languages.akin(code, among) == near
    assert languages.akin("ukr_Cyrl", ["deu_Latn", "ces_Latn", "pol_Latn"]) == ["ces_Latn", "pol_Latn"]


def test_every_language_has_groups_of_iso_639_5() -> None:
    groups = languages._table()[2]
    assert [code for code, found in groups.items() if not found] == ["kor_Hang"]
    assert all(len(one) == 3 and one.isalpha() for found in groups.values() for one in found)


@pytest.mark.parametrize(
    ("called", "codes"),
    [
        ("Yoruba", ["yor_Latn"]),
        ("èdè yorùbá", ["yor_Latn"]),
        ("kreyol", ["hat_Latn"]),
        ("isiZulu", ["zul_Latn"]),
        ("українська", ["ukr_Cyrl"]),
        ("Farsi", ["pes_Arab"]),
        ("chinese simplified", ["zho_Hans"]),
        ("中文", ["zho_Hans", "zho_Hant"]),
        ("norsk", ["nno_Latn", "nob_Latn"]),
        ("Arabic", ["arb_Arab"]),  # though other names have the word, too
        ("Gaelic", ["gla_Latn"]),
        ("Klingon", ["tlh"]),
        ("नेपाली", ["npi_Deva"]),
        ("लीपाने", []),  # other words of the same consonants
        ("न", []),
        ("oʻzbek", ["uzn_Latn"]),
        ("Taizzi-Adeni Arabic", ["acq_Arab"]),
        ("nosuch", []),
        ("", []),
    ],
)
def test_languages_by_their_names(called: str, codes: list[str]) -> None:
    assert sorted(languages.languages_named(called)) == codes


def test_a_name_in_place_of_a_code_is_understood() -> None:
    with pytest.raises(MexmaError) as error:
        languages.resolve("kreyol")
    assert error.value.hint == "did you mean hat_Latn (Haitian Creole)?"


@pytest.mark.parametrize(
    ("code", "tag"),
    [
        ("eng_Latn", "en"),
        ("fra_Latn", "fr"),
        ("tgl_Latn", "tl"),
        ("arb_Arab", "ar"),
        ("arb_Latn", "ar-Latn"),
        ("zho_Hans", "zh-Hans"),
        ("zho_Hant", "zh-Hant"),
        ("yue_Hant", "yue"),
        ("srp_Cyrl", "sr"),
        ("srp_Latn", "sr-Latn"),
        ("nob_Latn", "nb"),
        ("nno_Latn", "nn"),
        ("swh_Latn", "sw"),
        ("zsm_Latn", "ms"),
        ("pes_Arab", "fa"),
        ("prs_Arab", "prs"),
        ("pbt_Arab", "ps"),
        ("azj_Latn", "az"),
        ("azb_Arab", "azb"),
        ("jav_Latn", "jv"),
        ("ron_Latn", "ro"),
        ("ydd_Hebr", "yi"),
        ("heb_Hebr", "he"),
        ("kor_Hang", "ko"),
        ("ceb_Latn", "ceb"),
        ("knc_Arab", "kr-Arab"),
        ("sme", "se"),
        ("sme_Latn", "se-Latn"),
        ("tlh", "tlh"),
        ("cnr", "cnr"),
        ("cnr_Cyrl", "cnr-Cyrl"),
        ("pt-BR", "pt-BR"),
        ("und", "und"),
    ],
)
def test_tags(code: str, tag: str) -> None:
    assert languages.bcp47(code) == tag


def test_every_language_has_a_tag_of_its_own_that_is_read_back() -> None:
    import langcodes

    tags = {code: languages.bcp47(code) for code in languages.codes()}
    assert len(set(tags.values())) == len(tags)
    assert all(langcodes.tag_is_valid(tag) and languages.resolve(tag) == code for code, tag in tags.items())
    short = {code for code in tags if any(len(one) == 2 for one in languages.spellings(code))}
    assert all(len(tags[code].partition("-")[0]) == 2 for code in short)


def test_languages_of_no_tag_of_their_own_keep_their_codes() -> None:
    """What is usual in the tag of some, such as Montenegrin, is another language's code."""
    import langcodes

    found = [code for code in languages._registry().values() if langcodes.standardize_tag(code) != code]
    others = {languages.known(code + script) for code in found for script in ("", "-Latn", "-Cyrl")}
    tags = {code: languages.bcp47(code) for code in others - {"und"}}
    assert len(tags) > 300 and len(set(tags.values())) == len(tags)
    assert [code for code, tag in tags.items() if languages.known(tag) != code] == []
