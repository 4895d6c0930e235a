"""Shell completion of options and arguments that are no plain paths: `mini`, recipes, language codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class


class Offered(click.ParamType):
    """Text that stays as it is typed; a shell offers some words for it, each with what it is and, if `files`,
    files."""

    name = "text"

    def __init__(self, words: Callable[[], Mapping[str, str]], files: bool) -> None:
        self._words, self._files = words, files

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        words = [
            CompletionItem(word, help=about)
            for word, about in self._words().items()
            if word.lower().startswith(incomplete.lower())
        ]
        return words + [CompletionItem(incomplete, type="file")] * self._files


def _codes() -> dict[str, str]:
    from mexma_cli import languages

    return {code: languages.name(code) for code in languages.codes()}


def _encoders() -> dict[str, str]:
    from mexma_cli.settings.stages import BUNDLED

    return {BUNDLED: "the bundled encoder"}


def _recipes() -> dict[str, str]:
    from mexma_cli.settings.load import about, shipped

    return {name: about(path) for name, path in shipped().items()}


CODE = Offered(_codes, files=False)
ENCODER = Offered(_encoders, files=True)
RECIPE = Offered(_recipes, files=True)
RECIPE_NAME = Offered(_recipes, files=False)
FILE = Offered(dict, files=True)
"""A path, or something else of the same option, such as a glob or an address."""


class _Bash(BashComplete):
    """Click's, which offers files or words, and here offers both."""

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = """\
%(complete_func)s() {
    local IFS=$'\\n' type value completion
    local -a found
    mapfile -t found < <(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
        %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    for completion in "${found[@]}"; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            plain) COMPREPLY+=("$value") ;;
            dir) compopt -o filenames; COMPREPLY+=($(compgen -d -- "${COMP_WORDS[COMP_CWORD]}")) ;;
            file) compopt -o filenames; COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")) ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


add_completion_class(_Bash)
