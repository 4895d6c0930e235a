"""Which encoder, and how it embeds."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mexma_cli.numerics.precisions import SHORT_NAMES
from mexma_cli.settings.section import Option, Section

BUNDLED = "mini"

Dtype = Literal["auto", "fp32", "bf16", "fp16"]
Pooling = Literal["cls", "mean", "max", "weightedmean", "lasttoken", "pooler"]
"""How a sentence's states become one vector, by sentence-transformers' names; `pooler`: BERT's."""


def _known(device: str) -> str:
    if not re.fullmatch("auto|cpu|cuda(:[0-9]+)?", device):
        raise ValueError(f"unknown device {device!r}; it is auto, cpu, cuda or cuda:N")
    return device


Device = Annotated[str, AfterValidator(_known)]

_SECTION = "Encoder options"
_OWN = "the encoder's own"


class EncoderChoice(Section):
    """Which encoder, and how it embeds."""

    model: Annotated[str | None, Option(_SECTION, "NAME", unset=f"that of a given store, else {BUNDLED}")] = (
        None
    )
    """mini (bundled), a folder, or a hub id such as facebook/MEXMA."""
    revision: Annotated[str | None, Option(_SECTION, "COMMIT", unset="the newest commit of main")] = None
    """Commit, tag or branch of a hub id."""
    device: Annotated[Device, Option(_SECTION, "NAME")] = "auto"
    """Device for encoder and search: auto (a GPU if there is one), cpu, cuda or cuda:N."""
    dtype: Annotated[Dtype, Option(_SECTION)] = "auto"
    """Precision. auto: bf16 where the device has instructions for it, else fp32 (fp16 on a GPU)."""
    pooling: Annotated[Pooling | None, Option(_SECTION, unset=_OWN)] = None
    """How token states become the sentence vector."""
    max_tokens: Annotated[
        Annotated[int, Field(ge=3)] | Literal["encoder"] | None,
        Option(_SECTION, "N|encoder", unset="200, or the encoder's limit if lower; in eval: encoder"),
    ] = None
    """Cut sentences to so many tokens; encoder: to as many as it takes."""
    prompt: Annotated[str | None, Option(_SECTION, "NAME|TEXT", unset=_OWN)] = None
    """Text before every sentence ('query: ' for multilingual-e5), or the name of a prompt of the encoder."""
    task: Annotated[str | None, Option(_SECTION, "TEXT", unset="none")] = None
    """What stands for {task} in the prompt of an instruct encoder."""
    dim: Annotated[int | None, Option(_SECTION, "N", unset="all")] = Field(default=None, ge=1)
    """Keep the first N numbers of a vector, for encoders that are trained for it (Matryoshka)."""
    trust_remote_code: Annotated[bool, Option(_SECTION)] = False
    """Run Python code from the encoder's folder, or from the hub at a --revision."""
    code_revision: Annotated[str | None, Option(_SECTION, "COMMIT", unset="none: such code is refused")] = (
        None
    )
    """Commit of code that the encoder's folder takes from another page of the hub."""

    @property
    def name(self) -> str | None:
        """The model at its revision."""
        return f"{self.model}@{self.revision}" if self.revision else self.model

    @property
    def precision(self) -> str:
        """`dtype` as `SentenceEncoder` has it: `bfloat16` for `bf16`."""
        return SHORT_NAMES.get(self.dtype, self.dtype)
