"""SentEval's files: as its own download lays them out, or one TSV (label TAB sentence) a task and split."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.readers.common import filled_lines, require_folder
from mexma_cli.text.compression import plain_or_compressed
from mexma_cli.text.lines import is_blank, read_latin_lines, read_lines

log = logging.getLogger(__name__)

TASKS = ("MR", "SST2", "TREC", "CR", "SUBJ", "MPQA", "MRPC")
"""In the order of the paper's Table 17."""
SPLITS = {"SST2": ("train", "dev", "test"), "TREC": ("train", "test"), "MRPC": ("train", "test")}
"""Of the tasks that are not validated by folds alone."""
LAYOUTS = """needed, in one of the folders named, compressed or not:
MR/rt-polarity.{pos,neg}, CR/custrev.{pos,neg}, SUBJ/subj.{objective,subjective}, MPQA/mpqa.{pos,neg},
SST/binary/sentiment-{train,dev,test}, TREC/{train_5500,TREC_10}.label, MRPC/msr_paraphrase_{train,test}.txt
(data/downstream after SentEval's get_transfer_data.bash, github.com/facebookresearch/SentEval);
or MR.tsv, CR.tsv, SUBJ.tsv, MPQA.tsv, SST2.{train,dev,test}.tsv, TREC.{train,test}.tsv with label TAB
sentence, and MRPC.{train,test}.tsv or mrpc/{train,test}.tsv with label TAB sentence TAB sentence"""
_BY_CLASS = {
    "MR": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "CR": ("CR/custrev.neg", "CR/custrev.pos"),
    "SUBJ": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "MPQA": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}
_OWN_FILES = {
    ("SST2", "train"): "SST/binary/sentiment-train",
    ("SST2", "dev"): "SST/binary/sentiment-dev",
    ("SST2", "test"): "SST/binary/sentiment-test",
    ("TREC", "train"): "TREC/train_5500.label",
    ("TREC", "test"): "TREC/TREC_10.label",
    ("MRPC", "train"): "MRPC/msr_paraphrase_train.txt",
    ("MRPC", "test"): "MRPC/msr_paraphrase_test.txt",
}
_OWN_LAYOUTS = {
    "SST2": r"(?P<sentence>.*)\t(?P<label>[01])",
    "TREC": r"(?P<label>[^ :]*):[^ ]* (?P<sentence>.*)",
    "MRPC": r"(?P<label>[01])\t[^\t]*\t[^\t]*\t(?P<sentence>[^\t]*)\t(?P<second>[^\t]*)",
}
_TABLE = r"(?P<label>[^\t]*)\t(?P<sentence>[^\t]*)"
_PAIR_TABLE = r"(?P<label>[01])\t(?P<sentence>[^\t]*)\t(?P<second>[^\t]*)"


@dataclass
class Examples:
    """Labelled sentences, or pairs of sentences, in order.

    Attributes:
        labels: As they are in the file.
        sentences: As many.
        seconds: The pairs' other sentences; empty for single sentences.
    """

    labels: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    seconds: list[str] = field(default_factory=list)

    def add(self, label: str, sentence: str, second: str | None = None) -> None:
        """Append one."""
        self.labels.append(label)
        self.sentences.append(sentence)
        if second is not None:
            self.seconds.append(second)

    @property
    def texts(self) -> int:
        """How many there are to embed."""
        return len(self.sentences) + len(self.seconds)


def read_tasks(folders: Sequence[Path]) -> dict[str, dict[str, Examples]]:
    """The splits of all tasks that the folders have the train part of, or all; a warning names the others.

    Raises:
        MexmaError: A folder or all tasks are missing; or as `read_task`.
    """
    for folder in folders:
        require_folder(folder, LAYOUTS)
    tasks = {task: read_task(task, folders) for task in TASKS}
    found = {task: splits for task, splits in tasks.items() if splits.keys() & {"all", "train"}}
    if not found:
        raise MexmaError(f"{' '.join(map(str, folders))}: none of SentEval's files is there", LAYOUTS)
    if missing := [task for task in TASKS if task not in found]:
        log.warning("no files of %s: left out (--help names the files)", ", ".join(missing))
    return found


def read_task(task: str, folders: Sequence[Path]) -> dict[str, Examples]:
    """The splits of a task that the folders have; `all` for a task that is validated by folds alone.

    Returns:
        Nothing where there is no file of this task.

    Raises:
        MexmaError: A damaged line (file and line), a split without examples or with one class.
    """
    found = {}
    for split in SPLITS.get(task, ("all",)):
        for folder in folders:
            examples = _read_split(task, split, folder)
            if examples is not None:
                found[split] = examples
                break
    return found


def _read_split(task: str, split: str, folder: Path) -> Examples | None:
    """One split from one folder, or None where it has none."""
    if task in _BY_CLASS:
        files = [plain_or_compressed(folder / name) for name in _BY_CLASS[task]]
        if any(files):
            return _by_class([folder / name for name in _BY_CLASS[task]], files)
    elif path := plain_or_compressed(folder / _OWN_FILES[task, split]):
        # One letter of TREC is not UTF-8, and SentEval reads Latin-1.
        lines = read_latin_lines(path) if task == "TREC" else read_lines(path)
        return _read_labelled(path, lines, _OWN_LAYOUTS[task])
    for path in _tables(task, split, folder):
        return _read_labelled(path, read_lines(path), _PAIR_TABLE if task == "MRPC" else _TABLE)
    return None


def _tables(task: str, split: str, folder: Path) -> Iterator[Path]:
    names = [f"{task}.tsv"] if split == "all" else [f"{task}.{split}.tsv", f"{task.lower()}/{split}.tsv"]
    if split != "all" and folder.name.lower() == task.lower():
        names.append(f"{split}.tsv")
    yield from filter(None, (plain_or_compressed(folder / name) for name in names))


def _by_class(named: Sequence[Path], files: Sequence[Path | None]) -> Examples:
    examples = Examples()
    for label, (name, path) in enumerate(zip(named, files, strict=True)):
        if path is None:
            raise MexmaError(f"{name}: no such file, though the other class is there", LAYOUTS)
        for _, line in filled_lines(path):
            examples.add(str(label), line)
        if str(label) not in examples.labels[-1:]:
            raise MexmaError(f"{path} is empty", LAYOUTS)
    return examples


def _read_labelled(path: Path, lines: Iterable[str], layout: str) -> Examples:
    examples = Examples()
    for number, line in enumerate(lines, start=1):
        if is_blank(line) or (number == 1 and line.startswith("Quality\t")):
            continue
        found = re.fullmatch(layout, line)
        if found is None:
            raise MexmaError(f"{path}, line {number}: not the layout of this file", LAYOUTS)
        examples.add(**found.groupdict())
    if not examples.labels:
        raise MexmaError(f"{path} is empty", LAYOUTS)
    if len(set(examples.labels)) < 2:
        raise MexmaError(f"{path} has one class only: {examples.labels[0]}", LAYOUTS)
    return examples
