"""First-token (CLS) pooling against mean pooling."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval_options import Result, Session, evaluation, languages_option, split_option
from mexma_cli.commands.options import path_option
from mexma_cli.errors import require
from mexma_cli.settings.stages import BUNDLED
from mexma_cli.stages.embed.inputs import load_encoder


@evaluation(
    "Pooling",
    "xsim, STS and classification by the first token (CLS), and by the mean of the tokens (uniform)",
    "what xsim, sts, senteval and mteb need",
    refuses={"pooling": "what is compared here: leave it out."},
)
@path_option("--xsim", "folder", help="Measure xsim on DIR, as `mexma eval xsim`.", metavar="DIR")
@path_option(
    "--sts", help="Measure STS, as `mexma eval sts`; may be repeated.", metavar="FILE|DIR", multiple=True
)
@path_option(
    "--senteval", help="Measure classification: SentEval's files in DIR, and mteb's table2.", metavar="DIR"
)
@languages_option
@split_option
def command(
    session: Session,
    folder: Path | None,
    sts: tuple[Path, ...],
    senteval: Path | None,
    languages: str | None,
    split: str,
) -> Result:
    """Compare an encoder's first token with the mean of its tokens (`uniform`), as in the paper's Table 10.

    Both have the same weights. Measured are xsim into English, xsim++ where its files are beside those of
    xsim (errors in percent), STS (mean Spearman over files, in percent), and classification: the mean of
    SentEval and the languages of `mexma eval mteb --tasks table2`. `change` is 100 (CLS - uniform) / CLS, as
    in the MEXMA paper's table.

    \b
    Example:
      mexma eval pooling --xsim flores200_dataset --langs 81 --sts STS --model facebook/MEXMA
    """
    if folder is None and senteval is None and not sts:
        raise click.UsageError("Name what to measure: --xsim DIR, --sts FILE, --senteval DIR or several.")
    if folder is None and languages is not None:
        raise click.UsageError("--langs is for --xsim: name a folder.")
    from mexma_cli.evaluation.aligned import read_texts
    from mexma_cli.evaluation.pooling import TARGET, measure, pooling_result, read_data

    for package, extra in (("sklearn", "eval"), ("mteb", "mteb")) if senteval else ():
        require(package, extra, "classification")
    aligned = read_texts(folder, split, languages, TARGET) if folder else None
    data = read_data(aligned, sts, senteval)
    encoder = load_encoder(session.choice)
    choice = session.choice.but(model=session.choice.model or BUNDLED)
    if encoder.pooling == "mean":
        encoder = load_encoder(choice.but(pooling="cls"))
    with session.embedder(data.sentences, encoder) as embed:
        cls, described = measure(data, embed), embed.describe()
    with session.embedder(data.sentences, load_encoder(choice.but(pooling="mean"))) as embed:
        uniform = measure(data, embed)
    return pooling_result(data, cls, uniform, described)
