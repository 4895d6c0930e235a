"""What a recipe says of MEAT."""

from __future__ import annotations

from mexma_cli.objectives.shared_settings import OracleTerms
from mexma_cli.recipe.registry import objective


@objective("meat", "mexma_cli.objectives.meat.loss:Meat")
class MeatSettings(OracleTerms):
    """MEAT: the meaning does not tell the language; with ORACLE's terms where they have a weight."""
