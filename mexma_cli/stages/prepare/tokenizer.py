"""The tokeniser that `prepare` works with: the start encoder's, or one trained on the prepared text."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from mexma_cli.encoder.loading.folder import locate, written_aside
from mexma_cli.encoder.loading.settings import read_settings
from mexma_cli.encoder.loading.tokenizer import LazyTokenizer, put_in_lower_case, with_transformers
from mexma_cli.errors import MexmaError
from mexma_cli.files import read_json, write_json_atomic
from mexma_cli.recipe import Recipe, TrainTokenizer
from mexma_cli.stages.prepare.vocabulary import SPECIAL, Weighed, train_pieces, word_model
from mexma_cli.text.latin import ACCENTS, LATIN
from mexma_cli.text.unspaced import KATAKANA, SIGN

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

log = logging.getLogger(__name__)

COVERAGE = 0.9998
"""Share of the text that the alphabet must cover; rarer characters become <unk>."""
_NOTE = "training.json"


def tokenizer_path(recipe: Recipe) -> Path:
    """Where the tokeniser that `prepare` trained is."""
    return Path(recipe.data.store) / "tokenizer"


def load_tokenizer(where: str | Path) -> PreTrainedTokenizerFast:
    """A fast tokeniser from an encoder's name or a folder.

    Raises:
        MexmaError: There is none.
    """
    try:
        tokenizer = with_transformers(where)
    except Exception as error:  # tokenizers raises plain Exception
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise MexmaError(
            f"no tokeniser in {str(where)!r}: {reason}",
            "if `mexma prepare` made it, delete it and run that again",
        ) from None
    if not getattr(tokenizer, "is_fast", False):
        raise MexmaError(f"{str(where)!r} has no fast tokeniser (tokenizer.json)")
    return tokenizer


def recipe_tokenizer(
    recipe: Recipe, settings: dict[str, Any], sentences: Callable[[], Iterator[Weighed]]
) -> LazyTokenizer:
    """The tokeniser that a recipe asks for; one that was trained with equal settings is taken again.

    Args:
        settings: All that decides the text; kept beside a trained tokeniser.
        sentences: Gives the text and its weights, as often as it is called.
    """
    wanted = recipe.encoder.tokenizer
    if recipe.encoder.start is not None or wanted is None:
        return _tokenizer_of(recipe.encoder.start or "mini", recipe.data.max_tokens)
    path = tokenizer_path(recipe)
    note = {"tokenizer": wanted.model_dump(), "text": settings}
    if (path / _NOTE).is_file() and read_json(path / _NOTE) == note:
        return read_tokenizer(path)
    log.info("training a tokeniser of %s pieces", f"{wanted.vocabulary:,}")
    tokenizer = train_tokenizer(wanted, sentences)
    with written_aside(path) as aside:
        tokenizer.save_pretrained(aside)
        write_json_atomic(aside / _NOTE, note)
    return read_tokenizer(path)


def teachers_tokenizer(recipe: Recipe, tokenizer: str) -> tuple[str, str] | None:
    """The tokeniser of a recipe's teacher, and what that puts before every sentence.

    Args:
        tokenizer: The encoder's.

    Returns:
        None if there is no teacher, or if it reads text as the encoder does.
    """
    if recipe.teacher is None:
        return None
    found = as_text(_tokenizer_of(recipe.teacher, recipe.data.max_tokens), recipe.data.max_tokens)
    prefix = read_settings(locate(recipe.teacher)).prefix
    return None if found == tokenizer and not prefix else (found, prefix)


def as_text(tokens: LazyTokenizer, max_tokens: int) -> str:
    """A tokeniser as `tokenizers` writes it; it is cut to `max_tokens` if it keeps the end, and else not."""
    backend = tokens.unlimited
    if tokens.keeps_end:  # only the side is read from it
        backend.enable_truncation(max_tokens, direction="left")
    return str(backend.to_str())


def check_length(encoder: str, takes: int, wanted: int) -> None:
    """Refuse sentences (`data.max_tokens`) that are longer than an encoder takes."""
    if takes < wanted:
        raise MexmaError(
            f"data.max_tokens is {wanted}, and {encoder} takes {takes} tokens at most",
            f"set data.max_tokens to {takes} or less",
        )


def _tokenizer_of(encoder: str, max_tokens: int) -> LazyTokenizer:
    """The tokeniser that an encoder embeds with, if sentences of so many tokens are not too long for it."""
    settings = read_settings(locate(encoder))
    tokens = read_tokenizer(settings.transformer)
    check_length(encoder, tokens.limit(encoder, settings.max_tokens), max_tokens)
    if settings.lower_case:
        put_in_lower_case(tokens.backend)
    return tokens


def read_tokenizer(folder: str | Path) -> LazyTokenizer:
    """A folder's tokeniser, without transformers if that is not needed.

    Raises:
        MexmaError: There is none.
    """
    return LazyTokenizer.read(Path(folder), partial(load_tokenizer, folder))


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
