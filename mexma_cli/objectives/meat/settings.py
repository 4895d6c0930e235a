"""Settings of MEAT, the recipe's `objective` section."""

from __future__ import annotations

from mexma_cli.objectives.shared_settings import OracleTerms
from mexma_cli.settings.registry import objective


@objective("meat", "mexma_cli.objectives.meat.loss:Meat")
class MeatSettings(OracleTerms):
    """MEAT: the meaning part hides the language. ORACLE's terms are added where they have a weight."""
