"""The trained tokeniser: XLM-R's layout, and the same wherever it is loaded."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.bag.tokenizer import train_tokenizer
from mexma_cli.settings.training import TrainTokenizer
from mexma_cli.stages.prepare.tokenizer import load_fast_tokenizer
from tests.examples import weighed


@pytest.fixture
def text(sentences: dict[str, list[str]]) -> list[str]:
    return [sentence for side in sentences.values() for sentence in side]


WORDS = TrainTokenizer(vocabulary=300, words=60, lowercase=True)
KINDS = pytest.mark.parametrize("wanted", [TrainTokenizer(vocabulary=300), WORDS], ids=["pieces", "words"])


@KINDS
def test_layout_and_round_trip(wanted: TrainTokenizer, text: list[str], tmp_path: Path) -> None:
    tokenizer = train_tokenizer(wanted, lambda: weighed(text))
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>"]) == [0, 1, 2, 3]
    assert loaded.mask_token_id == len(loaded) - 1
    assert sorted(loaded.all_special_ids) == [0, 1, 2, 3, len(loaded) - 1]
    ids = loaded("Elle a vendu  sa maison").input_ids
    assert (ids[0], ids[-1]) == (0, 2)
    assert loaded.decode(ids, skip_special_tokens=True).lower() == "elle a vendu sa maison"
    assert load_fast_tokenizer(tmp_path).backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


def test_the_encoder_of_a_folder_has_the_same_ids(text: list[str], tiny_encoder: Path) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), device="cpu")
    alone = load_fast_tokenizer(tiny_encoder)
    for sentence in text:
        assert encoder.tokenize([sentence])[0].tolist() == alone(sentence).input_ids


@KINDS
def test_the_same_text_has_the_same_tokeniser(wanted: TrainTokenizer, text: list[str]) -> None:
    """Also from the text in another order; and the trainer itself adds in another order in every run."""
    text = [*text, "Ωmega", "ж", "Ł ł", "ß"]  # characters that are no piece but for themselves
    made = [train_tokenizer(wanted, lambda order=order: weighed(text[::order])) for order in (1, -1, 1, -1)]
    assert len({tokenizer.backend_tokenizer.to_str() for tokenizer in made}) == 1
    assert "<unk>" not in made[0].tokenize(" ".join(text))


def test_at_most_so_many_sentences_are_used(text: list[str]) -> None:
    many = [f"{sentence} {number}" for sentence in text for number in range(500, 600)]
    asked = TrainTokenizer(vocabulary=300, max_sentences=30)
    few = train_tokenizer(asked, lambda: weighed(many)).get_vocab()
    assert len(few) < len(train_tokenizer(TrainTokenizer(vocabulary=300), lambda: weighed(many)).get_vocab())


@pytest.mark.parametrize("lowercase", [True, False])
def test_what_is_spelled_alike_has_the_same_tokens(text: list[str], lowercase: bool) -> None:
    tokenizer = train_tokenizer(
        TrainTokenizer(vocabulary=300, latin=True, lowercase=lowercase),
        lambda: weighed(text),
    )
    spelled = tokenizer.backend_tokenizer.normalizer.normalize_str
    for written, plain in (
        ("Београд", "Beograd"),
        ("Љубљана", "Ljubljana"),
        ("Київ, Ґданьськ", "Kiiv, Gdansk"),
        ("čeština, łódź, Ærø", "cestina, lodz, Aero"),
        ("Übergröße", "Ubergrosse"),
        ("Ελλάδα, ırmak", "Ελλαδα, irmak"),
        ("עִבְרִית־שָׁלוֹם عَرَبِيّ أمّـة قرآن", "עברית־שלום عربي امة قران"),  # vowel points; their letters stay
        ("Má mà mạ; déjà", "Má mà ma; deja"),  # tones, before the last letter of Vietnamese alone
        ("हिन्दी 한국어 が ไทย", "हिन्दी 한국어 が ไทย"),  # whose marks are letters
    ):
        assert spelled(written) == (plain.lower() if lowercase else plain)
    assert tokenizer("Жена").input_ids == tokenizer("Žena").input_ids == tokenizer("Zena").input_ids


def test_signs_of_scripts_without_spaces_are_tokens_and_so_are_their_pairs(text: list[str]) -> None:
    """A pair is in the vocabulary as both of its tokens, and no text is split into it."""
    wanted = TrainTokenizer(vocabulary=400, words=150, lowercase=True, latin=True)
    tokenizer = train_tokenizer(wanted, lambda: weighed([*text, *["日本語、アメリカ", "học sinh nước"] * 30]))
    assert tokenizer.tokenize("日本語") == ["▁日", "▁本", "▁語"]
    assert tokenizer.tokenize("日アメリカ本") == ["▁日", "▁アメリカ", "▁本"]
    pairs = {piece for piece in tokenizer.get_vocab() if "▁" in piece[1:]}
    assert pairs == {"▁日▁本", "▁本▁語", "▁học▁sinh", "▁sinh▁nưoc"}


def test_too_small_a_vocabulary_is_refused() -> None:
    many = "".join(chr(0x4E00 + number) for number in range(400))
    with pytest.raises(MexmaError, match="a vocabulary of 300 is too small: the text has 400 characters"):
        train_tokenizer(TrainTokenizer(vocabulary=300), lambda: weighed([many]))
    with pytest.raises(MexmaError, match="no pairs are left"):
        train_tokenizer(TrainTokenizer(vocabulary=300), lambda: weighed([]))


def test_no_tokeniser_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="no tokeniser in"):
        load_fast_tokenizer(tmp_path)


@pytest.fixture
def whole_words(text: list[str]) -> PreTrainedTokenizerFast:
    return train_tokenizer(WORDS, lambda: weighed(text))


def test_the_most_frequent_words_are_one_token_each(
    whole_words: PreTrainedTokenizerFast, text: list[str]
) -> None:
    """However it stands: beside a bracket, after an apostrophe, in capitals."""
    counts = Counter(re.findall(r"\w+|[^\w\s]", " ".join(text).lower()))
    frequent = [word for word, count in counts.items() if count > 1]
    assert len(frequent) > 10
    for word in frequent:
        assert whole_words.tokenize(word.upper()) == [f"▁{word}"]
        assert whole_words.tokenize(f"'{word}” 12")[:2] == ["▁'", f"▁{word}"]
    pieces = {token for sentence in text for token in whole_words.tokenize(sentence)}
    assert any(not piece.startswith("▁") for piece in pieces)  # the others are made of pieces
    assert "<unk>" not in pieces


def test_a_word_is_never_less_likely_than_its_pieces(whole_words: PreTrainedTokenizerFast) -> None:
    for token in set(whole_words.get_vocab()) - set(whole_words.all_special_tokens):
        if token.startswith("▁") and len(token) > 1:
            assert whole_words.tokenize(token[1:]) == [token]


def test_the_most_frequent_words_come_first(whole_words: PreTrainedTokenizerFast, text: list[str]) -> None:
    counts = Counter(token for sentence in set(text) for token in whole_words.tokenize(sentence))
    pieces = whole_words.convert_ids_to_tokens(range(4, len(whole_words) - 1))
    words = [counts[piece] for piece in pieces if piece.startswith("▁") and counts[piece] > 1]
    assert len(words) > 10 and words == sorted(words, reverse=True)


def test_words_are_counted_as_often_as_training_sees_them(text: list[str]) -> None:
    rare = "heliotrope"
    assert not any(rare in sentence for sentence in text)
    for weight, found in ((0.1, False), (1000.0, True)):
        corpus = [*weighed(text), (rare, weight)]
        vocabulary = train_tokenizer(TrainTokenizer(vocabulary=300, words=10), lambda c=corpus: iter(c)).vocab
        assert (f"▁{rare}" in vocabulary) == found


def test_a_word_that_is_often_seen_is_a_token_of_its_own() -> None:
    few = train_tokenizer(WORDS, lambda: weighed(["elle a vendu"] * 3))
    assert few.tokenize("vendu") == ["▁vendu"]
