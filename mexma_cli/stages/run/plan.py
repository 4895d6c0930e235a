"""From a recipe to kinds of units of work. They are known as far as the texts are cut into pieces."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from mexma_cli.encoder.loading.folder import files_of_encoder
from mexma_cli.errors import MexmaError, choice
from mexma_cli.files import checksum_again, checksum_file
from mexma_cli.formats.bitext import formats, outputs_of
from mexma_cli.settings.corpus import CorpusEncoder, CorpusMining, CorpusRecipe, CorpusSplitting, LanguageText
from mexma_cli.settings.section import Section, naming_keys
from mexma_cli.settings.stages import BUNDLED, RuleSettings
from mexma_cli.stages.knn.search import has_index
from mexma_cli.stages.knn.span_files import Spans
from mexma_cli.stages.mine.probable import why_margin, with_score
from mexma_cli.stages.run.indexed import check_index, index_kinds, lists_found, search_kinds
from mexma_cli.stages.run.units import BITEXT, REJECTS, STAGES, Kind, Record, Unit, one
from mexma_cli.stages.split.inputs import find_inputs, ids_of_files, names_of, passed_over_in_words
from mexma_cli.text.compression import split_ending
from mexma_cli.text.kinds import sentences_only
from mexma_cli.text.lines import read_pieces
from mexma_cli.text.pages import stated_encoding
from mexma_cli.text.rules import OF_SENTENCES, SELECTABLE, chosen_limits

log = logging.getLogger(__name__)

_REPEATED = ("duplicate", "boilerplate")  # rules that would make holes in documents that are aligned
_SENTENCES = ("source_sentences", "target_sentences")
_ENCODER = "/encoder"
"""How names of its files begin among the inputs; a language is named before the slash of others."""
Inputs = dict[str, dict[str, str]]
"""Names of inputs -> files -> their checksums."""


class Cut(NamedTuple):
    """A text in pieces: its lines, those of a piece, and the checksums of these, if it was cut already."""

    lines: int
    size: int
    checksums: tuple[str, ...] = ()


Records = Callable[[str], Record | None]
"""From a unit's name to its record, if the unit is done."""


def cut_of(record: Records, code: str) -> Cut | None:
    """How a language's text was cut; None as long as it is not."""
    made = record(f"{code}/text")
    if made is None:
        return None
    pieces = made.facts["pieces"]
    lines = sum(piece["lines"] for piece in pieces)
    return Cut(lines, pieces[0]["lines"], tuple(piece["checksum"] for piece in pieces))


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

    def of(self, kinds: list[Kind]) -> list[Kind]:
        """The wanted kinds of a plan: those of the last stage, and of all before it."""
        last = len(STAGES) if self.only is None else STAGES.index(self.only)
        return [kind for kind in kinds if STAGES.index(kind.stage) <= last]

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
    check_index(recipe.mine.index)
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
        if text.split is None:
            for path in inputs.files:
                _check_sentences(path, code)
        found[code] = {str(path): checksum_file(path) for path in inputs.files}
    for name, (key, model) in _models(recipe).items():
        if not model.is_file():
            raise MexmaError(f"`{key}`: {model}: no such file")
        found[name] = {str(model): checksum_file(model)}
    with naming_keys({"encoder": CorpusEncoder}):
        encoder = files_of_encoder(recipe.encoder.name or BUNDLED)
    if recipe.align is not None or recipe.mine.within:
        _check_ids(recipe, found)
    found[_ENCODER] = {name: checksum_again(path) for name, path in encoder.items()}
    return found


def keys_of_text(code: str) -> dict[str, type[Section]]:
    """Where the recipe says how the text of a language is read."""
    return {f"languages.{code}": LanguageText, f"languages.{code}.split": CorpusSplitting}


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
        _model(user): (key, path.expanduser().absolute())
        for user, (key, path) in found.items()
        if path is not None
    }


def _model(user: str) -> str:
    return f"{user}/model"


