"""Options that are made from the fields of a model of settings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

import click
from click.core import ParameterSource
from pydantic import ValidationError

from mexma_cli.lazy import SectionOption
from mexma_cli.settings.section import Option, Section, explanation, in_words, option_of

Command = TypeVar("Command", bound=Callable[..., Any])

_BOUNDS = {"ge": ("min", False), "gt": ("min", True), "le": ("max", False), "lt": ("max", True)}


def options_of(
    model: type[Section],
    *names: str,
    into: str = "settings",
    types: Mapping[str, click.ParamType] | None = None,
) -> Callable[[Command], Command]:
    """Add the options of a model, in the order of its fields. The command gets them as one object, in whose
    `model_fields_set` are those that were given.

    Args:
        names: Fields, if not all are wanted that have an `Option`.
        into: The command's parameter.
        types: Of options for which a shell offers more than it could know from the field.
    """
    found = {name: option for name in names or model.model_fields if (option := option_of(model, name))}

    def decorated(command: Command) -> Command:
        @functools.wraps(command)
        def gathered(**values: Any) -> Any:
            source = click.get_current_context().get_parameter_source
            options = {name: values.pop(name) for name in found}
            given = {name: one for name, one in options.items() if source(name) != ParameterSource.DEFAULT}
            try:
                settings = model(**given)
            except ValidationError as error:
                raise click.UsageError(in_words(error.errors()[0])) from None
            return command(**{into: settings}, **values)

        for name, option in reversed(found.items()):
            kind = (types or {}).get(name)
            add = click.option(cls=_SettingOption, model=model, field=name, option=option, kind=kind)
            gathered = add(gathered)
        return cast(Command, gathered)

    return decorated


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
    def help(self) -> str:  # type: ignore[override]
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
        return (click.IntRange if kinds == [int] else click.FloatRange)(**bounds)
    return _Checked(annotation)


class _Checked(click.ParamType):
    """A value that the type of the field reads and checks."""

    name = "text"

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from pydantic import TypeAdapter

        try:
            return TypeAdapter(self._annotation).validate_python(value)
        except ValidationError as error:
            self.fail(", or ".join(map(in_words, error.errors())), param, ctx)
