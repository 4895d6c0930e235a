"""The sections of a recipe but for the objectives: text, encoder, trainer, phases, dev sets."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, SerializeAsAny, model_validator

from mexma_cli import languages
from mexma_cli.recipe.registry import ObjectiveSettings
from mexma_cli.recipe.section import Folder, Section

Beta = Annotated[float, Field(ge=0, lt=1)]


class Keep(Section):
    """Use line n of a corpus only where line n of the file `path` is `value`."""

    path: str
    """Has as many lines as the corpus; `{lang}` as in the corpus's own path."""
    value: str
    """The whole line."""


class Corpus(Section):
    """Parallel text of one kind; `{lang}` in a path stands for each code in `languages`."""

    name: str
    """Begins the names of its stores: letters, digits, `.`, `_` and `-`."""
    format: Literal["tsv", "aligned", "opus", "mtdata"]
    """tsv: one file of pairs; aligned: two files of lines; opus: Moses zips or files; mtdata: its folders."""
    languages: tuple[str, ...] = Field(min_length=1)
    """Where it is left out: those of `data.languages`, and the corpus is `optional`. Of more languages than
    `data.languages` has, these are taken."""
    target: str = "eng_Latn"
    """Language of the other side, the same in the whole corpus."""
    path: str | None = None
    """tsv: source TAB target, further columns ignored (but see `negatives`). opus, mtdata: a folder, or a
    glob of files and folders; what is in them is found by its names, in either order of the languages
    (formats/moses.py)."""
    source_path: str | None = None
    """aligned: two files, line n with line n; an empty line is a missing sentence."""
    target_path: str | None = None
    """aligned: the second of the two files."""
    keep: Keep | None = None
    """tsv, aligned: of the corpus only the lines that another file marks."""
    optional: bool = False
    """The corpus may lack some of its languages; a language that no corpus has is an error all the same."""
    top_up: bool = False
    """Taken only as far as a language is short of `data.minimum_per_language`, after all other corpora."""
    cap: int = Field(0, ge=0)
    """At most so many pairs a language (0: all)."""
    repeat: float = Field(1.0, gt=0)
    """How often a pair is seen against the other corpora."""
    negatives: Literal["made", "columns"] = "made"
    """Where the targets' hard negatives come from, if `data.negatives` asks for them: made of English targets
    by the rules of `mexma augment`; or the further columns of a tsv, one in each, mined or a model's."""

    @model_validator(mode="after")
    def _paths_fit_the_format(self) -> Corpus:
        if self.format == "aligned" and not (self.source_path and self.target_path):
            raise ValueError(f"corpus {self.name!r}: format aligned needs `source_path` and `target_path`")
        if self.format != "aligned" and not self.path:
            raise ValueError(f"corpus {self.name!r}: format {self.format} needs `path`")
        if self.keep and self.format in ("opus", "mtdata"):
            raise ValueError(f"corpus {self.name!r}: `keep` goes with tsv and aligned only")
        if self.negatives == "columns" and self.format != "tsv":
            raise ValueError(f"corpus {self.name!r}: `negatives: columns` are of format tsv only")
        return self


