"""One language's corpora to stores: how much is taken of each, which pairs, and their tokens.

This is what `prepare` does in every process. Corpora of one language come one after the other, because the
later ones fill up what the earlier ones leave (`cap_per_language`, `minimum_per_language`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from mexma_cli import languages
from mexma_cli.errors import MexmaError
from mexma_cli.files import MANIFEST
from mexma_cli.settings.training import Data
from mexma_cli.stages.prepare.corpora import Bitext
from mexma_cli.stages.prepare.selection import CAP_SEED, PairSelection, select
from mexma_cli.stages.prepare.tokenizer import SEED as NEGATIVES_SEED
from mexma_cli.stages.prepare.tokenizer import HardNegatives, Teacher, TeachersTargets, Tokens, load_backend
from mexma_cli.store.pairs import ExtraColumn, TokenisedPairs, TokenisedPairsManifest, TokenisedPairsWriter
from mexma_cli.text.rules import PairRules, chosen_limits

_BATCH = 2000
_OF_TOKENS = ("tokenizer", "max_tokens", "negatives", "teacher")
Make = Callable[[Bitext, int | None, dict[str, Any]], TokenisedPairsManifest]
"""From a corpus, the most pairs of it and the settings of its store to that."""
_BY_KEY = {"short": "min_chars", "long": "max_chars", "ratio": "max_length_ratio", "excluded": "exclude"}
"""The rules that have a key of their own in `data`."""


@dataclass(frozen=True)
class CorpusReport:
    """The result for one corpus in one language.

    Attributes:
        read: Pairs in the files; kept: pairs in the store; dropped: reason -> pairs.
        truncated: Sentences cut to max_tokens.
        tokens: Ids of both sides.
        negatives: Hard negatives: `kept`, and `alike`, left out because their tokens are their target's.
        reused: Prepared before with the same settings.
        skipped: Why nothing was read: ``no files``, or ``not needed`` (the language has enough); or empty.
    """

    corpus: str
    language: str
    target: str
    read: int
    kept: int
    dropped: dict[str, int]
    truncated: int
    tokens: int
    negatives: dict[str, int]
    path: str
    reused: bool
    skipped: str = ""


@dataclass
class Quota:
    """The number of pairs that a language may have of its next corpus: `kept` are those of the corpora
    before, `shares` what `data.fill: random` leaves to a corpus, by store."""

    data: Data
    kept: int = 0
    shares: dict[Path, int] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Data, chain: Sequence[Bitext], pairs: Callable[[Bitext, int], int | None]) -> Quota:
        """The quota of a language before its first corpus.

        Where shares are wanted, `pairs` says how many pairs a corpus could give, if no limit counted it
        together with others, up to the largest number that matters; where that is not known (None), a
        LookupError says so.
        """
        cap = data.cap_per_language
        quota = cls(data)
        if data.fill == "random" and cap:
            there = {}
            for bitext in chain:
                if bitext.parts and not bitext.corpus.top_up:
                    found = pairs(bitext, min(bitext.corpus.cap or cap, cap))
                    if found is None:
                        raise LookupError(bitext.label)
                    there[bitext.path] = min(found, bitext.corpus.cap or found)
            quota.shares = _shares(there, cap)
        return quota

    def limit(self, bitext: Bitext) -> int | None:
        """None: all."""
        corpus = bitext.corpus
        if not bitext.parts:
            return 0
        limits = [corpus.cap] if corpus.cap else []
        if self.data.cap_per_language:
            left = max(0, self.data.cap_per_language - self.kept)
            limits.append(self.shares.get(bitext.path, left))
        if corpus.top_up:
            limits.append(max(0, self.data.minimum_per_language - self.kept))
        return min(limits, default=None)


def _shares(there: dict[Path, int], cap: int) -> dict[Path, int]:
    """A cap divided in proportion to what is there, by largest remainders; nothing where all have room."""
    total = sum(there.values())
    if total <= cap:
        return {}
    shares = {path: count * cap // total for path, count in there.items()}
    by_remainder = sorted(there, key=lambda path: -(there[path] * cap % total))
    for path in by_remainder[: cap - sum(shares.values())]:
        shares[path] += 1
    return shares


@dataclass(frozen=True)
class CorpusPlan:
    """A corpus before it is tokenised: settings without the tokeniser's, and its pairs if they are chosen."""

    settings: dict[str, Any]
    selection: PairSelection | None


def rules_of(data: Data) -> dict[str, float]:
    """The rules for pairs that a recipe has, by name, with their limits; in `data.rules`, unknown ones and
    those with a key of their own are refused."""
    for name in data.rules.keys() & _BY_KEY.keys():
        raise MexmaError(f"`data.rules`: {name} has its own key", f"write it as `data.{_BY_KEY[name]}`")
    limits = {"short": data.min_chars, "long": data.max_chars, "ratio": data.max_length_ratio}
    on = ["missing", "excluded", *(f"{name}={limit}" for name, limit in limits.items() if limit)]
    on += [name if limit is True else f"{name}={limit}" for name, limit in data.rules.items() if limit]
    try:
        return chosen_limits(on, ["all"], ["sentence", "pair"])
    except MexmaError as error:
        raise MexmaError(f"`data.rules`: {error.message}", error.hint) from None


