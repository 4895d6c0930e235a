"""From a recipe to kinds of units of work. They are known as far as the texts are cut into pieces."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pydantic import ValidationError

from mexma_cli.encoder.loading.folder import files_of_encoder
from mexma_cli.errors import MexmaError, choice
from mexma_cli.files import checksum_again, checksum_file, read_json, refuse_pipe
from mexma_cli.formats.bitext import formats
from mexma_cli.settings.corpus import CorpusEncoder, CorpusMining, CorpusRecipe
from mexma_cli.settings.section import first_mistake, naming_keys
from mexma_cli.settings.stages import BUNDLED, RuleSettings
from mexma_cli.stages.mine.probable import with_score
from mexma_cli.stages.run import search
from mexma_cli.stages.run.pairs import Align, Keep, Mine, by_probability
from mexma_cli.stages.run.search import LanguagePair
from mexma_cli.stages.run.texts import ENCODER, Cut, Embed, Inputs, Merge, Pieces, Split, keys_of_text
from mexma_cli.stages.run.units import STAGES, Kind, Record, Unit
from mexma_cli.stages.split.inputs import find_inputs, ids_of_files, passed_over_in_words
from mexma_cli.text.compression import split_ending
from mexma_cli.text.kinds import sentences_only
from mexma_cli.text.lines import read_pieces
from mexma_cli.text.rules import OF_SENTENCES, SELECTABLE, chosen_limits

log = logging.getLogger(__name__)
KINDS = Unit.kinds  # by name; the imports above have registered them


def pieces_of(record: Callable[[str], Record | None], code: str) -> Pieces | None:
    """How a language's text was cut, by the records of units that are done; None as long as it is not."""
    made = record(f"{code}/text")
    if made is None:
        return None
    pieces = made.facts["pieces"]
    lines = sum(piece["lines"] for piece in pieces)
    return Pieces(lines, pieces[0]["lines"], tuple(piece["checksum"] for piece in pieces))


def read_unit(todo: Path) -> Unit:
    """The unit that a file describes."""
    found = read_json(todo)
    kind = KINDS.get(str(found.pop("work", ""))) if isinstance(found, dict) else None
    if kind is None:
        raise MexmaError(f"{todo} is damaged: `work` names no kind of work")
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        raise MexmaError(f"{todo} is damaged: {first_mistake(error)}") from None


@dataclass(frozen=True)
class Selection:
    """Which units of a recipe are wanted.

    Attributes:
        only: The last stage wanted.
        start: A stage: what the stages before it have made is taken as it is, whether or not it is up to
            date.
        pairs: Source and target of language pairs; none for all.
    """

    only: str | None = None
    start: str | None = None
    pairs: tuple[tuple[str, str], ...] = ()

    def narrowed(self, recipe: CorpusRecipe) -> CorpusRecipe:
        """The recipe with the wanted pairs and their languages alone, in the direction that it has them in; a
        pair or stage that it lacks is refused."""
        stages = _stages_of(recipe)
        for stage in (self.only, self.start):
            if stage is not None and stage not in stages:
                raise MexmaError(f"no stage {stage!r} in this recipe", choice(stage, stages, "stages"))
        if self.start and self.only and stages.index(self.start) > stages.index(self.only):
            raise MexmaError(
                f"nothing is left to do: {self.start} comes after {self.only}", "swap the two stages"
            )
        known = {frozenset(pair): pair for pair in recipe.language_pairs()}
        for pair in self.pairs:
            if frozenset(pair) not in known:
                name, have = "-".join(pair), map("-".join, known.values())
                hint = choice(name, have, "pairs", "see its key `pairs`")
                raise MexmaError(f"{name} is no pair of this recipe", hint)
        wanted = tuple(dict.fromkeys(known[frozenset(pair)] for pair in self.pairs)) or recipe.pairs
        spoken = recipe.model_copy(update={"pairs": wanted}).language_pairs()
        languages = {code: text for code, text in recipe.languages.items() if code in chain(*spoken)}
        return recipe.model_copy(update={"pairs": wanted, "languages": languages})

    def goals(self, recipe: CorpusRecipe) -> list[str]:
        """The last unit of each language pair, if that is wanted."""
        last = "filter" if recipe.filter else "align" if recipe.align else "mine"
        what = "filtered" if recipe.filter else "pairs"
        wanted = self.only is None or self.only == last
        return [f"{'-'.join(pair)}/{what}" for pair in recipe.language_pairs()] if wanted else []

    @property
    def everything(self) -> bool:
        """Whether all is wanted that the recipe has."""
        return self.only is None and not self.pairs

    def kinds(self, recipe: CorpusRecipe, inputs: Inputs, cut: Callable[[str], Pieces | None]) -> list[Kind]:
        """The wanted kinds of a plan: those of the last stage, and of all before it."""
        last = len(STAGES) if self.only is None else STAGES.index(self.only)
        return [kind for kind in plan(recipe, inputs, cut) if STAGES.index(kind.of.stage) <= last]

    def taken(self, unit: Unit) -> bool:
        """Whether a unit's output is taken as it is."""
        return self.start is not None and STAGES.index(unit.stage) < STAGES.index(self.start)


