"""`mexma recipes`: those that come with the package."""

from __future__ import annotations

import click


@click.command("recipes")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the recipes for `mexma train` that come with mexma, or print the one called NAME.

    A recipe of your own may begin with `extends: NAME`, and say only what differs.

    \b
    Examples:
      mexma recipes
      mexma recipes one-language > mine.yaml
    """
    from mexma_cli.recipe.load import find, shipped

    if name is not None:
        click.echo(find(name).read_text(encoding="utf-8"), nl=False)
        return
    paths = shipped()
    width = max(map(len, paths))
    for known, path in paths.items():
        click.echo(f"{known.ljust(width)}  {_first_sentence(path.read_text(encoding='utf-8'))}")


def _first_sentence(recipe: str) -> str:
    """Of the comment that a recipe begins with."""
    lines = []
    for line in recipe.splitlines():
        if not line.startswith("# "):
            break
        lines.append(line[2:])
        if line.endswith("."):
            break
    text = " ".join(lines)
    return text[: text.find(". ") + 1] if ". " in text else text
