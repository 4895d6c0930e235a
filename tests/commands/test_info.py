"""`mexma info`: everything the tool makes is known by sight, and damage is found."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from mexma_cli import files
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading import card
from mexma_cli.encoder.loading.folder import BUNDLED
from mexma_cli.formats.bitext import MinedPair, named_format, write_pairs
from mexma_cli.settings.load import load_corpus
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.store.layout import Source
from mexma_cli.store.pairs import TokenisedPairsWriter
from tests.command import fails, ok, run, write
from tests.corpora import LINES, InThisProcess, corpus
from tests.processes import Program
from tests.stores import embedding_writer, flip
from tests.stores import make_store as stored


def info(*arguments: str | Path) -> Result:
    return run("info", *arguments)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "a.emb", finish=True)


def make_store(path: Path, finish: bool) -> Path:
    with embedding_writer(
        path, 4, 3, encoder="tiny", fingerprint="f" * 32, dtype="float16", normalised=True, rows_per_shard=2,
        language="fra_Latn", source=Source(path="a.txt", checksum="c", lines=3),
        argv=["mexma", "embed", "a.txt"],
    ) as out:  # fmt: skip
        out.write(np.ones((3, 4), dtype=np.float32), ["a", "", "c"])
        if finish:
            out.finish()
    return path


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    text = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.txt"))
    text.write_text("a\n")
    assert "caf\\udce9.txt: text file" in ok(info(text)).stdout


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    with TokenisedPairsWriter(tmp_path / "data" / "tatoeba.fra", 100) as out:
        out.write([[5, 6], [7]], [[8], [9]])
        out.finish(
            {
                "name": "tatoeba",
                "source_language": "fra_Latn",
                "target_language": "eng_Latn",
                "tokenizer_fingerprint": "t",
                "max_tokens": 20,
                "read": 3,
                "dropped": {"duplicate": 1},
                "truncated": 0,
                "settings": {"cap": 0},
            }
        )
    return tmp_path / "data" / "tatoeba.fra"


def test_embedding_store(store: Path) -> None:
    done = ok(info(store))
    assert done.stdout.startswith(f"{store}: embedding store\n")
    for words in ("fra_Latn (French)", "tiny", "checked embedding store: every file has the checksum"):
        assert words in done.stdout
    found = json.loads(info(store, "--json").stdout)
    assert found["whole"] is True
    assert (found["facts"]["rows"], found["facts"]["empty"], found["facts"]["shards"]) == (3, 1, 2)


@pytest.mark.parametrize("name", ["vectors-00001.npy", "lines-00000.txt.zst"])
def test_a_damaged_store_is_exit_code_1(name: str, store: Path) -> None:
    flip(store / name)
    done = fails(info(store), 1, f"{name} is damaged")
    assert "3" in done.stdout, "the facts are still told"
    found = fails(info(store, "--json"), 1)
    assert name in json.loads(found.stdout)["problems"][0]


def test_a_short_shard_and_an_unfinished_store(store: Path, tmp_path: Path) -> None:
    os.truncate(store / "vectors-00000.npy", 130)
    done = fails(info(store), 1, "the manifest says 2 rows, the file has 0")
    make_store(tmp_path / "b.emb", finish=False)
    done = fails(info(tmp_path / "b.emb.partial"), 1, "unfinished")
    (store / "manifest.json").unlink()
    done = fails(info(store), 1)
    assert "embedding store" in done.stdout and "is damaged: it has no manifest.json" in done.stderr


STOPPED = """
import os, signal, sys
from mexma_cli import files
from mexma_cli.knn import exact_search
from mexma_cli.main import cli
from mexma_cli.settings.load import load_corpus
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.store import journal
from mexma_cli.store.writer import EmbeddingWriter
from tests.corpora import InThisProcess

journal.SECONDS = journal._SHARE = 0
exact_search.X_TILE = exact_search.Y_TILE = EmbeddingWriter.rows_per_shard = 8
enter, entries = files.Unfinished.enter, []

