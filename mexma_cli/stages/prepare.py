"""Parallel text to BitextStores: read, filter, cap, tokenise; what was prepared before is kept.

Each corpus is read twice. The first pass decides about every pair (a reason code and a hash a pair, so
exact duplicates and the cap are settled without keeping text), the second tokenises what is kept.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from mexma_cli import languages
from mexma_cli.errors import MexmaError
from mexma_cli.recipe import Corpus, Data, Recipe
from mexma_cli.stages.tokenizer import recipe_tokenizer
from mexma_cli.store.bitext import MANIFEST, BitextManifest, BitextStore, BitextWriter
from mexma_cli.store.manifest import checksum_file
from mexma_cli.text.clean import REASONS, PairFilter, folded, pair_hash
from mexma_cli.text.lines import read_lines, scan

CAP_SEED = 42
"""A cap keeps the pairs with the smallest hashes under this seed, in whatever order they stand."""
_BATCH = 2000
_CODES = {reason: code for code, reason in enumerate(["", *REASONS])}


@dataclass(frozen=True)
class CorpusReport:
    """What became of one corpus in one language.

    Attributes:
        read: Pairs in the files; kept: pairs in the store; dropped: reason -> pairs.
        truncated: Sentences cut to max_tokens.
        tokens: Ids of both sides.
        reused: Prepared before with the same settings.
    """

    corpus: str
    language: str
    target: str
    read: int
    kept: int
    dropped: dict[str, int]
    truncated: int
    tokens: int
    path: str
    reused: bool


@dataclass
class _Job:
    """One corpus in one language."""

    data: Data
    corpus: Corpus
    language: str
    files: list[Path]
    keep: Path | None
    decisions: np.ndarray | None = field(default=None)
    """uint8 a pair: 0 kept, else a code of `_CODES`."""

    @property
    def path(self) -> Path:
        return store_path_of(self.data, self.corpus.name, self.language)

    @property
    def label(self) -> str:
        return f"{self.corpus.name} {self.language}"

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All about the text that decides what is in the store, as JSON gives it back."""
        data, corpus = self.data, self.corpus
        return {
            "format": corpus.format,
            "files": [[path.name, checksum_file(path)] for path in self.files],
            "keep": [corpus.keep.value, checksum_file(self.keep)] if corpus.keep and self.keep else None,
            "source": languages.resolve(self.language),
            "target": languages.resolve(corpus.target),
            "min_chars": data.min_chars,
            "max_chars": data.max_chars,
            "max_length_ratio": data.max_length_ratio,
            "drop_duplicates": data.drop_duplicates,
            "cap": corpus.cap,
            "cap_seed": CAP_SEED,
        }

    def pairs(self) -> Iterator[tuple[str | None, str, str]]:
        """Every pair of the files: a reason if it is dropped for its place, and both sides stripped."""
        rows = _tsv(self.files[0]) if self.corpus.format == "tsv" else _aligned(*self.files)
        if self.keep is None or self.corpus.keep is None:
            yield from rows
            return
        parts = read_lines(self.keep)
        for number, (row, part) in enumerate(zip_longest(rows, parts), start=1):
            if row is None or part is None:
                raise MexmaError(f"{self.keep} has not as many lines as {self.files[0]} (line {number})")
            reason, source, target = row
            yield (reason or ("other part" if part != self.corpus.keep.value else None)), source, target

    def kept(self) -> Iterator[tuple[str, str]]:
        """The pairs that were decided to be kept."""
        assert self.decisions is not None
        for code, (_, source, target) in zip(self.decisions.tolist(), self.pairs(), strict=True):
            if not code:
                yield source, target


def store_path(recipe: Recipe, corpus: str, language: str) -> Path:
    """The folder of one corpus (its name in the recipe) in one language (as the recipe writes it)."""
    return store_path_of(recipe.data, corpus, language)


def store_path_of(data: Data, corpus: str, language: str) -> Path:
    """`store_path` from the recipe's `data` alone."""
    return Path(data.store) / f"{corpus}.{language}"


