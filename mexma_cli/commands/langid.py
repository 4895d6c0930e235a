"""`mexma langid`: the language of each line, for pipes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import click

from mexma_cli.commands.options import options_of, result_option
from mexma_cli.settings.stages import RuleSettings


@click.command("langid")
@click.argument("texts", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@options_of(RuleSettings, "lid", "lid_model")
@result_option
def command(texts: tuple[Path, ...], settings: RuleSettings, output: Path | None) -> None:
    """Identify the language of each line of TEXTS, or of stdin: language TAB probability TAB line.

    Languages are FLORES-200 codes where they have one; zxx is no language, und an unknown one.

    \b
    Examples:
      mexma langid corpus.txt | cut -f1 | sort | uniq -c
      mexma langid < lines | awk -F'\\t' '$1 == "fra_Latn" && $2 > 0.5' | cut -f3-
    """
    from mexma_cli.commands.inputs import check_outputs
    from mexma_cli.text.identify import flores, identifier
    from mexma_cli.text.lines import read_sentences
    from mexma_cli.text.writing import Chunk, prepare_output, write_chunks

    outputs = [] if output is None or str(output) == "-" else [output]
    prepare_output(output)
    check_outputs([output], texts)
    model = identifier(settings.lid, settings.lid_model)
    if model is None:
        raise click.UsageError("--lid none tells no languages: name another, or a --lid-model.")

    lines = chain.from_iterable(map(read_sentences, texts or (Path("-"),)))

    def identified() -> Iterator[Chunk]:
        while batch := list(islice(lines, 1 << 12)):
            found = zip(batch, model.identify(batch), strict=True)
            rows = [f"{flores(guess, line)}\t{guess.probability:.3f}\t{line}\n" for line, guess in found]
            yield ("".join(rows),), 0

    write_chunks(outputs, identified())
