"""`mexma train` of a decomposer, `mexma project`, `mexma eval leakage` and `codeswitch`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import mexma_cli
from mexma_cli.store.embeddings import EmbeddingStore
from tests.command import fails, ok, run


@pytest.fixture(scope="module")
def work(
    tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path, sentences: dict[str, list[str]]
) -> Path:
    """A folder with two texts, their stores, a recipe, and what `mexma train` made of it (run/)."""
    folder = tmp_path_factory.mktemp("decompose")
    (folder / "tatoeba").mkdir()
    for language, lines in sentences.items():
        text = folder / f"{language}.txt"
        text.write_text("\n".join([*lines, *(f"{n} {line}" for n, line in enumerate(lines))]) + "\n")
        done = ok(run("embed", "--model", tiny_encoder, "--device", "cpu", "--lang", language, text))
        (folder / "tatoeba" / f"tatoeba.fra-eng.{language}").write_text("\n".join(lines) + "\n")
    raw = {
        "kind": "decompose",
        "name": "tiny",
        "run": str(folder / "run"),
        "encoder": str(tiny_encoder),
        "data": {"root": str(folder), "pairs": [{"source": "eng.emb", "target": "fra.emb"}]},
        "objective": {"name": "meat", "intra_class": 1.0, "inter_class": 1.0},
        "trainer": {"batch": 8, "epochs": 4, "learning_rate": 0.01, "device": "cpu"},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(raw))
    done = ok(run("train", folder / "recipe.yaml"))
    assert done.stdout == f"{folder / 'run'}\n"
    assert "meat: 14 pairs in 2 languages, 2 more held out; 1 steps an epoch on cpu" in done.stderr
    assert "ended after epoch 4: validation " in done.stderr
    return folder


def test_a_finished_run_says_so(work: Path) -> None:
    again = run("train", work / "recipe.yaml", "--resume")
    assert (again.exit_code, again.stdout) == (0, f"{work / 'run'}\n")
    assert again.stderr == f"{work / 'run'} is finished already: nothing to do\n"


def test_python_trains_the_same(work: Path, tmp_path: Path) -> None:
    run = mexma_cli.train(work / "recipe.yaml", [f"run={tmp_path / 'run'}"])
    assert run == tmp_path / "run"
    assert mexma_cli.train(work / "recipe.yaml", [f"run={run}"], resume=True) == run
    for part in ("meaning", "language"):
        weights = Path(part, "model.safetensors")
        assert (run / weights).read_bytes() == (work / "run" / weights).read_bytes()


def test_info_and_report(work: Path) -> None:
    info = run("info", work / "run")
    assert (
        info.exit_code == 0
        and ": decomposer" in info.stdout
        and "checked decomposer: it loads, and its files have the checksums in checksums.json" in info.stdout
    )
    report = ok(run("report", work / "run"))
    assert "validation loss" in report.stdout and "cross reconstruction" in report.stdout


def test_meanings_are_mined_and_embedded_in_one_go(work: Path, tmp_path: Path) -> None:
    for language in ("fra", "eng"):
        done = ok(run("project", work / f"{language}.emb", "--with", work / "run"))
        assert "16 rows of 32 numbers in" in done.stderr
    ok(run("mine", work / "fra.meaning.emb", work / "eng.meaning.emb", "-o", tmp_path / "p.tsv"))
    options = ["--model", work / "run", "--device", "cpu", "--lang", "eng", "-o", tmp_path / "eng.emb"]
    ok(run("embed", work / "eng.txt", *options))
    ok(run("mine", work / "fra.meaning.emb", tmp_path / "eng.emb", "-o", tmp_path / "q.tsv"))
    fails(run("mine", work / "fra.meaning.emb", work / "eng.emb"), 1, "different encoders")
    assert EmbeddingStore.open(work / "fra.meaning.emb").manifest.encoder == str(work / "run")


def test_the_language_and_its_name(work: Path) -> None:
    ok(run("project", work / "fra.emb", "--with", work / "run", "--part", "language"))
    store = EmbeddingStore.open(work / "fra.language.emb", verify=True)
    assert store.manifest.encoder.endswith(f", language by {work / 'run'}")


def test_leakage(work: Path, tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("5\tIt rains.\tIt is raining.\n0\tIt rains.\tA boat.\n3\ta b\ta c\n")
    options = ["--with", work / "run", "--cache", "none", "--device", "cpu", "--sts", tmp_path / "own.tsv"]
    for side in ("fra", "eng"):
        name = f"tatoeba.fra-eng.{side}"
        (tmp_path / name).write_text((work / "tatoeba" / name).read_text() + "a " * 999 + f"{side}\n")
    kept = tmp_path / "leakage.json"
    done = ok(run("eval", "leakage", tmp_path, *options, "--json", "-o", kept))
    result = json.loads(done.stdout)
    assert json.loads(kept.read_text()) == result
    assert [(row["data"], row["measure"]) for row in result["rows"]] == [
        *(("fra", "xx->eng"), ("fra", "eng->xx"), ("own", "spearman"))
    ]
    assert all(0 <= row[part] <= 100 for row in result["rows"][:2] for part in ("vectors", "meaning"))
    assert result["benchmark"] == "leakage"
    assert result["encoder"]["run"] == str(work / "run")  # and not a setting: the page compares runs
    assert "run" not in result["settings"]
    table = ok(run("eval", "leakage", tmp_path, *options, "--plot", tmp_path / "clouds.png"))
    assert all("\n2 sentences were cut" in f"\n{one.stderr}" for one in (done, table))  # drawn: not counted
    assert "measure" in table.stdout and (tmp_path / "clouds.png").stat().st_size > 1000


def test_a_code_switched_set_is_made_and_measured(work: Path, tmp_path: Path) -> None:
    (tmp_path / "fr-en.txt").write_text(
        "livre book\nfilm movie\nfilm film\nfrère brother\n", encoding="utf-8"
    )
    texts = [work / "tatoeba" / f"tatoeba.fra-eng.{side}" for side in ("fra", "eng")]
    options = ["--dictionary", tmp_path / "fr-en.txt", "--lang", "fr", "--rate", "1"]
    done = ok(run("eval", "codeswitch", *texts, *options, "-o", tmp_path / "one"))
    assert "warning: only 2 sentences have a word of the dictionary" in done.stderr
    assert "2 sentences in" in done.stderr and "3 of 14 words replaced" in done.stderr
    assert (tmp_path / "one" / "tatoeba.fra-eng.fra").read_text().splitlines() == [
        "Ce book est plus intéressant que le movie.",
        "Mon brother travaille dans une boulangerie.",
    ]
    assert (tmp_path / "one" / "tatoeba.fra-eng.eng").read_text().splitlines() == [
        "This book is more interesting than the film.",
        "My brother works in a bakery.",
    ]
    facts = json.loads((tmp_path / "one" / "codeswitch.fra.json").read_text())
    assert (facts["lines"], facts["seed"], facts["rate"]) == ([7, 8], 42, 1.0)
    run("eval", "codeswitch", *texts, *options, "-o", tmp_path / "two")
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    options = ["--with", work / "run", "--cache", "none", "--device", "cpu", "--json"]
    measured = run("eval", "leakage", tmp_path / "one", *options)
    result = json.loads(measured.stdout)
    assert result["benchmark"] is None and result["scores"]["meaning xx->eng"] >= 0


def test_a_code_switched_set_does_not_replace_its_own_text(tmp_path: Path) -> None:
    (tmp_path / "fr-en.txt").write_text("livre book\n")
    texts = [tmp_path / f"tatoeba.fra-eng.{side}" for side in ("fra", "eng")]
    for text in texts:
        text.write_text("livre\n")
    options = ["--dictionary", tmp_path / "fr-en.txt", "-o", tmp_path]
    fails(run("eval", "codeswitch", *texts, *options, "--lang", "fr"), 2, "tatoeba.fra-eng.fra is an input")
    fails(run("eval", "codeswitch", *texts, *options, "--lang", "en"), 2, "which is not English")
    assert all(text.read_text() == "livre\n" for text in texts) and len(list(tmp_path.iterdir())) == 3


def test_a_text_to_switch_from_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "fr-en.txt").write_text("livre book\n")
    (tmp_path / "eng.txt").write_text("The book.\n")
    options = ["--dictionary", tmp_path / "fr-en.txt", "--lang", "fr", "-o", tmp_path / "out"]
    ok(run("eval", "codeswitch", "-", tmp_path / "eng.txt", *options, stdin=b"Le livre.\n"))
    assert (tmp_path / "out" / "tatoeba.fra-eng.fra").read_text() == "Le book.\n"
    assert "source_checksum" in json.loads((tmp_path / "out" / "codeswitch.fra.json").read_text())
    fails(run("eval", "codeswitch", "-", "-", *options), 2, "Only one of the inputs can be stdin")


def test_mistakes_are_messages(work: Path, tmp_path: Path, tiny_encoder: Path) -> None:
    (tmp_path / "bad.txt").write_text("just one\nword\n")
    texts = [work / "tatoeba" / f"tatoeba.fra-eng.{side}" for side in ("fra", "eng")]
    bad = ["--dictionary", tmp_path / "bad.txt", "--lang", "fr", "-o", tmp_path / "out"]
    cases = {
        "no finished run of a decomposer": ("project", work / "fra.emb", "--with", tmp_path),
        "holds a training run already": ("train", work / "recipe.yaml"),
        "bad.txt, line 2: 1 words": ("eval", "codeswitch", *texts, *bad),
        "line n of one must be the translation": (
            *("eval", "codeswitch", texts[0], work / "eng.txt", "--dictionary", tmp_path / "good.txt"),
            *("--lang", "fr", "-o", tmp_path / "out"),
        ),
        "different encoders: mini": (
            *("eval", "leakage", work / "tatoeba", "--with", work / "run"),
            *("--model", "mini", "--cache", "none"),
        ),
        "picture can be": ("eval", "leakage", work / "tatoeba", "--with", work / "run", "--plot", "a.txt"),
    }
    (tmp_path / "good.txt").write_text("livre book\n")
    for message, arguments in cases.items():
        done = fails(run(*arguments), 1)
        assert message in done.stderr and "Traceback" not in done.stderr, (message, done.stderr)
    assert not (tmp_path / "out").exists()
    inside = work / "fra.emb" / "part.emb"
    done = run("project", work / "fra.emb", "--with", work / "run", "-o", inside)
    assert done.exit_code == 2 and "part.emb lies in an input" in done.stderr and not inside.exists()


def test_a_decomposer_trains_in_one_process(work: Path) -> None:
    for option in ("--nproc-per-node", "--max-restarts"):
        fails(run("train", work / "recipe.yaml", option, "2"), 2, "trains in one process")
