"""`mexma embed` as a user calls it."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result

from mexma_cli.commands.embed import default_output
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.card import Trained
from mexma_cli.encoder.model.pooling import Normalize
from mexma_cli.errors import MexmaError
from mexma_cli.store.embeddings import EmbeddingStore
from tests.command import fails, ok, run
from tests.processes import MEXMA, Program

ROOT = Path(__file__).parent.parent.parent


def embed(encoder: Path, *arguments: str | Path, stdin: bytes | None = None) -> Result:
    return run("embed", "--model", encoder, "--device", "cpu", *arguments, stdin=stdin)


@pytest.fixture
def corpus(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join([*sentences["fra"], ""]) + "\n", encoding="utf-8")
    return path


def test_embeds_beside_the_text(tiny_encoder: Path, corpus: Path) -> None:
    done = ok(embed(tiny_encoder, "--lang", "fr", corpus))
    assert done.stdout == ""
    device, result = done.stderr.splitlines()
    near = r"float32|bfloat16: near float32's vectors, not the same \(--dtype fp32\)"  # by processor
    assert re.fullmatch(rf"embedding on cpu \(\d+ threads?\), (?:{near})", device)
    counts = "0 truncated to 64 tokens, 1 empty line kept as a row, 0 duplicates embedded once"
    assert result.startswith(f"9 rows of 32 numbers in {corpus.with_suffix('.emb')} ({counts}); ")
    assert re.search(r"; [\d,]+ sentences/s, [\d,]+ tokens/s$", result)
    store = EmbeddingStore.open(corpus.with_suffix(".emb"), verify=True)
    assert store.manifest.language == "fra_Latn"
    again = ok(embed(tiny_encoder, "--lang", "fra_Latn", corpus, "--json"))
    made = json.loads(again.stdout)
    assert (made["rows"], made["empty"], made["speed"]) == (9, 1, {})
    assert "nothing to do" in again.stderr


def test_no_output_lands_in_a_store(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    """An --overwrite of the store around it took it along."""
    english = tmp_path / "english.txt"
    english.write_text("It was 12 years ago.\n")
    store, other = tmp_path / "a.emb", tmp_path / "b.emb"
    for path in (store, other):
        ok(embed(tiny_encoder, corpus, "-o", path))
    before = sorted(file.name for file in store.iterdir())
    commands: list[list[str | Path]] = [
        ["embed", "--model", tiny_encoder, corpus, "-o", store / "b.emb"],
        ["embed", "--model", tiny_encoder, corpus, "-o", tmp_path / "new.emb" / "b.emb"],
        ["mine", other, other, "-o", store / "pairs.tsv"],
        ["knn", other, other, "-o", store / "n.knn"],
        ["merge", other, "-o", store / "c.emb"],
        ["augment", english, "-o", store],
    ]
    for command in commands:
        fails(run(*command), 1, "would lie in", "name one beside it")
    with pytest.raises(MexmaError, match="would lie in"):
        SentenceEncoder.load(str(tiny_encoder), "cpu").save(store / "encoder")
    assert sorted(file.name for file in store.iterdir()) == before
    assert not (tmp_path / "new.emb").exists()


def test_a_language_that_the_encoder_does_not_know(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    encoder.languages = ("eng_Latn", "hrv_Latn", "ron_Latn", "srp_Cyrl", "slv_Latn")
    errors = {"hrv_Latn": 2.25, "srp_Cyrl": 1.0, "slv_Latn": 9.0}
    measured = errors | {"slk_Latn": 9.0, "mlt_Latn": 9.1}
    encoder.trained = {code: Trained(pairs=9, dev_error=error) for code, error in measured.items()}
    encoder.save(tmp_path / "two")
    for given, code, near in (
        ("kor", "Korean (kor_Hang)", "none is akin to it"),
        ("bos", "Bosnian (bos_Latn)", "the nearest is Croatian (hrv_Latn), whose own xsim error is 2.2%"),
        ("fra", "French (fra_Latn)", "the nearest is Romanian (ron_Latn)"),
        ("srp_Latn", "", ""),
        ("slk", "", ""),
        ("und", "", ""),
    ):
        done = ok(embed(tmp_path / "two", "--lang", given, corpus, "-o", tmp_path / f"{given}.emb"))
        unmeasured = f"how well {code.partition(' ')[0]} is read was not measured"
        listed = f"of its 5 languages, which `mexma info {tmp_path / 'two'}` lists, {near}; {unmeasured}"
        said = f"two does not know {code}; {listed}; `mexma new-language` trains an encoder for it\n"
        assert (said in done.stderr) == bool(code) == ("does not know" in done.stderr)
    done = ok(embed(tmp_path / "two", "--lang", "mlt", corpus, "-o", tmp_path / "mlt.emb"))
    assert "two reads Maltese (mlt_Latn) with an xsim error of 9.1% on its dev set, more than" in done.stderr
    assert "`mexma new-language` trains an encoder for it, and" in done.stderr
    for part, told in (("1/2", True), ("2/2", False)):
        done = embed(tmp_path / "two", "--lang", "kor", corpus, "--shard", part, "-o", tmp_path / "parts.emb")
        assert done.exit_code == 0 and ("does not know" in done.stderr) == told


def test_stdin_needs_an_output_and_works_with_one(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    fails(embed(tiny_encoder, "-", stdin=b"a\n"), 2, "-o NAME.emb is needed")
    ok(embed(tiny_encoder, "-", "-o", tmp_path / "in.emb", stdin=gzip.compress(corpus.read_bytes())))
    store = EmbeddingStore.open(tmp_path / "in.emb")
    assert store.manifest.source.path == "stdin"
    assert list(store.sentences()) == corpus.read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("corpus.txt", "corpus.emb"),
        ("corpus.txt.gz", "corpus.emb"),
        ("news.fra.txt.xz", "news.fra.emb"),
        ("tatoeba.fra-eng.fra", "tatoeba.fra-eng.fra.emb"),
        ("corpus", "corpus.emb"),
    ],
)
def test_default_output(name: str, output: str) -> None:
    assert default_output(Path("some") / name) == Path("some") / output


BAD = {
    "latin1.txt": (b"ok\ncaf\xe9 noir\n", "latin1.txt, line 2, byte 4: not UTF-8"),
    "empty.txt": (b"", "empty.txt has no lines"),
    "long.txt": (b"ok\n" + b"x" * 10_000_000 + b"\n", "long.txt, line 2: 10,000,000 bytes in one line"),
    "binary.bin": (b"ab\0cd", "binary.bin, line 1, byte 3: a NUL byte"),
    "cut.txt.gz": (gzip.compress(os.urandom(999))[:-20], "cut.txt.gz is damaged or cut short"),
    "missing.txt": (None, "missing.txt: no such file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_text_gets_one_message_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    content, message = BAD[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = os.listdir(tmp_path)
    done = fails(embed(tmp_path / "no encoder is needed to see this", tmp_path / name), 1)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert os.listdir(tmp_path) == before


def test_unknown_language_and_folder(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    fails(
        embed(tiny_encoder, "--lang", "frx_Latn", corpus), 1, "unknown language code 'frx_Latn'", "fra_Latn"
    )
    fails(embed(tiny_encoder, tmp_path), 1, "is a folder")


def test_a_text_in_another_script_than_the_languages(
    tiny_encoder: Path, corpus: Path, tmp_path: Path
) -> None:
    """Once, by the first part, and not where the language or the letters are right."""
    corpus.write_text("Она живёт в Москве.\n" * 20)
    wrong = f"warning: {corpus}: 100 % of the letters are not of the script of srp_Latn, which is stated\n"
    for number, times in ((1, 1), (2, 0)):
        part = ("--lang", "srp_Latn", "--shard", f"{number}/2")
        assert embed(tiny_encoder, corpus, *part).stderr.count(wrong) == times
    assert wrong in embed(tiny_encoder, corpus, "--lang", "srp_Latn").stderr
    for language in ("srp_Cyrl", "und"):
        done = embed(tiny_encoder, corpus, "--lang", language, "--overwrite")
        assert done.exit_code == 0 and "of the letters" not in done.stderr


def test_a_folder_without_a_name(tiny_encoder: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(corpus.parent)
    for part in ([], ["--shard", "1/2"]):
        refused = fails(embed(tiny_encoder, corpus, "-o", ".", *part), 1, "error: . is a folder")
        refused = run("embed", ".", *part)
        assert (refused.exit_code, refused.stderr.splitlines()[0]) == (
            1,
            "error: . is a folder, not a text file",
        )
    assert [path.name for path in corpus.parent.iterdir()] == [corpus.name]


def test_an_output_that_is_no_store_is_left_alone(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work.txt").write_text("work")
    fails(
        embed(tiny_encoder, corpus, "-o", tmp_path / "mine", "--overwrite"),
        1,
        "no embedding store: not overwritten",
    )
    assert (tmp_path / "mine" / "work.txt").read_text() == "work"


def test_an_encoder_that_is_none(corpus: Path, tmp_path: Path) -> None:
    fails(embed(tmp_path / "nothing", corpus), 1, "error: no encoder")


def test_quiet_is_silent(tiny_encoder: Path, corpus: Path) -> None:
    options = ["-q", "embed", "--model", str(tiny_encoder), "--device", "cpu", str(corpus)]
    done = run(*options)
    assert (done.exit_code, done.output) == (0, "")


def test_what_is_said_of_a_text_with_repeats(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    corpus.write_text("one\ntwo\n\none\n\n" + "mot " * 99 + "\n" + "mot " * 99 + "\n")
    done = embed(tiny_encoder, corpus, "--max-tokens", "20")
    assert "(2 truncated to 20 tokens, 2 empty lines kept as rows, 2 duplicates embedded once)" in done.stderr
    warning = "warning: 2 of 7 lines were too long and cut to 20 tokens: that is the limit of the encoder"
    assert warning in done.stderr and "one sentence a line?" not in done.stderr
    corpus.write_text("mot " * 999 + "\n")
    long = ok(run("embed", corpus, "--model", "mini", "-o", tmp_path / "long.emb"))
    assert "1 of 1 line were too long and cut to 200 tokens: is it one sentence a line?" in long.stderr
    corpus.write_text("one\ntwo\n" * 10 + "mot " * 99 + "\n")
    assert "warning" not in embed(tiny_encoder, corpus, "--max-tokens", "20", "--overwrite").stderr


def test_prefix_pooling_cleaning_and_precision_are_kept(tiny_encoder: Path, tmp_path: Path) -> None:
    corpus, plain = tmp_path / "corpus.txt", tmp_path / "plain.txt"
    corpus.write_text("“Oui”…\n")
    plain.write_text('query: "Oui"...\n')
    options = ("--pooling", "mean", "--dtype", "fp32", "--store-dtype", "float32", "--lang", "fr")
    ok(embed(tiny_encoder, corpus, "--prompt", "query: ", "--clean", *options))
    store = EmbeddingStore.open(corpus.with_suffix(".emb"))
    manifest = store.manifest
    said = (manifest.prefix, manifest.pooling, manifest.clean, manifest.precision)
    assert said == ("query: ", "mean", True, "float32")
    assert list(store.sentences()) == ["“Oui”…"]
    ok(embed(tiny_encoder, plain, *options))
    wanted = EmbeddingStore.open(plain.with_suffix(".emb")).vectors(0, 1)
    np.testing.assert_array_equal(store.vectors(0, 1), wanted)


def test_a_query_is_embedded_as_the_store_was(tiny_encoder: Path, corpus: Path) -> None:
    """Without --model a store's encoder, pooling and prefix are taken for what is compared with it."""
    ok(embed(tiny_encoder, corpus, "--prompt", "passage: ", "--pooling", "mean", "--dtype", "fp32"))
    sentence = corpus.read_text().splitlines()[2]
    options = ["search", "--query", sentence, "-n", "1", "--dtype", "fp32", str(corpus.with_suffix(".emb"))]
    done = ok(run(*options))
    score, _, found, *_ = done.stdout.rstrip("\n").split("\t")
    assert found == sentence
    assert float(score) == pytest.approx(1, abs=1e-3)
    done = run(*options, "--prompt", "query: ")
    assert float(done.stdout.split("\t")[0]) < 0.9999
    both = [str(corpus.with_suffix(".emb"))] * 2
    fails(run("mine", *both, "--prompt", "query: "), 2, "--prompt is for texts")


