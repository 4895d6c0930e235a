"""A user's script: every public function, as type checkers see it. `make test` checks its types, and
tests/test_api.py runs it in a folder with the repository's examples."""

from pathlib import Path
from typing import assert_type

import numpy as np

from mexma_cli import (
    EmbeddingStore,
    MexmaError,
    SentenceEncoder,
    align,
    embed,
    evaluate,
    filter,
    knn,
    langid,
    mine,
    run,
    score,
    search,
    split,
    train,
    tune,
)

SPA, ENG = Path("examples/spa-eng/spa.txt"), "examples/spa-eng/eng.txt"


def told(done: int, total: int) -> bool:
    """A function for `on_progress`, whatever it returns."""
    print(f"{done} of {total or '?'}")
    return True


def prepared() -> tuple[EmbeddingStore, EmbeddingStore]:
    """Documents to sentences to stores."""
    Path("page.txt").write_text("The bus was late. We walked home. Wir sind nach Hause gegangen.\n")
    report = split(["page.txt"], Path("page.en.txt"), lang="eng", document="file", on_progress=told)
    assert_type(report.kept, int)
    assert_type(report.dropped, dict[str, int])
    for code, probability in langid(["Where is the station?"], lid="py3langid"):
        assert_type((code, probability), tuple[str, float])
    encoder = SentenceEncoder.load("mini", device="cpu")
    assert_type(encoder.embed(["Hola."]), np.ndarray)
    spa = embed(SPA, "user.emb", lang="spa", encoder=encoder, store_dtype="int8", on_progress=told)
    eng = embed(ENG, "eng.emb", lang="eng", overwrite=True)
    assert_type(spa, EmbeddingStore)
    assert_type(eng.vectors(0, 2), np.ndarray)
    assert_type(next(eng.sentences()), str)
    assert_type(EmbeddingStore.open("eng.emb").rows, int)
    return spa, eng


def found(spa: EmbeddingStore, eng: EmbeddingStore) -> None:
    """Pairs of two stores, and the threshold with and without gold pairs."""
    assert_type(knn(spa, eng, 2, on_progress=told).forward_ids, np.ndarray)
    mined = mine(spa, eng, languages=("spa", "eng"), precision=0.95, memory="2G", on_progress=told)
    for pair in mined[:2]:
        assert_type(pair.score, float)
        assert_type(pair.source, str)
        assert_type(pair.source_line, int | None)
    assert_type(mined.write("pairs.tmx"), int)
    mined.write("pairs.txt", format="tsv")
    if mined.estimated is not None:
        assert_type(mined.estimated.best.precision, float)
    estimated = tune(spa, eng, precision=0.9, margin="ratio", drop_copies=True, on_progress=told)
    assert_type(estimated.best.threshold, float)
    assert_type(estimated.translations.expected, float)
    print(estimated, estimated.translations, *estimated.table, sep="\n")
    tuned = tune("pairs.txt", gold="examples/spa-eng/gold.tsv")
    assert_type(tuned.best.recall, float)
    assert_type(tuned.intervals.f1, tuple[float, float])
    print(tuned, tuned.held_out and tuned.held_out.result)
    for hit in search(spa, query="He was born in Africa.", top=2):
        assert_type(hit.line, int)
    hits = search(spa, queries=eng, k=4, margin="distance", on_progress=told)
    print(len(hits), hits[0].target)


def aligned() -> None:
    """Aligned, scored and filtered texts."""
    Path("set").mkdir(exist_ok=True)
    Path("set/spa.txt").write_text("Nació en África.\nVino a España en 1990.\n")
    Path("set/eng.txt").write_text("He was born in Africa.\nHe came to Spain in 1990.\n")
    alignment = align("set/spa.txt", "set/eng.txt", encoder="mini", max_size=3, on_progress=told)
    for pair in alignment:
        assert_type(pair.source_lines, tuple[int, ...])
    alignment.write("aligned.tsv")
    scored = score("set/spa.txt", "set/eng.txt", explain=True, output="scored.tsv", on_progress=told)
    assert_type(scored.scores, np.ndarray)
    assert_type(scored.probabilities, np.ndarray | None)
    kept = filter("scored.tsv", Path("kept.tsv"), on=["probability=0.5"], off=("numbers",), on_progress=told)
    assert_type(kept.kept, int)
    measured = evaluate("set", languages=["spa"], margin="absolute", on_progress=told)
    assert_type(measured.scores, dict[str, float])
    print(alignment, scored, kept, measured)


def whole() -> None:
    """A corpus run and a training, from recipes."""
    folders = run("examples/corpus.yaml", ["mine.threshold=0.6"], pairs=["spa-eng"], on_progress=told)
    assert_type(folders, list[Path])
    steps = "phases.bag.trainer.steps=2", "phases.train.trainer.steps=1"
    assert_type(train("examples/small.yaml", steps, on_progress=told), Path)


if __name__ == "__main__":
    found(*prepared())
    aligned()
    whole()
    try:
        mine("nosuch.txt", "nosuch.emb")
    except MexmaError as error:
        assert_type(error.hint, str | None)
        print(error.message)
