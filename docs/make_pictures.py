"""Draw the pictures of docs/concepts from the demo's two texts, with the encoder `mini`.

    python docs/make_pictures.py

Each is an SVG that reads in grey and on light and dark screens: what matters differs in lightness and shape.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mexma_cli import SentenceEncoder, knn

ROOT = Path(__file__).resolve().parent.parent
WRONG = "Yanni necesita abrir la puerta."
"""A sentence without a translation, whose nearest has a high cosine."""
STYLE = """
.paper { fill: #ffffff } .full { fill: #20525c } .half { fill: #8fb3bb } .none { fill: none }
.none, .edge { stroke: #55606b; stroke-width: 1.2 } .edge { fill: none }
.mark { fill: none; stroke-width: 2.6 } .mark, .strong { stroke: #b4520b }
.strong { stroke-width: 2; stroke-dasharray: 5 4 }
text { font: 13px system-ui, sans-serif; fill: #222 } .small { font-size: 12px } .light { fill: #5b6570 }
.bold { font-weight: 600 } .right { text-anchor: end } .middle { text-anchor: middle }
@media (prefers-color-scheme: dark) {
  .paper { fill: #1e2129 } .full { fill: #8fd0de } .half { fill: #3f6570 } .mark, .strong { stroke: #f0a35e }
  .none, .edge { stroke: #98a2ad } text { fill: #e4e6ea } .light { fill: #a9b1ba }
}"""


class Picture:
    def __init__(self, name: str, width: int, height: int, title: str) -> None:
        self.path, self.size = ROOT / "docs/concepts" / f"{name}.svg", (width, height)
        self.parts = [f"<title>{title}</title>", f"<style>{STYLE}</style>"]
        self.box(0, 0, width, height, "paper")

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.parts.append(f'<rect {place} class="{kind}"/>')

    def line(self, x: float, y: float, to_x: float, to_y: float, kind: str = "edge") -> None:
        self.parts.append(f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" class="{kind}"/>')

    def dot(self, x: float, y: float, radius: float, kind: str) -> None:
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{kind}"/>')

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{words}</text>')

    def save(self) -> None:
        width, height = self.size
        size = f'viewBox="0 0 {width} {height}" width="{1.2 * width:.0f}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        self.path.write_text("\n".join([head, *self.parts, "</svg>\n"]), encoding="utf-8")


def lines(name: str) -> list[str]:
    return (ROOT / "examples/spa-eng" / name).read_text(encoding="utf-8").splitlines()


def short(sentence: str, most: int = 44) -> str:
    return sentence if len(sentence) <= most else sentence[: most - 1].rsplit(" ", 1)[0] + " …"


def margin(source: list[str], target: list[str], vectors: list[np.ndarray]) -> None:
    """A right and a wrong pair of like cosine, with the neighbours of their source sentences."""
    found = knn(*vectors, k=4)
    gold = set(lines("gold.tsv"))
    scores, ids = found.forward_scores, found.forward_ids
    ratio = 2 * scores[:, 0] / (scores.mean(1) + found.backward_scores[ids[:, 0]].mean(1))
    right = np.array([f"{s}\t{target[i]}" in gold for s, i in zip(source, ids[:, 0], strict=True)])
    wrong_row = source.index(WRONG)
    gap = np.where(right & (ratio > 1.4), np.abs(scores[:, 0] - scores[wrong_row, 0]), np.inf)
    picture = Picture("margin", 480, 318, "Two pairs of the same cosine and different margins")
    rows = ((int(gap.argmin()), "a translation"), (wrong_row, "no translation"))
    for place, (row, what) in enumerate(rows):
        top = 20 + 152 * place
        picture.text(16, top + 8, f"“{short(source[row], 60)}”", "bold")
        for rank in range(4):
            y = top + 22 + 24 * rank
            picture.box(16, y, 170 * scores[row, rank], 17, "full" if rank == 0 else "half")
            picture.text(170 * scores[row, rank] + 22, y + 13, f"{scores[row, rank]:.2f}", "small")
            picture.text(200, y + 13, short(target[ids[row, rank]], 44), "small light")
        side = f"nearest {scores[row, 0]:.2f}; ratio margin {ratio[row]:.2f}: {what}"
        picture.text(16, top + 134, side, "small")
    picture.save()


def neighbourhoods(source: list[str], target: list[str], vectors: list[np.ndarray]) -> None:
    """The cosines of eight lines with eight lines, the two nearest of every row and every column."""
    pairs = [line.split("\t") for line in lines("gold.tsv")]
    chosen = [pair for pair in pairs if max(map(len, pair)) < 30][:8]
    left, right = (
        np.stack([vectors[side][text.index(pair[side])] for pair in chosen])
        for side, text in enumerate((source, target))
    )
    cosines = left @ right[::-1].T
    picture = Picture("neighbourhoods", 480, 384, "The nearest of every row and column from one matrix")
    side, x0, y0 = 29, 186, 96
    for row in range(8):
        picture.text(x0 - 10, y0 + side * row + 19, short(chosen[row][0], 28), "small right")
        label = short(chosen[7 - row][1], 20)
        x = x0 + side * row + 14
        picture.parts.append(
            f'<text class="small" transform="translate({x} {y0 - 8}) rotate(-42)">{label}</text>'
        )
        for column in range(8):
            x, y = x0 + side * column, y0 + side * row
            shade = max(0.0, float(cosines[row, column]))
            picture.parts.append(
                f'<rect x="{x}" y="{y}" width="{side}" height="{side}" class="full" '
                f'fill-opacity="{shade:.2f}"/>'
            )
            picture.box(x, y, side, side, "edge")
    for row in range(8):
        for column in np.argsort(-cosines[row])[:2]:
            picture.dot(x0 + side * column + side / 2, y0 + side * row + side / 2, 11, "mark")
        for line in np.argsort(-cosines[:, row])[:2]:
            picture.box(x0 + side * row + 4, y0 + side * line + 4, side - 8, side - 8, "mark")
    picture.dot(198, 360, 11, "mark")
    picture.text(216, 364, "near in its row", "small")
    picture.box(319, 349, 22, 22, "mark")
    picture.text(350, 364, "near in its column", "small")
    picture.save()


def packing(encoder: SentenceEncoder, target: list[str]) -> None:
    """The tokens of six sentences, padded and packed."""
    counts = [len(encoder.tokenize([line])[0]) for line in target[:400]]
    chosen = [counts.index(wanted) for wanted in sorted(set(counts))[1:18:3]][::-1]
    lengths = [counts[row] for row in (chosen[2], chosen[0], chosen[4], chosen[1], chosen[5], chosen[3])]
    most, total, unit = max(lengths), sum(lengths), 8.0
    picture = Picture("packing", 480, 300, "The same sentences padded to one length, and packed")
    padded = most * len(lengths)
    picture.text(16, 24, f"Padded: {len(lengths)} x {most} = {padded} places for {total} tokens", "bold")
    for row, length in enumerate(lengths):
        picture.box(16, 36 + 22 * row, unit * most, 18, "none")
        picture.box(16, 36 + 22 * row, unit * length, 18, "full")
    picture.text(16, 206, f"Packed: {total} places, in one row", "bold")
    unit, start = 446 / total, 0
    ends = [0]
    for number, length in enumerate(lengths):
        picture.box(16 + unit * start, 218, unit * length - 1.5, 22, "full" if number % 2 == 0 else "half")
        start += length
        ends.append(start)
    for end in ends:
        picture.line(16 + unit * end, 240, 16 + unit * end, 248)
        picture.text(16 + unit * end, 262, str(end), "small middle")
    picture.text(
        16, 286, "cu_seqlens: where each sentence begins and ends; attention stays inside", "small light"
    )
    picture.save()


def exactness(vectors: list[np.ndarray]) -> None:
    """One row's best estimates with their largest errors: those that may be among the four nearest."""
    left, right = vectors[0][0], vectors[1]
    steps = 300
    rough, roughs = np.round(left * steps) / steps, np.round(right * steps) / steps
    estimates = roughs @ rough
    # Cauchy-Schwarz: what rounding lost of both, times the other's length.
    errors = np.linalg.norm(left - rough) + np.linalg.norm(rough) * np.linalg.norm(right - roughs, axis=1)
    order = np.argsort(-estimates)[[*range(10), *range(10, 94, 6)]]
    limit = np.sort(estimates - errors)[-4]
    picture = Picture(
        "exactness", 480, 350, "Estimates with their largest errors, and which are computed again"
    )
    low = float((estimates - errors)[order].min()) - 0.02
    scale = 250 / (float((estimates + errors)[order].max()) - low)

    def height(value: float) -> float:
        return 280 - scale * (value - low)

    for place, row in enumerate(order):
        x, near = 28 + 18.5 * place, estimates[row] + errors[row] >= limit
        picture.line(x, height(estimates[row] - errors[row]), x, height(estimates[row] + errors[row]))
        picture.dot(x, height(estimates[row]), 5.5, "full" if near else "none")
    picture.line(12, height(limit), 474, height(limit), "strong")
    picture.text(470, height(limit) - 8, "four reach this for certain", "small right")
    picture.dot(22, 308, 5.5, "full")
    picture.text(36, 312, "may be among the four nearest: computed exactly", "small")
    picture.dot(22, 328, 5.5, "none")
    picture.text(36, 332, "cannot be: left out", "small")
    picture.save()


def units() -> None:
    """A corpus of two languages as units: one of them killed, the others kept."""
    picture = Picture("units", 480, 270, "The units of work of two languages and their states")
    for row, language in enumerate(("fra", "eng")):
        y = 50 + 96 * row
        picture.text(10, y + 20, language, "bold")
        for number in range(3):
            picture.box(44, y - 14 + 22 * number, 54, 17, "full")
            picture.box(128, y - 14 + 22 * number, 54, 17, "full" if (row, number) != (1, 2) else "none")
            picture.line(100, y - 5 + 22 * number, 126, y - 5 + 22 * number)
        picture.line(185, y + 16, 214, 104)
    for row in range(3):
        for column in range(3):
            done = column < 2 and row + column < 3
            picture.box(218 + 36 * column, 62 + 30 * row, 31, 24, "full" if done else "none")
    picture.line(326, 104, 346, 104)
    picture.box(349, 92, 48, 24, "none")
    picture.line(399, 104, 417, 104)
    picture.box(420, 92, 48, 24, "none")
    for x, y, words in (
        (71, 24, "split"),
        (155, 24, "embed"),
        (270, 50, "search tiles"),
        (373, 82, "merge"),
        (444, 82, "mine"),
    ):
        picture.text(x, y, words, "small middle")
    picture.box(44, 222, 22, 14, "full")
    picture.text(74, 234, "done and checked: never done again", "small")
    picture.box(44, 244, 22, 14, "none")
    picture.text(74, 256, "to do: anywhere, in any order that arrows allow", "small")
    picture.save()


def road() -> None:
    """The stages from documents to parallel text, and the command of each."""
    picture = Picture("road", 700, 132, "The road from documents to parallel text, and the commands on it")
    stages = ("documents", "sentences", "vectors", "pairs", "parallel text")
    commands = ("split", "embed", "mine or align", "tune, filter")
    for number, words in enumerate(stages):
        x = 10 + 142 * number
        picture.box(x, 34, 104, 34, "none")
        picture.text(x + 52, 56, words, "middle bold")
        if number:
            picture.line(x - 35, 51, x - 3, 51, "mark")
            picture.text(x - 19, 24, commands[number - 1], "small middle")
    picture.text(346, 94, "encoder: mini, one of the hub, or your own by train", "small middle")
    picture.line(346, 70, 346, 80, "edge")
    picture.text(
        346, 120, "run does all of it, for many languages, on one machine or a cluster", "small middle light"
    )
    picture.save()


if __name__ == "__main__":
    road()
    encoder = SentenceEncoder.load("mini", device="cpu")
    texts = [lines("spa.txt"), lines("eng.txt")]
    unit = [encoder.embed(text) for text in texts]
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in unit]
    margin(*texts, unit)
    neighbourhoods(*texts, unit)
    packing(encoder, texts[1])
    exactness(unit)
    units()
