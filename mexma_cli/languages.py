"""Language codes: FLORES-200 inside; ISO 639, BCP-47, names of locales and FLORES-200 from outside."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from mexma_cli.errors import MexmaError

UNSTATED = "und"
"""The code for a language that nobody stated (ISO 639-2 "undetermined")."""

_TABLE = Path(__file__).with_name("languages.tsv")
_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{4})?(?:[-_](?:[A-Za-z]{2}|[0-9]{3}))?")

_SUBTAGS = re.compile("[-_.@]")
_REGION = re.compile(r"[a-z]{2}|\d{3}")
_LOCALE = re.compile(r"([A-Za-z_-]+)(?:\.[\w-]+)?(?:@(\w+))?")
_MODIFIERS = {"latin": "Latn", "cyrillic": "Cyrl", "devanagari": "Deva", "arabic": "Arab"}
"""Scripts that may stand behind `@` in the name of a locale."""
_SEVERAL = {
    **dict.fromkeys(("sh", "hbs"), ("bos_Latn", "hrv_Latn", "srp_Cyrl", "srp_Latn")),
    **dict.fromkeys(("bh", "bih"), ("bho_Deva", "mag_Deva", "mai_Deva")),
}
"""Codes of several languages of FLORES-200 of which none is meant more than the others."""


@lru_cache(maxsize=1)
def _table() -> tuple[dict[str, str], dict[str, str], dict[str, list[str]], dict[str, tuple[str, ...]]]:
    """FLORES-200 code -> English name; every other spelling (lower case, ``_``) -> FLORES-200 code; and that
    -> the groups of ISO 639-5 that the language belongs to, from the family down, and -> other names."""
    names: dict[str, str] = {}
    aliases: dict[str, str] = {}
    groups: dict[str, list[str]] = {}
    others: dict[str, tuple[str, ...]] = {}
    for row in _TABLE.read_text(encoding="utf-8").splitlines():
        code, english, other, belongs, called = row.split("\t")
        names[code], groups[code] = english, belongs.split()
        others[code] = tuple(filter(None, called.split("; ")))
        aliases[code.lower()] = code
        for alias in other.split():
            aliases[alias] = code
    return names, aliases, groups, others


def codes() -> list[str]:
    """All FLORES-200 codes, sorted."""
    return sorted(_table()[0])


@lru_cache(maxsize=4096)
def resolve(code: str) -> str:
    """The FLORES-200 code that a user's code means.

    ISO 639-1 (``fr``), ISO 639-2/3 (``fra``, ``fre``), macrolanguages (``zho``, ``ara``: the variety that
    FLORES-200 has under that name), BCP-47 (``zh-TW``, ``sr-Latn``) and names of locales (``fr_FR.UTF-8``,
    ``sr_RS@latin``) are accepted. A valid code without a FLORES-200 entry stays what it is (``tlh``,
    ``srp_Latn``), ``und`` means that no language is stated.

    Raises:
        MexmaError: No such language, or a code of several; the hint has the nearest codes, or these.
    """
    tag = _without_locale(code.strip())
    names, aliases, *_ = _table()
    key = tag.replace("-", "_").lower()
    if key == UNSTATED:
        return UNSTATED
    if key in aliases:
        return aliases[key]
    if several := _SEVERAL.get(key.partition("_")[0]):
        listed = ", ".join(f"{one} ({name(one)})" for one in several)
        raise MexmaError(f"{code!r} is the code of several languages", f"name one of {listed}")
    if not _TAG.fullmatch(tag):
        raise _unknown(code)
    found = _from_bcp47(tag.replace("_", "-"), names, aliases)
    if found is None:
        raise _unknown(code)
    return found


def has_region(tag: str) -> bool:
    """Whether a tag or code names a region of its language: ``en-GB``, ``es_419``."""
    return any(_REGION.fullmatch(part) for part in subtags(tag)[1:])


def subtags(tag: str) -> list[str]:
    """The parts of a tag, a code or the name of a locale in lower case: ``sr``, ``rs`` and ``latin`` of
    ``sr_RS@latin``."""
    return _SUBTAGS.split(tag.lower())


def tag_with_region(code: str) -> str:
    """The BCP 47 tag of a code with a region: ``lt-LT`` of ``lt_LT.UTF-8``; empty for other codes."""
    tag = _without_locale(code.strip()).replace("_", "-")
    return tag if _TAG.fullmatch(tag) and has_region(tag) else ""


def bcp47(code: str) -> str:
    """The usual BCP 47 tag of a code: ISO 639-1's code, or else ISO 639-3's, with the script where the
    language is written in several: `tl` of `tgl_Latn`, `ar` of `arb_Arab`, `zh-Hant` of `zho_Hant`."""
    if code == UNSTATED or known(code) != code:  # no language, or a region of one
        return code
    import langcodes  # 10 ms

    base, _, script = code.partition("_")
    short = [alias for alias, meant in _table()[1].items() if len(alias) == 2 and meant.startswith(base)]
    tag = next((one for one in [*short, langcodes.standardize_tag(base)] if known(one) == known(base)), base)
    tag = base if "-" in tag else tag  # Dari (prs) is fa-AF there
    if not script or [one for one in codes() if one.startswith(f"{base}_")] == [code]:
        return tag
    tag = f"{tag}-{script}"
    plain = str(langcodes.Language.get(tag, normalize=False).simplify_script().to_tag())
    return plain if known(plain) == code else tag


def resolve_pair(pair: str | Iterable[str]) -> tuple[str, str]:
    """The FLORES-200 codes of a pair such as ``fra-eng``, or of two codes."""
    codes = pair.strip().split("-", 1) if isinstance(pair, str) else [*pair]
    if len(codes) != 2:
        raise MexmaError(f"{pair!r} is no pair of languages", "name both, as fra-eng")
    return resolve(codes[0]), resolve(codes[1])


def languages_named(called: str) -> list[str]:
    """The languages of a name, in English (``Yoruba``) or in the language itself (``Èdè Yorùbá``), by codes.

    Case, accents and the order of words may differ, and words may be missing if nothing is called so in
    full. A language that is written in several scripts has several codes.
    """
    wanted = _words(called)
    whole = [code for code, known in _names() if wanted in known]
    whole = whole or [resolve(code) for name, code in _registry().items() if name == called.strip().lower()]
    return whole or [code for code, known in _names() if wanted and any(wanted < name for name in known)]


def own_names(code: str) -> tuple[str, ...]:
    """What a language of FLORES-200 is called by its speakers, and by other names in English."""
    return _table()[3].get(code, ())


_APOSTROPHES = re.compile("['`‘’ʻʼʾʿ]")


@lru_cache(maxsize=1)
def _names() -> list[tuple[str, list[frozenset[str]]]]:
    """The FLORES-200 codes, and the words of each name of the language."""
    return [
        (code, list(map(_words, (english, english.partition(" (")[0], *own_names(code)))))
        for code, english in _table()[0].items()
    ]


def _words(called: str) -> frozenset[str]:
    """The words of a name, without accents and apostrophes."""
    plain = _APOSTROPHES.sub("", unicodedata.normalize("NFKD", called).casefold())
    bare = (one for one in plain if not unicodedata.combining(one))
    # Vowel signs (M) are a part of words: `\w` does not have them.
    return frozenset("".join(one if unicodedata.category(one)[0] in "LMN" else " " for one in bare).split())


@lru_cache(maxsize=4096)
def known(code: str) -> str:
    """The code that `resolve` gives; ``und`` for text that is no code of one language."""
    try:
        return resolve(code)
    except MexmaError:
        return UNSTATED


def members(code: str) -> tuple[str, ...]:
    """The FLORES-200 codes that a code of several languages means (``sh``); none for other codes."""
    return _SEVERAL.get(re.split("[-_]", code.strip().lower())[0], ())


def spellings(code: str) -> list[str]:
    """The codes that mean the same language as a user's code: the FLORES-200 code first, then ISO 639's;
    refused if it is none."""
    resolved = resolve(code)
    same = (alias for alias, meant in _table()[1].items() if meant == resolved)
    return [resolved, *(alias for alias in same if alias != resolved.lower())]


def name(code: str) -> str:
    """English name of a language, by any code that `resolve` takes."""
    resolved = resolve(code)
    if resolved == UNSTATED:
        return "not stated"
    names, aliases, *_ = _table()
    if resolved in names:
        return names[resolved]
    base, _, script = resolved.partition("_")
    english = names[aliases[base]] if base in aliases else _registry_name(base)
    return f"{english.partition(' (')[0]} ({script})" if script else english


def script(code: str) -> str | None:
    """ISO 15924 code of a language's script (``Cyrl``), by any code that `resolve` takes; None: not known."""
    base, _, stated = resolve(code).partition("_")
    if stated or base == UNSTATED:
        return stated or None
    import langcodes
    from langcodes.data_dicts import LIKELY_SUBTAGS

    usual = LIKELY_SUBTAGS.get(
        langcodes.standardize_tag(base)
    )  # `maximize` takes English for what is not there
    return usual.split("-")[1] if usual else None


