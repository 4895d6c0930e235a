"""Recipes: YAML in, validated and frozen settings out. The one source of defaults.

A recipe describes a whole run: which text (`data`), which encoder (`encoder`, `tokenizer`), which
losses (`objective`) and how long (`trainer`). A recipe with `phases` trains one after the other, each
starting from the encoder that the one before left; `trainer` then holds what the phases share.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mexma_cli.errors import MexmaError

IMPLIED_PHASE = "train"
"""Name of the one phase of a recipe without `phases`."""


class Section(BaseModel):
    """A part of a recipe: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class Keep(Section):
    """Use line n of a corpus only where line n of the file `path` is `value`."""

    path: str
    value: str


class Corpus(Section):
    """Parallel text of one kind; `{lang}` in a path stands for each code in `languages`."""

    name: str
    format: Literal["tsv", "aligned"]
    languages: tuple[str, ...] = Field(min_length=1)
    target: str = "eng_Latn"
    path: str | None = None
    """tsv: source TAB target, further columns ignored."""
    source_path: str | None = None
    """aligned: two files, line n with line n; an empty line is a missing sentence."""
    target_path: str | None = None
    keep: Keep | None = None
    cap: int = Field(0, ge=0)
    """At most so many pairs a language (0: all)."""
    repeat: float = Field(1.0, gt=0)
    """How often a pair is seen against the other corpora."""

    @model_validator(mode="after")
    def _paths_fit_the_format(self) -> Corpus:
        if self.format == "tsv" and not self.path:
            raise ValueError(f"corpus {self.name!r}: format tsv needs `path`")
        if self.format == "aligned" and not (self.source_path and self.target_path):
            raise ValueError(f"corpus {self.name!r}: format aligned needs `source_path` and `target_path`")
        return self


class Data(Section):
    """Which text, and what is dropped from it."""

    root: str = "."
    """Paths below are taken from this folder."""
    store: str
    """Where `prepare` writes the tokenised pairs."""
    max_tokens: int = Field(200, ge=3)
    """With <s> and </s> (paper section 7.5)."""
    min_chars: int = 1
    max_chars: int = 1000
    max_length_ratio: float = Field(3.0, ge=0)
    """Longer side over shorter side in characters, each plus 10 (0: no limit)."""
    drop_duplicates: bool = True
    exclude: tuple[str, ...] = ()
    """Text files (globs, from `root` or else from the current folder) with a sentence in a line or a column;
    pairs with such a sentence are dropped."""
    corpora: tuple[Corpus, ...] = Field(min_length=1)

    def resolve(self, path: str) -> Path:
        """A path of the recipe, seen from `root`."""
        return Path(self.root).expanduser() / path


class TrainTokenizer(Section):
    """A Unigram tokeniser in XLM-R's layout, trained on the prepared text."""

    vocabulary: int = Field(32000, ge=300)
    lowercase: bool = False
    max_sentences: int = 2_000_000
    seed: int = 42