def test_a_query_with_another_limit_is_told_which_options_count(tiny_encoder: Path, corpus: Path) -> None:
    ok(embed(tiny_encoder, corpus, "--max-tokens", "9"))
    options = ["search", "--query", "Oui", str(corpus.with_suffix(".emb"))]
    fails(run(*options), 1, "different encoders", "same --model, --pooling, --max-tokens and --dim")
    ok(run(*options, "--max-tokens", "9"))


def test_parts_and_append(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    for part in ("1/2", "2/2"):
        ok(embed(tiny_encoder, corpus, "--shard", part))
    parts = sorted(tmp_path.glob("corpus.*.emb"))
    assert [path.name for path in parts] == ["corpus.00001-of-00002.emb", "corpus.00002-of-00002.emb"]
    assert [EmbeddingStore.open(path).rows for path in parts] == [4, 5]
    ok(embed(tiny_encoder, corpus))
    ok(embed(tiny_encoder, corpus, "--append"))
    assert (
        list(EmbeddingStore.open(tmp_path / "corpus.emb").sentences()) == corpus.read_text().splitlines() * 2
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--append", "--overwrite"], "contradict each other"),
        (["--append", "--shard", "1/2"], "--shard makes a store of its own"),
        (["--shard", "1/2", "--gpus", "2"], "--shard and --gpus both divide the text"),
        (["--shard", "0/2"], "'0/2' is no part"),
        (["--shard", "3/2"], "'3/2' is no part"),
        (["--gpus", "some"], "'some' is no number of GPUs"),
        (["--gpus", "2"], "leave out --device"),
        (["--require-gpu"], "--require-gpu and --device cpu contradict"),
        (["--max-tokens", "2"], "--max-tokens"),
    ],
)
def test_wrong_usage(options: list[str], message: str, corpus: Path) -> None:
    done = fails(embed(corpus, *options, corpus), 2)
    assert message in " ".join(done.stderr.split())


