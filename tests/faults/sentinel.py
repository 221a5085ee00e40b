"""A primary with replicas and the Sentinels that watch it, as processes that a fault can hit."""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from app.local.embedded import RedisBinary, find_redis
from app.local.parent_death import dying_with_parent
from tests.ports import reserved_port
from tests.waiting import TIMEOUT_S, eventually

HOST = "127.0.0.1"
SERVICE = "hone"
SENTINELS = 3
QUORUM = 2
DOWN_AFTER_MS = 1_000
FAILOVER_TIMEOUT_MS = 5_000


@dataclass
class ServerProcess:
    """A Redis or a Sentinel on a port of its own."""

    port: int
    directory: Path
    command: Sequence[str]
    process: "subprocess.Popen[bytes] | None" = None
    host: str = HOST

    def start(self) -> None:
        """Start it, and return once it answers."""
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                dying_with_parent(self.command, signal.SIGKILL),
                cwd=self.directory,
                stdout=log,
                stderr=log,
            )
        assert eventually(self.answers), (self.directory / "log").read_text()

    def answers(self) -> bool:
        """Return whether it answers within a second."""
        with suppress(RedisError), self.client(timeout_s=1) as client:
            return bool(client.ping())
        return False

    def client(self, timeout_s: float = TIMEOUT_S) -> Redis:
        """Return a client of exactly this server."""
        return Redis(self.host, self.port, decode_responses=True, socket_timeout=timeout_s)

    def kill(self) -> None:
        """Kill it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass
class SentinelCluster:
    """One primary, its replicas, and the Sentinels; all but the killed ones run."""

    servers: list[ServerProcess]
    sentinels: list[ServerProcess]

    @property
    def url(self) -> str:
        """What HONE_REDIS_URL is set to."""
        hosts = ",".join(f"{HOST}:{it.port}" for it in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    @property
    def primary(self) -> ServerProcess:
        """The server that the Sentinels name as the primary."""
        with self.sentinels[0].client() as client:
            _, port = client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(it for it in self.servers if it.port == int(port))

    def demote(self) -> None:
        """Have the Sentinels promote a replica; return once they have.

        The old primary stays reachable, and takes writes that are lost: for about 10 seconds
        Sentinel leaves it as it is, then makes it a replica.
        """
        before = self.primary

        def is_ordered() -> bool:
            with suppress(RedisError), self.sentinels[0].client() as client:
                return bool(client.execute_command("SENTINEL FAILOVER", SERVICE))
            return False

        assert eventually(is_ordered)
        self._until_replaced(before)

    def kill_primary(self) -> None:
        """Kill the primary, and return once the Sentinels have promoted a replica."""
        before = self.primary
        before.kill()
        self._until_replaced(before)

    def revive(self) -> None:
        """Start the servers that were killed; Sentinel makes them replicas."""
        for server in self.servers:
            if server.process is not None and server.process.poll() is not None:
                server.start()

    def is_replicated(self) -> bool:
        """Return whether every server that runs follows the primary, and all Sentinels agree."""
        running = [it for it in self.servers if it.answers()]
        with self.primary.client() as client:
            attached = client.info("replication")["connected_slaves"]
        return attached == len(running) - 1 and all(map(self._knows_all, self.sentinels))

    def _knows_all(self, sentinel: ServerProcess) -> bool:
        with sentinel.client() as client:
            state = client.execute_command("SENTINEL MASTERS")[SERVICE]
        known = (state["num-other-sentinels"], state["num-slaves"], state["flags"])
        return known == (len(self.sentinels) - 1, len(self.servers) - 1, "master")

    def _until_replaced(self, before: ServerProcess) -> None:
        assert eventually(lambda: self.primary is not before and _role(self.primary) == "master")


def _role(server: ServerProcess) -> str:
    with suppress(RedisError), server.client() as client:
        return str(client.info("replication")["role"])
    return ""


class Launcher:
    """Starts servers in directories below `path`; they end with the context."""

    def __init__(self, path: Path, ending: ExitStack, binary: RedisBinary | None = None) -> None:
        self._path = path
        self._ending = ending
        self._binary = str((binary or find_redis()).path)

    def start(self, name: str, *arguments: str, host: str = HOST) -> ServerProcess:
        """Start a server on a port of its own."""
        port = self._ending.enter_context(reserved_port(host))
        directory = self._path / name
        directory.mkdir(parents=True)
        where = ("--port", str(port), "--bind", host, "--dir", ".")
        server = ServerProcess(port, directory, [self._binary, *arguments, *where], host=host)
        self._ending.callback(server.kill)
        server.start()
        return server

    def replicated(self, replicas: int, *options: str) -> list[ServerProcess]:
        """Start a primary and replicas that follow it; the primary is the first."""
        data = ("--appendonly", "yes", "--repl-diskless-sync-delay", "0", *options)
        primary = self.start("primary", *data)
        follow = ("--replicaof", f"{HOST} {primary.port}")
        return [primary, *(self.start(f"replica-{n}", *data, *follow) for n in range(replicas))]

    def sentinel(self, name: str, primary: ServerProcess) -> ServerProcess:
        """Start a Sentinel that watches `primary`."""
        conf = self._path / f"{name}.conf"
        conf.write_text(
            f"sentinel monitor {SERVICE} {HOST} {primary.port} {QUORUM}\n"
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}\n"
        )
        return self.start(name, str(conf), "--sentinel")


@contextmanager
def replicated_servers(path: Path, replicas: int = 1) -> Iterator[list[ServerProcess]]:
    """Run a primary, the first, and replicas that have caught up with it."""
    with ExitStack() as ending:
        servers = Launcher(path, ending).replicated(replicas)
        with servers[0].client() as client:
            assert eventually(lambda: client.wait(replicas, 100) == replicas)
        yield servers


@contextmanager
def sentinel_cluster(
    path: Path, *, replicas: int = 2, options: Sequence[str] = ()
) -> Iterator[SentinelCluster]:
    """Run a primary, `replicas` and three Sentinels on free ports; end them all afterwards."""
    with ExitStack() as ending:
        launcher = Launcher(path, ending)
        servers = launcher.replicated(replicas, *options)
        sentinels = [launcher.sentinel(f"sentinel-{n}", servers[0]) for n in range(SENTINELS)]
        cluster = SentinelCluster(servers, sentinels)
        assert eventually(cluster.is_replicated)
        yield cluster
