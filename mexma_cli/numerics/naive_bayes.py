"""Naive Bayes over byte n-grams that an automaton finds, as langid.py does it (Lui and Baldwin, 2012)."""

from __future__ import annotations

import numpy as np
from numba import float32

from mexma_cli.numerics.compiling import as_bits, compiled, inlined


def naive_bayes_scores(
    text: np.ndarray,
    lengths: np.ndarray,
    automaton: tuple[np.ndarray, np.ndarray, np.ndarray],
    weights: np.ndarray,
    prior: np.ndarray,
) -> np.ndarray:
    """Score every class for every line: the prior, and log(1 + count) times the weights of each n-gram.

    Args:
        text: uint8, the lines one after the other.
        lengths: int64 [N], bytes of each line.
        automaton: Next states uint32 [rows * 256], the row of each state int32 [states], and the n-gram that
            a state has found int32 [states], -1 for none.
        weights: The bits of float16 [n-grams, classes], uint16: scoring waits for memory. All are negative.
        prior: float32 [classes].

    Returns:
        float32 [N, classes]; a line without n-grams has the prior.
    """
    ends = np.cumsum(lengths)
    order = np.argsort(lengths)  # lines of about one length are walked side by side
    factors_of = np.log1p(np.arange(lengths.max(initial=0) + 1, dtype=np.float32))
    scores = np.tile(prior, (len(lengths), 1))
    _add_scores(text, (ends - lengths, ends, order), automaton, weights, factors_of, scores)
    return scores


@compiled(fastmath={"contract"})
def _add_scores(
    text: np.ndarray,
    places: tuple[np.ndarray, np.ndarray, np.ndarray],
    automaton: tuple[np.ndarray, np.ndarray, np.ndarray],
    weights: np.ndarray,
    factors_of: np.ndarray,
    scores: np.ndarray,
) -> None:
    starts, ends, order = places
    longest = len(factors_of) - 1
    found = np.empty((4, longest), dtype=np.int32)
    counts = np.zeros(len(weights), dtype=np.int32)
    features = np.empty(longest, dtype=np.int32)
    factors = np.empty(longest, dtype=np.float32)
    for group in range(0, len(order), 4):
        lines = order[group : group + 4]
        sizes = _walk(text, starts, ends, lines, automaton, found)
        for lane in range(len(lines)):
            row = scores[lines[lane]]
            seen = found[lane, : sizes[lane]]
            for feature in seen:
                counts[feature] += 1
            size = 0
            for feature in seen:
                if counts[feature] > 0:
                    features[size] = feature
                    factors[size] = factors_of[counts[feature]]
                    counts[feature] = 0
                    size += 1
            whole = size - size % 4
            for place in range(0, whole, 4):
                w0, w1 = weights[features[place]], weights[features[place + 1]]
                w2, w3 = weights[features[place + 2]], weights[features[place + 3]]
                f0, f1, f2, f3 = factors[place], factors[place + 1], factors[place + 2], factors[place + 3]
                for label in range(len(row)):
                    score = row[label] + f0 * _weight(w0[label])
                    score += f1 * _weight(w1[label])
                    score += f2 * _weight(w2[label])
                    score += f3 * _weight(w3[label])
                    row[label] = score
            for place in range(whole, size):
                weighted, factor = weights[features[place]], factors[place]
                for label in range(len(row)):
                    row[label] += factor * _weight(weighted[label])


@inlined
def _weight(half: int) -> float:
    """A negative normal float16, given as its bits, as a float32."""
    bits = np.uint32(half & np.uint16(0x7FFF)) << np.uint32(13)
    return as_bits(np.uint32(bits + np.uint32(0xB8000000)), float32)


@compiled
def _walk(
    text: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    lines: np.ndarray,
    automaton: tuple[np.ndarray, np.ndarray, np.ndarray],
    found: np.ndarray,
) -> np.ndarray:
    """The n-grams in up to four lines, one after the other in rows of `found`, and how many there are.

    Each step waits for memory, and four lines wait for it together.
    """
    following, rows, outputs = automaton
    sizes = np.zeros(4, dtype=np.int64)
    bases = np.empty(4, dtype=np.int64)
    for lane in range(4):
        bases[lane] = np.int64(rows[0]) << 8
    together = np.int64(0)
    if len(lines) == 4:
        together = ends[lines[0]] - starts[lines[0]]  # lines are sorted by length
        b0, b1, b2, b3 = bases[0], bases[1], bases[2], bases[3]
        p0, p1, p2, p3 = starts[lines[0]], starts[lines[1]], starts[lines[2]], starts[lines[3]]
        n0, n1, n2, n3 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for place in range(together):
            s0 = following[b0 + text[p0 + place]]
            s1 = following[b1 + text[p1 + place]]
            s2 = following[b2 + text[p2 + place]]
            s3 = following[b3 + text[p3 + place]]
            b0 = np.int64(rows[s0]) << 8
            b1 = np.int64(rows[s1]) << 8
            b2 = np.int64(rows[s2]) << 8
            b3 = np.int64(rows[s3]) << 8
            f0, f1, f2, f3 = outputs[s0], outputs[s1], outputs[s2], outputs[s3]
            found[0, n0] = f0
            found[1, n1] = f1
            found[2, n2] = f2
            found[3, n3] = f3
            n0 += f0 >= 0
            n1 += f1 >= 0
            n2 += f2 >= 0
            n3 += f3 >= 0
        bases[0], bases[1], bases[2], bases[3] = b0, b1, b2, b3
        sizes[0], sizes[1], sizes[2], sizes[3] = n0, n1, n2, n3
    for lane in range(len(lines)):
        base, size = bases[lane], sizes[lane]
        for place in range(starts[lines[lane]] + together, ends[lines[lane]]):
            state = following[base + text[place]]
            base = np.int64(rows[state]) << 8
            if outputs[state] >= 0:
                found[lane, size] = outputs[state]
                size += 1
        sizes[lane] = size
    return sizes
