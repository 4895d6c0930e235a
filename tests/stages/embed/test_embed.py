"""Text to store: every line a row, in order, and the same bytes however often the run was killed."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.settings.stages import EmbedSettings
from mexma_cli.stages.embed.embed import EmbedOptions, embed_file
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import Part
from mexma_cli.text.lines import read_lines, scan
from tests.stores import content, flip, shards_of


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(str(tiny_encoder), device="cpu")


@pytest.fixture
def corpus(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    """100 lines; line 3 is empty, line 8 is too long for the encoder."""
    rows = [f"{sentence} {number}" for number in range(13) for sentence in sentences["fra"]][:100]
    rows[2], rows[7] = "", "mot " * 200
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@shards_of(32)
def test_every_line_is_a_row(encoder: SentenceEncoder, corpus: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int, int]] = []
    store = embed_file(
        encoder,
        corpus,
        tmp_path / "a.emb",
        EmbedOptions("fra_Latn", EmbedSettings(store_dtype="float32")),
        argv=["mexma", "embed"],
        on_progress=lambda *done: told.append(done),
    )
    lines = list(read_lines(corpus))
    manifest = store.manifest
    assert list(store.sentences()) == lines
    assert (store.rows, manifest.truncated, manifest.empty) == (100, 1, 1)
    assert manifest.language == "fra_Latn"
    assert (manifest.encoder, manifest.fingerprint) == (encoder.name, encoder.fingerprint)
    assert (manifest.source.path, manifest.source.lines) == (str(corpus), 100)
    for row in (0, 2, 7, 31, 32, 99):
        np.testing.assert_allclose(store.vectors(row, row + 1)[0], encoder.embed([lines[row]])[0], atol=1e-4)
    assert told[0] == (0, 100, 0)
    assert told[-1] == (100, 100, sum(map(len, encoder.tokenize(lines))))
    assert sorted(told) == told
    store.verify()


def test_a_file_whose_name_is_not_utf8(encoder: SentenceEncoder, corpus: Path, tmp_path: Path) -> None:
    try:
        latin1 = Path(shutil.copy(corpus, tmp_path / os.fsdecode(b"caf\xe9.txt")))
    except OSError:
        pytest.skip("file names are UTF-8 here")
    store = embed_file(encoder, latin1, tmp_path / "a.emb", argv=["mexma", "embed", str(latin1)])
    assert store.manifest.source.path == str(latin1)


@pytest.mark.parametrize(
    ("name", "text", "warning"),
    [
        ("pairs.tsv", "un\tone\ndeux\ttwo\n", "pairs.tsv has tabs as files of sentence pairs do"),
        ("pairs.tsv", "un\tone\ndeux\n", None),
        ("pairs.csv.gz", "un,one\ndeux,two\n", "pairs.csv.gz is CSV by its name"),
    ],
)
def test_a_file_of_pairs_is_no_text(
    name: str,
    text: str,
    warning: str | None,
    encoder: SentenceEncoder,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    embed_file(encoder, path, tmp_path / "a.emb")
    assert warning in caplog.text if warning else "sentence pairs" not in caplog.text


def test_the_same_again_is_no_work(encoder: SentenceEncoder, corpus: Path, tmp_path: Path) -> None:
    embed_file(encoder, corpus, tmp_path / "a.emb", EmbedOptions("fra_Latn"))
    before = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "a.emb").iterdir()}
    embed_file(
        encoder,
        corpus,
        tmp_path / "a.emb",
        EmbedOptions("fra_Latn"),
        on_progress=lambda *_: pytest.fail("worked"),
    )
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "a.emb").iterdir()} == before


@pytest.mark.parametrize("name", ["vectors-00000.npy", "lines-00000.txt.zst"])
def test_a_damaged_store_is_not_taken_for_done(
    name: str, encoder: SentenceEncoder, corpus: Path, tmp_path: Path
) -> None:
    embed_file(encoder, corpus, tmp_path / "a.emb", EmbedOptions("fra_Latn"))
    path = tmp_path / "a.emb" / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
    with pytest.raises(MexmaError, match=f"{name} is damaged: its checksum") as caught:
        embed_file(encoder, corpus, tmp_path / "a.emb", EmbedOptions("fra_Latn"))
    assert "--overwrite" in (caught.value.hint or "")
    embed_file(encoder, corpus, tmp_path / "a.emb", EmbedOptions("fra_Latn", overwrite=True))
    assert path.read_bytes() == whole


def test_other_settings_need_overwrite(encoder: SentenceEncoder, corpus: Path, tmp_path: Path) -> None:
    embed_file(encoder, corpus, tmp_path / "a.emb", EmbedOptions("fra_Latn"))
    with pytest.raises(MexmaError, match="language: fra_Latn there, eng_Latn now") as caught:
        embed_file(encoder, corpus, tmp_path / "a.emb", EmbedOptions("eng_Latn"))
    assert "--overwrite" in (caught.value.hint or "")
    corpus.write_text("another text\n")
    with pytest.raises(MexmaError, match="the text is another one"):
        embed_file(encoder, corpus, tmp_path / "a.emb", EmbedOptions("fra_Latn"))
    assert embed_file(encoder, corpus, tmp_path / "a.emb", EmbedOptions("fra_Latn", overwrite=True)).rows == 1


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_text_that_is_rewritten_or_grows_meanwhile(
    encoder: SentenceEncoder, corpus: Path, tmp_path: Path, mark: bytes
) -> None:
    """Written anew it is refused; what is added to a log while it is read is left out."""
    whole = mark + corpus.read_bytes()
    for name, after, said in (
        ("grown", whole + b"more\n", None),
        ("shorter", b"only one line left\n", "100 lines before, 1 now"),
        ("other", whole.replace(b"neuf heures", b"dix heures"), "100 lines before, other lines now"),
        ("longer line", whole[:-1] + b"9\n", "100 lines before, other lines now"),
    ):
        corpus.write_bytes(whole[:-1] if name == "longer line" else whole)
        text = scan(corpus)
        corpus.write_bytes(after)
        changed = pytest.raises(MexmaError, match=f"changed while it was read: {said}")
        with contextlib.nullcontext() if said is None else changed:
            store = embed_file(
                encoder, text, tmp_path / f"{name}.emb", EmbedOptions("fra_Latn"), argv=["mexma", "embed"]
            )
            assert store.rows == 100 and store.manifest.sources[0].checksum == text.checksum
    assert [path.name for path in tmp_path.glob("*.emb")] == ["grown.emb"]


@pytest.mark.parametrize("part", [None, Part(1, 2)])
@pytest.mark.parametrize("stopped_at", [0, 48])
@shards_of(16)
def test_lines_of_another_text_do_not_stay_when_the_text_comes_back(
    part: Part | None, stopped_at: int, encoder: SentenceEncoder, corpus: Path, tmp_path: Path
) -> None:
    """The text is another one for a while: until that run ends with an error, or is killed."""
    whole, options = corpus.read_bytes(), EmbedOptions("fra_Latn", part=part)
    expected = embed_file(encoder, corpus, tmp_path / "whole.emb", options)

    def stop(done: int, total: int, tokens: int) -> None:
        if done == stopped_at > 0:
            raise Stopped

    text = scan(corpus)
    corpus.write_bytes(whole.replace(b"plus proche ? 2", b"moins proche ? 2"))
    with pytest.raises(Stopped if stopped_at else MexmaError):
        embed_file(encoder, text, tmp_path / "a.emb", options, on_progress=stop)
    corpus.write_bytes(whole)
    resumed = embed_file(encoder, corpus, tmp_path / "a.emb", options)
    assert content(resumed.path) == content(expected.path)


@shards_of(32)
def test_damage_in_what_is_gone_on_with_is_found(
    encoder: SentenceEncoder, corpus: Path, tmp_path: Path
) -> None:
    def stop(done: int, total: int, tokens: int) -> None:
        if done > 64:
            raise Stopped

    for name in ("vectors-00000.npy", "lines-00001.txt.zst"):
        output = tmp_path / f"{name}.emb"
        with pytest.raises(Stopped):
            embed_file(encoder, corpus, output, on_progress=stop)
        flip(tmp_path / f"{name}.emb.partial" / f"{name}.emb" / name)
        with pytest.raises(MexmaError, match=f"{name} is damaged: its checksum"):
            embed_file(encoder, corpus, output)


LONG, EMPTY, BLANK = 8, 9, 10
KNOWN = [
    *(f"Sentence {number} of the text." * (1 + number % 3) for number in range(8)),
    "mot " * 200,
    "",
    "  ",
]


def repetitive(folder: Path, rows: Sequence[int]) -> Path:
    """A text whose lines are these of `KNOWN`."""
    path = folder / "rows.txt"
    path.write_text("".join(f"{KNOWN[row]}\n" for row in rows), encoding="utf-8")
    return path


class Stopped(Exception):
    pass


@settings(max_examples=12)
@given(
    st.lists(st.integers(0, len(KNOWN) - 1), min_size=1, max_size=60), st.integers(0, 7), st.integers(1, 10)
)
def test_equal_lines_are_embedded_once_and_have_equal_vectors(
    encoder: SentenceEncoder, rows: list[int], chunks: int, chunk: int
) -> None:
    """In a run that was stopped after some chunks and gone on with too, to the same bytes."""
    with tempfile.TemporaryDirectory() as folder, shards_of(chunk):
        corpus = repetitive(Path(folder), rows)

        def stop(done: int, total: int, tokens: int) -> None:
            if done >= chunks * chunk and done < total:
                raise Stopped

        whole = embed_file(encoder, corpus, Path(folder) / "whole.emb")
        with contextlib.suppress(Stopped):
            embed_file(encoder, corpus, Path(folder) / "a.emb", on_progress=stop)
        resumed = embed_file(encoder, corpus, Path(folder) / "a.emb")
        assert content(resumed.path) == content(whole.path)
        firsts = [rows.index(row) for row in rows]
        vectors = whole.vectors(0, whole.rows)
        np.testing.assert_array_equal(vectors, vectors[firsts])
        assert list(whole.sentences()) == list(read_lines(corpus))
        copies = [row for at, row in enumerate(rows) if firsts[at] != at]
        assert whole.manifest.duplicates == sum(row not in (EMPTY, BLANK) for row in copies)
        assert whole.manifest.truncated == rows.count(LONG)
        assert whole.manifest.empty == rows.count(EMPTY) + rows.count(BLANK)


@shards_of(6)
def test_a_repeated_line_costs_nothing(encoder: SentenceEncoder, tmp_path: Path) -> None:
    told: list[tuple[int, int, int]] = []
    rows = [0, 1, 0, 2] * 10
    embed_file(
        encoder,
        repetitive(tmp_path, rows),
        tmp_path / "a.emb",
        on_progress=lambda *done: told.append(done),
    )
    assert told[-1] == (40, 40, sum(map(len, encoder.tokenize(KNOWN[:3]))))


def test_cleaned_lines_are_embedded_and_the_lines_themselves_kept(
    encoder: SentenceEncoder, tmp_path: Path
) -> None:
    raw, plain = tmp_path / "raw.txt", tmp_path / "plain.txt"
    raw.write_text("„Nein“,\tsagte er…\n“Nein”,  sagte er...\n", encoding="utf-8")
    plain.write_text('"Nein", sagte er...\n' * 2, encoding="utf-8")
    settings = EmbedSettings(store_dtype="float32")
    options = EmbedOptions("deu_Latn", settings)
    cleaning = replace(options, settings=settings.but(clean=True))
    cleaned = embed_file(encoder, raw, tmp_path / "raw.emb", cleaning)
    expected = embed_file(encoder, plain, tmp_path / "plain.emb", options)
    np.testing.assert_array_equal(cleaned.vectors(0, 2), expected.vectors(0, 2))
    assert list(cleaned.sentences()) == list(read_lines(raw))
    assert cleaned.manifest.clean
    assert cleaned.manifest.duplicates == 1
    with pytest.raises(MexmaError, match="clean: yes there, no now"):
        embed_file(encoder, raw, tmp_path / "raw.emb", options)


@pytest.mark.parametrize("of", [1, 3, 7])
@shards_of(2)
def test_parts_are_the_rows_of_the_text(
    of: int, encoder: SentenceEncoder, corpus: Path, tmp_path: Path
) -> None:
    corpus.write_text("".join(f"line {number % 4}\n" for number in range(5)))
    stores = [
        embed_file(encoder, corpus, tmp_path / "a.emb", EmbedOptions(part=Part(number, of)))
        for number in range(1, of + 1)
    ]
    assert [line for store in stores for line in store.sentences()] == list(read_lines(corpus))
    assert [store.path.name for store in stores] == [f"a.{i:05}-of-{of:05}.emb" for i in range(1, of + 1)]
    assert {(store.manifest.part, store.manifest.source.lines) for store in stores} == {
        (Part(number, of), 5) for number in range(1, of + 1)
    }
    assert not (tmp_path / "a.emb").exists()


@shards_of(2)
def test_an_appended_text_follows_and_resumes(encoder: SentenceEncoder, corpus: Path, tmp_path: Path) -> None:
    more = repetitive(tmp_path, [0, LONG, 0, 1, EMPTY, 1, 0])
    for name in ("a.emb", "b.emb"):
        embed_file(encoder, corpus, tmp_path / name)

    def stop(done: int, total: int, tokens: int) -> None:
        if done > 4:
            raise Stopped

    with pytest.raises(Stopped):
        embed_file(encoder, more, tmp_path / "a.emb", EmbedOptions(append=True), on_progress=stop)
    assert EmbeddingStore.open(tmp_path / "a.emb").rows == 100
    longer = embed_file(encoder, more, tmp_path / "a.emb", EmbedOptions(append=True))
    at_once = embed_file(encoder, more, tmp_path / "b.emb", EmbedOptions(append=True))
    assert content(longer.path) == content(at_once.path)
    assert list(longer.sentences()) == [*read_lines(corpus), *read_lines(more)]
    np.testing.assert_array_equal(longer.vectors(100, 101), longer.vectors(106, 107))
    assert (longer.manifest.duplicates, longer.manifest.truncated) == (3, 2)
