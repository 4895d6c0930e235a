"""Pairs of embedding stores to a decomposer, and a finished one read again.

run/recipe.yaml  run/log.jsonl  run/checkpoints/  run/meaning/  run/language/  run/decomposer.json, and
run/encoder/ where the recipe names the encoder: that encoder with the meaning map behind it.
The maps are folders of sentence-transformers' Dense module. decomposer.json comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
import xxhash

from mexma_cli import __version__, languages
from mexma_cli.encoder.encoder import Pooling, SentenceEncoder
from mexma_cli.encoder.loading.folder import check_whole, written_aside
from mexma_cli.encoder.loading.modules import load_dense, save_dense
from mexma_cli.encoder.loading.settings import read_json_object
from mexma_cli.encoder.model.pooling import Dense
from mexma_cli.errors import MexmaError
from mexma_cli.files import Sealed, clear_all, fingerprint, only_writer, read_manifest, write_json_atomic
from mexma_cli.numerics.devices import pick_device
from mexma_cli.objectives.decompose.loss import Decomposer
from mexma_cli.settings.training import DecomposeRecipe
from mexma_cli.stages.train import run_folder
from mexma_cli.store.embeddings import EmbeddingStore, StorePair, check_comparable
from mexma_cli.training.decomposing import DecomposerTraining, StoredPairs
from mexma_cli.training.log import TrainingLog

MANIFEST = "decomposer.json"
FORMAT_VERSION = 1
PHASE = "train"
VectorPart = Literal["meaning", "language"]
_AGAIN = "train it anew, or fetch the whole folder"
PARTS: tuple[VectorPart, ...] = ("meaning", "language")


class DecomposerManifest(Sealed):
    """The content of ``decomposer.json``."""

    kind: Literal["decomposer"] = "decomposer"
    format_version: int = FORMAT_VERSION
    encoder: str
    """The encoder whose vectors it takes apart; its fingerprint comes next."""
    encoder_fingerprint: str
    pooling: str
    prefix: str
    normalised: bool = True
    """Whether it takes unit vectors apart, or those before the encoder's Normalize."""
    dim: int
    languages: tuple[str, ...]
    fingerprints: dict[VectorPart, str]
    """Fingerprints of stores with one part of the vectors, which go with stores of the same part only. The
    meaning's is the exported encoder's, where there is one, since that encoder embeds this part."""
    exported: bool
    tool_version: str


@dataclass(frozen=True)
class TrainedDecomposer:
    """A finished run's two maps. Make one with `open`."""

    run: Path
    manifest: DecomposerManifest
    maps: dict[VectorPart, Dense]

    @classmethod
    def open(cls, run: str | Path) -> TrainedDecomposer:
        """Read the maps of a run; one that is no finished run of a decomposer is refused."""
        folder = Path(run)
        if not (folder / MANIFEST).is_file():
            unfinished = (folder / "checkpoints").is_dir()
            raise MexmaError(
                f"{folder} is no finished run of a decomposer: it has no {MANIFEST}",
                "its training goes on with `mexma train RECIPE --resume`"
                if unfinished
                else "`mexma train systems/meat-oracle` and the like make one",
            )
        manifest = read_manifest(folder / MANIFEST, DecomposerManifest, FORMAT_VERSION, _AGAIN)
        maps = {}
        for part in PARTS:
            check_whole(folder / part, _AGAIN)
            maps[part] = load_dense(folder / part, read_json_object(folder / part / "config.json") or {})
            linear = maps[part].linear
            if (linear.in_features, linear.out_features) != (manifest.dim, manifest.dim):
                raise MexmaError(
                    f"{folder / part} is damaged: {maps[part]} in a decomposer of {manifest.dim}"
                )
        return cls(folder, manifest, maps)

    @torch.inference_mode()
    def part(self, vectors: np.ndarray, part: VectorPart) -> np.ndarray:
        """One part of an encoder's vectors, float32 [N, dim] both."""
        found: np.ndarray = self.maps[part](torch.from_numpy(vectors)).numpy()
        return found

    def check(self, encoder: str, found: str, what: str) -> None:
        """Refuse vectors (of `what`) that are of another encoder, by its fingerprint `found`, than those it
        was trained on."""
        wanted = self.manifest
        for part in PARTS:
            if found == wanted.fingerprints[part]:
                raise MexmaError(f"{what}: these vectors are the {part} of {self.run} already")
        if found != wanted.encoder_fingerprint:
            raise MexmaError(
                f"different encoders: {encoder} ({found[:12]}) for {what}, {wanted.encoder} "
                f"({wanted.encoder_fingerprint[:12]}) for what {self.run} was trained on",
                "embed with the encoder that it was trained on",
            )


