"""How cost grows with the model."""

import functools

import models
import session
from report import Column, Table

NAME = "size"
TITLE = "Model size"
ABOUT = (
    "RWKV-7, int8: millions of parameters, tokens per second of decoding at batch 1 and 64 and of "
    "a prompt of 512, the state of a sequence, and the most that the process held, loading from "
    "bfloat16 and at work at batch 64.")
BUDGET = 150
COLUMNS = [Column("model"), Column("parameters, M"), Column("decode 1"), Column("decode 64"),
           Column("prefill 512"), Column("state, MiB", 1), Column("peak, MiB")]


def needs(quick: bool) -> list[models.Model]:
    if quick:
        return [models.tiny("rwkv7")]
    return [models.RWKV7, models.RWKV7_LARGE, models.RWKV7_LARGEST]


def measure(bench: session.Session) -> Table:
    table = Table(COLUMNS)
    for model in needs(bench.quick):
        taken = bench.measure(model.name, functools.partial(_take, bench, model))
        table.rows.append([model.name, *(taken or [None] * 6)])
    return table


def _take(bench: session.Session, model: models.Model):
    [directory] = bench.directories.of(model)
    runs = bench.programs.google_benchmark(
        "model_bench", "/(decode/(1|64)|prefill_recurrent/512)/",
        min_time=0.05 if bench.quick else 0.5,
        flags=(f"--model_dir={directory}", "--weights=int8"))
    of = {name.removeprefix(f"{directory.name}/int8/"): run for name, run in runs.items()}
    counters = of["decode/1"].counters
    # A file of bfloat16 has two bytes for each.
    parameters = (directory / "model.safetensors").stat().st_size / 2
    return [parameters / 1e6, of["decode/1"].rate, of["decode/64"].rate,
            of["prefill_recurrent/512"].rate, counters["state_bytes"] / 2**20,
            of["decode/64"].counters["peak_bytes"] / 2**20]
