"""What losses are made of, in plain NumPy."""

from __future__ import annotations

import numpy as np


def unit(x: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def log_softmax(x: np.ndarray) -> np.ndarray:
    """Of each row."""
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def hard_negatives(x: np.ndarray, y: np.ndarray, negatives: list[np.ndarray], temperature: float) -> float:
    """Each source's translation among its own hard negatives, `negatives[i]` [n, dim]."""
    found = []
    for source, target, own in zip(unit(x), unit(y), negatives, strict=True):
        found.append(-log_softmax(np.stack([target, *map(unit, own)])[None] @ source / temperature)[0, 0])
    return float(np.mean(found))


def info_nce(
    x: np.ndarray, y: np.ndarray, temperature: float, margin: float = 0.0, repeated: np.ndarray | None = None
) -> tuple[float, float]:
    """Source to target, target to source; pairs that are `repeated` are no negatives."""
    logits = (unit(x) @ unit(y).T - margin * np.eye(len(x))) / temperature
    if repeated is not None:
        logits[repeated] = -np.inf
    return -np.diag(log_softmax(logits)).mean(), -np.diag(log_softmax(logits.T)).mean()
