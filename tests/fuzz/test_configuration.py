from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from delome import Graph, load_graph
from delome.datasets import DATASETS
from delome.errors import DatasetError, ParameterError
from delome.experiment import RunConfig
from delome.methods import METHODS
from delome.parameters import all_parameters

Attempt = Callable[[Callable[[], Any]], Any]

ODD_TEXTS = [
    *("", " ", "none", "None", "null", "nan", "-nan", "inf", "-inf", "1e400", "-1e400", "1e-400", "-0", "-0.0", "0"),
    *("-1", "+1", "+-1", "1.5", "1e3", "1_000", "0x10", "1,5", "１２", "٣", "²", "½", "Ⅷ", "9" * 30, "9" * 5000),
    *("true", "False", "yes", "maybe", "=", "==", "a=b", ",", "25,10", "0,0", "-1,2", "25,", "9" * 12 + ",1", "cil"),
    *("sgc", "gat", "cpu", "cpu:7", "cuda", "cuda:0", "cuda:-1", "meta", "mps", "xla", "vulkan", "privateuseone"),
    *("a\nb", "\x1b[31m", "\0", "\ud800", "ä", "'", '"', "${HOME}", "$x$", "[red]", "x" * 3000, "../..", "/", "2**63"),
    *("til", "1", "auto", "-" + "9" * 5000),
]  # fmt: skip
texts = st.sampled_from(ODD_TEXTS) | st.text(max_size=6) | st.integers(-5, 400).map(str) | st.floats().map(repr)

odd_values = st.one_of(
    texts,
    st.integers(-3, 5),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from([None, True, False, 10**400, -(10**5000), 10**5000, 1j, b"5", [], ["a=1"], {}, object(), print]),
    st.sampled_from([np.int64(3), np.float64(0.5), np.str_("cil"), np.array([1, 2]), np.bool_(True)]),
)


def assert_usable(config: RunConfig) -> None:
    """It survives JSON, names a folder, and the learner it describes can be made."""
    document = json.dumps(config.as_dict(), allow_nan=False)
    assert RunConfig(**json.loads(document)) == config
    slug = config.slug
    assert slug.isascii() and slug.isprintable() and 0 < len(slug.encode()) <= 255
    assert "/" not in slug and "\\" not in slug and slug not in (".", "..") and slug.strip() == slug
    assert RunConfig(**json.loads(document)).digest == config.digest
    assert config.seeds and all(type(seed) is int and 0 <= seed < 2**63 for seed in config.seeds)
    config.learner(config.seeds[-1])


@pytest.mark.slow
@settings(max_examples=200)
@given(
    method=st.sampled_from(list(METHODS)),
    setting=st.sampled_from(["cil", "til"]),
    data=st.data(),
)
def test_assignments_to_any_parameter_of_any_method_are_usable_or_refused(
    method: str, setting: str, data: st.DataObject, attempt: Attempt
) -> None:
    names = [name for name, _ in all_parameters(METHODS[method])]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(names), texts), min_size=1, max_size=3))
    assignments = [f"{name}={text}" for name, text in pairs]
    config = attempt(lambda: RunConfig.resolve("digits", method, setting=setting, assignments=assignments))
    if config is not None:
        assert_usable(config)


EVERY_PARAMETER = [(method, name) for method in METHODS for name, _ in all_parameters(METHODS[method])]


