"""The sections of a recipe but for the objectives: text, encoder, trainer, phases, dev sets; and recipes of
`kind: decompose`, two linear maps trained on stored vectors."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainValidator, PrivateAttr, SerializeAsAny, field_validator, model_validator

from mexma_cli import languages
from mexma_cli.settings.registry import DecomposerSettings, ObjectiveSettings
from mexma_cli.settings.section import PHASE_NAME, Folder, RunName, Section, in_a_tuple
from mexma_cli.settings.stages import Device, Dtype

IMPLIED_PHASE = "train"
"""Name of the one phase of a recipe without `phases`."""

Beta = Annotated[float, Field(ge=0, lt=1)]


class TrainingRecipe(Section):
    """A recipe that trains something, and what `--set` has changed in it."""

    _overrides: tuple[str, ...] = PrivateAttr(())

    @property
    def overrides(self) -> tuple[str, ...]:
        """The changes, each as ``key=value``; they are no part of the recipe, and in its values already."""
        return self._overrides

    def changed_by(self, overrides: Sequence[str]) -> Self:
        """This recipe, which these overrides have made."""
        found = self.model_copy()
        found._overrides = tuple(overrides)
        return found


class Keep(Section):
    """Use line n of a corpus only if line n of the file `path` is `value`."""

    path: str
    """A file with as many lines as the corpus; `{lang}` as in the corpus's path."""
    value: str
    """The whole line."""


class Corpus(Section):
    """Parallel text of one kind; `{lang}` in a path stands for each code in `languages`."""

    name: str
    """Start of the names of its stores: letters, digits, `.`, `_` and `-`."""
    format: Literal["tsv", "aligned", "opus", "mtdata"]
    """tsv: a file of source TAB target, or TMX and the like; aligned: two files, line n with
    line n; opus: Moses zips or files; mtdata: folders with `train-parts`."""
    languages: tuple[str, ...] = Field(min_length=1)
    """Languages of the corpus; with `data.languages`, only those in both are taken. Left out: those of
    `data.languages`, and the corpus is `optional`."""
    target: str = "eng_Latn"
    """Language of the target side."""
    path: tuple[str, ...] = ()
    """One path, or a list. tsv: a file, or one a language with `{lang}`; columns after the second are ignored
    (but see `negatives`). opus, mtdata: a folder, or a glob of files and folders, whose files are found by
    their names."""
    source_path: str | None = None
    """aligned: the source file; an empty line is a missing sentence."""
    target_path: str | None = None
    """aligned: the target file."""
    keep: Keep | None = None
    """tsv, aligned: use only lines that another file marks."""
    optional: bool = False
    """The corpus may lack some of its languages."""
    top_up: bool = False
    """Use this corpus last, and only to bring a language up to `data.minimum_per_language`."""
    cap: int = Field(0, ge=0)
    """Pairs a language from this corpus, at most (0: all)."""
    repeat: float = Field(1.0, gt=0)
    """How often its pairs are drawn, relative to other corpora."""
    negatives: Literal["made", "columns"] = "made"
    """Source of the hard negatives that `data.negatives` asks for. made: from English targets, by the rules
    of `mexma augment`; columns: the tsv's columns after the second."""

    _one_or_more = field_validator("path", mode="before")(in_a_tuple)

    @model_validator(mode="after")
    def _paths_fit_the_format(self) -> Corpus:
        if self.format == "aligned" and not (self.source_path and self.target_path):
            raise ValueError(f"corpus {self.name!r}: format aligned needs `source_path` and `target_path`")
        if self.format != "aligned" and not (self.path and all(self.path)):
            raise ValueError(f"corpus {self.name!r}: format {self.format} needs `path`")
        if self.keep and self.format in ("opus", "mtdata"):
            raise ValueError(f"corpus {self.name!r}: `keep` goes with tsv and aligned only")
        if self.negatives == "columns" and self.format != "tsv":
            raise ValueError(f"corpus {self.name!r}: `negatives: columns` are of format tsv only")
        return self


