"""How documents become sentences."""

from __future__ import annotations

from typing import Annotated, Literal

from mexma_cli.settings.rules import RuleSettings
from mexma_cli.settings.section import Option

Kind = Literal["text", "jsonl", "tmx", "html", "warc"]


class SplitSettings(RuleSettings):
    """How documents become sentences."""

    document: Annotated[Literal["line", "blank", "file"], Option()] = "line"
    """A document of a text file: one line, the lines between blank lines, or the whole file."""
    format: Annotated[Kind | None, Option(unset="by their names")] = None
    """Format of the inputs."""
    text_field: Annotated[str, Option()] = "text"
    """JSONL: the field of the text."""
    id_field: Annotated[str, Option()] = "id"
    """JSONL: the field of the document's id."""
    error_pages: Annotated[bool, Option()] = False
    """WARC: pages of errors and redirects, such as those with HTTP status 404, are documents, too."""
    keep_html: Annotated[bool, Option()] = False
    """Leave tags and entities of HTML in the text, for the rule html."""
    splitter: Annotated[Literal["auto", "sentencex", "moses", "sat"], Option()] = "auto"
    """auto: sentencex or Moses' rules, whichever is better for the language. sat: wtpsplit's SaT."""
    splitter_model: Annotated[str | None, Option(metavar="FOLDER")] = None
    """Model for --splitter sat."""