def decompose(
    recipe: DecomposeRecipe,
    resume: bool = False,
    on_start: Callable[[DecomposerTraining], object] = lambda training: None,
    on_epoch: Callable[[dict[str, Any]], object] = lambda record: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Path | None:
    """Train a decomposer from a recipe's stores, and write its maps; returns the run's folder, or None if it
    was stopped: `stopped` is asked after every step, and on True the run is left with a checkpoint.
    `on_start` is called before the first step, with the state that it begins at.

    Refused: stores that do not go together, are too small, or are of another encoder than the recipe's; a
    folder with a run already (without `resume`) or with another recipe's (with it).
    """
    stores = open_store_pairs(recipe)
    encoder = _encoder(recipe, stores[0][0])
    settings, run = recipe.trainer, Path(recipe.run)
    device = pick_device(settings.device)
    pairs = StoredPairs(stores, recipe.data.rows, recipe.data.validation, settings.seed)
    torch.manual_seed(settings.seed)
    languages = len(pairs.languages)
    objective: Decomposer = recipe.objective.losses()(pairs.dim, languages, recipe.objective)
    training = DecomposerTraining(objective, pairs, settings, run / "checkpoints", device)
    text = _text(recipe, stores)
    if here := run_folder.check(run, recipe, resume):
        run_folder.same_text(
            run, text, "it needs the stores that it began with, or start anew in another `run`"
        )
    run_folder.write_beginning(run, recipe, {run_folder.TEXT: text}, here)
    with only_writer(run):
        clear_all(run, run / "checkpoints")
        if not (run / MANIFEST).is_file():
            step = training.resume()
            on_start(training)
            log = TrainingLog(run / "log.jsonl", PHASE, step)
            try:
                if not training.run(log, on_epoch, stopped):
                    return None
            finally:
                log.close()
            _finish(run, training.go_to_best().to("cpu"), pairs, stores[0][0], encoder)
    return run


def open_store_pairs(recipe: DecomposeRecipe) -> list[StorePair]:
    """A recipe's stores, source and target; refused where they do not go together, in rows, languages or
    encoder."""
    found: list[StorePair] = []
    seen: set[frozenset[Path]] = set()
    for source, target in recipe.data.paths():
        _both_there(source, target)
        both = frozenset((source.resolve(), target.resolve()))
        if both in seen:
            raise MexmaError(
                f"{source} and {target} are in data.pairs twice",
                "once is enough: of two copies one would be trained on what the other holds out",
            )
        seen.add(both)
        pair = EmbeddingStore.open(source), EmbeddingStore.open(target)
        if pair[0].rows != pair[1].rows:
            raise MexmaError(
                f"{source} has {pair[0].rows:,} rows, {target} has {pair[1].rows:,}",
                "row n of one must be the translation of row n of the other",
            )
        if not pair[0].rows:
            raise MexmaError(f"{source} and {target} have no rows", "take this pair out of data.pairs")
        for store in pair:
            check_comparable(found[0][0] if found else pair[0], store)
            if store.manifest.language == languages.UNSTATED:
                raise MexmaError(
                    f"{store.path} does not say what language it is in", "embed it with --lang CODE"
                )
        if pair[0].manifest.language == pair[1].manifest.language:
            raise MexmaError(
                f"{source} and {target} are both {pair[0].manifest.language}: there are no languages to tell "
                "apart",
                "name a pair of two languages",
            )
        found.append(pair)
    return found


def _text(recipe: DecomposeRecipe, stores: Sequence[StorePair]) -> dict[str, str]:
    """Fingerprints of all stores, by the names that the recipe has for them."""
    return {
        str(path): fingerprint(
            [store.manifest.language, [shard.vectors.checksum for shard in store.manifest.shards]]
        )
        for pair in zip(recipe.data.paths(), stores, strict=True)
        for path, store in zip(*pair, strict=True)
    }


def _both_there(source: Path, target: Path) -> None:
    there, missing = (source, target) if source.exists() else (target, source)
    if there.exists() and not missing.exists():
        raise MexmaError(
            f"a language on one side only: {there} is there, {missing} is not",
            "embed the other side too, or take the language out of data.pairs",
        )


def _encoder(recipe: DecomposeRecipe, store: EmbeddingStore) -> SentenceEncoder | None:
    """The encoder to save with the meaning map, embedding as it did for the stores."""
    if recipe.encoder is None:
        return None
    manifest = store.manifest
    encoder = SentenceEncoder.load(recipe.encoder, "cpu", pooling=cast("Pooling", manifest.pooling))
    if not manifest.normalised:
        encoder.keep_lengths()
    if encoder.fingerprint != manifest.fingerprint:
        raise MexmaError(
            f"`encoder`: {recipe.encoder} ({encoder.fingerprint[:12]}) did not make {store.path}: that was "
            f"{manifest.encoder} ({manifest.fingerprint[:12]})",
            "name that one, or leave `encoder` out",
        )
    encoder.prefix = manifest.prefix
    return encoder


def _finish(
    run: Path,
    objective: Decomposer,
    pairs: StoredPairs,
    store: EmbeddingStore,
    encoder: SentenceEncoder | None,
) -> None:
    """Write the maps, the encoder with the meaning, and the manifest."""
    prints: dict[VectorPart, str] = {}
    for part in PARTS:
        linear = getattr(objective, part)
        with written_aside(run / part) as aside:
            save_dense(aside, Dense(linear, torch.nn.Identity()), torch.float32)
        prints[part] = fingerprint([store.manifest.fingerprint, part, _hash(linear)])
    if encoder is not None:
        encoder.modules.append(Dense(objective.meaning, torch.nn.Identity()))
        encoder.trained = {}  # its dev errors were those without the map
        encoder.save(run / "encoder")
        prints["meaning"] = SentenceEncoder.load(str(run), "cpu").fingerprint
    manifest = DecomposerManifest(
        encoder=store.manifest.encoder,
        encoder_fingerprint=store.manifest.fingerprint,
        pooling=store.manifest.pooling,
        prefix=store.manifest.prefix,
        normalised=store.manifest.normalised,
        dim=pairs.dim,
        languages=tuple(pairs.languages),
        fingerprints=prints,
        exported=encoder is not None,
        tool_version=__version__,
    )
    write_json_atomic(run / MANIFEST, manifest.sealed().model_dump(mode="json"))


def _hash(linear: torch.nn.Linear) -> str:
    digest = xxhash.xxh3_128()
    for _, tensor in sorted(linear.state_dict().items()):
        digest.update(tensor.detach().contiguous().numpy())
    return digest.hexdigest()
