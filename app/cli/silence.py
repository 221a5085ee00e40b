"""Messages that a server does not answer, one for each silence."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

ANSWER_S = 5.0
"""Seconds that a request may take before it is said that there is no answer."""

STREAM_S = 20.0
"""Seconds that an event stream may have no bytes: the server comments every 15 seconds."""

NOTHING_LOST = "Nothing is lost: this command goes on when it answers."
NOTHING_TWICE = "This command goes on when it answers; nothing is submitted twice."


class Silence:
    """Watches for signs of life while one is expected.

    `tell` is called from another thread with "... does not answer", once for each silence, and with
    "... answers again" from the thread that heard it. Use it from one thread.
    """

    def __init__(
        self,
        server: str,
        tell: Callable[[str], None],
        *,
        answer_s: float = ANSWER_S,
        stream_s: float = STREAM_S,
    ) -> None:
        self._server = server
        self._tell = tell
        self._answer_s, self._stream_s = answer_s, stream_s
        self._changed = threading.Condition()
        self._since = 0.0  # the last sign of life, or when one was first expected
        self._limit_s: float | None = None  # while none is expected
        self._meanwhile = ""
        self._is_told = self._is_closed = False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @contextmanager
    def expecting(self, meanwhile: str = NOTHING_LOST) -> Iterator[None]:
        """Expect an answer; `meanwhile` is added to the message that there is none."""
        self._meanwhile = meanwhile
        self._expect(self._answer_s)
        try:
            yield
        finally:
            self.idle()

    def streaming(self) -> None:
        """Note that a streamed answer has started, whose parts may come late."""
        self.heard()
        self._expect(self._stream_s)

    def idle(self) -> None:
        """Expect nothing."""
        self._expect(None)

    def heard(self) -> None:
        """Note a sign of life; after a message about silence, say that the silence is over."""
        with self._changed:
            now = time.monotonic()
            silent_s, self._since = now - self._since, now
            is_over, self._is_told = self._is_told, False
        if is_over:
            self._tell(f"{self._server} answers again, after {silent_s:.0f} s.")

    def failed(self, why: str) -> None:
        """Say at once that there is no answer, unless a message said so already."""
        with self._changed:
            self._tell_once(f"{self._server} does not answer: {why}")

    def close(self) -> None:
        """End all messages."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _expect(self, limit_s: float | None) -> None:
        with self._changed:
            if self._limit_s is None and not self._is_told:
                self._since = time.monotonic()
            self._limit_s = limit_s
            self._changed.notify()
        if self._thread.ident is None:
            self._thread.start()

    def _watch(self) -> None:
        with self._changed:
            while not self._is_closed:
                if self._limit_s is None or self._is_told:
                    self._changed.wait()
                    continue
                silent_s = time.monotonic() - self._since
                if silent_s < self._limit_s:
                    self._changed.wait(self._limit_s - silent_s)
                else:
                    self._tell_once(f"{self._server} has not answered for {silent_s:.0f} s")

    def _tell_once(self, fact: str) -> None:
        if not self._is_told:
            self._is_told = True
            self._tell(f"{fact}. {self._meanwhile}")


class ListeningClient(httpx.Client):
    """Tells `silence` what it waits for and hears; calls `on_piece` for each piece of a stream."""

    def __init__(self, silence: Silence, on_piece: Callable[[], None], **options: Any) -> None:
        super().__init__(**options)
        self._silence = silence
        self._on_piece = on_piece

    def send(
        self, request: httpx.Request, *, stream: bool = False, **options: Any
    ) -> httpx.Response:
        """Send a request as httpx does."""
        is_submission = "Idempotency-Key" in request.headers
        with self._silence.expecting(NOTHING_TWICE if is_submission else NOTHING_LOST):
            response = super().send(request, stream=stream, **options)
        self._silence.heard()
        if stream:
            response.stream = _HeardStream(response.stream, self._silence, self._on_piece)
            self._silence.streaming()
        return response


class _HeardStream(httpx.SyncByteStream):
    def __init__(self, stream: Any, silence: Silence, on_piece: Callable[[], None]) -> None:
        self._stream = stream
        self._silence = silence
        self._on_piece = on_piece

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            self._silence.heard()
            self._on_piece()
            yield piece

    def close(self) -> None:
        self._stream.close()
        self._silence.idle()
