"""--dry-run, --memory and --index as a user types them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.settings.stages import bytes_of
from tests.command import fails, ok, run
from tests.corpora import corpus
from tests.stores import make_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "a.emb"
    vectors = np.random.default_rng(0).standard_normal((500, 16)).astype(np.float32)
    return make_store(path, [f"a line {row}" for row in range(500)], vectors, dtype="float16").path


def test_says_what_it_would_take_and_does_nothing(store: Path, tmp_path: Path) -> None:
    for command in ("mine", "knn"):
        out = tmp_path / "out"
        result = ok(run(command, str(store), str(store), "--dry-run", "-o", str(out)))
        assert re.search(rf"{re.escape(str(store))} +500 lines x 16", result.stdout)
        assert re.search(r"^memory +[0-9.]+ [MG]B; with --memory at least", result.stdout, re.M)
        assert re.search(r"^neighbours \(exact\) +about [0-9.]+ s$", result.stdout, re.M)
        took = re.search(r"^time, with its start +about ([0-9.]+) s$", result.stdout, re.M)
        assert took and float(took[1]) >= 0.2, "a process alone takes that"
        assert ("\npairs " in result.stdout) == (command == "mine")
        assert re.search(r"^assumed +a machine as busy as now", result.stdout, re.M)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.emb"]


def test_indexes_that_are_kept_are_counted(store: Path) -> None:
    def beside(index: str) -> float:
        result = ok(run("mine", str(store), str(store), "--dry-run", "-k", "4", "--index", index))
        return float(re.search(r"^disk: beside it +([0-9.]+) kB", result.stdout, re.M)[1])  # type: ignore[index]

    assert beside("exact") == beside("auto") == 40  # keys of 8 bytes, five a row: itself, too, in one text
    assert beside("Flat") == 40 + 64  # and 16 numbers a row
    assert beside("IVF8,SQ8") == 40 + 24  # codes and row numbers


def test_auto_is_exact_for_few_lines(store: Path) -> None:
    for index, said in (("auto", r"\(exact\) +about"), ("IVF8,Flat", r"\(IVF8,Flat\) +found out on the way")):
        result = run("mine", str(store), str(store), "--dry-run", "--index", index)
        assert re.search(rf"^neighbours {said}", result.stdout, re.M), result.stdout


def test_texts_are_counted_and_timed(tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text("One line.\nAnother line.\n" * 50, encoding="utf-8")
    result = ok(run("mine", str(text), str(text), "--dry-run"))
    assert "100 lines x 320" in result.stdout and re.search(r"^embedding +about", result.stdout, re.M)
    fails(run("mine", "-", str(text), "--dry-run"), 2, "must be files")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("mine", "--score", "probability"), ("mine", "--margin", "ratio"), ("knn",)], ids=" ".join
)
def test_the_memory_that_it_says_is_the_least_that_is_accepted(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """As a user does it: in new processes."""
    rng = np.random.default_rng(1)
    sentences = [" ".join(words) for words in rng.choice(["one", "two", "six", "ten", "day"], (3000, 9))]
    vectors = rng.standard_normal((3000, 320)).astype(np.float32)
    stores = [
        make_store(tmp_path / name, sentences, vectors + added, dtype="float16").path
        for name, added in (("a.emb", 0), ("b.emb", rng.standard_normal((3000, 320)) / 3))
    ]

    output = tmp_path / ("x.knn" if command == ("knn",) else "x.tsv")

    def called(*options: str) -> subprocess.CompletedProcess[str]:
        typed = [sys.executable, "-m", "mexma_cli", *command, *stores, "-o", output, *options]
        return subprocess.run(typed, capture_output=True, text=True)

    def least(*options: str) -> str:
        done = called("--dry-run", *options)
        said = re.search(r"with --memory at least ([0-9]+M)$", done.stdout, re.M)
        assert done.returncode == 0 and said, done.stderr
        return said[1]

    memory = least()
    assert least("--memory", "4G") == least("--memory", memory) == memory
    less = f"{9 * int(memory[:-1]) // 10}M"
    dry, real = called("--memory", less, "--dry-run"), called("--memory", less)
    assert (dry.returncode, dry.stderr) == (real.returncode, real.stderr)
    assert real.returncode == 1 and f"hint: --memory {memory} is enough" in real.stderr
    accepted = called("--memory", memory)
    assert accepted.returncode == 0, accepted.stderr


def test_a_run_elsewhere_says_what_would_be_submitted(
    tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]]).to_yaml())
    few = ("--set", "slurm.options=[--mem=90M,--time=9]", "--set", "slurm.array=3")
    far = ("run", str(recipe), "--dry-run", *few, "--executor")
    slurm, said = ok(run(*far, "slurm")), json.loads(ok(run(*far, "slurm", "--json")).stdout)
    for line in (
        r"Slurm, read +2 tasks in 1 array, at least; a task takes about [0-9.]+ MB",
        r"Slurm, embed +5 tasks in 2 arrays, .*",  # eight pieces in three tasks, and two stores
        r"sbatch +--job-name=mexma-run --mem=90M --time=9",
        rf"logs +{tmp_path}/run/slurm/batch-\*-TASK\.log",
        "submitted +nothing; there is no sbatch here",
    ):
        assert re.search(f"^{line}$", slurm.stdout, re.M), slurm.stdout
    assert said["slurm"]["tasks"]["embed"] == 5 and said["left"]["embed"] == 8
    warning = r"--mem gives a task 94.4 MB, and a unit of (\w+) takes about [0-9.]+ [MG]B"
    warned = re.findall(warning, slurm.stderr)
    assert warned == [stage for stage, size in said["unit_memory"].items() if size > 90 << 20] != []
    cores = ok(run(*far, "ray", "--set", "ray.cpus=4"))
    assert re.search(r"^Ray +\d+ units, 4 cores each; nothing was submitted$", cores.stdout, re.M)
    assert not (tmp_path / "run").exists()


def test_options_that_do_not_go_together(store: Path) -> None:
    both = [str(store), str(store)]
    for arguments, message in (
        (["--recall", "0.9"], "the exact search finds everything"),
        (["--memory", "lots"], "'lots' is no size; write it like 8G or 512M"),
        (["--neighbours", "x.knn", "--index", "auto"], "leave out --index"),
    ):
        fails(run("mine", *both, *arguments), 2, message)
    fails(run("mine", *both, "--index", "IVF9Quatsch"), 1, "faiss refuses the index 'IVF9Quatsch'")


@pytest.mark.parametrize(
    ("text", "size"),
    [("8G", 8e9), ("512m", 512e6), ("1.5 GB", 1.5e9), ("2GiB", 2**31), ("1000", 1000), ("3TiB", 3 * 2**40)],
)
def test_sizes(text: str, size: float) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1G", "8X", "8 iB", "1e9"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        bytes_of(text)
