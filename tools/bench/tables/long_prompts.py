"""What others wait for while a long prompt is read."""

import functools

import models
import session
from report import Column, Table

NAME = "long_prompts"
TITLE = "Long prompts beside streams"
ABOUT = (
    "What the tokens of 16 streams wait for while a prompt of 2,048 tokens is read, by "
    "`--step_time_target`: milliseconds a step, and seconds until the prompt is read.")
BUDGET = 90
COLUMNS = [Column("model"), Column("target"), Column("step p50"), Column("step p99"),
           Column("prompt, s", 1)]


def needs(quick: bool) -> list[models.Model]:
    return [models.tiny("rwkv7") if quick else models.RWKV7]


def measure(bench: session.Session) -> Table:
    [model] = needs(bench.quick)
    table = Table(COLUMNS)
    for target in (0, 50) if bench.quick else (0, 100, 50, 25):
        taken = bench.measure(f"{model.name}/{target}",
                              functools.partial(_take, bench, model, target))
        table.rows.append([model.name, f"{target} ms" if target else "none",
                           *(taken or [None] * 3)])
    return table


def _take(bench: session.Session, model: models.Model, target: int):
    [directory] = bench.directories.of(model)
    [run] = bench.programs.google_benchmark(
        "scheduler_bench", f"LongPrompt/streams:16/target_ms:{target}/prompt:2048/",
        min_time=0.05 if bench.quick else 1.0,
        environment={"FERMATA_MODEL_DIR": str(directory)}).values()
    return [run.counters["step_p50_ms"], run.counters["step_p99_ms"], run.real_seconds[0]]
