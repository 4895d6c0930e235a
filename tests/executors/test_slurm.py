"""Scripts that start a process a task stand in for Slurm's programs; one slow test wants the real ones."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.executors import slurm
from mexma_cli.executors.slurm import SlurmExecutor, memory_limit, planned, time_limit
from mexma_cli.files import checksum_file
from mexma_cli.settings.corpus import SlurmSettings
from mexma_cli.stages.run.executor import Ended
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.stages.run.texts import Cut
from mexma_cli.stages.run.units import RunFolder
from tests.corpora import InThisProcess, corpus
from tests.stages.run.test_run import files


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("90", 5400), ("1:30", 90), ("2:00:00", 7200), ("1-12", 129600), ("1-0:0:5", 86405), ("0", None)],
)
def test_a_time_limit_is_read_as_slurm_does(time: str, seconds: int | None) -> None:
    assert time_limit(SlurmSettings(options=("--time=7", f"--time={time}"))) == seconds


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ("--mem=4G", 4 << 30),
        ("--mem=500", 500 << 20),
        ("--mem-per-cpu=1g -c8 --cpus-per-task=2", 2 << 30),
        ("--mem-per-cpu=512M -c2 --ntasks=3", 3 << 30),
        ("--mem=0", None),
        ("--time=1 -c4", None),
    ],
)
def test_the_memory_of_a_task_is_read_as_slurm_does(options: str, size: int | None) -> None:
    assert memory_limit(SlurmSettings(options=tuple(options.split()))) == size


@pytest.mark.slow
def test_what_is_planned_is_what_is_submitted(jobs: Path, tmp_path: Path) -> None:
    todo = cuts(tmp_path, 5)
    settings = SlurmSettings(options=("--time=1",), array=2, at_once=7)
    said = planned(tmp_path / "run", settings, {"cut": 5, "rows": 1, "tile": 3})
    assert said["arrays"] == {"read": 1, "knn": 2} and said["tasks"] == {"read": 2, "knn": 3}
    assert said["sbatch"] and not list(jobs.iterdir())
    assert not (tmp_path / "run/slurm").exists()
    executor = SlurmExecutor(tmp_path / "run", settings)
    for one in todo:
        executor.submit(one)
    all_ended(executor, 5)
    (script,) = (tmp_path / "run/slurm").glob("*.sh")
    options = [line.removeprefix("#SBATCH ") for line in script.read_text().splitlines() if "#SBATCH" in line]
    logs = said["logs"].replace("*", "00000").replace("TASK", "%a")
    assert len(list(jobs.glob("*/*"))) == said["tasks"]["read"]
    assert set(options) == {option.replace("0-N", "0-1") for option in said["options"]} | {f"--output={logs}"}
    with pytest.raises(MexmaError, match="no option of sbatch"):
        planned(tmp_path / "run", SlurmSettings(options=("--time 1",)), {})


SBATCH = """\
#!/bin/bash
script="${@: -1}"
job=$(($(ls "$JOBS" | wc -l) + 100))
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' "$script")
mkdir "$JOBS/$job"
for task in $(seq 0 $last); do
  SLURM_ARRAY_TASK_ID=$task bash "$script" >/dev/null 2>&1 &
  echo $! >"$JOBS/$job/$task"
done
echo $job
"""
SQUEUE = """\
#!/bin/bash
for file in "$JOBS"/*/*; do
  kill -0 $(cat "$file") 2>/dev/null && echo "$(basename $(dirname "$file"))_$(basename "$file")"
done
true
"""
SCANCEL = """\
#!/bin/bash
for job; do kill $(cat "$JOBS/$job"/*) 2>/dev/null; done
true
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-ins keep a folder for each job, with a task's process in a file."""
    programs, found = tmp_path / "bin", tmp_path / "jobs"
    programs.mkdir()
    found.mkdir()
    for name, script in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("JOBS", str(found))
    monkeypatch.setattr(slurm, "_LOOK", 0.0)
    monkeypatch.setattr(slurm, "_GRACE", 0.0)
    return found


def cuts(folder: Path, count: int) -> list[Path]:
    """Units that cut texts, announced; the last one's text has no lines."""
    run = RunFolder(folder / "run")
    todo = []
    for number in range(count):
        text = folder / f"{number}.txt"
        text.write_text("" if number == count - 1 else f"{number}\n")
        name = f"{number}/text"
        unit = Cut(name=name, lines=2, files={str(text): checksum_file(text)}, output=name)
        todo.append(run.announce(unit))
    return todo


def all_ended(executor: SlurmExecutor, count: int) -> dict[Path, Ended]:
    found: dict[Path, Ended] = {}
    while len(found) < count:
        found |= {one.todo: one for one in executor.ended(1.0)}
    return found


def test_units_are_packed_into_arrays_and_say_how_they_ended(jobs: Path, tmp_path: Path) -> None:
    todo = cuts(tmp_path, 5)
    settings = SlurmSettings(options=("--time=1",), array=2, at_once=7, setup="export SET=up")
    executor = SlurmExecutor(tmp_path / "run", settings)
    for one in todo:
        executor.submit(one)
    found = all_ended(executor, 5)
    assert [found[one].error is None for one in todo] == [True] * 4 + [False]
    assert "no lines" in str(found[todo[-1]].error) and not found[todo[-1]].died
    assert (tmp_path / "run/3/text/00000.txt.zst").is_file()
    (script,) = (tmp_path / "run/slurm").glob("*.sh")
    for line in ("#SBATCH --array=0-1%7\n", "#SBATCH --time=1\n", "\nexport SET=up\n"):
        assert line in script.read_text()
    assert len(list(jobs.glob("*/*"))) == 2