def prepare(
    recipe: Recipe, on_progress: Callable[[int, int, str], object] | None = None
) -> list[CorpusReport]:
    """Make the stores of all corpora of a recipe; those with the same settings are left as they are.

    Args:
        recipe: Its `data` says which text; its `encoder` which tokeniser, or that one is to be trained.
        on_progress: Called with corpora done, corpora in all, and the one that is worked on.

    Raises:
        MexmaError: A file is missing or broken, a language unknown, no pair is left. All files are looked
            for before any work starts.
    """
    tell = on_progress or (lambda done, jobs, label: None)
    jobs = _jobs(recipe.data)
    excluded, fingerprint = _excluded(recipe.data)
    data = recipe.data
    rules = PairFilter(data.min_chars, data.max_chars, data.max_length_ratio, excluded)

    def decided(done: int, job: _Job) -> _Job:
        if job.decisions is None:
            tell(done, len(jobs), job.label)
            job.decisions = _decide(job, rules)
        return job

    def sentences() -> Iterator[str]:
        for job in jobs:
            for pair in decided(0, job).kept():
                yield from pair

    text = {"excluded": fingerprint, "corpora": [job.settings for job in jobs]}
    tokenizer = recipe_tokenizer(recipe, text, sentences)
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    digest = xxhash.xxh3_128_hexdigest(backend.to_str().encode())
    reports = []
    for done, job in enumerate(jobs):
        settings = job.settings | {
            "excluded": fingerprint,
            "tokenizer": digest,
            "max_tokens": data.max_tokens,
        }
        before = _prepared(job.path)
        if before is not None and before.settings == settings:
            reports.append(_report(job, before, reused=True))
            continue
        store = _tokenise(decided(done, job), backend, settings)
        job.decisions = None
        reports.append(_report(job, store.manifest, reused=False))
    tell(len(jobs), len(jobs), "")
    if not any(report.kept for report in reports):
        raise MexmaError("no pair is left in any corpus", "look at the filters in `data`")
    return reports


def _jobs(data: Data) -> list[_Job]:
    """Every corpus in every language, with its files found."""
    jobs: dict[Path, _Job] = {}
    for corpus in data.corpora:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", corpus.name):
            raise MexmaError(f"corpus {corpus.name!r}: a name is letters, digits, `.`, `_` and `-`")
        languages.resolve(corpus.target)
        names = [corpus.path] if corpus.format == "tsv" else [corpus.source_path, corpus.target_path]
        if len(corpus.languages) > 1 and not any("{lang}" in (name or "") for name in names):
            raise MexmaError(f"corpus {corpus.name!r} has several languages but no {{lang}} in its path")
        for language in corpus.languages:
            languages.resolve(language)
            files = [data.resolve(name.replace("{lang}", language)) for name in names if name]
            keep = data.resolve(corpus.keep.path.replace("{lang}", language)) if corpus.keep else None
            for path in [*files, *([keep] if keep else [])]:
                if not path.is_file():
                    what = "is a folder" if path.is_dir() else "no such file"
                    raise MexmaError(
                        f"{path}: {what} (corpus {corpus.name!r}, {language})",
                        f"paths are taken from `data.root`, which is {data.root}",
                    )
            job = _Job(data, corpus, language, files, keep)
            if job.path in jobs:
                raise MexmaError(
                    f"corpus {corpus.name!r} has {language} twice", "give each corpus its own name"
                )
            jobs[job.path] = job
    return list(jobs.values())


def _excluded(data: Data) -> tuple[set[int], str]:
    """Hashes of the sentences in the `exclude` files, and one of them all."""
    found: set[int] = set()
    for pattern in data.exclude:
        here, there = str(data.resolve(pattern)), pattern
        paths = sorted(glob.glob(here, recursive=True) or glob.glob(there, recursive=True))
        if not paths:
            raise MexmaError(f"data.exclude: no file is called {data.resolve(pattern)}")
        for path in paths:
            found |= folded(read_lines(path))
    hashes = np.sort(np.fromiter(found, dtype=np.uint64, count=len(found)))
    return found, xxhash.xxh3_128_hexdigest(hashes.tobytes())


