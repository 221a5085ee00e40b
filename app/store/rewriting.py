"""Rewrites the append-only file of a server after deletions, so that the disk forgets them too."""

import time
from collections.abc import Callable

from redis import Redis
from redis.exceptions import RedisError

from app.store import keys
from app.store.scripts import REWRITTEN

LOOK_S = 5.0


class LogRewriter:
    """Rewrites the file `every_s` seconds after a deletion, for all deletions until then.

    What was deleted is off the disk after that time and the time of a rewrite, and there is at most
    one rewrite in that time. What is due is noted in Redis: neither a restart of this process nor
    one of the server loses it, and a rewrite that fails is repeated.
    """

    def __init__(
        self,
        client: Redis,
        every_s: float,
        *,
        look_s: float = LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._every_ms = every_s * 1000
        self._look_s = look_s
        self._clock = clock
        self._looked_at = float("-inf")
        self._under_way: tuple[bytes | str, int] | None = None

    def tick(self) -> None:
        """Do what is due, now and then; it takes milliseconds. A server that is away is skipped."""
        if self._clock() - self._looked_at < self._look_s:
            return
        self._looked_at = self._clock()
        try:
            self._look()
        except RedisError:
            self._under_way = None

    def _look(self) -> None:
        if self._under_way is not None:
            self._finish(*self._under_way)
            return
        since, count = self._client.hmget(keys.ERASURES, ["since", "count"])
        seconds, micros = self._client.time()
        now = int(seconds) * 1000 + int(micros) // 1000
        if since is None or count is None or now - int(since) < self._every_ms:
            return
        self._client.bgrewriteaof()
        self._under_way = count, now

    def _finish(self, count: bytes | str, began: int) -> None:
        """Note that the file is rewritten, once it is; deletions since it began are due later."""
        state = self._client.info("persistence")
        if state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]:
            return
        self._under_way = None
        if state["aof_last_bgrewrite_status"] == "ok":
            self._client.eval(REWRITTEN.text, 0, count, began)
