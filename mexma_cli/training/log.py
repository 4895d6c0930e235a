"""The run's log, one JSON object a line: a resumed run's is that of a run that nothing stopped."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Protocol

from mexma_cli.files import fsync_file, whole_file


class Log(Protocol):
    """What takes the records of a run."""

    def write(self, record: dict[str, Any]) -> None:
        """Take the record of a step."""

    def close(self) -> None:
        """Nothing comes any more."""


class TrainingLog:
    """Appends records to a JSONL file, each on the disk before a checkpoint of its step is.

    Args:
        path: The file.
        phase: Written into each record.
        from_step: Records of this phase above it are from a run that was killed; they are dropped.
    """

    def __init__(self, path: Path, phase: str, from_step: int) -> None:
        self.phase = phase
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        with whole_file(path) as file:
            file.writelines(line.encode("utf-8") + b"\n" for line in lines if self._keeps(line, from_step))
        self._file = path.open("a", encoding="utf-8")

    def _keeps(self, line: str, from_step: int) -> bool:
        try:
            record = json.loads(line)
        except ValueError:
            return False  # cut off by a kill
        return record["phase"] != self.phase or record["step"] <= from_step

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
