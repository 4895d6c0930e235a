"""An encoder's model card: README.md, whose head names the languages that the encoder knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from mexma_cli.encoder.loading.modules import is_only_ours
from mexma_cli.encoder.loading.trained import Trained
from mexma_cli.limited_yaml import SIZE, parsed

FILE = "README.md"
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
        facts = parsed(found[1]) if found else None
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
