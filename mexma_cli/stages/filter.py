"""A bitext in, the pairs that keep all rules out, and why the others do not.

Pairs wait on disk until all hashes are sorted, where a rule asks which came before.
"""

from __future__ import annotations

import logging
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import xxhash
import zstandard

from mexma_cli import __version__, languages
from mexma_cli.errors import MexmaError
from mexma_cli.files import temporary_space, together, write_json_atomic
from mexma_cli.formats.bitext import (
    LANGUAGES_STATED_BY,
    OpenedPairs,
    Pair,
    format_of,
    formats,
    named_format,
    open_lines,
    open_pairs,
    outputs_of,
    widest,
)
from mexma_cli.formats.csv import Csv, fields_line
from mexma_cli.formats.labels import WRONG, begin_labels, labels_in
from mexma_cli.formats.sides import as_codes
from mexma_cli.formats.tmx import Tmx
from mexma_cli.formats.tsv import HEADER, Tsv, fields_of
from mexma_cli.languages import UNSTATED
from mexma_cli.settings.stages import RuleSettings
from mexma_cli.stages.worker_pool import in_processes
from mexma_cli.store.spool import HASHED, Table, repeats
from mexma_cli.text.amounts import counted
from mexma_cli.text.duplicates import fold, folded, letters_of, pair_hash
from mexma_cli.text.identify import (
    SHORT,
    Identifier,
    expected,
    flores,
    identifier,
    in_other_language,
    warn_of_languages,
)
from mexma_cli.text.lines import label_of
from mexma_cli.text.rules import CODES, NAMES, Foreign, PairRules, chosen_limits
from mexma_cli.text.writing import Chunk, only_process, text_file, write_chunks

log = logging.getLogger(__name__)

_BATCH = 2000
_ALONE = 10
"""Batches before other processes are started: for fewer that would take longer."""


class PairColumns(NamedTuple):
    """N pairs; nan where there is no score or probability."""

    sources: list[str]
    targets: list[str]
    scores: list[float]
    probabilities: list[float]


Batch = tuple[list[str | Pair], PairColumns, list[str]]
"""Pairs as they were read, or their lines; and, where rejects are wanted and these are no lines of TSV, the
pairs as TSV."""


class Judged(NamedTuple):
    """N pairs, and the rules that they break: the lines that they stand in, if these are what is written, or
    the pairs; N sentences of either side without white space at the ends, none after they were compared;
    codes uint8 [N]; for rows that break the rule `language`, if somebody asks, which one was seen; and the
    third of a `Batch`."""

    records: Sequence[str | Pair]
    sources: Sequence[str]
    targets: Sequence[str]
    codes: np.ndarray
    seen: Mapping[int, str]
    as_tsv: Sequence[str]


HASHES: dict[str, Callable[[str, str], int]] = {
    "duplicate": pair_hash,
    "duplicate-letters": lambda source, target: pair_hash(
        letters_of(source) or source, letters_of(target) or target
    ),
    "duplicate-source": lambda source, target: xxhash.xxh3_64_intdigest(source.encode()),
    "duplicate-target": lambda source, target: xxhash.xxh3_64_intdigest(target.encode()),
}
"""Rule -> what it takes for the same."""


