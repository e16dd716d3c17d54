"""Where a decoding step's time goes, part by part."""

import functools

import models
import session
from report import Column, Table

NAME = "step"
TITLE = "Where a step's time goes"
ABOUT = "Parts of a decoding step: milliseconds, share, what is read, and what is computed."
BUDGET = 90
COLUMNS = [Column("model"), Column("weights"), Column("batch"), Column("part"), Column("ms", 3),
           Column("share, %", 1), Column("GB/s", 1), Column("10⁹ multiply-adds/s")]


def needs(quick: bool) -> list[models.Model]:
    return [models.tiny("rwkv7") if quick else models.RWKV7]


def measure(bench: session.Session) -> Table:
    [model] = needs(bench.quick)
    table = Table(COLUMNS)
    for weights in ("int8",) if bench.quick else ("bf16", "int8"):
        for batch in (1,) if bench.quick else (1, 64):
            taken = bench.measure(f"{model.name}/{weights}/{batch}",
                                  functools.partial(_take, bench, model, weights, batch))
            for row in taken["rows"] if taken else [[None] * 5]:
                table.rows.append([model.name, weights, batch, *row])
            if taken:
                table.notes.append(f"{weights}, batch {batch}: {taken['machine']}")
    return table


def _take(bench: session.Session, model: models.Model, weights: str, batch: int) -> dict:
    [directory] = bench.directories.of(model)
    steps = 5 if bench.quick else 100 if batch == 1 else 30
    output, _ = bench.programs.run(
        "step_bench", f"--model_dir={directory}", f"--weights={weights}", f"--batch={batch}",
        f"--steps={steps}")
    lines = output.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in lines if line.startswith("| ")][2:]  # After the head.
    return {
        "rows": [[part, float(ms), float(share.rstrip(" %")),
                  *(float(cell) if cell else "" for cell in rest)]
                 for part, ms, share, *rest in rows],
        "machine": next(line for line in lines if line.startswith("memory gives")),
    }
