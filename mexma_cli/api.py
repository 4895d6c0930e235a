"""The functions of the public API: each does what the command of its name does, and returns what was found.

Everything is imported when a function is called, so that `import mexma_cli` stays quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

if TYPE_CHECKING:
    from mexma_cli.arguments import (
        AlignKeywords,
        Count,
        EmbedKeywords,
        Encoder,
        IdentifierName,
        JudgingKeywords,
        MineKeywords,
        Name,
        Progress,
        RuleKeywords,
        ScoreKeywords,
        SplitKeywords,
        Text,
        TuneKeywords,
        Vectors,
    )
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.formats.bitext import FoundPair
    from mexma_cli.knn.neighbours import Neighbours
    from mexma_cli.reporting.result import Result
    from mexma_cli.settings.stages import EncoderChoice, MineSettings
    from mexma_cli.settings.training import Phase
    from mexma_cli.stages.align.align import Aligned
    from mexma_cli.stages.filter import Filtered
    from mexma_cli.stages.mine.mine import Estimated, Mined, MiningJob
    from mexma_cli.stages.run.scheduler import Progress as UnitsDone
    from mexma_cli.stages.score import Scored
    from mexma_cli.stages.split.split import SplitReport
    from mexma_cli.stages.tune.tune import Tuned
    from mexma_cli.store.embeddings import EmbeddingStore

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _checked(function: _Function) -> _Function:
    """Refuse, with a MexmaError, arguments that are not of the types of a function's parameters and settings;
    its errors name keywords, and not the options of commands."""

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        from mexma_cli.arguments import fitted, types_of
        from mexma_cli.settings.section import naming_keywords

        given, named = fitted(function, given, named)
        with naming_keywords(types_of(function)):
            return function(*given, **named)

    return cast(_Function, call)


@_checked
def split(
    inputs: Name | Sequence[Name],
    output: Name,
    *,
    lang: str,
    rejects: Name | None = None,
    encoding: str | None = None,
    workers: Count = 1,
    on_progress: Progress | None = None,
    **settings: Unpack[SplitKeywords],
) -> SplitReport:
    """Split documents into clean sentences of one language, as `mexma split` does.

    Beside the output come a file of documents, for `mine` and `align`, and a report.

    Args:
        inputs: Files, folders or globs of text, JSONL, TMX, HTML or WARC, plain or compressed.
        output: File of the sentences, one a line; compressed if named .gz, .bz2, .xz or .zst.
        lang: Language of the documents, such as fra_Latn, fra or fr; und: not stated.
        rejects: File for what is dropped: reason, document id, start, end, text.
        encoding: Of texts that are neither UTF-8 nor UTF-16, such as windows-1252.
        workers: Processes. More than one needs a script with `if __name__ == "__main__"`.
        on_progress: Called with bytes of text done and about how many there are, 0 if nobody knows.
        settings: Options of `mexma split`.

    Returns:
        How much was read, repaired, kept, and dropped for which reason.

    Raises:
        MexmaError: An input is missing, damaged or the output; there is no document; or the disk is full.
        TypeError: An unknown setting.

    >>> from pathlib import Path
    >>> from mexma_cli import split
    >>> _ = Path("page.txt").write_text("The bus was late. We walked home. Wir sind nach Hause gegangen.\\n")
    >>> report = split("page.txt", "page.en.txt", lang="eng")
    >>> report.kept, report.dropped
    (2, {'language': 1})
    """
    from mexma_cli.settings.stages import SplitSettings
    from mexma_cli.stages.embed.inputs import refuse_overwriting
    from mexma_cli.stages.split.inputs import chosen_inputs
    from mexma_cli.stages.split.split import SplitOutputs
    from mexma_cli.stages.split.split import split as split_documents
    from mexma_cli.text.pages import stating

    given = list(map(str, [inputs] if isinstance(inputs, str | Path) else inputs))
    with nullcontext() if encoding is None else stating(encoding):
        found, how = chosen_inputs(given, lang, SplitSettings.of(settings), rejects is not None)
        outputs = SplitOutputs(Path(output), None if rejects is None else Path(rejects))
        refuse_overwriting([*outputs.files, outputs.report], found.files)
        return split_documents(found, how, outputs, workers, on_progress=on_progress)


@_checked
def langid(
    lines: Iterable[str], *, lid: IdentifierName = "py3langid", lid_model: Name | None = None
) -> Iterator[tuple[str, float]]:
    """Identify the language of each line, as `mexma langid` does.

    Args:
        lines: Sentences, read in batches.
        lid: Language identifier; heliport needs the extra `heliport`.
        lid_model: A fastText model, such as GlotLID, in place of it (extra `fasttext`).

    Yields:
        For each line its language (a FLORES-200 code where it has one; zxx is no language, und an unknown
        one) and the probability.

    Raises:
        MexmaError: The identifier is not installed, the model cannot be read, or `lines` is one string.

    >>> from mexma_cli import langid
    >>> [code for code, probability in langid(["Where is the station?", "Wo ist der Bahnhof?"])]
    ['eng_Latn', 'deu_Latn']
    """
    from itertools import islice

    from mexma_cli.errors import MexmaError
    from mexma_cli.text.identify import flores, identifier

    model = identifier(lid, None if lid_model is None else Path(lid_model))
    if model is None:
        raise MexmaError("lid `none` tells no languages", "name another, or a lid_model")
    left = iter(lines)
    batches = iter(lambda: list(islice(left, 1 << 12)), [])
    return (
        (flores(guess, line), guess.probability)
        for batch in batches
        for line, guess in zip(batch, model.identify(batch), strict=True)
    )


@_checked
def embed(
    corpus: Name,
    output: Name,
    *,
    lang: str = "und",
    encoder: Encoder | None = None,
    append: bool = False,
    overwrite: bool = False,
    on_progress: Progress | None = None,
    **settings: Unpack[EmbedKeywords],
) -> EmbeddingStore:
    """Embed a text, one sentence a line, into an embedding store, as `mexma embed` does.

    A store that is there with the same settings is left as it is; an unfinished one is gone on with.

    Args:
        corpus: The text; it may be compressed.
        output: Folder of the store.
        lang: Language of the text, such as fra_Latn, fra or fr; und: not stated.
        encoder: Name or loaded encoder. Default: `mini`.
        append: Make the store that is there longer.
        overwrite: Make the store anew.
        on_progress: Called with lines done and lines in all.
        settings: Options of `mexma embed`.

    Returns:
        The store, open.

    Raises:
        MexmaError: The text is missing or damaged, the store has other settings, or the disk is full.
        TypeError: An unknown setting.

    >>> from mexma_cli import embed
    >>> embed("examples/spa-eng/eng.txt", "eng.emb", lang="eng", encoder="mini")
    EmbeddingStore('eng.emb', 3000 rows of 320, eng_Latn)
    """
    from mexma_cli.languages import resolve
    from mexma_cli.settings.stages import EmbedSettings
    from mexma_cli.stages.embed.embed import EmbedOptions, embed_file

    how = EmbedOptions(resolve(lang), EmbedSettings.of(settings), None, overwrite, append)
    report_progress = on_progress or (lambda done, total: None)
    loaded = _loaded(encoder, not how.settings.no_normalise)
    return embed_file(
        loaded, corpus, output, how, on_progress=lambda done, total, _: report_progress(done, total)
    )


@_checked
def knn(source: Vectors, target: Vectors, k: Count = 4, *, on_progress: Progress | None = None) -> Neighbours:
    """Find the k nearest rows of the other side by cosine, for every row of both sides, exactly.

    Rows of equal sentences all have neighbours; `mine` counts them as one.

    Args:
        source: Vectors, float [N, dim], of any length, or a store, which is read in blocks.
        target: Vectors, float [M, dim], or a store.
        k: Neighbours of a row, at most the rows of the other side.
        on_progress: Called with tiles of the search done and tiles in all.

    Returns:
        Cosines float32 [N, k] and row numbers int64 [N, k] of the neighbours, best first (`forward_scores`,
        `forward_ids`), and the same for the rows of the target (`backward_scores`, `backward_ids`).

    Raises:
        ValueError: Vectors of different dimensions, or with numbers that are not finite.
        MexmaError: Two stores of different encoders.

    >>> import numpy as np
    >>> from mexma_cli import knn
    >>> found = knn(np.eye(3), np.array([[0.0, 2.0, 0.0], [0.0, 1.0, 1.0]]), k=1)
    >>> found.forward_ids.ravel().tolist()
    [0, 0, 1]
    >>> found.backward_ids.ravel().tolist()
    [1, 1]
    """
    from mexma_cli.knn import exact
    from mexma_cli.store.embeddings import EmbeddingStore, check_comparable

    if isinstance(source, EmbeddingStore) and isinstance(target, EmbeddingStore):
        check_comparable(source, target)
    return exact.knn(source, target, k, on_progress=on_progress)


@_checked
def mine(
    source: Text,
    target: Text | None = None,
    *,
    encoder: Encoder | None = None,
    within: tuple[Name, Name] | None = None,
    document_pairs: Name | None = None,
    languages: tuple[str, str] = ("und", "und"),
    with_ids: bool = False,
    on_progress: Progress | None = None,
    **settings: Unpack[MineKeywords],
) -> Mined:
    """Find the translations in two texts, best first, as `mexma mine` does.

    Args:
        source: A store, or a text, which is embedded first.
        target: A store or a text. None: find paraphrases and near-copies within the source.
        encoder: Name or loaded encoder for texts. Default: that of the other side if it is a store, else
            `mini`.
        within: Two files with the document id of every line: look for pairs within documents of equal ids
            only.
        document_pairs: With `within`, a file of `source id TAB target id` in place of equal ids.
        languages: Codes of source and target, which TMX and some encoders (SONAR) need.
        with_ids: Look up ranks and neighbourhood means of the pairs.
        on_progress: Called with lines embedded and lines in all, then with tiles of the search.
        settings: Options of `mexma mine`.

    Returns:
        A sequence of the pairs, with their scores, lines and sentences. It has the counts of what was left
        out; `write`, for a file in any format; and with `precision`, or the threshold `auto` (the best
        estimated F1), `estimated.best`: the `threshold`, and the `precision` and `count` of the pairs above
        it.

    Raises:
        MexmaError: A file that is missing or damaged, or stores of different encoders.
        TypeError: An unknown setting.

    >>> from mexma_cli import mine
    >>> mined = mine("examples/spa-eng/spa.txt", "examples/spa-eng/eng.txt", encoder="mini", top=2)
    >>> for pair in mined:
    ...     print(f"{pair.score:.3f} {pair.source[:20]}… = {pair.target[:20]}…")
    1.000 Ivy Bean, la usuaria… = Ivy Bean, the oldest…
    1.000 Hay muchos gatos neg… = There are many black…
    >>> texts = "examples/spa-eng/spa.txt", "examples/spa-eng/eng.txt"
    >>> best = mine(*texts, encoder="mini", precision=0.95).estimated.best
    >>> best.count, round(best.precision, 2)
    (652, 0.95)
    """
    from dataclasses import replace

    from mexma_cli.settings.stages import MineSettings
    from mexma_cli.stages.mine.files import mined

    job = _job(source, target, languages, MineSettings.of(settings), within, document_pairs)
    with mined(replace(job, with_ids=with_ids), _choice(encoder), on_progress, on_progress) as run:
        return run.found


@_checked
def align(
    source: Text,
    target: Text,
    *,
    encoder: Encoder | None = None,
    docs: tuple[Name, Name] | None = None,
    document_pairs: Name | None = None,
    find_documents: bool = False,
    languages: tuple[str, str] = ("und", "und"),
    on_progress: Progress | None = None,
    **settings: Unpack[AlignKeywords],
) -> Aligned:
    """Align the sentences of translated documents, as `mexma align` does.

    Args:
        source: A text or store of one document, or of many with `docs`; or a folder, or a pattern with one
            `*`, with a document a file.
        target: The same for the target side.
        encoder: As for `mine`; also needed for two stores, since runs of sentences are embedded.
        docs: Two files with the document id of every line.
        document_pairs: A file of `source id TAB target id`. Default: documents of equal ids are paired.
        find_documents: Pair documents by their content instead; pairs with a mean score below 0.25 are
            dropped, unless `min_aligned` is given.
        languages: Codes of source and target, which TMX and some encoders (SONAR) need.
        on_progress: Called with pairs of documents done and in all; before, to find these, with documents.
        settings: Options of `mexma align`.

    Returns:
        An iterable of the alignments in the order of the documents, with their scores, documents, lines and
        sentences. It has their number by kind, from `counts()`; and `write`, for a file in any format.

    Raises:
        MexmaError: A file that is missing or damaged, no paired documents, or stores of different encoders.
        TypeError: An unknown setting.

    >>> from pathlib import Path
    >>> from mexma_cli import align
    >>> _ = Path("spa.txt").write_text("Nació en África.\\nVino a España en 1990, donde vive ahora.\\n")
    >>> text = "He was born in Africa.\\nHe came to Spain in 1990.\\nHe lives there now.\\n"
    >>> _ = Path("eng.txt").write_text(text)
    >>> for pair in align("spa.txt", "eng.txt", encoder="mini"):
    ...     print(pair.source_lines, pair.target_lines, pair.target)
    (1,) (1,) He was born in Africa.
    (2,) (2, 3) He came to Spain in 1990. He lives there now.
    """
    from dataclasses import replace

    import numpy as np

    from mexma_cli.settings.stages import AlignSettings
    from mexma_cli.stages.align.align import DocumentInputs
    from mexma_cli.stages.align.files import AlignJob, agreed_languages, aligned

    ids = None if docs is None else _two(docs)
    listed = None if document_pairs is None else Path(document_pairs)
    inputs = DocumentInputs(_path(source), _path(target), ids, listed, find_documents)
    job = AlignJob(inputs, agreed_languages(inputs, languages), settings=AlignSettings.of(settings))
    with aligned(job, _choice(encoder), (lambda step: on_progress) if on_progress else None) as run:
        records = np.array(run.found.records)  # not mapped from a file that goes
        return replace(run.found, records=records, inputs=tuple(map(Path.absolute, inputs.files)))


@_checked
def score(
    source: Text,
    target: Text | None = None,
    *,
    encoder: Encoder | None = None,
    background: tuple[Text, Text] | None = None,
    probability: bool = False,
    explain: bool = False,
    languages: tuple[str, str] = ("und", "und"),
    output: Name | None = None,
    on_progress: Progress | None = None,
    **settings: Unpack[JudgingKeywords],
) -> Scored:
    """Score line n of one text as the translation of line n of the other, as `mexma score` does.

    Args:
        source: A store, or a text, which is embedded first. Without a target: a file of source TAB target, or
            the TSV or JSONL of `mexma mine`.
        target: A store or a text, with as many lines as the source.
        encoder: As for `mine`.
        background: Two texts or stores that the neighbourhoods come from. Default: source and target.
        probability: Find the probability of each line, too (`probabilities`); not with a background.
        explain: With `output`: write the probability, too, and why a pair may be no translation.
        languages: Codes of source and target, for an encoder that needs them (SONAR).
        output: A file for the lines with their scores, which `filter` reads: .tsv, .csv or .jsonl.
        on_progress: As for `mine`.
        settings: Options of `mexma score`.

    Returns:
        `scores` float32 [lines], nan where a side is empty, and the counts of lines without a score.

    Raises:
        MexmaError: Different numbers of lines, a file that is missing or damaged, or different encoders.
        TypeError: An unknown setting.

    >>> from pathlib import Path
    >>> from mexma_cli import score
    >>> text = "Nació en África.\\tHe was born in Africa.\\n¿Dónde está la estación?\\tI like cheese.\\n"
    >>> _ = Path("corpus.tsv").write_text(text)
    >>> scored = score("corpus.tsv", encoder="mini", margin="absolute")
    >>> bool(scored.scores[0] > scored.scores[1])
    True
    """
    from mexma_cli.formats.bitext import DEFAULT, format_of
    from mexma_cli.formats.csv import ROWS
    from mexma_cli.settings.stages import JudgingSettings
    from mexma_cli.stages.embed.inputs import language_of, refuse_overwriting
    from mexma_cli.stages.score import open_bitext, scored_lines
    from mexma_cli.stages.score import score as score_stores
    from mexma_cli.text.writing import write_chunks

    wanted = JudgingSettings.of(settings)
    probability = probability or explain or wanted.classifier is not None
    if probability and background:
        raise TypeError("probability, explain and classifier go without a background")
    if explain and output is None:
        raise TypeError("explain goes with an output")
    bitext = [_path(source)] if target is None else [_path(source), _path(target)]
    around, outputs = list(map(_path, background or ())), [] if output is None else [Path(output)]
    format = format_of(outputs[0], ROWS) if outputs else DEFAULT
    refuse_overwriting(outputs, [*bitext, *around])
    with ExitStack() as stack:
        spoken = languages
        if len(bitext) == 2:
            spoken = language_of(bitext[0], spoken[0]), language_of(bitext[1], spoken[1])
        stores = open_bitext(stack, bitext, around, _choice(encoder), on_progress, languages=spoken)
        others = (stores[2], stores[3]) if background else None
        scored = score_stores(
            stores[0],
            stores[1],
            wanted,
            background=others,
            probability=probability,
            on_progress=on_progress,
        )
        if outputs:
            write_chunks(outputs, scored_lines(stores[0], stores[1], scored, format=format, explain=explain))
        return scored


@_checked
def search(
    target: Text,
    *,
    query: str | None = None,
    queries: Text | None = None,
    top: Count | None = None,
    docs: Name | None = None,
    encoder: Encoder | None = None,
    on_progress: Progress | None = None,
    **settings: Unpack[ScoreKeywords],
) -> list[FoundPair]:
    """Find the sentences of a store that are nearest to a query, as `mexma search` does.

    Args:
        target: The store; with `queries` also a text.
        query: A sentence.
        queries: A text or store of queries, in place of one.
        top: Sentences for each query. Default: 5; with `queries` 1.
        docs: File with the document id of every line of the target.
        encoder: As for `mine`. A loaded one makes many calls quick.
        on_progress: With `queries`, as for `mine`.
        settings: With `queries`: options of `mexma search`.

    Returns:
        For each query the best first: `score`, `source` (the query), `target`, `rank`, `line` (from 1),
        `document`; rank 0 where there is none.

    Raises:
        MexmaError: A file that is missing or damaged, an empty query, or different encoders.
        TypeError: An unknown setting, or not one of `query` and `queries`.

    >>> from mexma_cli import search
    >>> for hit in search("spa.emb", query="He was born in Africa.", top=2):
    ...     print(f"{hit.score:.2f} line {hit.line}: {hit.target}")
    0.91 line 2074: Él nació en África.
    0.42 line 193: Los niños me tienen miedo.
    """
    from mexma_cli.settings.stages import TYPED_TOP, ScoreSettings
    from mexma_cli.stages import search as stage
    from mexma_cli.stages.embed.inputs import open_inputs, open_store

    if (query is None) == (queries is None) or (query is not None and settings):
        raise TypeError("one of query and queries is wanted, and settings with queries alone")
    ids = None if docs is None else Path(docs)
    if query is not None:
        store = open_store(_path(target))
        return stage.nearest_to_sentence(
            query, store, _choice(encoder), top or TYPED_TOP, stage.places(store, ids)
        )
    assert queries is not None
    wanted = ScoreSettings.of(settings)
    with ExitStack() as stack:
        asking, asked = open_inputs(
            stack, [_path(queries), _path(target)], _choice(encoder), on_progress=on_progress
        )
        hits = stage.find_hits(asking, asked, wanted, top=top or 1, on_progress=on_progress)
        return list(stage.found_pairs(asking, asked, hits, stage.places(asked, ids)))


@overload
def tune(
    source: Name, *, gold: Name, ids: tuple[Name, Name] | None = None, precision: float | None = None
) -> Tuned: ...
@overload
def tune(
    source: Text,
    target: Text,
    *,
    precision: float | None = None,
    labels: Name | None = None,
    encoder: Encoder | None = None,
    within: tuple[Name, Name] | None = None,
    document_pairs: Name | None = None,
    languages: tuple[str, str] = ("und", "und"),
    on_progress: Progress | None = None,
    **settings: Unpack[TuneKeywords],
) -> Estimated: ...
@_checked
def tune(
    source: Text,
    target: Text | None = None,
    *,
    gold: Name | None = None,
    ids: tuple[Name, Name] | None = None,
    precision: float | None = None,
    labels: Name | None = None,
    encoder: Encoder | None = None,
    within: tuple[Name, Name] | None = None,
    document_pairs: Name | None = None,
    languages: tuple[str, str] = ("und", "und"),
    on_progress: Progress | None = None,
    **settings: Unpack[TuneKeywords],
) -> Tuned | Estimated:
    """Find the score threshold with the best F1, as `mexma tune` does: by gold pairs, or without any by the
    probabilities of the pairs of two texts.

    Args:
        source: With `gold` the candidates: TSV or JSONL of `mexma mine`. Else a text or store.
        target: A text or store, without `gold`.
        gold: File of the true pairs, `source TAB target`: sentences, or ids with `ids`.
        ids: Two files of `id TAB sentence`, for source and target.
        precision: Instead of the best F1: the lowest threshold with this precision (0 to 1).
        labels: Without `gold`: labels of `mexma review` or `mexma tune --label`, which correct the estimate.
        encoder: As for `mine`, and so are the next three.
        on_progress: Without `gold`, as for `mine`.
        settings: Without `gold`, as the options of those names.

    Returns:
        `best`, with `threshold`, `precision` and `count`. With `gold` it has `recall` and `f1`, too, and
        beside it are its `intervals`; `all`, the same without a threshold; and `held_out`, the result of a
        threshold from one half of the gold pairs on the other half. Without `gold` recall is not known, and
        `best` has its `precision_interval`; beside it are `translations`, how many of all pairs are
        (`expected`, `low`, `high`), and a `table` of other thresholds.

    Raises:
        MexmaError: A file that is missing, empty or of another format, no gold pair among the candidates, or
            no threshold with this precision.
        TypeError: An unknown setting, or what does not go with `gold`, or without it.

    >>> from pathlib import Path
    >>> from mexma_cli import tune
    >>> _ = Path("pairs.tsv").write_text("1.4\\tHola.\\tHello.\\n1.2\\tSí.\\tYes.\\n0.9\\tNo.\\tA cat.\\n")
    >>> _ = Path("gold.tsv").write_text("Hola.\\tHello.\\nSí.\\tYes.\\nNo.\\tNo.\\n")
    >>> best = tune("pairs.tsv", gold="gold.tsv").best
    >>> best.precision, round(best.recall, 2)
    (1.0, 0.67)
    >>> best = tune("spa.emb", "examples/spa-eng/eng.txt", precision=0.95).best
    >>> best.count, round(best.precision, 2)
    (652, 0.95)
    """
    mining = settings or labels or encoder or within or document_pairs or languages != ("und", "und")
    if (gold is None) == (target is None) or (mining if target is None else ids):
        raise TypeError(
            "one of target and gold is wanted; ids go with gold, and encoders, documents, languages, labels "
            "and settings with a target"
        )
    if gold is not None:
        from mexma_cli.settings.section import naming_keywords
        from mexma_cli.stages.tune.tune import tune as tune_files

        with naming_keywords({"ids": tuple, "gold": Path}):  # its --source is the ids
            return tune_files(_path(source), gold, *(ids or (None, None)), precision)
    from mexma_cli.settings.stages import TUNED, MineSettings
    from mexma_cli.stages.tune.estimate import estimated

    how = MineSettings.of(settings, TUNED)
    job = _job(source, target, languages, how, within, document_pairs)
    corrected = None if labels is None else Path(labels)
    steps = {"on_embedding": on_progress, "on_progress": on_progress}
    with estimated(job, _choice(encoder), precision, corrected, **steps) as (found, _):
        return found


@_checked
def filter(
    bitext: Name | tuple[Name, Name],
    output: Name,
    *,
    languages: tuple[str, str] = ("und", "und"),
    exclude: Name | Sequence[Name] = (),
    format: str | None = None,
    rejects: Name | None = None,
    workers: Count = 1,
    on_progress: Progress | None = None,
    **settings: Unpack[RuleKeywords],
) -> Filtered:
    """Drop the pairs of a bitext that break a rule, and count them by rule, as `mexma filter` does.

    Args:
        bitext: A file of pairs in any format, or two line-aligned files.
        output: File of the pairs that are kept.
        languages: Codes of source and target, which the rules `script` and `language` need.
        exclude: Files whose sentences are dropped, such as a test set, in any format that is read.
        format: Of the output, as `mexma filter --format`. Default: by its name.
        rejects: File for what is dropped: reason, number of the pair, the pair.
        workers: Processes. More than one needs a script with `if __name__ == "__main__"`.
        on_progress: Called with the pairs read, and 0: how many there are nobody knows before.
        settings: Options of `mexma filter`.

    Returns:
        Pairs read and kept, those dropped by rule, and what is left out of the file by reason.

    Raises:
        MexmaError: An input is missing, damaged or the output; or an unknown rule or language.
        TypeError: An unknown setting.

    >>> from pathlib import Path
    >>> from mexma_cli import filter
    >>> pairs = "Son 40 euros.\\tIt is 14 euros.\\nSí, claro que sí.\\tYes, of course.\\n"
    >>> _ = Path("all.tsv").write_text(pairs)
    >>> found = filter("all.tsv", "clean.tsv")
    >>> found.kept, found.dropped
    (1, {'numbers': 1})
    """
    from mexma_cli.formats.bitext import named_format, outputs_of
    from mexma_cli.formats.sides import as_codes
    from mexma_cli.settings.stages import RuleSettings
    from mexma_cli.stages.embed.inputs import refuse_overwriting
    from mexma_cli.stages.filter import FilterJob, filter_files

    inputs = (bitext,) if isinstance(bitext, str | Path) else bitext
    made = Path(output)
    job = FilterJob(
        tuple(map(Path, inputs)),
        languages,
        RuleSettings.of(settings),
        tuple(map(Path, [exclude] if isinstance(exclude, str | Path) else exclude)),
        made,
        format,
        Path(rejects) if rejects else None,
        workers=workers,
    )
    files = [*outputs_of(made, named_format(made, format).name, as_codes(languages)), job.rejects]
    refuse_overwriting([path for path in files if path], [*job.inputs, *job.exclude])
    return filter_files(job, on_progress=lambda done: on_progress and on_progress(done, 0))[0]


@_checked
def run(
    recipe: Name,
    overrides: Sequence[str] = (),
    *,
    jobs: Count = 1,
    only: str | None = None,
    pairs: str | Sequence[str | tuple[str, str]] = (),
    on_progress: Progress | None = None,
) -> list[Path]:
    """Mine parallel text for many language pairs from one recipe, on this machine, as `mexma run` does.

    A run that was killed is gone on with; after a change only what that changes is done.

    Args:
        recipe: A YAML file of kind corpus.
        overrides: Keys of the recipe to change, such as `mine.threshold=0.5`.
        jobs: Processes. The script that calls needs `if __name__ == "__main__"`.
        only: A stage: it and those before it.
        pairs: Language pairs to do: `"fra-eng"`, or two codes. Default: all.
        on_progress: Called with units done and the units that are known by then.

    Returns:
        The folders of the sentence pairs.

    Raises:
        MexmaError: A wrong key or value, a missing text, something else in the run's folder, or units that
            failed.

    >>> from mexma_cli import run
    >>> run("examples/corpus.yaml", pairs=[("spa", "eng")])
    [PosixPath('runs/corpus/bitext/spa_Latn-eng_Latn')]
    """
    from mexma_cli.executors.local import LocalExecutor
    from mexma_cli.languages import resolve_pair
    from mexma_cli.settings.load import load_corpus
    from mexma_cli.stages.run.plan import Selection
    from mexma_cli.stages.run.run import outputs, run_corpus

    found = load_corpus(recipe, overrides)
    chosen = Selection(only, None, tuple(map(resolve_pair, [pairs] if isinstance(pairs, str) else pairs)))

    def on_change(now: UnitsDone) -> None:
        if on_progress is not None:
            on_progress(len(now.done) + len(now.found_done), len(now.units))

    make = partial(LocalExecutor.from_recipe, found, jobs=jobs)
    done = run_corpus(found, make, chosen=chosen, on_change=on_change)
    return outputs(found, done.units.values())


@_checked
def evaluate(
    folder: Name,
    *,
    encoder: Encoder | None = None,
    languages: str | Sequence[str] | None = None,
    target: str = "eng_Latn",
    split: str = "devtest",
    on_progress: Progress | None = None,
    **settings: Unpack[ScoreKeywords],
) -> Result:
    """Measure xsim, the share of sentences whose translation is not found, as `mexma eval xsim` does.

    `mexma eval` has the other measures. The F1 of mining is that of `tune` for the pairs of `mine`.

    Args:
        folder: FLORES-200, NTREX-128, or line-aligned files `<code>.txt`.
        encoder: Name or loaded encoder. Default: `mini`.
        languages: Codes; or 81, 90, o or d (the MEXMA paper's lists), a file of codes, or `fra,deu`. Default:
            all.
        target: Language that is searched for the translations.
        split: Of FLORES-200: devtest or dev.
        on_progress: Called with sentences embedded and sentences in all.
        settings: Options of `mexma eval xsim`.

    Returns:
        `scores`, the mean error in percent (`xsim`), and `rows`, the error of each language. Where the target
        repeats a sentence, either row of it is right for `xsim`; `xsim by row`, there only then, counts
        finding the other row as an error.

    Raises:
        MexmaError: No such files, or none of a language.
        TypeError: An unknown setting.

    >>> from pathlib import Path
    >>> from mexma_cli import evaluate
    >>> Path("set").mkdir()
    >>> _ = Path("set/spa.txt").write_text("Nació en África.\\n¿Dónde está la estación?\\n")
    >>> _ = Path("set/eng.txt").write_text("He was born in Africa.\\nWhere is the station?\\n")
    >>> evaluate("set", encoder="mini").scores
    {'xsim': 0.0}
    """
    from mexma_cli.evaluation.aligned import read_texts
    from mexma_cli.evaluation.embedder import Embedder
    from mexma_cli.evaluation.xsim import evaluate as measure
    from mexma_cli.settings.stages import EncoderChoice, ScoreSettings
    from mexma_cli.stages.embed.inputs import load_encoder

    wanted = ScoreSettings.of(settings)
    codes = languages if languages is None or isinstance(languages, str) else ",".join(languages)
    data = read_texts(Path(folder), split, codes, target)
    choice = _choice(encoder)
    loaded = load_encoder(choice.to_measure()) if isinstance(choice, EncoderChoice) else choice
    done = 0

    def on_batch(sentences: int, tokens: int) -> None:
        nonlocal done
        done += sentences
        if on_progress is not None:
            on_progress(done, data.sentences)

    return measure(data, Embedder(loaded, on_batch=on_batch), wanted)


@_checked
def train(
    recipe: Name,
    overrides: Sequence[str] = (),
    *,
    resume: bool = False,
    plugin: Name | None = None,
    on_progress: Progress | None = None,
) -> Path:
    """Train an encoder, or a decomposer of its vectors, from a recipe in this process, as `mexma train` does.

    Text that is not prepared yet is prepared first.

    Args:
        recipe: A YAML file, or the name of a shipped recipe.
        overrides: Keys of the recipe to change, such as `trainer.steps=100`.
        resume: Continue a run that was stopped or killed, with the `overrides` that it was started with, too.
        plugin: A Python file that registers an objective of your own.
        on_progress: Called with corpora prepared and in all, then with steps; for a decomposer with epochs.

    Returns:
        The folder of the encoder, for `SentenceEncoder.load`; for a decomposer the run's folder, for `mexma
        project`.

    Raises:
        MexmaError: A wrong key or value, missing text, an existing run (without `resume`), or a run of
            another recipe (with it).

    >>> from mexma_cli import train
    >>> train("examples/small.yaml", ["phases.bag.trainer.steps=3", "phases.train.trainer.steps=2"])
    PosixPath('runs/small/encoder')
    """
    from mexma_cli.evaluation.xsim import dev_scorer
    from mexma_cli.settings.registry import load_plugin
    from mexma_cli.settings.training import DecomposeRecipe
    from mexma_cli.stages.train.decompose import decompose
    from mexma_cli.stages.train.run_folder import load_for
    from mexma_cli.stages.train.train import prepare_text
    from mexma_cli.stages.train.train import train as train_phases

    if plugin is not None:
        load_plugin(plugin)
    settings = load_for(recipe, overrides, resume)
    tell = on_progress or (lambda done, total: None)
    if isinstance(settings, DecomposeRecipe):
        epochs = settings.trainer.epochs
        run = decompose(settings, resume, on_epoch=lambda record: tell(record["epoch"], epochs))
        assert run is not None, "nobody stops it"
        return run
    dev_score = dev_scorer(settings.dev, settings.data.resolve) if settings.dev else None
    prepare_text(settings, resume, on_progress=lambda done, corpora, _: tell(done, corpora))
    steps = [phase.trainer.steps for phase in settings.phases]
    before = 0  # in the phases that are done

    def on_phase(phase: Phase, step: int, encoder: SentenceEncoder) -> None:
        nonlocal before
        before = sum(steps[: settings.phases.index(phase)])

    finished = train_phases(
        settings, resume, dev_score, on_phase, lambda record: tell(before + record["step"], sum(steps))
    )
    assert finished is not None, "nobody stops it"
    return finished


def _job(
    source: Text,
    target: Text | None,
    languages: tuple[str, str],
    settings: MineSettings,
    within: tuple[Name, Name] | None,
    document_pairs: Name | None,
) -> MiningJob:
    """A job of mining; without a target within the source."""
    from mexma_cli.stages.embed.inputs import language_of
    from mexma_cli.stages.mine.documents import DocumentFiles
    from mexma_cli.stages.mine.mine import MiningJob

    if document_pairs is not None and within is None:
        raise TypeError("document_pairs goes with within")
    paths = _path(source), _path(source if target is None else target)
    spoken = language_of(paths[0], languages[0]), language_of(paths[1], languages[1])
    listed = None if document_pairs is None else Path(document_pairs)
    documents = None if within is None else DocumentFiles(*_two(within), listed)
    return MiningJob(paths, spoken, settings, documents=documents)


def _two(names: tuple[Name, Name]) -> tuple[Path, Path]:
    """The files of source and target."""
    return Path(names[0]), Path(names[1])


def _path(text: Text) -> Path:
    return Path(text) if isinstance(text, str | Path) else text.path


def _choice(encoder: Encoder | None) -> EncoderChoice | SentenceEncoder:
    from mexma_cli.settings.stages import EncoderChoice

    named = os.path.join(".", encoder) if isinstance(encoder, Path) else encoder
    return EncoderChoice(model=named) if named is None or isinstance(named, str) else named


def _loaded(encoder: Encoder | None, normalised: bool = True) -> SentenceEncoder:
    from mexma_cli.settings.stages import EncoderChoice
    from mexma_cli.stages.embed.inputs import load_encoder

    choice = _choice(encoder)
    return load_encoder(choice, normalised) if isinstance(choice, EncoderChoice) else choice
