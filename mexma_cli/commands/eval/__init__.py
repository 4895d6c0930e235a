"""`mexma eval`: a group, one file a subcommand."""

from __future__ import annotations

import click

from mexma_cli.lazy import LazyGroup

TABLE: dict[str, tuple[str, str]] = {
    "xsim": ("mexma_cli.commands.eval.xsim:command", "Translations not found among all translations."),
    "xsimpp": ("mexma_cli.commands.eval.xsimpp:command", "xsim++: the same with hard negatives."),
    "bucc": ("mexma_cli.commands.eval.bucc:command", "Mining: F1 by cosine, and by margin and threshold."),
    "tatoeba": ("mexma_cli.commands.eval.tatoeba:command", "Retrieval both ways: precision at 1."),
    "sts": ("mexma_cli.commands.eval.sts:command", "Similarity of sentences, as people judge it."),
    "senteval": ("mexma_cli.commands.eval.senteval:command", "SentEval's seven classification tasks."),
    "xnli": ("mexma_cli.commands.eval.xnli:command", "Inference, fine-tuned on English."),
    "mteb": ("mexma_cli.commands.eval.mteb:command", "Tasks of the mteb package, and the paper's lists."),
    "tokens": ("mexma_cli.commands.eval.tokens:command", "Whose tokens are the nearest of a token."),
    "attention": ("mexma_cli.commands.eval.attention:command", "Entropy of the first token's attention."),
    "pooling": ("mexma_cli.commands.eval.pooling:command", "The mean of the tokens against the first token."),
    "leakage": ("mexma_cli.commands.eval.leakage:command", "Meaning and language of vectors, taken apart."),
    "codeswitch": ("mexma_cli.commands.eval.codeswitch:command", "Make a code-switched retrieval set."),
}
"""Name -> (`module:attribute` of the Click command, one line of help)."""

EPILOG = """\b
Examples:
  mexma eval xsim flores200_dataset --langs 81 --model facebook/MEXMA -o xsim.json
  mexma report results/*.json -o page.html

Every command prints a table with the published numbers beside ours where the task is the same, or one JSON
object with --json; -o keeps the result for `mexma report`."""


@click.group("eval", cls=LazyGroup, table=TABLE, epilog=EPILOG)
def command() -> None:
    """Measure an encoder as the papers do, on the benchmarks' files as they are published.

    Nothing is downloaded: each command says which files it needs and where they are published.
    """
