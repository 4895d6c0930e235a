"""What a recipe says of DREAM."""

from __future__ import annotations

from mexma_cli.objectives.shared_settings import OracleTerms
from mexma_cli.recipe.registry import objective


@objective("dream", "mexma_cli.objectives.dream.loss:Dream")
class DreamSettings(OracleTerms):
    """DREAM: the language part tells the language; with ORACLE's terms where they have a weight."""
