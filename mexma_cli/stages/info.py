"""The kind of a file or folder, the facts about it, and whether it is whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mexma_cli import languages
from mexma_cli.encoder.loading import folder as encoder_folder
from mexma_cli.errors import MexmaError
from mexma_cli.files import (
    CHECKPOINT,
    MANIFEST,
    MARK,
    PROGRESS,
    Unfinished,
    checksum_file,
    folder_kind,
    refuse_pipe,
)
from mexma_cli.formats.bitext import DEFAULT, formats, open_lines, open_pairs
from mexma_cli.formats.sides import NO_SIDE
from mexma_cli.formats.tmx import Tmx
from mexma_cli.formats.tsv import CSV
from mexma_cli.stages.run.scheduler import STATUS
from mexma_cli.stages.run.units import UNITS, RunFolder
from mexma_cli.store import layout
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.folder import Folder
from mexma_cli.store.neighbours import NeighbourStore
from mexma_cli.store.pairs import TokenisedPairs
from mexma_cli.text.compression import plain_name
from mexma_cli.text.lines import OTHER_FORMATS, is_blank, read_lines, read_pieces, scan
from mexma_cli.text.pages import by_codec
from mexma_cli.training.log import read_record

if TYPE_CHECKING:
    from mexma_cli.settings.training import DecomposeRecipe

_CHECKSUMS = "every file has the checksum in its manifest"
_LOADS = "it loads; there is no checksum to compare its files with"
_LOADS_WHOLE = f"it loads, and its files have the checksums in {encoder_folder.CHECKSUMS}"
_CHECKED = {
    "embedding store": _CHECKSUMS,
    "neighbours": _CHECKSUMS,
    "prepared pairs": _CHECKSUMS,
    "checkpoint": _CHECKSUMS,
    "training run": "the recipe can be read",
    "decomposer": _LOADS,
    "encoder": _LOADS,
    "tokeniser": _LOADS,
    "sentence pairs": "every pair can be read; there is no checksum to compare them with",
    "table": "every row can be read; there is no checksum to compare it with",
    "text file": "every line can be read; there is no checksum to compare it with",
}


@dataclass
class Info:
    """The findings.

    Attributes:
        kind: In words.
        facts: By name, in the order in which they are shown.
        problems: What is broken; empty if all that can be checked is right.
        parts: The stores, checkpoints and encoders in the folder.
        rows: A table, with the same columns in every row: the languages of an encoder or a TMX.
    """

    path: str
    kind: str
    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    parts: list[Info] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Note an error of the block as a problem."""
        try:
            yield
        except MexmaError as error:
            self.problems.append(error.message)

    def all_problems(self) -> list[str]:
        """Its own problems and those of its parts."""
        return [*self.problems, *(problem for part in self.parts for problem in part.all_problems())]

    def checked(self) -> dict[str, str]:
        """The checks that it and its parts passed, by kind; it holds if there are no problems."""
        own = {self.kind: _CHECKED[self.kind]} if self.kind in _CHECKED else {}
        compared = Path(self.path, "meaning" if self.kind == "decomposer" else "", encoder_folder.CHECKSUMS)
        if own.get(self.kind) == _LOADS and compared.is_file():
            own[self.kind] = _LOADS_WHOLE
        return own | {kind: right for part in self.parts for kind, right in part.checked().items()}


def inspect(path: str | Path) -> Info:
    """Look at an embedding store, neighbours, prepared pairs, a run, a checkpoint, an encoder or a text file;
    anything else is refused. Everything is read, and compared with checksums where there are some."""
    where = (encoder_folder.bundled_folder(path) if isinstance(path, str) else None) or Path(path)
    if not where.exists():
        raise MexmaError(f"{path}: no such file or folder")
    refuse_pipe(where)
    if where.is_file():
        return _encoder(where) if where.suffix == encoder_folder.CHECKPOINT_ENDING else _file(where)
    if (where / STATUS).is_file() or RunFolder(where).begun:
        raise MexmaError(
            f"{where} is the folder of a corpus run",
            "`mexma run RECIPE --status` says how far it is; this command looks at the stores in it",
        )
    look = _look(where)
    if look is None:
        raise MexmaError(
            f"{where} is nothing that mexma makes",
            "it knows embedding stores, neighbours, prepared pairs, runs, checkpoints, encoders and texts",
        )
    return look(where)