def test_several_processes_cannot_share_stdin() -> None:
    fails(
        run("embed", "-", "-o", "a.emb", "--gpus", "all", stdin="a\n"),
        2,
        "it must be a file",
    )


@pytest.mark.parametrize("option", [["--require-gpu"], ["--gpus", "all"]])
def test_a_gpu_that_is_not_there(option: list[str], corpus: Path, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    fails(run("embed", str(corpus), *option), 1, "error: there is no GPU")
    assert os.listdir(tmp_path) == ["corpus.txt"]


def words(encoder: Path, corpus: Path, output: Path) -> list[str]:
    paths = [str(path) for path in (corpus, "-o", output, "--model", encoder)]
    return ["embed", *paths, "--device", "cpu", "--store-dtype", "float32"]


def test_two_processes_on_one_output(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    """The second is refused while the first goes on, and the first is not disturbed."""
    corpus.write_text("".join(f"line number {number}\n" for number in range(5000)))
    first = Program(MEXMA, *words(tiny_encoder, corpus, tmp_path / "a.emb"))
    first.until((tmp_path / "a.emb.partial" / "progress.json").exists)
    first.send_signal(signal.SIGSTOP)
    done = embed(tiny_encoder, corpus, "-o", tmp_path / "a.emb", "--store-dtype", "float32")
    first.send_signal(signal.SIGCONT)
    assert first.wait() == 0
    assert done.exit_code == 1
    assert "a.emb.partial: another process is writing there" in done.stderr
    assert EmbeddingStore.open(tmp_path / "a.emb", verify=True).rows == 5000


FULL = """
import ctypes, os, shutil, subprocess, sys
from mexma_cli.main import cli
user, group = os.getuid(), os.getgid()
if ctypes.CDLL(None).unshare(0x10020000):  # CLONE_NEWUSER, CLONE_NEWNS
    sys.exit(77)
for name, content in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(content)
folder, *words = sys.argv[1:]
def embed():
    try:
        cli(words)
    except SystemExit as done:
        return done.code
def small(options):
    if subprocess.run(["mount", "-o", options, "-t", "tmpfs", "tmpfs", folder]).returncode:
        sys.exit(77)
small("size=1100k")
assert embed() == 1 and os.listdir(folder) == ["a.emb.partial"]
small("remount,size=8m")
assert embed() == 0
shutil.copy(folder + "/a.emb/manifest.json", folder + ".json")
"""


def test_a_disk_that_fills_up(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    """One message, whole shards kept, and the same command goes on when there is room."""
    small = tmp_path / "small"
    small.mkdir()
    corpus.write_text("".join(f"line number {number}\n" for number in range(9000)))
    process = Program(FULL, small, *words(tiny_encoder, corpus, small / "a.emb"))
    _, stderr = process.communicate()
    if process.returncode == 77:
        pytest.skip("needs a system that lets users mount a small disk of their own")
    assert process.returncode == 0, stderr
    errors = [line for line in stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "a.emb.partial: no space left on the disk" in errors[0]
    assert "going on after line 8,192 of 9,000" in stderr
    assert json.loads(Path(f"{small}.json").read_text())["rows"] == 9000


@pytest.fixture
def unit_encoder(tiny_encoder: Path, tmp_path: Path) -> Path:
    encoder = SentenceEncoder.load(tiny_encoder, "cpu")
    encoder.modules.append(Normalize())
    encoder.save(tmp_path / "unit")
    return tmp_path / "unit"


def test_vectors_keep_their_lengths_where_they_are_to(
    tiny_encoder: Path, unit_encoder: Path, corpus: Path, tmp_path: Path
) -> None:
    ok(embed(tiny_encoder, corpus, "--store-dtype", "float32", "-o", tmp_path / "bare.emb"))
    for name, flags in {"unit": [], "long": ["--no-normalise"]}.items():
        ok(embed(unit_encoder, corpus, "--store-dtype", "float32", *flags, "-o", tmp_path / f"{name}.emb"))
    stores = {name: EmbeddingStore.open(tmp_path / f"{name}.emb") for name in ("bare", "unit", "long")}
    vectors = {name: store.vectors(0, store.rows) for name, store in stores.items()}
    np.testing.assert_array_equal(vectors["long"], vectors["bare"])
    lengths = np.linalg.norm(vectors["long"], axis=1, keepdims=True)
    assert abs(lengths - 1).min() > 0.5
    np.testing.assert_allclose(vectors["unit"], vectors["long"] / lengths, atol=1e-6)
    assert [stores[name].manifest.normalised for name in ("unit", "long")] == [True, False]
    fails(run("mine", tmp_path / "unit.emb", tmp_path / "long.emb"), 1, "different encoders")
    # A text beside the store is embedded as the store was.
    ok(run("mine", tmp_path / "long.emb", corpus, "-o", tmp_path / "pairs.tsv", "--device", "cpu"))
    assert len((tmp_path / "pairs.tsv").read_text().splitlines()) == 8


def test_a_decomposer_of_vectors_with_their_lengths(unit_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    """What it exports embeds without the Normalize, and texts are embedded so for `eval leakage`."""
    pairs = {"fra": corpus, "eng": tmp_path / "english.txt"}
    pairs["eng"].write_text("".join(f"Line {n} of the text.\n" for n in range(9)))
    for code, text in pairs.items():
        ok(embed(unit_encoder, "--lang", code, "--no-normalise", text, "-o", tmp_path / f"{code}.emb"))
    raw = {
        "kind": "decompose", "name": "own", "run": str(tmp_path / "run"), "encoder": str(unit_encoder),
        "data": {
            "root": str(tmp_path), "pairs": [{"source": "eng.emb", "target": "fra.emb"}], "validation": 0.25
        },
        "objective": {"name": "dream"}, "trainer": {"batch": 4, "epochs": 1, "device": "cpu"},
    }  # fmt: skip
    (tmp_path / "recipe.yaml").write_text(json.dumps(raw))
    ok(run("train", tmp_path / "recipe.yaml"))
    ok(run("project", tmp_path / "eng.emb", "--with", tmp_path / "run"))
    ok(embed(tmp_path / "run", "--lang", "eng", pairs["eng"], "-o", tmp_path / "direct.emb"))
    stores = [EmbeddingStore.open(tmp_path / name) for name in ("eng.meaning.emb", "direct.emb")]
    np.testing.assert_allclose(*(store.vectors(0, 9) for store in stores), atol=2e-2)
    assert stores[0].manifest.fingerprint == stores[1].manifest.fingerprint
    for code, text in pairs.items():
        (tmp_path / f"tatoeba.fra-eng.{code}").write_text(text.read_text().replace("\n\n", "\n-\n"))
    ok(run("eval", "leakage", tmp_path, "--with", tmp_path / "run", "--device", "cpu"))
