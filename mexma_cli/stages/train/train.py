"""Recipe and prepared pairs to a trained encoder: each phase in its own folder, resumable.

run/recipe.yaml  run/log.jsonl  run/PHASE/checkpoints/  run/PHASE/encoder/  run/encoder/ (the last phase's)
"""

from __future__ import annotations

import logging
import resource
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.card import Trained
from mexma_cli.encoder.model.attention import Backend, choose_backend, set_attention_dropout
from mexma_cli.errors import MexmaError
from mexma_cli.files import checksum_file, clear_all, fingerprint, only_writer
from mexma_cli.languages import resolve
from mexma_cli.numerics.devices import multiplies
from mexma_cli.objectives.base import ALONE, Objective, Start
from mexma_cli.settings.training import Corpus, Phase, Recipe
from mexma_cli.stages.prepare.corpora import store_path
from mexma_cli.stages.prepare.prepare import CorpusReport, prepare
from mexma_cli.stages.prepare.tokenizer import check_length, load_fast_tokenizer, tokenizer_path
from mexma_cli.stages.train import run_folder
from mexma_cli.store.pairs import TokenisedPairs
from mexma_cli.training.checkpoint import BEST, drop_all
from mexma_cli.training.distributed import Processes
from mexma_cli.training.log import LOGGERS, Logs, TrainingLog, check_loggers, read_record
from mexma_cli.training.sampler import SampledPairs, Sampler
from mexma_cli.training.trainer import DevScore, Trainer, precision_in

log = logging.getLogger(__name__)


def train(
    recipe: Recipe,
    resume: bool = False,
    dev_score: DevScore | None = None,
    on_phase: Callable[[Phase, int, SentenceEncoder], object] = lambda phase, step, encoder: None,
    on_step: Callable[[dict[str, Any]], object] = lambda record: None,
    stopped: Callable[[], bool] = lambda: False,
    processes: Processes | None = None,
) -> Path | None:
    """Run all phases of a recipe, whose pairs must have been prepared; returns the folder of the finished
    encoder, or None if the run was stopped: `stopped` is asked after every step, and on True in any process
    the run is left with a checkpoint. `on_phase` is called when a phase begins, with the step it begins at.

    The processes that share the run all call this, and the first one writes. Refused: a folder with a run
    already (without `resume`) or with another recipe's (with it).
    """
    processes = processes or Processes()
    stores = open_stores(recipe)
    encoder = _start(recipe)
    encoder.languages, pairs = _languages(recipe, encoder, stores), _pairs(encoder, stores)
    _check(recipe, encoder, processes, scored=dev_score is not None)
    if processes.first:
        _warn(recipe, sum(map(len, stores)), processes)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # four files of each store stay open
    run = Path(recipe.run)
    if processes.first:
        run_folder.check_run(run, recipe, resume, processes.size)
        _check_stores(stores, encoder)
        run_folder.claim(run, recipe, resume, processes.size, _text(recipe, stores))
    processes.wait()
    with only_writer(run) if processes.first else nullcontext():
        if processes.first:
            phases = [run / phase.name for phase in recipe.phases]
            clear_all(run, *phases, *(phase / "checkpoints" for phase in phases))
        trained = not (run / "encoder").exists()
        for phase in recipe.phases:
            if not run_folder.finished(run, phase.name):
                trained = True
                trainer = trainer_of(recipe, phase, encoder, stores, dev_score, processes)
                step = trainer.resume()
                on_phase(phase, step, encoder)
                records = _log(run, phase, step, processes)
                try:
                    if not trainer.run(records, on_step, stopped):
                        return None
                finally:
                    records.close()
                _export(trainer, run, pairs)
                del trainer  # its optimiser's memory is the next phase's
                processes.wait()
            if processes.first and not phase.trainer.keep:
                drop_all(run / phase.name / "checkpoints")
            done = str(run / phase.name / "encoder")
            encoder = SentenceEncoder.load(done, "cpu", max_tokens=recipe.data.max_tokens)
        if processes.first and trained:  # else it may have the user's own changes
            encoder.save(run / "encoder")
    return run / "encoder"


def _log(run: Path, phase: Phase, step: int, processes: Processes) -> Logs:
    if not processes.first:
        return Logs([])
    others = [LOGGERS[name](run, phase.name, step) for name in phase.trainer.loggers]
    return Logs([TrainingLog(run / "log.jsonl", phase.name, step), *others])


def _export(trainer: Trainer, run: Path, pairs: Mapping[str, int]) -> None:
    """Write the encoder of a phase, with what is known of its languages; `pairs` by FLORES-200 code."""
    if trainer.settings.export == "best":
        trainer.go_to(trainer.checkpoints / BEST)
    with trainer.exported() as encoder:
        if encoder is not None:
            errors = _dev_errors(run / "log.jsonl", trainer.folder.name, trainer.step)
            encoder.trained = {
                code: Trained(pairs=count, dev_error=errors.get(code)) for code, count in pairs.items()
            }
            encoder.save(trainer.folder / "encoder")


