"""WARC files as crawlers write them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mexma_cli.commands.split import table
from mexma_cli.errors import MexmaError
from tests.stages.split.test_split import ONE, TWO, out, rows, run

pytest.importorskip("fastwarc")
pytest.importorskip("trafilatura")
__all__ = ["out"]

HTTP = "application/http; msgtype=response"
WORDS = ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"]
SENTENCES = [f"{ONE[:-1]}, la veille des {word} fêtes d’été." for word in WORDS]
PAGE = "<html><body><nav>Accueil</nav><article>{}</article></body></html>".format(
    "".join(f"<p>{sentence}</p>" for sentence in SENTENCES)
)
OK = "HTTP/1.1 200 OK"


def record(
    name: str,
    body: bytes,
    http: str | None = None,
    kind: str = "response",
    type_: str = HTTP,
    end: str = "\r\n",
) -> bytes:
    """A record; `http`: lines of status and headers, joined by newlines."""
    block = ((http + "\n\n").replace("\n", end).encode() if http else b"") + body
    head = [
        "WARC/1.0",
        f"WARC-Type: {kind}",
        f"WARC-Target-URI: http://x/{name}",
        "WARC-Record-ID: <urn:uuid:0>",
        "WARC-Date: 2024-01-01T00:00:00Z",
        f"Content-Type: {type_}",
        f"Content-Length: {len(block)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + block + b"\r\n\r\n"


def chunked(body: bytes) -> bytes:
    parts = [body[start : start + 50] for start in range(0, len(body), 50)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def sentences_by_document(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    lines = path.read_text("utf-8").splitlines()
    for line, (name, _, _) in zip(lines, rows(path.with_name("fra.docs")), strict=True):
        found.setdefault(name.removeprefix("http://x/"), []).append(line)
    return found


def test_what_http_did_to_pages_is_undone(tmp_path: Path, out: Path) -> None:
    page, packed = PAGE.encode(), gzip.compress(PAGE.encode())
    html, sent = f"{OK}\nContent-Type: text/html; charset=utf-8", "\nTransfer-Encoding: chunked"
    warc = [
        record("chunked", chunked(page), html + sent),
        record("lf", chunked(page), html.lower() + sent.upper(), end="\n"),
        record("joined", page, html + sent),
        record("gzip", chunked(packed), f"{html}{sent}\nContent-Encoding: gzip"),
        record("gzip-joined", packed, f"{html}{sent}\nContent-Encoding: gzip"),
        record("upper", page, f"{OK}\ncontent-type: TEXT/HTML"),
        record("no-type", page, OK),
        record("1252", PAGE.encode("cp1252"), f"{OK}\nContent-Type: text/html; Charset='ISO-8859-1'"),
        record("latin-1-in-vain", page, f"{OK}\nContent-Type: text/html; charset=iso-8859-1"),
        record("resource", page, kind="resource", type_="text/html"),
    ]
    (tmp_path / "a.warc.gz").write_bytes(b"".join(map(gzip.compress, warc)))
    run(tmp_path / "a.warc.gz", to=out, off=("duplicate", "boilerplate"))
    names = [
        "chunked",
        "lf",
        "joined",
        "gzip",
        "gzip-joined",
        "upper",
        "no-type",
        "1252",
        "latin-1-in-vain",
        "resource",
    ]
    assert sentences_by_document(out) == dict.fromkeys(names, SENTENCES)


def test_records_of_other_crawlers(tmp_path: Path, out: Path) -> None:
    html = f"{OK}\nContent-Type: text/html"
    clueweb = record("clueweb", PAGE.encode(), html).replace(b"WARC/1.0\r\n", b"WARC/0.18\n")
    head, _, block = clueweb.partition(b"\r\n\r\n")
    warc = [
        head.replace(b"\r\n", b"\n").replace(b"/clueweb", b"/\xff") + b"\n\n" + block,
        record("wget", PAGE.encode(), html).replace(b"http://x/wget", b"<http://x/wget>"),
        record("no-charset", PAGE.encode("cp1252"), html),
        record("gzip-not-said", gzip.compress(PAGE.encode()), html),
        record("folded", PAGE.encode("cp1251", "replace"), f"{html};\n charset=windows-1251"),
    ]
    (tmp_path / "a.warc").write_bytes(b"".join(warc))
    rust = [record(name, PAGE.encode(), html) for name in ("rust", "crate")]
    for name in (b"WARC-Type", b"WARC-Target-URI", b"Content-Length"):
        rust = [line.replace(name, name.lower()) for line in rust]
    (tmp_path / "b.warc").write_bytes(b"".join(rust))
    run(tmp_path / "a.warc", tmp_path / "b.warc", to=out, off=("duplicate", "boilerplate"))
    found = sentences_by_document(out)
    assert list(found)[1:] == ["wget", "no-charset", "gzip-not-said", "folded", "rust", "crate"]
    as_1251 = [sentence.encode("cp1251", "replace").decode("cp1251") for sentence in SENTENCES]
    assert found.pop("folded") == as_1251
    assert all(sentences == SENTENCES for sentences in found.values())


def test_wet_is_text(tmp_path: Path, out: Path) -> None:
    text = f"Accueil du site\n{ONE}\n{TWO}".encode()
    records = [
        record("info", b"isPartOf: CC", kind="warcinfo", type_="application/warc-fields"),
        record("a", text, kind="conversion", type_="text/plain"),
        record("b", text, f"{OK}\nContent-Type: text/plain"),
    ]
    (tmp_path / "a.warc.wet.gz").write_bytes(b"".join(map(gzip.compress, records)))
    run(tmp_path / "a.warc.wet.gz", to=out, off=("duplicate",))
    assert sentences_by_document(out) == {name: ["Accueil du site", ONE, TWO] for name in "ab"}
    places = rows(out.with_name("fra.docs"))
    assert places[1] == ["http://x/a", "16", str(16 + len(ONE))]


def test_error_pages_are_documents_only_if_asked_for(tmp_path: Path, out: Path) -> None:
    html = "\nContent-Type: text/html"
    statuses = {"ok": "200 OK", "part": "206", "moved": "301 Moved", "gone": "404 Not Found", "down": "503"}
    records = [record(name, PAGE.encode(), f"HTTP/1.1 {status}{html}") for name, status in statuses.items()]
    (tmp_path / "a.warc").write_bytes(b"".join(records))
    report = run(tmp_path / "a.warc", to=out, off=("duplicate",))
    assert list(sentences_by_document(out)) == ["ok", "part"]
    assert report.passed_over == {f"responses with HTTP status {status}": 1 for status in (301, 404, 503)}
    assert "passed over   1  responses with HTTP status 404\n" in table(report, {})
    assert json.loads(out.with_name("fra.report.json").read_text())["files_passed_over"] == report.passed_over
    run(tmp_path / "a.warc", to=out, off=("duplicate",), error_pages="true")
    assert list(sentences_by_document(out)) == list(statuses)


def test_reasons_are_said_where_nothing_is_left(tmp_path: Path, out: Path) -> None:
    packed = f"{OK}\nContent-Type: text/html\nContent-Encoding: sdch"
    records = [
        record("a", PAGE.encode(), "HTTP/1.1 404 Not Found\nContent-Type: text/html"),
        record("b", b"\x89PNG", f"{OK}\nContent-Type: image/png"),
        record("c", b"\x89PNG", OK),
        record("d", PAGE.encode(), packed),
        record("e", b"", f"{OK}\nContent-Type: text/html", kind="revisit"),
        record("f", b"GET / HTTP/1.1\r\n\r\n", kind="request"),
    ]
    (tmp_path / "a.warc").write_bytes(b"".join(records))
    with pytest.raises(MexmaError, match="no documents") as caught:
        run(tmp_path / "a.warc", to=out)
    assert caught.value.hint == (
        "passed over: 2 neither HTML nor text, by their types; 1 responses with HTTP status 404; "
        "1 bodies that cannot be unpacked; 1 revisit records"
    )


def test_cut_files_are_refused(tmp_path: Path, out: Path) -> None:
    warc = record("a", PAGE.encode(), f"{OK}\nContent-Type: text/html") * 2
    for name, content in {"a.warc": warc[:-300], "b.warc.gz": gzip.compress(warc)[:-30]}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(MexmaError, match="cut short"):
            run(tmp_path / name, to=out)


def test_pages_that_were_fetched_twice_share_their_ids(tmp_path: Path, out: Path) -> None:
    records = [record(name, PAGE.encode(), f"{OK}\nContent-Type: text/html") for name in ("a", "b", "a")]
    (tmp_path / "a.warc").write_bytes(b"".join(records))
    report = run(tmp_path / "a.warc", to=out, off=("all",))
    assert (report.compared, report.different) == (3, 2)
    (said,) = report.warnings("fra_Latn")
    assert said.startswith("3 documents have 2 different ids") and said.endswith("as one document")
