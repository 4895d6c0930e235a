"""Settings of DREAM, the recipe's `objective` section."""

from __future__ import annotations

from mexma_cli.objectives.shared_settings import OracleTerms
from mexma_cli.settings.registry import objective


@objective("dream", "mexma_cli.objectives.dream.loss:Dream")
class DreamSettings(OracleTerms):
    """DREAM: the language part predicts the language. ORACLE's terms are added where they have a weight."""
