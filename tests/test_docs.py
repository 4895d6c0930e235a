"""The documentation says what the program does: docs/cli.md is its help, the README's commands run."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from mexma_cli import __version__
from mexma_cli.knn.faiss_index import SIZES
from mexma_cli.main import cli
from tests.corpora import InThisProcess

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mexma_cli"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(page for folder in ("docs", "notes", "examples") for page in (ROOT / folder).glob("**/*.md")),
]
CONSOLE = re.compile(r"```console\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_sessions = load_script("make_sessions")
SESSIONS = {
    str(page.relative_to(ROOT)): found
    for page in PAGES
    if (found := make_sessions.SESSION.findall(page.read_text(encoding="utf-8")))
}


def small_examples(folder: Path) -> None:
    """150 of the translations of spa-eng, 150 other lines on either side, and fewer steps; and jonah."""
    source, target = ROOT / "examples/spa-eng", folder / "examples/spa-eng"
    target.mkdir(parents=True)
    shutil.copytree(ROOT / "examples/jonah", folder / "examples/jonah")
    shutil.copy(ROOT / "examples/corpus.yaml", folder / "examples")
    recipe = (ROOT / "examples/small.yaml").read_text(encoding="utf-8")
    (folder / "examples/small.yaml").write_text(recipe.replace("steps: 60", "steps: 6"), encoding="utf-8")

    def lines(name: str) -> list[str]:
        return (source / name).read_text(encoding="utf-8").splitlines()

    def write(name: str, content: list[str]) -> None:
        (target / name).write_text("".join(line + "\n" for line in content), encoding="utf-8")

    gold = lines("gold.tsv")
    kept = [line.split("\t") for line in gold[:150]]
    write("gold.tsv", gold[:150])
    for side, name in enumerate(["spa.txt", "eng.txt"]):
        in_gold = {line.split("\t")[side] for line in gold}
        others = [line for line in lines(name) if line not in in_gold][:150]
        write(name, [pair[side] for pair in kept] + others)


def test_cli_page_is_current() -> None:
    """Compared word by word, since Click's line breaks differ between its versions."""
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert page.split() == load_script("make_cli").render().split(), "run `make docs`"


def test_recipes_page_is_current() -> None:
    page = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    assert page == load_script("make_recipes").render(), "run `make docs`"
    rows = re.findall(r"^- `(\w+)` \(.*?\): ?(.*)$", page, re.MULTILINE)
    assert len(rows) > 100 and {"log_every", "from", "rtl", "is_mode"} < {key for key, _ in rows}
    assert [key for key, explained in rows if not explained] == [], "a string below its field says what it is"


def test_keywords_are_those_of_the_settings() -> None:
    file = (PACKAGE / "settings/keywords.py").read_text(encoding="utf-8")
    assert file == load_script("make_keywords").render(), "run `make docs`"
    for written in (
        "k: int",
        "memory: int | str | None",
        "on: Sequence[str]",
        "classifier: str | Path | None",
    ):
        assert f"    {written}\n" in file
    assert '    threshold: float | Literal["auto"] | None\n' in file


def test_api_page_is_current() -> None:
    assert (ROOT / "docs/api.md").read_text(encoding="utf-8") == load_script("make_api").render(), (
        "run `make docs`"
    )


def test_the_table_of_evaluations_is_current() -> None:
    page = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8")
    assert page == load_script("make_evaluations").render(), "run `make docs`"
    assert page.count("(cli.md#mexma-eval-") > 10


def run_session(block: str, folder: Path) -> str:
    """What a session's commands print: as make_sessions.py runs it, but with `mexma` in this process."""
    shown = ""
    for typed in make_sessions.commands(block):
        parts = typed.replace("\\\n", " ").split(" | ")
        ours = [place for place, part in enumerate(parts) if part.startswith("mexma ")]
        if typed.startswith("cd "):
            folder /= typed.removeprefix("cd ")
        elif len(ours) == 1 and "||" not in typed:
            before, after = parts[: ours[0]], parts[ours[0] + 1 :]
            words = shlex.split(parts[ours[0]])[1:]
            words = [name for word in words for name in (sorted(glob(word, root_dir=folder)) or [word])]
            text = subprocess.check_output(["bash", "-c", " | ".join(before)], cwd=folder) if before else None
            with contextlib.chdir(folder):
                done = CliRunner().invoke(cli, words, text)
            assert done.exit_code == 0, (typed, done.output)
            rest = ["bash", "-c", " | ".join(after)]
            shown += subprocess.check_output(rest, input=done.output, text=True) if after else done.output
        else:
            shown += make_sessions.run(f"$ {typed}", folder)
    return shown