def _tsv(path: Path) -> Iterator[tuple[str | None, str, str]]:
    for line in read_lines(path):
        source, tab, rest = line.partition("\t")
        target = rest.partition("\t")[0]
        yield (None if tab or not line.strip() else "malformed"), source.strip(), target.strip()


def _aligned(source_path: Path, target_path: Path) -> Iterator[tuple[str | None, str, str]]:
    for source, target in zip_longest(read_lines(source_path), read_lines(target_path)):
        if source is None or target is None:
            counts = [scan(path).lines for path in (source_path, target_path)]
            raise MexmaError(
                f"{source_path} has {counts[0]:,} lines, {target_path} has {counts[1]:,} lines",
                "line n of one must be the translation of line n of the other",
            )
        yield None, source.strip(), target.strip()


def _decide(job: _Job, rules: PairFilter) -> np.ndarray:
    """The first pass: for every pair 0 (kept) or why not."""
    codes, hashes = bytearray(), []
    for reason, source, target in job.pairs():
        code = _CODES[reason or rules.reason(source, target) or ""]
        codes.append(code)
        if not code:
            hashes.append(pair_hash(source, target, CAP_SEED))
    if not codes:
        raise MexmaError(f"{job.files[0]} has no lines")
    decisions = np.frombuffer(codes, dtype=np.uint8).copy()
    rows = np.flatnonzero(decisions == 0)
    ranks = np.array(hashes, dtype=np.uint64)
    if job.data.drop_duplicates:
        _, first = np.unique(ranks, return_index=True)
        again = np.ones(len(rows), dtype=bool)
        again[first] = False
        decisions[rows[again]] = _CODES["duplicate"]
        rows, ranks = rows[~again], ranks[~again]
    if job.corpus.cap and len(rows) > job.corpus.cap:
        beyond = np.argsort(ranks, kind="stable")[job.corpus.cap :]
        decisions[rows[beyond]] = _CODES["cap"]
    return decisions


def _tokenise(job: _Job, tokenizer: Any, settings: dict[str, Any]) -> BitextStore:
    """The second pass: write the store."""
    assert job.decisions is not None
    limit = job.data.max_tokens - 2
    dropped = {
        reason: int(np.count_nonzero(job.decisions == code)) for reason, code in _CODES.items() if code
    }
    truncated = 0
    with BitextWriter(job.path, tokenizer.get_vocab_size()) as writer:
        for batch in _batches(job.kept()):
            sides = []
            for texts in zip(*batch, strict=True):
                encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
                sides.append([encoding.ids for encoding in encodings])
            both = [(source, target) for source, target in zip(*sides, strict=True) if source and target]
            dropped["no tokens"] += len(batch) - len(both)
            truncated += sum(len(ids) > limit for pair in both for ids in pair)
            writer.write([source[:limit] for source, _ in both], [target[:limit] for _, target in both])
        return writer.finish(
            {
                "name": job.corpus.name,
                "source_language": settings["source"],
                "target_language": settings["target"],
                "tokenizer_fingerprint": settings["tokenizer"],
                "max_tokens": job.data.max_tokens,
                "read": len(job.decisions),
                "dropped": {reason: count for reason, count in dropped.items() if count},
                "truncated": truncated,
                "settings": settings,
            }
        )


def _batches(pairs: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch = []
    for pair in pairs:
        batch.append(pair)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _prepared(path: Path) -> BitextManifest | None:
    """The manifest of a whole store, None if there is none or it is damaged: then it is made again."""
    if not (path / MANIFEST).is_file():
        return None
    try:
        return BitextStore.open(path).manifest
    except MexmaError:
        return None


def _report(job: _Job, manifest: BitextManifest, reused: bool) -> CorpusReport:
    return CorpusReport(
        corpus=job.corpus.name,
        language=job.language,
        target=manifest.target_language,
        read=manifest.read,
        kept=manifest.kept,
        dropped=manifest.dropped,
        truncated=manifest.truncated,
        tokens=sum(manifest.tokens.values()),
        path=str(job.path),
        reused=reused,
    )
