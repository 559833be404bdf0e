"""Figures of a run: the accuracy matrix as a heat map, and AA after each task."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from delome.errors import one_line
from delome.experiment.folder import RunFolder
from delome.experiment.results import RunResult
from delome.reporting.looks import look_of
from delome.reporting.names import short_name


def write_figures(folder: RunFolder, result: RunResult) -> list[Path]:
    """``accuracy_matrix.png`` (mean over seeds) and ``curve.png``."""
    figures = {"accuracy_matrix.png": accuracy_matrix(result), "curve.png": curve(result)}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a dataset's name may be in any script
        return [folder.write(name, partial(figure.savefig, dpi=150)) for name, figure in figures.items()]


def title(result: RunResult) -> str:
    """Dataset, method and protocol in one line."""
    config = result.config
    budget = "" if config.budget is None else f", {config.budget} rows per class"
    backbone = "" if config.backbone is None else f", {config.backbone.upper()}"
    seeds = f", {len(result.seeds)} seeds" if len(result.seeds) > 1 else ""
    setting = config.parameters["setting"].upper()
    return f"{config.method} on {one_line(short_name(config.dataset))} ({setting}{backbone}{budget}{seeds})"


def accuracy_matrix(result: RunResult) -> Figure:
    """Heat map of the mean over seeds."""
    tasks = len(result.curve)
    values = np.full((tasks, tasks), np.nan)
    for t, row in enumerate(result.matrix.rows):
        values[t, : t + 1] = row
    side = min(max(4.5, 0.45 * tasks + 2), 12)
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, vmin=0, vmax=100, cmap="viridis")
    figure.colorbar(image, label="class-balanced accuracy, %")
    if tasks <= 12:
        digits = 1 if np.nanmax(values) - np.nanmin(values) < 10 else 0  # what colours hardly show
        for t in range(tasks):
            for j in range(t + 1):
                colour = "white" if values[t, j] < 60 else "black"
                axes.text(j, t, f"{values[t, j]:.{digits}f}", ha="center", va="center", color=colour)
    axes.set(xlabel="evaluated task", ylabel="after learning task")
    axes.set_title(title(result), parse_math=False)
    if tasks <= 12:
        axes.set(xticks=range(tasks), yticks=range(tasks))
    return figure


def curve(result: RunResult) -> Figure:
    """AA after each task, with the range over seeds."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    tasks = np.arange(len(result.curve))  # numbered as in the matrix
    curves = np.array([seed.matrix.curve for seed in result.seeds])
    look = look_of(result.config.method)
    axes.plot(tasks, result.curve, color=look.colour, linestyle=look.line, marker=look.marker, markersize=4)
    axes.fill_between(tasks, curves.min(axis=0), curves.max(axis=0), color=look.colour, alpha=0.2)
    axes.set(xlabel="after learning task", ylabel="AA, %", ylim=(0, 102))
    axes.set_title(title(result), parse_math=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    return figure
