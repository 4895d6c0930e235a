from __future__ import annotations

import tracemalloc
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import BitextFormat, MinedPair, PlainPair, RawText, open_pairs
from mexma_cli.formats.moses import Moses
from mexma_cli.formats.sides import WantedSide, choose_tags
from mexma_cli.formats.tmx import Tmx
from mexma_cli.text.lines import LINE_LIMIT
from mexma_cli.text.pages import STATED

LANG = "{http://www.w3.org/XML/1998/namespace}lang"
LANGUAGES = ("fra_Latn", "zho_Hant")
sentence = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=20)


def document(pairs: list[MinedPair], with_ids: bool = False) -> tuple[ElementTree.Element, int]:
    chunks = list(Tmx().write(pairs, LANGUAGES, with_ids))
    text = "".join(text for (text,), _ in chunks)
    return ElementTree.fromstring(text.encode("utf-8")), sum(changed for _, changed in chunks)


@given(st.lists(st.tuples(sentence, sentence), max_size=4))
def test_every_sentence_comes_back_but_for_what_xml_forbids(pairs: list[tuple[str, str]]) -> None:
    root, changed = document([MinedPair(1.0, *pair) for pair in pairs])
    found = [tuple(seg.text or "" for seg in unit.iter("seg")) for unit in root.iter("tu")]

    def allowed(text: str) -> str:
        return "".join(c for c in text if c in "\t\r" or (c >= " " and c not in "\ufffe\uffff"))

    assert found == [(allowed(a), allowed(b)) for a, b in pairs]
    assert changed == sum(allowed(side) != side for pair in pairs for side in pair)


def test_header_and_units_are_tmx_14() -> None:
    pair = MinedPair(1.25, "a < b & c", 'd "e"', 3, 4, 1, 2, 0.5, 0.25, 0.75)
    root, changed = document([pair], with_ids=True)
    assert (root.tag, root.get("version"), changed) == ("tmx", "1.4", 0)
    header = root.find("header")
    assert header is not None
    needed = {"creationtool", "creationtoolversion", "segtype", "o-tmf", "adminlang", "srclang", "datatype"}
    assert set(header.keys()) == needed and header.get("srclang") == "fr"
    (unit,) = root.iter("tu")
    assert [child.tag for child in unit] == ["prop"] * 8 + ["tuv"] * 2
    properties = {prop.get("type"): float(prop.text or "nan") for prop in unit.iter("prop")}
    assert properties == {
        "x-score": 1.25, "x-source-line": 3, "x-target-line": 4, "x-source-rank": 1, "x-target-rank": 2,
        "x-cosine": 0.5, "x-source-mean": 0.25, "x-target-mean": 0.75,
    }  # fmt: skip
    assert [tuv.get(LANG) for tuv in unit.iter("tuv")] == ["fr", "zh-Hant"]
    (unit,) = document([pair])[0].iter("tu")
    assert [prop.get("type") for prop in unit.iter("prop")] == ["x-score"]


@pytest.mark.parametrize("kind", [Tmx(), Moses()])
def test_sides_that_look_swapped_are_told_of(kind: BitextFormat, caplog: pytest.LogCaptureFixture) -> None:
    """In both formats that name the languages of the sides; all pairs are written none the less."""
    english, french = (
        "Where is the nearest station, please?",
        "Où est la gare la plus proche, s'il te plaît ?",
    )
    pairs = [MinedPair(1.0, english, french)] * 20
    right = list(kind.write(pairs, ("eng_Latn", "fra_Latn")))
    assert caplog.text == ""
    assert len(list(kind.write(pairs, ("fra_Latn", "eng_Latn")))) == len(right) >= 20
    assert "0% of the sources look French, and 100% of the targets: are the sides swapped" in caplog.text
    caplog.clear()
    assert list(kind.write(pairs, ("eng_Latn", "deu_Latn"))) and "swapped" not in caplog.text
    assert "100 % of the targets look French, and German is stated" in caplog.text
    assert list(kind.write([MinedPair(1.0, "7", french)] * 20, ("deu_Latn", "fra_Latn")))
    assert "100 % of the sources look like none of the languages that the identifier knows" in caplog.text
    caplog.clear()
    assert list(kind.write(pairs, ("eng_Latn", "und"))) and caplog.text == ""


