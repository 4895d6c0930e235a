"""N-gram embeddings of split words: against plain Python, on disk, and in sentences."""

from __future__ import annotations

import re
from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from anyascii import anyascii
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.folder import CHECKSUMS, NGRAMS_FILE
from mexma_cli.encoder.model.packed import TransformerEncoder
from mexma_cli.encoder.model.transformer import Transformer
from mexma_cli.encoder.ngrams import (
    NgramEmbeddings,
    PairTokens,
    is_whole,
    joined,
    ngram_keys,
    token_kind,
)
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.bag.loss import Bag
from mexma_cli.objectives.bag.settings import BagSettings
from mexma_cli.objectives.bag.tokenizer import train_tokenizer
from mexma_cli.settings.training import NewEncoder, TrainTokenizer
from mexma_cli.text.characters import simplified
from tests.examples import demo_pairs, untrained_bag


@pytest.mark.parametrize(
    ("words", "pairs"),
    [
        ("▁日 ▁本 ▁。 ▁語 ▁人", "日本 語人"),
        ("▁日 ▁アメリカ ▁本", ""),
        ("▁học ▁sinh ▁tot ▁nam ▁nước ▁7", "họcsinh namnước"),
        ("▁nước 語 ▁日 ▁viet", ""),
        ("▁an ▁old ▁house", ""),
    ],
)
def test_neighbours_that_are_pairs(words: str, pairs: str) -> None:
    """Two signs, or a Vietnamese syllable and another word; not across punctuation, names or pieces."""
    pieces = words.split()
    found = np.flatnonzero(joined(np.array([token_kind(piece) for piece in pieces], np.uint8)))
    assert [(pieces[place] + pieces[place + 1]).replace("▁", "") for place in found] == pairs.split()


def test_pairs_stand_behind_their_first_token(encoder_with_pairs: SentenceEncoder) -> None:
    """By their own token, or by the row of an n-gram; those that neither knows are left out."""
    ngrams, backend = encoder_with_pairs.ngrams, encoder_with_pairs.fast_tokenizer.backend
    assert ngrams is not None
    size, vocabulary = backend.get_vocab_size(), backend.get_vocab()
    day, base, word = (vocabulary[f"▁{sign}"] for sign in "日本語")
    tokens = encoder_with_pairs.tokenize(["日本語日", "ab", "本日語"])
    (first, second, third), rows = ngrams.merge_split_words(tokens, backend)
    row = first[4] - size
    assert first.tolist() == [0, day, vocabulary["▁日▁本"], base, size + row, word, day, 2]
    assert second.tolist() == tokens[1].tolist()
    assert third.tolist() == [0, base, day, word, 2]
    expected, known = ngrams.embed(["▁本▁語"])
    assert known.all() and np.array_equal(rows[row], expected[0])
    assert np.isfinite(encoder_with_pairs.embed(["日本語日", "", "本"])).all()


@pytest.fixture
def encoder_with_pairs() -> SentenceEncoder:
    """Of three signs; 日本 is a token, and 本語 an n-gram."""
    text = [(sentence, 1.0) for sentence in ["日本", "語", "ab"] * 3]
    tokenizer = train_tokenizer(TrainTokenizer(vocabulary=300, words=9), lambda: text)
    shape = NewEncoder(layers=1, width=8, heads=1, ffn=8, dropout=0.0)
    encoder = SentenceEncoder.new(shape, tokenizer, max_tokens=20, seed=0)
    keys, _ = ngram_keys(["▁本▁語"], [3], [])
    encoder.ngrams = NgramEmbeddings(keys, np.ones((1, 8), np.float16), [3], [], 1.0, 1.0)
    return encoder


def test_a_vocabulary_without_pairs_has_none_of_its_own() -> None:
    places, halves, tokens = PairTokens(["", "▁日", "▁本"]).of(np.array([0, 1, 2, 0]))
    assert (places.tolist(), halves.tolist(), tokens.tolist()) == ([1], [[1, 2]], [-1])


SIZES, CONSONANTS, POWER = [2, 3], [2], 0.7
SETTINGS = BagSettings(name="bag", ngrams=SIZES, consonants=CONSONANTS, keep_ngrams=True, length_power=POWER)


