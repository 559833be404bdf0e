"""The two pieces that keep learners apart; what they do for every method is in the conformance tests."""

import copy
import threading

import pytest
import torch

from delome.errors import StateError
from delome.learning.isolation import Guard, isolated


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_what_the_caller_has_set_does_not_count_inside_and_is_back_afterwards(double):
    with torch.no_grad(), torch.autocast("cpu"), torch.device("meta"):
        with isolated():
            assert torch.get_default_dtype() == torch.float32
            assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
            assert torch.zeros(1).device.type == "cpu"
        assert torch.get_default_dtype() == torch.float64
        assert not torch.is_grad_enabled() and torch.is_autocast_enabled("cpu")
        assert torch.zeros(1).device.type == "meta"
    with torch.inference_mode():
        with isolated():
            assert not torch.zeros(1).is_inference()
        assert torch.zeros(1).is_inference()


def test_the_callers_type_is_back_after_an_error_and_when_the_last_of_several_ends(double):
    with pytest.raises(KeyError), isolated():
        raise KeyError
    assert torch.get_default_dtype() == torch.float64
    first, second = isolated(), isolated()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_default_dtype() == torch.float32
    second.__exit__(None, None, None)
    assert torch.get_default_dtype() == torch.float64


def test_many_may_read_and_one_may_change():
    guard = Guard()
    with guard.reading(), guard.reading():
        pass
    with guard.changing():
        for again in (guard.reading, guard.changing):
            with pytest.raises(StateError, match="the learner is observing a task"), again():
                pytest.fail("let in")
    with guard.reading():
        pass


def test_a_change_waits_for_the_last_reader():
    guard, order, begun = Guard(), [], threading.Event()

    def change():
        begun.set()
        with guard.changing():
            order.append("changed")

    thread = threading.Thread(target=change)
    with guard.reading():
        with guard.reading():
            thread.start()
            assert begun.wait(10)
        order.append("read")
    thread.join(10)
    assert order == ["read", "changed"]


def test_an_error_while_changing_lets_others_in_again():
    guard = Guard()
    with pytest.raises(KeyError), guard.changing():
        raise KeyError
    with guard.changing():
        pass


def test_a_copy_has_a_guard_of_its_own():
    guard = Guard()
    with guard.changing():
        other = copy.deepcopy(guard)
        with other.changing():
            pass
