"""What a recipe says of a bag of embeddings."""

from __future__ import annotations

from pydantic import Field, PositiveInt, model_validator

from mexma_cli.objectives.shared_settings import InfoNceSettings
from mexma_cli.recipe.registry import objective


@objective("bag", "mexma_cli.objectives.bag.loss:Bag")
class BagSettings(InfoNceSettings):
    """A bag of embeddings: the mean of the tokens' vectors, trained by InfoNCE both ways."""

    token_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of a sentence's tokens that is left out of its mean in training."""
    ngrams: list[PositiveInt] = Field(default_factory=list)
    """A token's vector is its own and those of its letter n-grams of these sizes, in Latin letters, which
    other tokens share. Only their sum is in the encoder."""
    own_tokens: PositiveInt | None = None
    """So many tokens, the first of the vocabulary, and those that no n-grams tell apart (single letters,
    digits, punctuation) have a vector of their own; others are their n-grams alone."""
    consonants: list[PositiveInt] = Field(default_factory=list)
    """The same of a token's letters without the vowels: vowels are what differs most in kindred languages."""
    width: PositiveInt | None = None
    """Numbers of a vector in training, where that is more than the encoder has: it takes the directions in
    which sentence vectors differ most."""
    own_share: float = Field(1.0, ge=0)
    """What a token's own vector is multiplied by in the encoder, beside its n-grams."""
    inner_weight: float = Field(1.0, ge=0)
    """What the vectors of tokens that do not begin a word are multiplied by in the encoder: below 1, a word
    in many pieces weighs less."""
    length_power: float = Field(1.0, gt=0)
    """What the vectors' lengths are raised to in the encoder: below 1, heavy tokens weigh less than in
    training."""
    whitening: float = Field(0.0, ge=0, le=1)
    """How far the encoder's sentence vectors are whitened: 0 not at all, 1 to equal variance all round."""
    length: float = Field(0.0, ge=0)
    """What </s> weighs in the encoder, in a direction of its own; a mean token weighs 1. It is a larger part
    of a short sentence than of a long one, so sentences of different lengths are less alike."""
    keep_ngrams: bool = False
    """Whether the encoder keeps the n-grams, and embeds words that it has no token for by them."""

    @model_validator(mode="after")
    def _ngrams_are_there(self) -> BagSettings:
        if self.keep_ngrams and not self.ngrams:
            raise ValueError("`keep_ngrams` needs `ngrams`")
        if self.own_tokens and not self.ngrams:
            raise ValueError("`own_tokens` needs `ngrams`, which are all that the other tokens have")
        return self
