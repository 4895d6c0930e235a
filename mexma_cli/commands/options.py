"""Options that several commands share."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import click

from mexma_cli.commands.completion import CODE, ENCODER
from mexma_cli.encoder.model.families import Pooling
from mexma_cli.languages import UNSTATED, resolve
from mexma_cli.lazy import SectionOption
from mexma_cli.mining.margin import MARGINS
from mexma_cli.numerics.precisions import SHORT_NAMES, computing_on
from mexma_cli.stages.embed.inputs import BUNDLED, EncoderChoice
from mexma_cli.store.arrays import unverified

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_MARGIN = next(iter(MARGINS))
_FORMULAS = ", ".join(f"{margin.name} {margin.formula}" for margin in MARGINS.values())
MARGIN_HELP = f"Score of a pair: {_FORMULAS} (c: its cosine, b: the mean cosine of its neighbourhoods)."


def section(name: str) -> Callable[..., Callable[[Command], Command]]:
    """`click.option` for an option that the help lists under a heading of its own."""
    return functools.partial(click.option, cls=SectionOption, section=name)


scoring_option = section("Scoring options")
selection_option = section("Selection options")
document_option = section("Document options")
margin_option = scoring_option(
    "--margin",
    type=click.Choice(list(MARGINS)),
    default=DEFAULT_MARGIN,
    show_default=True,
    help=MARGIN_HELP,
)


def k_option(
    default: int, meaning: str, option: Callable[..., Any] = click.option
) -> Callable[[Command], Command]:
    """-k, how many nearest sentences are looked at, under one name in all commands."""
    k = option(
        "-k",
        "--neighbourhood",
        "k",
        type=click.IntRange(min=1),
        metavar="N",
        default=default,
        show_default=True,
        help=meaning,
    )
    return cast(Callable[[Command], Command], k)


def output_option(
    metavar: str | None, meaning: str, required: bool = False, **path: bool
) -> Callable[[Command], Command]:
    """-o, where the result goes; `path` is for `click.Path`."""
    kind = click.Path(path_type=Path, **path)  # type: ignore[arg-type]
    return click.option("-o", "--output", required=required, metavar=metavar, type=kind, help=meaning)


JSON_HELP = "Print the result as one JSON object."
json_option = click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
json_lines_option = click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object a line; so does -o NAME.jsonl."
)
retrieval_option = scoring_option(
    "--retrieval",
    type=click.Choice(["max", "intersect", "forward", "backward"]),
    default="max",
    show_default=True,
    help="max: best pairs first, each sentence used once. intersect: pairs that are best for both sides. "
    "forward: the best target of every source. backward: the best source of every target.",
)
result_option = output_option(
    None,
    "Output file, compressed if named .gz, .bz2, .xz or .zst.  [default: stdout]",
    allow_dash=True,
)


def languages_option(command: Command) -> Command:
    """Add --source-lang and --target-lang, which the command gets as `languages`, FLORES-200 codes."""

    @functools.wraps(command)
    def gathered(*, source_lang: str, target_lang: str, **options: Any) -> Any:
        return command(languages=(resolve(source_lang), resolve(target_lang)), **options)

    for side in ("target", "source"):
        option = click.option(
            f"--{side}-lang",
            default=UNSTATED,
            type=CODE,
            metavar="CODE",
            help=f"Language of the {side}.  [default: what its store or file says]",
        )
        gathered = option(gathered)
    return cast(Command, gathered)


report_option = click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="Write a JSON report: inputs, settings, counts, scores, time and memory.",
)
overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace the output if it exists, whole or damaged."
)


def _unverified(context: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        context.with_resource(unverified())


no_verify_option = click.option(
    "--no-verify",
    is_flag=True,
    expose_value=False,
    callback=_unverified,
    help="Do not compare stores with their checksums.",
)
neighbourhood_option = k_option(4, "Size of a neighbourhood, in sentences.", scoring_option)
decomposer_option = click.option(
    "--with",
    "run",
    required=True,
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Folder of a finished decomposer run.",
)
set_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the recipe, for this run."
)
plugin_option = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Python file that registers an objective of your own.",
)


def _computing_on(context: click.Context, option: click.Parameter, given: str) -> str:
    """Let searches use the device too."""
    if not re.fullmatch("auto|cpu|cuda(:[0-9]+)?", given):
        raise click.BadParameter(
            f"unknown device {given!r}; it is auto, cpu, cuda or cuda:N", context, option
        )
    # Of the root: it is closed also where another option is refused.
    context.find_root().with_resource(computing_on(given))
    return given


ENCODER_NAMES = tuple(field.name for field in fields(EncoderChoice))
_encoder_option = section("Encoder options")
_ENCODER = (
    _encoder_option(
        "--trust-remote-code",
        is_flag=True,
        help="Run Python code from the encoder's folder, or from the hub at a --revision.",
    ),
    _encoder_option(
        "--prefix",
        metavar="TEXT",
        help="Text before every sentence: 'query: ' for multilingual-e5.  [default: the encoder's own]",
    ),
    _encoder_option(
        "--max-tokens",
        type=click.IntRange(min=3),
        metavar="N",
        help="Cut sentences to N tokens.  [default: 200, or the encoder's limit if lower]",
    ),
    _encoder_option(
        "--pooling",
        type=click.Choice(get_args(Pooling)),
        help="How token states become the sentence vector.  [default: the encoder's own]",
    ),
    _encoder_option(
        "--dtype",
        type=click.Choice(["auto", *SHORT_NAMES]),
        default="auto",
        show_default=True,
        help="Precision. auto: bf16 where the device has instructions for it, else fp32 (fp16 on a GPU).",
    ),
    _encoder_option(
        "--device",
        metavar="NAME",
        default="auto",
        show_default=True,
        callback=_computing_on,
        help="Device for encoder and search: auto (a GPU if there is one), cpu, cuda or cuda:N.",
    ),
    _encoder_option(
        "--revision",
        metavar="COMMIT",
        help="Commit, tag or branch of a hub id.  [default: the newest commit of main]",
    ),
    _encoder_option(
        "--model",
        type=ENCODER,
        metavar="NAME",
        help=f"{BUNDLED} (bundled), a folder, or a hub id such as facebook/MEXMA.  [default: that of a given "
        f"store, else {BUNDLED}]",
    ),
)


def encoder_options(command: Command) -> Command:
    """Add the options that say which encoder, and how it embeds: the command gets them as `encoder`."""

    @functools.wraps(command)
    def gathered(**options: Any) -> Any:
        choice = {name: options.pop(name) for name in ENCODER_NAMES}
        if choice["revision"] and not choice["model"]:
            raise click.UsageError("--revision is of a hub id: name that with --model.")
        return command(encoder=EncoderChoice(**choice), **options)

    for option in _ENCODER:
        gathered = option(gathered)
    return cast(Command, gathered)


_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def bytes_of(typed: str) -> int:
    """A number of bytes such as 8G, 512M or 1.5G (powers of ten), or 8GiB (powers of two)."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(I?)B?", typed.strip().upper())
    if found is None or (found[3] and not found[2]):
        raise click.BadParameter(f"{typed!r} is no size; write it like 8G or 512M")
    unit = 1024.0 ** (1 + "KMGT".index(found[2])) if found[3] else _UNITS[found[2]]
    return int(float(found[1]) * unit)


