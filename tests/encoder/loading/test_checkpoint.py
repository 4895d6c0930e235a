"""Checkpoints in other layouts than those that are read."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"cfg": {"model": {"prepend_bos": False}}, "model": {}}, "no settings of LASER3"),
        (
            {"cfg": {"model": argparse.Namespace()}, "model": {}},
            "sentemb_criterion None, which is not supported",
        ),
        ({"params": {"num_embeddings": 9}, "model": {}, "dictionary": {}}, "do not belong together"),
        (
            {"model": {"decoder_frontend.embed.weight": torch.zeros(1)}},
            "no checkpoint of LASER2, LASER3 or SONAR",
        ),
        ([], "no checkpoint of LASER2, LASER3 or SONAR"),
    ],
)
def test_other_checkpoints_are_refused(content: Any, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "encoder.pt")
    with pytest.raises(MexmaError, match=message):
        SentenceEncoder.load(str(tmp_path / "encoder.pt"), "cpu")


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x80\x02}q", b"PK\x03\x04 cut off", b"garbage" * 99])
def test_a_damaged_file_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "encoder.pt").write_bytes(content)
    with pytest.raises(MexmaError, match=r"encoder\.pt(:| cannot be read:) "):
        SentenceEncoder.load(str(tmp_path / "encoder.pt"), "cpu")
