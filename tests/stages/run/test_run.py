from __future__ import annotations

import html
import json
import logging
import re
import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.classifier.precision import Errors, PairPrecision
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.files import PROGRESS
from mexma_cli.settings.corpus import CorpusRecipe, CorpusSplitting, LanguageText
from mexma_cli.settings.load import load_corpus
from mexma_cli.stages.mine.thresholds import read_thresholds, write_thresholds
from mexma_cli.stages.run import scheduler
from mexma_cli.stages.run.estimate import estimate
from mexma_cli.stages.run.page import translations
from mexma_cli.stages.run.plan import Selection, inputs_of, read_unit
from mexma_cli.stages.run.run import outputs, run_corpus, status_of
from mexma_cli.stages.run.scheduler import TRIES, Progress
from mexma_cli.stages.run.units import UNITS, RunFolder
from mexma_cli.stages.run.work import only_worker
from mexma_cli.text.lines import read_lines
from tests.command import fails, ok, run, write
from tests.corpora import LINES, InThisProcess, corpus

EXAMPLES = Path(__file__).parents[3] / "examples/spa-eng"
PAIRS = ("fra_Latn-deu_Latn", "fra_Latn-eng_Latn", "deu_Latn-eng_Latn")


def done(
    recipe: CorpusRecipe, chosen: Selection | None = None, **how: object
) -> tuple[Progress, InThisProcess]:
    """The recipe run to its end, and the executor that did it."""
    made: list[InThisProcess] = []

    def executor(folder: Path) -> InThisProcess:
        made.append(InThisProcess(folder, **how))  # type: ignore[arg-type]
        return made[0]

    return run_corpus(recipe, executor, chosen=chosen), made[0]


def files(recipe: CorpusRecipe) -> dict[str, bytes]:
    """All that a run made, but for what it knows of itself."""
    folder, itself = Path(recipe.run), ("units", "status.json", "recipe.yaml", "report.html")
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in itself
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> CorpusRecipe:
    """A recipe that was run in one go."""
    recipe = corpus(tmp_path_factory.mktemp("corpus"), tiny_encoder)
    done(recipe)
    return recipe


@pytest.fixture
def copy(finished: CorpusRecipe, tmp_path: Path, tiny_encoder: Path) -> CorpusRecipe:
    """The same, in a folder of its own."""
    shutil.copytree(finished.run, tmp_path / "run")
    return corpus(tmp_path, tiny_encoder)


def test_each_pair_is_what_mine_finds_in_the_whole_stores(finished: CorpusRecipe, tmp_path: Path) -> None:
    folder = Path(finished.run)
    for pair in PAIRS:
        source, target = (folder / code / f"{code}.emb" for code in pair.split("-"))
        ok(run("mine", source, target, "-o", tmp_path / "pairs.tsv"))
        found = (folder / "bitext" / pair / f"{pair}.tsv").read_bytes()
        assert found == (tmp_path / "pairs.tsv").read_bytes() != b""


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_same_bytes_in_any_order_of_units(
    finished: CorpusRecipe, tmp_path: Path, tiny_encoder: Path, seed: int
) -> None:
    recipe = corpus(tmp_path, tiny_encoder)
    done(recipe, seed=seed)
    assert files(recipe) == files(finished)


def test_results_are_named_in_the_order_of_the_recipe(finished: CorpusRecipe) -> None:
    """And not in that in which the texts happened to be read."""
    units = done(finished)[0].units.values()
    for some in (units, reversed(units)):
        assert [folder.name for folder in outputs(finished, some)] == list(PAIRS)


def test_the_same_pairs_in_other_units(finished: CorpusRecipe, tmp_path: Path, tiny_encoder: Path) -> None:
    recipe = corpus(tmp_path, tiny_encoder, units={"lines": 100, "tile": 9})
    done(recipe)
    pairs = [
        {name: held for name, held in files(one).items() if name.startswith("bitext/")}
        for one in (recipe, finished)
    ]
    assert pairs[0] == pairs[1] and len(pairs[0]) == len(PAIRS)


def test_what_is_no_unit_any_more_is_removed_as_it_was_made(copy: CorpusRecipe, tiny_encoder: Path) -> None:
    """And nothing else: files of the user, one that was changed, results, and other language pairs."""
    root, run = Path(copy.root), Path(copy.run)
    before, tiles = files(copy), "fra_Latn-eng_Latn/tiles"
    assert len([name for name in before if name.startswith(tiles)]) == 9
    mine = {f"{tiles}/00002-00001.npy": b"changed", f"{tiles}/notes.txt": b"mine"}
    for name, content in mine.items():
        (run / name).write_bytes(content)
    units, pairs = {"lines": 100, "tile": 100}, [["fra", "eng"], ["fra", "deu"]]
    done(corpus(root, tiny_encoder, units=units), chosen=Selection(pairs=(("fra_Latn", "eng_Latn"),)))
    assert f"{tiles}/00002-00002.npy" in files(copy), "a part of the pairs has a part of the units"
    done(corpus(root, tiny_encoder, units=units, pairs=pairs))
    fresh = corpus(root, tiny_encoder, units=units, pairs=pairs, run=str(root / "fresh"))
    done(fresh)
    left = {name: held for name, held in before.items() if "deu_Latn-eng_Latn" in name}
    found, wanted = files(copy), files(fresh) | left | mine
    assert found.keys() == wanted.keys()
    assert {name: found[name] for name in mine} == mine


@pytest.mark.parametrize("progress", [True, False])
def test_what_a_killed_worker_began_is_removed_once_it_is_no_unit(
    copy: CorpusRecipe, tiny_encoder: Path, progress: bool
) -> None:
    folder, root = RunFolder(Path(copy.run)), Path(copy.root)
    tile = read_unit(folder.todo("fra_Latn-eng_Latn/tile/00002-00002"))
    begun = tile.model_copy(update={"name": f"{tile.name}7", "output": f"{tile.output}7/begun.npy"})
    folder.announce(begun)
    place, kept = folder.path / f"{begun.output}.unit.partial", root / "kept"
    with folder.workplace_of(begun, "key") as made:
        made.write_bytes(b"half")
        (place / PROGRESS).write_bytes(b"") if progress else None
        shutil.copytree(place, kept)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(kept, place)
    done(corpus(root, tiny_encoder))
    assert not place.parent.exists() and not folder.todo(begun.name).exists()
    assert folder.todo(tile.name).is_file()