def test_no_pairs_are_a_document_too() -> None:
    root, _ = document([])
    assert root.find("body") is not None and not list(root.iter("tu"))


def read(text: str | bytes, languages: tuple[str, str] = ("und", "und"), step: int = 7) -> tuple[Any, ...]:
    data = text.encode() if isinstance(text, str) else text
    pieces = (data[at : at + step] for at in range(0, len(data), step))
    found = Tmx().read(RawText(pieces, "x.tmx"), languages=languages)
    return (*found.languages, *found.pairs)


def units(*bodies: str, head: str = "") -> str:
    inner = "".join(f"<tu>{body}</tu>" for body in bodies)
    return f"{head}<tmx version='1.4'><header/><body>{inner}</body></tmx>"


def tuv(language: str, segment: str, attribute: str = "xml:lang") -> str:
    return f"<tuv {attribute}='{language}'><seg>{segment}</seg></tuv>"


def test_a_segment_that_is_wrapped_over_lines_is_one_line() -> None:
    wrapped = "\n   The garden gate\r\n   is <bpt i='1'>b</bpt>painted green.\n  "
    *_, pair = read(units(tuv("en", wrapped) + tuv("fr", "deux  blancs")), ("en", "fr"))
    assert pair == ("The garden gate is painted green.", "deux  blancs")


def test_other_programs_documents_are_read() -> None:
    doctype = "<?xml version='1.0'?>\n<!DOCTYPE tmx SYSTEM 'tmx14.dtd'>\n"
    first = (
        "<prop type='x-other'>7</prop><note>n</note>"
        + tuv("EN-US", "Press <bpt i='1'>&lt;b></bpt><hi>Start</hi><ept i='1'>&lt;/b></ept> &amp; wait")
        + tuv("fr", "Appuyez", "lang")
    )
    text = units(first, tuv("fr", "Deux") + tuv("en", "Two"), tuv("fr", "seul"), head=doctype)
    wanted = ("eng_Latn", "fra_Latn", ("Press Start & wait", "Appuyez"), ("Two", "Deux"), ("", "seul"))
    assert read(text) == wanted
    for encoding in ("utf-16", "utf-8-sig"):
        assert read(text.replace("<?xml version='1.0'?>\n", "").encode(encoding), step=1) == wanted


def test_sides_of_many_languages_are_stated() -> None:
    text = units(*(tuv("en", f"e{n}") + tuv("fr", f"f{n}") + tuv("de", f"d{n}") for n in range(2)))
    assert read(text, ("deu_Latn", "eng_Latn"))[2:] == (("d0", "e0"), ("d1", "e1"))
    for languages, message in (
        (("und", "und"), "line 1: a unit has en, fr, de; two languages are read"),
        (
            ("spa_Latn", "eng_Latn"),
            "no unit has both spa_Latn and eng_Latn; there are en, fr, de",
        ),
    ):
        with pytest.raises(MexmaError, match=message) as caught:
            read(text, languages)
        assert "--source-lang" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<tmx><body><tu>", "not well-formed XML: no element found"),
        ("<html><body/></html>", "XML, and no TMX: its root is html"),
        (units(tuv("en", "a<b")), "not well-formed XML: not well-formed"),
        (
            units(head="<!DOCTYPE tmx [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]>"),
            "entity &a; is not",
        ),
        (units(head="<!DOCTYPE tmx [<!ENTITY % p SYSTEM 'file:///etc/passwd'>]>"), "the entity &p; is not"),
        (units(tuv("en", "a&nbsp;b"), head="<!DOCTYPE tmx SYSTEM 'tmx14.dtd'>"), "the entity &nbsp; is not"),
        (units(tuv("en", "a&nbsp;b")), "not well-formed XML: undefined entity"),
        (units(tuv("en", "x" * (LINE_LIMIT + 1))), "a segment of more than 1,048,576 characters"),
    ],
)
def test_broken_and_dangerous_documents_are_refused(text: str, message: str) -> None:
    with pytest.raises(MexmaError, match=rf"^x.tmx, line \d+: .*{message}"):
        read(text, step=1 << 16)