@pytest.mark.slow
@settings(max_examples=600)
@given(parameter=st.sampled_from(EVERY_PARAMETER), text=texts)
@example(parameter=("delome", "budget"), text="9" * 400)
@example(parameter=("delome", "budget"), text="1e300")
@example(parameter=("delome", "memory.budget"), text="1e300")
@example(parameter=("delome", "memory"), text="kmeans")
@example(parameter=("delome", "memory"), text="json:loads")
@example(parameter=("delome", "memory"), text="delome:Graph")
@example(parameter=("delome", "backbone"), text="delome.memories:Centroids")
@example(parameter=("delome", "memory."), text="1")
@example(parameter=("delome", "memory.name"), text="kmeans")
@example(parameter=("delome", "seed"), text="9" * 4000)
@example(parameter=("delome", "fanout"), text=f"{'9' * 5000},1")
@example(parameter=("hpns", "neighbours_second"), text="6e16")
@example(parameter=("hpns", "dimension"), text="1e12")
@example(parameter=("finetune", "device"), text="meta")
@example(parameter=("finetune", "device"), text="\ud800")
@example(parameter=("finetune", "device"), text="a\nb")
def test_one_assignment_to_one_parameter_is_usable_or_refused(
    parameter: tuple[str, str], text: str, attempt: Attempt
) -> None:
    method, name = parameter
    setting: Any = METHODS[method].settings[0]
    config = attempt(lambda: RunConfig.resolve("digits", method, setting=setting, assignments=[f"{name}={text}"]))
    if config is not None:
        assert_usable(config)


@st.composite
def datasets(draw: st.DrawFn) -> str:
    """A name that is one of a dataset, or nearly, with options that it has, or nearly."""
    name = draw(
        st.sampled_from([*DATASETS, "synthetic", "synthetic", "digits", "file", "digts", "", "sythetic"]) | texts
    )
    variant = draw(st.sampled_from(["", "", "", "arxiv", "corafull", "arxvi"]))
    options = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["nodes", "classes", "features", "degree", "homophily", "imbalance", "noise", "seed"])
                | st.sampled_from(["scale", "neighbours", "undirected", "path", "data_root", "progress", "", "node"]),
                st.sampled_from(["=", "=", "=", "=", " = ", "", "=="]),
                texts,
            ),
            max_size=3,
        )
    )
    rest = [variant] * bool(variant) + ["".join(option) for option in options]
    return name + (draw(st.sampled_from([":", ":", ":", "", "::"])) if rest else "") + ",".join(rest)


@pytest.mark.slow
@settings(max_examples=400)
@given(dataset=datasets())
@example(dataset="file:a\nb.npz")
@example(dataset="file:" + "x" * 3000 + ".npz")
@example(dataset="synthetic:seed=" + "9" * 4000)
def test_a_dataset_is_named_usably_or_refused(dataset: str, attempt: Attempt) -> None:
    config = attempt(lambda: RunConfig.resolve(dataset, "finetune"))
    if config is not None:
        assert config.dataset == dataset
        assert_usable(config)


@pytest.mark.slow
@settings(max_examples=500)
@given(
    options=st.dictionaries(
        st.sampled_from(
            [
                *("dataset", "method", "setting", "backbone", "budget", "epochs", "device", "assignments", "seed"),
                *("classes_per_task", "split_seed", "inter_task_edges", "seeds"),
            ]
        ),
        odd_values,
        min_size=1,
        max_size=2,
    )
)
@example(options={"seeds": 10**12})
@example(options={"seeds": "3"})
@example(options={"seeds": 2, "seed": 2**63 - 1})
@example(options={"budget": "5"})
@example(options={"budget": -(10**5000)})
@example(options={"classes_per_task": object()})
@example(options={"classes_per_task": "2"})
@example(options={"split_seed": 0.5})
@example(options={"inter_task_edges": "no"})
@example(options={"dataset": None})
@example(options={"dataset": b"digits"})
@example(options={"method": None})
@example(options={"method": []})
@example(options={"assignments": [5]})
@example(options={"assignments": 5})
@example(options={"assignments": np.array([1, 2])})
@example(options={"device": 0})
def test_any_option_of_any_type_is_usable_or_refused(options: dict[str, Any], attempt: Attempt) -> None:
    config = attempt(lambda: RunConfig.resolve(**options))
    if config is not None:
        assert_usable(config)


