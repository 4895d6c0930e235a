"""Recipes of `kind: corpus`: text in many languages in, parallel text of many pairs out (`mexma run`)."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

from pydantic import Field, field_validator, model_validator

from mexma_cli import languages
from mexma_cli.recipe.section import Section

Code = str
NAMED = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class CorpusEncoder(Section):
    """The encoder of all languages, or of one; as the options of `mexma embed`."""

    model: str = "mini"
    """A bundled encoder, a folder or a hub id."""
    revision: str | None = None
    """Commit, tag or branch of the hub id."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    dtype: str = "auto"
    """auto, fp32, bf16 or fp16."""
    pooling: Literal["cls", "mean"] | None = None
    """What becomes the sentence vector, where the encoder does not say."""
    max_tokens: int | None = Field(None, ge=1)
    """Longer sentences are cut."""
    prefix: str | None = None
    """The prompt before every sentence."""


class Splitting(Section):
    """How documents become sentences, as the options of `mexma split`."""

    document: Literal["line", "blank", "file"] = "line"
    """In text: a line is a document, or what stands between blank lines, or the whole file."""
    format: str | None = None
    """Of all files, whatever their names are."""
    text_field: str = "text"
    """In JSONL."""
    id_field: str = "id"
    """In JSONL."""
    on: tuple[str, ...] = ()
    """Rules that are turned on, NAME or NAME=LIMIT."""
    off: tuple[str, ...] = ()
    """Rules that are turned off."""
    splitter: str = "auto"
    """auto, sentencex, moses or sat."""
    lid: str = "py3langid"
    """What tells languages: py3langid or heliport."""
    lid_model: str | None = None
    """A fastText model that tells them instead."""
    rejects: bool = False
    """Keep what is dropped, with its reason."""


