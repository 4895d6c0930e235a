"""The tokeniser of a new encoder: Unigram, of pieces or of whole words first."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import xxhash
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from mexma_cli.encoder.loading.tokenizer import ACCENTS, INVISIBLE, SPACES
from mexma_cli.encoder.ngrams import joined, token_kind
from mexma_cli.errors import MexmaError
from mexma_cli.settings.training import TrainTokenizer
from mexma_cli.text.characters import KATAKANA, SIGN

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
    steps = [normalizers.NFKC(), *([normalizers.Lowercase()] if wanted.lowercase else [])]
    steps += _latin(wanted.lowercase) if wanted.latin else []
    steps += [normalizers.Replace(Regex(INVISIBLE), ""), normalizers.Replace(Regex(SPACES), " ")]
    tokenizer.normalizer = normalizers.Sequence(steps)
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


Weighed = tuple[str, float]
"""A sentence, and how often it is seen in training against the others."""
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""XLM-R's first ids; <mask> is its last."""
DIGITS = 3
"""Decimal places of scores: exact enough, and short to write."""
_STEP = 1e-4
"""Between the scores of characters that the trainer of Unigram models adds in the end."""


def train_pieces(tokenizer: Tokenizer, text: Iterable[str], vocabulary: int) -> None:
    """Learn a vocabulary of this size from a text, with `SPECIAL` and all of its characters in it.

    The trainer adds numbers in another order in every run. That order decides the last digits of scores, the
    order of equally likely pieces, and the scores of characters that are no pieces otherwise: these differ by
    `_STEP` from one to the next, above the lowest score. Here scores are rounded, these characters have the
    same score, and pieces of equal score are in alphabetical order, so that the same text has the same
    tokeniser.
    """
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=list(SPECIAL), unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(text, trainer)
    scores = dict(json.loads(tokenizer.to_str())["model"]["vocab"])
    special = [(token, scores.pop(token)) for token in SPECIAL]
    last = min(scores.values())
    rare = last + _STEP * sum(len(piece) == 1 for piece in scores)
    found = {
        piece: _rounded(last if len(piece) == 1 and score < rare else score)
        for piece, score in scores.items()
    }
    by_score = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    tokenizer.model = _model(dict([*special, *by_score]))


def word_model(tokenizer: Tokenizer, text: Iterable[Weighed], words: int, vocabulary: int) -> models.Unigram:
    """A model in which the most frequent words are one token each, and the first; of others it has pieces.

    Frequent pairs of words (`encoder.ngrams`) count as words: tokens that no text is split into.

    A word's score is the logarithm of its share of the text, or more, so that it is likelier than its pieces.

    Args:
        tokenizer: Its normaliser and pre-tokeniser say what a word is.
        words: So many at most; numbers and punctuation count as words.
        vocabulary: Tokens in all, `SPECIAL` among them.
    """
    counts, pairs = _counts(tokenizer, text)
    scores = _merged_pieces(sorted(counts), vocabulary - words)
    counts |= pairs
    by_count = sorted(counts, key=lambda word: (-counts[word], word))
    chosen = list(islice((word for word in by_count if word not in scores), words))
    whole = chosen + [word for word in by_count if word in scores]
    total = sum(counts.values())
    scores |= {word: _rounded(math.log(counts[word] / total)) for word in chosen}
    whole = [word for word in whole if word not in pairs]
    while split := _split(_model(scores), whole):  # again, since a word's pieces may have been raised
        scores |= {
            word: _rounded(sum(scores[part] for part in parts) + 10**-DIGITS) for word, parts in split.items()
        }
    special = [(token, scores.pop(token)) for token in SPECIAL]
    by_use = sorted(scores.items(), key=lambda item: (-counts.get(item[0], 0), -item[1], item[0]))
    return _model(dict([*special, *by_use]))


def _merged_pieces(words: Sequence[str], vocabulary: int) -> dict[str, float]:
    """Pieces by byte-pair merges, and the logarithm of each one's share of the words' pieces.

    Every word counts once, since it is rare words that pieces are for. The trainer of Unigram models is no
    better at it, and takes longer.
    """
    pieces = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=list(SPECIAL), show_progress=False)
    pieces.train_from_iterator(words, trainer)
    used = Counter(pieces.get_vocab().keys())
    for word in words:
        used.update(token.value for token in pieces.model.tokenize(word))
    for token in SPECIAL:
        del used[token]
    total = used.total()
    return dict.fromkeys(SPECIAL, 0.0) | {
        piece: _rounded(math.log(count / total)) for piece, count in used.items()
    }


def _counts(tokenizer: Tokenizer, text: Iterable[Weighed]) -> tuple[dict[str, float], dict[str, float]]:
    """How often each word is seen, and each pair of words."""
    normalise, split = tokenizer.normalizer.normalize_str, tokenizer.pre_tokenizer.pre_tokenize_str
    counts: defaultdict[str, float] = defaultdict(float)
    pairs: defaultdict[str, float] = defaultdict(float)
    kinds: dict[str, int] = {}
    for sentence, weight in text:
        words = [word for word, _ in split(normalise(sentence))]
        for word in words:
            counts[word] += weight
            if word not in kinds:
                kinds[word] = token_kind(word)
        together = joined(np.array([kinds[word] for word in words], np.uint8))
        for place in np.flatnonzero(together).tolist():
            pairs[words[place] + words[place + 1]] += weight
    return counts, pairs


def _split(model: models.Unigram, words: Sequence[str]) -> dict[str, list[str]]:
    """The words that are not one token, and their pieces."""
    found = ((word, [token.value for token in model.tokenize(word)]) for word in words)
    return {word: parts for word, parts in found if len(parts) > 1}


def _rounded(score: float) -> float:
    return round(score, DIGITS)


def _model(scores: dict[str, float]) -> models.Unigram:
    return models.Unigram(list(scores.items()), unk_id=SPECIAL.index("<unk>"))


_CYRILLIC = {
    **dict(zip("абвгдезиклмнопрстуфхцчшыэіґј", "abvgdeziklmnoprstufhccsyeigj", strict=True)),
    **{"ж": "z", "щ": "sc", "ъ": "a", "ь": "", "ю": "ju", "я": "ja", "є": "je"},
    **{"ђ": "d", "ћ": "c", "љ": "lj", "њ": "nj", "џ": "dz", "ѕ": "dz"},
}
_LATIN = {"ł": "l", "đ": "d", "ø": "o", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ß": "ss", "ı": "i"}

LATIN = _CYRILLIC | _LATIN
LATIN |= {
    upper: plain.capitalize()
    for lower, plain in LATIN.items()
    if len(upper := lower.upper()) == 1 and not upper.isascii()
}
"""One letter without accents to plain Latin ones: Cyrillic as Serbian and Croatian match it (ж and ž are z, ц
and ч are c), so that Belgrade is `Beograd` in both scripts."""
