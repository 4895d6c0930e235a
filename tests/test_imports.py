"""The house's rules on imports: floors, no torch on the ground, and only what pyproject.toml names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

from tests.stores import make_store

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mexma_cli"

# The rooms from the roof down (DESIGN): an import goes down this list, or stays inside its room.
ROOMS = [
    "__main__",
    "main",
    "commands",
    "__init__",
    "api",
    "arguments",
    "executors",
    "stages",
    "evaluation",
    "reporting",
    "training",
    "objectives",
    "align",
    "classifier",
    "mining",
    "knn",
    "encoder",
    "store",
    "formats",
    "text",
    "settings",
    "limited_yaml",
    "files",
    "numerics",
    "languages",
    "lazy",
    "errors",
]
VERSION = "mexma_cli.__version__"  # beside the public API, and no part of it: every room may write it
# The encoder's modules and sub-rooms, in the same order.
ENCODER = ["sentence_transformer", "runs", "encoder", "ngrams", "loading", "model", "quiet", "__init__"]
FLOORS = {name: len(ROOMS) - place for place, name in enumerate(ROOMS)}
WITHOUT_TORCH = ["formats", "store", "text", "languages", "settings", "errors"]
# Where the import's name is not the package's.
DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "pydantic_core": "pydantic",
    "faiss": "faiss-cpu",
    "huggingface_hub": "huggingface-hub",
    "sentence_transformers": "sentence-transformers",
    "sklearn": "scikit-learn",
    "sentence_splitter": "sentence-splitter",
    "fasttext": "fasttext-numpy2-wheel",
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """(line, dotted name) of every import in a file, those inside functions too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.append((node.lineno, alias.name))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write imports in full"
            assert node.module is not None
            for alias in node.names:
                found.append((node.lineno, f"{node.module}.{alias.name}"))
    return found


def outside_imports() -> Iterator[tuple[Path, int, str]]:
    """(file, line, top-level name) of every import that is neither ours nor the standard library's."""
    for path in modules():
        for line, name in imports(path):
            top = name.split(".")[0]
            if top not in sys.stdlib_module_names and top != "mexma_cli":
                yield path, line, top


def test_the_list_is_of_the_rooms_that_are_there() -> None:
    assert sorted({room(path) for path in modules()}) == sorted(ROOMS)


def test_imports_go_down() -> None:
    wrong = []
    for path in modules():
        here = room(path)
        for line, name in imports(path):
            parts = name.split(".")
            if parts[0] != "mexma_cli" or name == VERSION:
                continue
            there = parts[1] if len(parts) > 1 and parts[1] in FLOORS else "__init__"
            if there != here and FLOORS[there] >= FLOORS[here]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_imports_within_the_encoder_go_down() -> None:
    wrong = []
    for path in sorted((PACKAGE / "encoder").rglob("*.py")):
        here = path.relative_to(PACKAGE / "encoder").parts[0].removesuffix(".py")
        for line, name in imports(path):
            there = name.removeprefix("mexma_cli.encoder.").split(".")[0]
            if there in ENCODER and there != here and ENCODER.index(there) <= ENCODER.index(here):
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_nothing_imports_itself_in_a_circle() -> None:
    """No module, and no folder beside others."""
    known = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in modules()}
    arrows: dict[str, set[str]] = {}
    for module, path in known.items():
        for _, name in imports(path):
            package = name.rpartition(".")[0]
            names = (name, package, f"{name}.__init__", f"{package}.__init__")
            imported = next((one for one in names if one in known), module)
            if imported != module and name != VERSION:
                ends = module.split("."), imported.split(".")
                depth = next(i for i, (one, other) in enumerate(zip(*ends, strict=False)) if one != other)
                for end in (depth + 1, None):  # where their folders part, and the modules themselves
                    importer, target = (".".join(parts[:end]) for parts in ends)
                    arrows.setdefault(importer, set()).add(target)
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_ground_never_imports_torch() -> None:
    heavy = {"torch", "transformers", "faiss"}
    wrong = [
        f"{p.relative_to(ROOT)}:{n}"
        for p, n, top in outside_imports()
        if top in heavy and room(p) in WITHOUT_TORCH
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("rooms", [WITHOUT_TORCH, ["commands"]], ids=["ground", "commands"])
def test_importing_does_not_load_torch(rooms: list[str]) -> None:
    """Not even by a detour: `mexma mine --help` and the stores stay quick."""
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in modules()
        if room(path) in rooms and path.name != "__init__.py"
    ]
    code = f"import sys, importlib\nfor name in {names}: importlib.import_module(name)\n"
    code += "sys.exit('torch was imported' if 'torch' in sys.modules else 0)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr


QUICK = [
    ["mine", "spa.emb", "eng.emb", "-o", "pairs.tsv"],
    ["mine", "eng.emb", "-o", "copies.tsv"],
    ["knn", "spa.emb", "eng.emb", "-o", "near.knn"],
    ["score", "spa.emb", "eng.emb", "-o", "scored.tsv"],
    ["search", "spa.emb", "eng.emb", "-o", "found.tsv"],
    ["tune", "pairs.tsv", "--gold", "gold.tsv"],
    ["info", "eng.emb"],
    ["embed", "spa.txt", "--lang", "spa", "--overwrite"],
    ["embed", "eng.txt", "--lang", "eng", "--overwrite"],
    ["score", "spa.txt", "eng.txt", "-o", "scored.tsv"],
    ["align", "spa.emb", "eng.emb", "-o", "aligned.tsv"],
]


def test_small_stores_are_worked_on_without_torch(tmp_path: Path) -> None:
    """Loading torch and Numba takes longer than mining ten thousand lines, or embedding them with `mini`."""
    vectors = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    for side in ("spa", "eng"):
        make_store(tmp_path / f"{side}.emb", [f"{side} {row}" for row in range(9)], vectors)
        (tmp_path / f"{side}.txt").write_text("".join(f"{side} {row}\n" for row in range(9)))
    (tmp_path / "gold.tsv").write_text("".join(f"spa {row}\teng {row}\n" for row in range(9)))
    code = f"""if True:
        import sys
        from click.testing import CliRunner
        from mexma_cli.main import cli
        for command in {QUICK}:
            done = CliRunner().invoke(cli, command)
            heavy = {{"torch", "numba", "faiss", "transformers", "scipy"}} & set(sys.modules)
            assert done.exit_code == 0 and not heavy, (command, done.output, heavy)
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_dependencies_are_the_ones_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[^\w.-]", requirement)[0] for requirement in requirements}

    core = names(project["dependencies"])
    groups = project["optional-dependencies"].items()
    optional = names([r for group, requirements in groups if group != "dev" for r in requirements])
    imported = {DISTRIBUTIONS.get(top, top): f"{path}:{line}" for path, line, top in outside_imports()}
    undeclared = {name: where for name, where in imported.items() if name not in core | optional}
    assert not undeclared
    # faiss-cpu: what benchmarks/ measures against, and where approximate search will come from.
    assert core - {"faiss-cpu"} <= set(imported), "declared, and used by nothing"


def test_no_pattern_has_a_possessive_group() -> None:
    """Python before 3.11.5 (Debian 12 has 3.11.2) matches `(...)*+` and `(?>...)` wrongly (gh-106052)."""
    possessive = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+|\(\?>")
    assert possessive.search("(?:a|b)*+")
    assert not [path for path in modules() if possessive.search(path.read_text(encoding="utf-8"))]