def plan(recipe: CorpusRecipe, inputs: Inputs, cut: Callable[[str], Cut | None]) -> list[Kind]:
    """All kinds of units that can be told yet, each after its inputs; those of a text once it is cut, which
    `cut` tells of a language."""
    pairs = recipe.language_pairs()
    kinds: list[Kind] = []
    rows: dict[str, int] = {}
    for code in recipe.languages:
        if any(code in pair for pair in pairs):
            made = cut(code)
            lines = made.lines if made is not None else 0
            if recipe.languages[code].split is not None:
                kinds.append(one(_split_unit(recipe, code, inputs), lines))
            kinds.append(one(_cut_unit(recipe, code, inputs[code]), lines))
            if made is not None:
                rows[code] = lines
                kinds += _embed_kinds(recipe, code, made, inputs)
    pairs = [pair for pair in pairs if rows.keys() >= set(pair)]
    if recipe.align is None:
        indexed = [pair for pair in pairs if has_index(rows[pair[0]], rows[pair[1]], recipe.mine.index)]
        for code in dict.fromkeys(code for pair in indexed for code in pair):
            kinds += index_kinds(recipe, code, rows[code])
    for source, target in pairs:
        both = rows[source], rows[target]
        if recipe.align is not None:
            kinds.append(one(_align_unit(recipe, (source, target), inputs), sum(both)))
        else:
            kinds += _pair_kinds(recipe, (source, target), both, inputs)
    for pair in pairs if recipe.filter is not None else ():
        kinds.append(one(_filter_unit(recipe, pair, inputs), rows[pair[0]] + rows[pair[1]]))
    return kinds


def splitting_of(recipe: CorpusRecipe, code: str, inputs: Inputs) -> CorpusSplitting:
    """How the documents of a language are split."""
    how = recipe.languages[code].split
    assert how is not None
    named = {rule.partition("=")[0] for rule in how.on}
    off = [rule for rule in _REPEATED if rule not in named] if recipe.align else []
    return how.but(off=(*how.off, *off), lid_model=next(map(Path, inputs.get(_model(code), {})), None))


def _split_unit(recipe: CorpusRecipe, code: str, inputs: Inputs) -> Unit:
    """Documents into sentences. The ids of documents are made of the names of files."""
    settings = splitting_of(recipe, code, inputs).model_dump(mode="json", exclude={"lid_model"})
    return Unit(
        name=f"{code}/sentences",
        work="split",
        settings={
            "language": code,
            "names": names_of(list(map(Path, inputs[code]))),
            "split": settings,
            **_encoding(),
        },
        files=inputs[code],
        model=inputs.get(_model(code), {}),
        output=f"{code}/sentences",
    )


def _encoding() -> dict[str, str]:
    """The setting of units that read the user's texts where their encoding is stated."""
    found = stated_encoding()
    return {"encoding": found} if found else {}


def _cut_unit(recipe: CorpusRecipe, code: str, files: dict[str, str]) -> Unit:
    """Sentences into pieces."""
    documents = recipe.languages[code].split is not None
    return Unit(
        name=f"{code}/text",
        work="cut",
        settings={"lines": recipe.units.lines, **({} if documents else _encoding())},
        inputs={"sentences": f"{code}/sentences"} if documents else {},
        files={} if documents else files,
        output=f"{code}/text",
        grows=True,
    )


