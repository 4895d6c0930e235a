"""`mexma tune --plant`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.command import fails, ok, run, write

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """spa.txt and eng.txt: 450 lines each, 150 of them translations of one another; dev.spa and dev.eng.gz:
    150 known translations."""
    folder, examples = tmp_path_factory.mktemp("plant"), ROOT / "examples/spa-eng"
    pairs = [line.split("\t") for line in (examples / "gold.tsv").read_text("utf-8").splitlines()]
    known, own = pairs[:900:6], pairs[1:450:3]
    for side, name in enumerate(("spa", "eng")):
        taken = {pair[side] for pair in pairs}
        lines = (examples / f"{name}.txt").read_text("utf-8").splitlines()
        others = [line for line in lines if line not in taken][:300]
        write(folder / f"{name}.txt", *(pair[side] for pair in own), *others)
    write(folder / "dev.spa", *(pair[0] for pair in known))
    (folder / "dev.eng.gz").write_bytes(gzip.compress("".join(p[1] + "\n" for p in known).encode()))
    write(folder / "gold.tsv", *("\t".join(pair) for pair in own))
    for name in ("spa", "eng"):
        ok(run("embed", folder / f"{name}.txt"))
    return folder


class TestPlant:
    """On real text: the examples' Spanish and English, with the bundled encoder."""

    def test_finds_a_threshold_that_is_good_for_the_text(self, text: Path) -> None:
        stores = text / "spa.emb", text / "eng.emb"
        planted = ok(run("tune", *stores, "--plant", text / "dev.spa", text / "dev.eng.gz", "--json"))
        found = json.loads(planted.stdout)
        assert found["planted"] == 150 and found["copies"] == {"source": 0, "target": 0}
        assert found["found"] >= 75 and 110 <= found["translations"] <= 190
        ok(run("mine", *stores, "-o", text / "mined.tsv"))
        tuned = json.loads(run("tune", text / "mined.tsv", "--gold", text / "gold.tsv", "--json").stdout)
        kept = run("mine", *stores, "--threshold", str(found["threshold"])).stdout.splitlines()
        gold = set((text / "gold.tsv").read_text("utf-8").splitlines())
        correct = sum(line.partition("\t")[2] in gold for line in kept)
        f1 = 2 * correct / (len(kept) + len(gold))
        assert f1 > tuned["f1"] - 0.08  # the best there is with a gold list
        assert found["f1"] == pytest.approx(f1, abs=0.15)

    def test_what_is_printed(self, text: Path) -> None:
        pytest.importorskip("matplotlib")
        sides = text / "spa.txt", text / "eng.emb"  # a text is embedded on the way
        known = "--plant", text / "dev.spa", text / "dev.eng.gz"
        options = ("-k", "3", "--margin", "distance", "--precision", "0.7", "--plot", text / "scores.png")
        result = ok(run("tune", *sides, *known, *options))
        stores = text / "spa.emb", text / "eng.emb"
        found = json.loads(run("tune", *stores, *known, *options, "--json").stdout)
        lines = result.stdout.splitlines()
        assert lines[0].startswith(f"threshold  {found['threshold']:.6f}  (") and found["precision"] >= 0.7
        assert lines[1].startswith(f"precision  {100 * found['precision']:.2f}  (")
        pairs = f"pairs      {found['found']} of 150 planted pairs; {found['others']} others, about "
        assert lines[4].startswith(pairs)
        header = ["threshold", "precision", "recall", "F1", "planted", "wrong", "others", "right"]
        table = lines[lines.index("") + 1 :]
        assert table[0].split() == header
        assert len(table) == 1 + len(found["table"]) and 4 <= len(found["table"]) <= 6
        assert (text / "scores.png").stat().st_size > 5000

    def test_few_planted_pairs(self, text: Path, tmp_path: Path) -> None:
        known = write(tmp_path / "s", *(text / "dev.spa").read_text("utf-8").splitlines()[:40])
        english = gzip.decompress((text / "dev.eng.gz").read_bytes()).decode().splitlines()
        arguments = text / "spa.emb", text / "eng.emb", "--plant", known, write(tmp_path / "t", *english[:40])
        result = run("tune", *arguments)
        assert result.exit_code == 0 and "held out" not in result.stdout
        assert "warning: fewer than 100 planted pairs give a poor estimate" in result.stderr
        assert "no held-out figures" in result.stderr
        assert json.loads(run("tune", *arguments, "--json").stdout)["held_out"] is None
        whole = run("tune", *arguments[:2], "--plant", text / "dev.spa", text / "dev.eng.gz")
        assert "held out" in whole.stdout and "warning" not in whole.stderr

    def test_bad_input(self, text: Path) -> None:
        gold = text / "gold.tsv"
        stores, known = (text / "spa.emb", text / "eng.emb"), (text / "dev.spa", text / "dev.eng.gz")
        for code, message, *arguments in (
            (1, "spa.txt has 450", *stores, "--plant", known[0], text / "spa.txt"),
            (1, "none.txt: no such file", *stores, "--plant", known[0], text / "none.txt"),
            (2, "SOURCE and TARGET", stores[0], "--plant", *known),
            (2, "two ways", *stores, "--plant", *known, "--gold", gold),
            (2, "--output does not go with --plant", *stores, "--plant", *known, "-o", text / "kept.tsv"),
            (2, "--margin does not go with --gold", gold, "--gold", gold, "--margin", "ratio"),
            (2, "one file, the CANDIDATES", *stores, "--gold", gold),
            (2, "Give --gold, the true pairs, or --plant", gold),
        ):
            fails(run("tune", *arguments), code, message)
        empty = write(text / "empty.txt")
        fails(run("tune", *stores, "--plant", empty, empty), 1, "has no lines")
