from __future__ import annotations

import errno
import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mexma_cli import files
from mexma_cli.errors import MexmaError
from mexma_cli.text.writing import Chunk, only_process, write_chunks

LINES: list[Chunk] = [(("un\n",), 0), (("deux\n",), 0)]


SIDES: list[Chunk] = [(("un\n", "one\n"), 0), (("deux\n", "two\n"), 0)]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), RuntimeError("stop")])
def test_what_fails_in_the_middle_leaves_no_half_file(tmp_path: Path, before: bool, error: Exception) -> None:
    paths = [tmp_path / "out.fra.gz", tmp_path / "out.eng.gz"]
    for path in paths if before else []:
        path.write_text("old")

    def chunks() -> Iterator[Chunk]:
        yield ("a\n", "b\n"), 0
        raise error

    with pytest.raises((MexmaError, RuntimeError)) as caught:
        write_chunks(paths, chunks())
    if isinstance(error, OSError):
        assert "out.fra.gz: no space left on the disk" in caught.value.message
        assert "free some space" in caught.value.hint
    assert sorted(tmp_path.iterdir()) == (sorted(paths) if before else [])
    assert not before or [path.read_text() for path in paths] == ["old", "old"]


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_files_get_their_names_together_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool, links: bool
) -> None:
    paths = [tmp_path / "out.fra", tmp_path / "out.eng"]
    for path in paths if before else []:
        path.write_text("old")
    take_name = files._take_name

    def fails_at_the_second(new: Path, final: Path) -> None:
        if final == paths[1]:
            raise OSError(errno.EIO, "broken")
        take_name(new, final)

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(files, "_take_name", fails_at_the_second)
    if not links:
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
        monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(OSError, match="broken"):
        write_chunks(paths, SIDES)
    assert sorted(tmp_path.iterdir()) == (sorted(paths) if before else [])
    assert not before or [path.read_text() for path in paths] == ["old", "old"]
    monkeypatch.undo()
    write_chunks(paths, SIDES)
    assert [path.read_text() for path in paths] == ["un\ndeux\n", "one\ntwo\n"]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_device_that_is_full_is_a_message() -> None:
    with pytest.raises(MexmaError, match="/dev/full: no space left on the disk"):
        write_chunks([Path("/dev/full")], LINES)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    path, link = tmp_path / "out.tsv", tmp_path / "link.tsv"
    code = (
        "import sys, pathlib; from mexma_cli.text.writing import only_process\n"
        "with only_process([pathlib.Path(sys.argv[1])]): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin and holder.stdout and holder.stdout.readline() == "held\n"
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(MexmaError, match=r"out\.tsv\.partial: another process is writing there"):
            only_process([tmp_path / "other.tsv", name]).__enter__()
    assert not (tmp_path / "other.tsv.partial").exists()
    holder.communicate("")
    with only_process([path]):
        assert (tmp_path / "out.tsv.partial").exists()
    assert sorted(tmp_path.iterdir()) == [link]


def test_a_pipe_is_compressed_as_it_is_named(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gz"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_chunks([pipe], LINES)
    packed = os.read(reader, 1 << 16)
    os.close(reader)
    write_chunks([tmp_path / "plain.tsv"], LINES)
    assert gzip.decompress(packed) == (tmp_path / "plain.tsv").read_bytes()