def test_nothing_is_read_to_find_no_other_units(copy: CorpusRecipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be millions."""
    folder = RunFolder(Path(copy.run))
    names = {
        one.relative_to(folder.path / UNITS).as_posix() for one in (folder.path / UNITS).rglob("*.todo.json")
    }
    monkeypatch.setattr(RunFolder, "_read", None)
    folder.remove_others({name.removesuffix(".todo.json") for name in names}, read_unit)


def test_only_what_is_not_up_to_date_is_done(copy: CorpusRecipe, tiny_encoder: Path) -> None:
    root = Path(copy.root)
    assert done(copy)[1].did == []  # the texts are the same, though elsewhere
    changed = corpus(root, tiny_encoder, mine={"threshold": 1.01})
    assert sorted(done(changed)[1].did) == sorted(f"{pair}/pairs" for pair in PAIRS)
    text = root / "deu.txt"
    text.write_text(text.read_text().replace(" 3deu", " 3 deu"))
    did = Counter("/".join(name.split("/")[:2]) for name in done(changed)[1].did)
    assert did["deu_Latn/embed"] == 1  # of four pieces
    assert did["fra_Latn-deu_Latn/tile"] == did["deu_Latn-eng_Latn/tile"] == 9
    assert not [name for name in did if name.startswith(("fra_Latn/", "fra_Latn-eng_Latn/", "eng_Latn/"))]
    fresh = corpus(root, tiny_encoder, mine={"threshold": 1.01}, run=str(root / "fresh"))
    text.write_text(text.read_text().replace(" 3deu", " 3 deu"))
    done(fresh)
    assert files(fresh)["bitext/fra_Latn-eng_Latn/fra_Latn-eng_Latn.tsv"]


def test_other_weights_in_the_encoders_folder_make_other_vectors(tmp_path: Path, tiny_encoder: Path) -> None:
    """Of a folder with mexma's checksums and of one without; and while the run goes on."""
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, encoder)
    recipe = corpus(tmp_path, encoder, pairs=[["fra", "eng"]])
    for saved in (False, True):
        loaded = SentenceEncoder.load(encoder)
        loaded.transformer.model.embeddings.word_embeddings.weight.data *= 1.5
        if saved:
            loaded.save(encoder)
        else:
            loaded.transformer.model.save_pretrained(encoder)
        did = done(recipe)[1].did
        assert "eng_Latn/embed/00000" in did and done(recipe)[1].did == []
    found = files(recipe)
    fresh = corpus(tmp_path, encoder, pairs=[["fra", "eng"]], run=str(tmp_path / "fresh"))
    done(fresh)
    assert files(fresh) == found


def test_a_worker_that_dies_is_replaced_and_a_unit_that_kills_them_is_given_up(
    finished: CorpusRecipe, tmp_path: Path, tiny_encoder: Path
) -> None:
    deaths: Counter[str] = Counter()

    def dying(limit: int) -> dict[str, object]:
        def before(todo: Path) -> None:
            if "00001" in todo.name and deaths[todo.name] < limit:
                deaths[todo.name] += 1
                raise ConnectionError("SIGKILL")

        return {"before": before}

    recipe = corpus(tmp_path, tiny_encoder)
    with pytest.raises(
        MexmaError,
        match=r"^3 units failed, which leaves 3 of 3 language pairs without .*/embed/00001, ",
    ):
        done(recipe, **dying(100))
    assert set(deaths.values()) == {3 * TRIES}  # a piece of each language has this name
    status = status_of(recipe)
    assert status["stages"]["embed"] == {"done": 9, "failed": 3, "blocked": 3, "all": 15}
    assert status["state"] == "finished" and set(status["failed"].values()) == {"its worker died (SIGKILL)"}
    deaths.clear()
    done(recipe, **dying(2))
    assert files(recipe) == files(finished)


def test_what_fails_in_one_language_does_not_stop_the_others(tmp_path: Path, tiny_encoder: Path) -> None:
    recipe = corpus(tmp_path, tiny_encoder)
    good = (tmp_path / "deu.txt").read_bytes()
    (tmp_path / "deu.txt").write_bytes(good + "caf\xe9\n".encode("latin-1"))
    with pytest.raises(MexmaError, match=r"(?m)^1 unit failed, which leaves 2 of 3 .*: deu_Latn/text$"):
        done(recipe)
    assert status_of(recipe)["pairs"] == {"all": 3, "done": 1}
    assert "deu.txt, line 25, byte 4: not UTF-8" in status_of(recipe)["failed"]["deu_Latn/text"]
    good_pair = Selection(pairs=(("fra_Latn", "eng_Latn"),))
    assert status_of(recipe, good_pair)["failed"] == {}
    for unknown in (Selection("nosuch"), Selection(pairs=(("fra_Latn", "ita_Latn"),))):
        with pytest.raises(MexmaError, match=r"nosuch.* in this recipe|ita_Latn is no pair of this recipe"):
            status_of(recipe, unknown)
    assert [pair for pair in PAIRS if (tmp_path / "run/bitext" / pair).exists()] == ["fra_Latn-eng_Latn"]
    (tmp_path / "deu.txt").write_bytes(good)
    assert not [name for name in done(recipe)[1].did if name.startswith("fra_Latn-eng_Latn")]


def test_the_status_says_what_works_on_the_run_and_what_changed_since(
    tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_SECONDS", 0.0)
    recipe = corpus(tmp_path, tiny_encoder)
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())

    def said() -> str:
        return ok(run("run", tmp_path / "recipe.yaml", "--status")).stdout

    def kill(todo: Path) -> None:
        if "00002-00002.todo.json" in todo.parts:
            assert said().endswith("the run goes on\n") and status_of(recipe)["state"] == "running"
            with only_worker(todo):
                tiles = status_of(recipe)["stages"]["knn"]
                assert tiles["running"] == 1 and tiles["waiting"] > 0
                assert f"1 running, {tiles['waiting']} waiting" in said() and said().count("running:") == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        done(recipe, before=kill)
    assert status_of(recipe)["state"] == "stopped" and "running" not in said()
    assert "the run was stopped" in said()
    fails(run("info", recipe.run), 1, "is the folder of a corpus run", "--status")
    done(recipe)
    assert said().endswith("the run has ended\n") and "again" not in said()
    (tmp_path / "deu.txt").write_text("Another text.\n" * 9)
    told = said()
    assert "read: 3 units: 2 done, 1 to do again\nembed: 15 units: 10 done, 5 perhaps\n" in told
    assert "mine: 3 units: 1 done, 2 perhaps\nlanguage pairs: 1 of 3 done\nsince then inputs or" in told
    assert "`mexma run` does 1 unit again, and at most 38 more\n" in told
    (tmp_path / "deu.txt").unlink()
    told = ok(run("run", tmp_path / "recipe.yaml", "--status"))
    assert "mine: 3 units: 3 done\n" in told.stdout and "deu.txt: no such file" in told.stderr