def akin(code: str, among: Iterable[str]) -> list[str]:
    """The languages that are nearest to one by descent, by FLORES-200 codes.

    Those are nearest that have most groups of ISO 639-5 in common with it from the family down, Slavic and
    South Slavic, say, and of them the ones in its script. The family alone, as of German and Hindi, says
    nothing, unless one of the two has no narrower group.
    """
    groups = _table()[2]
    own = groups.get(code, [])
    near: dict[str, tuple[int, bool]] = {}
    for other in among:
        theirs = groups.get(other, [])
        shared = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(own, theirs, strict=False)))
        if shared and (shared > 1 or shared in (len(own), len(theirs))):
            near[other] = shared, script(other) == script(code)
    best = max(near.values(), default=None)
    return [other for other, rank in near.items() if rank == best]


def _without_locale(tag: str) -> str:
    """The language, script and country of a locale's name."""
    found = _LOCALE.fullmatch(tag)
    if found is None or found[1] == tag:
        return tag
    base, _, country = found[1].replace("-", "_").partition("_")
    return "_".join(part for part in (base, _MODIFIERS.get(found[2] or ""), country) if part)


def _from_bcp47(tag: str, names: dict[str, str], aliases: dict[str, str]) -> str | None:
    """Resolve a code outside the table, with the language registry that comes with langcodes."""
    import langcodes  # 10 ms; only odd codes need it

    if not langcodes.tag_is_valid(tag):
        return None
    language = langcodes.Language.get(tag, normalize=False)
    base = (language.language or "").lower()
    if not base or base == UNSTATED or _is_private(base):
        return None
    default = aliases.get(base)
    iso3 = default.partition("_")[0] if default else language.to_alpha3()
    script = language.script
    if script is None and language.territory:
        there, usual = (langcodes.Language.get(code).maximize().script for code in (tag, base))
        script = there if there != usual else None  # zho-TW is written in Hant, sr-ME in Latn, pa-PK in Arab
    return f"{iso3}_{script}" if script else default or iso3


