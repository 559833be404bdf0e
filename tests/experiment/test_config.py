from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from delome import DeLoMe, FineTune, Joint, TaskStream, load_graph
from delome.backbones import BACKBONES
from delome.datasets import DATASETS
from delome.errors import DelomeError, ParameterError, StreamError
from delome.experiment import RunConfig, run
from delome.experiment.config import versions
from delome.losses import LOSSES
from delome.memories import MEMORIES
from delome.methods import METHODS
from delome.parameters import parameters_of, values_of
from delome.registry import Registry

SMALL = "synthetic:nodes=60,classes=6"


def test_without_arguments_it_is_delome_on_digits_in_the_class_incremental_setting() -> None:
    config = RunConfig.resolve()
    assert (config.dataset, config.method, config.parameters["setting"]) == ("digits", "delome", "cil")
    assert config.classes_per_task == 2
    assert config.seeds == [0]
    assert config.inter_task_edges is False


def test_every_parameter_of_the_method_but_the_seed_is_written_out() -> None:
    config = RunConfig.resolve("digits", "delome")
    assert config.parameters.keys() == parameters_of(DeLoMe).keys() - {"seed"}
    assert config.parameters["loss"].items() >= {"name": "debiased", "tau": 1.0}.items()
    registries: dict[str, Registry[Any]] = {"backbone": BACKBONES, "memory": MEMORIES, "loss": LOSSES}
    for name, registry in registries.items():
        part = config.parameters[name]
        assert part.keys() == parameters_of(registry[part["name"]]).keys() | {"name"}


@pytest.mark.parametrize(("dataset", "budget"), [("digits", 20), (SMALL, 60)])
def test_the_budget_defaults_to_the_usual_one_of_the_dataset(dataset: str, budget: int) -> None:
    config = RunConfig.resolve(dataset)
    learner = config.learner(0)
    assert isinstance(learner, DeLoMe)
    assert config.budget == config.parameters["memory"]["budget"] == learner.memory.budget == budget


def test_a_given_budget_counts() -> None:
    assert RunConfig.resolve(budget=7).parameters["memory"]["budget"] == 7
    for assignments in (["budget=8"], ["memory.budget=8"], ["memory=kmeans", "budget=8"]):
        assert RunConfig.resolve(assignments=assignments).parameters["memory"]["budget"] == 8


def test_a_method_without_memory_has_no_budget() -> None:
    config = RunConfig.resolve(method="finetune")
    assert config.budget is None and "budget" not in json.dumps(config.parameters)
    assert RunConfig.resolve(method="finetune", budget=7).parameters == config.parameters


def test_a_method_without_a_network_has_no_backbone() -> None:
    assert RunConfig.resolve(method="finetune").backbone == "sgc"
    assert RunConfig.resolve(method="analytic", backbone="gcn").backbone is None


def test_options_and_assignments_reach_the_parameters() -> None:
    config = RunConfig.resolve(
        setting="til", backbone="gcn", epochs=3, device="cpu", assignments=["tau=0.5", "batch_size=none"]
    )
    parameters = config.parameters
    expected = {"setting": "til", "epochs": 3, "device": "cpu", "batch_size": None}
    assert {name: parameters[name] for name in expected} == expected
    assert parameters["backbone"]["name"] == config.backbone == "gcn"
    assert parameters["loss"]["tau"] == 0.5


def test_parts_are_assigned_by_name_and_their_parameters_by_a_short_or_a_full_one() -> None:
    short = RunConfig.resolve(assignments=["memory=gradient-matching", "networks=7", "memory.lr=0.5", "hidden=8"])
    assert short.parameters["memory"].items() >= {"name": "gradient-matching", "networks": 7, "lr": 0.5}.items()
    assert short.parameters["backbone"] == {"name": "sgc", "hidden": 8}
    assert short.parameters["lr"] != 0.5
    full = ["memory=gradient-matching", "memory.networks=7", "memory.lr=0.5", "backbone.hidden=8"]
    assert RunConfig.resolve(assignments=full) == short


def test_seeds_count_up_from_the_first() -> None:
    assert RunConfig.resolve(seeds=3, seed=5).seeds == [5, 6, 7]
    assert RunConfig.resolve(seeds=2, assignments=["seed=9"]).seeds == [9, 10]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"dataset": "digts"},
            f"unknown dataset 'digts': did you mean 'digits'? (known: {', '.join(sorted(DATASETS))})",
        ),
        (
            {"method": "delom"},
            f"unknown method 'delom': did you mean 'delome'? (known: {', '.join(sorted(METHODS))})",
        ),
        ({"budget": 0}, "budget must be at least 1 row per class, not 0"),
        ({"budget": 0, "method": "finetune"}, "budget must be at least 1 row per class, not 0"),
        ({"assignments": ["budget=0"]}, "budget must be at least 1, not 0"),
        ({"seeds": 0}, "seeds must be at least 1, not 0"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
        ({"epochs": 0}, "epochs must be at least 1, not 0"),
        ({"setting": "tal"}, "unknown setting 'tal': did you mean 'til'? (known: cil, til)"),
        ({"backbone": "gccn"}, "unknown backbone 'gccn': did you mean 'gcn'? (known: gat, gcn, sgc)"),
        ({"device": "abacus"}, "device 'abacus' cannot be used here: try auto or cpu"),
        ({"assignments": ["tau"]}, "'tau' is not of the form name=value"),
        ({"assignments": ["tau=-1"]}, "tau must be at least 0, not -1.0"),
    ],
)
def test_what_cannot_be_run_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DelomeError) as error:
        RunConfig.resolve(**options)
    assert str(error.value) == sentence


def test_an_unknown_parameter_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ParameterError, match="unknown parameter of method delome 'tua': did you mean 'tau'"):
        RunConfig.resolve(assignments=["tua=1"])


