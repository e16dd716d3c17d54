"""What the service costs over the engine, and the engine over the forward pass."""

import functools

import models
import session
from report import Check, Column, Table

NAME = "service"
TITLE = "The service"
ABOUT = (
    "Tokens per second of so many streams together: of the forward pass alone (forward), of the "
    "engine within one process, and through gRPC (service) with the client on the same cores. "
    "Cost is how much less the service gives than the engine, and CPU how much more processor "
    "time a token takes in the server than in the engine; p50 and p99 are the time between tokens "
    "at the client; client is its share of the cores. The rest is of a step of the engine: how "
    "long it takes, and how much of it goes into the forward pass, into choosing tokens, and into "
    "all else (text, stop strings, delivery, queue). Turns are of one token read and 16 to 48 "
    "generated. Medians of three rounds, in each of which all three are measured one after "
    "another.")
BUDGET = 420
COLUMNS = [
    Column("model"), Column("weights"), Column("streams"), Column("forward"), Column("engine"),
    Column("service"), Column("cost, %", 1), Column("CPU, %", 1), Column("p50, ms", 1),
    Column("p99, ms", 1),
    Column("client, cores", 2), Column("step, ms", 1), Column("forward, %", 1),
    Column("choosing, %", 1), Column("rest, %", 1),
]


def needs(quick: bool) -> list[models.Model]:
    return [models.tiny("rwkv7") if quick else models.RWKV7]


def measure(bench: session.Session) -> Table:
    streams = (1, 16) if bench.quick else (1, 8, 64, 128)
    subjects = [(needs(bench.quick)[0], "f32" if bench.quick else "int8")]
    if not bench.quick:
        subjects.append((models.embedded(bench.source), "f32"))
    table = Table(COLUMNS)
    for model, weights in subjects:
        rounds = [bench.measure(f"{model.name}/{weights}/{i}",
                                functools.partial(_round, bench, model, weights, streams))
                  for i in range(1 if bench.quick else 3)]
        for count in streams:
            each = [taken[str(count)] for taken in rounds if taken]
            row = {key: session.median(taken[key] for taken in each)
                   for key in ("forward", "engine", "service", "cost", "cpu", "p50", "p99",
                               "client", "step_ms", "forward_%", "choosing_%", "rest_%")}
            table.rows.append([model.name, weights, count, *row.values()])
            if bench.quick and row["cpu"] is not None:
                table.checks.append(Check(
                    f"{count} streams: tokens for the engine's processor time, against the service",
                    1 / (1 + row["cpu"] / 100), 0.2))
    return table


def _round(bench: session.Session, model: models.Model, weights: str, streams):
    """All three right after one another, so that they meet the same machine."""
    [directory] = bench.directories.of(model)
    seconds, warmup = (1.0, 0.3) if bench.quick else (7.0, 2.0)
    min_time = 0.1 if bench.quick else 1.0
    counts = session.any_of(streams)
    forward = bench.programs.google_benchmark(
        "model_bench", f"/decode/{counts}/", min_time=min_time,
        flags=(f"--model_dir={directory}", f"--weights={weights}"))
    engine = bench.programs.google_benchmark(
        "scheduler_bench", f"Decode/batch:{counts}/", min_time=min_time,
        environment={"FERMATA_MODEL_DIR": str(directory), "FERMATA_WEIGHTS": weights})
    taken = {}
    with bench.programs.server(f"--model_dir={directory}", f"--weights={weights}",
                               f"--max_running={max(streams)}") as server:
        for count in streams:
            # A stream's first step consumes its prompt's one token: every step gives one.
            cpu = server.cpu_seconds()
            report = server.load(
                "-c", str(count), "--prompt-tokens", "1", "-n", "16:48", "--warmup", f"{warmup}s",
                "--duration", f"{warmup + seconds}s", "--grace", "0s")
            of_engine = engine[f"Decode/batch:{count}"]
            cpu = (server.cpu_seconds() - cpu) / report["tokens"]["received"]
            service = report["throughput"]["generated_tokens_per_second"]
            gaps = report["latency"]["inter_token"]
            taken[str(count)] = {
                "forward": forward[f"{directory.name}/{weights}/decode/{count}"].rate,
                "engine": of_engine.rate,
                "service": service,
                "cost": 100 * (1 - service / of_engine.rate),
                "cpu": 100 * (cpu * of_engine.cpu_rate - 1),
                "p50": 1000 * gaps["p50"],
                "p99": 1000 * gaps["p99"],
                "client": report["client"]["cpu_cores"],
                **of_engine.counters,
            }
    return taken
