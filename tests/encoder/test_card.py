"""What a model card says of languages, and cards that say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mexma_cli.encoder import card
from mexma_cli.encoder.encoder import SentenceEncoder


def test_languages_stay_with_the_folder(tiny_encoder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    assert encoder.languages == ()
    encoder.save(tmp_path / "silent")
    assert not (tmp_path / "silent" / card.FILE).exists()
    encoder.languages = ("srp_Cyrl", "eng_Latn", "srp_Latn")
    encoder.save(tmp_path / "known")
    known = SentenceEncoder.load(str(tmp_path / "known"), "cpu")
    assert known.languages == ("eng_Latn", "srp_Cyrl", "srp_Latn")
    assert known.fingerprint == encoder.fingerprint


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
    ],
)
def test_a_card_that_does_not_say(content: bytes, tmp_path: Path) -> None:
    (tmp_path / card.FILE).write_bytes(content)
    assert card.languages(tmp_path) == ()
