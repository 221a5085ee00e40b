"""Ctrl-C and its kin, made safe to clean up under."""

import signal
from types import FrameType, TracebackType
from typing import Any, Self

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, the first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt, and no other.

    What ends things may therefore run undisturbed, and ask whether somebody is in a hurry: pressed
    Ctrl-C again. Only the main thread may enter it.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._presses = 0
        self._before: dict[signal.Signals, Any] = {}

    @property
    def in_a_hurry(self) -> bool:
        """Whether Ctrl-C was pressed when something had already asked for the end."""
        return self._presses > 0

    def __enter__(self) -> Self:
        # nohup ignores SIGHUP for its program, and that is to stay so.
        wanted = [s for s in STOPS if s is signal.SIGINT or signal.getsignal(s) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._note) for number in wanted}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._seen += 1
        if self._seen == 1:
            raise KeyboardInterrupt
        if number == signal.SIGINT:
            self._presses += 1
