"""Units that read texts: from documents to sentences, to pieces of these, and to an embedding store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.files import MANIFEST, checksum_file, commit, workplace, write_json_atomic
from mexma_cli.settings.corpus import CorpusEncoder, CorpusRecipe, CorpusSplitting, LanguageText
from mexma_cli.settings.section import Section
from mexma_cli.settings.stages import EmbedSettings
from mexma_cli.stages.costs import LOADING, Cost
from mexma_cli.stages.embed.embed import EmbedOptions, embed_file, unknown_language
from mexma_cli.stages.embed.inputs import load_encoder
from mexma_cli.stages.merge import merge_stores
from mexma_cli.stages.run.units import ANEW, Facts, Kind, Sizes, Task, Unit, one
from mexma_cli.stages.split.inputs import names_of
from mexma_cli.stages.split.split import SplitOutputs, split
from mexma_cli.store.arrays import check_content
from mexma_cli.text.amounts import counted, such_as
from mexma_cli.text.identify import LOOKED_AT, another_language, identifier
from mexma_cli.text.lines import broken_lines, read_lines, read_pieces, scan
from mexma_cli.text.pages import stated_encoding
from mexma_cli.text.writing import write_chunks

Inputs = dict[str, dict[str, str]]
"""Names of inputs, a language before a slash if there is one -> files -> their checksums."""
ENCODER = "/encoder"  # the name of its files among the inputs
RULES = {"rules": 200_000_000}  # memory for the rules of sentences, and what tells languages
_BUFFER_BYTES, _KEPT_BYTES, _MOST_KEPT_BYTES = 85_000_000, 5500, 220_000_000
"""Memory to embed: a buffer, each different word that `mini` has met, and all of these at most."""
_REPEATED = ("duplicate", "boilerplate")  # rules that would make holes in documents that are aligned


def model_of(inputs: Inputs, user: str) -> dict[str, str]:
    """The file of a model, if `user` (a language, filter, mine) has one, with its checksum."""
    return inputs.get(f"{user}/model", {})


def keys_of_text(code: str) -> dict[str, type[Section]]:
    """Where the recipe says how the text of a language is read."""
    return {f"languages.{code}": LanguageText, f"languages.{code}.split": CorpusSplitting}


def splitting_of(recipe: CorpusRecipe, code: str, inputs: Inputs) -> CorpusSplitting:
    """How the documents of a language are split."""
    how = recipe.languages[code].split
    assert how is not None
    named = {rule.partition("=")[0] for rule in how.on}
    off = [rule for rule in _REPEATED if rule not in named] if recipe.align else []
    return how.but(off=(*how.off, *off), lid_model=next(map(Path, model_of(inputs, code)), None))


class Split(Unit):
    """Documents as sentences: a folder with these, where they were and, if wanted, what was dropped."""

    stage = "split"
    cost = Cost(0.9, 0.03, 3e-5)
    keys: ClassVar = {"languages.{}.split": CorpusSplitting}
    holds = RULES
    language: str
    names: list[str]
    split: CorpusSplitting

    @classmethod
    def planned(cls, recipe: CorpusRecipe, code: str, inputs: Inputs, lines: int) -> Kind:
        unit = cls(
            name=f"{code}/sentences",
            language=code,
            names=names_of(list(map(Path, inputs[code]))),  # of which the ids of documents are made
            split=splitting_of(recipe, code, inputs).but(lid_model=None),
            encoding=stated_encoding(),
            files=inputs[code],
            model=model_of(inputs, code),
            output=f"{code}/sentences",
        )
        return one(unit, lines)

    def do(self, task: Task) -> Facts:
        from mexma_cli.stages.split.inputs import Splitting, doubt_of_text, find_inputs, passed_over_in_words

        settings = self.split.but(lid_model=next(map(Path, self.model), None))
        how = Splitting(self.language, settings, settings.rejects)
        task.output.mkdir(exist_ok=True)
        rejects = task.output / f"{self.language}.rejects.zst" if settings.rejects else None
        outputs = SplitOutputs(task.output / f"{self.language}.txt.zst", rejects)
        inputs = find_inputs(list(self.files), self.language)
        report = split(inputs, how, outputs, int(os.environ.get("OMP_NUM_THREADS", 1)))
        outputs.report.unlink()  # it says how long it took: the facts below are in the run's report
        lost = {reason: count for reason, count in report.documents_dropped.items() if reason in report.named}
        said = [f"{count:,} {reason}{such_as(report.named[reason])}" for reason, count in lost.items()]
        notes = [passed_over_in_words(inputs.passed_over)] if inputs.passed_over else []
        notes += [f"of {counted(report.documents, 'document')} {'; '.join(said)}"] if lost else []
        notes += [*report.warnings(self.language), *doubt_of_text(inputs.files, how)]
        return asdict(report) | {"notes": [f"{self.language}: {note}" for note in notes]}


class Cut(Unit):
    """A text in pieces of some lines, each a file in a folder."""

    stage = "read"
    cost = Cost(0.0, 0.01, 3e-6, threads=False)
    keys: ClassVar = keys_of_text("{}")
    holds = RULES
    grows = True
    lines: int

    @classmethod
    def planned(cls, recipe: CorpusRecipe, code: str, inputs: Inputs, lines: int) -> Kind:
        documents = recipe.languages[code].split is not None
        unit = cls(
            name=f"{code}/text",
            lines=recipe.units.lines,
            encoding=None if documents else stated_encoding(),
            inputs={"sentences": f"{code}/sentences"} if documents else {},
            files={} if documents else inputs[code],
            output=f"{code}/text",
        )
        return one(unit, lines)

    def do(self, task: Task) -> Facts:
        if "sentences" in self.inputs:
            sentences, split = task.sentences("sentences"), task.record("sentences").facts
            if not split["kept"]:
                lost = {**split["documents_dropped"], **split["dropped"]}
                raise MexmaError(
                    f"{self.room}: no sentence is left of {counted(split['documents'], 'document')} and "
                    f"{counted(split['sentences'], 'sentence')}",
                    ", ".join(f"{count:,} dropped by {rule}" for rule, count in lost.items()) or None,
                )
            return write_pieces(read_lines(sentences), task.output, self.lines, str(sentences))
        texts = list(self.files)
        broken = broken_lines(next(read_pieces(Path(texts[0]), texts[0]), b""))
        notes = [f"{texts[0]}: {broken}"] if broken else []
        every = chain.from_iterable(map(read_lines, texts))
        first = list(islice(every, LOOKED_AT))
        identified = identifier("py3langid")
        assert identified is not None
        other = another_language(first, self.room, identified)
        found = write_pieces(chain(first, every), task.output, self.lines, ", ".join(texts))
        return found | {"notes": notes, "warning": f"{texts[0]}: {other}" if other else None}


class Pieces(NamedTuple):
    """A text in pieces: its lines, those of a piece, and the checksums of these, if it was cut already."""

    lines: int
    size: int
    checksums: tuple[str, ...] = ()


def write_pieces(text: Iterator[str], output: Path, lines: int, name: str) -> dict[str, Any]:
    """Cut a text, whose name is for messages, into a folder of files of so many lines, the last one perhaps
    shorter. Returns `pieces`: for each its `name`, `lines` and `checksum`."""
    pieces: list[dict[str, Any]] = []
    with workplace(output) as part:
        part.mkdir()
        for first in text:
            piece = part / f"{len(pieces):05d}.txt.zst"
            held = chain([first], islice(text, lines - 1))
            count = write_chunks([piece], (((f"{line}\n",), 1) for line in held))
            pieces.append({"name": piece.name, "lines": count, "checksum": checksum_file(piece)})
        if not pieces:
            raise MexmaError(f"{name}: no lines", "give text with one sentence a line")
        write_json_atomic(part / MANIFEST, {"kind": "pieces", "pieces": pieces})
        commit(output)
    return {"pieces": pieces}


class UsesEncoder(Unit):
    """Units that embed."""

    on_gpu = True
    encoder: CorpusEncoder
    encoder_files: dict[str, str]  # as `files_of_encoder` names them -> their checksums

    @classmethod
    def memory(cls, sizes: Sizes) -> dict[str, int]:
        words = min(_KEPT_BYTES * sizes.words, _MOST_KEPT_BYTES)
        return {"libraries": sizes.encoder, "words": _BUFFER_BYTES + words}


@lru_cache(maxsize=1)
def loaded(choice: CorpusEncoder, files: tuple[tuple[str, str], ...]) -> SentenceEncoder:
    """The encoder that this process embeds with; it is kept for the next unit with the same files."""
    return load_encoder(choice)


class Embed(UsesEncoder):
    """A piece of a text as a store."""

    stage = "embed"
    cost = Cost(LOADING, 0.02, 9e-5)
    keys: ClassVar = {"encoder": CorpusEncoder, "languages.{}": LanguageText}
    language: str
    clean: bool
    piece: str
    checksum: str

    @classmethod
    def planned(cls, recipe: CorpusRecipe, code: str, made: Pieces, inputs: Inputs) -> Kind:
        def piece(place: int) -> Embed:
            return cls(
                name=f"{code}/embed/{place:05d}",
                language=code,
                clean=recipe.languages[code].clean,
                encoder=recipe.encoder,
                piece=f"{place:05d}.txt.zst",
                checksum=made.checksums[place] if made.checksums else "",
                parts={"text": f"{code}/text"},
                encoder_files=inputs[ENCODER],
                output=f"{code}/embedded/{place:05d}.emb",
            )

        return Kind(f"{code}/embed", cls, piece, (-(-made.lines // made.size),), made.lines)

    def do(self, task: Task) -> Facts:
        piece = task.input("text") / self.piece
        check_content(piece, self.checksum, ANEW)
        encoder = loaded(self.encoder, tuple(self.encoder_files.items()))
        options = EmbedOptions(self.language, EmbedSettings(clean=self.clean))
        text = scan(piece, f"{self.language}/{piece.name}")
        manifest = embed_file(encoder, text, task.output, options).manifest
        warning = unknown_language(encoder, self.language)
        return {"truncated": manifest.truncated, "duplicates": manifest.duplicates, "warning": warning}


class Merge(Unit):
    """The pieces of a text as one store."""

    stage = "embed"
    cost = Cost(0.0, 0.01, 1e-7, threads=False)

    @classmethod
    def planned(cls, code: str, pieces: Kind) -> Kind:
        def merged() -> Merge:
            names = (f"{pieces.name}/{place:05d}" for place in range(pieces.count))
            inputs = {name: name for name in names}
            return cls(name=f"{code}/store", inputs=inputs, output=f"{code}/{code}.emb")

        return Kind(f"{code}/store", cls, merged, (), pieces.rows)

    def do(self, task: Task) -> Facts:
        store = merge_stores([task.store(name) for name in self.inputs], task.output)
        return {"rows": store.rows, "empty": store.manifest.empty, "truncated": store.manifest.truncated}