def _store(where: Path, what: str, store: type[Folder[Any]]) -> Info:
    info = Info(str(where), what)
    with info.checking():
        manifest = store.manifest_of(where)
        if isinstance(manifest, layout.EmbeddingManifest):
            info.facts = {"format_version": manifest.format_version, "encoder": manifest.encoder}
        hidden = {"kind", "shards", "files", "checksums", "asked", "argv"}
        info.facts |= manifest.model_dump(mode="json", exclude=hidden, exclude_none=True)
        if isinstance(manifest, layout.EmbeddingManifest):
            info.facts["language"] += f" ({languages.name(manifest.language)})"
            info.facts |= {"duplicates": manifest.duplicates, "shards": len(manifest.shards)}
        if hasattr(manifest, "argv"):
            info.facts["argv"] = " ".join(manifest.argv)
        store.open(where, verify=True)
    return info


_EMBEDDINGS = partial(_store, what="embedding store", store=EmbeddingStore)
_NEIGHBOURS = partial(_store, what="neighbours", store=NeighbourStore)
_PAIRS = partial(_store, what="prepared pairs", store=TokenisedPairs)


def _look(where: Path) -> Callable[[Path], Info] | None:
    found = _kind(where)
    return _folder_of_run if found in (None, _several) and _run_of(where) else found


def _kind(where: Path) -> Callable[[Path], Info] | None:
    if (where / MANIFEST).is_file():
        kinds = {"bitext": _PAIRS, "neighbours": _NEIGHBOURS, "pieces": None, "rows": None}
        return kinds.get(str(folder_kind(where)), _EMBEDDINGS)
    if where.name == UNITS and RunFolder(where.parent).begun:
        return None
    known: dict[str, Callable[[Path], Info]] = {
        MARK: _unfinished,
        CHECKPOINT: _checkpoint,
        "recipe.yaml": _run,
        "config.json": _encoder,
        "modules.json": _encoder,  # old ones of sentence-transformers have config.json in a folder of its own
        "tokenizer.json": _tokenizer,
    }
    for name, look in known.items():
        if (where / name).is_file():
            return look
    if EmbeddingStore.has_files(where):
        return _EMBEDDINGS
    if any((part / MANIFEST).is_file() for part in where.iterdir() if part.is_dir()):
        return _several
    return None


def _unfinished(where: Path) -> Info:
    unfinished = Info(str(where), "unfinished output")
    if not (where / PROGRESS).is_file():
        unfinished.problems = [f"{where} is unfinished: the same command begins it anew"]
        return unfinished
    progress = Unfinished.read(where)
    by = progress.by
    for folder in where.resolve().parents:
        if (folder / MARK).is_file():
            with suppress(MexmaError, OSError):
                by = Unfinished.read(folder).by  # a run's unit is gone on with by the run
    unfinished.facts = {"made by": f"mexma {progress.by}"} | progress.of
    if "shards" in progress.facts:
        shards = layout.UnfinishedStore.read(where).facts["shards"]
        unfinished.facts["rows so far"] = sum(shard.rows for shard in shards)
    unfinished.problems = [f"{where} is unfinished: the same `mexma {by}` command goes on where it stopped"]
    return unfinished


def _several(where: Path) -> Info:
    folders = [part for part in sorted(where.iterdir()) if part.is_dir()]
    found = [look(part) for part in folders if (look := _kind(part))]
    pairs = sum(part.facts.get("pairs", 0) for part in found)
    return Info(str(where), "folder of stores", {"stores": len(found), "pairs": pairs}, parts=found)


def _run_of(where: Path) -> Path | None:
    return next((folder for folder in where.resolve().parents if RunFolder(folder).begun), None)


def _folder_of_run(where: Path) -> Info:
    """A folder in that of a corpus run, with the stores, pairs and texts in it."""
    run = _run_of(where)
    assert run is not None
    inside = sorted(path for path in where.iterdir() if not path.name.startswith("."))
    info = Info(str(where), "folder of a corpus run", {"run": str(run), "files and folders": len(inside)})
    if where.resolve().relative_to(run).parts[0] == UNITS:
        info.kind = "records of the units of a corpus run"
    else:
        for path in inside:
            if path.is_dir():
                info.parts.append((_look(path) or _folder_of_run)(path))
            elif Path(plain_name(path.name)).suffix not in OTHER_FORMATS:
                with info.checking():
                    info.parts.append(_file(path))
    return info


