"""Mixers and their forms, one layer each."""

import functools

import models
import session
from report import Column, Table

NAME = "mixers"
TITLE = "Mixers and their forms"
ABOUT = (
    "Microseconds a token, one layer of 768, float32, one thread, by the length of the run.")
BUDGET = 180
_LENGTHS = (64, 256, 1024, 4096, 16384)
COLUMNS = [Column("mixer"), Column("form"), *(Column(f"{length:,}") for length in _LENGTHS)]

_MIXERS = ("linear_attn", "retention", "gla", "delta_net", "gated_delta_net", "mamba2", "rwkv4",
           "rwkv5", "rwkv6", "rwkv7", "softmax_attn")
_FORMS = ("recurrent", "chunkwise", "parallel")


def needs(quick: bool) -> list[models.Model]:
    del quick  # It makes its layers itself.
    return []


def measure(bench: session.Session) -> Table:
    table = Table(COLUMNS)
    for mixer in ("linear_attn", "softmax_attn") if bench.quick else _MIXERS:
        for form in _FORMS:
            if (mixer, form) == ("softmax_attn", "chunkwise"):
                continue  # It has none.
            lengths = [length for length in _LENGTHS
                       if length <= (64 if bench.quick else _longest(mixer, form))]
            taken = bench.measure(f"{mixer}/{form}",
                                  functools.partial(_take, bench, mixer, form, lengths))
            table.rows.append([mixer, form, *(
                None if taken is None else taken.get(str(length), "") for length in _LENGTHS)])
    return table


def _longest(mixer: str, form: str) -> int:
    """Beyond this, all pairs of tokens take minutes."""
    return 4096 if form == "parallel" or mixer == "softmax_attn" else 16384


def _take(bench: session.Session, mixer: str, form: str, lengths):
    runs = bench.programs.google_benchmark(
        "mixer_bench", f"^{mixer}/{form}/{session.any_of(lengths)}$",
        min_time=0.02 if bench.quick else 0.1)
    return {name.rpartition("/")[2]: 1e6 / run.cpu_rate for name, run in runs.items()}