class LanguageText(Section):
    """The text in one language."""

    input: tuple[str, ...] = Field(min_length=1)
    """Files, folders, globs or URLs, from `root`: of one sentence a line or, with `split`, of documents."""
    split: Splitting | None = None
    """The input is documents, which are split into sentences: `{}` with the usual rules."""
    known: str | None = None
    """A file whose line n is the translation of line n of the other languages' (NTREX-128, a dev set); with
    it, thresholds are surer."""
    clean: bool = False
    """Embed lines without control characters, with their punctuation normalised; they stay as they are."""

    @field_validator("input", mode="before")
    @classmethod
    def _one_or_more(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value


class UnitSizes(Section):
    """How work is cut into units, each done by one process and kept when it is done."""

    lines: int = Field(250_000, ge=1)
    """Lines that are embedded by one unit."""
    tile: int = Field(200_000, ge=1)
    """Rows of either side whose neighbours are searched by one unit."""


class CorpusMining(Section):
    """As the options of `mexma mine`."""

    margin: str = "ratio"
    """ratio, distance or absolute."""
    k: int = Field(4, ge=1)
    """Neighbours that make up a neighbourhood."""
    retrieval: str = "max"
    """max, intersect, forward or backward."""
    threshold: float | Literal["auto"] | None = None
    """Keep scores above this. auto: found for each pair, see `precision`. None: 0 with `max`, all with the
    others."""
    precision: float | None = Field(None, gt=0, lt=1)
    """With threshold auto: the share of translations that is wanted among the pairs. None: the threshold with
    the best F1."""
    max_score: float | None = None
    """Keep scores up to this."""
    within: bool = False
    """Only pairs from documents of the same id; the texts have `split`."""
    drop_copies: bool = False
    """Leave out pairs whose sides are copies of one another."""
    index: str = "exact"
    """How neighbours are found. exact: all. auto: exactly up to 300,000 lines with 300,000, then with FAISS
    indexes by size. Or a FAISS factory string with lists, such as IVF4096,PQ128x4fs."""
    recall: float = Field(0.95, gt=0, le=1)
    """With an index: the share of the neighbours that it is made to find."""
    top: int | None = Field(None, ge=1)
    """Keep so many of the best of a pair."""


class CorpusAligning(Section):
    """As the options of `mexma align`."""

    max_size: int = Field(5, ge=1)
    """Sentences on both sides of an alignment, at most."""
    threshold: float | None = None
    """Keep scores above this."""
    keep: Literal["all", "1-1"] = "all"
    """1-1: only alignments of one sentence on each side."""


class CorpusFilter(Section):
    """Which pairs are dropped by rules, as the options of `mexma filter`."""

    on: tuple[str, ...] = ()
    """Rules that are turned on, NAME or NAME=LIMIT."""
    off: tuple[str, ...] = ()
    """Rules that are turned off."""
    lid: str = "py3langid"
    """What tells languages: py3langid or heliport."""
    lid_model: str | None = None
    """A fastText model that tells them instead."""
    rejects: bool = False
    """Keep what is dropped, with its reason."""


class CorpusOutput(Section):
    """The files of sentence pairs."""

    format: str = "tsv"
    """One of those that `mexma mine --format` lists."""
    compression: str = ""
    """gz, bz2, xz, zst, or none."""
    with_ids: bool = False
    """Lines in both texts, ranks, cosines and neighbourhoods, where the format has a place for them."""
    to: str | None = None
    """A URL (s3://, gs://, ...) to which pairs, report and thresholds are copied when all is done."""


class SlurmSettings(Section):
    """How units become tasks of job arrays, with `--executor slurm`."""

    options: tuple[str, ...] = ()
    """Of sbatch, for every array: `--partition=cpu`, `--time=2:00:00`, `--cpus-per-task=8`."""
    array: int = Field(1000, ge=1)
    """Tasks of an array at most (Slurm's MaxArraySize less one); more units share them."""
    at_once: int = Field(0, ge=0)
    """Tasks of an array that run at the same time (0: as many as Slurm lets)."""
    setup: str = ""
    """Lines of bash before the work, such as `module load python`."""
    python: str | None = None
    """The interpreter on the nodes; the one that submits, where it is left out."""


class RaySettings(Section):
    """What a unit takes of a Ray cluster, with `--executor ray`."""

    address: str | None = None
    """Of a cluster that is there (auto: the one that this machine belongs to); else one is started here."""
    cpus: int = Field(1, ge=1)
    """Cores of a unit."""
    gpus: float = Field(0, ge=0)
    """GPUs of a unit that embeds."""


class CorpusRecipe(Section):
    """A whole run, resolved."""

    kind: Literal["corpus"]
    """Tells such a recipe from one that trains an encoder, which has no `kind`."""
    name: str = Field(pattern=NAMED)
    """The run's, for people: letters, digits, `.`, `_` and `-`."""
    run: str
    """Folder for all that the run makes."""
    root: str = "."
    """Paths of inputs are taken from this folder; it may be a URL."""
    encoder: CorpusEncoder = Field(default_factory=lambda: CorpusEncoder.model_validate({}))
    """What embeds the texts."""
    languages: dict[Code, LanguageText] = Field(min_length=1)
    """Language code -> its text."""
    pairs: Literal["all"] | Code | tuple[tuple[Code, Code], ...] = "all"
    """all: each language with each; a code: each with that language as its target; or a list of [source,
    target]."""
    units: UnitSizes = Field(default_factory=lambda: UnitSizes.model_validate({}))
    """How the work is cut."""
    mine: CorpusMining = Field(default_factory=lambda: CorpusMining.model_validate({}))
    """Which pairs come out."""
    align: CorpusAligning | None = None
    """In place of mining: documents of the same id are aligned, their sentences in order. The texts have
    `split`."""
    filter: CorpusFilter | None = None
    """Rules for the pairs: `{}` with the usual ones."""
    output: CorpusOutput = Field(default_factory=lambda: CorpusOutput.model_validate({}))
    """How they are written."""
    slurm: SlurmSettings = Field(default_factory=lambda: SlurmSettings.model_validate({}))
    """Where Slurm is."""
    ray: RaySettings = Field(default_factory=lambda: RaySettings.model_validate({}))
    """Where Ray is."""

    @field_validator("languages", mode="after")
    @classmethod
    def _by_their_codes(cls, texts: dict[Code, LanguageText]) -> dict[Code, LanguageText]:
        codes = list(map(languages.resolve, texts))
        for typed, code in zip(texts, codes, strict=True):
            if codes.count(code) > 1:
                raise ValueError(f"{typed} is {code}, which is there twice")
        return dict(zip(codes, texts.values(), strict=True))

    @field_validator("pairs", mode="before")
    @classmethod
    def _pairs_are_lists(cls, given: object) -> object:
        pairs = given if isinstance(given, list | tuple) else () if isinstance(given, str) else (None,)
        if all(
            isinstance(pair, list | tuple) and [type(code) for code in pair] == [str, str] for pair in pairs
        ):
            return given
        raise ValueError("should be `all`, a language, or a list of pairs such as [[fra, eng], [deu, eng]]")

    @model_validator(mode="after")
    def _pairs_have_texts(self) -> CorpusRecipe:
        wanted = self.language_pairs()
        for code in [code for pair in wanted for code in pair] or [str(self.pairs)]:
            if code not in self.languages:
                raise ValueError(f"pairs: {code} is none of the languages, {', '.join(self.languages)}")
        for source, target in wanted:
            if source == target:
                raise ValueError(f"pairs: {source} with itself: `mexma mine` finds the paraphrases in a text")
        if self.align or self.mine.within:
            for code in sorted({code for pair in wanted for code in pair}):
                if self.languages[code].split is None:
                    key = "align" if self.align else "mine.within"
                    raise ValueError(f"{key} needs documents: languages.{code} has no `split`")
        if len({frozenset(pair) for pair in wanted}) < len(wanted):
            raise ValueError("pairs: one is there twice")
        return self

    def language_pairs(self) -> list[tuple[Code, Code]]:
        """Source and target of every pair, FLORES-200 codes, in the order in which they are mined."""
        if self.pairs == "all":
            return list(combinations(self.languages, 2))
        if isinstance(self.pairs, str):
            pivot = languages.resolve(self.pairs)
            return [(code, pivot) for code in self.languages if code != pivot]
        return [(languages.resolve(source), languages.resolve(target)) for source, target in self.pairs]
