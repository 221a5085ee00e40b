"""One pub/sub connection per API process wakes whoever watches a refinement that changed."""

from contextlib import AbstractAsyncContextManager


class Changed:
    """Whether something happened since the last `wait`."""

    async def wait(self, timeout_s: float) -> bool:
        """Return True as soon as there is news, False after `timeout_s`."""
        raise NotImplementedError


class Wakeups:
    """Who watches which refinement."""

    async def __aenter__(self) -> "Wakeups":
        raise NotImplementedError

    async def __aexit__(self, *_: object) -> None:
        raise NotImplementedError

    def watch(self, refinement_id: str) -> AbstractAsyncContextManager[Changed]:
        """Tell the caller when the refinement changes, for as long as the context is open."""
        raise NotImplementedError