@pytest.mark.slow
def test_no_name_is_more_than_a_name(jobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to bash nor to sbatch, which takes `#SBATCH` lines apart as `shlex.split` does."""
    name = 'it\'s "a" $(touch PWNED) `touch PWNED`; touch PWNED & #c {run} *\udcff'
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    python = folder / "py thon"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    todo = cuts(folder, 2)
    options = (f"--comment={name}", "-n4")
    executor = SlurmExecutor(folder / "run", SlurmSettings(options=options, python=str(python)))
    for one in todo:
        executor.submit(one)
    found = all_ended(executor, 2)
    assert found[todo[0]].error is None and (folder / "run/0/text/00000.txt.zst").is_file()
    assert sorted(os.listdir()) == ["0.txt", "1.txt", "py thon", "run"]
    (script,) = (folder / "run/slurm").glob("*.sh")
    lines = [line for line in os.fsdecode(script.read_bytes()).splitlines() if line.startswith("#SBATCH")]
    assert [shlex.split(line.removeprefix("#SBATCH ")) for line in lines] == [
        ["--job-name=mexma-run"],
        ["--array=0-1"],
        [f"--output={folder}/run/slurm/batch-00000-%a.log"],
        *([option] for option in options),
    ]


@pytest.mark.parametrize(
    ("run", "settings", "said"),
    [
        ("a\ntouch PWNED\n#", {}, "'\\\\n' in the path"),
        ("100%j", {}, "'%' in the path"),
        ("a\\b", {}, "in the path"),
        ("run", {"options": ["--time=1\ntouch PWNED"]}, "slurm.options: '--time=1"),
        ("run", {"options": ["--time 1:00"]}, "no option of sbatch"),
        ("run", {"options": ["--time=1", "touch"]}, "slurm.options: 'touch' is"),
        ("run", {"python": "python\n#SBATCH --wrap=evil"}, "slurm.python"),
    ],
)
def test_what_cannot_be_quoted_is_refused(
    run: str, settings: dict[str, object], said: str, jobs: Path, tmp_path: Path
) -> None:
    with pytest.raises(MexmaError, match=said):
        SlurmExecutor(tmp_path / run, SlurmSettings.model_validate(settings))


def test_the_name_of_a_job_is_plain(jobs: Path, tmp_path: Path) -> None:
    executor = SlurmExecutor(tmp_path, SlurmSettings())
    for name, plain in (("my run", "my_run"), ("-rf", "-rf"), ("é; x\udcff", "_x_")):
        executor._run = tmp_path / name
        assert f"#SBATCH --job-name=mexma-{plain}\n" in executor._script("batch", tmp_path / "list", 1)


def test_a_task_that_is_gone_without_a_word_has_died(
    jobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo = cuts(tmp_path, 2)
    executor = SlurmExecutor(tmp_path / "run", SlurmSettings(setup="exit 1"))
    for one in todo:
        executor.submit(one)
    found = all_ended(executor, 2)
    assert all(one.died and "is gone" in str(one.error) for one in found.values())


def test_stopping_cancels_what_runs(jobs: Path, tmp_path: Path) -> None:
    todo = cuts(tmp_path, 2)
    executor = SlurmExecutor(tmp_path / "run", SlurmSettings(setup="exec sleep 60"))
    for one in todo:
        executor.submit(one)
    assert executor.ended(0.0) == []
    tasks = [int(file.read_text()) for file in jobs.glob("*/*")]
    executor.stop()
    assert tasks and all(ended(task) for task in tasks)


def ended(process: int) -> bool:
    """Whether a process ends; nobody waits for it, so it may stay as a zombie."""
    while True:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True


def test_without_slurm_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MexmaError, match="no sbatch here"):
        SlurmExecutor(tmp_path, SlurmSettings())


def test_without_a_controller_it_says_so(jobs: Path, tmp_path: Path) -> None:
    said = "sbatch: error: fetch_config failed\nsbatch: fatal: Could not establish a configuration source"
    sbatch = jobs.parent / "bin" / "sbatch"
    sbatch.write_text(f"#!/bin/bash\necho {shlex.quote(said)} >&2\nexit 1\n")
    (todo,) = cuts(tmp_path, 1)
    executor = SlurmExecutor(tmp_path / "run", SlurmSettings())
    executor.submit(todo)
    with pytest.raises(MexmaError, match=r"Slurm does not answer on this machine \(sbatch: fatal") as caught:
        executor.ended(0)
    assert "login node" in str(caught.value.hint)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("sinfo") is None, reason="no Slurm here; Debian's slurmd and slurmctld will do"
)
def test_real_slurm(tmp_path: Path, tiny_encoder: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    wanted, recipe = corpus(one, tiny_encoder), corpus(two, tiny_encoder)
    run_corpus(wanted, InThisProcess)
    run_corpus(recipe, lambda folder: SlurmExecutor(folder, SlurmSettings(array=3)))
    found = {name: held for name, held in files(recipe).items() if not name.startswith("slurm/")}
    assert found == files(wanted)
