"""Pairs of a language with English to a recipe and dev text; a trained run to what it is worth on that.

run/new-language.yaml  run/dev/CODE.txt  run/dev/eng_Latn.txt  run/dev/CODE-eng_Latn.{CODE,eng_Latn,gold}.tsv
and then what a training run has (stages/train).

The dev pairs are left out of the training by `data.exclude`. Their mining set is laid out as
`mexma eval bucc` reads it: beside the dev sentences each side has lines of the training text, whose
translations the other side lacks.
"""

from __future__ import annotations

import glob
import heapq
import shlex
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import yaml

from mexma_cli import languages
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading import card, folder
from mexma_cli.errors import MexmaError, in_a_line
from mexma_cli.evaluation.bucc import ranked, read_sets
from mexma_cli.evaluation.embedder import Embedder
from mexma_cli.evaluation.xsim import dev_scorer
from mexma_cli.files import checksum_file, clear_all, make_folder, only_writer, refuse_pipe, whole_file
from mexma_cli.languages import UNSTATED
from mexma_cli.mining.resampling import bootstrap
from mexma_cli.mining.threshold import Threshold, best_threshold
from mexma_cli.settings.load import load
from mexma_cli.settings.stages import BUNDLED
from mexma_cli.settings.training import Recipe
from mexma_cli.stages.prepare.corpora import Bitext, find_bitexts
from mexma_cli.stages.prepare.language import pair_rules
from mexma_cli.text.duplicates import fold, pair_hash
from mexma_cli.text.identify import identifier, swapped_sides, warn_of_languages
from mexma_cli.text.lines import read_lines, read_pieces

RECIPE = "new-language.yaml"
DEV = "dev"
TARGET = "eng_Latn"
DEV_PAIRS = 1000
"""At most; of fewer than 20 times as many pairs, a twentieth."""
BESIDE = 9
"""Lines of a side of the mining set for each dev sentence, where there are so many."""
FEWEST = 200
"""Pairs of which ten are dev text; an encoder worth its name takes fifty times as many."""
_SEED = 35
_BATCH = 1 << 14
_IDENTIFIED = 1000
"""Pairs of which the language of both sides is looked at, at most."""
_SMALLER = """
# A step has fewer pairs than in one-language, since there are only {left:,}.
trainer: {{batch_pairs: {batch}}}
"""
_HEAD = """\
# An encoder for {name} beside English, made by
#
#   mexma new-language {code} {pairs}
#
# which goes on with it, or measures it again, as long as this file stays as it is. To change something, copy
# it, give the copy another `run` and `data.store`, and train with `mexma train`. A file that is a corpus of
# its own, with `repeat: 0.5`, has its pairs drawn half as often as the others'.
#
# The text, by xxh3_128: {checksums}

"""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Worth:
    """Figures of an encoder on dev text that it was not trained on."""

    pairs: int
    """Number of pairs of dev text."""
    lines: tuple[int, int]
    """Lines of the mining set's two sides."""
    xsim_error: float | None
    """In percent."""
    mining: Threshold | None
    """The best one; None where nothing was found."""
    f1_interval: tuple[float, float] | None
    """The 95 % interval of its F1."""


