"""`mexma convert`: raw vectors in and out."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from mexma_cli.commands.inputs import check_outputs, command_line, is_typed
from mexma_cli.commands.options import (
    lang_option,
    no_verify_option,
    options_of,
    output_option,
    overwrite_option,
)
from mexma_cli.commands.progress import follow, progress
from mexma_cli.errors import MexmaError
from mexma_cli.files import refuse_pipe
from mexma_cli.languages import UNSTATED, resolve
from mexma_cli.settings.stages import ConvertSettings
from mexma_cli.stages.embed.inputs import is_store
from mexma_cli.text.amounts import counted
from mexma_cli.text.lines import OTHER_FORMATS

log = logging.getLogger(__name__)


@click.command("convert")
@click.argument("vectors", type=click.Path(path_type=Path))
@output_option(None, "File or store to write.", required=True, allow_dash=True)
@options_of(ConvertSettings)
@click.option(
    "--text",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The text of the vectors, line i for row i; `-` is stdin.",
)
@lang_option("Language of the text.", default=UNSTATED, show_default=True)
@overwrite_option
@no_verify_option
def command(
    vectors: Path, output: Path, settings: ConvertSettings, text: Path | None, lang: str, overwrite: bool
) -> None:
    """Turn raw vectors, as LASER writes them, into an embedding store, or a store into raw vectors.

    VECTORS is a raw file without a header (give --dim and --text), a .npy file (give --text), or an embedding
    store, which becomes a .npy file if OUTPUT is named so. The encoder of raw vectors is not known, so stores
    of them are mined only with one another.

    \b
    Examples:
      mexma convert vectors.f32 --dim 1024 --text fra.txt --lang fra -o fra.emb
      mexma convert vectors.npy --text eng.txt --lang eng -o eng.emb
      mexma convert fra.emb -o vectors.f32
    """
    from mexma_cli.formats.bitext import how_pairs_convert
    from mexma_cli.stages.convert import is_npy, raw_to_store, store_to_raw
    from mexma_cli.store.embeddings import EmbeddingStore
    from mexma_cli.text.writing import prepare_output

    if is_store(vectors) and not vectors.is_file():
        if any(map(is_typed, ("dim", "text", "lang"))):
            raise click.UsageError("--dim, --text and --lang belong to raw vectors: a store has them.")
        if output.suffix.lower() in OTHER_FORMATS - {".npy"}:
            raise click.UsageError(
                f"{output}: vectors are not written as {output.suffix}. What is written: NumPy's .npy, or "
                "raw vectors under any other name, such as .f32."
            )
        check_outputs([output], [vectors])
        prepare_output(output)
        store = EmbeddingStore.open(vectors)
        with progress(unit="row", unit_scale=True) as bar:
            store_to_raw(store, output, settings, on_progress=follow(bar))
        log.info("%s: %s of %s x %s", output, counted(store.rows, "row"), store.dim, settings.dtype)
        return
    language = resolve(lang)
    if not vectors.exists():
        raise MexmaError(f"{vectors}: no such file")
    refuse_pipe(vectors)
    if hint := how_pairs_convert(vectors):
        raise click.UsageError(f"{vectors} holds pairs, by its name, not vectors: {hint}.")
    if text is None and is_npy(vectors):
        raise click.UsageError("Give --text too, what the vectors are of.")
    if text is None or (settings.dim is None and not is_npy(vectors)):
        raise click.UsageError("Raw vectors have no header: give --dim and --text too.")
    if is_npy(vectors) and is_typed("dtype"):
        raise click.UsageError(
            "--dtype is for a raw file; a .npy file says it itself, and the store keeps it."
        )
    with progress(unit="row", unit_scale=True) as bar:
        store = raw_to_store(
            vectors,
            settings,
            text,
            output,
            language=language,
            argv=command_line(),
            overwrite=overwrite,
            on_progress=follow(bar),
        )
    log.info("%s: %s of %s x %s", output, counted(store.rows, "row"), store.dim, store.manifest.dtype)
