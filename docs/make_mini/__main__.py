"""Put a trained encoder into the package as `mini`, with its model card.

    python -m docs.make_mini runs/mini --data DIR      (DIR: bible/, mining/, ntrex128/, tatoeba/ below it)

The encoder is that of the run's first phase. It is made smaller: it keeps the tokens that have vectors of
their own, some tokens inside words, and the most important n-grams. Its embeddings are product quantised,
those of n-grams such that words are right, and all other weights are float16. The card's costs are read from
the run's log; its scores are measured with benchmarks/encoder.py on the folder as shipped.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from docs.make_mini.rounding import rounded
from docs.make_mini.smaller import smaller
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.card import Trained, head, write_trained
from mexma_cli.encoder.ngrams import pieces_of
from mexma_cli.evaluation.xsim import xsim
from mexma_cli.languages import name
from mexma_cli.objectives.bag.settings import BagSettings
from mexma_cli.settings.load import load
from mexma_cli.text.lines import read_lines

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from encoder import ntrex_errors  # noqa: E402

MODEL = ROOT / "mexma_cli" / "models" / "mini"
LARGEST = 40_000_000
WORST = 10.0
"""xsim error in percent: languages with less are on the card's list, trained on or not."""
INNER = 10_000
"""Tokens kept that do not begin a word."""
NGRAMS = 435_000
"""N-grams kept, at most."""
PART = 6
"""Numbers of an n-gram's vector that a byte stands for."""

CARD = """{head}
# mini

The encoder that comes with mexma, so that mining can be tried without downloading anything. It is small and
was trained on little text, on a CPU: for real work take a real one, such as `facebook/MEXMA`.

- {count} languages and English: {languages}.
- XLM-R of width {width} and depth {layers}, CLS pooling, {vocabulary:,} Unigram tokens, most of them whole
  words, in lower-case Latin letters without accents (Cyrillic is read as Latin; in Vietnamese accents stay),
  at most {max_tokens} a sentence. Other words are spelled: each is one token, made of {ngrams:,} n-grams of
  letters. Chinese characters, Hiragana and Burmese syllables are tokens, and so are pairs of them.
- {parameters:.1f}M parameters and {numbers:.1f}M numbers for n-grams. Embeddings are product quantised, the
  rest is float16, {megabytes:.1f} MB in all. `mexma` alone reads that; in sentence-transformers,
  `SentenceTransformer(FOLDER, trust_remote_code=True)` has its vectors where mexma is installed, and so has
  `mexma_cli.encoder.sentence_transformer.sentence_transformer("mini")`. Without, that library and
  transformers refuse the folder.
- Trained from nothing by the first phase of `mexma train recipes/mini.yaml`: {steps:,} steps,
  {batches:,} pairs, {minutes:.0f} minutes on {machine}.
- Read as kin of these, without text of its own: {kin}.
- Also trained on, and read with errors of 10% or more: {badly}.

## Text

{pairs:,} sentence pairs with English, all of it public domain, CC0, CC BY or CC BY-SA:

| text | licence | pairs |
| --- | --- | --- |
{corpora}

Every sentence of the demo and of the measured sets below was kept out (`data.exclude` in the recipe).

## Scores

```text
{scores}
```

Printed by `python benchmarks/encoder.py mini --data DIR --languages ...`, with the folder as shipped. The
mining sets are news; the text that it was trained on is not. NTREX-128's Burmese is not in Unicode. xsim
error in percent on the dev part of the Bible: {bible}.

## Limits

It was trained on no other language, and languages with little text here are clearly worse than the others
(see the errors above). A sentence is little more than the bag of its words to it, so word order and negation
weigh next to nothing.
"""
TEXTS = {
    "tatoeba": "[Tatoeba](https://tatoeba.org), from the Tatoeba Challenge's test sets | CC BY 2.0 FR",
    "tatoeba_hbs": "Tatoeba's Croatian, Serbian in both scripts and Bosnian, from there too | CC BY 2.0 FR",
    "tico": "[TICO-19](https://tico-19.github.io), dev | CC0 1.0",
    "stories": "African Storybook and Pratham Books, stories under CC BY | CC BY 4.0",
    "bible": (
        "Bible: Berean Standard Bible (eng), Segond 1910 (fra), Luther 1912 (deu), Diodati 1649 (ita), "
        "Bíblia Portuguesa Mundial (por), Statenvertaling (nld), Synodal (rus), Cornilescu 1924 (ron), "
        "Danish Bible 1931 (dan), Bibelen 1930 (nob), Studentmållagsbibelen 1921 (nno), Kyrkobibeln 1917 "
        "(swe), Bible kralická 1613 (ces), Biblia Gdańska 1881 (pol), Sveta Biblija (hrv), "
        "Daničić-Karadžić (srp), Ohienko (ukr), Károli 1908 (hun), Vamvas 1850 (ell), Pyhä Raamattu 1933/38 "
        "(fin), Londona Biblio (epo), Modern Hebrew Bible (heb), Albanian Bible (als), Smith-Van Dyke (arb), "
        "Pinadayag (ceb), Kougo-yaku 1954/55 (jpn), Korean Revised Version (kor), Sathyavedapusthakam (mal), "
        "Judson 1835 (mya), Ang Biblia 1905 (tgl), Kinh Thánh 1934 (vie), Chinese Union Version (zho); "
        "Gujarati New Testament (guj); La Biblia en Español Sencillo (spa); Vaba kasutusega Uus Testament "
        "(est), Bib Sen An (hat), Budadden Littafi Mai Tsarki (hau), Alkitab Terjemahan Sederhana (ind), "
        "Opna Lifandi Orð (isl), Sanskrit Bible (san), Toleo Wazi Neno (swh) | public domain; guj CC0 1.0; "
        "spa CC BY 4.0; est, hat, hau, ind, isl, san and swh CC BY-SA 4.0"
    ),
}


