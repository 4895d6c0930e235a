"""Settings of ORACLE's terms alone, the recipe's `objective` section."""

from __future__ import annotations

from pydantic import model_validator

from mexma_cli.objectives.shared_settings import OracleTerms
from mexma_cli.settings.registry import objective


@objective("oracle", "mexma_cli.objectives.decomposer:Decomposer")
class OracleSettings(OracleTerms):
    """ORACLE's terms alone."""

    @model_validator(mode="after")
    def _something_to_train(self) -> OracleSettings:
        if not (self.intra_class or self.inter_class):
            raise ValueError("oracle needs a weight for `intra_class` or `inter_class`")
        return self