def enter_and_die(self, *given, **facts):
    entries.append(enter(self, *given, **facts))
    if len(entries) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return entries[-1]

files.Unfinished.enter = enter_and_die
if sys.argv[2] == "run":
    run_corpus(load_corpus(sys.argv[3]), InThisProcess)
else:
    cli(sys.argv[2:], prog_name="mexma")
"""


@pytest.fixture
def inputs(tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the folder where commands run: two texts, stores, raw vectors of one and a recipe of a corpus."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    recipe = corpus(tmp_path / "texts", tiny_encoder, pairs=[["fra", "eng"]])
    Path("corpus.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    vectors = np.random.default_rng(0).standard_normal((2, LINES, 4), np.float32)
    np.save("raw.npy", vectors[0])
    for code, rows in zip(("fra", "eng"), vectors, strict=True):
        text = shutil.copy(f"texts/{code}.txt", f"{code}.txt")
        stored(Path(f"{code}.emb"), Path(text).read_text("utf-8").splitlines(), rows)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "entries", "facts"),
    [
        ("embed fra.txt -o x.emb", 2, {"rows so far": 8, "stored type": "float16"}),
        ("convert raw.npy --text fra.txt -o x.emb", 3, {"rows so far": 16, "encoder": "unknown"}),
        ("knn fra.emb eng.emb -k 2 -o x.knn", 1, {"k": 2}),
        ("mine fra.emb eng.emb -o x.tsv", 1, {"k": 4}),
        ("align fra.txt eng.txt --max-size 3 -o x.tsv", 1, {"max_size": 3}),
        ("split fra.txt --lang fra -o x.txt", 1, {"format": 5}),
        ("run corpus.yaml", 1, {"made by": "mexma run"}),
        ("run corpus.yaml", 3, {"made by": "mexma embed", "rows so far": 0}),
    ],
)
def test_what_a_killed_command_left_is_gone_on_with_by_the_same(
    command: str, entries: int, facts: dict[str, object], inputs: Path, tiny_encoder: Path
) -> None:
    assert Program(STOPPED, str(entries), *command.split()).wait() == -signal.SIGKILL
    name, *words = command.split()
    every = [found for found in inputs.rglob("*.partial") if found.name != "progress.json.partial"]
    left = sorted(found for found in every if (found / "progress.json").is_file())
    for folder in left:  # a unit of a run, and what its stage has begun in it
        fails(info(folder), 1, f"{folder} is unfinished: the same `mexma {name}` command goes on")
    for folder in set(every).difference(left):
        fails(info(folder), 1, f"{folder} is unfinished: the same command begins it anew")
    found = json.loads(info(left[-1], "--json").stdout)
    assert found["kind"] == "unfinished output"
    assert found["facts"] | {"made by": f"mexma {name}"} | facts == found["facts"]
    if name == "run":
        run_corpus(load_corpus(Path(*words)), InThisProcess)
    else:
        if name not in ("embed", "knn"):  # no store may be called .knn
            other = run("embed", "fra.txt", "--model", tiny_encoder, "-o", words[-1])
            fails(other, 1, f"is the beginning of another run: command: {name} there, embed now\n")
        ok(run(name, *words))
    assert not list(inputs.rglob("*.partial"))


def test_folders_around_an_unfinished_output(tmp_path: Path) -> None:
    """Any program may have a `progress.json`; those of ours are marked, and may be damaged."""
    inner = tmp_path / "run.partial" / "other"
    make_store(inner / "b.emb", finish=False)
    files.Unfinished(by="run", of={}).enter(inner)
    for folder in (tmp_path, inner.parent):
        (folder / "progress.json").write_text('{"a": 1}')
    (inner.parent / ".mexma").touch()
    fails(info(inner / "b.emb.partial"), 1, "unfinished: the same `mexma embed` command goes on")


def test_prepared_pairs_alone_and_together(pairs: Path) -> None:
    done = ok(info(pairs))
    assert "duplicate 1" in done.stdout
    done = ok(info(pairs.parent))
    assert "folder of stores" in done.stdout
    flip(pairs / "target.ids.npy")
    for path in (pairs, pairs.parent):
        done = fails(info(path), 1, "target.ids.npy is damaged")


def test_encoder(tiny_encoder: Path, tmp_path: Path) -> None:
    found = json.loads(info(tiny_encoder, "--json").stdout)
    assert found["kind"] == "encoder"
    assert (found["facts"]["dim"], found["facts"]["pooling"], found["facts"]["max_tokens"]) == (32, "cls", 64)
    assert "languages" not in found["facts"]
    assert found["rows"] == []
    mini = json.loads(info("mini", "--json").stdout)
    rows = {row["code"]: row for row in mini["rows"]}
    facts = mini["facts"]
    assert facts["languages"] + facts["others measured"] == len(rows)
    assert {code for code, row in rows.items() if row["known"] == "yes"} == set(
        card.languages(BUNDLED / "mini")
    )
    assert rows["kor_Hang"]["dev xsim error"] > 10 > rows["slk_Latn"]["dev xsim error"]
    assert rows["kor_Hang"]["pairs"] > rows["slk_Latn"]["pairs"] == 0
    assert {"eng_Latn", "hun_Latn", "srp_Cyrl"} <= set(rows)
    assert rows["hun_Latn"]["pairs"] > 10_000 and 0 < rows["hun_Latn"]["dev xsim error"] < 20
    assert re.search(
        r"^ +hun_Latn +Hungarian +yes +[\d,]+ +\d+\.\d\d$", ok(info("mini")).stdout, re.MULTILINE
    )
    said = "checked encoder: it loads, and its files have the checksums in checksums.json\n"
    assert said in ok(info("mini")).stdout
    unsealed = shutil.copytree(tiny_encoder, tmp_path / "unsealed")
    (unsealed / "checksums.json").unlink(missing_ok=True)
    said = "checked encoder: it loads; there is no checksum to compare its files with\n"
    assert said in ok(info(unsealed)).stdout
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in tiny_encoder.iterdir():
        if file.is_file():
            (broken / file.name).write_bytes(file.read_bytes())
    os.truncate(broken / "model.safetensors", 5000)
    fails(info(broken), 1, str(broken))


def test_a_bundled_name_is_the_bundled_encoder(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In `info` as in `--model`, also where there is a folder of that name."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_encoder, "mini")
    facts = {name: json.loads(info(name, "--json").stdout)["facts"] for name in ("mini", "./mini", "mini/")}
    bundled, own = SentenceEncoder.load("mini", "cpu"), SentenceEncoder.load("./mini", "cpu")
    assert bundled.fingerprint != own.fingerprint
    assert facts["mini"]["fingerprint"] == bundled.fingerprint
    assert facts["./mini"]["fingerprint"] == facts["mini/"]["fingerprint"] == own.fingerprint
    assert "your own file or folder of that name is ./mini" in info("mini").stderr


def test_an_encoder_with_its_transformer_in_a_folder(tiny_encoder: Path, tmp_path: Path) -> None:
    """As old versions of sentence-transformers wrote it."""
    folder = tmp_path / "old"
    shutil.copytree(tiny_encoder, folder / "0_Transformer", ignore=shutil.ignore_patterns("1_*", "modules*"))
    shutil.copytree(tiny_encoder / "1_Pooling", folder / "1_Pooling")
    modules = (tiny_encoder / "modules.json").read_text()
    (folder / "modules.json").write_text(modules.replace('"path": ""', '"path": "0_Transformer"'))
    facts = json.loads(info(folder, "--json").stdout)["facts"]
    assert facts == json.loads(info(tiny_encoder, "--json").stdout)["facts"]


def test_checkpoint_and_run(tmp_path: Path) -> None:
    import torch

    from mexma_cli.training.checkpoint import State, save

    run = tmp_path / "run"
    (run / "train").mkdir(parents=True)
    state = State(7, 700, {"a.weight": torch.ones(3)}, {}, {"optimisers": []})
    checkpoint = save(run / "train" / "checkpoints", state, keep=2)
    done = ok(info(checkpoint))
    assert "step" in done.stdout
    (run / "recipe.yaml").write_text(
        "name: small\nrun: run\n"
        "data: {store: d, corpora: [{name: a, format: tsv, path: a.tsv, languages: [fra]}]}\n"
        "encoder: {from: mini}\nobjective: {name: mexma}\ntrainer: {steps: 10}\n"
    )
    record = {"phase": "train", "step": 7, "loss": 7.32943320274353, "learning_rate": 0.00012345}
    record |= {"terms": {"words": 0.123456}, "gradient_norm": None, "tokens_per_second": 3456}
    (run / "log.jsonl").write_text(json.dumps(record) + '\n{"phase": "tra')
    done = ok(info(run))
    assert "training run" in done.stdout
    said = [" ".join(row.split()) for row in done.stdout.splitlines()]
    for line in ("last loss 7.329", "last learning_rate 1.23e-04", "last terms words 0.1235"):
        assert line in said
    assert not any(" None" in line or line.startswith(("best", "last gradient_norm")) for line in said)
    facts = json.loads(info(run, "--json").stdout)["facts"]
    assert (facts["last loss"], facts["last gradient_norm"]) == (7.32943320274353, None)
    flip(checkpoint / "objective.safetensors")
    for path in (checkpoint, run):
        done = fails(info(path), 1, "objective.safetensors is damaged")
    checkpoint.rename(checkpoint.with_name("best"))
    assert "best/objective.safetensors is damaged" in info(run).stderr


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.parquet", "a.tmx"])
def test_a_file_of_pairs(name: str, tmp_path: Path) -> None:
    pairs = [MinedPair(0.5, "un", "one"), MinedPair(0.25, "deux", "two")]
    write_pairs(tmp_path / name, named_format(tmp_path / name, None), pairs, ("fra_Latn", "eng_Latn"))
    said = [" ".join(row.split()) for row in ok(info(tmp_path / name)).stdout.splitlines()]
    assert (
        said[0].endswith(f"{name}: sentence pairs") and ("units 2" if name == "a.tmx" else "pairs 2") in said
    )
    assert "columns score source target" in said
    assert ({"fr French 2", "en English 2"} <= {*said}) == (name == "a.tmx")
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-9])
    assert info(tmp_path / name).exit_code == (name != "a.tsv")


def test_a_memory_in_any_number_of_languages_is_listed_by_its_tags(tmp_path: Path) -> None:
    units = [("EN-GB", "LT-LT", "ka"), ("EN-GB", "LT-LT"), ("EN-GB",)]
    inside = ["".join(f'<tuv xml:lang="{tag}"><seg>x</seg></tuv>' for tag in tags) for tags in units]
    path = write(
        tmp_path / "m.tmx", f"<tmx><body>{''.join(f'<tu>{unit}</tu>' for unit in inside)}</body></tmx>"
    )
    done = ok(info(path, "--json")).stdout
    assert json.loads(done)["facts"]["units"] == 3
    assert json.loads(done)["rows"] == [
        {"tag": "EN-GB", "language": "English", "segments": 3},
        {"tag": "LT-LT", "language": "Lithuanian", "segments": 2},
        {"tag": "ka", "language": "Georgian", "segments": 1},
    ]


def test_csv_without_known_columns_is_a_table(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,name,price", 'a1,x,"3', '4"')
    said = [" ".join(row.split()) for row in ok(info(path)).stdout.splitlines()]
    assert said[0].endswith("a.csv: table") and {"format csv", "rows 2", "first row id name price"} <= {*said}
    assert f"no pairs {path}, line 1: 3 fields, and none of them is named source or target" in said
    path.write_text('id,name,price\na1,x,"3\n')
    fails(info(path), 1, "a.csv, line 2: not CSV")


def test_parquet_without_known_columns_is_refused_by_its_columns(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    for names, message in (
        (("id", "da", "en"), "a.parquet has id, da, en; two languages are read"),
        (("nr", "danish", "english"), "it has nr, danish, english"),
    ):
        parquet.write_table(pa.table({name: ["x"] for name in names}), path)
        assert "UTF-8" not in fails(info(path), 1, message).stderr


def test_text_and_what_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\nthree\n")
    done = ok(info(tmp_path / "a.txt"))
    assert "checked text file: every line can be read; there is no checksum" in done.stdout
    (tmp_path / "a.docs").write_text("1\t0\t3\n1\t4\t9\n")
    assert "a.docs: text file" in ok(info(tmp_path / "a.docs")).stdout
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "folder").mkdir()
    for name, words in (
        ("latin1.txt", "not UTF-8"),
        ("folder", "is nothing that mexma makes"),
        ("x", "no such file"),
    ):
        done = fails(info(tmp_path / name), 1, words)


@pytest.mark.parametrize(
    ("written", "stated", "encoding"),
    [
        ("utf-8", None, "utf-8"),
        ("utf-16", None, "utf-16-le"),
        ("utf-16-be", None, "utf-16-be"),
        ("latin-1", "latin-1", "iso8859-1"),
        ("utf-8", "latin-1", "utf-8"),
    ],
)
def test_the_encoding_of_a_text_is_said(
    tmp_path: Path, written: str, stated: str | None, encoding: str
) -> None:
    """As commands read it: also where only the end of a long text tells it."""
    text = tmp_path / "text.txt"
    text.write_bytes(("Guten Tag.\n" * 200_000 + "Schöne Grüße.\n").encode(written))
    options = ["--encoding", stated] if stated else []
    facts = json.loads(ok(run(*options, "info", text, "--json")).stdout)["facts"]
    assert (facts["encoding"], facts["lines"]) == (encoding, 200_001)
    assert facts["bytes"] == text.stat().st_size


def test_the_folders_of_a_corpus_run(inputs: Path) -> None:
    """All of them say what is in them, and none is called damaged or unfinished."""
    ok(run("run", "corpus.yaml"))
    run_folder = Path(load_corpus(Path("corpus.yaml")).run)
    (run_folder / "bitext" / "fra_Latn-eng_Latn" / "none.tsv").touch()
    found = {
        str(folder.relative_to(run_folder)): json.loads(ok(info(folder, "--json")).stdout)
        for folder in run_folder.rglob("*")
        if folder.is_dir()
    }
    kinds = {name: one["kind"] for name, one in found.items()}
    assert kinds["units"] == kinds["units/fra_Latn"] == "records of the units of a corpus run"
    assert kinds["fra_Latn/fra_Latn.emb"] == "embedding store"
    assert found["fra_Latn"]["kind"] == "folder of a corpus run"
    assert found["fra_Latn"]["facts"]["run"] == str(run_folder.resolve())
    assert "embedding store" in [part["kind"] for part in found["fra_Latn"]["parts"]]
    pairs = found["bitext/fra_Latn-eng_Latn"]
    assert pairs["kind"] == "folder of a corpus run"
    assert [part["kind"] for part in pairs["parts"]] == ["sentence pairs", "empty file"]
    assert [part | {"whole": True} for part in found["bitext"]["parts"]] == [pairs]
    flip(run_folder / "fra_Latn" / "fra_Latn.emb" / "vectors-00000.npy")
    fails(info(run_folder / "fra_Latn"), 1, "vectors-00000.npy is damaged")
    fails(info(run_folder), 1, "is the folder of a corpus run")
