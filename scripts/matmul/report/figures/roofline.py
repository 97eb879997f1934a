"""Figures of what limits a product: the roofline, and the card's clock, power and temperature."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from matmul.dataset.tables import POINT
from matmul.operations import OPERATIONS, shape_of
from matmul.report.facts.executed_rates import unit_peak
from matmul.report.facts.traffic import asked, intensity, least
from matmul.report.figures import style
from matmul.report.figures.figure_base import (
    NothingToDraw,
    each_figure,
    figure,
    gpu_compared,
    kernel_lines,
    look,
    name_lines,
)
from matmul.report.figures.style import Look
from matmul.report.selection import Results, fastest, few, squares, state_absence

MEMORY = "copy"  # in ceilings.csv
STATES = {
    "sm_clock_mhz": ("SM clock in MHz", "clock_mhz", "highest clock"),
    "power_w": ("power in W", "power_limit_w", "power limit"),
    "temperature_c": ("temperature in °C", None, ""),
}
LIMIT = Look(style.INK, "", (0, (6, 2)))


def intensities(results: Results, rows: pd.DataFrame) -> list[float]:
    """The operations per byte of each row's product. If the catalogue does not say how a kernel
    reads, as for a library, it counts as if it moved each matrix once, which is the minimum."""
    found = []
    for row in rows.itertuples():
        shape = shape_of(row)
        wanted = asked(results.ran(row), shape) or least(shape, row.dtype)
        found.append(intensity(wanted, shape).value)
    return found


@dataclass(frozen=True)
class Roof:
    """The limit of one kind of unit: its name, and the rate in the figure's unit."""

    name: str
    rate: float
    measured: bool

    @property
    def words(self) -> str:
        return f"{self.name}{'' if self.measured else ', by clock'}: {self.rate:.3g}"

    @property
    def look(self) -> Look:
        return Look(style.INK, "", "-" if self.measured else LIMIT.dashes)


def ceilings(results: Results) -> dict[str, float]:
    """The measured ceilings by name, in TFLOP/s and GB/s."""
    measured = results.ceilings[results.ceilings.status == "ok"]
    return dict(zip(measured.name, measured.value, strict=True))


def roofs_of(results: Results, per_tflops: float) -> list[Roof]:
    """The limits of the units that the operation may use, computed from their number and clock if
    they were not measured but are known."""
    found = ceilings(results)
    roofs = []
    for name, words in results.product.units.items():
        peak = unit_peak(results, name)
        if value := found.get(name) or (peak and peak.value):
            roofs.append(Roof(words, value * per_tflops, name in found))
    return roofs


def not_measured(results: Results) -> list[str]:
    """The ceilings of the operation's roofline that the data set lacks, in words."""
    wanted = {MEMORY: "memory"} | dict(results.product.units)
    return [words for name, words in wanted.items() if name not in ceilings(results)]


@each_figure("Roofline")
def roofline(results: Results) -> Figure:
    """Rate by arithmetic intensity at one size, below the limits of memory and units."""
    rows, unit, per_tflops = gpu_compared(results)
    rows = rows.assign(intensity=intensities(results, rows))
    roofs = roofs_of(results, per_tflops)
    made, (ax,) = style.panels(height=4.2)
    drawn = kernel_lines(ax, results, rows, "rate", over="intensity")
    ax.set_xscale("log")
    style.log_values(ax)
    ax.xaxis.set_major_formatter(lambda value, _: style.plain(value))
    # Room for the memory's slope at the left, and for the libraries' names at the right.
    ax.set_xlim(rows.intensity.min() / 5, rows.intensity.max() * 600)
    highest = max([roof.rate for roof in roofs] + [rows.rate.max()])
    ax.set_ylim(rows.rate.min() / 3, 1.8 * highest)
    ax.set_xlabel(f"operations per byte, at n = {rows.n.iloc[0]}")
    ax.set_ylabel(f"rate in {unit}")
    draw_roofs(ax, roofs, ceilings(results).get(MEMORY), per_tflops)
    if missing := not_measured(results):
        ax.set_title(f"not measured: {', '.join(missing)}", loc="left")
    titles = {kernel: results.title(kernel) for kernel in drawn}
    looks = {kernel: look(results, kernel) for kernel in drawn}
    style.label_points(ax, titles, looks, below=highest if roofs else ax.get_ylim()[1])
    return made


