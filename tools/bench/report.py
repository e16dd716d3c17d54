"""Tables, as Markdown and as JSON."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import textwrap

import machine

Cell = float | int | str | None


@dataclasses.dataclass(frozen=True)
class Column:
    """A column, and how many digits its numbers have after the point."""

    name: str
    digits: int = 0


@dataclasses.dataclass
class Check:
    """A ratio between our own variants that must not collapse."""

    what: str
    value: float
    least: float

    @property
    def ok(self) -> bool:
        return self.value >= self.least


@dataclasses.dataclass
class Table:
    """Rows of cells: None where a figure could not be measured, "" where none is wanted."""

    columns: list[Column]
    rows: list[list[Cell]] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    checks: list[Check] = dataclasses.field(default_factory=list)

    def missing(self) -> int:
        return sum(cell is None for row in self.rows for cell in row)

    def markdown(self) -> str:
        lines = ["| " + " | ".join(column.name for column in self.columns) + " |",
                 "|" + " --- |" * len(self.columns)]
        for row in self.rows:
            cells = (_format(cell, column) for cell, column in zip(row, self.columns, strict=True))
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def to_json(self) -> dict:
        return {
            "columns": [column.name for column in self.columns],
            "rows": self.rows,
            "notes": self.notes,
            "checks": [{**dataclasses.asdict(check), "ok": check.ok} for check in self.checks],
        }


def _format(cell: Cell, column: Column) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    return f"{cell:,.{column.digits}f}"


def markdown(report: dict, tables: dict[str, Table]) -> str:
    """A whole report; `report` is what its JSON says beside the tables."""
    lines = [
        f"# Benchmarks of {report['commit']}",
        "",
        f"{machine.in_words(report['machine'])}. "
        f"{report['machine']['system']}, governor {report['machine']['governor']}.",
    ]
    for name, table in tables.items():
        about = report["tables"][name]
        busy = about["load"]
        lines += ["", f"## {about['title']}", "", _section(about, table),
                  f"{about['seconds']:.0f} s from {about['started']}; before it the load average "
                  f"was {busy['load_average']}, {busy['busy_cores']} cores were busy"
                  + (f", most with {busy['busiest']['process']}" if busy["busiest"] else "") + "."]
        lines += [f"- {note}" for note in table.notes]
        lines += [f"- {check.what}: {check.value:.2f}, at least {check.least:.2f}"
                  f"{'' if check.ok else ': FAILED'}" for check in table.checks]
    return "\n".join(lines) + "\n"


def _section(about: dict, table: Table) -> str:
    """What it is, the table, and its command."""
    what = textwrap.fill(about["about"], 120, break_on_hyphens=False)
    return f"{what}\n\n{table.markdown()}\n\n    {about['command']}\n"


# A table's place in a document: what is between the two comments is the tool's.
_PLACE = r"(<!-- bench: {name} -->\n)(.*?)(<!-- bench end -->)"


def read_place(document: str, name: str) -> str | None:
    """What stands in a table's place; None where it has none."""
    found = re.search(_PLACE.format(name=re.escape(name)), document, re.DOTALL)
    return found[2] if found else None


def write_places(path: pathlib.Path, report: dict, tables: dict[str, Table]) -> None:
    """Puts each table, what it is and its command into its place, if it has one."""
    document = path.read_text(encoding="utf-8")
    for name, table in tables.items():
        place = re.compile(_PLACE.format(name=re.escape(name)), re.DOTALL)
        section = _section(report["tables"][name], table)
        document = place.sub(lambda found, section=section: f"{found[1]}{section}{found[3]}",
                             document)
    path.write_text(document, encoding="utf-8")
