"""The inputs of the stages: embedding stores, or texts that are embedded on the way, and with which encoder.

Nothing heavy is imported before it is needed: the commands read their choices from here.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mexma_cli.errors import MexmaError
from mexma_cli.files import MANIFEST, resolved, temporary_space
from mexma_cli.languages import UNSTATED, resolve
from mexma_cli.settings.stages import BUNDLED, EmbedSettings, EncoderChoice, Pooling
from mexma_cli.text.amounts import counted
from mexma_cli.text.lines import FileScan, label_of, scan, spooled

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.store.embeddings import EmbeddingStore

log = logging.getLogger(__name__)

CUT_SHARE = 0.1
"""Share of a text's lines: if more are cut, they are hardly sentences."""

Progress = Callable[[int, int], object]
"""Called with what is done (lines, tiles of the search) and how much there is in all."""


def load_encoder(choice: EncoderChoice, normalised: bool = True) -> SentenceEncoder:
    """Load the encoder that was asked for, `normalised` or without its Normalize; without a model the bundled
    one, which is said in the log."""
    from mexma_cli.encoder.encoder import SentenceEncoder

    if choice.model is None:
        log.info(
            "no --model given: using the bundled encoder `mini`; for real work name --model facebook/MEXMA"
        )
    encoder = SentenceEncoder.load(
        choice.name or BUNDLED,
        choice.device,
        choice.precision,
        pooling=choice.pooling,
        max_tokens=choice.max_tokens,
        trust_remote_code=choice.trust_remote_code,
        code_revision=choice.code_revision,
    )
    if not normalised:
        encoder.keep_lengths()
    encoder.prefix = encoder.prompted(choice.prompt, encoder.for_task(choice.task))
    if choice.dim is not None:
        encoder.truncate(choice.dim)
    return encoder


def load_encoder_of(
    stores: Sequence[EmbeddingStore | None], choice: EncoderChoice | SentenceEncoder, what: str
) -> SentenceEncoder:
    """The encoder for a text (`what`, for the message) that goes with these stores: the chosen or loaded one
    or, if none is named, theirs, embedding as they do. Another one than theirs is refused."""
    from mexma_cli.stages.convert import RAW_ENCODER
    from mexma_cli.store.embeddings import check_encoder

    made = [store.manifest for store in stores if store is not None and store.manifest.encoder != RAW_ENCODER]
    if isinstance(choice, EncoderChoice) and choice.model is None and made:
        first = made[0]
        log.info("no --model given: using the store's encoder, %s", first.encoder)
        choice = choice.but(
            model=_on_this_machine(first.encoder, choice),
            pooling=choice.pooling or cast("Pooling", first.pooling),
        )
        encoder = load_encoder(choice)
        encoder.name = first.encoder
        if choice.prompt is None:
            encoder.prefix = first.prefix
        if choice.dim is None and first.dim < encoder.dim:
            encoder.truncate(first.dim)
        if not first.normalised and encoder.fingerprint != first.fingerprint:
            encoder.keep_lengths()
    else:
        encoder = load_encoder(choice) if isinstance(choice, EncoderChoice) else choice
    for store in filter(None, stores):
        check_encoder(store, encoder.name, encoder.fingerprint, what)
    return encoder


def _on_this_machine(name: str, choice: EncoderChoice) -> str:
    """A name that a manifest has, to be loaded without asking the hub: nobody has named it here."""
    from mexma_cli.encoder.loading import hub

    if choice.trust_remote_code:
        raise MexmaError(
            f"--trust-remote-code is for an encoder that you name, and {name} is named by a store alone",
            f"if you trust its code: --model {name}",
        )
    if Path(name).exists() or not hub.is_id(name):
        return name
    where = hub.snapshot(name)
    if where is None:
        repository, _, revision = name.partition("@")
        asked = f"--model {repository}" + (f" --revision {revision}" if revision else "")
        raise MexmaError(f"the store's encoder, {name}, is not on this machine", f"to fetch it: {asked}")
    return str(where)


def is_store(path: Path) -> bool:
    """Whether a path is meant as an embedding store, not as a text."""
    return path.is_dir() or path.suffix == ".emb"


def is_one_text(source: Path, target: Path) -> bool:
    """Whether two inputs are one and the same, by whatever names."""
    return source == target or (source.exists() and target.exists() and source.samefile(target))


def open_store(path: Path) -> EmbeddingStore:
    """Open an embedding store; a store of neighbours is refused by name."""
    from mexma_cli.store.embeddings import EmbeddingStore
    from mexma_cli.store.neighbours import NeighbourStore

    if not EmbeddingStore.has_files(path) and NeighbourStore.is_at(path):
        raise MexmaError(
            f"{path} holds neighbours, not embeddings", "name the embedding store: `mexma info` says which"
        )
    return EmbeddingStore.open(path)


def language_of(path: Path, code: str) -> str:
    """The language of an input, a FLORES-200 code: that of its store's manifest, which the user's may not
    contradict, else the user's."""
    return agreed_language(path, path if is_store(path) else None, code)


def agreed_language(path: Path, store: Path | None, code: str) -> str:
    """The language (`language_of`) of an input whose sentences are in a store, or a text (None)."""
    given = resolve(code)
    said = open_store(store).manifest.language if store else UNSTATED
    if said == UNSTATED:
        return given
    if given not in (UNSTATED, said):
        raise MexmaError(
            f"{path} is in {said}, not in {given}", "a store knows its language; the source comes first"
        )
    return said