@pytest.mark.parametrize("kind", [DeLoMe, FineTune, Joint])
def test_the_learner_has_the_parameters_of_the_configuration(kind: type) -> None:
    config = RunConfig.resolve(SMALL, kind.__name__.lower(), epochs=3, setting="til")
    learner = config.learner(4)
    assert type(learner) is kind
    assert values_of(learner) == config.parameters | {"seed": 4}


def test_the_stream_is_cut_as_configured() -> None:
    config = RunConfig.resolve(SMALL, classes_per_task=3, split_seed=11, inter_task_edges=True)
    stream = config.stream()
    assert isinstance(stream, TaskStream)
    assert (len(stream), stream.classes_per_task) == (2, 3)
    assert stream.split_seed == 11
    assert stream.inter_task_edges


@pytest.mark.parametrize(
    ("configured", "cut", "sentence"),
    [
        (
            {},
            {"class_order": [5, 4, 3, 2, 1, 0]},
            "the stream has class_order [5, 4, 3, 2, 1, 0], but the configuration says None: "
            "pass config.stream(), or resolve the configuration with the stream's",
        ),
        ({}, {"classes_per_task": 3}, "the stream has classes_per_task 3, but the configuration says 2"),
        ({"split_seed": 1}, {}, "the stream has split_seed 0, but the configuration says 1"),
        ({}, {"inter_task_edges": True}, "the stream has inter_task_edges True, but the configuration says False"),
        ({"split": "masks"}, {}, "the stream's split is random, but the configuration says masks"),
        (
            {},
            {"split": [np.arange(60) % 3 == part for part in range(3)]},
            "the stream's split is given, but the configuration says auto: resolve the configuration with "
            "split='given'",
        ),
    ],
)
def test_a_stream_that_contradicts_the_configuration_cannot_be_run(
    configured: dict[str, Any], cut: dict[str, Any], sentence: str
) -> None:
    config = RunConfig.resolve(SMALL, "finetune", epochs=1, **configured)
    with pytest.raises(StreamError, match=re.escape(sentence)):
        run(config, TaskStream(load_graph(SMALL), **cut))


def test_a_stream_of_ones_own_can_be_configured() -> None:
    graph, order = load_graph(SMALL), [5, 4, 3, 2, 1, 0]
    config = RunConfig.resolve(SMALL, "finetune", epochs=1, class_order=order)
    assert run(config, TaskStream(graph, class_order=order)).stream == config.stream().describe()
    config = RunConfig.resolve(SMALL, "finetune", epochs=1, split="given")
    stream = TaskStream(graph, split=[np.arange(60) % 3 == part for part in range(3)])
    assert run(config, stream).stream["split"]["kind"] == "given arrays"
    with pytest.raises(ParameterError, match="split 'given' is that of a stream of your own: pass the stream"):
        config.stream()


def test_a_configuration_survives_json() -> None:
    config = RunConfig.resolve(SMALL, seeds=2, assignments=["batch_size=none"])
    assert RunConfig(**json.loads(json.dumps(config.as_dict()))) == config


def test_equal_configurations_share_a_digest_and_others_do_not() -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"dataset": SMALL},
        {"method": "joint"},
        {"setting": "til"},
        {"budget": 3},
        {"split_seed": 1},
        {"tasks": 2},
        {"classes_per_task": 5},
        {"inter_task_edges": True},
        {"assignments": ["tau=2"]},
    ]
    digests = [RunConfig.resolve(**options).digest for options in variants]
    assert len(set(digests)) == len(variants)
    assert digests == [RunConfig.resolve(**options).digest for options in variants]
    # a run may get more seeds
    assert RunConfig.resolve(seeds=2).digest == RunConfig.resolve(seed=1).digest == digests[0]


@pytest.mark.parametrize(
    ("dataset", "readable"),
    [
        ("digits", "digits-delome-cil"),
        ("file:some/where/cora_ml.npz", "cora_ml-delome-cil"),
        ("file:graph.pt", "file-graph-delome-cil"),
        ("synthetic:nodes=60,classes=6", "synthetic-nodes=60-classes=6-delome-cil"),
    ],
)
def test_the_folder_name_says_dataset_method_and_setting(dataset: str, readable: str) -> None:
    config = RunConfig.resolve(dataset)
    assert config.slug == f"{readable}-{config.digest}"


@given(st.text("aZ0_.,:=-/\\[]~ \n\0äλ"))
def test_the_folder_name_is_a_single_plain_name_whatever_the_path(path: str) -> None:
    slug = RunConfig(f"file:{path}", "delome", {"setting": "cil"}).slug
    assert re.fullmatch(r"[A-Za-z0-9_.=-]+", slug)


def test_the_folder_name_of_a_long_file_name_still_fits_a_file_system() -> None:
    assert len(RunConfig.resolve(f"file:{'x' * 250}.npz").slug) <= 255


def test_the_protocol_says_how_numbers_are_measured() -> None:
    protocol = RunConfig.resolve(split_seed=3, classes_per_task=5, inter_task_edges=True).protocol
    assert protocol == {
        "accuracy": "class-balanced",
        "setting": "cil",
        "stream": "classes",
        "classes_per_task": 5,
        "test_graph": "grown",
        "inter_task_edges": True,
        "evaluated_on": "test nodes, after each task",
        "test_nodes": "transductive",
        "asked": "one by one",
        "learned_from": "training nodes",
    }


def test_versions_name_what_a_result_depends_on() -> None:
    found = versions()
    assert found.pop("threads") == str(torch.get_num_threads())
    assert found.keys() >= {"delome", "python", "torch", "numpy", "scipy", "scikit-learn", "torch-geometric"}
    assert all(re.match(r"\d+\.\d+", version) for version in found.values())
