#!/usr/bin/env python3
"""Measures the tables of docs/PERFORMANCE.md, and writes them as Markdown and JSON.

    make bench                              all tables, about 30 minutes on two cores
    make bench ARGS="decode position"       some
    make bench ARGS="--write-docs"          and put what was measured into docs/PERFORMANCE.md

A run that was cut goes on where it stopped when it is started again at the same commit; --again
measures anew.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import machine
import models
import programs
import report
import session
import tables

_SOURCE = pathlib.Path(__file__).resolve().parents[2]
_DOCUMENT = _SOURCE / "docs" / "PERFORMANCE.md"
_TRACES = "FERMATA_LOAD_TRACES"  # The environment variable that names their directory.


def main() -> int:
    # So that a run that is ended ends its servers.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    options = _options()
    commit = _commit(options.quick)
    options.out.mkdir(parents=True, exist_ok=True)
    stem = options.out / commit
    with tempfile.TemporaryDirectory(prefix="fermata-bench-") as scratch:
        binaries = programs.Programs(options.bin.resolve(), pathlib.Path(scratch))
        bench = session.Session(
            programs=binaries,
            directories=models.Directories(_models(options, pathlib.Path(scratch)), binaries),
            source=_SOURCE,
            quick=options.quick,
            kept=stem.with_suffix(".measured.json"),
            traces=options.traces)
        # What was measured of a tree that has changed since its commit says nothing of this one.
        if bench.kept.exists() and not options.quick and not commit.endswith("-changed"):
            bench.load()
        if options.again:
            for name in options.tables:
                bench.results.pop(name, None)
        session.say("models")
        bench.directories.of(*(model for name in options.tables
                               for model in tables.ALL[name].needs(options.quick)))
        about = {
            "commit": commit,
            "quick": options.quick,
            "machine": machine.describe(),
            "settings": {
                "arguments": sys.argv[1:],
                "binaries": str(binaries.bin),
                "traces": str(options.traces) if options.traces else None,
                "environment": {name: value for name, value in os.environ.items()
                                if name.startswith(("OMP_", "GOMP_", "KMP_", "DNNL_", "ONEDNN_"))},
            },
            "tables": bench.about,
        }
        measured = {}
        for name, table in tables.ALL.items():
            if name in options.tables:
                measured[name] = _measure(bench, table)
            elif name in bench.about:  # Of an earlier run; it has no time for more.
                bench.begin(name, -1)
                measured[name] = table.measure(bench)
            _write(stem, about, measured, bench.failures)
    if options.write_docs:
        report.write_places(_DOCUMENT, about, {
            name: table for name, table in measured.items() if name in options.tables})
    print(report.markdown(about, measured))
    session.say(f"{stem}.md, {stem}.json")
    return _verdict(bench, measured)


def _measure(bench: session.Session, table) -> report.Table:
    session.say(f"{table.NAME}: {table.TITLE}")
    load = machine.load(0.1 if bench.quick else 0.5)
    started, begin = datetime.datetime.now(datetime.timezone.utc), time.monotonic()
    bench.begin(table.NAME, table.BUDGET)
    measured = table.measure(bench)
    missing = measured.missing()
    if missing and not bench.quick:
        measured.notes.append(f"{missing} figures are missing: time was over, or a program failed.")
    if bench.taken or table.NAME not in bench.about:
        bench.about[table.NAME] = {
            "title": table.TITLE,
            "about": table.ABOUT,
            "command": f'make bench ARGS="{table.NAME}"',
            "started": started.isoformat(timespec="seconds"),
            "seconds": time.monotonic() - begin,
            "load": load,
        }
        bench.save()
    return measured


def _write(stem: pathlib.Path, about: dict, measured: dict, failures: list[str]) -> None:
    everything = {**about, "failures": failures, "tables": {
        name: {**about["tables"][name], **table.to_json()} for name, table in measured.items()}}
    stem.with_suffix(".json").write_text(json.dumps(everything, indent=1) + "\n")
    stem.with_suffix(".md").write_text(report.markdown(about, measured))


def _verdict(bench: session.Session, measured: dict[str, report.Table]) -> int:
    wrong = list(bench.failures)
    for name, table in measured.items():
        wrong += [f"{name}: {check.what}: {check.value:.2f}, which is less than {check.least:.2f}"
                  for check in table.checks if not check.ok]
        if not bench.quick:
            continue
        if table.missing() or not table.rows:
            wrong.append(f"{name}: figures are missing")
        wrong += _compare(name, table)
    for line in wrong:
        session.say(f"FAILED {line}")
    return 1 if wrong else 0


def _compare(name: str, table: report.Table) -> list[str]:
    """Whether the document has a place for the table, and no other columns there."""
    place = report.read_place(_DOCUMENT.read_text(encoding="utf-8"), name)
    if place is None:
        return [f"{_DOCUMENT} has no place for {name}"]
    head = table.markdown().splitlines()[0]
    if head not in place.splitlines():
        return [f"{_DOCUMENT}: the columns of {name} are not {head}"]
    return []


def _models(options: argparse.Namespace, scratch: pathlib.Path) -> pathlib.Path:
    """Where made models are: kept, as long as the code that makes them is the same."""
    if options.quick:
        return scratch
    makers = _git("rev-parse", "HEAD:client/make", "HEAD:engine/model/random_weights.cc").split()
    return (options.models or options.out / "models") / "-".join(maker[:8] for maker in makers)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(_SOURCE), *arguments], capture_output=True,
                          text=True, check=False).stdout.strip()


def _commit(quick: bool) -> str:
    name = _git("rev-parse", "--short=12", "HEAD") or "unknown"
    changed = "-changed" if _git("status", "--porcelain", "--untracked-files=no") else ""
    return f"{name}{'-quick' if quick else ''}{changed}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE",
                        help=f"of {', '.join(tables.ALL)}; default all")
    parser.add_argument("--quick", action="store_true",
                        help="tiny models: whether all of it works, in less than a minute")
    parser.add_argument("--again", action="store_true", help="measure anew what was measured")
    parser.add_argument("--write-docs", action="store_true",
                        help="put the tables into docs/PERFORMANCE.md")
    parser.add_argument("--traces", type=pathlib.Path, metavar="DIR",
                        default=os.environ.get(_TRACES),
                        help=f"of arrivals, for `load`; default ${_TRACES}")
    parser.add_argument("--models", type=pathlib.Path, metavar="DIR",
                        help="where made models are kept; default in --out")
    parser.add_argument("--bin", type=pathlib.Path, default=_SOURCE / "build" / "dev" / "bin",
                        metavar="DIR", help="the binaries; default build/dev/bin")
    parser.add_argument("--out", type=pathlib.Path, default=_SOURCE / "build" / "bench",
                        metavar="DIR", help="for COMMIT.md and COMMIT.json; default build/bench")
    options = parser.parse_args()
    unknown = set(options.tables) - set(tables.ALL)
    if unknown:
        parser.error(f"there is no table {', '.join(sorted(unknown))}")
    options.tables = options.tables or list(tables.ALL)
    options.traces = options.traces and pathlib.Path(options.traces)
    return options


if __name__ == "__main__":
    try:
        sys.exit(main())
    except programs.Failed as failure:
        sys.exit(f"FAILED {failure}")