def _is_private(base: str) -> bool:
    """Whether a code is for private use: everybody may give it to any language."""
    return len(base) == 3 and "qaa" <= base <= "qtz"


def _registry_name(base: str) -> str:
    import langcodes
    from langcodes.registry_parser import parse_registry

    wanted = langcodes.standardize_tag(base)
    for entry in parse_registry():
        if entry.get("Type") == "language" and entry.get("Subtag") in (base, wanted):
            return str(entry["Description"][0])
    return base


@lru_cache(maxsize=1)
def _registry() -> dict[str, str]:
    """English names, in small letters, of the languages of BCP-47's registry, and their codes there."""
    from langcodes.registry_parser import parse_registry

    return {
        str(english).lower(): str(entry["Subtag"])
        for entry in parse_registry()
        if entry.get("Type") == "language" and "Scope" not in entry and not _is_private(str(entry["Subtag"]))
        for english in entry["Description"]
    }


def _of_country(code: str) -> list[str]:
    """The most spoken language of a country, whose code (``ua``) is taken for a language's; else none."""
    from langcodes.data_dicts import LIKELY_SUBTAGS

    usual = LIKELY_SUBTAGS.get(f"und-{code.upper()}") if len(code) == 2 else None
    return [resolve(usual)] if usual else []


def _unknown(code: str) -> MexmaError:
    names, aliases, *_ = _table()
    wanted = code.strip().lower().replace("-", "_")
    if _is_private(wanted.split("_")[0]):
        hint = "qaa to qtz mean nothing to others; a language without a code is `und`, also in recipes"
        return MexmaError(f"unknown language code {code!r}", hint)
    by_name = {english.lower(): flores for flores, english in names.items()}
    near = [by_name[hit] for hit in difflib.get_close_matches(wanted, by_name, n=2, cutoff=0.75)]
    if not near and len(wanted) > 3:
        registry = _registry()
        hits = difflib.get_close_matches(wanted, registry, n=2, cutoff=0.85)
        near = [aliases.get(registry[hit], registry[hit]) for hit in hits]
    near += [aliases[hit] for hit in difflib.get_close_matches(wanted, aliases, n=6, cutoff=0.5)]
    near += [aliases[hit] for hit in difflib.get_close_matches(wanted.split("_")[0], aliases, n=6)]
    best = languages_named(code) or list(dict.fromkeys([*_of_country(wanted), *near]))[:3]
    listed = ", ".join(f"{flores} ({name(flores)})" for flores in best)
    hint = f"did you mean {listed}?" if listed else "use an ISO 639 code such as fr or fra, or `und`"
    return MexmaError(f"unknown language code {code!r}", hint)
