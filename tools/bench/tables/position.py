"""Cost and memory by position: the picture of why this exists."""

import functools

import models
import session
from report import Check, Column, Table

NAME = "position"
TITLE = "Position"
ABOUT = (
    "One sequence, bf16: tokens per second at a position, of linear models and of softmax "
    "attention in the same engine; and what the sequence holds: the state of RWKV-7, the KV cache "
    "of the softmax model, both float32.")
BUDGET = 150
COLUMNS = [Column("position"), Column("rwkv7", 1), Column("linear_attn", 1), Column("softmax", 1),
           Column("state, MiB", 1), Column("KV cache, MiB", 1)]

_MIB = 2**20


def needs(quick: bool) -> list[models.Model]:
    if quick:
        return [models.tiny(family) for family in ("rwkv7", "linear_attn", "transformer")]
    return [models.RWKV7, models.LINEAR, models.SOFTMAX]


def measure(bench: session.Session) -> Table:
    positions = (128, 8192) if bench.quick else (128, 512, 2048, 8192, 32768)
    taken = [bench.measure(model.name, functools.partial(_take, bench, model, positions)) or {}
             for model in needs(bench.quick)]
    table = Table(COLUMNS)
    for position in positions:
        of_models = [each.get(str(position), [None, None]) for each in taken]
        table.rows.append([position, *(rate for rate, _ in of_models),
                           *(size and size / _MIB for size in (of_models[0][1], of_models[2][1]))])
    if bench.quick and all(taken):
        first, last = (str(positions[i]) for i in (0, -1))
        for name, each in zip(("rwkv7", "linear_attn"), taken):
            table.checks.append(Check(f"{name}: position {last} against {first}",
                                      each[last][0] / each[first][0], 1 / 3))
        softmax = taken[2]
        table.checks.append(Check(f"softmax: position {first} against {last}",
                                  softmax[first][0] / softmax[last][0], 1.5))
    return table


def _take(bench: session.Session, model: models.Model, positions):
    [directory] = bench.directories.of(model)
    runs = bench.programs.google_benchmark(
        "model_bench", f"/position/{session.any_of(positions)}/",
        min_time=0.05 if bench.quick else 0.5, repetitions=3,
        flags=(f"--model_dir={directory}", "--weights=bf16",
               *(["--threads=1"] if bench.quick else [])))
    return {name.rpartition("/")[2]: [run.cpu_rate if bench.quick else run.rate,
                                      run.counters["state_bytes"]]
            for name, run in runs.items()}
