"""Decoding by batch size and weight type."""

import models
import session
from report import Check, Column, Table

NAME = "decode"
TITLE = "Decoding"
ABOUT = (
    "Tokens per second of all sequences together, by how the weights are held (`--weights`): the "
    "model's forward pass alone.")
BUDGET = 420
COLUMNS = [Column("model"), Column("batch"), *map(Column, session.WEIGHTS)]


def needs(quick: bool) -> list[models.Model]:
    if quick:
        return [models.tiny("rwkv7")]
    return [models.RWKV7, models.RWKV7_LARGE, models.RETNET, models.LINEAR]


def measure(bench: session.Session) -> Table:
    batches = (1, 16) if bench.quick else (1, 2, 4, 8, 16, 32, 64, 128, 256)
    table = Table(COLUMNS)
    for model in needs(bench.quick):
        by_weights = {weights: _rates(bench, model, weights, batches)
                      for weights in session.WEIGHTS}
        for batch in batches:
            table.rows.append([model.name, batch, *(
                rates and rates[str(batch)] for rates in by_weights.values())])
        if bench.quick:
            table.checks = _checks(by_weights)
    return table


def _rates(bench: session.Session, model: models.Model, weights: str, batches):
    def take():
        [directory] = bench.directories.of(model)
        runs = bench.programs.google_benchmark(
            "model_bench", f"/decode/{session.any_of(batches)}/",
            min_time=0.05 if bench.quick else 0.2, repetitions=3,
            flags=(f"--model_dir={directory}", f"--weights={weights}",
                   *(["--threads=1"] if bench.quick else [])))
        # One thread's processor time counts for the quick run, which shares the machine.
        return {name.rpartition("/")[2]: run.cpu_rate if bench.quick else run.rate
                for name, run in runs.items()}

    return bench.measure(f"{model.name}/{weights}", take)


def _checks(by_weights) -> list[Check]:
    # A tiny model's weights stay in the cache, where batches gain least with 4 bits.
    checks = [Check(f"{weights}: batch 16 against batch 1", rates["16"] / rates["1"],
                    0.7 if weights == "int4" else 1.2)
              for weights, rates in by_weights.items() if rates]
    if by_weights["f32"] and by_weights["int8"]:
        checks.append(Check("int8 against f32 at batch 16",
                            by_weights["int8"]["16"] / by_weights["f32"]["16"], 0.5))
    return checks
