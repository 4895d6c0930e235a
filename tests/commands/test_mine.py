from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from mexma_cli.main import cli


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def raw_store(folder: Path, name: str, lines: list[str], vectors: np.ndarray) -> Path:
    raw, text, store = folder / f"{name}.f32", folder / f"{name}.txt", folder / f"{name}.emb"
    raw.write_bytes(vectors.astype(np.float32).tobytes())
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    result = run("convert", raw, "--dim", str(vectors.shape[1]), "--text", text, "-o", store)
    assert result.exit_code == 0, result.output
    return store


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Three sentences on either side, two of which are translations; the source has a repeated line, an
    empty one and one with a tab."""
    vectors = np.eye(4)
    source = raw_store(
        tmp_path, "s", ["un\tdeux", "", "deux", "deux", "trois"], vectors[[0, 3, 1, 1, 2]] + 0.01
    )
    target = raw_store(tmp_path, "t", ["two", "one", "four"], vectors[[1, 0, 3]] + 0.02)
    return source, target


def test_laser_raw_vectors_in_laser_pairs_out(shared: Path, tmp_path: Path) -> None:
    folder = shared / "fixtures" / "laser"
    for side in ("src", "tgt"):
        options = ("--dim", "64", "--text", folder / f"{side}.txt")
        assert run("convert", folder / f"{side}.f32", *options, "-o", tmp_path / f"{side}.emb").exit_code == 0
    for retrieval, margin, k in (("max", "ratio", "4"), ("intersect", "distance", "16")):
        result = run(
            "mine", tmp_path / "src.emb", tmp_path / "tgt.emb",
            "--margin", margin, "-k", k, "--retrieval", retrieval,
        )  # fmt: skip
        assert result.exit_code == 0, result.output

        def parsed(text: str) -> dict[str, float]:
            rows = [line.partition("\t") for line in text.splitlines()]
            return {sentences: float(score) for score, _, sentences in rows}

        ours = parsed(result.stdout)
        theirs = parsed((folder / f"mine.{retrieval}.{margin}.k{k}.tsv").read_text())
        assert ours.keys() == theirs.keys()
        assert max(abs(ours[pair] - theirs[pair]) for pair in ours) < 1e-6
        assert list(ours.values()) == sorted(ours.values(), reverse=True)


def test_pairs_on_stdout_and_counts_on_stderr(pair: tuple[Path, Path]) -> None:
    result = run("mine", *pair, "-k", "2", "--threshold", "1.5")
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert sorted(row[1:] for row in rows) == [["deux", "two"], ["un deux", "one"]]
    assert [float(row[0]) for row in rows] == sorted((float(row[0]) for row in rows), reverse=True)
    assert "2 pairs in" in result.stderr
    assert "source: 5 lines (1 duplicates, 1 empty left out); target: 3 lines" in result.stderr
    assert "tabs or line breaks became spaces in 1 sentences" in result.stderr


def test_into_a_file_as_its_name_says(pair: tuple[Path, Path], tmp_path: Path) -> None:
    wanted = run("mine", *pair).stdout
    for name in ("out.tsv", "out.tsv.gz"):
        result = run("mine", *pair, "-o", tmp_path / name)
        assert result.exit_code == 0 and result.stdout == ""
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8") == wanted
    assert gzip.decompress((tmp_path / "out.tsv.gz").read_bytes()).decode() == wanted
    assert not list(tmp_path.glob("*tmp*"))


def test_no_pair_above_the_threshold_is_a_warning(pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = run("mine", *pair, "--threshold", "99", "-o", tmp_path / "out.tsv")
    assert result.exit_code == 0 and "warning: no pair was found above 99" in result.stderr
    assert (tmp_path / "out.tsv").read_bytes() == b""


def test_more_neighbours_than_sentences(pair: tuple[Path, Path]) -> None:
    assert run("mine", *pair, "-k", "1000").exit_code == 0


class TestBadInput:
    def fails(self, code: int, message: str, *arguments: str | Path) -> None:
        result = run("mine", *arguments)
        assert result.exit_code == code, result.output
        assert message in result.stderr, result.stderr

    def test_usage(self, pair: tuple[Path, Path]) -> None:
        self.fails(2, "'cosine' is not one of 'ratio', 'distance', 'absolute'", *pair, "--margin", "cosine")
        self.fails(2, "is not one of", *pair, "--retrieval", "best")
        self.fails(2, "0 is not in the range", *pair, "-k", "0")
        self.fails(2, "Missing argument 'TARGET'", pair[0])

    def test_an_output_that_cannot_be_written_is_refused_first(
        self, pair: tuple[Path, Path], tmp_path: Path
    ) -> None:
        self.fails(1, "is a folder, not a file", *pair, "-o", tmp_path)
        self.fails(1, "there is no folder", *pair, "-o", tmp_path / "none" / "out.tsv")

    def test_stores(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        narrow = raw_store(tmp_path, "n", ["a"], np.ones((1, 3)))
        self.fails(1, "different dimensions", pair[0], narrow, "-o", tmp_path / "out.tsv")
        self.fails(1, "none.emb: no such file", pair[0], tmp_path / "none.emb")
        self.fails(1, "no embedding store", pair[0], tmp_path)
        (vectors,) = pair[1].glob("vectors-*.npy")
        vectors.write_bytes(vectors.read_bytes()[:-8])
        self.fails(
            1, "is damaged: the manifest says 3 rows, the file has 2", *pair, "-o", tmp_path / "out.tsv"
        )
        assert not list(tmp_path.glob("out*"))


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny untrained encoder over letters: equal sentences have equal vectors, and that is all."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    from mexma_cli.encoder.encoder import SentenceEncoder

    symbols = ["<s>", "<pad>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz ", "<mask>"]
    tokenizer = Tokenizer(models.WordLevel({s: i for i, s in enumerate(symbols)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", mask_token="<mask>",
    )  # fmt: skip
    config = XLMRobertaConfig(
        vocab_size=len(symbols), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=52, type_vocab_size=1,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("models") / "tiny"
    SentenceEncoder(
        "tiny", XLMRobertaModel(config, add_pooling_layer=False), fast, pooling="mean", max_tokens=50
    ).save(folder)
    return folder


class TestTexts:
    LINES = ("some words", "other words", "the last line", "")

    def texts(self, folder: Path) -> tuple[Path, Path]:
        source, target = folder / "a.txt", folder / "b.txt.gz"
        source.write_text("".join(f"{line}\n" for line in self.LINES))
        target.write_bytes(gzip.compress("".join(f"{line}\n" for line in reversed(self.LINES)).encode()))
        return source, target

    def test_are_embedded_on_the_way(self, tmp_path: Path, encoder_folder: Path) -> None:
        source, target = self.texts(tmp_path)
        options = ("--model", encoder_folder, "-k", "2")
        result = run("mine", source, target, *options, "--source-lang", "fr", "--margin", "absolute")
        assert result.exit_code == 0, result.output
        rows = [line.split("\t") for line in result.stdout.splitlines()]
        assert sorted(row[1] for row in rows) == sorted(self.LINES[:3])
        assert all(row[1] == row[2] and float(row[0]) == pytest.approx(1, abs=1e-3) for row in rows)
        assert f"embedding {source} into a temporary folder" in result.stderr
        assert sorted(tmp_path.iterdir()) == [source, target]

        piped = CliRunner().invoke(
            cli, ["mine", "-", str(target), *map(str, options), "--margin", "absolute"], source.read_bytes()
        )
        assert piped.exit_code == 0 and piped.stdout == result.stdout

    def test_a_text_goes_with_a_store_of_the_same_encoder_only(
        self, tmp_path: Path, encoder_folder: Path, pair: tuple[Path, Path]
    ) -> None:
        source, target = self.texts(tmp_path)
        assert run("embed", source, "--model", encoder_folder, "-o", tmp_path / "a.emb").exit_code == 0
        result = run("mine", tmp_path / "a.emb", target, "--model", encoder_folder)
        assert result.exit_code == 0 and len(result.stdout.splitlines()) == 3
        result = run("mine", pair[0], target, "--model", encoder_folder)
        assert result.exit_code == 1 and "different encoders: unknown (raw vectors) for" in result.stderr

    def test_bad_ones_are_refused_before_anything_is_embedded(
        self, tmp_path: Path, encoder_folder: Path, pair: tuple[Path, Path]
    ) -> None:
        source, target = self.texts(tmp_path)
        (tmp_path / "latin.txt").write_bytes("fine\ncaf\xe9\n".encode("latin-1"))
        (tmp_path / "empty.txt").write_bytes(b"")
        for name, message in (
            ("latin.txt", "latin.txt, line 2, byte 4: not UTF-8"),
            ("empty.txt", "empty.txt has no lines"),
            ("none.txt", "none.txt: no such file"),
        ):
            result = run("mine", source, tmp_path / name, "--model", encoder_folder)
            assert result.exit_code == 1 and message in result.stderr
            assert "embedding" not in result.stderr
        assert run("mine", "-", "-").exit_code == 2
        assert run("mine", *pair, "--model", encoder_folder).exit_code == 2
        assert run("mine", source, target, "--source-lang", "xx").exit_code == 1