def test_the_status_after_a_run_of_some_pairs_counts_all_of_the_recipe(copy: CorpusRecipe) -> None:
    def stages(recipe: CorpusRecipe) -> dict[str, dict[str, int]]:
        return status_of(recipe)["stages"]

    whole, jsonl, csv = (copy.but(output=copy.output.but(format=(name,))) for name in ("tsv", "jsonl", "csv"))
    everything = {
        "read": {"all": 3, "done": 3},
        "embed": {"all": 15, "done": 15},
        "knn": {"all": 48, "done": 48},
        "mine": {"all": 3, "done": 3},
    }
    assert stages(whole) == everything
    done(jsonl)
    one = Selection(pairs=(("fra_Latn", "deu_Latn"),))
    done(csv, one)
    assert stages(csv) == everything | {"mine": {"all": 3, "done": 1, "again": 2}}
    assert stages(jsonl) == everything | {"mine": {"all": 3, "done": 2, "again": 1}}
    assert stages(whole) == everything | {"mine": {"all": 3, "again": 3}}
    assert status_of(whole)["pairs"] == {"all": 3, "done": 0}
    assert len(done(whole)[1].did) == 3
    done(whole, Selection("embed"))  # writes a status that has the first stages alone
    assert stages(whole) == everything
    done(csv, one)
    fewer = whole.but(pairs=one.pairs)
    assert stages(fewer)["mine"] == {"all": 1, "again": 1} and stages(fewer)["read"] == {"all": 2, "done": 2}
    chosen = status_of(whole, Selection("embed", pairs=one.pairs))
    assert chosen["stages"] == {"read": {"all": 2, "done": 2}, "embed": {"all": 10, "done": 10}}
    assert list(estimate(fewer, Selection(), jobs=1).languages) == [*one.pairs[0]]


def test_some_of_it(copy: CorpusRecipe, tmp_path: Path, tiny_encoder: Path) -> None:
    """One pair, up to a stage, from a stage on; and what a dry run says of it."""
    recipe = corpus(tmp_path, tiny_encoder, run=str(tmp_path / "some"))
    everything = estimate(recipe, Selection(), jobs=1).units
    assert {stage: count["all"] for stage, count in everything.items()} == {
        "read": 3, "embed": 15, "knn": 48, "mine": 3,
    }  # fmt: skip
    one = Selection("embed", pairs=(("eng_Latn", "fra_Latn"),))  # the recipe has it the other way round
    did = done(recipe, one)[1].did
    assert {name.split("/")[0] for name in did} == {"fra_Latn", "eng_Latn"} and len(did) == 2 + 8 + 2
    left = estimate(recipe, Selection(), jobs=1)
    assert {stage: count["up to date"] for stage, count in left.units.items()} == {
        "read": 2, "embed": 10, "knn": 0, "mine": 0,
    }  # fmt: skip
    assert left.languages == dict.fromkeys(recipe.languages, LINES)
    with pytest.raises(MexmaError, match="takes deu_Latn/text as it is, and no run has made it"):
        done(recipe, Selection(start="mine"))
    assert done(copy, Selection(start="mine"))[1].did == []
    for wrong, message in (
        ({"only": "dig"}, "no stage 'dig'"),
        ({"only": "split"}, "no stage 'split' in this recipe"),
        ({"start": "align"}, "no stage 'align' in this recipe"),
        ({"start": "mine", "only": "embed"}, "nothing is left to do: mine comes after embed"),
        ({"pairs": (("a", "b"),)}, "a-b is no pair"),
    ):
        with pytest.raises(MexmaError, match=message):
            done(recipe, Selection(**wrong))  # type: ignore[arg-type]


def test_the_folder_of_another_run_is_told_of(copy: CorpusRecipe, caplog: pytest.LogCaptureFixture) -> None:
    done(copy)
    assert "is of the run" not in caplog.text
    done(copy.but(name="other"))
    assert f"is of the run {copy.name}, whose results are replaced; another `run` keeps both" in caplog.text


def test_a_run_goes_on_that_was_killed_before_it_wrote_its_recipe(copy: CorpusRecipe) -> None:
    (Path(copy.run) / "recipe.yaml").unlink()
    assert done(copy)[1].did == [] and load_corpus(Path(copy.run) / "recipe.yaml") == copy


def test_the_page_of_one_pair_keeps_the_others(copy: CorpusRecipe) -> None:
    page = Path(copy.run) / "report.html"
    before = html.unescape(page.read_text())
    done(copy, Selection(pairs=(("fra_Latn", "eng_Latn"),)))
    after = html.unescape(page.read_text())
    assert "fra_Latn-eng_Latn; all else is as earlier runs left it" in after
    count = re.compile(r"[\d,]+; 3 of 3 language pairs done")
    assert count.findall(after) == count.findall(before) != []


def test_the_page_of_a_first_stage_keeps_the_pairs(
    copy: CorpusRecipe, caplog: pytest.LogCaptureFixture
) -> None:
    page = Path(copy.run) / "report.html"
    before = re.findall("<td>([0-9,]+; 3 of 3 language pairs done)", page.read_text())
    with caplog.at_level(logging.INFO):
        done(copy, Selection(only="read"))
    assert "sentence pairs of" not in caplog.text
    text = page.read_text()
    assert before and before == re.findall("<td>([0-9,]+; 3 of 3 language pairs done)", text)
    assert "the pairs are as earlier runs left them" in text


def test_the_page_says_what_came_out_and_what_was_left_out(finished: CorpusRecipe) -> None:
    page = html.unescape((Path(finished.run) / "report.html").read_text())
    lines = (Path(finished.run) / "bitext/fra_Latn-eng_Latn/fra_Latn-eng_Latn.tsv").read_text().splitlines()
    best = lines[0].split("\t")[1]
    assert f"<td>{best}</td>" in page and re.search(rf"<td class=n[^>]*>{len(lines)}</td>", page)
    assert finished.run not in page
    assert page.index("<h2>Result</h2>") < page.index("<h2>Pairs</h2>") < page.index("<h2>Units</h2>")
    for name in (path.relative_to(finished.run) for path in Path(finished.run, "bitext").rglob("*.tsv")):
        assert f'<a href="{name}">' in page
    assert re.search(r"<th>time</th><td>[\d,]+ s in this run; [\d,]+ s of a core in all runs</td>", page)
    mined = Path(finished.run).glob("bitext/*/*.tsv")
    total = sum(len(path.read_text().splitlines()) for path in mined)
    assert re.search(rf"<td[^>]*>all</td><td[^>]*></td><td[^>]*>\d+</td><td[^>]*>{total}</td>", page)


def test_a_damaged_output_is_named(copy: CorpusRecipe) -> None:
    tile = Path(copy.run) / "fra_Latn-eng_Latn/tiles/00000-00001.npy"
    keys = np.load(tile)
    keys[0] += 1
    np.save(tile, keys)
    merged = "fra_Latn-eng_Latn/neighbours/backward-00001"
    (Path(copy.run) / f"{merged}.npy").unlink()
    with pytest.raises(MexmaError, match=rf"(?m)^1 unit failed.*: {merged}$"):
        done(copy)
    assert "00000-00001.npy is damaged: its checksum" in status_of(copy)["failed"][merged]
    tile.unlink()
    done(copy)
    assert (Path(copy.run) / "bitext/fra_Latn-eng_Latn/fra_Latn-eng_Latn.tsv").is_file()


FLIPPED = "bitext/fra_Latn-eng_Latn/fra_Latn-eng_Latn.tsv"