class Data(Section):
    """Which text, and what is dropped from it."""

    root: str = "."
    """Paths below are taken from this folder."""
    store: Folder
    """Where `prepare` writes the tokenised pairs."""
    languages: tuple[str, ...] = ()
    """Where given, no others are taken; a corpus that lists none itself is searched for all of them."""
    codes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """opus, mtdata: a language -> how files spell it, where that is not a usual code for it."""
    cap_per_language: int = Field(0, ge=0)
    """At most so many pairs a language over all corpora, filled in the order of the corpora (0: all)."""
    minimum_per_language: int = Field(0, ge=0)
    """Up to so many pairs a language are made up from the corpora with `top_up`; 0: these are not used."""
    max_tokens: int = Field(200, ge=3)
    """With <s> and </s> (paper section 7.5); not more than the encoder takes."""
    min_chars: int = Field(1, ge=0)
    """Pairs with a side of fewer characters are dropped."""
    max_chars: int = Field(1000, ge=1)
    """Pairs with a side of more characters are dropped."""
    max_length_ratio: float = Field(3.0, ge=0)
    """Longer side over shorter side in characters, each plus 10 (0: no limit)."""
    rules: dict[str, bool | float] = Field(default_factory=dict)
    """More rules of `mexma filter`, by name: a limit, or `true` for the usual one."""
    negatives: int = Field(0, ge=0)
    """At most so many hard negatives of each target: sentences that look like it and say something else. An
    objective takes them by its `hard_negatives`; a corpus's `negatives` says where they come from."""
    drop_duplicates: bool = True
    """Of equal pairs in a corpus and language, one is kept."""
    exclude: tuple[str, ...] = ()
    """Text files (globs, from `root` or else from the current folder) with a sentence in a line or a column;
    pairs with such a sentence are dropped."""
    corpora: tuple[Corpus, ...] = Field(min_length=1)
    """The text itself."""

    @model_validator(mode="before")
    @classmethod
    def _shared_languages(cls, raw: Any) -> Any:
        """Give `languages` to the corpora that have none."""
        if not isinstance(raw, dict) or not raw.get("languages") or not isinstance(raw.get("corpora"), list):
            return raw
        shared = {"languages": raw["languages"], "optional": True}
        corpora = [
            shared | corpus if isinstance(corpus, dict) and "languages" not in corpus else corpus
            for corpus in raw["corpora"]
        ]
        return raw | {"corpora": corpora}

    @model_validator(mode="after")
    def _limits_fit_together(self) -> Data:
        topping = [corpus.name for corpus in self.corpora if corpus.top_up]
        if topping and "minimum_per_language" not in self.model_fields_set:
            raise ValueError(f"corpus {topping[0]!r}: `top_up` needs `data.minimum_per_language`")
        if self.minimum_per_language and not topping:
            raise ValueError("`minimum_per_language` needs a corpus with `top_up: true`")
        if 0 < self.cap_per_language < self.minimum_per_language:
            raise ValueError("`minimum_per_language` is above `cap_per_language`")
        return self

    def taken(self, corpus: Corpus) -> tuple[str, ...]:
        """The languages that are taken from a corpus, as it spells them.

        Raises:
            MexmaError: A language is unknown.
        """
        if corpus.top_up and not self.minimum_per_language:
            return ()
        wanted = set(map(languages.resolve, self.languages or corpus.languages))
        return tuple(code for code in corpus.languages if languages.resolve(code) in wanted)

    def resolve(self, path: str) -> Path:
        """A path of the recipe, seen from `root`."""
        return Path(self.root).expanduser() / path

    def pattern(self, path: str) -> str:
        """A glob of the recipe, seen from `root`, in whose own name `[`, `*` and `?` are letters."""
        return str(Path(glob.escape(str(Path(self.root).expanduser()))) / path)


class TrainTokenizer(Section):
    """A Unigram tokeniser in XLM-R's layout, trained on the prepared text."""

    vocabulary: int = Field(32000, ge=300)
    """Tokens in all, with <s>, </s>, <pad>, <unk> and <mask>."""
    lowercase: bool = False
    """Text is read in lower case."""
    latin: bool = False
    """Cyrillic letters as Latin ones, and letters without accents and vowel points: what is
    spelled alike in two languages has the same tokens, whatever its script. In Vietnamese accents stay."""
    words: int = Field(0, ge=0)
    """So many of the vocabulary are whole words, those that training sees most often (with the corpora's
    `repeat`), and the other pieces are for the rest; 0: pieces alone, as in XLM-R. In scripts without spaces
    (text/unspaced.py) words are signs and pairs of them."""
    max_sentences: int = Field(2_000_000, ge=1)
    """Of more sentences about so many are learned from, chosen by a hash."""
    seed: int = 42
    """Of that choice."""


