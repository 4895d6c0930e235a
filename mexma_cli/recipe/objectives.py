"""The `objective` sections of a recipe, one a system: which losses, with which weights."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from mexma_cli.recipe.section import Section


class Head(Section):
    """The unmasking head (paper section 7.2); the defaults are the authors' code's."""

    layers: int = Field(6, ge=1)
    """Transformer layers, of the encoder's width."""
    heads: int = Field(8, ge=1)
    """Attention heads of a layer; the encoder's width is a multiple of it."""
    ffn: int = Field(3072, ge=1)
    """Width of a layer's feed-forward part."""
    layer_norm_eps: float = Field(1e-12, gt=0)
    """LayerNorm's epsilon."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of the states that is dropped in training."""
    output_scale: float = Field(1.0, gt=0)
    """First value of the last LayerNorm's weights; below 1 where word embeddings are long."""


def _parts_of_a_whole(mask_share: float, random_share: float) -> None:
    # 0.7 + 0.3 need not be 1 exactly; and where all are masked the other share means nothing.
    if mask_share < 1 and mask_share + random_share > 1 + 1e-9:
        raise ValueError(f"`mask_share` {mask_share:g} and `random_share` {random_share:g} are above 1")


class MexmaObjective(Section):
    """MEXMA (paper section 3): cross-unmasking, alignment, KoLeo; optionally a contrastive term."""

    name: Literal["mexma"]
    """Chooses this objective."""
    alpha: float = 1.0
    """Weight of the alignment loss."""
    beta: float = 0.5
    """Weight of each direction's unmasking loss."""
    gamma: float = 0.005
    """Weight of each side's KoLeo loss."""
    contrastive: float = 0.0
    """Weight of a symmetric InfoNCE between the clean sentence vectors (paper section 5.2)."""
    temperature: float = Field(0.05, gt=0)
    """What cosines are divided by in the contrastive term."""
    margin: float = Field(0.0, ge=0)
    """Taken from the cosine of a translation in the contrastive term (additive margin softmax)."""
    gather: bool = True
    """Negatives of the contrastive term are the sentences of all GPUs, not only of its own."""
    koleo_normalise: bool = True
    """Distances are those of unit vectors, as in the authors' code; false is the paper's formula."""
    koleo_global: bool = False
    """KoLeo looks for neighbours on all GPUs; the authors' code looks on its own."""
    symmetric: bool = True
    """Both sides are seen clean and masked; else one side, drawn anew for each pair, is masked and the
    other clean (model 1 of the paper's Table 11), which leaves no two clean vectors to compare."""
    align: Literal["clean", "masked"] = "clean"
    """What is aligned with a clean sentence vector: the other side's clean one, or its masked one
    (model 3 of Table 11)."""
    token_gradients: bool = True
    """Unmasking trains the encoder through the masked tokens' states; false is model 1 of Table 5."""
    sentence_gradients: bool = True
    """Unmasking trains the encoder through the other side's clean sentence vector."""
    masking: float = Field(0.4, gt=0, lt=1)
    """Share of the tokens that are chosen for unmasking."""
    mask_share: float = Field(0.8, ge=0, le=1)
    """Of the chosen tokens: this share becomes <mask>, `random_share` a random token, the rest stays."""
    random_share: float = Field(0.1, ge=0, le=1)
    """See `mask_share`; where that is 1 nothing is left for this one."""
    head: Head = Field(default_factory=lambda: Head.model_validate({}))
    """What finds the masked tokens; it is not exported."""

    @model_validator(mode="after")
    def _shares(self) -> MexmaObjective:
        _parts_of_a_whole(self.mask_share, self.random_share)
        return self

    @model_validator(mode="after")
    def _something_trains_the_encoder(self) -> MexmaObjective:
        unmasking = self.beta and (self.token_gradients or self.sentence_gradients)
        if not (unmasking or self.alpha or self.gamma or self.contrastive):
            raise ValueError("no term of the loss reaches the encoder: give one a weight, or unmasking a way")
        return self

    @model_validator(mode="after")
    def _one_clean_side_is_enough(self) -> MexmaObjective:
        if not self.symmetric:
            two_clean = {
                "alpha (with align: clean)": self.alpha if self.align == "clean" else 0.0,
                "gamma": self.gamma,
                "contrastive": self.contrastive,
            }
            wrong = [key for key, weight in two_clean.items() if weight]
            if wrong:
                raise ValueError(
                    f"symmetric: false has one clean side only, so these must be 0: {', '.join(wrong)}"
                )
        return self