def test_a_changed_byte_in_pairs_is_found_by_the_same_command(copy: CorpusRecipe) -> None:
    pairs = Path(copy.run) / FLIPPED
    good = pairs.read_bytes()
    pairs.write_bytes(good.replace(b"e", b"f", 1))
    to = copy.output.model_copy(update={"to": f"file://{copy.root}/sent"})
    with pytest.raises(MexmaError, match=r"(?m)^1 unit failed, .*: fra_Latn-eng_Latn/pairs$"):
        done(copy.model_copy(update={"output": to}))
    assert "eng_Latn.tsv is damaged: its checksum" in status_of(copy)["failed"]["fra_Latn-eng_Latn/pairs"]
    assert pairs.read_bytes() != good and not Path(copy.root, "sent").exists()
    pairs.unlink()
    assert done(copy)[1].did == ["fra_Latn-eng_Latn/pairs"]
    assert pairs.read_bytes() == good


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


NOTES = (
    "notes.txt",
    "bitext/notes.txt",
    "bitext/fra_Latn-eng_Latn/notes.txt",
    "eng_Latn/eng_Latn.emb/notes.txt",
)


def test_notes_in_a_finished_run_stay(copy: CorpusRecipe, tiny_encoder: Path) -> None:
    run, root = Path(copy.run), Path(copy.root)
    for name in NOTES:
        (run / name).write_text("my notes\n")
    done(copy)  # nothing is done, and nothing is in the way
    before = everything(run)
    assert set(NOTES) <= before.keys()
    changed = corpus(root, tiny_encoder, mine={"threshold": 1.01})
    with pytest.raises(
        MexmaError, match=r"/fra_Latn-eng_Latn/notes\.txt is not of this run, and would be lost"
    ):
        done(changed)
    assert everything(run) == before
    (run / NOTES[2]).unlink()
    assert len(done(changed)[1].did) == len(PAIRS)  # the store stays, and what is in it
    assert [(run / name).read_text() for name in NOTES if name != NOTES[2]] == ["my notes\n"] * 3
    (root / "eng.txt").write_text("Another text.\n")
    before = everything(run)
    with pytest.raises(MexmaError, match=r"eng_Latn\.emb/notes\.txt is not of this run, and would be lost"):
        done(changed)
    assert everything(run) == before


@pytest.mark.parametrize(
    "name",
    [
        *("recipe.yaml", "report.html", "status.json", "thresholds.json", "units/fra_Latn/text.json"),
        *("units/km.txt", "logs/worker-00.log", "fra_Latn/text/novel.txt", "fra_Latn/fra_Latn.emb/a.txt"),
        *("eng_Latn/embedded/00000.emb/a.txt", "fra_Latn-eng_Latn/tiles/00000-00000.npy", "eng_Latn/rows"),
        *("bitext/fra_Latn-eng_Latn/gold.tsv", "slurm/batch-00000.sh"),
    ],
)
def test_a_run_in_a_folder_of_the_users_touches_nothing_there(
    tmp_path: Path, tiny_encoder: Path, name: str
) -> None:
    recipe = corpus(tmp_path, tiny_encoder, run=str(tmp_path), pairs=[["fra", "eng"]])
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("kind: corpus\nname: mine\n")
    before = everything(tmp_path)
    with pytest.raises(MexmaError, match=f"/{name} is not of this run, and would be lost"):
        done(recipe)
    assert everything(tmp_path) == before


