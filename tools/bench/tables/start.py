"""What a server takes to start: time and memory."""

import functools
import time

import models
import session
from report import Column, Table

NAME = "start"
TITLE = "Start and memory"
ABOUT = (
    "From the start of the process to its being ready and to the first token that a client has, "
    "in seconds, with the files in the page cache; and the memory that the process then holds, "
    "and has held at most, in MiB.")
BUDGET = 120
COLUMNS = [Column("model"), Column("weights"), Column("ready", 2), Column("first token", 2),
           Column("memory"), Column("peak")]

_MIB = 2**20


def needs(quick: bool) -> list[models.Model]:
    if quick:
        return [models.tiny("rwkv7")]
    return [models.RWKV7, models.RWKV7_LARGE, models.RETNET, models.LINEAR]


def measure(bench: session.Session) -> Table:
    table = Table(COLUMNS)
    for model in needs(bench.quick):
        for weights in ("int8",) if bench.quick else session.WEIGHTS:
            taken = bench.measure(f"{model.name}/{weights}",
                                  functools.partial(_start, bench, model, weights))
            table.rows.append([model.name, weights, *(taken or [None] * 4)])
    return table


def _start(bench: session.Session, model: models.Model, weights: str):
    [directory] = bench.directories.of(model)
    with bench.programs.server(f"--model_dir={directory}", f"--weights={weights}") as server:
        server.command("generate", "--max-new-tokens", "1", "Once")
        first = time.monotonic() - server.started
        memory, peak = server.memory()
    return [server.ready_seconds, first, memory / _MIB, peak / _MIB]
