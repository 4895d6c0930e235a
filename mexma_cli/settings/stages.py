"""The settings of every stage, one model each: which encoder, how texts are split, embedded, searched, mined,
aligned, filtered and scored, and how evaluations are made that train something or make their own data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from mexma_cli.numerics.precisions import SHORT_NAMES
from mexma_cli.settings.section import Option, Score, Section

BUNDLED = "mini"

Dtype = Literal["auto", "fp32", "bf16", "fp16"]
Pooling = Literal["cls", "mean", "max", "weightedmean", "lasttoken", "pooler"]
"""How a sentence's states become one vector, by sentence-transformers' names; `pooler`: BERT's."""


def _known(device: str) -> str:
    if not re.fullmatch("auto|cpu|cuda(:[0-9]+)?", device):
        raise ValueError(f"unknown device {device!r}; it is auto, cpu, cuda or cuda:N")
    return device


Device = Annotated[str, AfterValidator(_known)]

_ENCODER = "Encoder options"
_OWN = "the encoder's own"


class EncoderChoice(Section):
    """Which encoder, and how it embeds."""

    model: Annotated[str | None, Option(_ENCODER, "NAME", unset=f"that of a given store, else {BUNDLED}")] = (
        None
    )
    """mini (bundled), a folder, or a hub id such as facebook/MEXMA."""
    revision: Annotated[str | None, Option(_ENCODER, "COMMIT", unset="the newest commit of main")] = None
    """Commit, tag or branch of a hub id."""
    device: Annotated[Device, Option(_ENCODER, "NAME")] = "auto"
    """Device for encoder and search: auto (a GPU if there is one), cpu, cuda or cuda:N."""
    dtype: Annotated[Dtype, Option(_ENCODER)] = "auto"
    """Precision. auto: bf16 where the device has instructions for it, else fp32 (fp16 on a GPU)."""
    pooling: Annotated[Pooling | None, Option(_ENCODER, unset=_OWN)] = None
    """How token states become the sentence vector."""
    max_tokens: Annotated[
        Annotated[int, Field(ge=3)] | Literal["encoder"] | None,
        Option(_ENCODER, "N|encoder", unset="200, or the encoder's limit if lower; in eval: encoder"),
    ] = None
    """Cut sentences to so many tokens; encoder: to as many as it takes."""
    prompt: Annotated[str | None, Option(_ENCODER, "NAME|TEXT", unset=_OWN)] = None
    """Text before every sentence ('query: ' for multilingual-e5), or the name of a prompt of the encoder."""
    task: Annotated[str | None, Option(_ENCODER, "TEXT", unset="none")] = None
    """The text for {task} in the prompt of an instruct encoder; or the name of an encoder's adapter."""
    dim: Annotated[int | None, Option(_ENCODER, "N", unset="all")] = Field(default=None, ge=1)
    """Keep the first N numbers of a vector, for encoders that are trained for it (Matryoshka)."""
    trust_remote_code: Annotated[bool, Option(_ENCODER)] = False
    """Run Python code from the encoder's folder, or from the hub at a --revision."""
    code_revision: Annotated[str | None, Option(_ENCODER, "COMMIT", unset="none: such code is refused")] = (
        None
    )
    """Commit of code that the encoder's folder takes from another page of the hub."""

    @property
    def name(self) -> str | None:
        """The model at its revision."""
        return f"{self.model}@{self.revision}" if self.revision else self.model

    @property
    def precision(self) -> str:
        """The `dtype` as `SentenceEncoder` names it: `bfloat16` for `bf16`."""
        return SHORT_NAMES.get(self.dtype, self.dtype)

    def to_measure(self) -> EncoderChoice:
        """In float32, and with as many tokens as the encoder takes, where nothing else is set: as the figures
        that one compares with."""
        usual = {"dtype": "fp32", "max_tokens": "encoder"}
        return self.but(**{key: value for key, value in usual.items() if key not in self.model_fields_set})


StoreType = Literal["float16", "float32", "int8"]


class EmbedSettings(Section):
    """How a text becomes a store."""

    clean: Annotated[bool, Option()] = False
    """Embed lines with punctuation normalised as in LASER and without control characters."""
    no_normalise: Annotated[bool, Option()] = False
    """Stop before the encoder's Normalize: vectors keep their lengths, as ORACLE's decomposers need them."""
    store_dtype: Annotated[StoreType, Option()] = "float16"
    """Type of the stored numbers; int8 has a scale for each vector, and takes half the space of float16."""


RawType = Literal["float16", "float32"]


class ConvertSettings(Section):
    """Settings of `mexma convert`: the shape and type of raw vectors."""

    dim: Annotated[int | None, Option(metavar="N")] = Field(default=None, ge=1)
    """Dimension of a raw file (LASER: 1024)."""
    dtype: Annotated[RawType, Option()] = "float32"
    """Type of the numbers in the file of vectors."""


IdentifierName = Literal["py3langid", "heliport", "none"]
"""Names of the language identifiers in `text.identify`."""