def begin(code: str, pairs: Sequence[Path], run: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Write the recipe and the dev text into the run's folder, unless they are there, and read the
    recipe. The files have pairs in any format; a plain line is sentence TAB English sentence. Refused: a
    folder with anything else, or what was begun with other pairs; a file that is broken; too few pairs."""
    if code == TARGET:
        raise MexmaError("the pairs' other side is English already", "name the language of the first column")
    for path in pairs:
        refuse_pipe(path)
        # What is missing, a folder, or damaged at its start is refused here.
        if not next(read_pieces(path, str(path)), b""):
            raise MexmaError(f"{path} has no lines")
    text = _recipe(code, pairs, run)
    clear_all(run)
    if not (run / RECIPE).is_file():
        if run.exists() and (not run.is_dir() or any(run.iterdir())):
            raise MexmaError(f"{run} holds something else", "name a new folder with -o")
        make_folder(run)
        _write(run / RECIPE, text.splitlines())
    elif not (run / RECIPE).read_text(encoding="utf-8").startswith(text):
        raise MexmaError(
            f"{run / RECIPE} is of another command or of other text, or was changed",
            "begin anew in another folder with -o, or train from a copy of it with `mexma train`",
        )
    recipe = load(run / RECIPE, overrides)
    clear_all(run / DEV, Path(recipe.data.store))
    with only_writer(run):
        if not (run / DEV / f"{code}-{TARGET}.gold.tsv").is_file():
            bitexts, missing = find_bitexts(recipe.data)
            if missing:
                raise missing[0]
            try:
                dev, others, total = _dev_pairs(recipe, bitexts)
                _check_sides(code, [*dev, *others])
            except MexmaError:
                (run / RECIPE).unlink()  # the pairs will have changed when the command is given again
                raise
            if (left := total - len(dev)) < recipe.phases[0].trainer.batch_pairs:
                text += _SMALLER.format(left=left, batch=1 << (left.bit_length() - 1))
                _write(run / RECIPE, text.splitlines())
            _split_off(code, dev, others, run / DEV)
    return load(run / RECIPE, overrides)


def dev_pairs(run: Path) -> int:
    """How many pairs are kept for dev."""
    return sum(1 for _ in read_lines(run / DEV / f"{TARGET}.txt"))


def is_known(code: str) -> bool:
    """Whether the bundled encoder was trained on a language."""
    return code in card.languages(folder.BUNDLED / BUNDLED)


def worth(recipe: Recipe, bundled: bool = False) -> Worth:
    """Measure the run's encoder on its dev text, or the bundled one, to compare it with."""
    run = Path(recipe.run)
    encoder = SentenceEncoder.load(BUNDLED if bundled else str(run))
    (mining,) = read_sets([run / DEV])
    embed, (source, target) = Embedder(encoder), mining.pair.split("-")
    found = ranked(mining, embed(mining.sources, source), embed(mining.targets, target))
    best = best_threshold(found.scores, found.is_gold, found.gold) if len(found.scores) else None
    code = recipe.data.corpora[0].languages[0]
    error = None if bundled else encoder.trained[code].dev_error
    if bundled and recipe.dev is not None:
        score = dev_scorer(recipe.dev, recipe.data.resolve)
        assert score is not None, "the dev set is not optional"
        error = score(encoder)[code]
    return Worth(
        len(mining.gold),
        (len(mining.sources), len(mining.targets)),
        error,
        best,
        bootstrap(found, best).f1 if best else None,
    )


def _recipe(code: str, pairs: Sequence[Path], run: Path) -> str:
    """A recipe that extends one-language, as YAML. All files are one corpus, so that a pair that stands in
    two of them is trained once."""
    keys = {
        "extends": "one-language",
        "name": code,
        "run": str(run),
        "data": {
            "root": ".",
            "store": str(run / "data"),
            "exclude": [f"{glob.escape(str(run / DEV))}/*.txt"],
            "corpora": [
                {"name": "pairs", "format": "tsv", "path": list(map(str, pairs)), "languages": [code]}
            ],
        },
        "dev": {
            "path": str(run / DEV / "{lang}.txt"),
            "target_path": str(run / DEV / f"{TARGET}.txt"),
            "languages": [code],
        },
    }
    head = _HEAD.format(
        name=languages.name(code),
        code=code,
        pairs=in_a_line(shlex.join(map(str, pairs))),
        checksums=", ".join(map(checksum_file, pairs)),
    )
    return head + yaml.safe_dump(keys, sort_keys=False, allow_unicode=True)


def _check_sides(code: str, pairs: Sequence[Pair]) -> None:
    """Refuse pairs whose first sentences are mostly English, and whose second ones are not; warn of other
    languages, as far as they can be told."""
    model, sides = identifier("py3langid"), list(zip(*pairs[:_IDENTIFIED], strict=True))
    assert model is not None
    if wrong := swapped_sides(sides, (UNSTATED, TARGET), model):
        raise MexmaError(
            wrong,
            f"a line is a sentence in {languages.name(code)}, TAB, its English translation: swap the columns",
        )
    warn_of_languages(sides, (code, TARGET), model)


def _split_off(code: str, dev: Sequence[Pair], others: Sequence[Pair], where: Path) -> None:
    """Write the dev text and its mining set, the gold list last."""
    name = f"{code}-{TARGET}"
    make_folder(where)
    middle = len(others) // 2
    gold = []
    for side, language in enumerate((code, TARGET)):
        sentences = [pair[side] for pair in dev]
        distractors = [pair[side] for pair in (others[:middle], others[middle:])[side]]
        both = sorted(sentences + distractors, key=fold)  # not the translations at the same places
        ids = {sentence: f"{language}-{number}" for number, sentence in enumerate(both, 1)}
        gold.append([ids[sentence] for sentence in sentences])
        _write(where / f"{language}.txt", sentences)
        _write(where / f"{name}.{language}.tsv", [f"{ids[one]}\t{one}" for one in both])
    _write(where / f"{name}.gold.tsv", [f"{source}\t{target}" for source, target in zip(*gold, strict=True)])


def _dev_pairs(recipe: Recipe, bitexts: Sequence[Bitext]) -> tuple[list[Pair], list[Pair], int]:
    """The pairs for dev text, others for the mining set, and the number of all that can be used; one that is
    repeated, in whatever file, counts once.

    Of the pairs that training would take, those with the least hash of their content, if neither sentence
    stands in any other pair, but for case, spaces and punctuation: what is split off is nowhere else.
    """
    most = 2 * (1 + 2 * BESIDE) * DEV_PAIRS
    least: dict[int, Pair] = {}
    hashes = array("Q")
    for bitext in bitexts:
        for pair in _good(recipe, bitext):
            hashes.append(number := pair_hash(*pair, seed=_SEED))
            least[number] = pair
            if len(least) > 2 * most:
                least = {number: least[number] for number in heapq.nsmallest(most, least)}
    least = {number: least[number] for number in heapq.nsmallest(most, least)}
    total = len(np.unique(np.asarray(hashes)))
    if total < FEWEST:
        raise MexmaError(
            f"{total:,} of the pairs can be used, and {FEWEST:,} are the fewest",
            "ten thousand make an encoder of some use; `mexma filter` says what is wrong with pairs",
        )
    wanted = {fold(sentence) for pair in least.values() for sentence in pair}
    # Of the sentences of each side: the one pair that has it, or -1 for several.
    homes: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for bitext in bitexts:
        for _, source, target, _ in bitext.rows():
            number = pair_hash(source, target, seed=_SEED)
            for side, sentence in zip(homes, (source, target), strict=True):
                if (hashed := fold(sentence)) in wanted and side.setdefault(hashed, number) != number:
                    side[hashed] = -1
    alone = [
        pair
        for number, pair in least.items()
        if all(
            homes[one].get(fold(s)) == (number if one == own else None)
            for own, s in enumerate(pair)
            for one in (0, 1)
        )
    ]
    if not alone:
        raise MexmaError(
            f"no pair is left for dev text: of {total:,} different pairs, {len(least):,} were looked at, and "
            "each has a sentence that stands in another pair, too, but for case, spaces and punctuation",
            "add pairs whose sentences stand in no other",
        )
    count = min(DEV_PAIRS, total // 20, len(alone))
    return alone[:count], alone[count : count * (1 + 2 * BESIDE)], total


def _good(recipe: Recipe, bitext: Bitext) -> Iterator[Pair]:
    """The pairs of a corpus that no rule of the recipe drops."""
    rules, rows = pair_rules(recipe.data, bitext.pair), bitext.rows()
    while batch := list(islice(rows, _BATCH)):
        reasons, sources, targets, _ = zip(*batch, strict=True)
        codes = rules.codes(sources, targets).tolist()
        for reason, code, source, target in zip(reasons, codes, sources, targets, strict=True):
            if not reason and not code:
                yield source, target


def _write(path: Path, lines: Iterable[str]) -> None:
    with whole_file(path) as file:
        file.writelines(f"{line}\n".encode() for line in lines)
