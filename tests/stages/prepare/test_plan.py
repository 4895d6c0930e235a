"""What `prepare` would do, found without doing it."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mexma_cli.settings.load import load, shipped
from mexma_cli.settings.training import Data
from mexma_cli.stages.prepare.plan import PreparePlan, plan_data

PAPERS = [
    name
    for name in shipped()
    if not name.startswith(
        (
            "mini",
            "one-language",
            "distillation",
            "hard-negatives",
            "transformer",
            "baselines/",
            "systems/",
            "ablations/small/",
        )
    )
]


def look(data: Data) -> PreparePlan:
    return plan_data(data, lambda done, bitexts, label: None)


def opus(path: Path, languages: tuple[str, ...], pairs: int = 1) -> None:
    """One zip with all languages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for language in languages:
            for code in ("eng_Latn", language):
                archive.writestr(f"X.eng_Latn-{language}.{code}", "a line\n" * pairs)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if "/" in name else ()) for name in PAPERS]
)
def test_the_papers_recipes_look_for_their_languages(name: str, tmp_path: Path) -> None:
    data = load(name, [f"data.root={tmp_path}", f"data.store={tmp_path}/store"]).data
    (missing,) = look(data).missing
    assert all(language in missing for language in data.languages), "each is named, in one message"
    opus(tmp_path / "NLLB" / "all.zip", data.languages[1:])
    (missing,) = look(data).missing
    assert missing.startswith(f"no data for {data.languages[0]} (")
    opus(tmp_path / "DGT" / "all.zip", data.languages[:2], 3)
    found = look(data)
    assert not found.missing
    rows = {(row.corpus, row.language): row for row in found.corpora}
    assert len(rows) == 16 * len(data.languages)
    assert [rows[corpus, data.languages[1]].pairs for corpus in ("NLLB", "DGT", "EMEA")] == [1, 3, 0]
    assert not (tmp_path / "store").exists()


def test_caps_and_top_up_are_in_the_plan(tmp_path: Path) -> None:
    corpora: list[dict[str, Any]] = [
        {"name": "mined", "format": "opus", "path": "mined", "top_up": True},
        {"name": "good", "format": "opus", "path": "good"},
    ]
    opus(tmp_path / "good" / "x.zip", ("fra_Latn", "deu_Latn"), 30)
    opus(tmp_path / "mined" / "x.zip", ("fra_Latn",), 50)
    data = Data.model_validate(
        {
            "root": str(tmp_path),
            "store": "s",
            "languages": ["fra_Latn", "deu_Latn"],
            "corpora": corpora,
            "cap_per_language": 60,
            "minimum_per_language": 40,
        }
    )
    used = {(row.corpus, row.language): row.used for row in look(data).corpora}
    assert used == {
        ("mined", "fra_Latn"): 10,
        ("mined", "deu_Latn"): 0,
        ("good", "fra_Latn"): 30,
        ("good", "deu_Latn"): 30,
    }
    of_all = data.model_copy(update={"cap_per_language": 30, "minimum_per_language": 0, "fill": "random"})
    of_all = of_all.model_copy(
        update={"corpora": tuple(one.model_copy(update={"top_up": False}) for one in data.corpora)}
    )
    used = {(row.corpus, row.language): row.used for row in look(of_all).corpora}
    assert list(used.values()) == [19, 0, 11, 30]  # of 50 and 30 French pairs, 30 German ones
    narrow = {"languages": ("deu_Latn", "ita_Latn"), "minimum_per_language": 0}
    corpora = [corpus.model_copy(update={"languages": ("deu_Latn", "spa_Latn")}) for corpus in data.corpora]
    found = look(data.model_copy(update=narrow | {"corpora": tuple(corpora)}))
    assert [(row.corpus, row.language) for row in found.corpora] == [("good", "deu_Latn")]
    assert found.missing == ["`data.languages` has ita_Latn, and no corpus of the recipe lists it"]


@pytest.mark.slow
def test_large_files_are_estimated(tmp_path: Path) -> None:
    random.seed(1)
    words = [f"{random.random():.{random.randint(3, 17)}f}" for _ in range(12_000)] * 100
    text = "\n".join(words)
    corpora = []
    (tmp_path / "plain.tsv").write_text(text)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.en-fr.en", text)
        archive.writestr("X.en-fr.fr", text)
    corpora = [
        {"name": "tsv", "format": "tsv", "path": "plain.tsv"},
        {"name": "zip", "format": "opus", "path": "x.zip"},
    ]
    data = {"root": str(tmp_path), "store": "s", "languages": ["fra"], "corpora": corpora}
    for row in look(Data.model_validate(data)).corpora:
        assert not row.counted
        assert row.pairs == pytest.approx(1_200_000, rel=0.02)
        assert row.disk == pytest.approx(row.pairs * 16 + row.files * len(text), rel=0.05)