def _dev_errors(path: Path, phase: str, step: int) -> dict[str, float]:
    """The dev score of each language at a step, from a run's log, by FLORES-200 code."""
    records = filter(None, map(read_record, path.read_bytes().splitlines()))
    found = [
        record.get("dev", {}) for record in records if (record["phase"], record["step"]) == (phase, step)
    ]
    return {resolve(name): error for name, error in found[-1].items() if name != "xsim"} if found else {}


def _attention(recipe: Recipe, phase: Phase, processes: Processes) -> Backend:
    """The backend that computes attention; refused where it cannot run."""
    encoder = recipe.encoder
    dropout = encoder.new.attention_dropout if encoder.new else encoder.attention_dropout
    return choose_backend(encoder.attention, processes.device(phase.trainer.device), dropout)


def _check(recipe: Recipe, encoder: SentenceEncoder, processes: Processes, scored: bool) -> None:
    """Refuse what cannot run, here or at all, before the run's folder is claimed."""
    for phase in recipe.phases:
        _attention(recipe, phase, processes)
        check_loggers(phase.trainer.loggers)
        if phase.trainer.export == "best" and not scored:
            raise MexmaError(
                f"phase {phase.name}: trainer.export is `best`, and there is no `dev` set to tell which is",
                "name a dev set, or take `last`",
            )
        check_objective(recipe, phase, encoder)
    check_length(encoder.name, encoder.max_tokens, recipe.data.max_tokens)


def _check_stores(stores: list[TokenisedPairs], encoder: SentenceEncoder) -> None:
    """Refuse damaged pairs, and those that an encoder cannot take."""
    for store in stores:
        store.verify()
        said = store.manifest
        if said.vocabulary > encoder.transformer.config.vocab_size or said.max_tokens > encoder.max_tokens:
            raise MexmaError(
                f"{store.path} has been prepared for another encoder: for {said.vocabulary:,} tokens, and "
                f"sentences of up to {said.max_tokens}",
                "run `mexma prepare` first, or name another `data.store`",
            )


def _warn(recipe: Recipe, pairs: int, processes: Processes) -> None:
    """Say what will be slow, and where a step sees the same pairs again: no negatives of each other."""
    for phase in recipe.phases:
        device = processes.device(phase.trainer.device)
        if not multiplies(precision_in(phase.trainer, device), device):
            log.warning(
                "phase %s: this %s has no instructions for trainer.precision=%s and emulates it, many times "
                "slower than fp32; --set trainer.precision=auto takes what it computes fast",
                phase.name,
                "processor" if device.type == "cpu" else "GPU",
                phase.trainer.precision,
            )
    for name, each in run_folder.pairs_per_step(recipe, processes.size).items():
        if each > pairs:
            log.warning(
                "phase %s takes %s pairs a step, and there are only %s", name, f"{each:,}", f"{pairs:,}"
            )


def prepare_text(
    recipe: Recipe,
    resume: bool = False,
    processes: int = 1,
    on_progress: Callable[[int, int, str], object] | None = None,
) -> list[CorpusReport]:
    """Prepare a recipe's text, unless a run of it, which so many processes share, is to go on that has its
    text already. Returns what was read and kept of each corpus; nothing if there was nothing to do."""
    here = run_folder.check_run(Path(recipe.run), recipe, resume, processes)
    if here and has_its_text(recipe):
        return []
    if resume and not here:
        log.warning(
            "nothing to resume in %s: training begins there; `mexma train FOLDER/%s --resume` goes on with a "
            "run elsewhere",
            recipe.run,
            run_folder.RECIPE,
        )
    return prepare(recipe, on_progress)


def has_its_text(recipe: Recipe) -> bool:
    """Whether the pairs and the tokeniser that a run was started with are there, prepared."""
    try:
        return run_folder.text_of(Path(recipe.run)) == _text(recipe, open_stores(recipe))
    except (MexmaError, OSError):
        return False


def _text(recipe: Recipe, stores: list[TokenisedPairs]) -> dict[str, str]:
    """Fingerprints, by name, of the prepared pairs, and of a tokeniser that was trained for them."""
    found: dict[str, str] = {}
    for store in stores:
        manifest = store.manifest
        name = f"{manifest.name}/{manifest.source_language}"
        if name in found:  # the recipe spells a language in several ways
            name = store.path.name
        found[name] = fingerprint([manifest.tokenizer_fingerprint, manifest.checksums])
    if recipe.encoder.new is not None:
        found["tokeniser"] = checksum_file(tokenizer_path(recipe) / "tokenizer.json")
    return found


