from __future__ import annotations

import signal

import pytest

from delome.experiment.signals import Stop, Stopped

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_the_first_signal_asks_and_the_second_acts(number: signal.Signals) -> None:
    def act(*_: object) -> None:
        raise InterruptedError

    before = signal.signal(number, act)
    try:
        stop = Stop()
        with stop.on_signals():
            stop.check()
            signal.raise_signal(number)
            assert stop.asked and stop.signal_number == number
            with pytest.raises(Stopped) as stopped:
                stop.check()
            assert stopped.value.signal_number == number
            with pytest.raises(InterruptedError):
                signal.raise_signal(number)
        assert signal.getsignal(number) is act
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_raises_where_nothing_is_postponed(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    stop = Stop()
    with stop.raised():
        with pytest.raises(Stopped):
            signal.raise_signal(number)
        with stop.postponed():
            signal.raise_signal(number)
        with pytest.raises(Stopped):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        stop = Stop()
        with stop.on_signals():
            signal.raise_signal(signal.SIGHUP)
        with stop.raised():
            signal.raise_signal(signal.SIGHUP)
        assert not stop.asked
    finally:
        signal.signal(signal.SIGHUP, before)


def test_whoever_catches_errors_does_not_catch_it() -> None:
    assert not issubclass(Stopped, Exception)