def scores(encoder: Path, data: Path, languages: Iterable[str]) -> str:
    """What benchmarks/encoder.py prints, without its first line."""
    script = str(ROOT / "benchmarks" / "encoder.py")
    command = [sys.executable, script, str(encoder), "--data", str(data), "--languages", ",".join(languages)]
    printed = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    return "\n".join(printed.stdout.splitlines()[1:])


def errors(encoder: SentenceEncoder, data: Path, languages: Sequence[str]) -> dict[str, float]:
    """xsim error into English in percent: on NTREX-128, or else on the dev part of the Bible.

    NTREX-128's Burmese is written for the font Zawgyi, not in Unicode.
    """
    found, _ = ntrex_errors(encoder, data, [code for code in languages if code != "mya_Mymr"])
    parts = list(read_lines(data / "bible" / "split.txt"))
    english = list(read_lines(data / "bible" / "eng_Latn.txt.gz"))
    for code in languages:
        if code not in found:
            verses = zip(read_lines(data / "bible" / f"{code}.txt.gz"), english, parts, strict=True)
            own, target = zip(*(pair for *pair, part in verses if part == "dev" and all(pair)), strict=True)
            found[code] = xsim(encoder.embed(own), encoder.embed(target)).error_rate
    return found


def main() -> None:
    """Write the folder and its card."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--machine", default="two CPU cores", help="as the card shall call it")
    arguments = parser.parse_args()
    recipe = load(arguments.run / "recipe.yaml")
    phase = recipe.phases[0]
    encoder = SentenceEncoder.load(str(arguments.run / phase.name / "encoder"), "cpu")
    objective = phase.objective
    assert isinstance(objective, BagSettings) and objective.own_tokens
    whole, words = encoder.ngrams, pieces_of(encoder.fast_tokenizer.backend)
    encoder = smaller(encoder, objective.own_tokens, INNER, NGRAMS)
    assert whole is not None and encoder.ngrams is not None
    encoder.ngrams.vectors = rounded(whole, encoder.ngrams, words, PART)
    shutil.rmtree(MODEL)
    encoder.save(MODEL, dtype="pq")
    size = sum(path.stat().st_size for path in MODEL.rglob("*") if path.is_file())
    if size > LARGEST:
        sys.exit(f"{size:,} bytes are more than the {LARGEST:,} that may be shipped")
    kept: dict[str, int] = {}
    pairs: dict[str, int] = {}
    for manifest in Path(recipe.data.store).glob("*/manifest.json"):
        facts = json.loads(manifest.read_text())
        for counts, key in ((kept, facts["name"]), (pairs, facts["source_language"])):
            counts[key] = counts.get(key, 0) + facts["pairs"]
    log = map(json.loads, (arguments.run / "log.jsonl").read_text().splitlines())
    last = [record for record in log if record["phase"] == phase.name][-1]
    config, ngrams = encoder.model.config, encoder.ngrams
    trained = list(dict.fromkeys(code for corpus in recipe.data.corpora for code in corpus.languages))
    news = (path.name.split(".")[0] for path in sorted((arguments.data / "ntrex128").glob("*_*.txt.gz")))
    others = [code for code in news if code not in {*trained, "eng_Latn"}]
    found = errors(SentenceEncoder.load(str(MODEL), "cpu"), arguments.data, [*trained, *others])
    languages = [code for code in found if found[code] < WORST]
    bible = [
        code
        for code in trained
        if code == "mya_Mymr" or not (arguments.data / f"ntrex128/{code}.txt.gz").exists()
    ]
    write_trained(
        MODEL,
        {code: Trained(pairs=pairs.get(code, 0), dev_error=round(error, 2)) for code, error in found.items()},
    )
    card = CARD.format(
        head=head([*languages, "eng_Latn"], "cc-by-sa-4.0"),
        count=len(languages),
        languages=", ".join(f"{name(code)} (`{code}`)" for code in sorted(languages)),
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        vocabulary=config.vocab_size,
        ngrams=len(ngrams.keys),
        max_tokens=encoder.max_tokens,
        parameters=sum(p.numel() for p in encoder.model.parameters()) / 1e6,
        numbers=len(ngrams.keys) * config.hidden_size / 1e6,
        megabytes=size / 1e6,
        minutes=last["seconds"] / 60,
        machine=arguments.machine,
        steps=last["step"],
        batches=last["pairs"],
        badly=", ".join(f"{name(code)} ({found[code]:.1f}%)" for code in trained if code not in languages),
        kin=", ".join(f"{name(code)} ({found[code]:.1f}%)" for code in others if code in languages),
        bible=", ".join(f"{code[:3]} {found[code]:.1f}" for code in bible),
        pairs=sum(kept.values()),
        corpora="\n".join(f"| {TEXTS[corpus]} | {count:,} |" for corpus, count in kept.items()),
        scores=scores(MODEL, arguments.data, trained),
    )
    (MODEL / "README.md").write_text(card, encoding="utf-8")
    print(card)


if __name__ == "__main__":
    main()
