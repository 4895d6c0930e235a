"""`mexma embed`: a text file into an embedding store."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from mexma_cli.commands.options import encoder_options, load_encoder, show_bars

log = logging.getLogger(__name__)


@click.command("embed")
@click.argument("corpus", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--lang",
    default="und",
    metavar="CODE",
    help="Language of the text: ISO 639 (fr, fra), BCP-47 or FLORES-200 (fra_Latn).  [default: not stated]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="NAME.emb",
    help="Folder for the store.  [default: CORPUS with .emb for its ending, beside it]",
)
@encoder_options
@click.option(
    "--store-dtype",
    type=click.Choice(["float16", "float32"]),
    default="float16",
    show_default=True,
    help="How the vectors are stored.",
)
@click.option("--overwrite", is_flag=True, help="Make the store anew, whatever is there under its name.")
def command(
    corpus: Path,
    lang: str,
    output: Path | None,
    model: str | None,
    device: str,
    dtype: str,
    store_dtype: str,
    overwrite: bool,
) -> None:
    """Embed CORPUS, a text with one sentence a line (plain, gz, xz, zst, or - for stdin).

    Every line becomes a row, empty ones too. The store is a folder with the vectors, the sentences and a
    manifest. A run that was interrupted goes on where it stopped when the same command is given again.

    \b
    Examples:
      mexma embed --lang fra corpus.fr.txt
      zcat *.gz | mexma embed --lang eng - -o english.emb
    """
    from mexma_cli.languages import resolve
    from mexma_cli.text.lines import scan, spooled

    if output is None:
        if str(corpus) == "-" or (corpus.exists() and not corpus.is_file() and not corpus.is_dir()):
            raise click.UsageError("-o NAME.emb is needed where the text comes from stdin or a pipe.")
        output = default_output(corpus)
    language = resolve(lang)
    label = "stdin" if str(corpus) == "-" else str(corpus)
    with spooled(corpus) as path:
        text = scan(path, label)
        encoder = load_encoder(model, device, dtype)

        from tqdm import tqdm

        from mexma_cli.stages.embed import embed_file

        with tqdm(
            total=text.lines, unit=" sentences", unit_scale=True, disable=not show_bars(), leave=False
        ) as bar:

            def progress(done: int, total: int, tokens: int) -> None:
                if bar.n == 0 and done:
                    bar.initial = done  # lines of an earlier run are not this run's speed
                bar.update(done - bar.n)

            store = embed_file(
                encoder,
                text,
                output,
                language,
                label=label,
                store_dtype="float32" if store_dtype == "float32" else "float16",
                argv=["mexma", *sys.argv[1:]],
                overwrite=overwrite,
                on_progress=progress,
            )
    log.info(
        "%s rows of %s numbers in %s (%s truncated to %s tokens, %s empty lines kept as rows)",
        f"{store.rows:,}",
        store.dim,
        store.path,
        f"{store.manifest.truncated:,}",
        encoder.max_tokens,
        f"{store.manifest.empty:,}",
    )


def default_output(corpus: Path) -> Path:
    """``corpus.txt.gz`` -> ``corpus.emb``; ``corpus.fra`` and other unknown endings are kept."""
    name = corpus.name
    for ending in (".gz", ".xz", ".zst", ".bz2"):
        name = name.removesuffix(ending)
    for ending in (".txt", ".text"):
        name = name.removesuffix(ending)
    return corpus.with_name(f"{name}.emb")
