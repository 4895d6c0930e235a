"""The bundled encoder, as it is shipped."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import Unigram
from tokenizers.normalizers import Normalizer, Prepend, Replace
from tokenizers.pre_tokenizers import Punctuation, WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading import folder
from mexma_cli.encoder.loading.tokenizer import LazyTokenizer
from mexma_cli.evaluation.xsim import xsim
from mexma_cli.files import read_manifest
from mexma_cli.settings.load import about, find_recipe, load
from tests.examples import demo_pairs

MINI = folder.BUNDLED / "mini"


def test_it_fits_into_the_package() -> None:
    assert sum(path.stat().st_size for path in MINI.rglob("*") if path.is_file()) <= 40_000_000


def test_its_recipe_counts_its_languages() -> None:
    """Those that it knows, and those of the text that it was trained on, English among them."""
    encoder, recipe = SentenceEncoder.load("mini", "cpu"), load("mini")
    trained = {code for corpus in recipe.data.corpora for code in corpus.languages} | {"eng_Latn"}
    said = re.findall(r"\d+", about(find_recipe("mini")))
    assert said == [str(len(encoder.languages)), str(len(trained))]


def test_it_finds_translations_that_it_was_not_trained_on() -> None:
    lines = demo_pairs(300)
    spanish, english = zip(*(line.split("\t") for line in lines), strict=True)
    encoder = SentenceEncoder.load("mini", "cpu")
    x, y = encoder.embed(spanish), encoder.embed(english)
    assert np.isfinite(x).all() and x.shape == (300, encoder.dim)
    assert xsim(x, y).error_rate < 15


def test_its_card_names_text_licence_and_scores() -> None:
    card = (MINI / "README.md").read_text(encoding="utf-8")
    for word in ("CC BY 2.0 FR", "CC0", "public domain", "F1", "NTREX-128", "minutes", "recipes/mini.yaml"):
        assert word in card


def test_its_files_are_what_was_shipped() -> None:
    """Made by the same program as those of other encoders; a wheel that lost a bit is told."""
    folder.check_whole(MINI)
    listed = read_manifest(MINI / folder.CHECKSUMS, folder.Checksums, folder.FORMAT_VERSION).files
    there = {str(path.relative_to(MINI)) for path in MINI.rglob("*") if path.is_file()}
    assert set(listed) == there - {folder.CHECKSUMS, "README.md"}


def test_its_tokens_are_those_of_whole_texts() -> None:
    """Also where what is kept of one word depends on the next one, as with the marks of Vietnamese."""
    marked = [
        "Café",
        "e\u0301",
        "ợt",
        "\u0301x",
        "ế",
        "<mask>",
        "b<s>",
        "\u00a0",
        "q\u3000r",
        "\u200b",
        "和国。",
    ]
    marked += ["ا\u064b", "ﬁ¨", "5/7", "\x1c", "", "น้ำ", "ая"]
    marked += [
        "3,5",
        "¿a,b?",
        ",\u0301",
        "a.\u0309b",
        "=\u0338",
        "l'ế",
        "(a)-b",
        ".".join("abc"),
        '""',
        "-\u093f!",
    ]
    marked += ["<S>", "x\ue000y", "\ue000", "ế\né", "\n", "İΣ"]
    rng = random.Random(1)
    others = ["".join(chr(rng.randrange(32, 0x3100)) for _ in range(3)) for _ in range(200)]
    texts = [" ".join(rng.choices(marked + others[:40], k=rng.randrange(9))) for _ in range(400)] + others
    tokenizer = SentenceEncoder.load("mini", "cpu").fast_tokenizer
    whole = [encoding.ids for encoding in tokenizer.backend.encode_batch(marked + texts)]
    found = tokenizer.encode(marked) + tokenizer.encode(texts)  # with words that are known
    assert [ids.tolist() for ids in found] == whole


@pytest.mark.parametrize(
    "step",
    [
        Replace("a b", "c"),
        Replace(Regex(r"\s+"), "_"),
        Replace(Regex("a.*b"), ""),
        Prepend("c"),
        Replace("\n", "c"),
        Replace("b", "\ue000"),
        normalizers.Sequence([Replace(Regex(r"\s+"), "_")]),
        Replace("a,", "c"),
    ],
    ids=str,
)
def test_words_are_not_taken_alone_where_they_are_changed_together(step: Normalizer) -> None:
    backend = Tokenizer(Unigram([(piece, -1.0) for piece in ["<s>", "a", "b", "c", "_", "▁"]], 0, False))
    backend.normalizer, backend.pre_tokenizer = (
        step,
        pre_tokenizers.Sequence([WhitespaceSplit(), Punctuation()]),
    )
    backend.add_special_tokens(["<s>"])
    backend.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    ids = LazyTokenizer(backend, lambda: None, None, 9).encode(["a b", "a,b"])  # type: ignore[arg-type, return-value]
    assert [row.tolist() for row in ids] == [backend.encode("a b").ids, backend.encode("a,b").ids]
