from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Mapping
from functools import reduce
from operator import or_
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.classifier.model import bytes_for
from mexma_cli.errors import MexmaError
from mexma_cli.files import shipped_folder
from mexma_cli.knn import faiss_index
from mexma_cli.knn.effort import fewest_hits
from mexma_cli.knn.faiss_index import PartitionedIndex
from mexma_cli.knn.index_search import Direction, search_span
from mexma_cli.knn.sides import SearchSide
from mexma_cli.knn.spans import Span
from mexma_cli.settings.corpus import CorpusSplitting
from mexma_cli.stages.mine.probable import LIBRARIES_BYTES
from mexma_cli.stages.run.estimate import FILE, _Imagined, _measured, _Text, estimate
from mexma_cli.stages.run.plan import Selection, inputs_of
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.stages.run.search import index_memory
from mexma_cli.stages.run.units import RunFolder
from mexma_cli.text.lines import read_lines
from tests.corpora import LINES, InThisProcess, corpus
from tests.knn.test_spans import Rows


def test_units_of_a_search_with_indexes_that_are_counted_are_listed(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    recipe = corpus(tmp_path, tiny_encoder, mine={"index": "IVF2,Flat"}, units={"lines": 7, "tile": 9})
    listed = estimate(recipe, Selection(), jobs=1)
    counted = estimate(recipe, Selection(), jobs=1, assumed={"fra_Latn": LINES})
    for what in ("units", "disk", "network"):
        assert getattr(counted, what) == getattr(listed, what)
    exact = estimate(corpus(tmp_path, tiny_encoder), Selection(), jobs=1)
    assert listed.disk > exact.disk and listed.network > exact.network


@pytest.mark.parametrize("k", [4, pytest.param(64, marks=pytest.mark.slow)])
def test_a_search_with_an_index_takes_no_more_memory_than_is_forecast(
    tmp_path: Path, tiny_encoder: Path, k: int
) -> None:
    """Of arrays, with as few answers as k neighbours need."""
    rows, dim, index = 20_000, 8, "IVF16,Flat"
    recipe = corpus(tmp_path, tiny_encoder, mine={"index": index, "k": k}, units={"tile": rows})
    vectors = np.random.default_rng(0).standard_normal((2, rows, dim), np.float32)
    x, y = (SearchSide(Rows(one), np.ones(rows, bool)) for one in vectors)
    trained = faiss_index.train(y, index)
    found = PartitionedIndex(index, trained)
    found.held.append((0, faiss_index.fill(trained, y, 0, rows)))
    tracemalloc.start()
    for lists in search_span(Direction(x, y, found), Span(0, rows), fewest_hits(k), k, [Span(0, rows)]):
        assert lists.shape == (rows, k)
        del lists
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < index_memory(recipe, rows, dim) < 3 * taken


def test_units_that_are_counted_are_those_that_are_listed(tmp_path: Path, tiny_encoder: Path) -> None:
    recipe = corpus(tmp_path, tiny_encoder)
    listed = estimate(recipe, Selection(), jobs=1)
    counted = estimate(recipe, Selection(), jobs=1, assumed={"fra_Latn": LINES})
    for what in ("languages", "units", "disk", "network"):
        assert getattr(counted, what) == getattr(listed, what)
    done = run_corpus(recipe, InThisProcess)
    stages = Counter(unit.stage for unit in done.units.values())
    assert {stage: units["all"] for stage, units in counted.units.items()} == stages


def test_a_billion_lines_are_not_listed(tmp_path: Path, tiny_encoder: Path) -> None:
    recipe = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]])
    found = estimate(recipe, Selection(), jobs=1, assumed=dict.fromkeys(("fra_Latn", "eng_Latn"), 10**9))
    assert found.units["knn"]["all"] == (10**8) ** 2 + 2 * 10**8 + 2
    with pytest.raises(MexmaError, match="ces_Latn is none of the languages"):
        estimate(recipe, Selection(), jobs=1, assumed={"ces_Latn": 10})
    assert len(recipe.languages) > 2
    assert list(estimate(recipe, Selection(pairs=(("fra_Latn", "eng_Latn"),)), jobs=1).languages) == [
        "fra_Latn", "eng_Latn",
    ]  # fmt: skip


