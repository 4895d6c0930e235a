"""The tokeniser of a new encoder: Unigram, of pieces or of whole words first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import xxhash
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from mexma_cli.errors import MexmaError
from mexma_cli.objectives.bag.latin import ACCENTS, LATIN
from mexma_cli.objectives.bag.vocabulary import SPECIAL, Weighed, train_pieces, word_model
from mexma_cli.settings.training import TrainTokenizer
from mexma_cli.text.unspaced import KATAKANA, SIGN

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

COVERAGE = 0.9998
"""Share of the text that the alphabet must cover; rarer characters become <unk>."""


def train_tokenizer(
    wanted: TrainTokenizer, sentences: Callable[[], Iterable[Weighed]]
) -> PreTrainedTokenizerFast:
    """Train a Unigram tokeniser in XLM-R's layout: <s> 0, <pad> 1, </s> 2, <unk> 3, ..., <mask> last.

    Where there are more than `max_sentences`, about so many are chosen by a seeded hash of the sentence.

    Args:
        sentences: Gives the text and its weights, as often as it is called.

    Raises:
        MexmaError: The text is too small, or its alphabet too large, for the vocabulary.
    """
    alphabet, total = _alphabet(sentence for sentence, _ in sentences())
    if len(alphabet) + len(SPECIAL) + 1 > wanted.vocabulary - wanted.words:
        raise MexmaError(
            f"a vocabulary of {wanted.vocabulary:,} is too small: the text has {len(alphabet):,} characters"
            + (f", and {wanted.words:,} are to be whole words" if wanted.words else ""),
            "raise `encoder.tokenizer.vocabulary`",
        )
    limit = (1 << 64) if total <= wanted.max_sentences else (1 << 64) * wanted.max_sentences // total

    def chosen() -> Iterator[Weighed]:
        seen = set()  # an English verse stands beside each of its translations: once is enough
        for sentence, weight in sentences():
            key = xxhash.xxh3_64_intdigest(sentence.encode(), seed=wanted.seed)
            if key < limit and key not in seen and alphabet.issuperset(sentence):
                seen.add(key)
                yield sentence, weight

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = _normalizer(wanted)
    # A number is never one piece with a letter; "1998" has a chance to be a piece, "in1998" has not.
    digits, spaces = pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Metaspace()
    if wanted.words:  # a word is the same after an apostrophe or a bracket
        signs = pre_tokenizers.Split(Regex(f"{SIGN}|{KATAKANA}"), "isolated")
        apart = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), signs, digits, spaces]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(apart)
        tokenizer.model = word_model(tokenizer, chosen(), wanted.words, wanted.vocabulary - 1)
        tokenizer.add_special_tokens(list(SPECIAL))
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([spaces, digits])
        train_pieces(tokenizer, (sentence for sentence, _ in chosen()), wanted.vocabulary - 1)
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token=AddedToken("<mask>", lstrip=True, special=True),
    )


def _normalizer(wanted: TrainTokenizer) -> normalizers.Normalizer:
    return normalizers.Sequence(
        [
            normalizers.NFKC(),
            *([normalizers.Lowercase()] if wanted.lowercase else []),
            *(_latin(wanted.lowercase) if wanted.latin else []),
            normalizers.Replace(Regex("[\u00ad\u200b\u2060\ufeff]"), ""),  # invisible, and without meaning
            normalizers.Replace(Regex(r"\s+"), " "),
        ]
    )


def _latin(lowercase: bool) -> list[normalizers.Normalizer]:
    """Letters without `ACCENTS`, Latin ones for Cyrillic; marks that are vowels in other scripts stay."""
    letters = {letter: plain for letter, plain in LATIN.items() if letter.islower() or not lowercase}
    return [
        normalizers.NFD(),
        normalizers.Replace(Regex(ACCENTS), ""),
        *(normalizers.Replace(letter, plain) for letter, plain in letters.items()),
        normalizers.NFC(),
    ]


def _alphabet(sentences: Iterable[str]) -> tuple[set[str], int]:
    """The most frequent characters that make up `COVERAGE` of the text, and the number of sentences."""
    counts: Counter[str] = Counter()
    total = 0
    for sentence in sentences:
        counts.update(sentence)
        total += 1
    if not counts:
        raise MexmaError("no pairs are left to train a tokeniser on", "look at the filters in `data`")
    needed, covered, alphabet = COVERAGE * counts.total(), 0, set()
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered >= needed:
            break
        alphabet.add(character)
        covered += count
    return alphabet, total
