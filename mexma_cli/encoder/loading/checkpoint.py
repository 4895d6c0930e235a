"""Encoders that are published as one checkpoint in a layout of their own: LASER2, LASER3 and SONAR."""

from __future__ import annotations

import argparse
from pathlib import Path

from mexma_cli.encoder.loading import laser, sonar
from mexma_cli.encoder.loading.tokenizer import LazyTokenizer
from mexma_cli.encoder.loading.weights import read_pickled
from mexma_cli.encoder.model.families import Pooling
from mexma_cli.encoder.model.transformer import LazyTransformer
from mexma_cli.errors import MexmaError


def read(path: Path) -> tuple[LazyTransformer, LazyTokenizer, Pooling]:
    """The model, in evaluation mode, the tokeniser and the pooling; code in the file is never run.

    Raises:
        MexmaError: The file is damaged or of another layout, or files of the tokeniser are not beside it.
    """
    content = read_pickled(path, argparse.Namespace)  # LASER3's settings
    known = set(content) if isinstance(content, dict) and isinstance(content.get("model"), dict) else set()
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
