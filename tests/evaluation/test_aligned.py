"""Folders of line-aligned files, under the names of FLORES-200, NTREX-128 and others."""

from __future__ import annotations

from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.aligned import aligned_folder, language_list, read_texts
from mexma_cli.text.lines import open_text
from tests.evaluation.given import put


def test_flores(tmp_path: Path) -> None:
    folder = put(tmp_path, {"devtest/fra_Latn.devtest": "a\n", "dev/deu_Latn.dev": "b\n", "README": "x"})
    for where in (folder, folder / "devtest"):
        assert list(aligned_folder(where, "devtest").files) == ["fra_Latn"]
    assert aligned_folder(folder, "dev").files == {"deu_Latn": folder / "dev/deu_Latn.dev"}


def test_ntrex_has_varieties_of_a_language(tmp_path: Path) -> None:
    codes = ["fra", "fra-CA", "zho-CN", "zho-TW", "aze-Latn", "srp-Cyrl", "srp-Latn", "eng-GB", "eng-US"]
    names = {f"NTREX-128/newstest2019-ref.{code}.txt": "a\n" for code in codes}
    folder = put(tmp_path, names | {"NTREX-128/newstest2019-src.eng.txt": "a\n", "LANGUAGES.tsv": "x"})
    files = aligned_folder(folder, "devtest").files
    assert files["eng_Latn"].name == "newstest2019-src.eng.txt"
    assert files["fra_Latn"].name.endswith(".fra.txt") and files["fra-CA"].name.endswith(".fra-CA.txt")
    assert {"zho_Hans", "zho_Hant", "azj_Latn", "srp_Cyrl", "srp_Latn", "eng-GB", "eng-US"} <= set(files)
    assert list(aligned_folder(folder, "devtest").choose("fr,fra-CA")) == ["fra_Latn", "fra-CA"]


def test_a_language_that_is_not_there(tmp_path: Path) -> None:
    codes = ["fra", "deu", "spa", "ita", "por", "ron", "cat", "glg", "nld", "dan"]
    few = aligned_folder(put(tmp_path / "few", {f"{code}.txt": "a\n" for code in codes}), "devtest")
    with pytest.raises(MexmaError, match=r"no <code>\.txt for asm") as caught:
        few.choose("fra,asm")
    assert (caught.value.hint or "").startswith("there are 10 languages: cat_Latn, dan_Latn,")
    many = aligned_folder(put(tmp_path / "many", {f"{code}.txt": "a\n" for code in [*codes, "eng"]}), "x")
    with pytest.raises(MexmaError) as caught:
        many.choose("fra,asm")
    assert caught.value.hint == f"there are 11 languages: `ls {tmp_path / 'many'}` lists them"


def test_plain_files_and_what_is_no_language(tmp_path: Path) -> None:
    folder = put(tmp_path, {"fra_Latn.txt.gz": "a\n", "en.txt": "a\n", "docids.txt": "a\n", "eng.md": "a"})
    assert list(aligned_folder(folder, "devtest").files) == ["eng_Latn", "fra_Latn"]


def test_a_packed_copy_is_no_language_of_its_own(tmp_path: Path) -> None:
    folder = put(tmp_path, {name: "a\n" for name in ("eng.txt", "eng.txt.gz", "fra.txt", "fra.txt.gz")})
    assert list(read_texts(folder, "devtest", None, "eng_Latn").texts) == ["fra_Latn"]
    assert aligned_folder(folder, "devtest").choose("fra") == {"fra_Latn": folder / "fra.txt"}


def test_published_lists_are_the_recipes() -> None:
    assert len(language_list("81")) == 80 and len(language_list("90")) == 89  # and English
    assert "zho_Hant" in language_list("81") and "zsm_Latn" in language_list("90")
    assert len(language_list("o")) == 71 and len(language_list("d")) == 33  # as the paper's Table 1 counts
    assert language_list("81").keys() > language_list("o").keys() > language_list("d").keys() > {"zho_Hant"}


