"""Encoders that are published as one checkpoint in a layout of their own: LASER2, LASER3 and SONAR."""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path

import torch

from mexma_cli.encoder.loading import laser, sonar
from mexma_cli.encoder.loading.tokenizer import LazyTokenizer
from mexma_cli.encoder.loading.weights import damaged
from mexma_cli.encoder.model.families import Pooling
from mexma_cli.encoder.model.transformer import LazyTransformer
from mexma_cli.errors import MexmaError


def read(path: Path) -> tuple[LazyTransformer, LazyTokenizer, Pooling]:
    """The model, in evaluation mode, the tokeniser and the pooling; code in the file is never run.

    Raises:
        MexmaError: The file is damaged or of another layout, or files of the tokeniser are not beside it.
    """
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):  # LASER3's settings
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, OSError, EOFError) as error:
        raise damaged(path, error) from None
    known = set(content) if isinstance(content, dict) else set()
    if known >= {"params", "model", "dictionary"}:
        return laser.read_laser2(path, content)
    if known >= {"cfg", "model"}:
        return laser.read_laser3(path, content)
    if "model" in known and sonar.EMBEDDINGS in content["model"]:
        return sonar.read_sonar(path, content)
    raise MexmaError(
        f"{path} is no checkpoint of LASER2, LASER3 or SONAR",
        "an encoder is a folder with config.json, or one of their files: docs/embedding.md",
    )