@pytest.mark.parametrize("page", SESSIONS)
def test_sessions_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = staticmethod(lambda recipe, folder, jobs: InThisProcess(folder))
    monkeypatch.setattr("mexma_cli.executors.local.LocalExecutor.from_recipe", here)
    small_examples(tmp_path)
    for block in SESSIONS[page]:
        run_session(block, tmp_path)


def test_a_session_is_run_in_a_shell(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    block = "$ cd sub\nold output\n$ mexma \\\n  --version && pwd\n"
    ran = make_sessions.run(block, tmp_path)
    assert ran.startswith(f"$ cd sub\n$ mexma \\\n  --version && pwd\nmexma {__version__} (Python ")
    assert ran.endswith(f")\n{tmp_path / 'sub'}\n")
    with pytest.raises(RuntimeError, match=r"exit code 1: \$ mexma info nothing .*\nerror: "):
        make_sessions.run("$ mexma info nothing | cat", tmp_path)


def test_files_with_ids(tmp_path: Path) -> None:
    """A run over `id TAB sentence` files, on the demo's text with ids."""
    small_examples(tmp_path)
    folder = tmp_path / "examples/spa-eng"
    ids: dict[str, str] = {}
    for name, prefix in (("spa", "fra"), ("eng", "eng")):
        lines = (folder / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        ids |= {line: f"{prefix}-{number:06}" for number, line in enumerate(lines, 1)}
        with gzip.open(tmp_path / f"{prefix}.tsv.gz", "wt", encoding="utf-8") as out:
            out.writelines(f"{ids[line]}\t{line}\n" for line in lines)
    with gzip.open(tmp_path / "gold.tsv.gz", "wt", encoding="utf-8") as out:
        for line in (folder / "gold.tsv").read_text(encoding="utf-8").splitlines():
            source, target = line.split("\t")
            out.write(f"{ids[source]}\t{ids[target]}\n")
    text = (ROOT / "docs/how-to/mine.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"(?<=<!-- ids -->\n)```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert "precision" in run_session(block, tmp_path)


PROGRAMS = {
    str(page.relative_to(ROOT)): found
    for page in PAGES
    if (
        found := re.findall(
            r"```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        )
    )
}
"""Pages with programs. docs/api.md has signatures, tests/commands/test_plugin.py the loss."""
TESTED_ELSEWHERE = {"docs/api.md", "docs/how-to/extend.md", "docs/interop.md"}


