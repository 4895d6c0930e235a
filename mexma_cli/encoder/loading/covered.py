"""The languages that published encoders were trained on, as codes of `languages.resolve`."""

from __future__ import annotations

from functools import cache

from mexma_cli.encoder.loading import card
from mexma_cli.encoder.loading.folder import BUNDLED
from mexma_cli.languages import resolve
from mexma_cli.settings.load import load

# Conneau and others, Unsupervised Cross-lingual Representation Learning at Scale (2020), table 6; without the
# romanised varieties. Models that were made from it, such as multilingual-e5, say the same of themselves.
_XLM_R = """
af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr hu hy id is
it ja jv ka kk km kn ko ku ky la lo lt lv mg mk ml mn mr ms my ne nl no om or pa pl ps pt ro ru sa sd si sk sl
so sq sr su sv sw ta te th tl tr ug uk ur uz vi xh yi zh zh-Hant
"""


@cache
def covered() -> dict[str, frozenset[str]]:
    """Encoder -> the languages that it was trained on.

    `mini` says it itself, and the recipe of `facebook/MEXMA` (the paper's table 13) says it of that.
    """
    mexma = load("81langs").data
    return {
        "mini": frozenset(card.languages(BUNDLED / "mini")),
        "facebook/MEXMA": frozenset(map(resolve, (*mexma.languages, "eng"))),
        "intfloat/multilingual-e5": frozenset(map(resolve, _XLM_R.split())),
    }