def ngrams(word: str, sizes: list[int], consonants: list[int]) -> list[str]:
    """What `ngram_keys` has the hashes of, as strings."""
    if is_whole(word):
        return [f"!{word.translate(simplified())}"]
    own: list[str] = []
    for script, parts in (("[가-힣]", (1, 2)), ("[\u0530-\u0dff]", (3, 4))):
        if re.search(script, word):
            mine = word.replace("▁", "<")
            own += [f"~{size}{mine[i : i + size]}" for size in parts for i in range(len(mine) - size + 1)]
            own.append(f"~={mine.replace('<', '')}")
    spelled = anyascii(word.replace("▁", "<")).lower()
    bare = "".join(letter for letter in spelled if letter not in "aeiouyj")
    found = [f"{size}{spelled[i : i + size]}" for size in sizes for i in range(len(spelled) - size + 1)]
    found.append(f"={spelled.replace('<', '')}")
    if consonants:
        found += [f"#{size}{bare[i : i + size]}" for size in consonants for i in range(len(bare) - size + 1)]
        found.append(f"#={bare.replace('<', '')}")
    return found + own


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0"), max_size=9)  # which counts as nothing
        | st.text("▁aeioubcd<жñ漢汉한국שלם", max_size=12),
        max_size=8,
    ),
    *[st.lists(st.integers(1, 6), max_size=3, unique=True)] * 2,
)
def test_keys_are_of_the_ngrams(words: list[str], sizes: list[int], consonants: list[int]) -> None:
    """As many as there are, in the words' order, and equal where the n-grams are."""
    keys, counts = ngram_keys(words, sizes, consonants)
    expected = [ngrams(word, sizes, consonants) for word in words]
    assert counts.tolist() == [len(one) for one in expected]
    strings = [ngram for one in expected for ngram in one]
    assert len({*zip(keys.tolist(), strings, strict=True)}) == len({*strings}) == len({*keys.tolist()})


def test_kindred_words_share_their_consonants() -> None:
    """Milk in Russian, Belarusian and Czech, as the tokeniser writes it, which share no n-gram of three."""
    milk = ["▁moloko", "▁malako", "▁mleko"]
    apart, of_each = ngram_keys(milk, [3], [])
    assert len({*apart[: of_each[0]].tolist()} & {*apart[of_each[0] : of_each[:2].sum()].tolist()}) == 0
    keys, counts = ngram_keys(milk, [], [3, 4])
    first, second, third = np.split(keys, np.cumsum(counts)[:-1])
    assert len({*first.tolist()} & {*second.tolist()} & {*third.tolist()}) == 4  # <ml, mlk, <mlk, all of it


def test_other_scripts_share_ngrams_with_latin() -> None:
    cyrillic, latin = (ngram_keys([word], [3], [3])[0].tolist() for word in ("▁Москва", "▁moskva"))
    assert cyrillic == latin
    assert ngram_keys(["niño"], [3], [])[0].tolist() == ngram_keys(["nino"], [3], [])[0].tolist()


def test_variants_of_a_character_share_its_ngram() -> None:
    """Traditional, Japanese and simplified; a pair is not what its halves are."""
    keys, counts = ngram_keys(["▁國▁語", "▁国▁语", "▁国▁語", "▁国", "▁語"], [2, 3], [2])
    assert counts.tolist() == [1] * 5
    assert len({*keys[:3].tolist()}) == 1 and len({*keys.tolist()}) == 3


@pytest.fixture(scope="module")
def words() -> Bag:
    return untrained_bag(SETTINGS)


@pytest.fixture
def encoder(words: Bag) -> SentenceEncoder:
    encoder = words.export()
    encoder.truncated = 0
    return encoder


@pytest.fixture(scope="module")
def texts() -> list[str]:
    pairs = [side for pair in demo_pairs(16) for side in pair.split("\t")]
    return [*pairs, "", "Zweiundvierzig 42 Łódź!", "Женева", "漢字", "1998"]


def cosines(x: np.ndarray) -> np.ndarray:
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit @ unit.T


