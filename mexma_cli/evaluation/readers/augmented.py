"""Files of hard negatives for xsim++, as LASER reads them.

There are two: the target's augmented sentences, one a line, and a JSON object from augmented sentence to
`{"src": sentence, "errtype": type}`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.augment import HardNegative
from mexma_cli.evaluation.readers.aligned import AlignedTexts
from mexma_cli.evaluation.readers.common import read_sentences
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import plain_name

log = logging.getLogger(__name__)

MISALIGNED = "misaligned"
"""Type of an error that took another sentence, or another's hard negative."""

MADE_BY = "mexma augment"

HINT = (
    "xsim++'s files for FLORES-200 (github.com/facebookresearch/LASER, tasks/xsimplusplus): "
    "devtest_augmented/eng_Latn_augmented.devtest and eng_Latn_errtype.devtest.json; `mexma augment` makes "
    "such files of any English text"
)
_FORM = 'the published form is {"augmented sentence": {"src": "sentence", "errtype": "type"}, ...}'


@dataclass(frozen=True)
class Augmented:
    """Hard negatives: the lines of the augmented file, and sentence -> (what it was made from, type)."""

    path: Path
    lines: list[str]
    kinds: dict[str, tuple[str, str]]
    own: bool
    """Whether `mexma augment` made them: nothing that is published was measured on these."""

    def kind(self, found: str, wanted: str) -> str:
        """The type of the error of finding one sentence in place of another."""
        source, kind = self.kinds.get(found.strip(), (None, MISALIGNED))
        return kind if source == wanted.strip() else MISALIGNED


def augmented_names(text: Path) -> tuple[str, str]:
    """File names that go with a text: eng_Latn.devtest -> eng_Latn_augmented.devtest and
    eng_Latn_errtype.devtest.json."""
    stem, dot, rest = plain_name(text.name).partition(".")
    return f"{stem}_augmented{dot}{rest}", f"{stem}_errtype{dot}{rest}.json"


def find_augmented(data: AlignedTexts, folder: Path | None) -> Augmented:
    """Read the hard negatives of a target.

    Args:
        folder: Where they are; None: <split>_augmented/ or the data's own folder.

    Raises:
        MexmaError: They are not there, not in the published form, or of another text.
    """
    text = data.source.files[data.target]
    text_name, kinds_name = augmented_names(text)
    here, beside = data.source.folder, f"{data.source.split}_augmented"
    places = [here / beside, here, here.parent / beside, text.parent.parent / beside]
    for place in [folder] if folder else places:
        path, kinds = place / text_name, place / kinds_name
        if path.exists() and kinds.exists():
            return _read(path, kinds, {line.strip() for line in data.lines})
        if path.exists() or kinds.exists():
            there, missing = (path, kinds) if path.exists() else (kinds, path)
            raise MexmaError(f"{missing} is missing beside {there.name}", f"needed: {HINT}")
    where = folder or places[0]
    raise MexmaError(f"{where}: no {text_name} and {kinds_name}", f"needed: {HINT}")


def _read(path: Path, kinds_path: Path, known: set[str]) -> Augmented:
    kinds, own = _read_kinds(kinds_path)
    lines = read_sentences(path)
    strange = [number for number, line in enumerate(lines, 1) if line.strip() not in kinds]
    if len(strange) == len(lines):
        raise MexmaError(
            f"{path}, line 1: neither this nor another line is in {kinds_path}",
            "are the two files of one text?",
        )
    if strange:
        log.warning(
            "%s: %s not in %s (the first is line %s): as errors they count as %s",
            path,
            counted(len(strange), "line is", "lines are"),
            kinds_path.name,
            f"{strange[0]:,}",
            MISALIGNED,
        )
    if not any(source in known for source, _ in kinds.values()):
        first = next(iter(kinds.values()))[0]
        raise MexmaError(
            f"{kinds_path}: no `src` is a sentence of the target; the first is {first!r:.80}",
            "the hard negatives must be of the same text, and the same split",
        )
    return Augmented(path, lines, kinds, own)


def _read_kinds(path: Path) -> tuple[dict[str, tuple[str, str]], bool]:
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
    except UnicodeDecodeError as error:
        raise MexmaError(f"{path}, byte {error.start + 1}: not UTF-8", _FORM) from None
    except json.JSONDecodeError as error:
        where = f"{path}, line {error.lineno}, column {error.colno}"
        raise MexmaError(f"{where}: not JSON ({error.msg})", _FORM) from None
    if not isinstance(content, dict) or not content:
        what = f"a {type(content).__name__}" if not isinstance(content, dict) else "empty"
        raise MexmaError(f"{path}: this is {what}, not an object from sentences to their types", _FORM)
    kinds = {}
    for number, (sentence, entry) in enumerate(content.items(), 1):
        for key in ("src", "errtype"):
            if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
                line = text.count("\n", 0, max(0, text.find(json.dumps(sentence, ensure_ascii=False)))) + 1
                where = f"{path}, line {line}, entry {number:,} ({sentence!r:.60})"
                raise MexmaError(f"{where}: no `{key}` with a string", _FORM)
        kinds[sentence.strip()] = entry["src"].strip(), entry["errtype"]
    return kinds, any(entry.get("made_by") == MADE_BY for entry in content.values())


def augmented_texts(found: Iterable[HardNegative]) -> tuple[str, str]:
    """What stands in both files of `augmented_names`: the published form, with who made them."""
    found = list(found)
    entries = {one.sentence: {"src": one.source, "errtype": one.kind, "made_by": MADE_BY} for one in found}
    lines = "".join(f"{one.sentence}\n" for one in found)
    return lines, json.dumps(entries, ensure_ascii=False, indent=0) + "\n"