def test_lists_of_codes(tmp_path: Path) -> None:
    path = tmp_path / "some.txt"
    path.write_text("fra_Latn, deu # German\n\n# none\nfra_Latn zh-TW\n")
    assert language_list(str(path)) == {"fra_Latn": 1, "deu": 1, "zh-TW": 4}
    assert language_list("fra, deu") == {"fra": None, "deu": None}
    assert len(language_list(",".join(language_list("81")))) == 80  # longer than a file's name can be
    path.write_text("fra\ndeu qqq\n")
    with pytest.raises(MexmaError, match=r"some.txt, line 2: unknown language code 'qqq'"):
        language_list(str(path))
    with pytest.raises(MexmaError, match="unknown language code 'gr'") as raised:
        language_list("gr,fra")
    assert "ell_Grek (Greek)" in (raised.value.hint or "")


def test_a_language_is_one_beside_a_text_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fra").write_text("Bonjour\n")
    assert language_list("fra") == {"fra": None}
    with pytest.raises(MexmaError, match="fra, line 1: unknown language code 'Bonjour'"):
        language_list("./fra")


def test_published_only_where_it_is_the_same_task(tmp_path: Path) -> None:
    text = "".join(f"sentence {number}\n" for number in range(1012))
    codes = [*language_list("81"), "eng_Latn"]
    put(tmp_path, {f"devtest/{code}.devtest": text for code in codes})
    put(tmp_path, {f"plain/{code}.txt": text for code in codes})
    assert read_texts(tmp_path, "devtest", "81", "eng_Latn").published == "81"
    assert read_texts(tmp_path, "devtest", None, "eng_Latn").published is None
    assert read_texts(tmp_path, "devtest", "81", "fra_Latn").published is None
    assert read_texts(tmp_path / "plain", "devtest", "81", "eng_Latn").published is None
    (tmp_path / "devtest/fra_Latn.devtest").unlink()
    assert read_texts(tmp_path, "devtest", "81", "eng_Latn").published is None


@pytest.mark.parametrize("file", ["{code}.devtest", "{code}.devtest.gz", "{code}.txt", "{code}.txt.gz"])
@pytest.mark.parametrize(
    ("files", "given"),
    [("", "flores200/devtest"), ("", "flores200"), ("flores200_dataset/", "flores200")],
)
def test_flores_is_published_in_whatever_folder_it_is_given(
    file: str, files: str, given: str, tmp_path: Path
) -> None:
    text = "".join(f"sentence {number}\n" for number in range(1012))
    folder = tmp_path / "flores200" / files / "devtest"
    folder.mkdir(parents=True)
    for code in [*language_list("81"), "eng_Latn"]:
        with open_text(folder / file.format(code=code)) as written:
            written.write(text)
    assert read_texts(tmp_path / given, "devtest", "81", "eng_Latn").published == "81"


def test_other_data_may_lack_languages_of_a_published_list(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, {"eng.txt": "a\n", "fra.txt": "a\n", "zul.txt": "a\n"})
    assert list(read_texts(tmp_path, "devtest", "81", "eng_Latn").texts) == ["fra_Latn"]
    (warning,) = caplog.messages
    assert "no <code>.txt for 79 languages of --langs 81, which are left out: acm_Arab, " in warning
    assert warning.endswith("bos_Latn, and 67 more") and len(warning) < 300 + len(str(tmp_path))
    (tmp_path / "fra.txt").unlink()
    (tmp_path / "zul.txt").rename(tmp_path / "ton.txt")
    with pytest.raises(MexmaError, match=r"(?m)no <code>\.txt for acm_Arab, .*, and 68 more$"):
        read_texts(tmp_path, "devtest", "81", "eng_Latn")
    codes = tmp_path / "codes"
    codes.write_text("ton\n\nfra # not there\n")
    with pytest.raises(MexmaError, match=r"no <code>.txt for fra \(.*codes, line 3\)"):
        read_texts(tmp_path, "devtest", str(codes), "eng_Latn")
