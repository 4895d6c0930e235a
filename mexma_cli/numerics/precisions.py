"""Precisions by the short names that recipes and commands have; without torch, so that help is quick."""

from __future__ import annotations

SHORT_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