def _checkpoint(where: Path) -> Info:
    from mexma_cli.training.checkpoint import verify

    info = Info(str(where), "checkpoint")
    with info.checking():
        manifest = verify(where)
        info.facts = manifest.model_dump(mode="json", exclude={"files", "checksum"})
        info.facts["bytes"] = sum((where / name).stat().st_size for name in manifest.files)
    return info


def _checkpoints(where: Path) -> list[Info]:
    """Checkpoints of a phase: the last ones, and the one with the best score."""
    from mexma_cli.training.checkpoint import BEST, found

    folder = where / "checkpoints"
    best = [folder / BEST] if (folder / BEST).is_dir() else []
    return [_checkpoint(checkpoint) for checkpoint in [*found(folder), *best]]


def _run(where: Path) -> Info:
    from mexma_cli.settings.load import load_any
    from mexma_cli.settings.training import DecomposeRecipe

    info = Info(str(where), "training run")
    with info.checking():
        recipe = load_any(where / "recipe.yaml")
        if isinstance(recipe, DecomposeRecipe):
            return _decomposer(where, recipe)
        info.facts = {"recipe": recipe.name, "phases": ", ".join(phase.name for phase in recipe.phases)}
        info.parts = [part for phase in recipe.phases for part in _checkpoints(where / phase.name)]
    info.facts |= _last_record(where / "log.jsonl")
    info.facts["finished"] = (where / "encoder").is_dir()
    if info.facts["finished"]:
        info.parts.append(_encoder(where / "encoder"))
    return info


def _decomposer(where: Path, recipe: DecomposeRecipe) -> Info:
    from mexma_cli.stages.train.decompose import MANIFEST, TrainedDecomposer

    info = Info(str(where), "decomposer", {"recipe": recipe.name, "objective": recipe.objective.name})
    info.facts |= _last_record(where / "log.jsonl")
    info.facts["finished"] = (where / MANIFEST).is_file()
    with info.checking():
        if info.facts["finished"]:
            manifest = TrainedDecomposer.open(where).manifest
            info.facts |= manifest.model_dump(mode="json", exclude={"kind", "format_version", "checksum"})
    info.parts = _checkpoints(where)
    if (where / "encoder").is_dir():
        info.parts.append(_encoder(where / "encoder"))
    return info


def _last_record(path: Path) -> dict[str, Any]:
    """The last whole line of a run's log."""
    if not path.is_file():
        return {}
    for line in reversed(path.read_bytes().splitlines()):
        if (record := read_record(line)) is not None:  # it is, where a run was killed while it wrote
            return {f"last {key}": value for key, value in record.items()}
    return {}


_SHAPE = {"layers": "num_hidden_layers", "heads": "num_attention_heads", "vocabulary": "vocab_size"}
"""Facts of a transformer, and the keys of its config."""


