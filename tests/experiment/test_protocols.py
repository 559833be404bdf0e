"""Protocols and streams in configurations, results and tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import delome
from delome import FineTune, Graph, TaskStream, load_graph
from delome.errors import ParameterError, StreamError
from delome.experiment import RunConfig, run
from delome.experiment.collection import Record, collect
from delome.experiment.comparison import tabulate
from delome.experiment.folder import identity_of
from delome.experiment.results import SeedResult, TaskResult
from delome.reporting.formats import latex, markdown
from delome.reporting.tables import summary_lines
from delome.streams import Time

SMALL = "synthetic:nodes=80,classes=4"
USUAL = {
    "dataset", "method", "parameters", "classes_per_task", "tasks", "class_order", "split", "split_seed",
    "inter_task_edges",
}  # fmt: skip


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A graph in a file whose nodes have years."""
    graph = load_graph(SMALL)
    assert graph.labels is not None
    place = tmp_path_factory.mktemp("data") / "dated.npz"
    adjacency, features = graph.adjacency.astype(np.float32), graph.features
    np.savez(
        place, adj_data=adjacency.data, adj_indices=adjacency.indices, adj_indptr=adjacency.indptr,
        adj_shape=adjacency.shape, features=features, labels=graph.labels, node_year=2000 + np.arange(80) % 5,
        node_names=np.arange(80).astype(str), node_places=np.ones((80, 2)),
    )  # fmt: skip
    return f"file:{place}"


@pytest.mark.parametrize(
    ("options", "digest"),
    [
        ({}, "bfb69c93"),
        ({"method": "joint"}, "5f6e4e70"),
        ({"inter_task_edges": True}, "d992f97c"),
        ({"test_graph": "grown"}, "d992f97c"),
        ({"stream": "classes", "test_graph": "cut"}, "bfb69c93"),
        ({"classes_per_task": 3, "split_seed": 4}, "7e3d30bc"),
        ({"method": "analytic"}, "7b312689"),
    ],
)
def test_what_was_run_before_there_were_protocols_keeps_its_name(options: dict[str, Any], digest: str) -> None:
    config = RunConfig.resolve(**options)
    assert config.digest == digest
    assert config.seedless.keys() == USUAL


def test_a_run_folder_of_that_time_is_still_that_of_the_same_run() -> None:
    config = RunConfig.resolve()
    assert identity_of(config, config.stream().describe()) == "38df3e5e7e64fae0"
    grown = RunConfig.resolve(inter_task_edges=True)
    assert identity_of(grown, grown.stream().describe()) == "3c02de2eb74515c4"


def test_other_protocols_and_streams_are_part_of_the_hash() -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"test_graph": "joined"},
        {"test_graph": "grown"},
        {"inductive": True},
        {"test_graph": "joined", "inductive": True},
        {"stream": "classes:base=4"},
        {"stream": "blurry"},
        {"stream": "blurry:sigma=0.2"},
        {"stream": "time"},
        {"stream": "time", "test_graph": "cut"},
    ]
    configs = [RunConfig.resolve(**options) for options in variants]
    assert len({config.digest for config in configs}) == len({config.stream_key for config in configs}) == len(variants)
    assert RunConfig.resolve(stream="blurry:sigma=0.1") == RunConfig.resolve(stream="blurry")
    assert RunConfig.resolve(stream="time").test_graph == "grown"
    for config in configs:
        assert RunConfig(**config.as_dict()) == config


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"test_graph": "cut", "inter_task_edges": True}, "--inter-task-edges is --test-graph grown, but cut"),
        ({"stream": "blurry", "setting": "til"}, "a blurry stream has no tasks that could be known, as setting til"),
        ({"stream": "blurry", "method": "tpp"}, "method tpp cannot learn a blurry stream: choose classes, time or dom"),
        ({"stream": "blurry", "method": "hpns", "setting": "til"}, "method hpns cannot learn a blurry stream: choose"),
        ({"stream": "blurry", "classes_per_task": 3}, "the tasks of stream blurry do not have so many classes each"),
        ({"stream": "classes:step=3", "classes_per_task": 2}, "the tasks of stream classes:step=3 do not have"),
        ({"inductive": 1}, "inductive must be of type bool, not 1"),
        ({"stream": 3}, "a stream is named by text"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ParameterError, StreamError), match=sentence):
        RunConfig.resolve(**options)


