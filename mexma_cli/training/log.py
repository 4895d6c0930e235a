"""The run's log, one JSON object a line: a resumed run's is that of a run that nothing stopped."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any, Protocol

from mexma_cli.files import fsync_file, whole_file

log = logging.getLogger(__name__)


class Log(Protocol):
    """A logger: it takes the records of a run."""

    def write(self, record: dict[str, Any]) -> None:
        """Take the record of a step."""

    def close(self) -> None:
        """Nothing comes any more."""


def read_record(line: bytes) -> dict[str, Any] | None:
    """A line of a log; None if it is no record."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    known = isinstance(record, dict) and isinstance(record.get("phase"), str)
    return record if known and isinstance(record.get("step"), int) else None


class TrainingLog:
    """Appends records to a JSONL file, each on the disk before a checkpoint of its step is.

    Args:
        path: The file.
        phase: Written into each record.
        from_step: Records of this phase above it are from a run that was killed; they are dropped.
    """

    def __init__(self, path: Path, phase: str, from_step: int) -> None:
        self.phase = phase
        # The last piece is empty, or was cut off by a kill.
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        records = [(line, read_record(line)) for line in lines]
        if damaged := [number for number, (_, record) in enumerate(records, 1) if record is None]:
            log.warning("%s, line %s: damaged, and left out", path, ", ".join(map(str, damaged)))
        with whole_file(path) as file:
            for line, record in records:
                if record and (record["phase"] != phase or record["step"] <= from_step):
                    file.write(line + b"\n")
        self._file = path.open("a", encoding="utf-8")

    def write(self, record: dict[str, Any]) -> None:
        """Append one record; a number that is none (fp16's gradient norm where it overflowed) is null."""
        kept = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in record.items()
        }
        self._file.write(json.dumps({"phase": self.phase} | kept, allow_nan=False) + "\n")
        fsync_file(self._file)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
