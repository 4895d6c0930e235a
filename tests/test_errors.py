"""What any exception becomes, and what a terminal is shown of it."""

from __future__ import annotations

import errno
import io
import json
import os
from importlib import metadata
from pathlib import Path

import pytest
import torch

from mexma_cli.errors import (
    MexmaError,
    as_ours,
    in_a_line,
    installed_by,
    is_defect,
    is_out_of_memory,
    message_lines,
    visible,
)
from mexma_cli.files import checksum_file, read_json
from mexma_cli.text import writing


def raised(function: object, *arguments: object) -> BaseException:
    with pytest.raises(BaseException) as found:
        function(*arguments)  # type: ignore[operator]
    return found.value


def chained(message: str, cause: BaseException) -> MexmaError:
    """What `except Exception: raise MexmaError(...) from None` raises."""
    try:
        try:
            raise cause
        except type(cause):
            raise MexmaError(message, "get it again") from None
    except MexmaError as error:
        return error


NO_MEMORY = [
    MemoryError(),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
    RuntimeError("could not create a primitive"),
    RuntimeError("can't start new thread"),
    RuntimeError("std::bad_alloc"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    ImportError("x.so: failed to map segment from shared object"),
    Exception("Cannot allocate memory (os error 12)"),
    chained("weights are damaged", MemoryError()),
]


@pytest.mark.parametrize("error", NO_MEMORY, ids=str)
def test_too_little_memory_is_said_whoever_ran_out_of_it(error: BaseException) -> None:
    assert is_out_of_memory(error) and not is_defect(error)
    first, hint = message_lines(error)
    assert first.startswith("error: not enough memory") and "ulimit -v" in hint


def test_what_is_not_memory_stays_what_it_is() -> None:
    damaged = chained("weights.pt is damaged", RuntimeError("unexpected end"))
    limited = chained("--memory 1M is too little", MemoryError())
    for error in (damaged, limited):
        assert as_ours(error) is error and not is_out_of_memory(error)


def test_a_failing_disk_is_reported_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system does not say which file it was that could not be read, written or mapped."""
    path = tmp_path / "a.txt"
    path.write_text("{}")

    class Broken:
        def __init__(self) -> None:
            self._path = path

        def update(self, block: bytes) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("xxhash.xxh3_128", Broken)
    assert message_lines(raised(checksum_file, path))[0] == f"error: {path}: Input/output error"
    monkeypatch.setattr(Path, "read_bytes", lambda path: Broken().update(b""))
    assert message_lines(raised(read_json, path))[0] == f"error: {path}: Input/output error"


def test_a_disk_that_fails_at_the_end_of_a_compressed_file_is_reported_with_it(tmp_path: Path) -> None:
    """The library's file is closed by then, and has no name any more."""

    class Failing(io.BytesIO):
        name = str(tmp_path / "a.txt.zst")

        def write(self, _: object) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def written() -> None:
        with writing._compressed(Failing(), tmp_path / "a.txt.zst") as out:
            out.write(b"a")

    assert message_lines(raised(written))[0] == f"error: {Failing.name}: Input/output error"


def test_a_full_stdout_is_not_blamed_on_the_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(path: Path) -> bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "read_bytes", full)
    assert message_lines(raised(read_json, tmp_path))[0] == "error: No space left on device"


def test_a_name_that_is_not_utf_8_cannot_be_written_as_text() -> None:
    error = raised("/data/fra\udcff.txt".encode)
    said = "error: '/data/fra\\udcff.txt' is no Unicode, and cannot be written in UTF-8"
    assert message_lines(error) == [said, "hint: rename the file, or clean the text"] and not is_defect(error)


def test_a_defect_says_where_it_is_and_with_which_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Path, "read_bytes", lambda path: 1 // 0)
    first, hint = message_lines(raised(read_json, tmp_path / "a"))
    assert first.startswith(f"error: {tmp_path}/a: ZeroDivisionError in mexma_cli.files, line ")
    assert first.endswith(": integer division or modulo by zero") and "MEXMA_DEBUG=1" in hint


def test_a_terminal_obeys_no_text() -> None:
    hostile = "a\x1b[31m\x9b2J\x07\r\x7f\u202eb\u2066\u2028"
    shown = "a\\u001b[31m\\u009b2J\\u0007\\u000d\\u007f\\u202eb\\u2066\\u2028"
    assert visible(hostile) == shown
    assert json.loads(f'"{visible(hostile)}"') == hostile
    assert visible("שלום \u200f\tسلام\n") == "שלום \u200f\tسلام\n"
    assert in_a_line("a\nhint: b") == "a\\nhint: b"
    error = MexmaError(f"{hostile}\nerror: more", f"{hostile}\nthe layouts")
    assert message_lines(error) == [f"error: {shown}\\nerror: more", f"hint: {shown}", "the layouts"]


@pytest.mark.usefixtures("short_messages")
@pytest.mark.parametrize(
    "message", ["word " * 100 + "end", "/data/" + "d" * 400 + "/eng.emb: no rows", "é" * 900]
)
def test_a_long_message_loses_its_middle(message: str) -> None:
    (line,) = message_lines(MexmaError(message))
    assert len(line) == 299 and line.count("…") == 1
    assert line.startswith(f"error: {message[:100]}") and line.endswith(message[-100:])
    assert message_lines(MexmaError(message[:292])) == [f"error: {message[:292]}"]


@pytest.mark.usefixtures("short_messages")
def test_both_names_in_a_long_message_stay_recognisable() -> None:
    one, other = f"/runs/{'a' * 300}/fra.emb", f"/runs/{'b' * 300}/eng.emb"
    (line,) = message_lines(MexmaError(f"{one} and {other} have vectors of different encoders"))
    assert len(line) == 299 and line.endswith("/eng.emb have vectors of different encoders")
    assert "/runs/aaa" in line and "aaa/fra.emb and /runs/bbb" in line


def test_an_extra_is_installed_from_the_checkout_where_nothing_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    assert installed_by("plot").startswith("pip install 'matplotlib>=")
    monkeypatch.setattr(metadata, "requires", unknown)
    assert installed_by("plot") == "pip install '.[plot]'"
