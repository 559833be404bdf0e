"""What every learner must do. A check raises an AssertionError that says what it found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple
from functools import partial, reduce
from typing import Any

import numpy as np
import torch

from delome.errors import DelomeError, ParameterError, PastDataError, StateError
from delome.graph import Graph
from delome.graph.sparse import to_dense
from delome.learning import Learner
from delome.learning.replay import Replay
from delome.parameters import Find, all_parameters, filled, parameter_value, values_of
from delome.progress import Tracker
from delome.registry import Registry
from delome.streams.task_stream import TaskStream
from delome.streams.tasks import Observation
from delome.testing.subject import SMALL, Subject, bag_of_words, odd_streams, same_state


def refused(action: Callable[[], Any], kind: type[DelomeError], words: str) -> None:
    """Asserts that something is refused in a sentence with these words."""
    try:
        action()
    except kind as error:
        assert words in str(error), f"expected '… {words} …', not '{error}'"
        return
    raise AssertionError(f"expected '… {words} …', but nothing was refused")


def learns_the_current_task(subject: Subject) -> None:
    """learns each task to more than 85 % on an easy stream"""
    learner = subject.make(epochs=40)
    for task in subject.stream():
        learner.observe(task)
        assert learner.evaluate([task])[0] > 85, f"{learner.evaluate([task])[0]:.1f} % on task {task.index}"


def predicting_changes_nothing(subject: Subject) -> None:
    """predicting changes nothing, and twice gives the same"""
    stream = subject.stream()
    learner = subject.learned(stream)
    before = learner.state()
    first = learner.predict(stream[1].graph, task=1)
    assert (learner.predict(stream[1].graph, task=1) == first).all(), "the second prediction differs"
    assert same_state(learner.state(), before), "the state has changed"


def predicts_known_classes(subject: Subject) -> None:
    """predicts classes it has seen (of the task in question, if that is known)"""
    stream = subject.stream()
    learner = subject.learned(stream[:2])
    allowed = stream[1].classes if learner.setting == "til" else range(4)
    found = set(learner.predict(stream[2].graph, task=1).tolist())
    assert found <= set(allowed), f"predicted {found}"


def same_seed_same_bits(subject: Subject) -> None:
    """the same seed gives the same bits"""
    first, second = (subject.learned(subject.stream(), seed=3).state() for _ in range(2))
    assert same_state(first, second), "two learners with the same seed differ"


def leaves_global_randomness_alone(subject: Subject) -> None:
    """neither reads nor changes global random state"""
    before = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002  # the legacy state is what must not be touched
    try:
        states = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            expected = torch.get_rng_state(), _legacy_state()
            states.append(subject.learned(subject.stream()).state())
            assert torch.equal(torch.get_rng_state(), expected[0]), "torch's global generator was used"
            assert (_legacy_state() == expected[1]).all(), "numpy's global generator was used"
        assert same_state(*states), "the result depends on the global seed"
    finally:
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


def _legacy_state() -> np.ndarray:
    state: Any = np.random.get_state()  # noqa: NPY002
    keys: np.ndarray = state[1]
    return keys.copy()


def state_is_all_there_is(subject: Subject) -> None:
    """state() is all that is carried from task to task"""
    stream = subject.stream()
    whole, resumed = subject.learned(stream), subject.make()
    for task in stream:
        successor = subject.make()
        successor.load_state(resumed.state())
        successor.observe(task)
        resumed = successor
    assert same_state(resumed.state(), whole.state()), "a learner that was saved after every task differs"
    assert resumed.evaluate(stream) == whole.evaluate(stream), "it evaluates otherwise"


def state_is_tensors_and_json(subject: Subject) -> None:
    """the state is tensors and plain values"""
    state = subject.learned(subject.stream()).state()
    assert json.loads(json.dumps(state.values)) == state.values, "its values do not survive JSON"
    assert all(isinstance(tensor, torch.Tensor) for tensor in state.tensors.values()), "something is no tensor"
    assert not any(tensor.requires_grad for tensor in state.tensors.values()), "a tensor carries gradients"


def state_is_a_copy(subject: Subject) -> None:
    """a state does not change when its learner learns on"""
    stream = subject.stream()
    learner = subject.learned(stream[:1])
    state = learner.state()
    copies = {name: tensor.clone() for name, tensor in state.tensors.items()}
    learner.observe(stream[1])
    changed = [name for name, tensor in copies.items() if not torch.equal(state.tensors[name], tensor)]
    assert not changed, f"'{changed[0]}' has changed" if changed else ""


def storage_is_within_budget(subject: Subject) -> None:
    """keeps no more rows than its budget allows"""
    learner = subject.make()
    budget = parameter_value(learner, "budget")
    for task in subject.stream():
        learner.observe(task)
        rows = learner.storage().rows
        if isinstance(learner, Replay) and learner.memory.whole:
            most = budget * task.num_classes
            assert rows <= most, f"it keeps {rows} rows for a budget of {most} in all"
        elif isinstance(learner, Replay):
            labels = np.concatenate([memory.labels for memory in learner.bank.memories])
            sizes = np.bincount(labels, minlength=learner.columns.seen)
            assert (sizes == budget).all(), f"{sizes.tolist()} rows of the classes for a budget of {budget}"
            stored = sum(memory.graph.num_nodes for memory in learner.bank.memories)
            assert rows == stored, f"it says that it keeps {rows} rows, and keeps {stored}"
        elif not learner.needs_past and budget is None:
            assert rows == 0, f"{rows} rows without a budget"


def storage_is_as_declared(subject: Subject) -> None:
    """keeps what its formula says (the class attribute ``keeps``)"""
    stream = subject.stream()
    learner = subject.learned(stream)
    network = getattr(learner, "network", None)
    letters = {
        "b": parameter_value(learner, "budget") or 0,
        "C": learner.columns.seen,
        "F": subject.graph().num_features,
        "T": len(stream),
        "N": sum(task.graph.num_nodes for task in stream),
        "E": sum(task.graph.num_edges for task in stream),
        "D": parameter_value(learner, "features") or 0,
        "p": 0 if network is None else sum(each.numel() for each in network.parameters()),
        "P": sum(len(table) for table in getattr(learner, "tables", {}).values()),
        "d": getattr(learner, "dimension", 0),
        "h": parameter_value(learner, "hidden") or 0,
        "k": parameter_value(learner, "prompts") or 0,
        "A": sum(len(made) for made in getattr(learner, "extractors", {}).values()),
    }
    for declared, measured in zip(astuple(learner.keeps), astuple(learner.storage()), strict=True):
        formula = declared.removeprefix("≤ ").replace("·", "*")
        value = eval(formula, {"__builtins__": {}}, letters)
        fits = 0 < measured <= value if declared.startswith("≤") else measured == value
        assert fits, f"it keeps {measured}, and '{declared}' is {value}"


def past_graphs_are_counted(subject: Subject) -> None:
    """counts past graphs as storage if it reads them, and only then"""
    stream = subject.stream()
    learner = subject.learned(stream)
    if not learner.needs_past:
        assert learner.past_graphs.bytes == 0, "it counts past graphs without reading them"
        return
    rows, nodes = learner.storage().rows, sum(task.graph.num_nodes for task in stream)
    assert rows == nodes, f"it counts {rows} rows, and the graphs it reads have {nodes}"
    counted, read = learner.past_graphs.bytes, sum(task.graph.nbytes for task in stream)
    assert counted == read, f"it counts {counted} bytes, and the graphs it reads have {read}"


def knowing_the_task_never_hurts(subject: Subject) -> None:
    """is at least as accurate when the task is known"""
    if subject.setting != "cil" or "til" not in subject.method.settings:
        return
    stream = subject.stream()
    learner = subject.learned(stream)
    informed = Subject(subject.method, "til", subject.parameters).make()
    informed.load_state(learner.state())
    for with_task, without in zip(informed.evaluate(stream), learner.evaluate(stream), strict=True):
        assert with_task >= without, f"{with_task:.1f} % with the task, {without:.1f} % without"


def til_needs_the_task(subject: Subject) -> None:
    """asks for the task if it is task-incremental"""
    stream = subject.stream()
    learner = subject.learned(stream[:1])
    if learner.setting == "til":
        refused(lambda: learner.predict(stream[0].graph), ParameterError, "give its index")
        refused(lambda: learner.evaluate(stream[1:2]), ParameterError, "give its index, 0 to 0")
    else:
        assert len(learner.predict(stream[0].graph)) == stream[0].graph.num_nodes, "it does not predict every node"


def other_widths_are_refused(subject: Subject) -> None:
    """refuses graphs with another number of features, and stays as it was"""
    graph, stream = subject.graph(), subject.stream()
    narrow = TaskStream(Graph(graph.adjacency.nonzero()[::-1], graph.features[:, :5], graph.labels))
    learner = subject.make(epochs=40)
    learner.observe(stream[0])
    before = learner.state()
    refused(lambda: learner.observe(narrow[1]), StateError, "trained on 16 features, but the graph has 5")
    refused(lambda: learner.evaluate(narrow[:1]), StateError, "trained on 16 features, but the graph has 5")
    assert same_state(learner.state(), before), "the refused task has left traces"
    learner.observe(stream[1])
    assert learner.evaluate([stream[1]])[0] > 85, "it does not learn any more"


def survives_odd_streams(subject: Subject) -> None:
    """learns odd streams: no edges, one class a task, tiny classes, zeros, text labels, …"""
    for name, stream in odd_streams().items():
        learner = subject.learned(stream, epochs=3, batch_size=7)
        accuracies = learner.evaluate(stream.seen(stream[-1]))
        assert len(accuracies) == len(stream), name
        assert all(0 <= accuracy <= 100 for accuracy in accuracies), name


def sparse_features_are_the_same(subject: Subject) -> None:
    """sparse and dense features give the same predictions"""
    words = bag_of_words()
    dense_graph = Graph(words.adjacency.nonzero()[::-1], to_dense(words.features), words.labels)
    streams = TaskStream(words), TaskStream(dense_graph)
    sparse, dense = (subject.learned(stream, epochs=40) for stream in streams)
    for a, b in zip(*streams, strict=True):
        agreement = (sparse.predict(a.graph, task=a.index) == dense.predict(b.graph, task=b.index)).mean()
        assert agreement > 0.95, f"{100 * agreement:.0f} % of the predictions agree"


def nothing_is_predicted_at_first(subject: Subject) -> None:
    """refuses to predict before it has learned"""
    refused(lambda: subject.make().predict(subject.stream()[0].graph, task=0), StateError, "call observe first")


def parameters_are_described(subject: Subject) -> None:
    """describes itself: parameters with a meaning that survive JSON, family, citation, summary, docstring"""
    learner = subject.make()
    values = values_of(learner)
    assert json.loads(json.dumps(values)) == values, "its parameters do not survive JSON"
    assert all(parameter.param.help for _, parameter in all_parameters(learner)), "a parameter has no description"
    again = type(learner)(**filled(type(learner), values, _among_parts_of(learner)))
    assert values_of(again) == values, "its parameters do not make the same learner again"
    for name in ("summary", "family", "citation", "__doc__"):
        assert getattr(learner, name), f"'{name}' is empty"


def _among_parts_of(learner: Learner) -> Find:
    """Looks names up among the parts that a learner has, registered or not."""
    paths = [path for path, parameter in all_parameters(learner) if parameter.registry is not None]
    kinds = [type(reduce(getattr, path.split("."), learner)) for path in paths]

    def find(registry: Registry[Any], name: str) -> Any:
        return next(kind for kind in kinds if registry.name_of(kind) == name)

    return find


def graphs_are_gone_after_their_task(subject: Subject) -> None:
    """cannot read a graph after its task"""
    learner = subject.make()
    seen: list[Graph] = []
    original = learner.learn

    def keep_graph(observation: Observation, tracker: Tracker) -> None:
        seen.append(observation.graph)
        original(observation, tracker)

    learner.learn = keep_graph  # type: ignore[method-assign]  # to be there when it learns
    for task in subject.stream():
        learner.observe(task)
    for graph in seen:
        refused(partial(getattr, graph, "features"), PastDataError, "is gone")


def tasks_come_in_order(subject: Subject) -> None:
    """takes each task once, in order"""
    stream = subject.stream()
    learner = subject.make()
    refused(lambda: learner.observe(stream[1]), StateError, "task 1 cannot follow 0 learned tasks")
    learner.observe(stream[0])
    refused(lambda: learner.observe(stream[0]), StateError, "task 0 cannot follow 1 learned tasks")


def no_node_is_no_error(subject: Subject) -> None:
    """predicts nothing when asked about no node"""
    stream = subject.stream()
    learner = subject.learned(stream[:1])
    assert learner.predict(stream[0].graph, np.empty(0, int), task=0).tolist() == [], "it predicts something"


def scores_and_probabilities_agree(subject: Subject) -> None:
    """scores and probabilities agree with predictions"""
    stream = subject.stream()
    learner = subject.learned(stream)
    graph = stream[1].graph
    predicted = learner.predict(graph, task=1)
    classes = np.array(learner.classes)
    scores, probabilities = learner.scores(graph, task=1), learner.predict_proba(graph, task=1)
    assert (classes[scores.argmax(axis=1)] == predicted).all(), "the highest score is not the prediction"
    assert (classes[probabilities.argmax(axis=1)] == predicted).all(), "the highest probability is not the prediction"
    assert np.allclose(probabilities.sum(axis=1), 1), "probabilities do not add up to 1"
    assert (probabilities[np.isinf(scores)] == 0).all(), "a class that is not allowed has a probability"


CHECKS: tuple[Callable[[Subject], None], ...] = (
    learns_the_current_task,
    predicting_changes_nothing,
    predicts_known_classes,
    same_seed_same_bits,
    leaves_global_randomness_alone,
    state_is_all_there_is,
    state_is_tensors_and_json,
    state_is_a_copy,
    storage_is_within_budget,
    storage_is_as_declared,
    past_graphs_are_counted,
    knowing_the_task_never_hurts,
    til_needs_the_task,
    other_widths_are_refused,
    survives_odd_streams,
    sparse_features_are_the_same,
    nothing_is_predicted_at_first,
    parameters_are_described,
    graphs_are_gone_after_their_task,
    tasks_come_in_order,
    no_node_is_no_error,
    scores_and_probabilities_agree,
)
"""The contract, in the order in which it is checked."""

__all__ = ["CHECKS", "SMALL", "refused"]
