"""The programme notes of a kill what the killed process and its children had in hand."""

import os
from pathlib import Path
from random import Random

from app.settings import Settings
from tests.faults.cluster import Cluster
from tests.faults.processes import KeptProcess, model_server
from tests.waiting import eventually

FORKED = """
import os, signal, socket, sys, time
from app.local.parent_death import die_with_parent
parent = os.getpid()
if os.fork():
    time.sleep(600)
die_with_parent(signal.SIGKILL, parent)
call = f"POST /v1 HTTP/1.1\\r\\nIdempotency-Key: {parent}\\r\\nContent-Length: 2\\r\\n\\r\\n{{}}"
opened = []
while True:
    opened.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
    opened[-1].send(call.encode())
    time.sleep(0.002)
"""
"""A program whose child, like one that plays suspects, opens one connection after the other."""


def test_a_kill_notes_every_connection_of_the_children_too(tmp_path: Path) -> None:
    (tmp_path / "forked.py").write_text(FORKED)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with model_server(60, 60) as models:
        cluster = Cluster(Settings(), None, "", models, Random(1), tmp_path)
        module, log = ("forked", str(models.port)), tmp_path / "worker.log"
        worker = cluster.processes["worker"] = KeptProcess("worker", module, environment, log)
        try:
            killed = str(worker.pid)
            assert eventually(lambda: len(cluster.calls) > 10)
            cluster.kill(worker)
            assert eventually(lambda: cluster.calls[-1].key == str(worker.pid))
        finally:
            cluster.end()
    (loss,) = cluster.losses
    assert loss.ports
    assert {it.port for it in cluster.calls if it.key == killed} <= loss.ports