@pytest.mark.parametrize("page", sorted(set(PROGRAMS) - TESTED_ELSEWHERE))
def test_programs_run(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_examples(tmp_path)
    for code in PROGRAMS[page]:
        if "sentence_transformers" in code:
            pytest.importorskip("sentence_transformers")
        with contextlib.chdir(tmp_path):
            exec(compile(code, page, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.count("\n") > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text)
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def anchors(page: Path) -> set[str]:
    """Those that GitHub gives a page's headings: equal ones are numbered."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_headings(page: Path) -> None:
    links = re.findall(r"\]\(([^):#]*)#([^)]*)\)", page.read_text(encoding="utf-8"))
    wrong = [(to, name) for to, name in links if name not in anchors(page.parent / to if to else page)]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_paragraph_ends_in_the_middle_of_a_sentence(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    cut = [part[-60:] for part in re.split(r"\n\s*\n", text) if re.search(r"[;,]$", part)]
    assert not cut


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", tmp_path]
    subprocess.check_call(build, cwd=ROOT)
    pages = "".join(page.read_text(encoding="utf-8") for page in tmp_path.glob("**/*.html"))
    assert re.findall(r"<(?:script|link|img)[^>]* (?:src|href)=\"?https?:[^>]*>", pages) == []


def typed_commands() -> Iterator[tuple[str, list[str]]]:
    """(page, words) of every mexma command in the pages' console blocks, run here or not."""
    for page in PAGES:
        for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
            typed = re.findall(r"^[$>] (.*(?:(?<=\\)\n.*)*)", block, re.MULTILINE)
            for part in re.split(r"[|\n]", "\n".join(typed).replace("\\\n", " ")):
                words = part.split()
                if words[:1] == ["mexma"]:
                    yield page.name, words[1:]


def test_options_in_the_pages_exist() -> None:
    root = click.Context(cli, info_name="mexma")
    wrong = []
    for page, words in typed_commands():
        command = cli.get_command(root, words[0])
        assert command is not None, f"{page}: mexma {words[0]}"
        if isinstance(command, click.Group) and not words[1].startswith("-"):
            words = [" ".join(words[:2]), *words[2:]]
            command = command.get_command(click.Context(command, parent=root), words[0].split()[1])
            assert command is not None, f"{page}: mexma {words[0]}"
        known = {"-", "--help", *(flag for param in command.params for flag in param.opts)}
        wrong += [
            f"{page}: mexma {words[0]} {word}" for word in words if word[0] == "-" and word not in known
        ]
    assert not wrong


def test_tables_of_the_how_tos_are_current() -> None:
    """The indexes of `--index auto`, and the options."""
    pages = [*(ROOT / "docs/how-to").glob("*.md"), ROOT / "docs/encoders.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)

    def column(head: str, place: int = 0) -> list[str]:
        (rows,) = re.findall(rf"^\| {head} \|.*\n\|[- |]+\n((?:\|.*\n)+)", text, re.MULTILINE)
        return [row.split("|")[place + 1].strip() for row in rows.splitlines()]

    sizes = [f"{most:,}" if most < 1e6 else f"{most // 10**6} million" for most, _ in SIZES]
    assert column("lines of a side, at most") == [*sizes[:-1], "more"]
    assert column("lines of a side, at most", 1) == [f"`{index}`" for _, index in SIZES]
    known = set(re.findall(r"(?<![\w-])--[\w-]+", (ROOT / "docs/cli.md").read_text(encoding="utf-8")))
    options = re.findall(r"^\| `(--[\w-]+)", text, re.MULTILINE)
    assert len(options) > 10 and set(options) <= known


def test_the_places_that_contributing_names_are_there() -> None:
    """The files of each kind of change, and what is in them: `MARGINS` in the file that its row names."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| an? \*\*.+?\*\*.*? \| (.*?) \|", text, re.MULTILINE)
    assert len(rows) == 16
    for row in rows:
        words = re.findall(r"`([\w./]+)`", row)
        paths = [word for word in words if "/" in word and "NAME" not in word]
        found = [path for path in paths for base in (PACKAGE, ROOT) if (base / path).exists()]
        assert found == paths, row
        files = [PACKAGE / path for path in paths if path.endswith(".py")]
        code = "".join(file.read_text(encoding="utf-8") for file in files)
        names = [word for word in words if word.isupper() and word != "NAME"]
        assert [name for name in names if not re.search(rf"^{name}\b.* = ", code, re.MULTILINE)] == [], row


def test_the_front_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 130


def test_figures_of_the_results_stand_on_their_pages() -> None:
    text = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| \[\*\*([\d.]+)\b.*?\*\*\]\(([^)#]+).*?\) \| `(.*?)` \|", text, re.MULTILINE)
    assert len(rows) == text.count("[**") > 15
    for figure, page, command in rows:
        there = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]*\d)", there), (figure, page)
        assert command.partition(" python ")[2].split(" ")[0] in there


def test_every_extra_is_explained() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    text = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert [name for name in extras if f"`{name}`" not in text] == []


def test_extras_are_installed_in_one_way() -> None:
    """That of a checkout; the page on installing says what it is elsewhere."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    by_name = [page.name for page in pages if "mexma-cli[" in page.read_text(encoding="utf-8")]
    assert by_name == ["install.md"]


BLOCK = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```(?:console|bash|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
WHY = re.compile(r"session|ids|not run: .+|run by (.+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_commands_is_run_or_says_why_not(page: Path) -> None:
    """Benchmarks take hours: their programs and options are looked for."""
    if page.parent.name == "notes" or page == ROOT / "CONTRIBUTING.md":
        return
    for said, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        why = WHY.fullmatch(said)
        measured = re.findall(r"python (benchmarks/\w+\.py)([^\n$]*)", block)
        assert why or measured, f"`<!-- session -->` or `<!-- not run: WHY -->` before: {block}"
        if why and why[1]:
            assert (ROOT / why[1]).is_file()
        for path, words in measured:
            code = (ROOT / path).read_text(encoding="utf-8")
            assert [flag for flag in re.findall(r"(?<= )--[\w-]+", words) if flag not in code] == []