def draw_roofs(ax: Axes, roofs: Sequence[Roof], gigabytes: float | None, per_tflops: float) -> None:
    """The units' rates, named at their ends, and below the highest the slope of the memory
    bandwidth in GB/s, if that is known."""
    (left, right), bottom = ax.get_xlim(), ax.get_ylim()[0]
    slope = (gigabytes or 0) / 1e3 * per_tflops  # rate per operation and byte
    for roof in roofs:
        start = roof.rate / slope if slope else left
        style.draw_line(ax, [start, right], [roof.rate] * 2, roof.look, roof.words)
    style.label_ends(
        ax, {roof.words: roof.words for roof in roofs}, {roof.words: roof.look for roof in roofs}
    )
    if slope and roofs:
        low, high = max(left, bottom / slope), max(roof.rate for roof in roofs) / slope
        ax.plot([low, high], [low * slope, high * slope], color=style.INK, linewidth=1.5)
        ax.annotate(f"memory: {gigabytes:.0f} GB/s", (low, low * slope), xytext=(16, 5),
                    textcoords="offset points", fontsize=style.SMALL_TEXT)  # fmt: skip


@figure(None, "Clock, power and temperature of the card, by size", one_cache=False)
def clocks(results: Results) -> Figure:
    """The card's state during hot launches of square products, a row of panels per operation."""
    found = {operation: states(results.of(operation)) for operation in OPERATIONS}
    found = {operation: rows for operation, rows in found.items() if len(rows)}
    if not found:
        reason = state_absence(results.device)
        if not results.device.get("gpu"):
            reason = results.gpu_absence()
        raise NothingToDraw(f"The card's state is not known ({reason}).")
    known = [name for name in STATES if any(rows[name].notna().any() for rows in found.values())]
    made, grid = style.panel_rows(len(found), len(known))
    for row, (axes, (operation, rows)) in enumerate(zip(grid, found.items(), strict=True)):
        own = results.of(operation)
        drawn = [draw_state(ax, own, rows, name) for ax, name in zip(axes, known, strict=True)]
        for ax, name in zip(axes, known, strict=True):
            ax.set_title(STATES[name][0] if row == 0 else "", loc="left")
        axes[0].set_ylabel(f"{own.product.title}, {own.product.dtype}")
        name_lines(axes, own, drawn)
    return made


def states(results: Results) -> pd.DataFrame:
    """The card's states while the fastest variants of a few kernels computed square products."""
    timed = few(results, squares(fastest(results.timed())))
    during = results.states[results.states.when == "during"]
    key = ["variant", *POINT, "cache"]
    rows = during.merge(timed[["kernel", *key]], on=key)
    return squares(rows.dropna(subset=list(STATES), how="all"))


def draw_state(ax: Axes, results: Results, rows: pd.DataFrame, name: str) -> list[str]:
    """Draw one of STATES over size, below its limit if that is known; return the kernels."""
    _, fact, words = STATES[name]
    drawn = kernel_lines(ax, results, rows.dropna(subset=[name]), name)
    style.size_axis(ax, rows.n)
    if fact and (limit := results.device.get(fact)):
        ax.axhline(limit, color=style.INK, linewidth=0.9, linestyle=LIMIT.dashes)
        ax.annotate(f"{words}: {limit:.0f}", (0.02, limit), xytext=(0, 2), va="bottom",
                    xycoords=("axes fraction", "data"), textcoords="offset points",
                    bbox=style.PAPER, fontsize=style.SMALL_TEXT)  # fmt: skip
        ax.set_ylim(top=max(ax.get_ylim()[1], limit * 1.05))
    return drawn