@dataclass(frozen=True)
class FilterJob:
    """A job of filtering: inputs, settings and outputs.

    Attributes:
        inputs: A file of pairs, or two of lines.
        languages: Codes of both sides, as far as they are stated, as the user wrote them.
        exclude: Files whose sentences the rule `excluded` drops: a line or a column each, or pairs in any
            format that is read; of a file of labels, the pairs that are wrong.
        output: Named by the user; None is stdout.
        format: The format's name; None: by the output's name; on stdout as the input, or TSV for two files.
        rejects: A file for what is dropped: reason TAB number TAB the pair, a line of TSV as it was read, and
            of other formats what would be a line of TSV, with what else is known; or CSV.
        report: A file for the counts, as JSON.
        workers: Processes that try the rules; the bytes are the same with any number. More than one needs a
            script that can be imported (``if __name__ == ...``).
        may_be_empty: Whether an input without pairs is no error.
    """

    inputs: tuple[Path, ...]
    languages: tuple[str, str]
    settings: RuleSettings = RuleSettings()
    exclude: tuple[Path, ...] = ()
    output: Path | None = None
    format: str | None = None
    rejects: Path | None = None
    report: Path | None = None
    workers: int = 1
    may_be_empty: bool = False

    @cached_property
    def limits(self) -> dict[str, float]:
        """The rules that are on, by name, with their limits; an unknown rule or limit is refused."""
        on, off = self.settings.on, self.settings.off
        named = ("excluded",) if self.exclude and "excluded" not in off else ()  # with `off: all`, too
        return chosen_limits((*on, *named), off)