def test_memory_does_not_grow_with_the_document() -> None:
    unit = f"<tu>{tuv('en', 'x' * 500)}{tuv('fr', 'y' * 500)}</tu>".encode()
    pieces = chain([b"<tmx><body>"], repeat(unit * 100, 50), [b"</body></tmx>"])
    pairs = Tmx().read(RawText(pieces, "x.tmx"), languages=("und", "und")).pairs
    next(pairs)
    tracemalloc.start()
    assert sum(1 for _ in pairs) == 4999
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20 < len(unit) * 4999


def test_an_encoding_that_expat_lacks_is_decoded() -> None:
    text = units(tuv("ru", "Дом у реки.") + tuv("en", "A house by the river."))
    text = f'<?xml version="1.0" encoding="{{}}"?>\n{text.partition("?>")[2] or text}'
    for encoding in ("koi8-r", "windows-1251", "cp866"):
        *_, pair = read(text.format(encoding).encode(encoding), ("rus_Cyrl", "eng_Latn"))
        assert (pair.source, pair.target) == ("Дом у реки.", "A house by the river.")
    with pytest.raises(MexmaError, match="no encoding is known that is called 'klingon'"):
        read(text.format("klingon").encode(), ("rus_Cyrl", "eng_Latn"))


@pytest.mark.parametrize("declared", ["utf-16", "UTF-16LE", "utf-8", ""])
def test_a_declaration_that_is_not_true(declared: str) -> None:
    """As programs leave it that change the encoding alone, or write white space before it."""
    head = f"\n<?xml version='1.0' encoding='{declared}'?>" if declared else ""
    text = head + units(tuv("fr", "Où ?") + tuv("en", "Where?"))
    for content in (text.encode(), text.encode("utf-8-sig")):
        assert read(content, step=1)[2:] == (("Où ?", "Where?"),), content
    with pytest.raises(MexmaError, match=r"x\.tmx, line \d+: not in (UTF|utf)-8 \(invalid"):
        read(text.encode("latin-1"))


def test_the_encoding_is_stated_where_the_file_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATED, "windows-1252")
    text = units(tuv("fr", "Où – là ?") + tuv("en", "Where?"))
    for content in (text.encode("cp1252"), text.encode("utf-8-sig")):
        assert read(content)[2:] == (("Où – là ?", "Where?"),)


@pytest.mark.parametrize("step", [1, 7, 1 << 16])
def test_characters_that_xml_forbids_are_left_out_and_counted(step: int) -> None:
    text = units(tuv("en", "a\x0bb&#x1F;&#31;c&#38;&#x263A; &amp;#7;") + tuv("fr", "\x01x\uffff"))
    raw = RawText(iter([bytes([byte]) for byte in text.encode()] if step == 1 else [text.encode()]), "x.tmx")
    assert list(Tmx().read(raw, languages=("und", "und")).pairs) == [("abc&☺ &#7;", "x")]
    assert raw.left_out == {"characters that XML forbids": 5}


def test_a_line_end_between_chinese_characters_is_no_space() -> None:
    text = units(tuv("ja", "私は、\n      リンゴが\n 好きです。") + tuv("en", "I like\n apples."))
    assert read(text)[2:] == (("私は、リンゴが好きです。", "I like apples."),)


@pytest.mark.parametrize(
    "begun", [pytest.param("<!-- ", marks=pytest.mark.slow), "<tu><note>", "<tu><tuv xml:lang='en'><prop>"]
)
def test_nothing_without_an_end_is_held(begun: str) -> None:
    pieces = chain([f"<tmx><header/><body>{begun}".encode()], repeat(b"x " * (1 << 20), 40))
    with pytest.raises(MexmaError, match=r"no unit ends in the next 16 MiB|over"):
        list(Tmx().read(RawText(pieces, "a.tmx"), languages=("en", "fr")).pairs)


def regions(*tags: str) -> str:
    """A unit with a segment of each tag, which is the tag and a word."""
    return "".join(tuv(tag, f"{tag} word") for tag in tags)


