"""The receivers that docs/watching.md names verify what Hone sends, and nothing else."""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.contract.webhooks import Webhook
from tests.local_endpoint import SECRET, THIS_MACHINE, signing_of
from tests.ports import reserved_port
from tests.waiting import TIMEOUT_S
from workers.outbound.guarded_client import open_endpoints
from workers.webhooks import SCHEDULE_S

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "watching.md").read_text()
RECEIVERS = ROOT / "examples" / "webhooks"
BODY = b'{"type":"refinement.completed","data":{"id":"ref_1","status":"succeeded"}}'
OTHER = SecretStr("whsec_" + "QUFB" * 10)


def node() -> str:
    """Return Node with its stock library, else skip: NODE_PATH says where that is."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("Node is not installed")
    probe = [found, "-e", "require('standardwebhooks')"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("the npm package standardwebhooks is not in NODE_PATH")
    return found


@asynccontextmanager
async def receiver(tmp_path: Path, language: str) -> AsyncIterator[tuple[str, Path]]:
    """Run a receiver; yield its URL, and the file that has what it prints."""
    command = [node()] if language == "js" else [sys.executable]
    script, printed = RECEIVERS / f"receiver.{language}", tmp_path / "printed"
    environment = {**os.environ, "WEBHOOK_SECRET": SECRET}
    with reserved_port() as port, printed.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *command, script, str(port), env=environment, stdout=out, stderr=out
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not _listens(port):
                    assert process.returncode is None, printed.read_text()
                    await asyncio.sleep(0.02)
            yield f"http://127.0.0.1:{port}/", printed
        finally:
            process.kill()
            await process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("language", ["py", "js"])
async def test_a_receiver_accepts_what_is_signed_and_takes_it_once(
    tmp_path: Path, language: str
) -> None:
    async with (
        receiver(tmp_path, language) as (url, printed),
        open_endpoints(signing_of, allowed=THIS_MACHINE) as client,
    ):
        forged = Webhook(url=url, secret=OTHER)
        assert (await client.deliver(forged, BODY, "msg_1_1", "default")).status == 400
        for _ in range(2):
            answer = await client.deliver(Webhook(url=url), BODY, "msg_1_1", "default")
            assert answer.status == 204
        lines = [it for it in printed.read_text().splitlines() if it.startswith("refinement.")]
    assert lines == ["refinement.completed ref_1 succeeded"]


def test_the_page_says_when_it_is_tried_again() -> None:
    units = {"s": 1, "min": 60, "h": 3600}
    (said,) = re.findall(r"tries again after (.*?), each", PAGE)
    waits = re.findall(r"(\d+) (s|min|h)\b", said)
    assert [int(number) * units[unit] for number, unit in waits] == list(SCHEDULE_S)
