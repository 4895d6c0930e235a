"""`mexma languages`: codes, scripts, and what encoders, splitters and identifiers know."""

from __future__ import annotations

import json
import logging
from typing import Any

import click

from mexma_cli import languages
from mexma_cli.commands.completion import CODE
from mexma_cli.commands.options import options_of
from mexma_cli.errors import MexmaError
from mexma_cli.languages import resolve
from mexma_cli.settings.stages import RuleSettings

log = logging.getLogger(__name__)

# Conneau and others, Unsupervised Cross-lingual Representation Learning at Scale (2020), table 6; without the
# romanised varieties. Models that were made from it, such as multilingual-e5, say the same of themselves.
_XLM_R = """
af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr hu hy id is
it ja jv ka kk km kn ko ku ky la lo lt lv mg mk ml mn mr ms my ne nl no om or pa pl ps pt ro ru sa sd si sk sl
so sq sr su sv sw ta te th tl tr ug uk ur uz vi xh yi zh zh-Hant
"""


@click.command("languages")
@click.argument("codes", nargs=-1, type=CODE)
@options_of(RuleSettings, "lid", "lid_model")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a language.")
def command(codes: tuple[str, ...], settings: RuleSettings, as_json: bool) -> None:
    """List languages: code, name, other spellings, encoders, splitter and identifier.

    CODES picks some, in FLORES-200 (fra_Latn), ISO 639 (fr, fre, fra), BCP-47 (pt-BR) or locale form
    (fr_FR.UTF-8), or by name (Yoruba, Kreyòl). Codes shown are those of FLORES-200, else ISO 639-3. The
    columns say which encoders were trained on the language, which splitter `mexma split` takes, and whether
    the identifier knows it, or a language that it is confused with (`kin`).

    \b
    Examples:
      mexma languages pt_BR zh-TW iw
      mexma languages --json | jq -r 'select(.encoders | index("facebook/MEXMA")) | .code'
    """
    from mexma_cli.reporting.tables import aligned_columns
    from mexma_cli.text.identify import identifier, kindred
    from mexma_cli.text.splitting import default_splitter

    wanted = [code for typed in codes for code in _meant(typed)] or languages.codes()
    encoders, model = _encoders(), identifier(settings.lid, settings.lid_model)
    rows: list[dict[str, Any]] = []
    for code in wanted:
        base = code.partition("_")[0]
        known = model.known if model else frozenset()
        rows.append(
            {
                "code": code,
                "name": languages.name(code),
                "script": languages.script(code),
                "spellings": languages.spellings(code)[1:],
                "encoders": [name for name, spoken in encoders.items() if code in spoken],
                "splitter": default_splitter(code),
                "identified": "yes" if base in known else "kin" if kindred(code) & known else "no",
            }
        )
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
        return
    table = [["code", "name", "spellings", "encoders", "splitter", model.name if model else "no identifier"]]
    for row in rows:
        names = [name.rpartition("/")[2] for name in row["encoders"]]
        cells = [row["code"], row["name"], " ".join(row["spellings"]), " ".join(names)]
        table.append([*map(str, cells), str(row["splitter"]), str(row["identified"])])
    click.echo("\n".join(aligned_columns(table, len(table[0]))))
    for row in rows if codes else ():
        if not row["encoders"]:
            log.info(
                "none of these encoders was trained on %s: `mexma new-language %s PAIRS` trains one",
                *(row["name"], row["code"]),
            )


def _meant(typed: str) -> list[str]:
    """The languages of a code, or of a name."""
    try:
        return [languages.resolve(typed)]
    except MexmaError:
        if found := languages.languages_named(typed):
            return found
        raise


def _encoders() -> dict[str, frozenset[str]]:
    """Published encoders, and the languages that they were trained on.

    `mini` says it itself, and the recipe of `facebook/MEXMA` (the paper's table 13) says it of that.
    """
    from mexma_cli.encoder.loading import card
    from mexma_cli.encoder.loading.folder import BUNDLED
    from mexma_cli.settings.load import load

    mexma = load("81langs").data
    return {
        "mini": frozenset(card.languages(BUNDLED / "mini")),
        "facebook/MEXMA": frozenset(map(resolve, (*mexma.languages, "eng"))),
        "intfloat/multilingual-e5": frozenset(map(resolve, _XLM_R.split())),
    }