def test_a_run_goes_beside_what_is_not_in_its_way(tmp_path: Path, tiny_encoder: Path) -> None:
    """Its recipe in the same folder, too, which stays as the user has written it."""
    recipe = corpus(tmp_path, tiny_encoder, run=str(tmp_path), pairs=[["fra", "eng"]])
    for name in ("fra_Latn/notes.txt", "bitext/notes.txt", "logs/mine.log", "inputs/mine.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("my notes\n")
    raw = recipe.model_dump(mode="json", exclude_defaults=True, exclude={"units"})
    raw["units"] = {"lines": 12, "tile": 24}
    (tmp_path / "recipe.yaml").write_text(f"# mine\n{json.dumps(raw)}")
    before = everything(tmp_path)
    recipe = load_corpus(tmp_path / "recipe.yaml")
    for _ in range(2):
        done(recipe)
        now = everything(tmp_path)
        assert before == {name: now[name] for name in before}
    other = recipe.model_copy(update={"name": "other"})
    with pytest.raises(MexmaError, match=r"/recipe\.yaml is not of this run, and would be lost"):
        done(other)
    assert everything(tmp_path)["recipe.yaml"] == before["recipe.yaml"]


def test_pairs_and_filtered_pairs_take_one_anothers_place(copy: CorpusRecipe, tiny_encoder: Path) -> None:
    before = files(copy)
    plain = corpus(Path(copy.root), tiny_encoder)
    kept = corpus(Path(copy.root), tiny_encoder, filter={"on": ["long=40"], "off": ["all"]})
    done(kept)
    filtered = files(kept)
    assert filtered[FLIPPED] != before[FLIPPED]
    for recipe, wanted in ((plain, before), (kept, filtered)) * 2:
        done(recipe)
        assert files(recipe) == wanted


def test_lines_are_those_of_all_files_in_order(tmp_path: Path, tiny_encoder: Path) -> None:
    recipe = corpus(tmp_path, tiny_encoder, languages={
        "fra": {"input": ["eng.txt", "fr*.txt"]}, "eng": {"input": "eng.txt"},
    })  # fmt: skip
    progress, _ = done(recipe)
    record = progress.units["fra_Latn/text"]
    assert [Path(path).name for path in record.files] == ["eng.txt", "fra.txt"]
    assert sum(1 for name in progress.units if "fra_Latn/embed" in name) == -(-2 * LINES // 7)


def test_texts_are_read_again_in_a_stated_encoding(
    tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers have it from their units, wherever they are."""
    recipe = corpus(
        tmp_path, tiny_encoder, pairs=[["fra", "eng"]],
        languages={"fra": {"input": "fr*.txt", "split": {"document": "file"}}, "eng": {"input": "eng.txt"}},
    )  # fmt: skip
    (tmp_path / "frb.txt").write_bytes("Il est venu d’Orléans, où il pleut.\n".encode("cp1252"))
    read, sentences = Selection(only="read"), tmp_path / "run/fra_Latn/sentences/fra_Latn.txt.zst"
    done(recipe, read)
    assert not any("Orléans" in line for line in read_lines(sentences))
    for name, again in (("latin1", 3), ("cp1252", 0), ("UTF-8", 3)):
        monkeypatch.setenv("MEXMA_ENCODING", name)
        elsewhere = {"before": lambda todo: monkeypatch.delenv("MEXMA_ENCODING", raising=False)}
        assert len(done(recipe, read, **elsewhere)[1].did) == again, name
        assert ("Il est venu d’Orléans, où il pleut." in read_lines(sentences)) == bool(name != "UTF-8")


def test_a_language_of_which_no_sentence_is_left(tmp_path: Path, tiny_encoder: Path) -> None:
    """Its pairs fail, and say which rules dropped the sentences; the others are mined."""
    recipe = corpus(tmp_path, tiny_encoder)
    recipe = recipe.but(
        languages=recipe.languages | {"deu_Latn": LanguageText(input=("eng.txt",), split=CorpusSplitting())}
    )
    with pytest.raises(MexmaError, match=r"1 unit failed, which leaves 2 of 3 .*: deu_Latn/text"):
        done(recipe)
    why = status_of(recipe)["failed"]["deu_Latn/text"]
    assert f"deu_Latn: no sentence is left of {LINES} documents and " in why and " dropped by " in why


def test_files_and_records_that_are_passed_over_are_told_of(
    tmp_path: Path, tiny_encoder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]])
    pages = tmp_path / "pages"
    pages.mkdir()
    shutil.move(tmp_path / "eng.txt", pages / "eng.txt")
    (pages / "logo.png").write_bytes(b"\x89PNG")
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<p>Not here.</p>"
    head = f"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: {len(answer)}\r\n\r\n".encode()
    (pages / "crawl.warc").write_bytes(head + answer + b"\r\n\r\n")
    texts = {"eng_Latn": LanguageText(input=("pages",), split=CorpusSplitting())}
    caplog.set_level(logging.INFO)
    done(recipe.but(languages=recipe.languages | texts))
    assert "`languages.eng_Latn.input`: passed over: 1 named .png, and no text" in caplog.messages
    note = "eng_Latn: passed over: 1 responses with HTTP status 404"
    assert any(note in message for message in caplog.messages)
    assert note in html.unescape((tmp_path / "run" / "report.html").read_text("utf-8"))


def test_a_language_in_no_pair_is_told_of(
    tmp_path: Path, tiny_encoder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]])
    for call in (partial(done, recipe), partial(estimate, recipe, Selection(), 1)):
        caplog.clear()
        call()
        assert "`languages`: in no pair, and not read: deu_Latn" in caplog.messages


def test_mistakes_are_named_before_anything_is_done(tmp_path: Path, tiny_encoder: Path) -> None:
    for keys, message in (
        ({"output": {"format": "xls"}}, "`output.format`: 'xls' is none of"),
        ({"output": {"format": ["tsv", "tsv"]}}, "names no format, or one twice"),
        ({"output": {"compression": "zip"}}, "`output.compression`: 'zip'"),
        (
            {"languages": {"fra": {"input": "f.txt"}, "eng": {"input": "eng.txt"}}},
            r"(?m)f\.txt: no such file$",
        ),
        ({"filter": {"lid_model": "none.bin"}}, r"`filter.lid_model`: .*/none.bin: no such file"),
    ):
        wrong = corpus(tmp_path, tiny_encoder, **keys)
        for call in (partial(done, wrong), partial(estimate, wrong, Selection(), 1)):
            with pytest.raises(MexmaError, match=message) as raised:
                call()
            assert "stdin" not in (raised.value.hint or "")
    assert not (tmp_path / "run").exists()


def test_what_is_in_the_way_of_results_is_named_before_anything_is_done(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    recipe = corpus(tmp_path, tiny_encoder, output={"to": (tmp_path / "there").as_uri()})
    theirs = write(tmp_path / "there/bitext/fra_Latn-eng_Latn/fra_Latn-eng_Latn.tsv", "mine")
    below = recipe.but(output=recipe.output.but(to=(theirs / "below").as_uri()))
    unwritable = f"{theirs}/below: the folder cannot be made: Not a directory"
    run_below = recipe.but(output=recipe.output.but(to=None), run=f"{theirs}/run")
    for wrong, message in (
        (recipe, f"{theirs.name} is "),
        (below, unwritable),
        (run_below, f"{theirs}/run: the folder cannot be made: Not a directory"),
    ):
        for call in (partial(done, wrong), partial(estimate, wrong, Selection(), 1)):
            with pytest.raises(MexmaError, match=message):
                call()
    assert not (tmp_path / "run").exists() and theirs.read_text() == "mine\n"


def test_a_store_and_lines_of_json_are_no_text(tmp_path: Path, tiny_encoder: Path) -> None:
    recipe = corpus(tmp_path, tiny_encoder)
    (tmp_path / "fra.txt").write_text('{"text": "Bonjour."}\n{"text": "Bonsoir."}\n', encoding="utf-8")
    for call in (done, lambda recipe: estimate(recipe, Selection(), 1)):
        with pytest.raises(MexmaError) as caught:
            call(recipe)
        said = f"`languages.fra_Latn.input`: {tmp_path}/fra.txt is JSONL, not a text with one sentence a line"
        assert caught.value.message == said
        assert str(caught.value.hint).startswith("`languages.fra_Latn.split: {}` makes one of it; ")
    ok(
        run(
            "embed",
            tmp_path / "eng.txt",
            "--lang",
            "eng",
            "--model",
            tiny_encoder,
            "-o",
            tmp_path / "eng.emb",
        )
    )
    texts = {"fra": {"input": "eng.emb"}, "deu": {"input": "deu.txt"}}
    with pytest.raises(MexmaError, match=r"`languages\.fra_Latn\.input`: .*eng\.emb is an embedding store"):
        done(corpus(tmp_path, tiny_encoder, languages=texts))


def test_another_language_than_stated_is_told_of(
    tmp_path: Path, tiny_encoder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = corpus(tmp_path, tiny_encoder)  # its German is English
    done(recipe)
    other = f"{tmp_path}/deu.txt: 100 % of the lines look English, and German is stated"
    assert caplog.messages.count(other) == 1 and "fra.txt" not in caplog.text
    assert (tmp_path / "run/report.html").read_text().count(html.escape(other)) == 1


def test_settings_that_drop_most_or_do_nothing_are_told_of(
    tmp_path: Path, tiny_encoder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = {code: {"input": f"{code}.txt", "split": {"off": ["all"]}} for code in ("fra", "eng")}
    how = {"off": ["all"], "on": ["short=1000"]}
    done(corpus(tmp_path, tiny_encoder, languages=texts, align={}, mine={"k": 8}, filter=how))
    assert any(said.startswith("`mine` has no effect: with `align`") for said in caplog.messages)
    dropped = r"fra_Latn-eng_Latn: `filter` dropped (\d+) of \1 pairs, \1 of them by the rule `short`"
    assert re.search(dropped, caplog.text)


_OTHERS = "; `mine.threshold: 0.5` or `mine.precision: 0.95` in the recipe drops most of the others"


@pytest.mark.parametrize(
    ("mine", "rules", "told"),
    [
        ({}, None, True),
        ({}, {"off": ["all"], "on": ["long=60"]}, True),
        ({"threshold": 0.5}, None, False),
    ],
)
def test_it_is_said_how_many_of_the_pairs_are_translations(
    mine: dict[str, object],
    rules: dict[str, object] | None,
    told: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of those that come out, after the rules of `filter`, as `mexma mine` says it."""
    recipe = CorpusRecipe.model_validate({
        "kind": "corpus", "name": "test", "run": str(tmp_path / "run"), "root": str(EXAMPLES),
        "languages": {c: {"input": f"{c}.txt"} for c in ("spa", "eng")}, "mine": mine, "filter": rules,
    })  # fmt: skip
    with caplog.at_level(logging.INFO):
        done(recipe)
    (file,) = (tmp_path / "run/bitext").glob("*/*.tsv")
    scores = np.array([line.split("\t")[0] for line in read_lines(file)], np.float32)
    low, high = PairPrecision(scores, scores, errors_in(tmp_path / "run")).translations_interval
    said = f"about {scores.sum():,.0f} ({low:,.0f} to {high:,.0f}) are translations{_OTHERS * told}"
    assert said in caplog.messages and low < scores.sum() < high < len(scores)
    assert f"<td>{html.escape(said)}</td>" in (tmp_path / "run/report.html").read_text()
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    beforehand = ok(run("run", tmp_path / "recipe.yaml", "--dry-run")).stderr
    assert ("neither `mine.threshold` nor `mine.precision` is set" in beforehand) == told


def errors_in(run: Path) -> Errors:
    """Those of the probabilities of the only language pair."""
    (record,) = (run / "units").glob("*/pairs.json")
    return Errors(*json.loads(record.read_text())["facts"]["errors"])


@pytest.mark.parametrize("rules", [None, {"off": ["all"], "on": ["long=60"]}])
def test_translations_above_a_threshold_that_is_found_have_the_interval_of_its_precision(
    rules: dict[str, object] | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With rules, fewer pairs have the same error."""
    recipe = CorpusRecipe.model_validate({
        "kind": "corpus", "name": "test", "run": str(tmp_path / "run"), "root": str(EXAMPLES),
        "languages": {c: {"input": f"{c}.txt"} for c in ("spa", "eng")},
        "mine": {"precision": 0.9}, "filter": rules,
    })  # fmt: skip
    with caplog.at_level(logging.INFO):
        done(recipe)
    ((stored),) = json.loads((tmp_path / "run/thresholds.json").read_text())
    (file,) = (tmp_path / "run/bitext").glob("*/*.tsv")
    scores = np.array([line.split("\t")[0] for line in read_lines(file)], np.float32)
    low, high = (share * len(scores) for share in stored["precision_interval"])
    if rules is not None:
        low, high = PairPrecision(scores, scores, errors_in(tmp_path / "run")).translations_interval
    assert f"about {scores.sum():,.0f} ({low:,.0f} to {high:,.0f}) are translations" in caplog.messages


@pytest.mark.parametrize("rules", [None, {"off": ["all"], "on": ["long=60"]}])
def test_translations_of_texts_of_different_size_have_a_wide_interval_and_a_note(
    rules: dict[str, object] | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few = dict.fromkeys(read_lines(EXAMPLES / "spa.txt"))
    (tmp_path / "spa.txt").write_text("".join(f"{line}\n" for line in list(few)[:300]), "utf-8")
    shutil.copyfile(EXAMPLES / "eng.txt", tmp_path / "eng.txt")
    recipe = CorpusRecipe.model_validate({
        "kind": "corpus", "name": "test", "run": str(tmp_path / "run"), "root": str(tmp_path),
        "languages": {c: {"input": f"{c}.txt"} for c in ("spa", "eng")}, "filter": rules,
    })  # fmt: skip
    with caplog.at_level(logging.INFO):
        done(recipe)
    (file,) = (tmp_path / "run/bitext").glob("*/*.tsv")
    scores = np.array([line.split("\t")[0] for line in read_lines(file)], np.float32)
    larger = len(set(read_lines(EXAMPLES / "eng.txt"))) / 300
    low, high = PairPrecision(scores, scores, errors_in(tmp_path / "run")).translations_interval
    assert low < PairPrecision(scores, scores).translations_interval[0] - 5
    assert (
        f"about {scores.sum():,.0f} ({low:,.0f} to {high:,.0f}) are translations{_OTHERS}" in caplog.messages
    )
    note = f"spa_Latn-eng_Latn: the target has {larger:.0f} times as many lines as the source"
    assert note in (tmp_path / "run/report.html").read_text("utf-8")


def test_translations_of_all_language_pairs_are_added_up(finished: CorpusRecipe) -> None:
    facts = [
        {"translations": [10.2, 5, 15, 2, 90, 80]},
        {"translations": None},
        {},
        {"translations": [2000, 1000, 2990, 0, 400, 390]},
    ]
    assert (
        translations(finished, facts)
        == f"about 2,010 (1,005 to 3,005) are translations, besides 2 copies{_OTHERS}"
    )
    sure = [{"translations": [30, 10, 31, 1, 1, 1]}]
    assert translations(finished, sure) == "about 30 (10 to 31) are translations, besides 1 copy"
    assert not translations(finished, facts[1:3])


@pytest.mark.parametrize("mode", [{"mine": {"threshold": 9.0}}, {"align": {"threshold": 0.9999}}])
def test_a_language_pair_without_pairs_is_done_with_rules_too(
    tmp_path: Path, tiny_encoder: Path, mode: dict[str, object]
) -> None:
    texts: dict[str, object] = {
        code: {"input": f"{code}.txt", "split": {"off": ["all"]}} for code in ("fra", "deu")
    }
    how = {"rejects": True, "off": ["all"], "on": ["long=5000"]}
    output = {"format": ["tsv", "moses"]}
    recipe = corpus(tmp_path, tiny_encoder, languages=texts, filter=how, output=output, **mode)
    done(recipe)
    (folder,) = (tmp_path / "run/bitext").iterdir()
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(files) == 4 and set(files.values()) == {b""}
    page = (tmp_path / "run/report.html").read_text("utf-8")
    assert ("candidates by score, before the rules of filter, all below the threshold" in page) == (
        "mine" in mode
    )
    assert "pairs by score" not in page and "some of the pairs" not in page


def test_thresholds_are_found_for_each_pair_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = CorpusRecipe.model_validate({
        "kind": "corpus", "name": "test", "run": str(tmp_path / "run"), "root": str(EXAMPLES),
        "languages": {c: {"input": f"{c}.txt"} for c in ("spa", "eng")},
        "mine": {"threshold": "auto"}, "pairs": "eng",
    })  # fmt: skip
    monkeypatch.setattr("mexma_cli.stages.run.pairs._VAGUE", 0.0)
    done(recipe)
    assert "spa_Latn-eng_Latn: of the pairs above the threshold" in caplog.text
    folder = tmp_path / "run"
    (found,) = read_thresholds(folder / "thresholds.json")
    assert (found.source, found.target, found.score) == ("spa_Latn", "eng_Latn", "probability")
    true = {tuple(line.split("\t")) for line in (EXAMPLES / "gold.tsv").read_text().splitlines()}
    rows = [line.split("\t") for line in next((folder / "bitext/spa_Latn-eng_Latn").iterdir()).open()]
    assert all(float(row[0]) > found.threshold for row in rows)
    right = sum((row[1], row[2].rstrip("\n")) in true for row in rows) / len(rows)
    assert found.precision_interval[0] <= right <= found.precision_interval[1]
    page = (folder / "report.html").read_text()
    assert f">{found.threshold:.4f}</td>" in page
    above, below = page.split("just below the threshold, so not among the pairs")
    scores = [[float(one) for one in re.findall(r"<td class=n>(\d\.\d{4})", part)] for part in (above, below)]
    assert min(scores[0]) > found.threshold >= max(scores[1])
    assert "spa_Latn-eng_Latn: of the pairs above the threshold" in page
    others = [found.model_copy(update={"source": code}) for code in ("fra_Latn", "deu_Latn")]
    write_thresholds(folder / "thresholds.json", [found, *others])
    texts = recipe.languages | {"fra_Latn": recipe.languages["spa_Latn"]}
    surer = recipe.model_copy(
        update={"mine": recipe.mine.but(precision=0.95, score="margin"), "languages": texts}
    )
    only = Selection(pairs=(("spa_Latn", "eng_Latn"),))
    assert done(surer, only)[1].did == ["spa_Latn-eng_Latn/pairs"]
    again, left = read_thresholds(folder / "thresholds.json")
    assert left == others[0], "of a pair that this run left out; deu is no language of the recipe"
    assert again.precision >= 0.95 and again.score == "margin" and again.threshold > 1
    done(recipe.model_copy(update={"mine": recipe.mine.but(threshold=0.5)}))
    assert not (folder / "thresholds.json").exists()


def test_a_language_that_the_encoder_does_not_know_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = {"fra": {"input": "fra.txt"}, "zul": {"input": "eng.txt", "split": {"off": ["all"]}}}
    recipe = corpus(tmp_path, Path("mini"), languages=texts)
    done(recipe)
    said = [r.message for r in caplog.records if r.name == scheduler.__name__]
    assert len(said) == 1 and "mini reads Zulu (zul_Latn) with an xsim error of 51.4%" in said[0]
    page = (tmp_path / "run/report.html").read_text()
    assert page.count("mini reads Zulu (zul_Latn) with an xsim error of 51.4%") == 1
    assert ">Zulu, unknown to the encoder</td>" in page and ">French</td>" in page
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    dry = ok(run("run", tmp_path / "recipe.yaml", "--dry-run"))
    assert (
        "mini reads Zulu (zul_Latn) with an xsim error of 51.4%" in dry.stderr
        and f"{LINES} lines\n" in dry.stdout
    )
    assert re.search(r"zul_Latn +\d+ sentences\n", dry.stdout)
    times = ("--assume", "fra=1e8", "--set", "slurm.options=[--time=00:01]", "--executor")
    far = [ok(run("run", tmp_path / "recipe.yaml", "--dry-run", *times, kind)) for kind in ("local", "slurm")]
    assert re.search(r"zul_Latn +\d+ sentences, by a sample\n", far[0].stdout)
    assert "this machine alone\n" not in far[0].stdout and "--time" not in far[0].stderr
    assert "this machine alone\n" in far[1].stdout
    assert "warning: slurm.options: --time is about 1.0 s, and a task of 1 unit" in far[1].stderr


def test_errors_and_notes_name_keys_of_the_recipe(
    tmp_path: Path, tiny_encoder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In place of options, which `mexma run` does not have."""
    wrong = {"score": "probability", "threshold": 2.0}
    with pytest.raises(MexmaError, match=r"^threshold 2\.0 is of margins") as caught:
        done(corpus(tmp_path, tiny_encoder, mine=wrong))
    hint = "name a probability, such as `mine.threshold: 0.5`; `mine.margin: ratio` scores pairs by margin"
    assert caught.value.hint == hint
    for code, ids in (("fra", "ab"), ("eng", "cd")):
        lines = [json.dumps({"body": f"It is {one}. It was {one}.", "id": one}) for one in ids]
        (tmp_path / f"{code}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    texts = {code: {"input": f"{code}.jsonl", "split": {}} for code in ("fra", "eng")}
    with pytest.raises(MexmaError, match=r"2 units failed"):
        done(corpus(tmp_path, tiny_encoder, languages=texts, align={}))
    assert "hint: `languages.fra_Latn.split.text_field` names the field of the text;" in caplog.text
    (tmp_path / "more.txt").write_text("It was here.\n")
    mixed = {
        code: {"input": [text["input"], "more.txt"], "split": {"off": ["all"]}}
        for code, text in texts.items()
    }
    done(corpus(tmp_path, tiny_encoder, languages=mixed))
    assert "(2 malformed): `languages.fra_Latn.split.text_field` names the field of the text;" in caplog.text
    texts = {
        code: {"input": f"{code}.jsonl", "split": {"text_field": "body", "off": ["all"]}} for code in texts
    }
    with pytest.raises(MexmaError, match=r"1 unit failed"):
        done(corpus(tmp_path, tiny_encoder, languages=texts, align={}))
    assert "no document id in common" in caplog.text and "--document-pairs" not in caplog.text
    assert "hint: `mexma align --find-documents` finds" in caplog.text


def test_documents_that_share_no_id_are_told_of_before_anything_is_done(
    tmp_path: Path, tiny_encoder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As far as names of files tell the ids."""
    for name in ("fra/a.html", "fra/b.html", "deu/c.txt", "eng/b.txt", "eng/d.txt.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    whole: dict[str, object] = {"document": "file"}

    def recipe(how: dict[str, object], **keys: object) -> CorpusRecipe:
        texts = {code: {"input": code, "split": how} for code in ("fra", "deu", "eng")}
        return corpus(tmp_path, tiny_encoder, languages=texts, **keys)

    said = (
        "`languages.{}_Latn.input` and `languages.{}_Latn.input` have no document id in common, "
        "such as {} and {}"
    )
    for mode in ({"align": {}}, {"mine": {"within": True}}):
        wrong = recipe(whole, pairs=[["fra", "deu"]], **mode)
        for call in (partial(done, wrong), partial(estimate, wrong, Selection(), 1)):
            with pytest.raises(MexmaError, match=re.escape(said.format("fra", "deu", "a", "c"))) as caught:
                call()
            assert "one name" in (caught.value.hint or "")
        assert not (tmp_path / "run").exists()
    inputs_of(recipe(whole, align={}))  # English and French have one
    apart = [one for one in caplog.messages if "no document id in common" in one]
    assert apart == [said.format("fra", "deu", "a", "c"), said.format("deu", "eng", "c", "b")]
    caplog.clear()
    inputs_of(recipe({}, pairs=[["fra", "deu"]], align={}))  # lines are documents, and have numbers
    inputs_of(recipe(whole))
    assert "in common" not in caplog.text


def test_documents_are_split_and_aligned_or_mined_within(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Four chapters in two languages; one line is in none of them, and two documents are in no pair."""
    for code in ("fra", "eng"):
        shutil.copytree(EXAMPLES.parent / "jonah" / code, tmp_path / code)
    (tmp_path / "fra/1.txt").write_text("12345678\n\n" + (tmp_path / "fra/1.txt").read_text())
    (tmp_path / "fra/five.txt").write_bytes("Où est-il\u00a0?\n".encode("latin-1"))
    (tmp_path / "fra/six.txt").write_text("Il est parti hier soir.\n")
    how = {"document": "file", "rejects": True}
    raw = {
        "kind": "corpus", "name": "test", "run": str(tmp_path / "run"), "root": str(tmp_path),
        "languages": {c: {"input": c, "split": how} for c in ("fra", "eng")},
        "output": {"with_ids": True}, "align": {},
    }  # fmt: skip
    recipe = CorpusRecipe.model_validate(raw)
    assert [unit.stage for unit in done(recipe)[0].units.values()].count("align") == 1
    lost = [
        "fra_Latn: of 6 documents 1 not UTF-8, such as five",
        "fra_Latn-eng_Latn: documents in no pair: 1 of 5 of the source, such as six; "
        "and 0 of 4 of the target",
    ]
    assert set(lost) <= set(caplog.messages)
    folder = tmp_path / "run"
    pairs = folder / "bitext/fra_Latn-eng_Latn/fra_Latn-eng_Latn.tsv"
    aligned = [line.split("\t") for line in pairs.read_text().splitlines()]
    assert aligned[0][1].startswith("La parole de l'Éternel") and aligned[0][2].startswith("Now the LORD")
    assert len(aligned) > 40 and all(row[3] == row[4] for row in aligned)
    best = max(aligned, key=lambda row: float(row[0]))
    rejects = read_lines(folder / "fra_Latn/sentences/fra_Latn.rejects.zst")
    assert any(line.startswith("digits\t1\t0\t8\t") for line in rejects)
    page = html.unescape((folder / "report.html").read_text())
    assert all(f"<td>{one}</td>" in page for one in lost)
    assert "<h2>Documents</h2>" in page and "dropped: digits" in page
    assert f"<td>{best[1]}</td><td>{best[2]}</td>" in page
    assert "pairs by score" in page
    done(CorpusRecipe.model_validate(raw | {"output": {"format": ["tsv", "documents"]}}))
    scores = [json.loads(line)["score"] for line in read_lines(pairs.with_suffix(".documents"))]
    assert len(scores) == 4 and min(scores) > 0.1
    whole = raw | {"output": {"format": "documents"}, "align": {"chunks": 200}}
    done(CorpusRecipe.model_validate(whole))
    pieces = list(map(json.loads, read_lines(pairs.with_suffix(".documents"))))
    assert {piece["source_document"] for piece in pieces} == {"1", "2", "3", "4"}
    assert len(pieces) > 8 and sum(len(piece["alignments"]) for piece in pieces) == len(aligned)
    for keys, message in (
        ({"output": {}, "align": {"chunks": 200}}, "align.chunks` cuts whole documents"),
        ({"filter": {}}, "needs `align`, and no `filter`"),
    ):
        with pytest.raises(MexmaError) as caught:
            done(CorpusRecipe.model_validate(whole | keys))
        assert message in f"{caught.value.message} {caught.value.hint}"
    within = CorpusRecipe.model_validate(raw | {"align": None, "mine": {"within": True}})
    caplog.clear()
    did = done(within)[1].did
    assert set(lost) <= set(caplog.messages)
    assert "fra_Latn/store" not in did and "fra_Latn-eng_Latn/pairs" in did
    mined = {tuple(line.split("\t")[1:3]) for line in pairs.read_text().splitlines()}
    assert len(mined & {tuple(row[1:3]) for row in aligned}) > 10
    caplog.clear()
    done(CorpusRecipe.model_validate(raw | {"align": None, "mine": {"within": True, "precision": 0.01}}))
    assert any("the precision is higher than estimated" in said for said in caplog.messages)


def test_pairs_are_filtered_by_rules_into_any_format(
    copy: CorpusRecipe, tiny_encoder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, pair = Path(copy.root), "fra_Latn-eng_Latn"
    how = {"off": ["all"], "on": ["long=45"], "rejects": True}
    recipe = corpus(root, tiny_encoder, filter=how, output={"format": "moses", "compression": "gz"})
    did = done(recipe)[1].did
    assert sorted(did) == sorted(f"{name}/{what}" for name in PAIRS for what in ("pairs", "filtered"))
    folder = root / "run/bitext" / pair
    sides = [list(read_lines(folder / f"{pair}.{end}.gz")) for end in ("fra", "eng")]
    rejects = list(read_lines(folder / "rejects.tsv.zst"))
    assert len(sides[0]) == len(sides[1]) > 0 and all(len(line) <= 45 for side in sides for line in side)
    assert rejects and all(line.startswith("long\t") for line in rejects)
    lines = [line.split("\t", 2)[2] for line in rejects]
    assert all(max(map(len, line.split("\t")[1:3])) > 45 and line.count("\t") == 9 for line in lines)
    page = (root / "run/report.html").read_text()
    assert "dropped: rule long" in page and f">{len(rejects)}</td>" in page
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    recipe = corpus(root, tiny_encoder, filter=how, output={"format": ["tsv", "jsonl"]})
    with caplog.at_level(logging.INFO):
        done(recipe)
    count = sum(len(list(read_lines(path))) for path in (root / "run/bitext").glob("*/*.tsv"))
    assert f"{count} sentence pairs of 3 language pairs" in caplog.text
    (said,) = re.findall("an earlier run left (6 files, perhaps out of date, such as .*)", caplog.text)
    named = said.partition(" such as ")[2].split(", ")
    assert len(named) == 3 and all((root / "run" / name).suffix == ".gz" for name in named)
    assert all((root / "run" / name).is_file() for name in named)
    assert f"<tr><th>earlier runs left</th><td>{said}</td></tr>" in (root / "run/report.html").read_text()
    caplog.clear()
    with caplog.at_level(logging.INFO):
        done(recipe.but(pairs=(("fra_Latn", "eng_Latn"),)))
    left = sum(path.is_file() for path in (root / "run/bitext").glob("*/*")) - 3  # tsv, jsonl, rejects
    assert f"an earlier run left {left} files, perhaps out of date" in caplog.text
    assert left == 2 * 5 + 2, "also of the pairs that the recipe has no longer"
    assert before.items() <= {path.name: path.read_bytes() for path in folder.iterdir()}.items()
    rows = [line.split("\t") for line in read_lines(folder / f"{pair}.tsv")]
    assert [row[1:] for row in rows] == list(map(list, zip(*sides, strict=True)))
    objects = list(map(json.loads, read_lines(folder / f"{pair}.jsonl")))
    assert [one["source"] for one in objects] == sides[0] and objects[0]["source_line"] > 0
    (folder / f"{pair}.fra.gz").unlink()
    assert not done(recipe)[1].did  # nobody misses it


def test_documents_are_wanted_where_they_are_not(tmp_path: Path, tiny_encoder: Path) -> None:
    for keys in ({"align": {}}, {"mine": {"within": True}}):
        with pytest.raises(ValueError, match=r"needs documents: languages\.deu_Latn has no `split`"):
            corpus(tmp_path, tiny_encoder, **keys)


def test_a_recipe_that_had_just_got_its_name_leaves_nothing_beside_it(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    recipe = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]])
    run_corpus(recipe, InThisProcess)
    left = tmp_path / "run" / "recipe.yaml.partial"
    left.mkdir()
    (left / ".mexma").touch()
    run_corpus(recipe, InThisProcess)
    assert not left.exists() and (tmp_path / "run" / "recipe.yaml").is_file()