def pair_rules(data: Data, pair: tuple[str, str], excluded: Set[int] = frozenset()) -> PairRules:
    """The rules of a recipe for pairs of two languages; `excluded` as in `PairRules`."""
    limits = rules_of(data)
    named = "script" in limits  # else the ratio is the recipe's, in Chinese too
    scripts = (languages.script(pair[0]), languages.script(pair[1])) if named else (None, None)
    return PairRules(limits, scripts, excluded)


@dataclass
class LanguageWorker:
    """Does one chain of bitexts (the corpora of a language, or a single corpus) at a time.

    Attributes:
        excluded: Hashes of the sentences that are not for training, and their fingerprint.
        work: Folder for temporary files.
        selections: Pairs that were chosen already, by store.
        teacher: One that reads the targets otherwise than the encoder does.
    """

    data: Data
    excluded: tuple[Set[int], str]
    work: Path
    selections: dict[Path, PairSelection] = field(default_factory=dict)
    teacher: Teacher | None = None

    def work_on(self, chain: list[Bitext], what: str, argument: Any) -> tuple[Any, dict[str, list[Any]]]:
        """The result of a method for a chain, and the checksums of files that are known now."""
        return getattr(self, what)(chain, argument), chain[0].known

    def plan(self, chain: list[Bitext], choose: str) -> list[CorpusPlan] | None:
        """Settings of all bitexts of a chain. `choose` says which pairs to choose: ``none``, ``counts``
        (where a later limit needs their number) or ``all``. None if a number is not known and nothing may be
        chosen."""
        plans = []
        try:
            quota = self._quota(chain, choose != "none")
        except LookupError:
            return None
        for place, bitext in enumerate(chain):
            limit = quota.limit(bitext)
            settings = self._settings(bitext, limit)
            selection = self._selected(bitext, limit)
            before = prepared(bitext.path)
            known = before is not None and _of_text(before) == settings
            needed = choose == "all" or (place + 1 < len(chain) and not known)
            if selection is None and limit != 0 and needed:
                if choose == "none":
                    return None
                selection = self._select(bitext, limit)
            plans.append(CorpusPlan(settings, selection))
            if selection is not None:
                quota.kept += selection.kept
            elif known and before is not None:
                quota.kept += _chosen(before)
        return plans

    def write(self, chain: list[Bitext], tokenizer: Path) -> list[CorpusReport]:
        """Make the stores of a chain with a tokeniser (a file as `tokenizers` reads it); those with the same
        settings are left as they are."""
        backend, keeps_end, digest = load_backend(tokenizer.read_text(encoding="utf-8"))

        def make(bitext: Bitext, limit: int | None, settings: dict[str, Any]) -> TokenisedPairsManifest:
            selection = self._selected(bitext, limit)
            if selection is None and limit != 0:
                selection = self._select(bitext, limit)
            tokens = Tokens(backend, keeps_end, self.data.max_tokens)
            manifest = self._tokenise(bitext, selection, tokens, settings)
            if selection is not None:
                selection.path.unlink(missing_ok=True)
            return manifest

        reports = self._reports(chain, digest, make)
        assert reports is not None
        return reports

    def finished(self, chain: list[Bitext], digest: str) -> list[CorpusReport] | None:
        """The reports of a chain that was prepared before with the same settings; None if it was not."""
        try:
            return self._reports(chain, digest, None)
        except LookupError:
            return None

    def _reports(self, chain: list[Bitext], digest: str, make: Make | None) -> list[CorpusReport] | None:
        """A report of each store, which `make` makes where it is not there with the same settings; None where
        nothing makes it."""
        quota, reports = self._quota(chain, make is not None), []
        for bitext in chain:
            limit = quota.limit(bitext)
            settings = self._settings(bitext, limit) | self._tokens(bitext, digest)
            manifest = prepared(bitext.path)
            reused = manifest is not None and manifest.settings == settings
            if manifest is None or not reused:
                if make is None:
                    return None
                manifest = make(bitext, limit, settings)
            quota.kept += _chosen(manifest)
            reports.append(_report(bitext, manifest, reused, limit))
        return reports

    def _quota(self, chain: list[Bitext], may_choose: bool) -> Quota:
        """The quota of a chain's language; with `may_choose`, pairs are chosen where their number is wanted
        and not known."""

        def pairs(bitext: Bitext, most: int) -> int | None:
            found: PairSelection | TokenisedPairsManifest | None = self.selections.get(bitext.path)
            if found is None:
                found = prepared(bitext.path)
                if found and _of_text(found) | {"limit": None} != self._settings(bitext, None):
                    found = None
            if found is None and may_choose:
                found = self.selections[bitext.path] = self._select(bitext, most)
            return None if found is None else _chosen(found) + found.dropped.get("cap", 0)

        return Quota.of(self.data, chain, pairs)

    def _selected(self, bitext: Bitext, limit: int | None) -> PairSelection | None:
        """The pairs that were chosen already, if they are within the limit."""
        found = self.selections.get(bitext.path)
        return None if found is None or (limit is not None and found.kept > limit) else found

    def _settings(self, bitext: Bitext, limit: int | None) -> dict[str, Any]:
        """The settings that decide the text of a store; files that are not needed are left out."""
        wanted = bitext if limit != 0 else replace(bitext, parts=[], keep=None)
        return wanted.settings | {"limit": limit, "cap_seed": CAP_SEED, "excluded": self.excluded[1]}

    def _tokens(self, bitext: Bitext, digest: str) -> dict[str, Any]:
        data = self.data
        found: dict[str, Any] = {"tokenizer": digest, "max_tokens": data.max_tokens}
        if data.negatives:
            found["negatives"] = [bitext.corpus.negatives, data.negatives, NEGATIVES_SEED]
        if self.teacher:
            found["teacher"] = [self.teacher.digest, self.teacher.prefix]
        return found

    def _select(self, bitext: Bitext, limit: int | None) -> PairSelection:
        return select(bitext, pair_rules(self.data, bitext.pair, self.excluded[0]), limit, self.work)

    def _tokenise(
        self, bitext: Bitext, selection: PairSelection | None, tokens: Tokens, settings: dict[str, Any]
    ) -> TokenisedPairsManifest:
        """The second reading: write the store (an empty one where there is no selection)."""
        bare = 0
        negatives = HardNegatives(self.data, bitext.corpus, tokens) if self.data.negatives else None
        kinds: dict[ExtraColumn, HardNegatives | TeachersTargets] = {}
        if negatives:
            kinds["negatives"] = negatives
        if self.teacher:
            kinds["teacher"] = TeachersTargets(self.teacher, self.data.max_tokens)
        pairs = selection.pairs(bitext) if selection is not None else iter(())
        extra = {name: kind.extra for name, kind in kinds.items()}
        with TokenisedPairsWriter(bitext.path, tokens.vocabulary, extra) as writer:
            while batch := list(islice(pairs, _BATCH)):
                sources, targets, _ = zip(*batch, strict=True)
                sides = tokens.of(sources), tokens.of(targets)
                kept = [row for row, pair in enumerate(zip(*sides, strict=True)) if all(pair)]
                bare += len(batch) - len(kept)
                source, target = (tokens.cut([side[row] for row in kept]) for side in sides)
                texts = [batch[row] for row in kept]
                writer.write(source, target, {name: kind.of(texts, target) for name, kind in kinds.items()})
            dropped = dict(selection.dropped) if selection is not None else {}
            facts = {
                "name": bitext.corpus.name,
                "source_language": settings["source"],
                "target_language": settings["target"],
                "tokenizer_fingerprint": settings["tokenizer"],
                "max_tokens": self.data.max_tokens,
                "read": selection.read if selection is not None else 0,
                "dropped": dropped | ({"no tokens": bare} if bare else {}),
                "truncated": tokens.cuts,
                "negatives": dict(negatives.counts) if negatives else {},
                "settings": settings,
            }
            return writer.finish(facts).manifest


def prepared(path: Path) -> TokenisedPairsManifest | None:
    """The manifest of a whole store, None if there is none or it is damaged: then it is made again."""
    if not (path / MANIFEST).is_file():
        return None
    try:
        return TokenisedPairs.open(path).manifest
    except MexmaError:
        return None


def _of_text(manifest: TokenisedPairsManifest) -> dict[str, Any]:
    return {key: value for key, value in manifest.settings.items() if key not in _OF_TOKENS}


def _chosen(found: PairSelection | TokenisedPairsManifest) -> int:
    """Pairs that were chosen, before some turned out to have no tokens."""
    return found.kept + found.dropped.get("no tokens", 0)


def _report(
    bitext: Bitext, manifest: TokenisedPairsManifest, reused: bool, limit: int | None
) -> CorpusReport:
    return CorpusReport(
        corpus=bitext.corpus.name,
        language=bitext.language,
        target=manifest.target_language,
        read=manifest.read,
        kept=manifest.kept,
        dropped=manifest.dropped,
        truncated=manifest.truncated,
        tokens=sum(manifest.tokens.values()),
        negatives=manifest.negatives,
        path=str(bitext.path),
        reused=reused,
        skipped="no files" if not bitext.parts else "not needed" if limit == 0 else "",
    )
