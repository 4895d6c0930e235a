"""Recipes of `kind: corpus`: text in many languages in, parallel text of many pairs out (`mexma run`)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from mexma_cli import languages
from mexma_cli.settings.section import RunName, Section, in_a_tuple
from mexma_cli.settings.stages import (
    BUNDLED,
    AlignSettings,
    EmbedSettings,
    EncoderChoice,
    MineSettings,
    Retrieval,
    RuleSettings,
    SplitSettings,
    StoreType,
)

Code = str


class CorpusEncoder(EncoderChoice):
    """The encoder, as the [encoder options](cli.md#encoder-options)."""

    model: str = BUNDLED
    trust_remote_code: ClassVar[bool] = False  # pyrefly: ignore[bad-override]
    code_revision: ClassVar[None] = None  # pyrefly: ignore[bad-override]


class CorpusSplitting(SplitSettings):
    """How documents become sentences, as the options of [`mexma split`](cli.md#mexma-split)."""

    splitter_model: ClassVar[None] = None  # pyrefly: ignore[bad-override]
    rejects: bool = False
    """Keep what is dropped, with the reason."""


class TextFiles(Section):
    """Where the text of one language is."""

    input: tuple[str, ...] = Field(min_length=1)
    """Files, folders, globs or URLs, from `root`, with one sentence a line or, with `split`, documents."""
    split: CorpusSplitting | None = None
    """Split documents into sentences; `{}` for the defaults."""

    _one_or_more = field_validator("input", mode="before")(in_a_tuple)


class LanguageText(EmbedSettings, TextFiles):
    """The text of one language."""

    no_normalise: ClassVar[bool] = False  # pyrefly: ignore[bad-override]
    store_dtype: ClassVar[StoreType] = "float16"  # pyrefly: ignore[bad-override]


class UnitSizes(Section):
    """The size of units of work."""

    lines: int = Field(250_000, ge=1)
    """Lines that one unit embeds."""
    tile: int = Field(200_000, ge=1)
    """Rows of either side that one unit searches."""


class CorpusMining(MineSettings):
    """How pairs are mined, as the options of [`mexma mine`](cli.md#mexma-mine)."""

    retrieval: Retrieval = "max"
    memory: ClassVar[None] = None  # pyrefly: ignore[bad-override]
    within: bool = False
    """Look for pairs within documents of the same id only; needs `split`."""


class CorpusFilter(RuleSettings):
    """Pairs that are dropped by [rules](cli.md#rules), as the options of [`mexma
    filter`](cli.md#mexma-filter)."""

    rejects: bool = False
    """Keep what is dropped, with the reason."""


class CorpusOutput(Section):
    """The files of sentence pairs."""

    format: tuple[str, ...] = ("tsv",)
    """A [format of pairs](formats.md#mined-pairs), or several: `[tsv, tmx]`. Another format removes no file
    that an earlier run has written."""
    compression: str = ""
    """gz, bz2, xz, zst; empty: none. Parquet is compressed in itself."""
    with_ids: bool = False
    """Add line numbers, ranks, cosines and neighbourhood means, where the format can hold them."""
    to: str | None = None
    """URL (s3://, gs://, ...) to which pairs, report and thresholds are copied at the end."""

    _one_or_more = field_validator("format", mode="before")(in_a_tuple)


class SlurmSettings(Section):
    """Job arrays, for `--executor slurm`."""

    options: tuple[str, ...] = ()
    """Options of sbatch, each a word of its own, without quotes: `--partition=cpu`, `--time=2:00:00`,
    `--cpus-per-task=8`."""
    array: int = Field(1000, ge=1)
    """Tasks in an array, at most (Slurm's MaxArraySize less one); several units may share a task."""
    at_once: int = Field(0, ge=0)
    """Tasks of an array that run at the same time (0: Slurm's limit)."""
    setup: str = ""
    """Bash lines that run first on the node, as they are, such as `module load python`."""
    python: str | None = None
    """Path of Python on the nodes. null: the one that submits."""


class RaySettings(Section):
    """The Ray cluster, for `--executor ray`."""

    address: str | None = None
    """Address of a cluster; auto: the one of this machine. null: start one here."""
    cpus: int = Field(1, ge=1)
    """Cores for a unit."""
    gpus: float = Field(0, ge=0)
    """GPUs for a unit that embeds."""


class CorpusRecipe(Section):
    """A recipe for `mexma run`."""

    kind: Literal["corpus"]
    """Marks a recipe for `mexma run`."""
    name: RunName
    """Name of the run: letters, digits, `.`, `_` and `-`."""
    run: str
    """Folder of all results, from the current folder."""
    root: str = "."
    """Folder or URL that input paths start from. If relative, each input is looked for beside the recipe,
    then in the current folder."""
    encoder: CorpusEncoder = Field(default_factory=CorpusEncoder)
    """The encoder."""
    languages: dict[Code, LanguageText] = Field(min_length=1)
    """The text of each language, by its code."""
    pairs: Literal["all"] | Code | tuple[tuple[Code, Code], ...] = "all"
    """all: each language with each; a code: each language into this one; or a list of [source, target]."""
    units: UnitSizes = Field(default_factory=UnitSizes)
    """Size of units of work."""
    mine: CorpusMining = Field(default_factory=CorpusMining)
    """How pairs are mined."""
    align: AlignSettings | None = None
    """Align documents of the same id instead of mining; needs `split`. `{}` for the defaults."""
    filter: CorpusFilter | None = None
    """Drop pairs by rules; `{}` for the default ones."""
    output: CorpusOutput = Field(default_factory=CorpusOutput)
    """How pairs are written."""
    slurm: SlurmSettings = Field(default_factory=SlurmSettings)
    """Slurm's job arrays."""
    ray: RaySettings = Field(default_factory=RaySettings)
    """The Ray cluster."""

    @field_validator("languages", mode="after")
    @classmethod
    def _by_their_codes(cls, texts: dict[Code, LanguageText]) -> dict[Code, LanguageText]:
        codes = list(map(languages.resolve, texts))
        for one in codes:
            same = [typed for typed, code in zip(texts, codes, strict=True) if code == one]
            if len(same) > 1:
                raise ValueError(f"{' and '.join(same)} are one language, {one}: keep one of them")
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
        times = Counter(map(frozenset, wanted))
        for pair in wanted:
            if times[frozenset(pair)] > 1:
                raise ValueError(f"pairs: {'-'.join(pair)} is there twice, in one direction or in both")
        return self

    def language_pairs(self) -> list[tuple[Code, Code]]:
        """Source and target of every pair, FLORES-200 codes, in the order in which they are mined."""
        if self.pairs == "all":
            return list(combinations(self.languages, 2))
        if isinstance(self.pairs, str):
            pivot = languages.resolve(self.pairs)
            return [(code, pivot) for code in self.languages if code != pivot]
        return [(languages.resolve(source), languages.resolve(target)) for source, target in self.pairs]
