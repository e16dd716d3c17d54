"""What the tables share while they are measured."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import models
import programs

WEIGHTS = ("f32", "bf16", "int8", "int4")


@dataclasses.dataclass
class Session:
    """One run. What was measured is kept on disk, so that one that was cut can go on."""

    programs: programs.Programs
    directories: models.Directories
    source: pathlib.Path
    quick: bool
    kept: pathlib.Path  # `results` and `about` as JSON.
    traces: pathlib.Path | None = None  # A directory of them.
    # By table: what was measured, by its key, and when and on how busy a machine.
    results: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    about: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    failures: list[str] = dataclasses.field(default_factory=list)
    table: str = ""
    taken: int = 0  # Of the table, in this run.
    _until: float = 0  # When the table's time is over, of the monotonic clock.

    def load(self) -> None:
        kept = json.loads(self.kept.read_text())
        self.results, self.about = kept["results"], kept["about"]

    def save(self) -> None:
        unfinished = self.kept.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({"results": self.results, "about": self.about}))
        unfinished.rename(self.kept)

    def begin(self, table: str, budget: float) -> None:
        self.table = table
        self.taken = 0
        self._until = time.monotonic() + budget

    def measure(self, key: str, take: Callable[[], Any]) -> Any:
        """What `take` returns, which JSON must be able to hold.

        Where it was measured before, that. None when the table's time is over, or when a program
        failed, which is noted.
        """
        results = self.results.setdefault(self.table, {})
        if key in results:
            return results[key]
        if time.monotonic() > self._until:
            return None
        say(f"  {self.table}: {key}")
        try:
            results[key] = take()
        except programs.Failed as failure:
            self.failures.append(f"{self.table}: {key}: {failure}")
            say(f"  failed: {failure}")
            return None
        self.taken += 1
        self.save()
        return results[key]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def any_of(values: Iterable[Any]) -> str:
    """A regular expression that matches one of them."""
    return "(" + "|".join(str(value) for value in values) + ")"


def median(values: Iterable[float | None]) -> float | None:
    """Of those that there are."""
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None
