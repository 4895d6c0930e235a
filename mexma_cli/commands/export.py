"""`mexma export`: an encoder as a folder for other libraries."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from mexma_cli.commands.completion import ENCODER
from mexma_cli.commands.options import output_option, overwrite_option
from mexma_cli.files import check_parent
from mexma_cli.numerics.precisions import SHORT_NAMES

log = logging.getLogger(__name__)


@click.command("export")
@click.argument("encoder", metavar="ENCODER", type=ENCODER)
@output_option("DIR", "Folder of the encoder.", required=True)
@click.option(
    "--dtype",
    type=click.Choice(list(SHORT_NAMES)),
    default="fp32",
    show_default=True,
    help="Type of the stored weights.",
)
@overwrite_option
def command(encoder: str, output: Path, dtype: str, overwrite: bool) -> None:
    """Write an encoder as a folder for sentence-transformers and transformers, with the same vectors.

    ENCODER is `mini`, a folder, or a hub id. transformers cannot embed words by their letter n-grams, as
    `mini` does, and refuses such a folder. sentence-transformers loads it with trust_remote_code=True where
    mexma is installed.

    \b
    Examples:
      mexma export runs/small/encoder -o small
      mexma export intfloat/multilingual-e5-small --dtype fp16 -o e5
    """
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.encoder.loading.folder import CHECKSUMS, check_replaceable, locate
    from mexma_cli.encoder.loading.modules import is_only_ours

    check_replaceable(output)
    if output.exists() and output.resolve() == locate(encoder).resolve():
        raise click.UsageError(f"{output} is the encoder itself: name another folder.")
    if output.exists() and any(output.iterdir()) and not (overwrite or (output / CHECKSUMS).is_file()):
        raise click.UsageError(f"{output} is there already: --overwrite makes it anew.")
    check_parent(output)
    SentenceEncoder.load(encoder, "cpu", max_tokens="encoder").save(
        output, SHORT_NAMES[dtype], replace=overwrite
    )
    if is_only_ours(output):
        log.info(
            "%s: words are embedded by their n-grams, which needs mexma: "
            "SentenceTransformer(FOLDER, trust_remote_code=True); without, other libraries refuse it",
            output,
        )
    else:
        static = not (output / "config.json").is_file()  # which transformers knows nothing of
        also = "" if static else " and AutoModel.from_pretrained(FOLDER)"
        log.info("%s: loaded by SentenceTransformer(FOLDER)%s", output, also)
