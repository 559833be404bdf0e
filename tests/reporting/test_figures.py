from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from delome.experiment import RunConfig, RunFolder, RunResult, SeedResult, TaskResult
from delome.reporting.figures import accuracy_matrix, curve, title, write_figures

MATRICES = [[[90.0], [80.0, 70.0], [60.0, 65.0, 95.0]], [[100.0], [60.0, 90.0], [40.0, 85.0, 85.0]]]


def result_of(*matrices: list[list[float]], dataset: str = "digits", method: str = "delome") -> RunResult:
    config = RunConfig.resolve(dataset, method, seeds=len(matrices))
    return RunResult(
        config,
        [SeedResult(seed, [TaskResult(row, row, row, row) for row in rows]) for seed, rows in enumerate(matrices)],
        {},
        {},
    )


def stream_of(tasks: int) -> list[list[float]]:
    return [[float(t + j) for j in range(t + 1)] for t in range(tasks)]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_both_pictures_are_written_and_can_be_opened(tmp_path: Path) -> None:
    written = write_figures(RunFolder(tmp_path), result_of(*MATRICES))
    assert written == [tmp_path / "accuracy_matrix.png", tmp_path / "curve.png"]
    assert sorted(tmp_path.iterdir()) == sorted(written)
    for picture in written:
        pixels = imread(picture)
        assert min(pixels.shape[:2]) >= 400
        assert pixels[..., :3].std() > 0.01, "the picture is empty"


def test_the_heat_map_holds_the_mean_over_seeds_and_nothing_of_the_future() -> None:
    shown = accuracy_matrix(result_of(*MATRICES)).axes[0].images[0].get_array()
    assert shown is not None
    expected = np.array([[95, np.nan, np.nan], [70, 80, np.nan], [50, 75, 90]])
    np.testing.assert_allclose(np.ma.filled(shown, np.nan), expected, atol=1e-9)


def test_the_colours_of_two_runs_can_be_compared() -> None:
    for matrix in MATRICES:
        assert accuracy_matrix(result_of(matrix)).axes[0].images[0].get_clim() == (0, 100)


def test_every_cell_of_a_short_stream_shows_its_number() -> None:
    assert texts(accuracy_matrix(result_of(*MATRICES))) == ["95", "70", "80", "50", "75", "90"]


def test_a_long_stream_shows_colours_only() -> None:
    assert len(texts(accuracy_matrix(result_of(stream_of(12))))) == 78
    assert texts(accuracy_matrix(result_of(stream_of(13)))) == []


def test_a_long_stream_still_fits_on_a_page(tmp_path: Path) -> None:
    figure = accuracy_matrix(result_of(stream_of(40)))
    assert max(figure.get_size_inches()) <= 13


def test_the_curve_is_the_mean_over_seeds_after_each_task() -> None:
    (line,) = curve(result_of(*MATRICES)).axes[0].lines
    assert line.get_xdata().tolist() == [0, 1, 2]
    np.testing.assert_allclose(np.asarray(line.get_ydata()), [95, 75, 215 / 3], atol=1e-9)


def test_the_band_around_the_curve_reaches_from_the_worst_to_the_best_seed() -> None:
    (band,) = curve(result_of(*MATRICES)).axes[0].collections
    corners = np.asarray(band.get_paths()[0].vertices)
    last = corners[corners[:, 0] == 2][:, 1]
    assert last.min() == pytest.approx(70, abs=1e-9)
    assert last.max() == pytest.approx(220 / 3, abs=1e-9)


def test_axes_are_labelled_and_the_title_says_what_was_run() -> None:
    result = result_of(*MATRICES)
    for figure in (accuracy_matrix(result), curve(result)):
        axes = figure.axes[0]
        assert axes.get_title() == "delome on digits (CIL, SGC, 20 rows per class, 2 seeds)"
        assert axes.get_xlabel() and axes.get_ylabel()


@pytest.mark.parametrize(
    ("dataset", "method", "expected"),
    [
        ("digits", "finetune", "finetune on digits (CIL, SGC)"),
        ("file:some/where/graph.npz", "delome", "delome on graph (CIL, SGC, 60 rows per class)"),
        ("synthetic:nodes=60,classes=4", "joint", "joint on synthetic:nodes=60,classes=4 (CIL, SGC)"),
    ],
)
def test_a_title_names_method_dataset_setting_and_budget(dataset: str, method: str, expected: str) -> None:
    assert title(result_of(MATRICES[0], dataset=dataset, method=method)) == expected


def test_a_single_task_can_be_drawn(tmp_path: Path) -> None:
    assert len(write_figures(RunFolder(tmp_path), result_of([[80.0]]))) == 2