def _encoder(where: Path) -> Info:
    from mexma_cli.encoder.encoder import SentenceEncoder

    info = Info(str(where), "encoder")
    try:
        encoder = SentenceEncoder.load(where, device="cpu")
    except MexmaError as error:
        if where.is_file():
            raise  # it need not be an encoder
        info.problems.append(error.message)
        return info
    except Exception as error:  # damaged weights make the libraries raise whatever they like
        info.problems.append(f"{where} cannot be loaded: {error}")
        return info
    config = encoder.transformer.config
    info.facts = {
        "model type": config.model_type,
        "dim": encoder.dim,
        **{name: getattr(config, key) for name, key in _SHAPE.items() if hasattr(config, key)},
        "parameters": sum(
            weights.numel()
            for part in (encoder.transformer.weights, encoder.modules.state_dict())
            for weights in part.values()
        ),
        "computed by": encoder.computed_by,
        "pooling": encoder.pooling,
        "normalised": encoder.normalised,
        "max_tokens": encoder.max_tokens,
        "fingerprint": encoder.fingerprint,
    }
    if len(encoder.modules):
        info.facts["modules"] = ", ".join(map(str, encoder.modules))
    if encoder.ngrams:
        info.facts["n-grams of unseen words"] = len(encoder.ngrams.keys)
    if encoder.prefix:
        info.facts["prefix"] = encoder.prefix
    if encoder.transformer.tasks:
        info.facts["tasks"] = ", ".join(encoder.transformer.tasks)
    if encoder.languages:
        others = sorted(set(encoder.trained) - set(encoder.languages))
        info.facts["languages"] = len(encoder.languages)
        if others:
            info.facts["others measured"] = len(others)
        codes = [*encoder.languages, *others]
        info.rows = [{"code": code, "language": languages.name(code)} for code in codes]
        for row in info.rows if encoder.trained else ():
            known = encoder.trained.get(row["code"])
            row["known"] = "yes" if row["code"] in encoder.languages else "no"
            row |= {"pairs": known and known.pairs, "dev xsim error": known and known.dev_error}
    return info


def _tokenizer(where: Path) -> Info:
    from mexma_cli.stages.prepare.tokenizer import read_tokenizer

    return Info(str(where), "tokeniser", {"vocabulary": read_tokenizer(where).backend.get_vocab_size()})


def _file(where: Path) -> Info:
    """A file of pairs, of a format that its beginning tells, or whose lines have tabs; or a text. A file
    of a binary format without pairs is refused."""
    found, left_out = None, Counter[str]()
    start = next(read_pieces(where, str(where)), b"")
    binary = any(known.compressed and known.recognises(start) for known in formats().values())
    with suppress(*[MexmaError] * (not binary)):
        found = open_pairs(where, left_out=left_out)
    if found is None or found.format == Tmx.name:  # which may have more than two languages
        with suppress(MexmaError):
            left_out = Counter()
            found = open_pairs(where, languages=(NO_SIDE, NO_SIDE), format=Tmx.name, left_out=left_out)
    if (found is None or found.format == DEFAULT) and not start:
        return Info(str(where), "empty file")
    if found is None or (found.format == DEFAULT and (text := scan(where, any_kind=True)).tabs < text.lines):
        return _text(where)
    codes = [code for code in found.languages if code not in (NO_SIDE, languages.UNSTATED)]
    spoken = [f"{code} ({languages.name(code)})" for code in codes]
    info = Info(
        str(where), "sentence pairs", {"format": found.format, "languages": ", ".join(spoken) or None}
    )
    first: Any = None
    with info.checking():
        called = "units" if found.format == Tmx.name else "pairs"
        for info.facts[called], pair in enumerate(found.pairs, 1):
            first = first or pair
    info.rows = [
        {"tag": tag, "language": languages.name(languages.known(tag)), "segments": count}
        for tag, count in found.segments.items()
    ]
    if found.format == DEFAULT and (info.problems or first is None or first.source.isdecimal()):
        return _text(where)
    if found.format == CSV and first is None and info.problems:
        return _table(where, found.format, *info.problems)
    info.facts["columns"] = (
        [name for name, value in first._asdict().items() if value is not None] if first else []
    )
    info.facts |= (
        left_out | found.other_values | {"bytes": where.stat().st_size, "checksum": checksum_file(where)}
    )
    return info


def _table(where: Path, format: str, without_pairs: str) -> Info:
    """A table of which it is not known what its columns are."""
    info = Info(str(where), "table", {"format": format, "rows": 0, "no pairs": without_pairs})
    with info.checking():
        for info.facts["rows"], row in enumerate(open_lines(where), 1):
            info.facts.setdefault("first row", row.split("\t"))
    info.facts |= {"bytes": where.stat().st_size, "checksum": checksum_file(where)}
    return info


def _text(where: Path) -> Info:
    found = scan(where, any_kind=True)
    empty = sum(map(is_blank, read_lines(where)))
    encoding = next((codec for codec, _ in by_codec(read_pieces(where, str(where))) if codec), "utf-8")
    facts = {"lines": found.lines, "empty": empty, "encoding": encoding}
    return Info(str(where), "text file", facts | {"bytes": where.stat().st_size, "checksum": found.checksum})
