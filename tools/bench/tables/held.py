"""Whether sessions that rest cost anything but memory."""

import functools

import models
import session
from report import Check, Column, Table

NAME = "held"
TITLE = "Sessions held"
ABOUT = (
    "A small model (2 layers of 64) and 16 clients; each turn, of 16 tokens read and 16 "
    "generated, is of one of so many sessions at random, all in memory: turns per second, "
    "milliseconds a turn, the memory of the server, and what a session takes of "
    "the memory for sessions.")
BUDGET = 90
COLUMNS = [Column("sessions"), Column("turns/s"), Column("p50, ms", 1), Column("p99, ms", 1),
           Column("memory, MiB"), Column("bytes a session")]


def needs(quick: bool) -> list[models.Model]:
    del quick  # It is small enough.
    return [models.SMALL]


def measure(bench: session.Session) -> Table:
    counts = (100, 1000) if bench.quick else (100, 1000, 10000, 50000)
    table = Table(COLUMNS)
    each = []
    for count in counts:
        taken = bench.measure(str(count), functools.partial(_take, bench, count))
        table.rows.append([count, *(taken["row"] if taken else [None] * 5)])
        each.append(taken)
    if bench.quick and all(each):
        table.checks.append(Check(
            f"turns for processor time with {counts[-1]} sessions against {counts[0]}",
            each[-1]["turns_for_cpu"] / each[0]["turns_for_cpu"], 0.3))
    return table


def _take(bench: session.Session, count: int):
    [directory] = bench.directories.of(models.SMALL)
    seconds = 1 if bench.quick else 6
    memory = f"--session_tiers=memory:{8 << 30}"
    with bench.programs.server(f"--model_dir={directory}", memory) as server:
        report = server.load(
            "-c", "16", "--sessions", str(count), "--open-sessions", "--keep-sessions",
            "--prompt-tokens", "16", "-n", "16", "--duration", f"{seconds}s")
        memory, _ = server.memory()
        cpu = server.cpu_seconds()
    tier = report["server"]["metrics"]["gauges"]['fermata_session_bytes{tier="memory"}']["end"]
    latency = report["latency"]["end_to_end"]
    return {
        "row": [report["throughput"]["requests_per_second"], 1000 * latency["p50"],
                1000 * latency["p99"], memory / 2**20, tier / count],
        # The turns that opened the sessions too.
        "turns_for_cpu": (report["requests"]["completed"] + count) / cpu,
    }