class Ranking(Section):
    """Translation ranking: each sentence against all sentences of the other side of the batch (InfoNCE)."""

    temperature: float = Field(0.05, gt=0)
    """What cosines are divided by."""
    margin: float = Field(0.0, ge=0)
    """Taken from the cosine of a translation (additive margin softmax; LaBSE has 0.3)."""
    direction: Literal["forward", "both"] = "both"
    """Each side looks for its translation among the other; `forward`: the source alone (as in DAP)."""
    projection: Literal["none", "tanh"] = "none"
    """What is compared: the sentence vectors, or tanh(W h + b) of them, which is not exported."""
    gather: bool = True
    """Negatives are the sentences of all GPUs, not only of its own."""


class Tlm(Section):
    """Translation language modelling: masked words of both sentences of a pair, as one sequence."""

    weight: float = Field(0.1, gt=0)
    """Of its loss beside the ranking's, which counts 1."""
    masking: float = Field(0.2, gt=0, lt=1)
    """Share of the tokens that are chosen for masking."""
    mask_share: float = Field(0.8, ge=0, le=1)
    """Of the chosen tokens: this share becomes <mask>, `random_share` a random token, the rest stays."""
    random_share: float = Field(0.1, ge=0, le=1)
    """See `mask_share`; where that is 1 nothing is left for this one."""

    @model_validator(mode="after")
    def _shares(self) -> Tlm:
        _parts_of_a_whole(self.mask_share, self.random_share)
        return self


class ContrastiveObjective(Ranking):
    """InfoNCE between clean sentence vectors: MEXMA's baseline (section 5.2), TR, and TR+TLM."""

    name: Literal["contrastive"]
    """Chooses this objective."""
    tlm: Tlm | None = None
    """With translation language modelling beside it."""


class Rtl(Section):
    """Representation translation learning (DAP, section 3.3.2): one side's words from the other's states."""

    weight: float = Field(1.0, gt=0)
    """The paper's; the released program has 0.1."""
    layers: int = Field(2, ge=1)
    """Of the head: the last ones of the masked-LM checkpoint that the encoder is from (K in the paper)."""
    ratio: float = Field(1.0, gt=0, le=1)
    """Share of the tokens that are rebuilt; the head sees the encoder's states of the others."""
    direction: Literal["forward", "backward", "both"] = "forward"
    """The target is rebuilt from the source, the source from the target, or either in every other pair."""


class DapObjective(Ranking):
    """DAP (Li et al. 2023): translation ranking from source to target, and RTL."""

    name: Literal["dap"]
    """Chooses this objective."""
    direction: Literal["forward", "both"] = "forward"
    projection: Literal["none", "tanh"] = "tanh"
    rtl: Rtl = Field(default_factory=lambda: Rtl.model_validate({}))
    """Representation translation learning."""


class ClftObjective(Section):
    """CLFT: targets (English) stay where a frozen teacher has them, sources are drawn to their targets."""

    name: Literal["clft"]
    """Chooses this objective."""
    cross: float = Field(0.4, gt=0)
    """Weight of the distance between translations (beta in the paper); that to the teacher counts 1."""
    teacher: str | None = None
    """An encoder's name or folder, with the same tokeniser and width; none: the encoder as the phase
    finds it."""


class WordsObjective(Section):
    """Aligned token embeddings: the mean of the tokens' vectors, trained by InfoNCE both ways."""

    name: Literal["words"]
    """Chooses this objective."""
    temperature: float = Field(0.05, gt=0)
    """What cosines are divided by."""
    margin: float = Field(0.0, ge=0)
    """Taken from the cosine of a translation (additive margin softmax)."""
    gather: bool = True
    """Negatives are the sentences of all GPUs, not only of its own."""
    token_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of a sentence's tokens that is left out of its mean in training."""
    ngrams: list[PositiveInt] = Field(default_factory=list)
    """A token's vector is its own and those of its letter n-grams of these sizes, in Latin letters, which
    other tokens share. Only their sum is in the encoder."""
    own_tokens: PositiveInt | None = None
    """So many tokens, the first of the vocabulary, and those that no n-grams tell apart (single letters,
    digits, punctuation) have a vector of their own; others are their n-grams alone."""
    consonants: list[PositiveInt] = Field(default_factory=list)
    """The same of the letters without vowels, which kindred languages change most."""
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
    spelling: bool = False
    """Whether the encoder keeps the n-grams, and embeds words that it has no token for by them."""

    @model_validator(mode="after")
    def _spells_by_something(self) -> WordsObjective:
        if self.spelling and not self.ngrams:
            raise ValueError("`spelling` needs `ngrams`")
        if self.own_tokens and not self.ngrams:
            raise ValueError("`own_tokens` needs `ngrams`, which are all that the other tokens have")
        return self


Objective = Annotated[
    MexmaObjective | ContrastiveObjective | DapObjective | ClftObjective | WordsObjective,
    Field(discriminator="name"),
]