def _embed_kinds(recipe: CorpusRecipe, code: str, made: Cut, inputs: Inputs) -> list[Kind]:
    """A store of each piece, the one of all, and which of its rows take part."""
    count = -(-made.lines // made.size)
    encoder = {"encoder": recipe.encoder.model_dump(mode="json")}

    def piece(place: int) -> Unit:
        named = {"piece": f"{place:05d}.txt.zst", "checksum": made.checksums[place] if made.checksums else ""}
        return Unit(
            name=f"{code}/embed/{place:05d}",
            work="embed",
            settings={"language": code, "clean": recipe.languages[code].clean, **encoder, **named},
            parts={"text": f"{code}/text"},
            encoder=inputs[_ENCODER],
            output=f"{code}/embedded/{place:05d}.emb",
        )

    def merged() -> Unit:
        names = [f"{code}/embed/{place:05d}" for place in range(count)]
        inputs = dict(zip(names, names, strict=True))
        store = f"{code}/{code}.emb"
        return Unit(name=f"{code}/store", work="merge", inputs=inputs, output=store)

    rows = Unit(name=f"{code}/rows", work="rows", inputs={"store": f"{code}/store"}, output=f"{code}/rows")
    return [
        Kind(f"{code}/embed", "embed", piece, (count,), made.lines),
        Kind(f"{code}/store", "merge", merged, (), made.lines),
        *([one(rows, made.lines)] if recipe.align is None else []),
    ]


def _align_unit(recipe: CorpusRecipe, pair: tuple[str, str], inputs: Inputs) -> Unit:
    """The documents of a language pair, aligned."""
    assert recipe.align is not None
    return Unit(
        name=f"{'-'.join(pair)}/pairs",
        work="align",
        settings={
            **_output_settings(recipe, pair, first=True),
            "align": recipe.align.model_dump(mode="json"),
            "encoder": recipe.encoder.model_dump(mode="json"),
        },
        inputs={
            "source": f"{pair[0]}/store",
            "target": f"{pair[1]}/store",
            **dict(zip(_SENTENCES, (f"{code}/sentences" for code in pair), strict=True)),
        },
        encoder=inputs[_ENCODER],
        output=_pairs_folder(recipe, pair),
    )


def _filter_unit(recipe: CorpusRecipe, pair: tuple[str, str], inputs: Inputs) -> Unit:
    """The pairs of a language pair that keep all rules."""
    assert recipe.filter is not None
    return Unit(
        name=f"{'-'.join(pair)}/filtered",
        work="keep",
        settings=_output_settings(recipe, pair)
        | {"filter": recipe.filter.model_dump(mode="json", exclude={"lid_model"})},
        inputs={"pairs": f"{'-'.join(pair)}/pairs"},
        model=inputs.get(_model("filter"), {}),
        output=f"{BITEXT}/{'-'.join(pair)}",
    )


def _pairs_folder(recipe: CorpusRecipe, pair: tuple[str, str]) -> str:
    """Where pairs that were mined or aligned are: with the results, or where they wait for the filter."""
    name = "-".join(pair)
    return f"{BITEXT}/{name}" if recipe.filter is None else f"{name}/pairs"


def results_of(recipe: CorpusRecipe) -> list[str]:
    """The files of sentence pairs that a run makes, by their paths in its folder."""
    found = []
    for pair in recipe.language_pairs():
        folder = Path(BITEXT, "-".join(pair))
        for name, kind in _output_settings(recipe, pair)["files"].items():
            found += outputs_of(folder / name, kind, pair)
        if recipe.filter is not None and recipe.filter.rejects:
            found.append(folder / REJECTS)
    return list(map(str, found))


def _pair_kinds(
    recipe: CorpusRecipe, pair: tuple[str, str], rows: tuple[int, int], inputs: Inputs
) -> list[Kind]:
    """Neighbours of a language pair, found in pieces and put together, and the pairs made of them."""
    name, k = "-".join(pair), recipe.mine.k
    sides = {
        "source": f"{pair[0]}/store",
        "target": f"{pair[1]}/store",
        "source_rows": f"{pair[0]}/rows",
        "target_rows": f"{pair[1]}/rows",
    }
    spans = Spans(rows[0], recipe.units.tile), Spans(rows[1], recipe.units.tile)
    indexed = has_index(*rows, recipe.mine.index)

    def tile(row: int, column: int) -> Unit:
        place = f"{row:05d}-{column:05d}"
        return Unit(
            name=f"{name}/tile/{place}",
            work="tile",
            settings={"source": list(spans[0][row]), "target": list(spans[1][column]), "k": k},
            inputs=sides,
            output=f"{name}/tiles/{place}.npy",
        )

    def neighbours(side: int, place: int) -> Unit:
        """The unit that merges the neighbours of a span of a side, from all lists of its rows."""
        direction, own = ("forward", "backward")[side], spans[side][place].rows
        lists: list[tuple[str, str | None, int, int]] = []
        if indexed:
            lists += lists_found(name, side, place, own, len(spans[1 - side]))
        for there, other in enumerate(() if indexed else spans[1 - side]):
            row, column = (there, place) if side else (place, there)
            tile = f"{name}/tile/{row:05d}-{column:05d}"
            lists.append((tile, None, other.rows if side else 0, own + other.rows))
        return Unit(
            name=f"{name}/neighbours/{direction}-{place:05d}",
            work="neighbours",
            settings={"k": k, "rows": own, "others": rows[1 - side], "lists": list(map(list, lists))},
            inputs={
                "rows": sides["source_rows" if side else "target_rows"],
                **{unit: unit for unit, *_ in lists},
            },
            output=f"{name}/neighbours/{direction}-{place:05d}.npy",
        )

    def of_pair() -> dict[str, str]:
        """The units that mining needs."""
        found = [
            f"{name}/neighbours/{direction}-{place:05d}"
            for direction, side in zip(("forward", "backward"), spans, strict=True)
            for place in range(len(side))
        ]
        effort = {"effort": f"{name}/effort"} if indexed else {}
        return sides | dict(zip(found, found, strict=True)) | effort

    def mined() -> Unit:
        of_others = {
            "within",
            "index",
            "recall",
            "classifier",
            "plugin",
        }  # settings of other units, and files
        mine = {"mine": recipe.mine.model_dump(mode="json", exclude=of_others)}
        documents = dict(zip(_SENTENCES, (f"{code}/sentences" for code in pair), strict=True))
        return Unit(
            name=f"{name}/pairs",
            work="mine",
            settings=_output_settings(recipe, pair, first=True) | mine,
            inputs=of_pair() | (documents if recipe.mine.within else {}),
            model=inputs.get(_model("mine"), {}) | inputs.get(_model("mine/plugin"), {}),
            output=_pairs_folder(recipe, pair),
        )

    down, across = map(len, spans)
    read = rows[0] * across, rows[1] * down
    tiles = Kind(f"{name}/tile", "tile", tile, (down, across), sum(read), rows[0] * rows[1])
    return [
        *(search_kinds(recipe, pair, rows, k) if indexed else [tiles]),
        *(
            Kind(f"{name}/neighbours/{side}", "neighbours", partial(neighbours, side), (count,), read[side])
            for side, count in enumerate((down, across))
        ),
        Kind(f"{name}/pairs", "mine", mined, (), sum(rows)),
    ]


def by_probability(recipe: CorpusRecipe) -> bool:
    """Whether pairs are scored by the classifier, and not by margin."""
    if recipe.align is not None:
        return False
    return why_margin(recipe.mine, recipe.encoder.model, within=recipe.mine.within) is None


def has_threshold(recipe: CorpusRecipe) -> bool:
    """Whether the recipe names a threshold for mined pairs, or how it is found."""
    return recipe.mine.threshold is not None or recipe.mine.precision is not None


def _output_settings(recipe: CorpusRecipe, pair: tuple[str, str], first: bool = False) -> dict[str, Any]:
    """Where and how the sentence pairs are written; pairs that are to be filtered are written `first` with
    all that is known of them."""
    if first and recipe.filter is not None:
        return {"languages": list(pair), "files": {"pairs.jsonl.zst": "jsonl"}, "with_ids": True}
    output, compression = recipe.output, f".{recipe.output.compression}" if recipe.output.compression else ""
    files = {}
    for name in output.format:
        kind = formats(alignments=True)[name]
        ending = ("" if kind.two_files else f".{name}") + ("" if kind.compressed else compression)
        files[f"{'-'.join(pair)}{ending}"] = name
    return {"languages": list(pair), "files": files, "with_ids": output.with_ids}
