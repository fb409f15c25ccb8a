"""Formats the figures of scripts/bench as Markdown tables."""
from __future__ import annotations

import os

from bench_figures import Figure, Measurement, Row

# The lines around the figures of a page. The text between them is replaced.
BEGIN = "<!-- Written by scripts/bench --markdown; what is changed here is lost. -->"
END = "<!-- Up to here. -->"
NOT_TAKEN = "not taken"
MAX_REASON = 80  # characters
LOADED = 0.5  # load per core above which the page warns that the machine was busy


def number(value: float, unit: str = "ms") -> str:
    """Formats a number with its significant digits."""
    if unit == "":  # a share
        return f"{value:.3f}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def why(figure: Figure) -> str:
    """Returns the reason why a figure is missing, shortened and without details of a failure."""
    if figure.missing.startswith("failed: "):
        return "failed"
    reason = figure.missing
    return reason if len(reason) <= MAX_REASON else reason[:MAX_REASON] + "…"


def told(figure: Figure, unit: str) -> str:
    """Returns median and range, or the reason why there is none."""
    if figure.median is None:
        return why(figure)
    text = number(figure.median, unit)
    if figure.runs > 1:
        text += f" ({number(figure.least, unit)}–{number(figure.most, unit)})"
    if unit:
        text += f" {unit}"
    if figure.precision:
        text += f", {figure.precision}"
    return text + (f"; {figure.remark}" if figure.remark else "")


def more_is_better(row: Row) -> bool:
    return row.unit == "" or row.unit.endswith("/s")


def times(row: Row, own: Figure, other: Figure) -> float | None:
    """Returns the factor by which dtrain is better, or None if a figure is missing."""
    if own.median is None or other.median is None:
        return None
    quicker = own.median / other.median, other.median / own.median
    return quicker[0] if more_is_better(row) else quicker[1]


def goal_of(row: Row) -> str:
    if row.goal is None:
        return ""
    if row.beside:
        return f"≥ {row.goal:g}×"
    sign = "≥" if more_is_better(row) else "≤"
    return f"{sign} {row.goal:,g} {row.unit}".rstrip() if row.unit != "rows/s" else \
        f"≥ {row.goal:,.0f}/s"


def met(row: Row, value: float) -> bool:
    if row.goal is None:
        return True
    return value >= row.goal if row.beside or more_is_better(row) else value <= row.goal


def measured(row: Row, figures: dict[str, Figure]) -> str:
    """Returns the text beside the goal."""
    none = Figure.none(NOT_TAKEN)
    own = figures.get(row.figure, none)
    if not row.beside:
        text = told(own, row.unit)
        missed = own.median is not None and not met(row, own.median)
        return text + (" (missed)" if missed else "")
    own, other = figures.get(row.own, none), figures.get(row.figure, none)
    ratio = times(row, own, other)
    if ratio is None:
        return why(own) or why(other)
    precision = f", {own.precision}" if own.precision else ""
    return f"{ratio:.2f}×{precision}" + ("" if met(row, ratio) else " (missed)")


def faults(own: Figure, other: Figure) -> str:
    """Returns the page faults per step of both sides."""
    if own.faults is None and other.faults is None:
        return ""
    return " / ".join("?" if side.faults is None else number(max(side.faults, 0)).rstrip("0")
                      .rstrip(".") if side.faults < 100 else f"{side.faults:,.0f}"
                      for side in (own, other))


def table(head: tuple[str, ...], lines: list[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head),
            *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |"
              for line in lines)]


def load_of(taken: dict) -> str:
    """Returns the machine's load before the measurement, a measure of its reliability."""
    return f"{taken['load']:.1f}" if taken else ""


def other_of(row: Row) -> str:
    return f"{row.beside}, {row.allocator}" if row.allocator else row.beside


def beside_others(measurements: list[Measurement], results: dict) -> list[str]:
    lines = []
    none = Figure.none("")
    for measurement in measurements:
        result = results.get(measurement.name, {})
        figures = result.get("figures", {})
        for row in measurement.rows:
            if not row.beside:
                continue
            own, other = figures.get(row.own, none), figures.get(row.figure, none)
            lines.append((
                f"`{measurement.name}`", row.what, other_of(row), goal_of(row),
                measured(row, figures), told(own, row.unit), told(other, row.unit),
                faults(own, other), "" if row.threads is None else str(row.threads),
                load_of(result.get("taken", {}))))
    return table(("name", "what", "beside", "goal", "measured", "dtrain", "the other",
                  "faults a step", "threads", "load"), lines)


def alone(measurements: list[Measurement], results: dict) -> list[str]:
    lines = [
        (f"`{measurement.name}`", row.what, goal_of(row),
         measured(row, results.get(measurement.name, {}).get("figures", {})),
         load_of(results.get(measurement.name, {}).get("taken", {})))
        for measurement in measurements for row in measurement.rows if not row.beside]
    return table(("name", "what", "goal", "measured", "load"), lines)


def described(machine: dict, results: dict) -> str:
    """Describes the machine, its programs and the measured commits."""
    versions = ", ".join(f"{name} {version or 'not installed'}"
                         for name, version in machine["versions"].items())
    commits = sorted({result["taken"]["commit"] for result in results.values()})
    busy = sum(result["taken"]["load"] > LOADED * machine["cores"] for result in results.values())
    text = (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB, "
            f"Linux {machine['kernel']}, {machine['gpu'] or 'no GPU'}; {versions}; dtrain "
            f"{', '.join(commits) or 'not measured'}.")
    if busy:
        text += (f" {busy} of {len(results)} measurements were begun while other programs ran "
                 f"(load above {LOADED * machine['cores']:g}): trust their ratios little.")
    return text


def page(measurements: tuple[Measurement, ...], machine: dict, results: dict) -> str:
    """Returns the tables of all measurements, including those that were not taken."""
    usual = [one for one in measurements if not one.gpu]
    gpu = [one for one in measurements if one.gpu]
    lines = [described(machine, results), "", "### Beside others", "",
             *beside_others(usual, results), "", "### dtrain alone", "", *alone(usual, results),
             "", "### On a GPU", ""]
    if not any(one.name in results for one in gpu):
        lines += ["No GPU figure has been taken yet.", ""]
    return "\n".join([*lines, *beside_others(gpu, results)])


def around(path: str) -> tuple[str, str]:
    """Returns the text before and after the figures of a page, which need not exist."""
    if not os.path.exists(path):
        return "# Benchmarks\n\n", "\n"
    with open(path) as file:
        before, begin, rest = file.read().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path}: no place for figures; add the lines '{BEGIN}' and '{END}'")
    return before, after


def write(path: str, text: str) -> None:
    """Replaces the figures of the page, or creates the page."""
    before, after = around(path)
    with open(path, "w") as file:
        file.write(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