def split(encoder: SentenceEncoder, text: str) -> list[tuple[str, list[int]]]:
    """The words of a text as the tokeniser writes them, and their tokens."""
    ids = encoder.tokenize([text])[0][1:-1].tolist()
    found: list[tuple[str, list[int]]] = []
    for token, piece in zip(ids, encoder.tokenizer.convert_ids_to_tokens(ids), strict=True):
        if piece.startswith("▁") or piece == "<unk>":
            found.append((piece, [token]))
        else:
            found[-1] = (found[-1][0] + piece, [*found[-1][1], token])
    return found


@torch.no_grad()
def test_a_split_word_is_the_sum_of_its_ngrams(
    words: Bag, encoder: SentenceEncoder, texts: list[str]
) -> None:
    """The encoder's cosines are those of sums in plain Python, with the n-grams that tokens share."""
    assert words.keys is not None
    table = {int(key): vector for key, vector in zip(words.keys, words.ngram_vectors, strict=True)}

    def by_letters(word: str) -> torch.Tensor:
        known = [table[key] for key in ngram_keys([word], SIZES, CONSONANTS)[0].tolist() if key in table]
        return torch.stack(known).sum(dim=0) / len(known) ** 0.5

    vectors, spelled = words.table(torch.arange(len(words.vectors))), 0
    vectors[encoder.tokenizer.all_special_ids] = 0
    sums = []
    for text in texts[:-5]:
        total = torch.zeros(vectors.shape[1])
        for word, tokens in split(encoder, text):
            alone = len(tokens) == 1 or not word[1:].isalpha()
            parts = vectors[tokens] if alone else by_letters(word)[None]
            total += (parts * parts.norm(dim=1, keepdim=True).clamp_min(1e-9) ** (POWER - 1)).sum(dim=0)
            spelled += not alone
        sums.append(total.numpy())
    assert spelled > 20
    found = cosines(encoder.embed(texts[:-5]))
    assert np.abs(found - cosines(np.stack(sums))).max() < 5e-3
    encoder.ngrams = None
    assert np.abs(found - cosines(encoder.embed(texts[:-5]))).max() > 0.1