def _start(recipe: Recipe) -> SentenceEncoder:
    """The encoder that the first phase trains."""
    settings = recipe.encoder
    if settings.new is None:
        assert settings.start is not None
        encoder = SentenceEncoder.load(
            settings.start, "cpu", pooling=settings.pooling, max_tokens=recipe.data.max_tokens
        )
        encoder.check_packs("training")
        encoder.truncate(None)
        if settings.pooling is not None:  # and nothing besides
            encoder.modules, encoder.prefix, encoder.prompts = torch.nn.Sequential(), "", {}
        return encoder
    tokenizer = load_fast_tokenizer(tokenizer_path(recipe))
    seed = recipe.phases[0].trainer.seed
    encoder = SentenceEncoder.new(settings.new, tokenizer, recipe.data.max_tokens, seed)
    encoder.pooling = settings.pooling or encoder.pooling
    return encoder


def _languages(recipe: Recipe, start: SentenceEncoder, stores: list[TokenisedPairs]) -> tuple[str, ...]:
    """The languages of the trained encoder; () if those of the encoder it starts from are not known."""
    if recipe.encoder.new is None and not start.languages:
        return ()
    sides = [(store.manifest.source_language, store.manifest.target_language) for store in stores]
    return tuple(sorted({*start.languages, *chain.from_iterable(sides)}))


def _pairs(start: SentenceEncoder, stores: list[TokenisedPairs]) -> dict[str, int]:
    """How many pairs the trained encoder knows of each language, as far as that is known of its start."""
    found = Counter({code: one.pairs for code, one in start.trained.items() if one.pairs})
    for store in stores:
        for code in {store.manifest.source_language, store.manifest.target_language}:
            found[code] += len(store)
    return dict(found)


def open_stores(recipe: Recipe) -> list[TokenisedPairs]:
    """All prepared corpora of a recipe that have pairs; one that was not prepared is refused."""
    stores = [TokenisedPairs.open(path) for _, path in _places(recipe)]
    return [store for store in stores if len(store)]


def _places(recipe: Recipe) -> list[tuple[Corpus, Path]]:
    """Every corpus in every language, and its store."""
    data = recipe.data
    return [
        (one, store_path(data, one.name, language)) for one in data.corpora for language in data.taken(one)
    ]


def trainer_of(
    recipe: Recipe,
    phase: Phase,
    encoder: SentenceEncoder,
    stores: list[TokenisedPairs],
    dev_score: DevScore | None,
    processes: Processes,
) -> Trainer:
    """A phase at its first step, with the encoder that it begins with."""
    encoder.backend = _attention(recipe, phase, processes)
    # By folder, since corpora of different languages may have one name.
    repeats = {path: corpus.repeat for corpus, path in _places(recipe)}
    sampler = Sampler(
        [len(store) for store in stores],
        [repeats[store.path] for store in stores],
        [store.manifest.source_language for store in stores],
        phase.trainer.temperature,
        phase.trainer.seed,
    )
    pairs = SampledPairs(stores, sampler)
    return Trainer(
        build_objective(recipe, phase, encoder, len(pairs.source_languages)),
        pairs,
        phase.trainer,
        Path(recipe.run) / phase.name,
        dev_score,
        processes,
    )


def build_objective(recipe: Recipe, phase: Phase, encoder: SentenceEncoder, languages: int) -> Objective:
    """The objective of a phase, for the encoder as the phase finds it and so many source languages; what is
    new in it comes from the phase's seed."""
    torch.manual_seed(phase.trainer.seed)  # whatever ran before in this process
    start = _objective_start(recipe, phase, encoder, languages)
    objective: Objective = phase.objective.losses().build(start, phase.objective)
    if recipe.encoder.start is not None:
        set_attention_dropout(objective, recipe.encoder.attention_dropout)
    return objective


def check_objective(recipe: Recipe, phase: Phase, encoder: SentenceEncoder) -> None:
    """Refuse a phase whose objective does not go with the encoder that the first phase begins with; the later
    ones have its shape, tokeniser and pooling."""
    try:
        if encoder.prefix:
            raise MexmaError(
                f"{encoder.name} puts {encoder.prefix!r} before every sentence, "
                "and the prepared pairs are without it",
                f"encoder.pooling: cls (or mean) {ALONE}",
            )
        phase.objective.losses().check(_objective_start(recipe, phase, encoder), phase.objective)
    except MexmaError as error:
        raise MexmaError(f"phase {phase.name}: {error.message}", error.hint) from None


def _objective_start(recipe: Recipe, phase: Phase, encoder: SentenceEncoder, languages: int = 1) -> Start:
    untrained = recipe.encoder.new is not None and phase is recipe.phases[0]
    return Start(encoder, recipe.encoder.start, languages, untrained)