def _stages_of(recipe: CorpusRecipe) -> list[str]:
    """The stages that a recipe has, in order."""
    left_out = {"knn", "mine"} if recipe.align else {"align"}
    if not recipe.filter:
        left_out.add("filter")
    if all(text.split is None for text in recipe.languages.values()):
        left_out.add("split")
    return [stage for stage in STAGES if stage not in left_out]


def check_settings(recipe: CorpusRecipe) -> None:
    """Refuse settings that no stage knows."""
    output = recipe.output
    for where, rules, of in _rules(recipe):
        try:
            chosen_limits(rules.on, rules.off, of)
        except MexmaError as error:
            raise MexmaError(f"`{where}`: {error.message}", error.hint) from None
    search.check_index(recipe.mine.index)
    if recipe.align is not None and recipe.mine.model_fields_set:
        log.warning("`mine` has no effect: with `align`, sentences are aligned document by document")
    if recipe.align is None:
        with naming_keys({"mine": CorpusMining}):
            with_score(recipe.mine, recipe.encoder.model, within=recipe.mine.within)
    if by_probability(recipe) and not has_threshold(recipe):
        log.info(
            "neither `mine.threshold` nor `mine.precision` is set: the best pair of every sentence is mined, "
            "be it a translation or not"
        )
    known = formats(alignments=recipe.align is not None and recipe.filter is None)
    for name in output.format:
        if name not in known:
            alone = "it needs `align`, and no `filter`" if name in formats(alignments=True) else None
            raise MexmaError(f"`output.format`: {name!r} is none of {', '.join(known)}", alone)
    if not output.format or len(set(output.format)) < len(output.format):
        raise MexmaError("`output.format` names no format, or one twice", f"formats: {', '.join(known)}")
    whole = all(known[name].whole_documents for name in output.format)
    if recipe.align and recipe.align.chunks is not None and not whole:
        raise MexmaError("`align.chunks` cuts whole documents", "say `output.format: documents`")
    if output.compression and not split_ending(f"x.{output.compression}")[1]:
        raise MexmaError(f"`output.compression`: {output.compression!r} is none that is known")


def _rules(recipe: CorpusRecipe) -> Iterator[tuple[str, RuleSettings, Sequence[str]]]:
    """The sections of a recipe that name rules, and what these may look at."""
    if recipe.filter is not None:
        yield "filter", recipe.filter, SELECTABLE
    for code, text in recipe.languages.items():
        if text.split is not None:
            yield f"languages.{code}.split", text.split, OF_SENTENCES


def inputs_of(recipe: CorpusRecipe) -> Inputs:
    """The files of every language, in the order of their lines, of models, and of the encoder, with
    checksums; where one is missing, the message names the key."""
    found: Inputs = {}
    root = Path(recipe.root).expanduser().absolute()
    for code, text in recipe.languages.items():
        try:
            inputs = find_inputs([str(root / pattern) for pattern in text.input], code)
        except MexmaError as error:
            hint = "name files, folders or globs, as they are called in `root`" if error.hint else None
            raise MexmaError(f"`languages.{code}.input`: {error.message}", hint) from None
        if inputs.passed_over:
            log.info("`languages.%s.input`: %s", code, passed_over_in_words(inputs.passed_over))
        for path in inputs.files:
            refuse_pipe(path)
            if text.split is None:
                _check_sentences(path, code)
        found[code] = {str(path): checksum_file(path) for path in inputs.files}
    for name, (key, model) in _models(recipe).items():
        refuse_pipe(model)
        if not model.is_file():
            raise MexmaError(f"`{key}`: {model}: no such file")
        found[name] = {str(model): checksum_file(model)}
    with naming_keys({"encoder": CorpusEncoder}):
        encoder = files_of_encoder(recipe.encoder.name or BUNDLED)
    if recipe.align is not None or recipe.mine.within:
        _check_ids(recipe, found)
    found[ENCODER] = {name: checksum_again(path) for name, path in encoder.items()}
    return found


