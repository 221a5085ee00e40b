"""Three Redis as the cells of one service."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import SecretStr
from redis import Redis

from app.local.embedded import EmbeddedRedis
from app.settings import Settings
from app.store.redis import keys
from tests.waiting import TIMEOUT_S

CELLS = 3


@dataclass
class CellGroup:
    """The servers of the cells, and the settings of all."""

    servers: list[EmbeddedRedis]
    settings: Settings

    def command(self, cell: int, *words: object) -> Any:
        with Redis.from_url(self.servers[cell].url) as client:
            return client.execute_command(*words)

    def open(self, *cells: int, until: float | None = None) -> None:
        """Let submissions go to these cells from the beginning, and ids have their numbers."""
        self.command(0, "SET", keys.FORMAT, keys.FIRST_RELEASE)
        for cell in cells:
            opened = json.dumps({"since": 0, "until": until})
            self.command(0, "HSET", keys.CELLS, cell, opened)
        self.command(0, "HSET", keys.CELLS, "coded_since", 0)
        self.command(0, "HSET", keys.ACCESS, "version", uuid4().hex)


@contextmanager
def several_cells(path: Path, **more: Any) -> Iterator[CellGroup]:
    """Run a Redis for each of three cells, all of which take submissions."""
    with ExitStack() as stack:
        paths = [path / f"cell-{n}" for n in range(CELLS)]
        servers = [stack.enter_context(EmbeddedRedis(it, aof=True)) for it in paths]
        urls = [it.url for it in servers]
        settings = Settings(
            redis_url=urls[0],
            cells=CELLS,
            cells_url=" ".join(urls[1:]),
            redis_timeout_s=TIMEOUT_S,
            port=0,
            auth="off",
            secret_key=SecretStr("a secret of the tests"),
        ).model_copy(update=more)
        found = CellGroup(servers, settings)
        found.open(1, 2)
        yield found
