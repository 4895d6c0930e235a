"""Options that several commands share, and those that are made from the fields of a model of settings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

import click
from click.core import ParameterSource
from pydantic import TypeAdapter, ValidationError

from mexma_cli.commands.completion import CODE, ENCODER
from mexma_cli.languages import UNSTATED, resolve
from mexma_cli.lazy import OutputPath, SectionOption
from mexma_cli.numerics.precisions import computing_on
from mexma_cli.numerics.threads import cores
from mexma_cli.settings.section import Option, Section, explanation, in_words, of_percent, option_of
from mexma_cli.store.arrays import unverified

if TYPE_CHECKING:
    from mexma_cli.settings.stages import EncoderChoice, SearchSettings
    from mexma_cli.stages.mine.documents import DocumentFiles
    from mexma_cli.store.layout import Part

Command = TypeVar("Command", bound=Callable[..., Any])


def section(name: str) -> Callable[..., Callable[[Command], Command]]:
    """`click.option` for an option that the help lists under a heading of its own."""
    return functools.partial(click.option, cls=SectionOption, section=name)


scoring_option = section("Scoring options")
selection_option = section("Selection options")
document_option = section("Document options")


_READ = click.Path(path_type=Path)


def path_option(
    *names: str,
    help: str,
    metavar: str | None = "FILE",
    add: Callable[..., Any] = click.option,
    kind: click.Path = _READ,
    **how: Any,
) -> Callable[[Command], Command]:
    """An option that names a file or folder, to be read unless `kind` is an `OutputPath`; `add` decides where
    the help lists it."""
    found: Callable[[Command], Command] = add(*names, type=kind, metavar=metavar, help=help, **how)
    return found


written_option = functools.partial(path_option, kind=OutputPath(path_type=Path))
"""`path_option` for what is written, and not to stdout."""
stdout_option = functools.partial(path_option, kind=OutputPath(path_type=Path, allow_dash=True))
"""`path_option` for what is written, perhaps to stdout (`-`)."""


def lang_option(help: str, **how: Any) -> Callable[[Command], Command]:
    """--lang, the language of a text."""
    return click.option("--lang", type=CODE, metavar="CODE", help=help, **how)


JSON_HELP = "Print the result as one JSON object."
json_option = click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
json_lines_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write one JSON object a line, as -o NAME.jsonl; -o NAME.csv: CSV.",
)
report_option = stdout_option(
    "--report", help="Write a JSON report: inputs, settings, counts, scores, time and memory.", metavar=None
)
overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace the output if it exists, whole or damaged."
)
decomposer_option = path_option(
    "--with", "run", help="Folder of a finished decomposer run.", metavar="RUN", required=True
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
_BOUNDS = {"ge": ("min", False), "gt": ("min", True), "le": ("max", False), "lt": ("max", True)}


def output_option(
    metavar: str | None, meaning: str, required: bool = False, **path: bool
) -> Callable[[Command], Command]:
    """-o, where the result goes; `path` is for `OutputPath`."""
    kind = OutputPath(path_type=Path, **path)
    return click.option("-o", "--output", required=required, metavar=metavar, type=kind, help=meaning)


result_option = output_option(
    None, "Output file, compressed if named .gz, .bz2, .xz or .zst.  [default: stdout]", allow_dash=True
)


def workers_option(meaning: str) -> Callable[[Command], Command]:
    """--workers: so many processes, or as many as there are cores."""
    return click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        callback=lambda _, __, wanted: wanted or cores(),
        help=f"{meaning}  [default: number of cores]",
    )


def takes(into: str, make: Callable[..., Any], *options: Callable[..., Any]) -> Callable[[Command], Command]:
    """Add options; the command gets what `make` makes of their values, in its parameter `into`. One function
    does it for all such decorators of a command, in their order."""

    def decorated(command: Command) -> Command:
        taking: Any = command if hasattr(command, "makers") else _taking(command)
        before = len(getattr(taking, "__click_params__", []))
        for option in reversed(options):
            taking = option(taking)
        taking.makers[into] = make, [param.name for param in taking.__click_params__[before:]]
        return cast(Command, taking)

    return decorated


def _taking(command: Callable[..., Any]) -> Callable[..., Any]:
    makers: dict[str, tuple[Callable[..., Any], list[str]]] = {}

    @functools.wraps(command)
    def taking(**values: Any) -> Any:
        for into, (make, names) in reversed(makers.items()):
            values[into] = make(**{name: values.pop(name) for name in names})
        return command(**values)

    vars(taking)["makers"] = makers
    return taking


def _resolved(source_lang: str, target_lang: str) -> tuple[str, str]:
    return resolve(source_lang), resolve(target_lang)


_language_options = [
    click.option(
        f"--{side}-lang",
        default=UNSTATED,
        type=CODE,
        metavar="CODE",
        help=f"Language of the {side}.  [default: what its store or file says]",
    )
    for side in ("source", "target")
]
written_languages_option = takes(
    "languages", lambda source_lang, target_lang: (source_lang, target_lang), *_language_options
)
"""Add --source-lang and --target-lang, which the command gets as `languages`, as they are written."""
languages_option = takes("languages", _resolved, *_language_options)
"""The same, as FLORES-200 codes."""


def _unverified(context: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        context.with_resource(unverified())


no_verify_option = click.option(
    "--no-verify",
    is_flag=True,
    expose_value=False,
    callback=_unverified,
    help="Do not compare stores and encoders with their checksums.",
)


def encoder_options(command: Command) -> Command:
    """Add the options that say which encoder, and how it embeds, which the command gets as `encoder`.
    Searches that it makes use its device, too."""
    from mexma_cli.settings.stages import EncoderChoice

    add = options_of(EncoderChoice, into="encoder", types={"model": ENCODER}, check=_begin_on_device)
    return add(command)


def _begin_on_device(encoder: EncoderChoice) -> None:
    if encoder.revision and not encoder.model:
        raise click.UsageError("--revision is of a hub id: name that with --model.")
    if encoder.code_revision and not encoder.trust_remote_code:
        raise click.UsageError("--code-revision is of code that is run: read it, and --trust-remote-code.")
    click.get_current_context().with_resource(computing_on(encoder.device))


def search_options(model: type[SearchSettings]) -> Callable[[Command], Command]:
    """Add the options of settings of a search, which the command gets as `settings`, and --dry-run."""
    dry_run = section("Search options")(
        "--dry-run", is_flag=True, help="Print the memory, disk and time needed, and stop."
    )
    return lambda command: options_of(model, check=_check_search)(dry_run(command))


def _check_search(settings: SearchSettings) -> None:
    from mexma_cli.settings.stages import EXACT

    if settings.index == EXACT and "recall" in settings.model_fields_set:
        raise click.UsageError("--recall is for an approximate --index; the exact search finds everything.")


document_pairs_option = path_option(
    "--document-pairs",
    help="Which documents are paired: source id TAB target id.  [default: equal ids]",
    add=document_option,
)


def _document_files(within: tuple[Path, Path] | None, document_pairs: Path | None) -> DocumentFiles | None:
    from mexma_cli.stages.mine.documents import DocumentFiles

    if document_pairs is not None and within is None:
        raise click.UsageError("--document-pairs pairs the documents of --within: give that too.")
    return DocumentFiles(*within, document_pairs) if within else None


document_options = takes(
    "documents",
    _document_files,
    path_option(
        "--within",
        help="Look for pairs within paired documents only: two files with the document id of every line.",
        metavar="SOURCE_DOCS TARGET_DOCS",
        add=document_option,
        nargs=2,
    ),
    document_pairs_option,
)


def _part(typed: str) -> Part:
    from mexma_cli.store.layout import Part

    try:
        return Part.read(typed)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def shard_option(meaning: str) -> Callable[[Command], Command]:
    """--shard, one part of several, which the command gets as a `Part` or None."""
    return click.option("--shard", type=_part, metavar="I/N", help=meaning)


def options_of(
    model: type[Section],
    *names: str,
    into: str = "settings",
    types: Mapping[str, click.ParamType] | None = None,
    check: Callable[[Any], None] | None = None,
) -> Callable[[Command], Command]:
    """Add the options of a model, in the order of its fields, or of some `names`. The command gets them as
    one object, its parameter `into`, in whose `model_fields_set` are those that were given. `types` are of
    options for which a shell offers more than it could know from the field; `check` refuses settings that do
    not fit."""
    found = {name: option for name in names or model.model_fields if (option := option_of(model, name))}

    def settings_of(**values: Any) -> Section:
        source = click.get_current_context().get_parameter_source
        given = {name: one for name, one in values.items() if source(name) != ParameterSource.DEFAULT}
        try:
            settings = model(**given)
        except ValidationError as error:
            raise click.UsageError(in_words(error.errors()[0])) from None
        if check:
            check(settings)
        return settings

    add, kinds = functools.partial(click.option, cls=_SettingOption, model=model), types or {}
    options = [add(field=name, option=option, kind=kinds.get(name)) for name, option in found.items()]
    return takes(into, settings_of, *options)


class _SettingOption(SectionOption):
    """An option for a field of a model. Its help, the string below the field, is read when asked for."""

    def __init__(
        self, _: object, *, model: type[Section], field: str, option: Option, kind: click.ParamType | None
    ) -> None:
        self._of, self._unset = (model, field), option.unset
        found = model.model_fields[field]
        default, is_flag = found.get_default(call_default_factory=True), found.annotation is bool
        several = get_origin(found.annotation) is tuple
        how = {} if is_flag else {"type": kind or _type_of(found.annotation, found.metadata, option)}
        super().__init__(
            [*(option.flags or [f"--{field.replace('_', '-')}"]), field],
            section=option.section,
            metavar=option.metavar,
            default=None if several else default,
            show_default=default is not None and not several and not is_flag,
            is_flag=is_flag,
            multiple=several,
            **how,
        )
        del self.help

    @functools.cached_property
    def help(self) -> str:  # pyrefly: ignore[bad-override]
        """The string below the field, and what stands for no value."""
        unset = f"  [default: {self._unset}]" if self._unset else ""
        return explanation(*self._of) + unset


def _type_of(annotation: Any, metadata: list[Any], option: Option) -> click.ParamType:
    """How Click reads a value, with the bounds of numbers in its help."""
    kinds = [annotation]
    if get_origin(annotation) not in (Literal, Annotated, None):
        kinds = [kind for kind in get_args(annotation) if kind not in (NoneType, Ellipsis)]
    if all(get_origin(kind) is Literal for kind in kinds):
        return click.Choice(option.values or [value for kind in kinds for value in get_args(kind)])
    if kinds == [Path]:
        return click.Path(path_type=Path)
    if kinds == [str]:
        return click.STRING
    if kinds in ([int], [float]):
        bounds: dict[str, Any] = {}
        for one in metadata:
            for name, (bound, is_open) in _BOUNDS.items():
                if hasattr(one, name):
                    bounds |= {bound: getattr(one, name), f"{bound}_open": is_open}
        kind = click.IntRange if kinds == [int] else Share if bounds.get("max") == 1 else click.FloatRange
        return kind(**bounds) if bounds else click.INT if kinds == [int] else click.FLOAT
    return _Checked(annotation)


class Share(click.FloatRange):
    """A number up to 1, which is not in percent."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = click.FLOAT.convert(value, param, ctx)
        if told := of_percent(found):
            self.fail(f"{value} is not between 0 and 1{told}", param, ctx)
        return super().convert(found, param, ctx)


class _Checked(click.ParamType):
    """A value that the type of the field reads and checks."""

    name = "text"

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return TypeAdapter(self._annotation).validate_python(value)
        except ValidationError as error:
            self.fail(in_words(*error.errors()), param, ctx)