def _check_sentences(path: Path, code: str) -> None:
    """Refuse a file of a language that has no sentence a line."""
    try:
        with naming_keys(keys_of_text(code)):
            next(sentences_only(read_pieces(path, str(path)), str(path)), b"")
    except MexmaError as error:
        raise MexmaError(f"`languages.{code}.input`: {error.message}", error.hint) from None


def _check_ids(recipe: CorpusRecipe, inputs: Inputs) -> None:
    """Warn of language pairs without a document id in common, as far as the names of files tell the ids;
    refused, if that is so in all language pairs."""
    pairs, apart, ids = recipe.language_pairs(), [], dict[str, list[str] | None]()
    for code in {*chain(*pairs)}:
        split = recipe.languages[code].split
        ids[code] = ids_of_files(list(map(Path, inputs[code])), split) if split else None
    for pair in pairs:
        source, target = (ids[code] for code in pair)
        if source is not None and target is not None and set(source).isdisjoint(target):
            said = " and ".join(f"`languages.{code}.input`" for code in pair)
            apart.append(f"{said} have no document id in common, such as {source[0]} and {target[0]}")
    if len(apart) == len(pairs):
        raise MexmaError(
            apart[0],
            "give files that are translations one name in the folders of both languages, or mine without "
            "`align` and `mine.within`; `mexma align --find-documents` finds the pairs of documents",
        )
    for said in apart:
        log.warning("%s", said)


def _models(recipe: CorpusRecipe) -> dict[str, tuple[str, Path]]:
    """Models that tell languages, and the classifier of pairs, by what they are called among the inputs, with
    the keys that name them."""
    found = {
        code: (f"languages.{code}.split.lid_model", text.split.lid_model if text.split else None)
        for code, text in recipe.languages.items()
    }
    found["filter"] = "filter.lid_model", recipe.filter.lid_model if recipe.filter else None
    found["mine"] = "mine.classifier", recipe.mine.classifier
    found["mine/plugin"] = "mine.plugin", recipe.mine.plugin
    return {
        f"{user}/model": (key, path.expanduser().absolute())
        for user, (key, path) in found.items()
        if path is not None
    }


def plan(recipe: CorpusRecipe, inputs: Inputs, cut: Callable[[str], Pieces | None]) -> list[Kind]:
    """All kinds of units that can be told yet, each after its inputs; those of a text once it is cut, which
    `cut` tells of a language."""
    pairs, kinds, rows = recipe.language_pairs(), list[Kind](), dict[str, int]()
    for code in recipe.languages:
        if any(code in pair for pair in pairs):
            made = cut(code)
            lines = made.lines if made is not None else 0
            if recipe.languages[code].split is not None:
                kinds.append(Split.planned(recipe, code, inputs, lines))
            kinds.append(Cut.planned(recipe, code, inputs, lines))
            if made is not None:
                rows[code] = lines
                pieces = Embed.planned(recipe, code, made, inputs)
                kinds += [pieces, Merge.planned(code, pieces)]
                kinds += [search.Rows.planned(code, lines)] if recipe.align is None else []
    for code in dict.fromkeys(chain(*search.indexed_pairs(recipe, rows))):
        kinds += [kind.planned(recipe, code, rows[code]) for kind in (search.TrainIndex, search.Shard)]
    for source, target in pairs:
        if rows.keys() >= {source, target}:
            pair = LanguagePair(recipe, (source, target), (rows[source], rows[target]))
            kinds += _mined(pair, inputs) if recipe.align is None else [Align.planned(pair, inputs)]
            kinds += [Keep.planned(pair, inputs)] if recipe.filter is not None else []
    return kinds


def _mined(pair: LanguagePair, inputs: Inputs) -> list[Kind]:
    """Neighbours of a language pair, found in pieces and put together, and the pairs made of them."""
    if pair.indexed:
        found = [search.Effort.planned(pair), *(search.SearchIndex.planned(pair, side) for side in (0, 1))]
    else:
        found = [search.Tile.planned(pair)]
    neighbours = [search.Neighbours.planned(pair, side) for side in (0, 1)]
    return [*found, *neighbours, Mine.planned(pair, inputs)]


def has_threshold(recipe: CorpusRecipe) -> bool:
    """Whether the recipe names a threshold for mined pairs, or how it is found."""
    return recipe.mine.threshold is not None or recipe.mine.precision is not None
