"""The trained tokeniser: XLM-R's layout, and the same wherever it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.recipe import TrainTokenizer
from mexma_cli.stages.tokenizer import load_tokenizer, train_tokenizer


@pytest.fixture
def text(sentences: dict[str, list[str]]) -> list[str]:
    return [sentence for side in sentences.values() for sentence in side]


def test_layout_and_round_trip(text: list[str], tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TrainTokenizer(vocabulary=300), lambda: iter(text))
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>"]) == [0, 1, 2, 3]
    assert loaded.mask_token_id == len(loaded) - 1
    assert sorted(loaded.all_special_ids) == [0, 1, 2, 3, len(loaded) - 1]
    ids = loaded("Elle a vendu  sa maison.").input_ids
    assert (ids[0], ids[-1]) == (0, 2)
    assert loaded.decode(ids, skip_special_tokens=True) == "Elle a vendu sa maison."
    assert load_tokenizer(tmp_path).backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


def test_the_encoder_of_a_folder_has_the_same_ids(text: list[str], tiny_encoder: Path) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), device="cpu")
    alone = load_tokenizer(tiny_encoder)
    for sentence in text:
        assert encoder.tokenize([sentence])[0].tolist() == alone(sentence).input_ids


def test_at_most_so_many_sentences_are_used(text: list[str]) -> None:
    many = [f"{sentence} {number}" for sentence in text for number in range(500, 600)]
    asked = TrainTokenizer(vocabulary=300, max_sentences=30)
    few = train_tokenizer(asked, lambda: iter(many)).get_vocab()
    assert len(few) < len(train_tokenizer(TrainTokenizer(vocabulary=300), lambda: iter(many)).get_vocab())


@pytest.mark.parametrize("lowercase", [True, False])
def test_what_is_spelled_alike_has_the_same_tokens(text: list[str], lowercase: bool) -> None:
    tokenizer = train_tokenizer(
        TrainTokenizer(vocabulary=300, latin=True, lowercase=lowercase), lambda: iter(text)
    )
    spelled = tokenizer.backend_tokenizer.normalizer.normalize_str
    for written, plain in (
        ("Београд", "Beograd"),
        ("Љубљана", "Ljubljana"),
        ("Київ, Ґданьськ", "Kiiv, Gdansk"),
        ("čeština, łódź, Ærø", "cestina, lodz, Aero"),
        ("Übergröße", "Ubergrosse"),
        ("हिन्दी 한국어 が ไทย عَرَبِيّ", "हिन्दी 한국어 が ไทย عَرَبِيّ"),  # their marks are letters
    ):
        assert spelled(written) == (plain.lower() if lowercase else plain)
    assert tokenizer("Жена").input_ids == tokenizer("Žena").input_ids == tokenizer("Zena").input_ids


def test_too_small_a_vocabulary_is_refused() -> None:
    many = "".join(chr(0x4E00 + number) for number in range(400))
    with pytest.raises(MexmaError, match="a vocabulary of 300 is too small: the text has 400 characters"):
        train_tokenizer(TrainTokenizer(vocabulary=300), lambda: iter([many]))
    with pytest.raises(MexmaError, match="no pairs are left"):
        train_tokenizer(TrainTokenizer(vocabulary=300), lambda: iter([]))


def test_no_tokeniser_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="no tokeniser in"):
        load_tokenizer(tmp_path)
