"""Checks of an encoder that several objectives make before training begins."""

from __future__ import annotations

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.pooling import Dense
from mexma_cli.errors import MexmaError

ALONE = "trains the transformer alone, with that pooling and nothing before or after it"


def check_first_token(objective: str, encoder: SentenceEncoder) -> None:
    """Refuse an encoder whose vectors are more than the first token's state, which the objective trains.

    Raises:
        MexmaError: The encoder has another pooling, or a dense layer after it.
    """
    if encoder.pooling != "cls":
        raise MexmaError(
            f"{encoder.name} has {encoder.pooling} pooling, and the objective `{objective}` "
            "trains the first token's vector",
            f"encoder.pooling: cls {ALONE}; `clft` trains any pooling",
        )
    dense = [repr(module) for module in encoder.modules if isinstance(module, Dense)]
    if dense:
        raise MexmaError(
            f"{encoder.name} has a {dense[0]} after its pooling, and the objective "
            f"`{objective}` trains the vector before that",
            f"encoder.pooling: cls {ALONE}; `clft` trains such layers too",
        )


def check_mask_token(objective: str, encoder: SentenceEncoder) -> None:
    """Refuse an encoder whose tokeniser has no mask token.

    Raises:
        MexmaError: It has none.
    """
    if encoder.tokenizer.mask_token_id is None:
        raise MexmaError(
            f"the tokeniser of {encoder.name} has no mask token, and `{objective}` masks tokens",
            "take an objective that masks nothing, such as `contrastive` without `tlm`",
        )
