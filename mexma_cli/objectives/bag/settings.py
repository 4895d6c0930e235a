"""Settings of a bag of embeddings, the recipe's `objective` section."""

from __future__ import annotations

from pydantic import Field, PositiveInt, model_validator

from mexma_cli.objectives.shared_settings import InfoNceSettings
from mexma_cli.settings.registry import objective


@objective("bag", "mexma_cli.objectives.bag.loss:Bag")
class BagSettings(InfoNceSettings):
    """A bag of embeddings: the mean of the tokens' vectors, trained by InfoNCE both ways."""

    token_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of a sentence's tokens that is left out of its mean in training."""
    ngrams: list[PositiveInt] = Field(default_factory=list)
    """Sizes of letter n-grams (in Latin letters) whose vectors are added to a token's own. The encoder has
    only the sums."""
    own_tokens: PositiveInt | None = None
    """Tokens with a vector of their own: the first of the vocabulary, so many, and those without distinct
    n-grams (single letters, digits, punctuation). Other tokens are the sum of their n-grams. null: all."""
    consonants: list[PositiveInt] = Field(default_factory=list)
    """Sizes of n-grams of a token's consonants, which related languages share more than vowels."""
    width: PositiveInt | None = None
    """Dimension in training, if larger than the encoder's, which keeps the directions of most variance. null:
    the same."""
    own_share: float = Field(1.0, ge=0)
    """Factor of a token's own vector in the encoder, beside its n-grams."""
    inner_weight: float = Field(1.0, ge=0)
    """Factor, in the encoder, of tokens that do not begin a word; below 1, words of many pieces weigh
    less."""
    length_power: float = Field(1.0, gt=0)
    """Exponent of the vectors' lengths in the encoder; below 1, long vectors weigh less than in training."""
    whitening: float = Field(0.0, ge=0, le=1)
    """Whitening of the encoder's sentence vectors, from 0 (none) to 1 (equal variance in all directions)."""
    length: float = Field(0.0, ge=0)
    """Weight of </s> in the encoder, in a direction of its own (a mean token weighs 1), so that sentences of
    different lengths are less alike."""
    keep_ngrams: bool = False
    """Keep the n-grams in the encoder, to embed words without a token."""

    @model_validator(mode="after")
    def _ngrams_are_there(self) -> BagSettings:
        if self.keep_ngrams and not self.ngrams:
            raise ValueError("`keep_ngrams` needs `ngrams`")
        if self.own_tokens and not self.ngrams:
            raise ValueError("`own_tokens` needs `ngrams`, which are all that the other tokens have")
        return self
