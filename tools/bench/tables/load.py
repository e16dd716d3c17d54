"""Ten thousand sessions under a trace's load, up to saturation and past it."""

from __future__ import annotations

import datetime
import functools
import json
import math
import pathlib
import random

import models
import session
from report import Check, Column, Table

NAME = "load"
TITLE = "More load than there is room for"
ABOUT = (
    "10,000 sessions of a small model (2 layers of 64) that each come back now and then, with "
    "memory for all of them or for a quarter. Requests come when, and are as long as, a trace "
    "says, sped up to a multiple (load) of what the server can complete, which is measured first. "
    "Good: the first token within 2 s, the others every 50 ms on average. Refused: the queue "
    "(`--max_queued=64`) was full. Came back: turns that found their session. Traces are read "
    "from `--traces=DIR` or $FERMATA_LOAD_TRACES: Azure's conversation and code "
    "(azure_llm_2023_conv.csv, azure_llm_2023_code.csv; Patel et al., Splitwise, ISCA 2024) and "
    "Mooncake's (mooncake_conversation_trace_15min.jsonl; Qin et al., FAST'25), which is the long "
    "one; without them one is made up like Azure's conversations.")
BUDGET = 480
COLUMNS = [
    Column("trace"), Column("memory for"), Column("load", 1), Column("offered/s", 1),
    Column("done/s", 1), Column("good/s", 1), Column("refused, %", 1),
    Column("first token p50, ms"), Column("p99, ms"), Column("next p50, ms", 1),
    Column("p99, ms", 1), Column("came back, %"), Column("server, MiB"),
]

# Conversations, and two that are harder: code (long prompts, short answers), and very long prompts.
_FILES = {
    "conversation": "azure_llm_2023_conv.csv",
    "code": "azure_llm_2023_code.csv",
    "long": "mooncake_conversation_trace_15min.jsonl",
}
_QUEUE = 64
_GENEROUS = 8 << 30  # Bytes of memory that hold all sessions.


def needs(quick: bool) -> list[models.Model]:
    del quick  # It is small enough.
    return [models.SMALL]


def measure(bench: session.Session) -> Table:
    table = Table(COLUMNS)
    for name, path in _traces(bench).items():
        thorough = name in ("conversation", "made up")
        loads = (0.5, 2.0) if bench.quick else (0.5, 0.9, 1.5, 4.0) if thorough else (0.9, 2.0)
        run = _Runs(bench, path)
        capacity = bench.measure(f"{name}/capacity", run.capacity)
        each = []
        for memory in ("all", "a quarter") if thorough else ("all",):
            for load in loads:
                taken = capacity and bench.measure(
                    f"{name}/{memory}/{load}",
                    functools.partial(run.figures, capacity, memory, load))
                table.rows.append([name, memory, load, *(taken["row"] if taken else [None] * 10)])
                each.append(taken)
        if bench.quick and all(each):
            table.checks.append(Check(
                "requests done for processor time with more load than there is room for, against "
                "half of it", each[1]["done_for_cpu"] / each[0]["done_for_cpu"], 0.4))
    if "made up" in _traces(bench):
        table.notes.append("The trace is made up: lengths and times as random as those of Azure's "
                           "conversations. `--traces=DIR` names a directory of published ones.")
    return table