class Data(Section):
    """The parallel text, and what is dropped from it."""

    root: str = "."
    """Folder that the paths below start from."""
    store: Folder
    """Folder of the tokenised pairs."""
    languages: tuple[str, ...] = ()
    """Languages that are taken from all corpora; empty: those that the corpora list."""
    codes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """opus, mtdata: unusual codes of a language in file names, such as `{ckb_Arab: [ku_Arab, kur_Arab]}`."""
    cap_per_language: int = Field(0, ge=0)
    """Pairs a language, at most (0: all). The corpora that may not give all of theirs give pairs chosen by a
    hash."""
    fill: Literal["in order", "random"] = "in order"
    """Which corpora give the pairs up to the cap. in order: the first in the recipe; random: all of them, in
    proportion to the pairs that they have, as if drawn from all together."""
    minimum_per_language: int = Field(0, ge=0)
    """Pairs a language up to which corpora with `top_up` are used (0: not at all)."""
    max_tokens: int = Field(200, ge=3)
    """Longest sentence, in tokens with <s> and </s> (paper section 7.5); at most what the encoder takes."""
    min_chars: int = Field(1, ge=0)
    """Fewest characters of a side; pairs with fewer are dropped."""
    max_chars: int = Field(1000, ge=1)
    """Most characters of a side; pairs with more are dropped."""
    max_length_ratio: float = Field(3.0, ge=0)
    """Drop pairs whose longer side has more than this times the characters of the shorter, after adding 10 to
    both (0: no limit)."""
    rules: dict[str, bool | float] = Field(default_factory=dict)
    """More [rules](cli.md#rules) by name: a limit, or `true` for the default one."""
    negatives: int = Field(0, ge=0)
    """Hard negatives of each target, at most: sentences that look like it and say something else. An
    objective uses them by its `hard_negatives`."""
    drop_duplicates: bool = True
    """Keep one of equal pairs of a corpus and language."""
    exclude: tuple[str, ...] = ()
    """Drop pairs with a sentence of these files (globs, from `root` or the current folder; text, or pairs
    in any format that is read), whatever its case, spaces and punctuation."""
    corpora: tuple[Corpus, ...] = Field(min_length=1)
    """The corpora."""

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
        """The languages that are taken from a corpus, as it spells them; an unknown one is refused."""
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
    """Number of tokens, with <s>, </s>, <pad>, <unk> and <mask>."""
    lowercase: bool = False
    """Lower-case the text."""
    latin: bool = False
    """Write Cyrillic letters as Latin ones, and drop accents (but Vietnamese ones) and vowel points, so that
    words spelled alike in two languages share tokens."""
    words: int = Field(0, ge=0)
    """Tokens that are whole words, the most frequent ones; the others are pieces (0: only pieces, as in
    XLM-R). In scripts without spaces, words are characters and pairs of them."""
    max_sentences: int = Field(2_000_000, ge=1)
    """Sentences to learn from, about; chosen by a hash if there are more."""
    seed: int = 42
    """Seed of that choice."""


class NewEncoder(Section):
    """The shape of a new XLM-R with random weights."""

    layers: int = Field(4, ge=1)
    """Transformer layers."""
    width: int = Field(256, ge=4)
    """Dimension of token states and sentence vectors; a multiple of `heads`."""
    heads: int = Field(4, ge=1)
    """Attention heads of a layer."""
    ffn: int = Field(1024, ge=1)
    """Width of a layer's feed-forward part."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of the states that is dropped in training."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of the attention weights that is dropped in training."""

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> NewEncoder:
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide a width of {self.width}")
        return self


