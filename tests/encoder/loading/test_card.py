"""What a model card says of languages, and cards that say nothing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading import card
from mexma_cli.encoder.loading.card import Trained
from mexma_cli.encoder.loading.folder import CHECKSUMS
from mexma_cli.errors import MexmaError
from mexma_cli.main import cli


def test_languages_stay_with_the_folder(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    assert encoder.languages == ()
    encoder.save(tmp_path / "silent")
    assert not (tmp_path / "silent" / card.FILE).exists()
    encoder.languages = ("srp_Cyrl", "eng_Latn", "srp_Latn")
    encoder.trained = {"srp_Cyrl": Trained(pairs=1200, dev_error=3.456), "eng_Latn": Trained(pairs=1300)}
    encoder.save(tmp_path / "known")
    known = SentenceEncoder.load(str(tmp_path / "known"), "cpu")
    assert known.languages == ("eng_Latn", "srp_Cyrl", "srp_Latn")
    assert known.trained == encoder.trained
    assert known.fingerprint == encoder.fingerprint
    text = (tmp_path / "known" / card.FILE).read_text(encoding="utf-8")
    assert "| `eng_Latn` | 1,300 |  |\n| `srp_Cyrl` | 1,200 | 3.46% |\n\n" in text
    (tmp_path / "known" / CHECKSUMS).unlink()
    (tmp_path / "known" / card.TRAINED).write_text('{"languages": {"fra_Latn": {"pairs": -1}}}')
    with pytest.raises(MexmaError, match=r"languages\.json is damaged: `languages\.fra_Latn\.pairs`"):
        SentenceEncoder.load(str(tmp_path / "known"), "cpu")


def test_the_head_is_what_the_hub_reads() -> None:
    facts = yaml.safe_load(
        card.head(["swh_Latn", "nob_Latn", "srp_Latn", "srp_Cyrl"], "cc0-1.0").strip("-\n")
    )
    assert facts == {
        "license": "cc0-1.0",
        "library_name": "mexma",
        "pipeline_tag": "sentence-similarity",
        "language": ["nob", "srp", "swh"],
        "language_details": "nob_Latn, srp_Cyrl, srp_Latn, swh_Latn",
    }


def saved(start: str | Path, folder: Path) -> SentenceEncoder:
    """An encoder that knows its languages, saved."""
    encoder = SentenceEncoder.load(str(start), "cpu")
    encoder.languages = ("eng_Latn", "fra_Latn", "srp_Cyrl")
    encoder.save(folder)
    return encoder


def test_the_cards_commands_work(tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "it"
    saved(tiny_encoder, folder)
    text = (folder / card.FILE).read_text(encoding="utf-8")
    facts = yaml.safe_load(text.split("---\n")[1])
    assert facts["tags"] == ["sentence-similarity", "feature-extraction", "mexma"]
    assert (facts["pipeline_tag"], facts["language"]) == ("sentence-similarity", ["eng", "fra", "srp"])
    monkeypatch.chdir(tmp_path)
    for name in ("text", "source", "target"):
        (tmp_path / f"{name}.txt").write_text("one\ntwo\nthree\n")
    commands = re.findall(r"^\$ mexma (.*)$", text.replace("FOLDER", str(folder)), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["info", "embed", "mine"]
    assert "--lang fra_Latn " in commands[1]
    for command in commands:
        done = CliRunner().invoke(cli, command.split())
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize("start", ["tiny", "mini"])
def test_the_cards_lines_for_sentence_transformers_work(
    start: str, tiny_encoder: Path, tmp_path: Path
) -> None:
    """`mini` has n-gram embeddings, which sentence-transformers alone does not know."""
    pytest.importorskip("sentence_transformers")
    encoder = saved(tiny_encoder if start == "tiny" else start, tmp_path / "it")
    text = (tmp_path / "it" / card.FILE).read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text.replace("FOLDER", str(tmp_path / "it")), re.DOTALL)
    assert ("import SentenceTransformer\n" in code) == (start == "tiny")
    done: dict[str, np.ndarray] = {}
    exec(code, done)
    ours = encoder.embed(["One sentence.", "Another one."])
    np.testing.assert_allclose(done["vectors"], ours, atol=1e-4)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"# A card\n\n---\nlanguage_details: fra_Latn\n---\n",  # not its head
        b"---\nlanguage: [fr]\n---\n",
        b"---\nlanguage_details: [fra_Latn]\n---\n",
        b"---\n- fra_Latn\n---\n",
        b"---\nlanguage_details: 'fra\n---\n",
        b"---\nlanguage_details: \xff\n---\n",
        b"---\nlanguage_details: French (fra), English\n---\n",
        b"---\nlanguage_details: fra_Latn\nsize: !!int many\n---\n",
    ],
)
def test_a_card_that_does_not_say(content: bytes, tmp_path: Path) -> None:
    (tmp_path / card.FILE).write_bytes(content)
    assert card.languages(tmp_path) == ()