class RuleSettings(Section):
    """Which rules drop sentences and pairs."""

    on: Annotated[tuple[str, ...], Option(metavar="RULE[=LIMIT]")] = ()
    """Turn a rule on, NAME, or change its limit, NAME=LIMIT."""
    off: Annotated[tuple[str, ...], Option(metavar="RULE")] = ()
    """Turn a rule off; `all`: all but those that are turned on."""
    lid: Annotated[IdentifierName, Option()] = "py3langid"
    """Language identifier; heliport needs the extra `heliport`."""
    lid_model: Annotated[Path | None, Option(metavar="FILE")] = None
    """Identify languages with this fastText model, such as GlotLID (extra `fasttext`)."""


FileKind = Literal["text", "jsonl", "tmx", "html", "warc"]


class SplitSettings(RuleSettings):
    """How documents become sentences."""

    document: Annotated[Literal["line", "blank", "file"], Option()] = "line"
    """A document of a text file: one line, the lines between blank lines, or the whole file."""
    format: Annotated[FileKind | None, Option(unset="by their names")] = None
    """Format of the inputs."""
    text_field: Annotated[str, Option()] = "text"
    """JSONL: the field of the text."""
    id_field: Annotated[str, Option()] = "id"
    """JSONL: the field of the document's id."""
    error_pages: Annotated[bool, Option()] = False
    """WARC: pages of errors and redirects, such as those with HTTP status 404, are documents, too."""
    keep_html: Annotated[bool, Option()] = False
    """Leave tags and entities of HTML in the text, for the rule html."""
    splitter: Annotated[Literal["auto", "sentencex", "moses", "sat"], Option()] = "auto"
    """auto: sentencex or Moses' rules, whichever is better for the language. sat: wtpsplit's SaT."""
    splitter_model: Annotated[str | None, Option(metavar="FOLDER")] = None
    """Model for --splitter sat."""


MarginName = Literal["ratio", "distance", "absolute"]
"""Names of the margins in `mining.margin.MARGINS`."""

SCORING = "Scoring options"


TYPED_TOP = 5
"""Sentences that a search finds for a typed query."""


class ScoreSettings(Section):
    """How a pair is scored."""

    margin: Annotated[MarginName, Option(SCORING)] = "ratio"
    """Score of a pair: ratio c / b, distance c - b, absolute c (c: its cosine, b: the mean cosine of its
    neighbourhoods)."""
    k: Annotated[int, Option(SCORING, "N", ("-k", "--neighbourhood"))] = Field(default=4, ge=1)
    """Size of a neighbourhood, in sentences."""


class JudgingSettings(ScoreSettings):
    """How a pair is scored, and what gives the probability that it is a translation."""

    classifier: Annotated[Path | None, Option(SCORING, "FILE", unset="trained with mini")] = None
    """Weights of a classifier that `mexma classifier train` made, for the probability."""
    plugin: Annotated[Path | None, Option(SCORING, "FILE", unset="none")] = None
    """Python file with features of pairs of your own, for a classifier that was trained with them. It is run:
    read it first."""


EXACT = "exact"

_SEARCH = "Search options"
_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def bytes_of(typed: Any) -> Any:
    """A number of bytes such as 8G, 512M or 1.5G (powers of ten), or 8GiB (powers of two); a ValueError says
    that a text is no size."""
    if not isinstance(typed, str):
        return typed
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(I?)B?", typed.strip().upper())
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"{typed!r} is no size; write it like 8G or 512M")
    unit = 1024.0 ** (1 + "KMGT".index(found[2])) if found[3] else _UNITS[found[2]]
    return int(float(found[1]) * unit)


Size = Annotated[int, BeforeValidator(bytes_of)]
"""Bytes, as a number or as `bytes_of` reads them."""


class SearchSettings(Section):
    """How neighbours are found."""

    index: Annotated[str, Option(_SEARCH, "NAME")] = EXACT
    """exact, auto (a FAISS index where that is faster: for more than 300,000 lines with 300,000), or a FAISS
    factory string such as IVF4096,PQ128x4fs. All cosines are exact."""
    recall: Annotated[float, Option(_SEARCH, "SHARE")] = Field(default=0.95, gt=0, le=1)
    """Share of the neighbours that an approximate index must find."""
    memory: Annotated[
        Size | None, Option(_SEARCH, "SIZE", unset="1 to 1.5 GB more than the neighbours take")
    ] = None
    """Memory limit of this process, such as 8G."""


class KnnSettings(SearchSettings):
    """Settings of `mexma knn`: those of the search, and how many neighbours are kept."""

    k: Annotated[int, Option("Options", "N", ("-k", "--neighbourhood"))] = Field(default=16, ge=1)
    """Neighbours to keep for each sentence."""


Retrieval = Literal["max", "intersect", "forward", "backward"]

SELECTION = "Selection options"