@pytest.mark.parametrize(
    ("wanted", "tags", "sides"),
    [
        (("en-GB", "en-US"), ("en-GB", "en-US"), ("en-GB", "en-US")),
        (("en-us", "en_gb"), ("en-GB", "en-US"), ("en-US", "en-GB")),
        (("pt-BR", "en"), ("pt-PT", "en-US", "pt-BR"), ("pt-BR", "en-US")),
        (("eng_Latn", "fra"), ("en-GB", "FR-FR"), ("en-GB", "FR-FR")),
        (("en", "fr"), ("en-GB", "en", "fr"), ("en", "fr")),
        (("eng_Latn", "fr"), ("en-GB", "en", "fr"), ("en", "fr")),
        (("en-GB", "fr"), ("en", "fr"), ("en", "fr")),
        (("en", "en-GB"), ("en-GB", "en-US"), ("en-US", "en-GB")),
        (("zh-TW", "en"), ("zh-CN", "zh-Hant", "en"), ("zh-Hant", "en")),
        (("en", "sh"), ("en", "sh"), ("en", "sh")),
        (("en", "hr"), ("en", "sh"), ("en", "sh")),
        (("sh", "en"), ("hr", "en"), ("hr", "en")),
        (("French", "English"), ("English", "French"), ("French", "English")),
        (("x-none", "en"), ("en", "x-none"), ("x-none", "en")),
        (("en", "fr"), ("en-GB", "fr", "en-US"), ("en-GB", "fr")),
        (("en-US", "fr"), ("en-GB", "fr", "en-US"), ("en-US", "fr")),
        (("fr", "und"), ("fr-CA", "fr-FR", "en"), ("fr-CA", "en")),
        (("und", "und"), ("en-GB", "en-US", "fr"), ("en-GB", "fr")),
    ],
)
def test_sides_by_tags(wanted: tuple[str, str], tags: tuple[str, ...], sides: tuple[str, str]) -> None:
    *_, pair = read(units(regions(*tags)), wanted)
    assert pair == tuple(f"{side} word" for side in sides)


@pytest.mark.parametrize(
    ("wanted", "tags", "message"),
    [
        (("sh", "en"), ("hr", "en", "sr"), "a unit has hr and sr, and sh means each of them"),
        (("en", "en"), ("en", "fr"), "en and en mean the same segment, en"),
        (("hr", "sr"), ("sh", "en"), "hr and sr mean the same segment, sh"),
        (("en-GB", "fr"), ("en-US", "fr"), "no unit has both en-GB and fr; there are en-US, fr"),
        (("en-GB", "en"), ("en-GB", "fr"), "no unit has both en-GB and en; there are en-GB, fr"),
        (("en", "ja"), ("English", "Klingon"), "no unit has both en and ja; there are English, Klingon"),
        (("und", "und"), ("en",), "no unit has two languages; there are en"),
        (("und", "und"), (), "no unit has two languages; there are no segments"),
    ],
)
def test_sides_that_tags_do_not_say(wanted: tuple[str, str], tags: tuple[str, ...], message: str) -> None:
    with pytest.raises(MexmaError, match=message) as caught:
        read(units(regions(*tags)), wanted)
    assert caught.value.hint and ", ".join(tags[:1] or ("<seg>",)) in caught.value.hint


def test_languages_that_are_not_stated_are_those_of_the_first_unit_with_two() -> None:
    text = units(regions("de-DE"), regions("de-DE", "fr-FR"), regions("fr-CA", "de"))
    assert read(text) == (
        "deu_Latn",
        "fra_Latn",
        ("de-DE word", ""),
        ("de-DE word", "fr-FR word"),
        ("de word", "fr-CA word"),
    )
    both = units(regions("en-GB", "en-US"), regions("en-US", "en-GB"))
    assert read(both) == ("en-GB", "en-US", *[("en-GB word", "en-US word")] * 2)
    assert read(units(regions("en", "sh")))[:2] == ("eng_Latn", "sh")


def test_one_side_needs_no_other() -> None:
    text = units(regions("en"), regions("en", "fr", "de"), regions("de"))
    assert [pair.source for pair in read(text, ("en", ""))[2:]] == ["en word", "en word", ""]