def is_text_of(store: EmbeddingStore, path: Path) -> bool:
    """Whether a file is a text that a store was made of: the one that it names, or one of the same bytes."""
    sources = store.manifest.sources
    if any(Path(source.path).is_file() and path.samefile(source.path) for source in sources):
        return True
    try:
        return scan(path).checksum in {source.checksum for source in sources}
    except MexmaError:  # no text
        return False


def overwriting(outputs: Iterable[Path], inputs: Iterable[Path]) -> str | None:
    """Which output would be written over another one, an input or the text of a store, or into a folder;
    None: none."""
    outputs, inputs = [path for path in outputs if str(path) != "-"], list(inputs)
    read, stores = [path for path in inputs if path.is_file()], [path for path in inputs if path.is_dir()]
    for place, path in enumerate(outputs):
        if resolved(path) in map(resolved, outputs[:place]):
            return f"{path} is two of the outputs"
        if any(resolved(path).is_relative_to(resolved(store)) for store in stores):
            return f"{path} lies in an input"
        if not path.is_file():
            continue
        if any(path.samefile(other) for other in read):
            return f"{path} is an input"
        for store in (store for store in stores if (store / MANIFEST).is_file()):
            if is_text_of(open_store(store), path):
                return f"{path} is the text that {store} was made of"
    return None


def refuse_overwriting(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Raise MexmaError for an output as `overwriting` finds it."""
    if found := overwriting(outputs, inputs):
        raise MexmaError(found, "name another output")


def open_inputs(
    stack: ExitStack,
    paths: Sequence[Path],
    encoder: EncoderChoice | SentenceEncoder,
    *,
    labels: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    aligned: bool = False,
    on_progress: Progress | None = None,
    prompts: Sequence[str | None] = (),
) -> list[EmbeddingStore]:
    """The inputs as stores; texts are embedded into a folder that goes when the stack is closed.

    What can be refused is refused before anything is embedded. Texts are cleaned if a store with them was.

    Args:
        labels: Names for messages, where a path is a temporary copy.
        languages: FLORES-200 codes, one a path.
        aligned: The first two inputs must have as many lines as one another.
        prompts: For texts that have others than `encoder` says, one a path: as `EncoderChoice.prompt`.
    """
    labels = labels or [label_of(path) for path in paths]
    stores: list[EmbeddingStore | None] = [open_store(path) if is_store(path) else None for path in paths]
    texts: dict[int, FileScan] = {}
    for place, (path, label, store) in enumerate(zip(paths, labels, stores, strict=True)):
        if store is None:
            texts[place] = scan(stack.enter_context(spooled(path)), label)
    if aligned:
        rows = [
            store.rows if store is not None else texts[place].lines for place, store in enumerate(stores[:2])
        ]
        if rows[0] != rows[1]:
            raise MexmaError(
                f"{labels[0]} has {counted(rows[0], 'line')}, {labels[1]} has {rows[1]:,}",
                "line n of one must be the translation of line n of the other",
            )
    if not texts and (not isinstance(encoder, EncoderChoice) or encoder.model is not None):
        raise MexmaError(f"an encoder is for texts; {' and '.join(labels)} are embedded already")
    if texts:
        from mexma_cli.encoder.encoder import SentenceEncoder
        from mexma_cli.stages.embed.embed import EmbedOptions, at_work, embed_file

        task = None if isinstance(encoder, SentenceEncoder) else encoder.task
        others = {place: prompt for place, prompt in enumerate(prompts) if prompt is not None}
        own = encoder if isinstance(encoder, SentenceEncoder) or not others else encoder.but(task=None)
        loaded = load_encoder_of(stores, own, "the text")
        usual, task = loaded.prefix, loaded.for_task(task)
        log.info("embedding on %s", at_work(loaded))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mexma-")))
        settings = EmbedSettings(clean=any(store is not None and store.manifest.clean for store in stores))
        total, done = sum(text.lines for text in texts.values()), 0
        for place, text in texts.items():
            if on_progress is not None:
                on_progress(done, total)
            progress = None if on_progress is None else _after(done, total, on_progress)
            options = EmbedOptions(languages[place] if languages else UNSTATED, settings)
            log.info(
                "embedding %s into a temporary folder; `mexma embed` makes a store that stays", text.label
            )
            loaded.prefix = loaded.prompted(others[place], task) if place in others else usual
            with temporary_space():
                output = folder / f"{place}.emb"
                made = stores[place] = embed_file(loaded, text, output, options, on_progress=progress)
            made.label = text.label
            if cut := made.manifest.truncated:
                lines = counted(cut, "line was", "lines were")
                log.info("%s: %s cut to %d tokens", text.label, lines, loaded.max_tokens)
            warn_of_cut(made.manifest.truncated, made.rows, loaded.max_tokens)
            done += text.lines
    return [store for store in stores if store is not None]


def warn_of_cut(cut: int, rows: int, limit: int) -> None:
    """Warn if more than `CUT_SHARE` of a text's lines had more tokens than the limit. Below the usual one,
    sentences may have as many."""
    from mexma_cli.encoder.encoder import MAX_TOKENS

    if cut > CUT_SHARE * rows:
        hint = "is it one sentence a line? `mexma split` cuts documents into sentences"
        if limit < MAX_TOKENS:
            hint = "that is the limit of the encoder or of --max-tokens, and sentences may be longer"
        log.warning(
            "%s of %s were too long and cut to %d tokens: %s", f"{cut:,}", counted(rows, "line"), limit, hint
        )


def _after(before: int, total: int, on_progress: Progress) -> Callable[[int, int, int], object]:
    """A function that takes the progress in one text and tells that in all: `before` lines are done."""
    return lambda done, *_: on_progress(before + done, total)