class _Runs:
    """Loads of one trace on servers of the small model."""

    def __init__(self, bench: session.Session, trace: pathlib.Path) -> None:
        self._bench = bench
        self._trace = trace
        self._times = _times(trace)
        self._sessions = 1000 if bench.quick else 10000
        self._seconds, self._warmup = (1.2, 0.3) if bench.quick else (12.0, 3.0)

    def capacity(self) -> dict:
        """Requests completed a second while far too many come, and the bytes of a session."""
        rate = 500.0 if self._bench.quick else 100.0
        with self._server(_GENEROUS) as server:
            while True:
                report = self._load(server, rate)
                done = report["throughput"]["requests_per_second"]
                if report["requests"]["failed"] > report["requests"]["sent"] / 3 or rate > 1e4:
                    break
                rate *= 3
        tier = report["server"]["metrics"]["gauges"]['fermata_session_bytes{tier="memory"}']
        return {"rate": done, "session_bytes": tier["peak"] / self._sessions}

    def figures(self, capacity: dict, memory: str, load: float) -> dict:
        """A row beside its first three columns, and what is done for the server's time."""
        quarter = int(capacity["session_bytes"] * self._sessions) // 4
        with self._server(_GENEROUS if memory == "all" else quarter) as server:
            report = self._load(server, load * capacity["rate"])
            return {"row": _row(report),
                    "done_for_cpu": report["requests"]["completed"] / server.cpu_seconds()}

    def _server(self, session_memory: int):
        [directory] = self._bench.directories.of(models.SMALL)
        return self._bench.programs.server(
            f"--model_dir={directory}", f"--session_tiers=memory:{session_memory}",
            f"--max_queued={_QUEUE}", "--log_level=error")

    def _load(self, server, rate: float) -> dict:
        seconds = self._warmup + self._seconds
        # The trace's own pace decides when each comes; its first so many requests fill the time.
        count = min(max(round(rate * seconds), 2), len(self._times) - 1)
        return server.load(
            "--trace", str(self._trace), "--trace-speed", str(self._times[count] / seconds),
            "--sessions", str(self._sessions), "--open-sessions", "--warmup", f"{self._warmup}s",
            "--duration", f"{seconds}s", "--grace", "5s", "--slo-ttft", "2s", "--slo-itl", "50ms")


def _row(report: dict) -> list[float]:
    requests, latency = report["requests"], report["latency"]
    first, following = latency["time_to_first_token"], latency["inter_token"]
    sessions, metrics = report["sessions"], report["server"]["metrics"]
    turns = sessions["resumed_turns"] + sessions["lost"]
    return [
        requests["sent"] / report["seconds"],
        report["throughput"]["requests_per_second"],
        report["goodput"]["requests_per_second"],
        100 * requests["failed"] / max(requests["sent"], 1),
        1000 * first["p50"], 1000 * first["p99"],
        1000 * following["p50"], 1000 * following["p99"],
        100 * sessions["resumed_turns"] / max(turns, 1),
        metrics["gauges"]["process_resident_memory_bytes"]["peak"] / 2**20,
    ]


def _traces(bench: session.Session) -> dict[str, pathlib.Path]:
    if bench.traces and not bench.quick:
        return {name: bench.traces / file for name, file in _FILES.items()
                if (bench.traces / file).exists()}
    path = bench.programs.scratch / "trace.csv"
    if not path.exists():
        _make_trace(path, scale=16 if bench.quick else 1)
    return {"made up": path}


def _make_trace(path: pathlib.Path, scale: int) -> None:
    """Azure's format; medians and ninth deciles of its conversations, over `scale`."""
    draw = random.Random(1)
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    now = datetime.datetime(2023, 11, 16, 18)
    for _ in range(20000):
        now += datetime.timedelta(seconds=draw.expovariate(5.6))
        prompt = min(draw.lognormvariate(math.log(1020), 0.77), 14000) / scale
        answer = min(draw.lognormvariate(math.log(129), 0.93), 1000) / scale
        lines.append(f"{now:%Y-%m-%d %H:%M:%S.%f},{max(round(prompt), 1)},{max(round(answer), 1)}")
    path.write_text("\n".join(lines) + "\n")


def _times(trace: pathlib.Path) -> list[float]:
    """Seconds since the first request of each."""
    lines = trace.read_text(encoding="utf-8").splitlines()
    if lines[0].startswith("{"):
        times = [json.loads(line)["timestamp"] / 1000 for line in lines if line]
    else:
        # Python reads six digits of a second's fraction at most.
        stamps = (line.partition(",")[0][:26].ljust(26, "0") for line in lines[1:] if line)
        times = [datetime.datetime.fromisoformat(stamp).timestamp() for stamp in stamps]
    return [time - times[0] for time in times]