def test_costs_are_measured_kept_and_scaled_up(
    tmp_path: Path,
    tiny_encoder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    recipe = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]])
    monkeypatch.setattr("mexma_cli.stages.run.estimate._LINES", LINES)
    caplog.set_level("INFO", logger="mexma_cli")
    measured = estimate(recipe, Selection(), jobs=1, calibrated=True)
    assert "the run's folder" not in caplog.text, "the runs that measure are nobody's results"
    kept = json.loads((Path(recipe.run) / FILE).read_text())
    assert set(kept["factors"]) == {"cut", "embed", "merge", "rows", "neighbours", "mine"}
    assert set(measured.processor) == set(measured.units) == set(measured.seconds) - {"start"}
    double, four = (
        estimate(recipe, Selection(), jobs=1, assumed=dict.fromkeys(("fra_Latn", "eng_Latn"), rows))
        for rows in (2 * 10**8, 4 * 10**8)
    )
    mean = max(work["hours"] / work["units"] for work in four.works.values())
    assert four.works["mine"]["units"] == 1 and four.longest["hours"] >= mean > 0
    assert four.gpu["A100"] == pytest.approx(4 * double.gpu["A100"])
    assert four.gpu["A100"] == pytest.approx(2 * 32 * 16e16 / 312e12 / 3600)


def test_what_was_done_says_what_the_same_takes(tmp_path: Path, tiny_encoder: Path) -> None:
    recipe = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]])
    folder, hours = RunFolder(Path(recipe.run)), []
    units = run_corpus(recipe, InThisProcess).units
    for seconds in (0.25, 2.5):
        for name in units:
            record = folder.record(name)
            assert record is not None
            folder._write(name, record.sealed(processor_seconds=seconds))
        found = estimate(recipe, Selection(), jobs=1)
        assert found.seconds == {} and found.units["knn"]["up to date"] == found.units["knn"]["all"]
        hours.append({work: spent["hours"] for work, spent in found.works.items()})
    assert hours[1] == pytest.approx({work: 10 * spent for work, spent in hours[0].items()})


def test_memory_counts_what_a_worker_loads_and_each_part_once(tmp_path: Path) -> None:
    def memory(words: int, rows: int = 1000, **keys: object) -> Mapping[str, Counter[str]]:
        recipe = corpus(tmp_path, Path("mini"), pairs=[["fra", "eng"]], **keys)
        texts = {code: _Text(rows, 100 * rows, words) for code in ("fra_Latn", "eng_Latn")}
        lines, inputs = dict.fromkeys(texts, rows), inputs_of(recipe)
        imagined = _Imagined(recipe, lines, 2 * words, 320, 90_000_000, inputs, texts)
        return imagined.memory(imagined.kinds())

    def alone(parts: Counter[str]) -> int:
        return parts.total()

    few, many = memory(words=2000), memory(words=5000)
    assert alone(many["embed"]) - alone(few["embed"]) == 5500 * 2 * 3000, "words of both languages are kept"
    assert memory(words=10**6)["embed"] == memory(words=10**9)["embed"], "so many, and no more"
    assert alone(few["mine"]) - few["mine"]["worker"] >= LIBRARIES_BYTES + bytes_for(2000)
    assert alone(memory(2000, mine={"score": "margin"})["mine"]) < LIBRARIES_BYTES
    assert bytes_for(10**10) == bytes_for(10**8) < 2.5e9, "no more words are looked at"
    assert alone(few["knn"]) < LIBRARIES_BYTES < alone(memory(2000, 20_000, units={"tile": 20_000})["knn"])
    together = reduce(or_, few.values()).total()
    assert together == alone(few["embed"]) + alone(few["mine"]) - 90_000_000 - few["mine"]["worker"] + few[
        "read"
    ]["rules"] + max(0, few["knn"]["work"] - few["mine"]["work"]), (
        "the encoder's libraries, and the process itself, are there once"
    )