def test_a_stream_of_another_protocol_or_kind_contradicts_the_configuration() -> None:
    graph = load_graph(SMALL)
    config = RunConfig.resolve(SMALL, "finetune", epochs=1)
    for options, sentence in (
        ({"test_graph": "joined"}, "the stream has test_graph 'joined', but the configuration says 'cut'"),
        ({"inductive": True}, "the stream has inductive True, but the configuration says False"),
        ({"sizes": [3, 1]}, r"the stream is classes:sizes=3\+1, but the configuration says classes"),
    ):
        with pytest.raises(StreamError, match=sentence):
            config.check_stream(TaskStream(graph, **options))
    RunConfig.resolve(SMALL, "finetune", stream="classes:sizes=3+1").check_stream(TaskStream(graph, sizes=[3, 1]))


def test_the_matrices_are_those_of_the_loop_a_person_writes() -> None:
    config = RunConfig.resolve(
        SMALL, "finetune", epochs=3, test_graph="joined", inductive=True, assignments=["hidden=4"]
    )
    stream, learner, expected = config.stream(), config.learner(0), []
    for task in stream:
        learner.observe(task)
        expected.append(learner.evaluate(stream.seen(task)))
    result = run(config, config.stream())
    assert result.seeds[0].matrix.rows == expected
    assert result.spread("forward") is None and "forward" not in result.as_dict()
    protocol = result.as_dict()["protocol"]
    assert (protocol["test_graph"], protocol["test_nodes"]) == ("joined", "inductive")
    assert any("inductive" in line and "with them when asked" in line for line in summary_lines(result))


def test_forward_transfer_is_the_accuracy_on_the_next_period_before_it_is_learned(dated: str) -> None:
    config = RunConfig.resolve(dated, "finetune", stream="time:period=2", epochs=3, assignments=["hidden=4"])
    stream: Any = config.stream()
    learner, ahead = FineTune(epochs=3, hidden=4), []
    for task in stream:
        learner.observe(task)
        ahead += learner.evaluate(stream.ahead(task))
    result = run(config, config.stream())
    forward = result.seeds[0].forward
    assert len(ahead) == 2 and forward == pytest.approx(np.mean(ahead))
    assert result.spread("forward") == (result.as_dict()["forward"], 0.0) == (forward, 0.0)
    assert any(f"forward transfer {forward:.2f} on" in line for line in summary_lines(result))
    assert "tasks: 0 until 2002, 1 2002 to 2004, 2 from 2004" in summary_lines(result)
    assert result.as_dict()["protocol"]["task_names"] == ["until 2002", "2002 to 2004", "from 2004"]
    assert any("stream time:period=2" in line for line in summary_lines(result))
    again = SeedResult.from_dict(result.seeds[0].as_dict())
    assert [task.ahead for task in again.tasks] == [ahead[:1], ahead[1:], []]
    til = RunConfig.resolve(
        dated, "finetune", stream="time:period=2", epochs=1, setting="til", assignments=["hidden=4"]
    )
    assert run(til, til.stream()).spread("forward") is None


def test_results_without_such_numbers_are_written_as_before() -> None:
    assert "ahead" not in TaskResult([1.0], [1.0], [1.0], [1.0]).as_dict()
    assert TaskResult([1.0], [1.0], [1.0], [1.0], ahead=[2.0]).as_dict()["ahead"] == [2.0]


