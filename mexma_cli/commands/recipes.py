"""`mexma recipes`: those that come with the package."""

from __future__ import annotations

import click

from mexma_cli.commands.completion import RECIPE_NAME


@click.command("recipes")
@click.argument("name", required=False, type=RECIPE_NAME)
def command(name: str | None) -> None:
    """List the recipes that come with mexma, or print the one called NAME.

    Your own recipe may begin with `extends: NAME` and change some keys.

    \b
    Examples:
      mexma recipes
      mexma recipes one-language > mine.yaml
    """
    from mexma_cli.settings.load import about, find_recipe, shipped

    if name is not None:
        click.echo(find_recipe(name).read_text(encoding="utf-8"), nl=False)
        return
    out = click.HelpFormatter(max_width=100)
    for known, path in sorted(shipped().items(), key=lambda item: item[0].count("/")):  # ablations come last
        out.write_text(known)
        with out.indentation():
            out.write_text(about(path))
    click.echo(out.getvalue(), nl=False)