class NewEncoder(Section):
    """The shape of an XLM-R that starts from nothing."""

    layers: int = Field(4, ge=1)
    width: int = Field(256, ge=4)
    heads: int = Field(4, ge=1)
    ffn: int = Field(1024, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    attention_dropout: float = Field(0.0, ge=0, lt=1)


class Encoder(Section):
    """What the training starts from: a name or folder (`from`), or a `new` encoder with its tokeniser."""

    start: str | None = Field(None, alias="from")
    new: NewEncoder | None = None
    tokenizer: TrainTokenizer | None = None
    attention: Literal["auto", "xformers", "varlen", "bucketed"] = "auto"

    @model_validator(mode="after")
    def _one_start(self) -> Encoder:
        if (self.start is None) == (self.new is None):
            raise ValueError("encoder needs either `from` (a name or a folder) or `new` (a shape)")
        if self.new is not None and self.tokenizer is None:
            raise ValueError("a new encoder needs `tokenizer`")
        return self


class Head(Section):
    """The unmasking head (paper section 7.2); the defaults are the authors' code's."""

    layers: int = Field(6, ge=1)
    heads: int = Field(8, ge=1)
    ffn: int = Field(3072, ge=1)
    layer_norm_eps: float = 1e-12
    dropout: float = Field(0.1, ge=0, lt=1)
    output_scale: float = Field(1.0, gt=0)
    """First value of the last LayerNorm's weights; below 1 where word embeddings are long."""


class MexmaObjective(Section):
    """MEXMA (paper section 3): cross-unmasking, alignment, KoLeo; optionally a contrastive term."""

    name: Literal["mexma"]
    alpha: float = 1.0
    """Weight of the alignment loss."""
    beta: float = 0.5
    """Weight of each direction's unmasking loss."""
    gamma: float = 0.005
    """Weight of each side's KoLeo loss."""
    contrastive: float = 0.0
    """Weight of a symmetric InfoNCE between the clean sentence vectors (paper section 5.3)."""
    temperature: float = Field(0.05, gt=0)
    masking: float = Field(0.4, gt=0, lt=1)
    mask_share: float = 0.8
    """Of the chosen tokens: this share becomes <mask>, `random_share` a random token, the rest stays."""
    random_share: float = 0.1
    head: Head = Field(default_factory=lambda: Head.model_validate({}))


class WordsObjective(Section):
    """Aligned token embeddings: the mean of the tokens' vectors, trained by InfoNCE both ways."""

    name: Literal["words"]
    temperature: float = Field(0.05, gt=0)
    token_dropout: float = Field(0.0, ge=0, lt=1)


Objective = Annotated[MexmaObjective | WordsObjective, Field(discriminator="name")]


class Trainer(Section):
    """How long, how fast, and how often something is written down."""

    steps: int = Field(ge=1)
    """Optimiser steps."""
    batch_pairs: int = Field(150, ge=1)
    accumulate: int = Field(2, ge=1)
    learning_rate: float = Field(1e-4, gt=0)
    embedding_rate: float = Field(1.0, ge=0)
    """Learning rate of the word embeddings as a share of `learning_rate` (0: frozen)."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    warmup: float = Field(0.3, ge=0, le=1)
    """Share of the steps over which the rate rises from a tenth to the whole."""
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip: float = Field(1.2, ge=0)
    """Largest gradient norm (0: none)."""
    average: float = Field(0.0, ge=0, lt=1)
    """Decay of a running mean of the weights, which is what is exported (0: the last weights)."""
    temperature: float = Field(1.0, ge=1)
    """Languages are drawn in proportion to pairs ** (1 / temperature)."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    device: str = "auto"
    seed: int = 42
    log_every: int = Field(10, ge=1)
    checkpoint_every: int = Field(1500, ge=1)
    keep: int = Field(2, ge=1)
    dev_every: int = Field(0, ge=0)
    """Steps between two scores on the dev sets (0: only at the end)."""


class Phase(Section):
    """One training: an objective and a trainer, under a name that becomes a folder."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    objective: Objective
    trainer: Trainer


class DevSet(Section):
    """Line-aligned files for xsim during training, seen from `data.root`; `{lang}` as in a corpus."""

    path: str
    target_path: str
    languages: tuple[str, ...] = Field(min_length=1)


class Recipe(Section):
    """A whole run, resolved."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    run: str
    """Folder for checkpoints, log and the finished encoder."""
    data: Data
    encoder: Encoder
    phases: tuple[Phase, ...] = Field(min_length=1)
    dev: DevSet | None = None

    @model_validator(mode="after")
    def _a_folder_for_each_phase(self) -> Recipe:
        names = [phase.name for phase in self.phases]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two phases have the name {name!r}")
            if name == "encoder":
                raise ValueError("a phase cannot be named 'encoder': the finished encoder's folder is")
        return self

    def to_yaml(self) -> str:
        """The resolved recipe, as it is kept beside its output; `load` reads it again."""
        return yaml.safe_dump(
            self.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True
        )


def shipped() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    here = Path(__file__).parent
    folder = here / "recipes" if (here / "recipes").is_dir() else here.parent / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe by path, or by the name of a shipped one.

    Args:
        source: A YAML file or a name such as ``mini``.
        overrides: ``key=value`` with dots in the key and YAML in the value. A phase is addressed by
            its name (``phases.mexma.trainer.steps=100``); ``trainer.steps=100`` means every phase.

    Raises:
        MexmaError: No such recipe, broken YAML, or a key or value that does not fit; the message
            names the key and the nearest right one.
    """
    path = _find(str(source))
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise MexmaError(f"{path}{where}: not valid YAML: {getattr(error, 'problem', error)}") from None
    except UnicodeDecodeError as error:
        raise MexmaError(f"{path}: not UTF-8 (byte {error.start})") from None
    if not isinstance(raw, dict):
        raise MexmaError(f"{path}: a recipe is a list of `key: value` lines, this is {type(raw).__name__}")
    raw = _with_phases(raw)
    for override in overrides:
        _override(raw, override)
    try:
        return Recipe.model_validate(raw)
    except ValidationError as error:
        raise _explain(path, raw, error) from None


def _find(source: str) -> Path:
    path = Path(source)
    if path.is_file():
        return path
    known = shipped()
    if source in known:
        return known[source]
    if path.is_dir():
        raise MexmaError(f"{source} is a folder, not a recipe", "name the YAML file")
    near = difflib.get_close_matches(path.stem, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise MexmaError(f"no recipe {source!r}", f"{hint}shipped recipes: {', '.join(known) or 'none'}")


def _with_phases(raw: dict[str, Any]) -> dict[str, Any]:
    """Bring a recipe without `phases` into the form with one, and give each phase the shared `trainer`."""
    raw = dict(raw)
    shared = raw.pop("trainer", None) or {}
    if "phases" not in raw:
        phase = {"name": IMPLIED_PHASE, "objective": raw.pop("objective", None), "trainer": shared}
        return raw | {"phases": [{key: value for key, value in phase.items() if value is not None}]}
    phases = raw["phases"]
    if isinstance(phases, list) and isinstance(shared, dict):
        raw["phases"] = [_with_trainer(phase, shared) for phase in phases]
    return raw


def _with_trainer(phase: Any, shared: dict[str, Any]) -> Any:
    own = phase.get("trainer") or {} if isinstance(phase, dict) else None
    return phase | {"trainer": shared | own} if isinstance(own, dict) else phase


def _override(raw: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise MexmaError(f"--set {override}: expected key=value", "for example --set trainer.steps=1000")
    value: Any = text
    with contextlib.suppress(yaml.YAMLError):
        value = yaml.safe_load(text)
    steps = key.strip().split(".")
    listed = raw.get("phases")
    # What is not a phase is named when the recipe is validated.
    phases = [phase for phase in listed if isinstance(phase, dict)] if isinstance(listed, list) else []
    if steps[0] in ("trainer", "objective"):
        if steps[0] == "objective" and len(phases) > 1:
            known = ", ".join(phase.get("name", "?") for phase in phases)
            raise MexmaError(f"--set {key}: which phase?", f"phases.NAME.{key}, NAME one of: {known}")
        for phase in phases:
            _assign(phase, steps, value)
    elif steps[0] == "phases" and len(steps) > 2:
        names = [phase.get("name", "?") for phase in phases]
        if steps[1] not in names:
            raise MexmaError(f"--set {key}: no phase {steps[1]!r}", f"phases: {', '.join(names)}")
        _assign(phases[names.index(steps[1])], steps[2:], value)
    else:
        _assign(raw, steps, value)


def _assign(node: Any, steps: Sequence[str], value: Any) -> None:
    for step in steps[:-1]:
        if not isinstance(node, dict):
            raise MexmaError(f"--set {'.'.join(steps)}: {step!r} is not inside a section")
        if node.get(step) is None:
            node[step] = {}
        node = node[step]
    if not isinstance(node, dict):
        raise MexmaError(f"--set {'.'.join(steps)}: {steps[-1]!r} is not inside a section")
    node[steps[-1]] = value


def _all_keys() -> set[str]:
    return {
        field.alias or name
        for section in Section.__subclasses__()
        for name, field in section.model_fields.items()
    }


def _explain(path: Path, raw: dict[str, Any], error: ValidationError) -> MexmaError:
    """One message with every key that is wrong, and the nearest right one for the first unknown key."""
    lines: list[str] = []
    hint = None
    for problem in error.errors():
        if problem["type"] == "too_short" and lines:
            continue  # an entry that is wrong in itself was left out of its list
        where = ".".join(_readable(problem["loc"], raw.get("phases"))) or "recipe"
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown key `{where}`")
            near = difflib.get_close_matches(str(problem["loc"][-1]), _all_keys(), n=1, cutoff=0.5)
            if near and hint is None:
                hint = f"did you mean `{near[0]}`?"
        elif problem["type"] == "missing":
            lines.append(f"`{where}` is missing")
        else:
            shown = problem.get("input")
            given = "" if isinstance(shown, dict | list) or shown is None else f" (is {shown!r})"
            lines.append(f"`{where}`: {problem['msg'].removeprefix('Value error, ')}{given}")
    return MexmaError(f"{path}: " + "; ".join(lines), hint)


def _readable(location: tuple[int | str, ...], phases: Any) -> list[str]:
    """A place as the user wrote it: phases by their name, none where it was implied, and no union tags."""
    parts = [str(part) for part in location]
    if parts[:1] != ["phases"] or len(parts) < 3:
        return parts
    phase, inner = phases[int(parts[1])], parts[2:]
    if inner[0] == "objective" and len(inner) > 1:
        inner = [inner[0], *inner[2:]]  # the second part only says which objective it is
    name = phase.get("name", parts[1]) if isinstance(phase, dict) else parts[1]
    return inner if name == IMPLIED_PHASE else ["phases", str(name), *inner]
