"""The languages of an encoder, in its folder: the card, README.md, and `languages.json`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, NonNegativeInt

from mexma_cli.encoder.loading.modules import is_only_ours
from mexma_cli.files import read_manifest, write_json_atomic
from mexma_cli.limited_yaml import SIZE, parsed_yaml

FILE = "README.md"
TRAINED = "languages.json"
FORMAT_VERSION = 1
TAGS = ("sentence-similarity", "feature-extraction", "mexma")
_CARD = """\
{head}
# A sentence encoder

Trained with mexma, so that translations have vectors that are near each other. Its languages, as FLORES-200
codes: {codes}.
{table}
FOLDER is where this file is:

```console
$ mexma info FOLDER
$ mexma embed --model FOLDER --lang {lang} text.txt -o text.emb
$ mexma mine --model FOLDER source.txt target.txt -o pairs.tsv
```

With sentence-transformers{why}:

```python
from {module} import {name}

vectors = {name}("FOLDER").encode(["One sentence.", "Another one."])
```
"""
_RULE = "| --- | --- | --- |"
_CODE = re.compile(r"[a-z]{3}(_[A-Z][a-z]{3})?")
_HEAD = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)


class Trained(BaseModel):
    """Training pairs and dev error of one language."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pairs: NonNegativeInt
    """Sentence pairs with a side in it, all that the encoder was trained on; 0: only its error is known."""
    dev_error: float | None = None
    """xsim error on the dev set of its training, in percent; None: the language has none."""


class _Languages(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: int = FORMAT_VERSION
    languages: dict[str, Trained]
    """By FLORES-200 code."""


def read_trained(folder: Path) -> dict[str, Trained]:
    """By FLORES-200 code; nothing if the folder does not say. A damaged file, or a later format, is
    refused."""
    if not (folder / TRAINED).is_file():
        return {}
    return read_manifest(folder / TRAINED, _Languages, FORMAT_VERSION).languages


def write_trained(folder: Path, languages: Mapping[str, Trained]) -> None:
    """Write the file, by FLORES-200 code."""
    content = _Languages(languages=dict(sorted(languages.items())))
    write_json_atomic(folder / TRAINED, content.model_dump(mode="json"))


def head(languages: Iterable[str], license: str | None = None, tags: Iterable[str] = ()) -> str:
    """The head of a card, between lines of `---`, which the Hugging Face hub reads.

    Args:
        languages: FLORES-200 codes. The hub wants ISO 639-3 codes in `language`; `language_details` has the
            scripts, too, as in the cards of NLLB-200.
    """
    listed = sorted(languages)
    facts = {"license": license} if license else {}
    facts |= {"library_name": "mexma", "pipeline_tag": "sentence-similarity"}
    if tags:
        facts["tags"] = f"[{', '.join(tags)}]"
    codes = dict.fromkeys(code.partition("_")[0] for code in listed)
    facts["language"] = f"[{', '.join(codes)}]"
    facts["language_details"] = ", ".join(listed)
    return "".join(["---\n", *(f"{key}: {value}\n" for key, value in facts.items()), "---\n"])


def languages(folder: Path) -> tuple[str, ...]:
    """FLORES-200 codes of the languages that a folder's encoder knows; () if its card names none."""
    try:
        with (folder / FILE).open(encoding="utf-8") as file:
            found = _HEAD.match(file.read(SIZE))
        facts = parsed_yaml(found[1]) if found else None
    except (OSError, ValueError, yaml.YAMLError):  # ValueError: not UTF-8
        return ()
    listed = facts.get("language_details") if isinstance(facts, dict) else None
    codes = listed.replace(",", " ").split() if isinstance(listed, str) else []
    return tuple(codes) if all(map(_CODE.fullmatch, codes)) else ()  # other cards may have names there


def _table(trained: Mapping[str, Trained]) -> str:
    """A row for each language; nothing if there is none."""
    if not trained:
        return ""
    rows = [
        f"| `{code}` | {one.pairs:,} | {'' if one.dev_error is None else f'{one.dev_error:.2f}%'} |"
        for code, one in sorted(trained.items())
    ]
    return "\n".join(["", "| language | sentence pairs | xsim error on its dev set |", _RULE, *rows, ""])


def write(folder: Path, languages: Iterable[str], trained: Mapping[str, Trained]) -> None:
    """Write a card that says what the encoder is for and how it is used.

    Args:
        folder: Has the encoder's files already; they decide how sentence-transformers reads it.
        languages: FLORES-200 codes.
        trained: What is known of them.
    """
    listed = sorted(languages)
    others = [code for code in listed if code != "eng_Latn"] or listed
    name, module, why = "SentenceTransformer", "sentence_transformers", ""
    if is_only_ours(folder):
        name, module = "sentence_transformer", "mexma_cli.encoder.sentence_transformer"
        why = ", through mexma, which knows how these weights and words are kept"
    text = _CARD.format(
        head=head(listed, tags=TAGS),
        codes=", ".join(f"`{code}`" for code in listed),
        table=_table(trained),
        lang=others[0],
        why=why,
        module=module,
        name=name,
    )
    (folder / FILE).write_text(text, encoding="utf-8")