class Encoder(Section):
    """The encoder that training starts from: an existing one (`from`) or a `new` one with its `tokenizer`."""

    start: str | None = Field(None, alias="from")
    """Name (`mini`, a hub id) or folder of an encoder."""
    new: NewEncoder | None = None
    """Shape of a new encoder with random weights."""
    tokenizer: TrainTokenizer | None = None
    """Tokeniser of a `new` encoder."""
    pooling: Literal["cls", "mean"] | None = None
    """Pooling, in place of the pooling, modules and prefix of the encoder's folder. null: those of the
    folder; cls for a `new` encoder."""
    attention: Literal["auto", "xformers", "varlen", "bucketed"] = "auto"
    """Attention in training; xformers and varlen (torch's) need a GPU. auto: the fastest of the device."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of attention weights that is dropped in the encoder and the heads beside it, in place of the
    encoder's own (0.1 in XLM-R; 0 in MEXMA's code)."""

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
    """Steps, batches, learning rate, and what is kept."""

    steps: int = Field(ge=1)
    """Optimiser steps."""
    batch_pairs: int = Field(150, ge=1)
    """Pairs in a micro-batch of each process."""
    accumulate: int = Field(2, ge=1)
    """Micro-batches in a step, in each process."""
    learning_rate: float = Field(1e-4, gt=0)
    """Highest learning rate, after the warm-up."""
    embedding_rate: float = Field(1.0, ge=0)
    """Learning rate of the word embeddings as a share of `learning_rate` (0: frozen)."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """Fall of the learning rate to 0 after the warm-up; constant: none."""
    warmup: float = Field(0.3, ge=0)
    """Share of the steps over which the learning rate rises from a tenth of it; above 1, the run ends
    before."""
    weight_decay: float = Field(0.0, ge=0)
    """Weight decay of AdamW, for matrices only."""
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """Betas of AdamW; a bag of embeddings uses only the second."""
    eps: float = Field(1e-8, gt=0)
    """Epsilon of AdamW."""
    clip: float = Field(1.2, ge=0)
    """Largest gradient norm (0: none)."""
    average: float = Field(0.0, ge=0, lt=1)
    """Decay of a running mean of the weights, which is exported in place of the weights (0: none)."""
    temperature: float = Field(1.0, ge=1)
    """Languages are drawn in proportion to their pairs to the power 1 / temperature."""
    precision: Dtype = "auto"
    """Precision of forward and backward passes; weights are float32. auto: bf16 where the device has
    instructions for it, else fp16 on a GPU and fp32 on a processor."""
    device: Device = "auto"
    """auto (a GPU if there is one), cpu, cuda or cuda:N."""
    seed: int = Field(42, ge=0)
    """Seed of the order of pairs, masks, dropout and new weights."""
    log_every: int = Field(10, ge=1)
    """Steps between records in log.jsonl."""
    checkpoint_every: int = Field(1500, ge=1)
    """Steps between checkpoints."""
    keep: int = Field(2, ge=0)
    """Last checkpoints to keep, besides the one with the best dev score; 0: none after the end."""
    dev_every: int = Field(0, ge=0)
    """Steps between scores on `dev` (0: only at the end)."""
    export: Literal["last", "best"] = "last"
    """Weights of the encoder: the last ones, or those with the lowest mean xsim error on `dev`."""
    sharding: Literal["none", "full"] = "none"
    """full: each process has a part of the weights (FSDP2), and not all of them."""
    activation_checkpointing: bool = False
    """Compute layers again in the backward pass: less memory, a third more computation."""
    loggers: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Loggers besides log.jsonl."""


class Phase(Section):
    """One training, with an objective and a trainer."""

    name: str = Field(pattern=PHASE_NAME)
    """Name of its folder: small letters, digits, `_` and `-`."""
    objective: Annotated[SerializeAsAny[ObjectiveSettings], PlainValidator(ObjectiveSettings.chosen)]
    """The losses, chosen by `name`."""
    trainer: TrainerSettings
    """Keys of this phase; the recipe's `trainer` has the defaults."""


class DevSet(Section):
    """Line-aligned files for xsim during training, from `data.root`; `{lang}` as in a corpus."""

    path: str
    """File of sentences, one for each language."""
    target_path: str
    """File of their translations, line n for line n."""
    languages: tuple[str, ...] = Field(min_length=1)
    """Codes for `{lang}`; the score is the mean over them."""
    optional: bool = False
    """Go without dev scores if a file is missing."""

    @model_validator(mode="after")
    def _a_file_for_each_language(self) -> DevSet:
        if len(self.languages) > 1 and "{lang}" not in self.path + self.target_path:
            raise ValueError("there are several `languages`, but no {lang} in `path` or `target_path`")
        return self