@dataclass
class Filtered:
    """Pairs that were read and kept, those that were dropped by reason, in the rules' order, and what in the
    file is no pair, by reason."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def __repr__(self) -> str:
        return f"Filtered({self.kept:,} of {counted(self.read, 'pair')} kept)"


def filter_files(
    job: FilterJob, argv: Sequence[str] = (), on_progress: Callable[[int], object] = lambda done: None
) -> tuple[Filtered, int]:
    """Write the pairs that keep all rules; returns the counts, and the number of sentences that were changed
    to fit the format. Pairs come out as they were read, to the byte, where the format stays the same and has
    lines."""
    found = Filtered()
    bitext = open_pairs(
        *job.inputs, languages=job.languages, options=LANGUAGES_STATED_BY, left_out=found.left_out
    )
    format = _written_as(job, bitext.format)
    outputs = outputs_of(job.output, format, as_codes(bitext.languages))
    with only_process(outputs), together(), ExitStack() as stack:
        rules, model = _rules_of(job, bitext.languages)
        judged = _judged(bitext, rules, model, job, format == bitext.format, found.left_out, on_progress)
        batches = stack.enter_context(closing(judged))
        again = [name for name in job.limits if name in HASHES]
        every = mark_duplicates(batches, again) if again else batches
        rejects = stack.enter_context(text_file(job.rejects)) if job.rejects else None
        kept = _kept(every, found, rejects, format_of(job.rejects), bitext.header)
        changed = write_chunks(outputs, _written(kept, bitext, format, found.left_out))
        if job.report is not None:
            made = {"files": list(map(str, outputs)), "format": format}
            _write_report(job, bitext.languages, made, found, argv)
    return found, changed


def _written_as(job: FilterJob, format: str) -> str:
    """The format of the output, for an input of a format."""
    same = formats(alignments=True)[format]
    named = None if str(job.output or "-") == "-" else format_of(job.output)
    if same.whole_documents and job.format is None and named == "jsonl":
        raise MexmaError(
            f"{label_of(job.inputs[0])} has whole documents, and what is kept of them is pairs of sentences",
            "--format jsonl writes these; `mexma align` drops documents by --min-aligned, and alignments by "
            "--threshold",
        )
    if job.format is not None:
        return named_format(job.output, job.format).name
    unwritten = same.two_files or same.alignments_only
    return named or (Tsv.name if unwritten else same.name)


def _rules_of(job: FilterJob, spoken: tuple[str, str]) -> tuple[PairRules, Identifier | None]:
    """The rules as they can be applied to text in these languages, and what tells languages; the log names
    rules that cannot."""
    needing = " and ".join(name for name in ("script", "language") if name in job.limits)
    known = [languages.known(code) for code in spoken]
    for side, code, meant in zip(("source", "target"), spoken, known, strict=True):
        if meant == UNSTATED and needing:
            why = f"--{side}-lang states none" if code == UNSTATED else f"{code} is not the code of one"
            log.warning("the language of the %s is not checked (rules %s): %s", side, needing, why)
    lid = job.settings.lid, job.settings.lid_model
    model = identifier(*lid) if "language" in job.limits else None
    foreign = [_foreign(model, code) if model else None for code in known]
    scripts = [languages.script(code) for code in known]
    excluded, wrong = _excluded(job.exclude, job.languages)
    return PairRules(job.limits, (scripts[0], scripts[1]), excluded, wrong, (foreign[0], foreign[1])), model


def _excluded(files: Sequence[Path], stated: tuple[str, str]) -> tuple[set[int], set[int]]:
    """Hashes of the sentences in files, and of the pairs that labels call wrong."""
    excluded, wrong = set[int](), set[int]()
    for path in files:
        lines = open_lines(path, stated, LANGUAGES_STATED_BY)
        first = list(islice(lines, 2))
        if not begin_labels(first):
            excluded |= folded(chain(first, lines))
            continue
        found = labels_in(chain(first, lines), path)
        wrong |= {fold("\t".join(label.sentences)) for label in found if label.answer == WRONG}
    return excluded, wrong


def _foreign(model: Identifier, language: str) -> Foreign | None:
    """The test for sentences of other languages; short ones are believed to be what they should be."""
    if language == UNSTATED:
        return None
    try:
        expected(language, model)
    except MexmaError as error:
        log.warning("the rule language does not check %s: %s", languages.name(language), error.message)
        return None
    return partial(_in_other, model, language)


def _in_other(model: Identifier, language: str, sentences: Sequence[str]) -> np.ndarray:
    long = np.array([len(sentence) >= SHORT for sentence in sentences], dtype=bool)
    found = np.zeros(len(sentences), dtype=bool)
    judged = [sentences[row] for row in np.flatnonzero(long).tolist()]
    found[long] = in_other_language(judged, model, language)
    return found


def _seen(
    rules: PairRules, model: Identifier, sides: tuple[Sequence[str], Sequence[str]], codes: np.ndarray
) -> dict[int, str]:
    """Row -> the side that is in another language, and which one, of pairs that break the rule `language`."""
    found: dict[int, str] = {}
    rows = np.flatnonzero(codes == CODES["language"]).tolist()
    for side, foreign, sentences in zip(("source", "target"), rules.foreign, sides, strict=True):
        some = [sentences[row] for row in rows]
        others = np.flatnonzero(foreign(some)).tolist() if foreign is not None and rows else []
        guesses = model.identify([some[place] for place in others])
        for place, guess in zip(others, guesses, strict=True):
            found.setdefault(rows[place], f"{side} {flores(guess, some[place])}")
    return found


def _judged(
    bitext: OpenedPairs,
    rules: PairRules,
    model: Identifier | None,
    job: FilterJob,
    as_read: bool,
    left_out: Counter[str],
    on_progress: Callable[[int], object],
) -> Generator[Judged]:
    """All pairs in batches, in order; `as_read`: the lines are what is written, where the format has
    lines."""
    done = 0
    batches = _batches(bitext, as_read, job.rejects is not None)
    for rule in (name for name in _NEEDS if name in job.limits):
        batches = _with_values(batches, rule, job.limits[rule])
    first = ((batch, rules.codes(*batch[1])) for batch in islice(batches, _ALONE))
    items = ((batch, batch[1]) for batch in batches)
    with closing(in_processes(job.workers, rules.codes, items, in_order=True)) as others:
        for (records, (sources, targets, *_), as_tsv), codes in chain(first, others):
            if not done and codes.astype(bool).mean() > 0.5:
                judge = model or identifier(job.settings.lid, job.settings.lid_model)
                warn_of_languages((sources, targets), bitext.languages, judge)
            seen = _seen(rules, model, (sources, targets), codes) if job.rejects and model else {}
            yield Judged(records, sources, targets, codes, seen, as_tsv)
            done += len(records)
            on_progress(done)
    if not done and not job.may_be_empty:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in left_out.items())
        raise MexmaError(
            "there are no pairs in the input",
            f"left out: {reasons}" if reasons else "each line must be: source TAB target",
        )


def _batches(bitext: OpenedPairs, as_read: bool, rejects: bool) -> Iterator[Batch]:
    is_tsv, with_ids = bitext.format == Tsv.name, None
    while batch := list(islice(bitext.records, _BATCH)):
        sources, targets = (
            [getattr(pair, side).strip() for _, pair in batch] for side in ("source", "target")
        )
        scores, probabilities = (
            [getattr(pair, name, np.nan) for _, pair in batch] for name in ("score", "probability")
        )
        records = [pair if line is None or not as_read else line for line, pair in batch]
        as_tsv = list[str]()
        if rejects and not (is_tsv and as_read):
            with_ids = any(any(pair[3:]) for _, pair in batch) if with_ids is None else with_ids
            written = Tsv().write([pair for _, pair in batch], (UNSTATED, UNSTATED), with_ids)
            as_tsv = (
                [line or "" for line, _ in batch] if is_tsv else [str(line)[:-1] for (line,), _ in written]
            )
        yield records, PairColumns(sources, targets, scores, probabilities), as_tsv


_ADDED = "`mexma score` adds scores; a column of others is called score, or as by LASER laser_score"
_NEEDS = {
    "low-score": ("scores", _ADDED),
    "high-score": ("scores", _ADDED),
    "probability": (
        "probabilities",
        "`mexma score --probability` adds it; where the score itself is one: --on low-score=0.5",
    ),
}
"""Rule -> the column of `PairColumns` that it reads, and what adds it."""


def _with_values(batches: Iterator[Batch], rule: str, limit: float) -> Iterator[Batch]:
    """The batches; refused if the pairs of the first have no value that a rule reads. A limit for margins
    gives a warning where all scores are from 0 to 1, and one for probabilities where all are above it."""
    column, hint = _NEEDS[rule]
    for place, batch in enumerate(batches):
        values = getattr(batch[1], column)
        if not place and np.isnan(values).all():
            raise MexmaError(f"the rule {rule} reads a column of {column}, and these pairs have none", hint)
        if not place and rule != "probability":
            least, most = float(np.nanmin(values)), float(np.nanmax(values))
            told: tuple[str, str, float] | None = None
            if limit >= 1 >= most and least >= 0:
                told = "margins", "probabilities", 0.5
            elif rule == "low-score" and limit < 1 < most and least > limit:
                told = "probabilities", "margins", 1.06
            if told is not None:
                said = "%s=%g is for %s, and these scores look like %s, from %.3g to %.3g: name a limit, "
                log.warning(
                    said + "such as %s", rule, limit, *told[:2], least, most, f"--on {rule}={told[2]}"
                )
        yield batch


def mark_duplicates(batches: Iterator[Judged], rules: Sequence[str]) -> Iterator[Judged]:
    """Batches with the pairs marked that came before by some rules of `HASHES`, after the last batch has
    come; refused if the disk for temporary files is full.

    Of equal pairs that break no other rule the first one is kept. A rule sees what the one before it left.
    """
    with tempfile.TemporaryDirectory(prefix="mexma-") as name, temporary_space():
        folder = Path(name)
        tables = {rule: Table(HASHED, "hash", together=1) for rule in rules}
        rows = 0
        with zstandard.open(folder / "pairs", "wb") as file:
            for batch in batches:
                kept = np.flatnonzero(batch.codes == 0)
                for rule, table in tables.items():
                    hash_of = HASHES[rule]
                    hashes = [hash_of(batch.sources[row], batch.targets[row]) for row in kept.tolist()]
                    table.append(hash=np.array(hashes, dtype=np.uint64), row=kept + rows)
                pickle.dump(batch._replace(sources=(), targets=()), file)
                rows += len(batch.codes)
        broken = np.zeros(rows, dtype=np.uint8)
        for rule, table in tables.items():
            for entries in table.sorted():
                entries = entries[broken[entries["row"]] == 0]
                broken[entries["row"][repeats(entries, "hash")]] = CODES[rule]
        done = 0
        with zstandard.open(folder / "pairs", "rb") as file:
            while done < rows:
                batch = pickle.load(file)
                count = len(batch.codes)
                codes = np.maximum(batch.codes, broken[done : done + count])
                yield batch._replace(codes=codes)
                done += count


def _kept(
    batches: Iterator[Judged], found: Filtered, rejects: IO[bytes] | None, format: str, header: Sequence[str]
) -> Iterator[list[str | Pair]]:
    """The pairs that are kept of each batch; the rest goes to `rejects`, of this format, with the names that
    lines have in the header, if there is one; and all is counted."""
    dropped: Counter[int] = Counter()
    for records, _, _, codes, seen, as_tsv in batches:
        rows = np.flatnonzero(codes).tolist()
        if rejects is not None and rows:
            pairs = [str((as_tsv or records)[row]).split("\t") for row in rows]
            if format == Csv.name and not dropped:
                names = header[0].split("\t") if header else fields_of(len(pairs[0]))
                rejects.write(fields_line(["reason", "number", *names], format).encode())
            for row, pair in zip(rows, pairs, strict=True):
                reason = NAMES[codes[row]] + (f": {seen[row]}" if row in seen else "")
                fields = reason, str(found.read + row + 1), *pair
                rejects.write(fields_line(fields, format).encode())
        dropped.update(codes[rows].tolist())
        kept = np.flatnonzero(codes == 0).tolist()
        found.read += len(codes)
        found.kept += len(kept)
        found.dropped = {NAMES[code]: dropped[code] for code in sorted(dropped)}
        if kept:
            yield [records[row] for row in kept]


def _written(
    kept: Iterator[list[str | Pair]], bitext: OpenedPairs, format: str, left_out: Counter[str]
) -> Iterator[Chunk]:
    """The text of the outputs: lines as they are, below the header that they have, which then
    is not left out; pairs in the format, whose other values are left out."""
    first = next(kept, [])
    if first and isinstance(first[0], str):
        if bitext.header:
            del left_out[HEADER]
        batches = chain([bitext.header, first], kept)
        yield from ((("".join(f"{line}\n" for line in lines),), 0) for lines in batches)
        return
    pairs = (pair for batch in chain([first], kept) for pair in batch if not isinstance(pair, str))
    with_ids = any(any(pair[3:]) for pair in first)
    if not with_ids and formats()[format].ids == "wanted":
        pairs = _without_ids(pairs, widest(pair for pair in first if not isinstance(pair, str)), left_out)
    source, target = bitext.languages
    if format == Tmx.name:
        source, target = bitext.tags[0] or source, bitext.tags[1] or target
    yield from formats()[format].write(pairs, (source, target), with_ids)
    left_out.update(bitext.other_values if first else {})


def _without_ids(pairs: Iterator[Pair], kind: type | None, left_out: Counter[str]) -> Iterator[Pair]:
    """The pairs for a format whose columns the first ones say, which are of this kind and have no ids; what
    those of other kinds have is counted by `as_first`."""
    for pair in pairs:
        if type(pair) is kind and (values := sum(value is not None for value in pair[3:])):
            left_out["values that the first pairs have none of"] += values
        yield pair


def _write_report(
    job: FilterJob, spoken: tuple[str, str], output: dict[str, Any], found: Filtered, argv: Sequence[str]
) -> None:
    assert job.report is not None
    report = {
        "kind": "filter report",
        "version": __version__,
        "argv": list(argv),
        "inputs": [label_of(path) for path in job.inputs],
        "languages": list(spoken),
        "rules": job.limits,
        "exclude": list(map(str, job.exclude)),
        "read": found.read,
        "kept": found.kept,
        "dropped": found.dropped,
        "left_out": dict(found.left_out),
        "output": output,
        "rejects": str(job.rejects) if job.rejects else None,
    }
    write_json_atomic(job.report, report)