def test_words_are_counted_and_grow_less_than_lines(tmp_path: Path, tiny_encoder: Path) -> None:
    recipe, text = corpus(tmp_path, tiny_encoder), tmp_path / "words.txt"
    for lines, words in ((100, 101), (2000, 2001), (16_000, 2001 * 8**0.7)):
        text.write_text("".join(f"again {number}\n" for number in range(lines)))
        found = _measured(recipe, "fra_Latn", {"fra_Latn": {str(text): ""}})
        assert (found.lines, found.bytes, found.words) == (lines, text.stat().st_size, round(words))


def test_sentences_of_documents_are_sampled_until_they_are_counted(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    jonah = shipped_folder("examples") / "jonah"
    texts = {code: {"input": str(jonah / code), "split": {"document": "file"}} for code in ("fra", "eng")}
    recipe = corpus(tmp_path, tiny_encoder, languages=texts)
    before = estimate(recipe, Selection(), jobs=1)
    run_corpus(recipe, InThisProcess)
    after = estimate(recipe, Selection(), jobs=1)
    assert before.estimated == ["fra_Latn", "eng_Latn"] and after.estimated == []
    for code, lines in after.languages.items():
        kept = Path(recipe.run) / f"{code}/sentences/{code}.txt.zst"
        assert lines == sum(1 for _ in read_lines(kept))
        assert before.languages[code] == pytest.approx(lines, rel=0.1)
    assumed = estimate(recipe, Selection(), jobs=1, assumed={"fra_Latn": 10**6})
    assert assumed.estimated == ["eng_Latn"] and assumed.languages["fra_Latn"] == 10**6


@pytest.mark.slow
@pytest.mark.parametrize("documents", [False, True])
def test_the_memory_that_is_said_is_that_of_a_worker(documents: bool, tmp_path: Path) -> None:
    examples, languages, keys = shipped_folder("examples"), dict[str, object](), dict[str, object]()
    if documents:
        keys = {"align": {}, "filter": {}}
        for code in ("fra", "eng"):
            text = str(examples / "jonah" / code)
            languages[code] = {"input": text, "split": {"document": "file"}}
    else:
        for code in ("spa", "eng"):
            languages[code] = {"input": str(examples / "spa-eng" / f"{code}.txt")}
    recipe = {"kind": "corpus", "name": "memory", "run": "run", "root": ".", "languages": languages} | keys
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    command = [sys.executable, "-m", "mexma_cli", "-q", "run", "recipe.yaml"]
    said = json.loads(subprocess.check_output([*command, "--dry-run", "--json"], cwd=tmp_path))
    starter = (  # a process that a large one starts has, for the system, been as large from the beginning
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    used = 1024 * int(subprocess.check_output([sys.executable, "-c", starter, *command], cwd=tmp_path))
    assert 0.95 * used <= said["memory"] <= 1.4 * used


def test_a_calibration_of_sentences_is_that_of_the_documents_of_the_same_run(
    tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mexma_cli.stages.run.estimate._LINES", LINES)
    sentences = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]])
    texts = {code: text.but(split=CorpusSplitting()) for code, text in sentences.languages.items()}
    documents = sentences.but(languages=texts)
    with pytest.raises(MexmaError, match="`split` takes documents") as raised:
        estimate(documents, Selection(), jobs=1, calibrated=True)
    assert "a recipe of the same `run`" in (raised.value.hint or "")
    before = estimate(documents, Selection(), jobs=1).processor
    estimate(sentences, Selection(), jobs=1, calibrated=True)
    path = Path(sentences.run) / FILE
    kept = json.loads(path.read_text())
    kept["factors"]["mine"] = 1e6  # so that it shows
    path.write_text(json.dumps(kept))
    assert estimate(documents, Selection(), jobs=1).processor["mine"] > 100 * before["mine"]
