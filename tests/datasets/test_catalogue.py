from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delome import load_graph
from delome.datasets import DATASETS
from delome.datasets.catalogue import parse_name
from delome.errors import DatasetError, DelomeError


def test_the_catalogue_lists_each_source_with_one_line_and_a_budget() -> None:
    assert set(DATASETS) >= {"digits", "synthetic", "file"}
    for dataset in DATASETS.values():
        assert dataset.summary and "\n" not in dataset.summary
        assert dataset.budget >= 1


def test_a_name_alone_takes_the_defaults() -> None:
    assert load_graph("digits").num_nodes == 1797


def test_options_in_the_name_and_options_as_arguments_are_the_same() -> None:
    written = load_graph("synthetic:nodes=300,classes=3,homophily=0.5")
    given = load_graph("synthetic", nodes=300, classes=3, homophily=0.5)
    assert (written.adjacency != given.adjacency).nnz == 0
    assert written.num_nodes == 300


def test_an_argument_wins_over_the_name() -> None:
    assert load_graph("synthetic:nodes=300", nodes=400).num_nodes == 400


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("digits", {}),
        ("digits:", {}),
        ("digits:neighbours=4", {"neighbours": 4}),
        ("synthetic:nodes=1e3, degree=4", {"nodes": 1000, "degree": 4.0}),
        ("file:a.npz", {"path": "a.npz"}),
        ("file:a.npz,undirected=false", {"path": "a.npz", "undirected": False}),
        ("file:a,b=c.npz", {"path": "a,b=c.npz"}),
        ("file:a,b=c.npz,undirected=no", {"path": "a,b=c.npz", "undirected": False}),
        ("file:C:/graphs/a.npz", {"path": "C:/graphs/a.npz"}),
    ],
)
def test_a_name_is_read_as_source_and_options(name: str, options: dict[str, object]) -> None:
    dataset, parsed = parse_name(name)
    assert dataset is DATASETS[name.partition(":")[0]]
    assert parsed == options
    assert [type(value) for value in parsed.values()] == [type(options[key]) for key in parsed]


def test_a_file_is_found_by_its_path(write_npz: Callable[..., Path]) -> None:
    file = write_npz("my, graph=1.npz")
    assert load_graph(f"file:{file}").num_edges == 96
    assert load_graph(f"file:{file},undirected=false").num_edges == 48
    assert load_graph(f"file:{file}", undirected=False).num_edges == 48


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("digts", f"unknown dataset 'digts': did you mean 'digits'? (known: {', '.join(sorted(DATASETS))})"),
        ("zzz:nodes=4", f"unknown dataset 'zzz' (known: {', '.join(sorted(DATASETS))})"),
        ("file", "dataset 'file' needs an argument: write file:PATH"),
        ("file:", "dataset 'file' needs an argument: write file:PATH"),
        ("digits:8", "'8' in dataset 'digits:8' is not of the form option=value"),
        (
            "digits:neighbors=8",
            "unknown option of dataset digits 'neighbors': did you mean 'neighbours'? (known: neighbours)",
        ),
    ],
)
def test_names_that_mean_nothing_are_refused(name: str, sentence: str) -> None:
    with pytest.raises(DatasetError) as error:
        load_graph(name)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("synthetic:nodes=many", "nodes must be a whole number, not 'many'"),
        ("synthetic:nodes=10.5", "nodes must be a whole number, not '10.5'"),
        ("synthetic:degree=few", "degree must be a number, not 'few'"),
        ("file:a.npz,undirected=perhaps", "undirected must be true or false, not 'perhaps'"),
    ],
)
def test_options_of_the_wrong_type_are_refused(name: str, sentence: str) -> None:
    with pytest.raises(DelomeError) as error:
        load_graph(name)
    assert str(error.value) == sentence


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(DatasetError, match="unknown option of dataset digits 'neighbor': did you mean 'neighbours'"):
        load_graph("digits", neighbor=3)


@pytest.mark.parametrize("options", [{"nodes": 300.5}, {"nodes": True}, {"homophily": None}])
def test_an_argument_of_the_wrong_type_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(DelomeError, match=next(iter(options))):
        load_graph("synthetic", **options)