class NewEncoder(Section):
    """The shape of an XLM-R that starts from nothing."""

    layers: int = Field(4, ge=1)
    """Transformer layers."""
    width: int = Field(256, ge=4)
    """Numbers of a token's state, and so of a sentence vector; a multiple of `heads`."""
    heads: int = Field(4, ge=1)
    """Attention heads of a layer."""
    ffn: int = Field(1024, ge=1)
    """Width of a layer's feed-forward part."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of the states that is dropped in training."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of the attention weights that is dropped in training."""


class Encoder(Section):
    """What the training starts from: a name or folder (`from`), or a `new` encoder with its tokeniser."""

    start: str | None = Field(None, alias="from")
    """An encoder's name (`mini`, a hub id) or folder."""
    new: NewEncoder | None = None
    """The shape of an encoder with random weights; it needs `tokenizer`."""
    tokenizer: TrainTokenizer | None = None
    """How the tokeniser of a `new` encoder is trained."""
    pooling: Literal["cls", "mean"] | None = None
    """How a vector is made of the tokens' states, and nothing after it: in place of the folder's pooling,
    modules and prefix. None: as the folder has it; a `new` encoder has cls."""
    attention: Literal["auto", "xformers", "varlen", "bucketed"] = "auto"
    """What computes attention in training: xformers and varlen (torch's own) need a GPU; auto takes what the
    device runs best."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Replaces the share in the configuration of the encoder that training starts from, which is 0.1 for
    XLM-R; the authors' code has none."""

    @model_validator(mode="after")
    def _one_start(self) -> Encoder:
        if (self.start is None) == (self.new is None):
            raise ValueError("encoder needs either `from` (a name or a folder) or `new` (a shape)")
        if self.new is not None and self.tokenizer is None:
            raise ValueError("a new encoder needs `tokenizer`")
        if self.start is not None and self.tokenizer is not None:
            raise ValueError("`tokenizer` is for a `new` encoder: one that is there (`from`) has its own")
        return self


class TrainerSettings(Section):
    """How long, how fast, and how often something is written down."""

    steps: int = Field(ge=1)
    """Optimiser steps."""
    batch_pairs: int = Field(150, ge=1)
    """Pairs in a micro-batch of each process; a step takes `accumulate` times as many, in every process."""
    accumulate: int = Field(2, ge=1)
    """Micro-batches in a step."""
    learning_rate: float = Field(1e-4, gt=0)
    """The highest one, after the warm-up."""
    embedding_rate: float = Field(1.0, ge=0)
    """Learning rate of the word embeddings as a share of `learning_rate` (0: frozen)."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How the rate falls to 0 after the warm-up; constant: it stays."""
    warmup: float = Field(0.3, ge=0)
    """Share of the steps over which the rate rises from a tenth to the whole; above 1 the run ends before."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's, of matrices alone."""
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """AdamW's, both below 1. A bag of embeddings takes the second one, without momentum."""
    eps: float = Field(1e-8, gt=0)
    """AdamW's."""
    clip: float = Field(1.2, ge=0)
    """Largest gradient norm (0: none)."""
    average: float = Field(0.0, ge=0, lt=1)
    """Decay of a running mean of the weights, which is what is exported (0: the last weights)."""
    temperature: float = Field(1.0, ge=1)
    """Languages are drawn in proportion to pairs ** (1 / temperature)."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """What the passes are computed in; the weights stay float32. auto: bf16 where the device multiplies it
    natively, fp16 on other GPUs, fp32 on other processors."""
    device: str = "auto"
    """auto (a GPU if there is one), cpu, cuda or cuda:N."""
    seed: int = Field(42, ge=0)
    """Of the order of pairs, masks, dropout and new weights."""
    log_every: int = Field(10, ge=1)
    """Steps between two records in log.jsonl."""
    checkpoint_every: int = Field(1500, ge=1)
    """Steps between two checkpoints."""
    keep: int = Field(2, ge=0)
    """So many checkpoints, the last ones, besides the one with the best dev score; 0: the last one while it
    trains, and none once the encoder is there."""
    dev_every: int = Field(0, ge=0)
    """Steps between two scores on the dev sets (0: only at the end)."""
    export: Literal["last", "best"] = "last"
    """Which weights become the encoder: the last ones (the paper names no choice by a dev set), or those
    with the lowest mean xsim error."""
    sharding: Literal["none", "full"] = "none"
    """With several processes: whole weights in each, or a part of the weights in each (FSDP2)."""
    activation_checkpointing: bool = False
    """Less memory for a third more computation: layers are run again on the way back."""
    loggers: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Where the log goes besides log.jsonl."""