def test_attributes_come_from_files_and_reach_the_stream(dated: str, caplog: pytest.LogCaptureFixture) -> None:
    graph = load_graph(dated)
    (note,) = caplog.messages
    assert note.startswith("node attribute 'node_places' must be one number or text for each of the 80 nodes")
    assert note.endswith("shape (80, 2): left out")
    assert graph.attributes.keys() == {"node_year", "node_names"}
    assert [len(task.class_labels) for task in Time()(graph)] == [4] * 5
    again = Graph.from_pyg(graph.to_pyg())
    assert (again.attributes["node_year"] == graph.attributes["node_year"]).all()
    assert graph.hidden().attributes == {} and graph.subgraph(np.array([3])).attributes["node_year"].tolist() == [2003]


def test_a_whole_run_of_a_stream_is_asked_for_by_text(dated: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"epochs": 2, "assignments": ["pretrain=2", "hidden=4"]}
    for method, options in (("prototypes", dict[str, Any]()), ("tpp", given)):
        found = delome.run(dated, method, stream="time:period=2.5", out=tmp_path / method, **options)
        assert len(found.result.seeds[0].tasks) == 2
    records = collect([tmp_path])
    assert {record.config["stream_kind"] for record in records} == {"time:period=2.5"}
    table = tabulate(records, metrics=["aa", "forward"])
    assert "tpp †" in markdown(table) and "prototypes |" in markdown(table) and r"tpp \dag{}" in latex(table)
    assert any(note.startswith("† tpp: asked about the nodes of one task together") for note in table.footnotes)
    assert f"{dated} was measured with test graph grown, stream time:period=2.5" in table.footnotes
    together = [line for line in summary_lines(found.result) if "together" in line]
    assert together == ["this method must be asked about the nodes of one task together: not comparable with others"]


def record(**config: Any) -> Record:
    own = {"dataset": "d", "setting": "cil", "method": "delome", "backbone": "sgc", "inter_task_edges": False} | config
    return Record(
        "runs/x", f"{own}", 0, own, {"split": "random", "tasks": 3}, {"aa": 90.0, "af": 0.0}, 3, True, [], None
    )


def test_methods_that_learn_from_test_nodes_are_marked_unless_there_are_none(tmp_path: Path) -> None:
    given: dict[str, Any] = {"epochs": 2, "budget": 2, "assignments": ["hidden=4"]}
    small = "synthetic:nodes=40,classes=4"
    for inductive in (False, True):
        config = RunConfig.resolve(small, "puma", inductive=inductive, **given)
        # the method decides on it: what was run before it was declared keeps its name
        assert replace(config, learned_from="training nodes").digest == config.digest
        assert replace(config, learned_from="training nodes").stream_key == config.stream_key
        found = delome.run(small, "puma", inductive=inductive, out=tmp_path / str(inductive), **given)
        said = [line for line in summary_lines(found.result) if "learned from" in line]
        assert said == (
            [] if inductive else ["this method has learned from features of test nodes too: compare with care"]
        )
        table = tabulate(collect([tmp_path / str(inductive)]))
        assert ("puma ‡" in markdown(table)) == (r"puma \ddag{}" in latex(table)) == (not inductive)
        assert (
            any(note.startswith("‡ puma: learned from features of test nodes") for note in table.footnotes) != inductive
        )


def test_unequal_protocols_are_columns_and_never_averaged_in_silence() -> None:
    records = [record(), record(test_graph="joined"), record(inductive=True), record(inter_task_edges=True)]
    table = tabulate(records)
    assert len(table.rows) == 4
    assert {"test_graph", "test_nodes"} <= set(table.columns) and "inter_task_edges" not in table.columns
    averaged = tabulate(records, by=["method"])
    assert len(averaged.rows) == 1
    assert averaged.footnotes[:2] == [
        "rows of d average over test graph: cut, grown, joined",
        "rows of d average over test nodes: inductive, transductive",
    ]