class Recipe(TrainingRecipe):
    """A recipe without `kind`."""

    name: RunName
    """Name of the run: letters, digits, `.`, `_` and `-`."""
    run: Folder
    """Folder of checkpoints, log and encoder."""
    data: Data
    """Training text."""
    encoder: Encoder
    """Encoder that training starts from."""
    phases: tuple[Phase, ...] = Field(min_length=1)
    """Trainings one after the other; each starts from the encoder of the one before. A recipe with one phase
    may have `objective` and `trainer` at its top instead."""
    dev: DevSet | None = None
    """Text for dev scores (xsim)."""

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


class StorePaths(Section):
    """Two stores of one encoder; row n of one is the translation of row n of the other.

    `{lang}` in a path stands for each of `languages`.
    """

    source: str
    """Store (`.emb`) of the sentences, from `data.root`."""
    target: str
    """Store of their translations."""
    languages: tuple[str, ...] = ()
    """Codes for `{lang}`, where a path has it."""

    @field_validator("languages")
    @classmethod
    def _known(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        for code in codes:
            languages.resolve(code)
        return codes

    @model_validator(mode="after")
    def _languages_go_with_a_place(self) -> StorePaths:
        places = "{lang}" in self.source + self.target
        if places != bool(self.languages):
            missing = "`languages`" if places else "{lang} in one of the paths"
            raise ValueError(f"{self.source} and {self.target}: {missing} is missing")
        return self

    def paths(self) -> list[tuple[str, str]]:
        """Source and target of each language."""
        return [
            (self.source.replace("{lang}", code), self.target.replace("{lang}", code))
            for code in self.languages or ("",)
        ]


class VectorData(Section):
    """The vectors."""

    root: str = "."
    """Folder that relative paths start from."""
    pairs: tuple[StorePaths, ...] = Field(min_length=1)
    """Pairs of stores."""
    rows: int = Field(0, ge=0)
    """Rows of each pair of stores, from the first (0: all)."""
    validation: float = Field(0.1, gt=0, lt=1)
    """Share of each pair of stores that is held out for validation."""

    def paths(self) -> list[tuple[Path, Path]]:
        """Source and target store of every pair."""
        root = Path(self.root).expanduser()
        return [(root / source, root / target) for pair in self.pairs for source, target in pair.paths()]


class DecomposeTrainerSettings(Section):
    """Training with Adam, until the validation loss has not improved for `patience` epochs."""

    batch: int = Field(512, ge=4)
    """Pairs in a step; an incomplete last batch is not used."""
    epochs: int = Field(10_000, ge=1)
    """Epochs, at most."""
    patience: int = Field(10, ge=1)
    """Epochs without a better validation loss until training ends."""
    learning_rate: float = Field(1e-5, gt=0)
    """Learning rate of Adam."""
    device: Device = "auto"
    """auto (a GPU if there is one), cpu, cuda or cuda:N."""
    seed: int = Field(42, ge=0)
    """Seed of the first weights, the order of pairs and the held-out rows."""
    log_every: int = Field(1, ge=1)
    """Epochs between records in log.jsonl."""
    checkpoint_every: int = Field(1, ge=1)
    """Epochs between checkpoints, besides that of the best epoch."""
    keep: int = Field(2, ge=1)
    """Last checkpoints to keep, besides the best one."""


class DecomposeRecipe(TrainingRecipe):
    """A recipe of a decomposer: two linear maps, trained on stored vectors."""

    kind: Literal["decompose"]
    """Marks a recipe of a decomposer."""
    name: RunName
    """Name of the run: letters, digits, `.`, `_` and `-`."""
    run: Folder
    """Folder of checkpoints, log and maps."""
    encoder: str | None = None
    """Name or folder of the encoder of the stores, to save it with the meaning map behind it."""
    data: VectorData
    """The vectors."""
    objective: Annotated[SerializeAsAny[DecomposerSettings], PlainValidator(DecomposerSettings.chosen)]
    """The losses, chosen by `name`."""
    trainer: DecomposeTrainerSettings = Field(default_factory=DecomposeTrainerSettings)
    """How long it trains, and how fast."""