class MineSettings(SearchSettings, JudgingSettings):
    """Which pairs come out."""

    score: Annotated[
        Literal["margin", "probability"] | None,
        Option(SCORING, unset="probability with mini, else margin; margin where --margin is given"),
    ] = None
    """probability: that a pair is a translation, judged by its ratio margin and its text (lengths, numbers,
    names, words); best pairs first, each sentence used once. margin: --margin, of the vectors alone."""
    retrieval: Annotated[Retrieval | Literal["all"], Option(SCORING, values=get_args(Retrieval))] = "max"
    """max: best pairs first, each sentence used once. intersect: pairs that are best for both sides. forward:
    the best target of every source. backward: the best source of every target."""
    threshold: Annotated[
        Score | Literal["auto"] | None, Option(SELECTION, "SCORE|auto", unset="0 with max, else none")
    ] = None
    """Keep pairs with a score above this; auto: above the threshold with the best F1, by the probabilities of
    the pairs."""
    precision: Annotated[float | None, Option(SELECTION, "SHARE", unset="none")] = Field(
        default=None, gt=0, le=1
    )
    """Instead of --threshold: keep the pairs above the lowest threshold with this precision, such as 0.95, by
    their probabilities."""
    max_score: Annotated[Score | None, Option(SELECTION, "SCORE", unset="none")] = None
    """Drop pairs with a score above this: near-copies. stopes has 1.25."""
    drop_copies: Annotated[bool, Option(SELECTION)] = False
    """Drop pairs with equal sides; case, numbers, punctuation and a few letters may differ."""
    top: Annotated[int | None, Option(SELECTION, "N", unset="all")] = Field(default=None, ge=1)
    """Keep so many of the best pairs, of those above the threshold."""

    @model_validator(mode="before")
    @classmethod
    def _who_names_a_margin_wants_margins(cls, given: Any) -> Any:
        named = isinstance(given, dict) and "margin" in given and "score" not in given
        return given | {"score": "margin"} if named else given

    @field_validator("precision")
    @classmethod
    def _one_threshold(cls, precision: float | None, others: ValidationInfo) -> float | None:
        if precision is not None and isinstance(others.data.get("threshold"), float):
            raise ValueError("precision is instead of a threshold: give one of them")
        return precision

    @property
    def finds(self) -> bool:
        """Whether the threshold is found by the probabilities of the pairs."""
        return self.precision is not None or self.threshold == "auto"

    @property
    def least(self) -> float | None:
        """The threshold as a number; None: 0 with `max`, else none, or not known yet."""
        return None if isinstance(self.threshold, str) else self.threshold


TUNED = [
    name
    for name in MineSettings.model_fields
    if name not in (*SearchSettings.model_fields, "threshold", "precision", "top")
]
"""Settings of mining that `mexma tune` takes: how pairs are scored, and which ones are looked at."""


class AlignSettings(Section):
    """How documents are aligned, as the options of [`mexma align`](cli.md#mexma-align)."""

    max_size: Annotated[int, Option(metavar="N")] = Field(default=5, ge=1, le=16)
    """Sentences of one side in an alignment, at most."""
    threshold: Annotated[Annotated[Score, Field(lt=1)] | None, Option(metavar="SCORE", unset="none; x<1")] = (
        None
    )
    """Keep alignments with a score above this."""
    min_aligned: Annotated[float | None, Option(metavar="SHARE", unset="none")] = Field(
        default=None, ge=0, le=1
    )
    """Keep pairs of documents of whose sentences this share is in an alignment."""
    chunks: Annotated[int | None, Option(metavar="WORDS", unset="whole")] = Field(default=None, ge=1)
    """Cut pairs of documents between alignments into pieces of at most so many words a side
    (`--format documents`)."""
    keep: Annotated[Literal["all", "1-1"], Option()] = "all"
    """1-1: only alignments of one sentence with one."""


class FineTuning(Section):
    """How an encoder is fine-tuned on pairs of sentences; the defaults are those of DAP's Table 9."""

    epochs: Annotated[int, Option(metavar="N")] = Field(default=2, ge=1)
    """Passes over MultiNLI."""
    batch: Annotated[int, Option(metavar="N")] = Field(default=256, ge=1)
    """Pairs in a step."""
    learning_rate: Annotated[float, Option(metavar="RATE")] = Field(default=5e-5, gt=0)
    """AdamW's rate; the DAP paper chose from 1e-5, 3e-5, 5e-5 and 7e-5."""
    max_tokens: int = 128
    """Longest pair of sentences."""
    seed: Annotated[int, Option(metavar="N")] = Field(default=42, ge=0)
    """Seed of the new layers and the order."""


class Switching(Section):
    """How a code-switched set is made."""

    sentences: Annotated[int, Option(metavar="N", flags=("-n", "--sentences"))] = Field(default=1000, ge=1)
    """Number of sentences."""
    rate: Annotated[float, Option(metavar="SHARE")] = Field(default=0.5, ge=0, le=1)
    """Share of the words in the dictionary that are replaced; at least one in a sentence."""
    seed: Annotated[int, Option(metavar="N")] = Field(default=42, ge=0)
    """Seed of all choices."""
