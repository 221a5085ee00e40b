"""Interrupts: the first one stops, the ones after it never break a clean-up."""

import os
import signal

import pytest

from app.local.supervisor import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_interrupts(number: signal.Signals) -> None:
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


def test_the_second_ctrl_c_is_a_hurry_and_interrupts_nothing() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        assert not interrupts.in_a_hurry
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.in_a_hurry


def test_a_repeated_sigterm_is_no_hurry() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert not interrupts.in_a_hurry


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
