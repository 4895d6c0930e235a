"""Which files belong together, by their names, and their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import PlainPair, open_pairs
from mexma_cli.formats.moses import AlignedFiles, aligned_files
from mexma_cli.text.amounts import counted


@pytest.mark.parametrize(
    ("names", "stem", "codes"),
    [
        (["DGT.en-fr.en", "DGT.en-fr.fr", "DGT.en-fr.xml", "README", "LICENSE"], "DGT.en-fr", ("en", "fr")),
        (["bible-uedin.af-en.af", "bible-uedin.af-en.en"], "bible-uedin.af-en", ("af", "en")),
        (["X.eng-fra.eng", "X.eng-fra.fra"], "X.eng-fra", ("eng", "fra")),
        (
            ["NLLB.en-zh_TW.en", "NLLB.en-zh_TW.zh_TW", "NLLB.en-zh_TW.scores"],
            "NLLB.en-zh_TW",
            ("en", "zh_TW"),
        ),
        (["Q.en-zh-TW.en", "Q.en-zh-TW.zh-TW"], "Q.en-zh-TW", ("en", "zh-TW")),
        (["en-fr.fr.xz", "en-fr.en.xz"], "en-fr", ("en", "fr")),
        (
            ["a/train-parts/OPUS-dgt-v2019-eng-fra.eng.gz", "a/train-parts/OPUS-dgt-v2019-eng-fra.fra.gz"],
            "a/train-parts/OPUS-dgt-v2019-eng-fra",
            ("eng", "fra"),
        ),
    ],
)
def test_two_sides_in_either_order(names: list[str], stem: str, codes: tuple[str, str]) -> None:
    (found,) = aligned_files(reversed(names))
    assert (found.stem, found.codes) == (stem, codes)
    assert [f".{code}" in name.removeprefix(stem) for code, name in zip(codes, found.names, strict=True)] == [
        True
    ] * 2


@pytest.mark.parametrize(
    "names",
    [
        ["train.en", "train.fr"],  # no languages in the name
        ["DGT.en-fr.en"],  # one side
        ["DGT.en-fr.en", "EMEA.en-fr.fr"],
        ["DGT.en-fr.en", "DGT.en-fr.de"],
        ["a/DGT.en-fr.en", "b/DGT.en-fr.fr"],
        ["OPUS-dgt-v2019-eng-fra.meta.jsonl.gz", ".valid.OPUS-dgt-v2019-eng-fra"],
        [],
    ],
)
def test_what_does_not_belong_together(names: list[str]) -> None:
    assert list(aligned_files(names)) == []


def test_several_in_one_folder() -> None:
    names = ["A.en-fr.en", "A.en-fr.fr", "A.de-en.de", "A.de-en.en", "A.en-fr.ids"]
    assert list(aligned_files(names)) == [
        AlignedFiles("A.de-en", ("de", "en"), ("A.de-en.de", "A.de-en.en")),
        AlignedFiles("A.en-fr", ("en", "fr"), ("A.en-fr.en", "A.en-fr.fr")),
    ]


@pytest.mark.parametrize("lines", [(2, 2), (2, 5), (4, 1), (0, 3)])
def test_two_files_have_as_many_lines(lines: tuple[int, int], tmp_path: Path) -> None:
    paths = [tmp_path / "a.fr", tmp_path / "a.en"]
    for path, count in zip(paths, lines, strict=True):
        path.write_text("".join(f"{row}\n" for row in range(count)))
    pairs = open_pairs(*paths).pairs
    if lines == (2, 2):
        assert list(pairs) == [PlainPair("0", "0"), PlainPair("1", "1")]
        return
    found = [counted(count, "line") for count in lines]
    with pytest.raises(MexmaError, match=f"a.fr has {found[0]}, .*a.en has {found[1]}\\n"):
        list(pairs)