def test_the_model_itself_gives_the_same(
    encoder: SentenceEncoder, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, without the engine; and among others as alone, with either pooling."""
    texts = texts[:-5]  # and none whose vector is next to nothing, so that rounding decides
    for pooling in ("cls", "mean"):
        encoder.pooling = pooling
        found = encoder.embed(texts)
        np.testing.assert_allclose(
            np.concatenate([encoder.embed([text]) for text in texts]), found, atol=1e-4
        )
        with monkeypatch.context() as patch:
            patch.setattr(Transformer, "is_bag", lambda *_: False)
            patch.setattr(Transformer, "fits_engine", False)
            np.testing.assert_allclose(encoder.embed(texts), found, atol=1e-4)


def test_only_words_of_letters_have_ngram_embeddings(encoder: SentenceEncoder) -> None:
    """And only those with a known n-gram. Each is one token when a sentence is cut."""
    size = encoder.model.config.vocab_size
    assert encoder.ngrams is not None
    (ids,), rows = encoder.ngrams.merge_split_words(
        encoder.tokenize(["zurbelnd 8765 漢字 zurbelnd"]), encoder.fast_tokenizer.backend
    )
    assert len(rows) == 1 and (ids >= size).tolist().count(True) == 2
    assert ids[1] == ids[-2] == size and encoder.tokenizer.unk_token_id in ids
    long = "zurbelnd " * 38
    encoder.embed([long, long + "ja"])
    assert encoder.truncated == 1
    encoder.count_cut([long, long + "ja"])
    assert encoder.truncated == 2
    encoder.tokenize([long])
    assert encoder.truncated == 3  # in pieces it is longer


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("pq", 0.1)])
def test_a_folder_keeps_its_ngram_embeddings(
    dtype: str, tolerance: float, encoder: SentenceEncoder, texts: list[str], tmp_path: Path
) -> None:
    encoder.save(tmp_path / "encoder", dtype)
    loaded = SentenceEncoder.load(str(tmp_path / "encoder"), "cpu")
    again = SentenceEncoder.load(str(tmp_path / "encoder"), "cpu")
    assert loaded.fingerprint == again.fingerprint
    assert (loaded.fingerprint == encoder.fingerprint) == (dtype == "float32")
    meant = texts[:-5]  # and none whose vector is next to nothing
    found, before = cosines(loaded.embed(meant)), cosines(encoder.embed(meant))
    assert np.abs(found - before).max() < tolerance
    for name in (NGRAMS_FILE, CHECKSUMS):
        (tmp_path / "encoder" / name).unlink()
    pieces = SentenceEncoder.load(str(tmp_path / "encoder"), "cpu")
    assert pieces.fingerprint != loaded.fingerprint
    assert np.abs(cosines(pieces.embed(meant)) - before).max() > 0.2
    assert pieces.embed(["1998"]) == pytest.approx(loaded.embed(["1998"]), abs=1e-4)


@pytest.mark.parametrize("small", [False, True])
def test_a_table_is_the_same_bytes_each_time(small: bool, encoder: SentenceEncoder, tmp_path: Path) -> None:
    assert encoder.ngrams is not None
    found = set()
    for _ in range(4):
        encoder.ngrams.save(tmp_path, small)
        found.add((tmp_path / NGRAMS_FILE).read_bytes())
    assert len(found) == 1


def test_a_damaged_table_is_refused(encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.save(tmp_path)
    file = tmp_path / NGRAMS_FILE
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    (tmp_path / CHECKSUMS).unlink()
    with pytest.raises(MexmaError, match=NGRAMS_FILE):
        SentenceEncoder.load(str(tmp_path), "cpu")
    assert encoder.ngrams is not None
    encoder.ngrams.vectors = encoder.ngrams.vectors[:][:, :-4]
    encoder.ngrams.save(tmp_path, small=False)
    with pytest.raises(MexmaError, match="n-grams of 64"):
        SentenceEncoder.load(str(tmp_path), "cpu")


def test_a_word_has_the_same_bits_whatever_stands_beside_it(encoder: SentenceEncoder) -> None:
    assert encoder.ngrams is not None
    words = ["▁zurbelnd", *(f"▁casar{letter}" for letter in "abcdefghijklm")]
    together = encoder.ngrams.embed(words)[0]
    assert np.array_equal(np.concatenate([encoder.ngrams.embed([word])[0] for word in words]), together)


def test_sums_are_not_too_much_for_float16() -> None:
    """As of a word with some 100,000 letters, here for the vectors' length."""
    words = ["▁" + "the" * 200, "▁the"]
    keys = np.unique(ngram_keys(words, [3, 4], [])[0])
    vectors = 4096 * torch.randn(len(keys), 32, generator=torch.Generator().manual_seed(0)).half().numpy()
    long, short = (
        NgramEmbeddings(keys, vectors / by, [3, 4], [], 0.5, 1 / by).embed(words)[0] for by in (1, 4096)
    )
    assert np.isfinite(long).all() and np.allclose(long, short, atol=1e-2)
    assert np.array_equal(long[1], short[1])


def test_rows_go_to_the_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with every batch of a buffer: all batches have all of them."""
    encoder = SentenceEncoder.load("mini", "cpu")
    encoder.model.to("meta")
    rows: list[torch.Tensor] = []

    def embed(self: TransformerEncoder, ids: list[np.ndarray], extra: torch.Tensor | None) -> torch.Tensor:
        rows.append(extra)
        return torch.zeros(len(ids), encoder.dim)

    monkeypatch.setattr("mexma_cli.encoder.model.packed.GPU_TOKENS_PER_BATCH", 16)
    monkeypatch.setattr(TransformerEncoder, "batch", embed)
    encoder.embed(["Xqzvwky and Wblmqrt.", "Another line with Qvxzkrm.", "Ein Zqkwvx."])
    assert len(rows) > 1 and rows[0].device.type == "meta"
    assert all(one is rows[0] for one in rows)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sizes", [0]),
        ("sizes", [1 << 40]),
        ("consonants", ["x"]),
        ("power", "x"),
        ("unit", 0),
    ],
)
def test_facts_of_a_table_that_are_none_are_damage(
    key: str, value: object, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    table = copy(encoder.ngrams)
    assert table is not None
    setattr(table, key, value)
    table.save(tmp_path, small=False)
    with pytest.raises(MexmaError, match=f"{NGRAMS_FILE} cannot be read"):
        NgramEmbeddings.load(tmp_path, 64)