moderate = {
    "nodes": st.integers(-5, 300) | st.integers(2**31, 2**80),
    "classes": st.integers(-2, 40) | st.integers(2**40, 2**70),
    "features": st.integers(-2, 40) | st.integers(10**14, 2**70),
    "degree": st.floats(-1, 20) | st.floats(min_value=1e12) | st.sampled_from([float("nan"), -0.0, 1e-320]),
    "homophily": st.floats(-0.5, 1.5) | st.sampled_from([float("nan"), float("inf"), 5e-324]),
    "imbalance": st.floats(0.5, 50) | st.floats(min_value=1) | st.just(float("nan")),
    "noise": st.floats(-0.5, 9) | st.floats(),
    "seed": st.integers(-2, 2**70),
}


@pytest.mark.slow
@settings(max_examples=300)
@given(
    options=st.lists(st.sampled_from(list(moderate)), min_size=1, max_size=3, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: moderate[name] for name in names})
    ),
    as_text=st.booleans(),
)
@example(options={"noise": float("inf")}, as_text=True)
@example(options={"noise": 1e300}, as_text=True)
@example(options={"nodes": 2**31}, as_text=True)
@example(options={"features": 10**14}, as_text=True)
@example(options={"degree": 1e18}, as_text=True)
@example(options={"degree": 1e300}, as_text=True)
@example(options={"features": 2**60}, as_text=True)
@example(options={"classes": 1, "homophily": 0.0}, as_text=True)
def test_a_synthetic_graph_is_generated_or_refused(options: dict[str, Any], as_text: bool, attempt: Attempt) -> None:
    chosen = {"nodes": 60, "classes": 4, "features": 5} | options
    if as_text:
        written = ",".join(f"{name}={value!r}" for name, value in chosen.items())
        graph = attempt(lambda: load_graph(f"synthetic:{written}"))
    else:
        graph = attempt(lambda: load_graph("synthetic", **chosen))
    if graph is not None:
        assert isinstance(graph, Graph) and graph.labels is not None
        assert (graph.num_nodes, graph.num_features) == (chosen["nodes"], chosen["features"])
        assert len(np.unique(graph.labels)) == chosen["classes"]


@pytest.mark.slow
@settings(max_examples=100)
@given(
    twin=st.sampled_from(["arxiv", "corafull", "reddit", "products", "cora"]),
    scale=st.floats(-1, 1e-5)
    | st.floats(min_value=1e6)
    | st.sampled_from([float("nan"), 5e-324, 0.0, "1e400", "x", None]),
    seed=st.integers(-2, 2**70),
)
def test_a_twin_of_an_impossible_scale_is_refused(twin: str, scale: Any, seed: int, attempt: Attempt) -> None:
    assert attempt(lambda: load_graph(f"synthetic:{twin}", scale=scale, seed=seed)) is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seeds": 10**9}, "seeds must be at most 100000, not 1000000000"),
        ({"seeds": "3"}, "seeds must be of type int, not '3'"),
        ({"classes_per_task": 0}, "classes_per_task must be at least 1, not 0"),
        ({"split_seed": -1}, "split_seed must be at least 0, not -1"),
        ({"inter_task_edges": "no"}, "inter_task_edges must be of type bool, not 'no'"),
        ({"budget": 10**400}, f"budget must be a number of at most 64 bits, not 1{'0' * 59}…"),
        ({"assignments": ["tau=1e400"]}, "tau must be finite, not inf"),
        ({"device": "meta"}, "device 'meta' cannot be used here: try auto or cpu"),
        ({"dataset": "synthetic:noise=nan"}, "noise must be finite, not nan"),
    ],
)
def test_what_once_passed_or_failed_otherwise_is_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError) as error:
        RunConfig.resolve(**options)
    assert str(error.value) == sentence


def test_a_graph_that_does_not_fit_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("delome.datasets.sources.synthetic.generator", exhausted)
    with pytest.raises(
        DatasetError, match=r"^dataset 'synthetic:nodes=60' does not fit in memory: choose a smaller one$"
    ):
        load_graph("synthetic:nodes=60", classes=4)