_search_option = section("Search options")
_SEARCH = (
    _search_option("--dry-run", is_flag=True, help="Print the memory, disk and time needed, and stop."),
    _search_option(
        "--memory",
        type=bytes_of,
        metavar="SIZE",
        help="Memory limit of this process, such as 8G.  [default: about 1 GB more than the neighbours take]",
    ),
    _search_option(
        "--recall",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="SHARE",
        help="Share of the neighbours that an approximate index must find.  [default: 0.95]",
    ),
    _search_option(
        "--index",
        metavar="NAME",
        default="exact",
        show_default=True,
        help="exact, auto (a FAISS index where that is faster), or a FAISS factory string. All cosines are "
        "exact.",
    ),
)


def search_options(command: Command) -> Command:
    """Add --index, --recall and --memory, which the command gets as `search`, and --dry-run."""

    @functools.wraps(command)
    def gathered(*, index: str, recall: float | None, memory: int | None, **options: Any) -> Any:
        from mexma_cli.stages.knn.search import EXACT, SearchSettings

        if index == EXACT and recall is not None:
            raise click.UsageError(
                "--recall is for an approximate --index; the exact search finds everything."
            )
        search = SearchSettings(index, 0.95 if recall is None else recall, memory)
        return command(search=search, **options)

    for option in _SEARCH:
        gathered = option(gathered)
    return cast(Command, gathered)


def copy_options(command: Command) -> Command:
    """Add --max-score and --drop-copies."""
    near = selection_option(
        "--max-score",
        type=float,
        metavar="SCORE",
        help="Drop pairs with a score above this: near-copies. stopes has 1.25.",
    )
    same = selection_option(
        "--drop-copies",
        is_flag=True,
        help="Drop pairs with equal sides; case, numbers, punctuation and a few letters may differ.",
    )
    return near(same(command))


document_pairs_option = document_option(
    "--document-pairs",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Which documents are paired: source id TAB target id.  [default: equal ids]",
)


def document_options(command: Command) -> Command:
    """Add --within and --document-pairs, which the command gets as `documents`, a `DocumentFiles` or None."""

    @functools.wraps(command)
    def gathered(*, within: tuple[Path, Path] | None, document_pairs: Path | None, **options: Any) -> Any:
        from mexma_cli.stages.mine.documents import DocumentFiles

        if document_pairs is not None and within is None:
            raise click.UsageError("--document-pairs pairs the documents of --within: give that too.")
        documents = DocumentFiles(*within, document_pairs) if within else None
        return command(documents=documents, **options)

    texts = document_option(
        "--within",
        nargs=2,
        type=click.Path(path_type=Path),
        metavar="SOURCE_DOCS TARGET_DOCS",
        help="Look for pairs within paired documents only: two files with the document id of every line.",
    )
    return cast(Command, texts(document_pairs_option(gathered)))


def part_of(typed: str) -> tuple[int, int]:
    """One of several parts: 3/10 is (3, 10)."""
    found = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", typed)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"{typed!r} is no part; the third of ten is 3/10")
    return int(found[1]), int(found[2])
