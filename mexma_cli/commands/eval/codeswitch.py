"""`mexma eval codeswitch`: sentences of two languages in one, from a bilingual dictionary."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from mexma_cli.commands.inputs import check_inputs, refuse_inputs
from mexma_cli.text.amounts import counted

log = logging.getLogger(__name__)


@click.command("codeswitch")
@click.argument("source", metavar="SOURCE", type=click.Path(path_type=Path))
@click.argument("target", metavar="ENGLISH", type=click.Path(path_type=Path))
@click.option(
    "--dictionary",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="From the language of SOURCE to English, in MUSE's format.",
)
@click.option("--lang", required=True, metavar="CODE", help="The language of SOURCE.")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for the files; those of other languages in it stay.",
)
@click.option(
    "-n",
    "--sentences",
    "count",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="How many are drawn.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Probability with which a word that the dictionary has is replaced; one in a sentence always is.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=42, show_default=True, help="Of all that is drawn."
)
def command(
    source: Path, target: Path, dictionary: Path, lang: str, output: Path, count: int, rate: float, seed: int
) -> None:
    """Make a code-switched retrieval set of a bitext (ORACLE paper, appendix C.1).

    Line n of SOURCE is the translation of line n of ENGLISH. Words of SOURCE are replaced by one of their
    translations in the dictionary, and the sentence is to be found by the whole English one. DIR gets files
    named and laid out as Tatoeba's, so that `mexma eval leakage` and `mexma eval tatoeba` read them, and
    codeswitch.LANG.json, which says how they were made. Equal seeds give equal files.

    MUSE's dictionaries are published at github.com/facebookresearch/MUSE, under a non-commercial licence.

    \b
    Examples:
      mexma eval codeswitch tatoeba.deu-eng.deu tatoeba.deu-eng.eng --lang deu --dictionary de-en.txt \\
        -o codeswitched
      mexma eval leakage codeswitched --with runs/systems/meat-oracle
    """
    from mexma_cli.evaluation.codeswitch import code_switched, read_dictionary
    from mexma_cli.evaluation.files import read_aligned, read_sentences
    from mexma_cli.files import check_outside_stores, fingerprint, whole_file, write_json_atomic
    from mexma_cli.languages import resolve

    code = resolve(lang).partition("_")[0]
    if code == "eng":
        raise click.UsageError("--lang is the language of SOURCE, which is not English.")
    texts = {side: output / f"tatoeba.{code}-eng.{side}" for side in (code, "eng")}
    check_inputs((source, target, dictionary))
    refuse_inputs(texts.values(), (source, target, dictionary))
    check_outside_stores(output / code)
    words = read_dictionary(dictionary)
    english = read_sentences(target)
    other = read_aligned(source, target, len(english))
    made = code_switched(other, english, words, count, rate, seed)
    facts = {
        "source": str(source),
        "source_checksum": fingerprint(other),  # of what was read: a pipe cannot be read again
        "target": str(target),
        "target_checksum": fingerprint(english),
        "dictionary": str(dictionary),
        "dictionary_checksum": fingerprint(words),
        "rate": rate,
        "seed": seed,
        "sentences": len(made.rows),
        "usable": made.usable,
        "words": made.words,
        "replaced": made.replaced,
        "lines": [row + 1 for row in made.rows],
    }
    output.mkdir(parents=True, exist_ok=True)
    # First, so that without it there is no text that could be taken for LASER's.
    write_json_atomic(output / f"codeswitch.{code}.json", facts)
    chosen = [english[row] for row in made.rows]
    for path, lines in zip(texts.values(), (made.sentences, chosen), strict=True):
        with whole_file(path) as file:
            file.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
    if len(made.rows) < count:
        has = counted(len(made.rows), "sentence has", "sentences have")
        log.warning("warning: only %s a word of the dictionary", has)
    log.info(
        "%s in %s, %s of %s words replaced (%.0f %%)",
        counted(len(made.rows), "sentence"),
        output,
        f"{made.replaced:,}",
        f"{made.words:,}",
        100 * made.replaced / made.words,
    )
