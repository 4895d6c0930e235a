from __future__ import annotations

from pathlib import Path

from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.run.pairs import Mine
from mexma_cli.stages.run.plan import inputs_of, plan
from mexma_cli.stages.run.texts import Pieces, Split
from mexma_cli.stages.run.units import RunFolder
from tests.corpora import corpus


def key_of_sentences(recipe: CorpusRecipe) -> str:
    (unit,) = plan(recipe, inputs_of(recipe), lambda code: None)[0].units()
    assert isinstance(unit, Split)
    return RunFolder(Path(recipe.run)).key(unit)


def test_documents_are_split_again_where_names_or_the_model_are_others(tmp_path: Path) -> None:
    """The ids of documents are made of the names of their files."""
    (tmp_path / "lid.bin").write_text("one model")
    texts = {
        "fra": {"input": "fr*.txt", "split": {"lid_model": str(tmp_path / "lid.bin")}},
        "eng": {"input": "eng.txt"},
    }
    recipe = corpus(tmp_path, Path("mini"), languages=texts)
    (tmp_path / "fry.txt").write_text("one line\n")
    keys = [key_of_sentences(recipe)]
    (tmp_path / "lid.bin").write_text("another model")
    keys.append(key_of_sentences(recipe))
    (tmp_path / "fry.txt").rename(tmp_path / "frz.txt")
    keys.append(key_of_sentences(recipe))
    assert len(set(keys)) == 3 and key_of_sentences(recipe) == keys[-1]


def test_parquet_is_compressed_in_itself(tmp_path: Path) -> None:
    (tmp_path / "fra.txt").write_text("une ligne\n")
    (tmp_path / "eng.txt").write_text("one line\n")
    texts = {"fra": {"input": "fra.txt"}, "eng": {"input": "eng.txt"}}
    output = {"format": ["tsv", "parquet"], "compression": "gz"}
    recipe = corpus(tmp_path, Path("mini"), languages=texts, output=output)
    planned = plan(recipe, inputs_of(recipe), lambda code: Pieces(1, 1))
    (mining,) = [unit for kind in planned if kind.of is Mine for unit in kind.units()]
    pair = "fra_Latn-eng_Latn"
    assert isinstance(mining, Mine)
    assert mining.written.formats == {f"{pair}.tsv.gz": "tsv", f"{pair}.parquet": "parquet"}