def test_of_two_regions_every_unit_has_the_one_that_came_first_and_others_are_counted() -> None:
    text = units(
        regions("en-GB", "en-US", "fr"), regions("en-US", "fr", "en-GB", "de"), regions("fr", "en-US")
    )
    for languages in (("en", "fr"), ("und", "und")):
        raw = RawText(iter([text.encode()]), "x")
        pairs = list(Tmx().read(raw, languages=languages).pairs)
        assert pairs == [("en-GB word", "fr word")] * 2 + [("en-US word", "fr word")]
        assert raw.left_out == {
            "segments in another region of a language": 2,
            "segments in other languages": 1,
            "tags of other regions than the first": 1,
        }
    raw = RawText(iter([text.encode()]), "x")
    assert len(list(Tmx().read(raw, languages=("en", "")).pairs)) == 3
    assert raw.left_out == {"segments in another region of a language": 2}


def test_what_is_left_out_is_counted() -> None:
    text = RawText(
        iter([units(regions("en", "fr", "de", "en"), regions("en", "fr"), regions("en", "it")).encode()]), "x"
    )
    pairs = list(Tmx().read(text, languages=("en", "fr")).pairs)
    assert pairs == [("en word", "fr word")] * 2 + [("en word", "")]
    assert text.left_out == {
        "further segments in a language of their unit": 1,
        "segments in other languages": 2,
    }


def test_notes_and_properties_are_counted() -> None:
    theirs = '<prop type="client">A</prop><note>B</note>'
    theirs += '<prop type="x-line">4</prop>'  # a name of `mexma search`, not of pairs
    unit = f'<tu>{theirs}<prop type="x-score">1.5</prop>{tuv("en", "x")}{tuv("fr", "y")}</tu>'
    text = RawText(iter([f"<tmx><header>{theirs}</header><body>{unit}</body></tmx>".encode()]), "x")
    assert [pair[:3] for pair in Tmx().read(text, languages=("en", "fr")).pairs] == [(1.5, "x", "y")]
    assert text.left_out == {"notes and properties": 3}


def test_line_breaks_in_placeholders_are_spaces() -> None:
    segments = (
        "un<ph type='lb'/>deux",
        "un<ph>&lt;br/&gt;</ph>deux<bpt i='1'>&lt;b&gt;</bpt>x",
        "un<ph/>deux",
    )
    found = read(units(*(tuv("fr", segment) + tuv("en", "x") for segment in segments)))[2:]
    assert [pair.source for pair in found] == ["un deux", "un deuxx", "undeux"]


@pytest.mark.parametrize(
    "head",
    [
        "<!-- made by hand\n -->\n",
        "<!DOCTYPE   tmx\n  SYSTEM 'tmx14.dtd'>",
        "<!DOCTYPE\ttmx SYSTEM 'tmx14.dtd'>".replace("\t", "\n"),
        "\n  \n<?xml version='1.0'?>\n",
        "  \t",
        "\ufeff\n",
    ],
)
def test_what_may_stand_before_the_root(tmp_path: Path, head: str) -> None:
    path = tmp_path / "pairs"
    path.write_text(units(regions("en", "fr"), head=head), "utf-8")
    assert open_pairs(path).format == "tmx"
    assert list(open_pairs(path).pairs) == [("en word", "fr word")]


def test_regions_and_unknown_tags_are_written_as_they_are() -> None:
    for tags in (("en-GB", "en-US"), ("eng_Latn", "sh")):
        text = "".join(text for (text,), _ in Tmx().write([PlainPair("a", "b")], tags))
        written = ("en-GB", "en-US") if tags[0] == "en-GB" else ("en", "sh")
        assert read(text)[:2] == tags and all(f'xml:lang="{tag}"' in text for tag in written)


@pytest.mark.parametrize("stated", ["fr_FR.UTF-8", "fr_FR", "fr-FR", "FR-fr"])
@pytest.mark.parametrize("tag", ["fr-FR", "fr_FR.utf8"])
def test_the_name_of_a_locale_is_the_tag_of_its_language_and_country(stated: str, tag: str) -> None:
    assert choose_tags([WantedSide(stated), WantedSide("en")], ["fr-CA", tag, "en"]) == [tag, "en"]