class Phase(Section):
    """One training: an objective and a trainer, under a name that becomes a folder."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    """Small letters, digits, `_` and `-`."""
    objective: Annotated[SerializeAsAny[ObjectiveSettings], PlainValidator(ObjectiveSettings.chosen)]
    """The losses, by the objective's `name`."""
    trainer: TrainerSettings
    """How long and how fast; the recipe's own `trainer` stands behind it."""


class DevSet(Section):
    """Line-aligned files for xsim during training, seen from `data.root`; `{lang}` as in a corpus."""

    path: str
    """Sentences of each language, a line each."""
    target_path: str
    """Their translations, line n of line n."""
    languages: tuple[str, ...] = Field(min_length=1)
    """Codes that stand for `{lang}`; the score is the mean over them."""

    @model_validator(mode="after")
    def _a_file_for_each_language(self) -> DevSet:
        if len(self.languages) > 1 and "{lang}" not in self.path + self.target_path:
            raise ValueError("there are several `languages`, but no {lang} in `path` or `target_path`")
        return self


class Recipe(Section):
    """A whole run, resolved."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """The run's, for people: letters, digits, `.`, `_` and `-`."""
    run: Folder
    """Folder for checkpoints, log and the finished encoder."""
    data: Data
    """Which text."""
    encoder: Encoder
    """What the training starts from."""
    phases: tuple[Phase, ...] = Field(min_length=1)
    """Trainings one after the other, each from the encoder that the one before left; a recipe with one phase
    may have `objective` and `trainer` at its top instead."""
    dev: DevSet | None = None
    """What `trainer.dev_every` scores the encoder on."""

    @model_validator(mode="after")
    def _a_folder_for_each_phase(self) -> Recipe:
        names = [phase.name for phase in self.phases]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two phases have the name {name!r}")
            if name == "encoder":
                raise ValueError("a phase cannot be named 'encoder': the finished encoder's folder is")
        return self

    @model_validator(mode="after")
    def _one_teacher(self) -> Recipe:
        if len(self._teachers) > 1:
            raise ValueError(f"a recipe has one `teacher`, and not several: {', '.join(self._teachers)}")
        return self

    @property
    def _teachers(self) -> list[str]:
        named = (getattr(phase.objective, "teacher", None) for phase in self.phases)
        return list(dict.fromkeys(filter(None, named)))

    @property
    def teacher(self) -> str | None:
        """The encoder that a phase learns from, if one is named."""
        return next(iter(self._teachers), None)

    @model_validator(mode="after")
    def _hard_negatives_are_there_and_used(self) -> Recipe:
        wanting = [phase.name for phase in self.phases if getattr(phase.objective, "hard_negatives", 0)]
        if wanting and not self.data.negatives:
            raise ValueError(f"phase {wanting[0]}: `hard_negatives` needs `data.negatives`, which is 0")
        if self.data.negatives and not wanting:
            raise ValueError("`data.negatives` is for `hard_negatives`, which no phase's objective has")
        return self
