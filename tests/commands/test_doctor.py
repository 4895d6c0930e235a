"""`mexma doctor` on this machine, and on worse ones."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from huggingface_hub import constants

import mexma_cli
from mexma_cli.main import cli
from mexma_cli.numerics import machine
from mexma_cli.stages.doctor import doctor


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def findings() -> doctor.Findings:
    done = CliRunner().invoke(cli, ["doctor", "--json"])
    assert done.exit_code == 0, done.output
    return doctor.Findings(**json.loads(done.output))


def test_it_says_what_is_here() -> None:
    found = findings()
    programs = found.facts["programs"]
    assert programs["torch"] and found.facts["processor"]["cores that may be used"] > 0
    extras = programs["extras that are installed"] + programs["extras that are not"]
    assert "dev" not in extras and {"gpu", "plot"} <= set(extras)
    said = CliRunner().invoke(cli, ["doctor"]).output
    for section, facts in found.facts.items():
        assert section in said and all(name in said for name in facts)
    advice = [line for line in said.splitlines() if line.startswith("advice: ")]
    assert advice == [f"advice: {line}" for line in found.advice]


def test_what_removes_the_caches_removes_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = tmp_path / "loops" / "mexma_cli_12ab"
    loops.mkdir(parents=True)
    for name in ("kernels.add-1.py311.nbi", "kernels.add-1.py311.1.nbc", "kernels.py"):
        (loops / name).touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mexma" / "eval" / "a").mkdir(parents=True)
    monkeypatch.setattr("mexma_cli.numerics.compiling.kept_in", lambda: str(loops))
    subprocess.run(["bash", "-c", doctor._caches([])["to remove them"]], check=True)
    assert [file.name for file in loops.iterdir()] == ["kernels.py"]
    assert not (tmp_path / "mexma" / "eval").exists()


def test_it_advises(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr("mexma_cli.numerics.threads.cores", lambda: 1 << 20)
    monkeypatch.setattr("mexma_cli.numerics.compiling.kept_in", lambda: None)
    monkeypatch.setattr("mexma_cli.numerics.torch_private.computes_bf16", lambda: False)
    monkeypatch.setattr(machine, "available_memory", lambda: 10**9)
    advice = findings().advice
    for told in ("OMP_NUM_THREADS", "bfloat16", "--memory", "NUMBA_CACHE_DIR", "HF_HUB_OFFLINE"):
        assert sum(told in line for line in advice) == 1, told


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        ("0::/a/b\n", {"a/memory.max": "4096\n", "a/b/memory.max": "max\n"}, 4096),
        ("0::/outside\n", {"memory.max": "8192\n"}, 8192),
        ("3:cpu,memory:/c\n", {"memory/c/memory.limit_in_bytes": "1000"}, 1000),
        ("3:memory:/c\n", {"memory/c/memory.limit_in_bytes": str(2**63 - 4096)}, None),
        ("0::/\n", {}, None),
    ],
)
def test_the_limit_of_a_container(
    membership: str, files: dict[str, str], limit: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "membership").write_text(membership)
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "_MEMBERSHIP", tmp_path / "membership")
    assert machine.memory_limit() == limit


@pytest.mark.slow
def test_warm_leaves_nothing_to_compile(tmp_path: Path) -> None:
    """Mining with and without an index, and aligning, then compile nothing (a minute)."""

    def run(*words: str | Path) -> str:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
        command = [sys.executable, "-m", "mexma_cli", *map(str, words)]
        done = subprocess.run(command, env=environment, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "compiling" in run("doctor", "--warm")
    texts = [tmp_path / name for name in ("a.txt", "b.txt")]
    for text in texts:
        text.write_text("".join(f"Line {number} of this text.\n" for number in range(60)))
    assert "compiling" not in run("mine", "--memory", "2G", *texts, "-o", tmp_path / "mined.tsv")
    assert "compiling" not in run("align", *texts, "-o", tmp_path / "aligned.tsv")
    index = ("--index", "IVF2,Flat", "--recall", "0.1")
    assert "compiling" not in run("mine", *index, *texts, "-o", tmp_path / "found.tsv")


@pytest.mark.slow
def test_all_loops_are_compiled_ahead(tmp_path: Path) -> None:
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "mexma_cli", "-q", "doctor", "--warm"], check=True, env=env)
    warmed = {file.name.split(".")[1].rsplit("-", 1)[0] for file in tmp_path.rglob("*.nbi")}
    package = Path(mexma_cli.__file__).parent
    loops = {"_claim"}  # compiled only where there are many pairs
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                by = {ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list}
                loops |= {node.name} if by & {"compiled", "summing", "called", "inner"} else set()
    assert len(loops) > 20 and not loops - warmed
