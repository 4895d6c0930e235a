"""Which rules drop sentences and pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from mexma_cli.settings.section import Option, Section

IdentifierName = Literal["py3langid", "heliport", "none"]
"""Names of the language identifiers in `text.identify`."""


class RuleSettings(Section):
    """Which rules drop sentences and pairs."""

    on: Annotated[tuple[str, ...], Option(metavar="RULE[=LIMIT]")] = ()
    """Turn a rule on, NAME, or change its limit, NAME=LIMIT."""
    off: Annotated[tuple[str, ...], Option(metavar="RULE")] = ()
    """Turn a rule off; `all`: all but those that are turned on."""
    lid: Annotated[IdentifierName, Option()] = "py3langid"
    """Language identifier; heliport needs the extra `heliport`."""
    lid_model: Annotated[Path | None, Option(metavar="FILE")] = None
    """Identify languages with this fastText model, such as GlotLID (extra `fasttext`)."""
