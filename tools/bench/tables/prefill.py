"""Reading prompts, by length, form and weight type."""

import models
import session
from report import Column, Table

NAME = "prefill"
TITLE = "Prefill"
ABOUT = (
    "Tokens per second of one prompt, by its length and the form in which it is computed "
    "(`--prefill_form`).")
BUDGET = 720
COLUMNS = [Column("model"), Column("prompt"), Column("form"), *map(Column, session.WEIGHTS)]

_FORMS = ("recurrent", "chunkwise")


def needs(quick: bool) -> list[models.Model]:
    if quick:
        return [models.tiny("rwkv7")]
    return [models.RWKV7, models.RWKV7_LARGE, models.RETNET, models.LINEAR]


def measure(bench: session.Session) -> Table:
    lengths = (128,) if bench.quick else (128, 512, 2048, 8192)
    table = Table(COLUMNS)
    for model in needs(bench.quick):
        by_weights = {weights: _rates(bench, model, weights, lengths)
                      for weights in session.WEIGHTS}
        table.rows += [
            [model.name, length, form, *(
                rates and rates[f"{form}/{length}"] for rates in by_weights.values())]
            for length in lengths for form in _FORMS]
    return table


def _rates(bench: session.Session, model: models.Model, weights: str, lengths):
    def take():
        [directory] = bench.directories.of(model)
        runs = bench.programs.google_benchmark(
            "model_bench", f"/prefill_{session.any_of(_FORMS)}/{session.any_of(lengths)}/",
            min_time=0.05 if bench.quick else 0.3,
            flags=(f"--model_dir={directory}", f"--weights={weights}",
                   *(["--threads=1"] if bench.quick else [])))
        return {name.rpartition("/prefill_")[2]: run.cpu_rate if bench.quick else run.rate
                for name, run in runs.items()}

    return bench.measure(f"{model.name}/{weights}", take)
