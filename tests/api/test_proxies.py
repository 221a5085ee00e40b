"""Real proxies before a server on loopback without keys: what it refuses, and what it cannot."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection
from urllib.parse import urlsplit

import httpx
import pytest

from app.access.keyring import Keyring
from app.contract.access import OPERATOR, KeyRequest
from app.settings import Settings
from app.store import Store
from tests.api.api_client import REQUEST
from tests.api.conftest import running
from tests.api.test_access import until
from tests.ports import reserved_port
from tests.waiting import TIMEOUT_S

NGINX = """
daemon off; pid {folder}/pid; error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {url}; {more} }} }}
}}
"""
HAPROXY = """
defaults
  mode http
  timeout connect 60s
  timeout client 60s
  timeout server 60s
  {more}
frontend clients
  bind 127.0.0.1:{port}
  default_backend hone
backend hone
  server hone {address}
"""
NAMES = ("hone.example.com", "10.0.0.5", "localhost")


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"auth": "auto"})


@contextmanager
def proxied(folder: Path, url: str, more: str, *, by: str) -> Iterator[str]:
    """Run a proxy before a server, and yield its address."""
    if shutil.which(by) is None:
        pytest.skip(f"{by} is not installed")
    address = urlsplit(url).netloc
    with reserved_port() as port:
        written = {"nginx": NGINX, "haproxy": HAPROXY}[by].format(
            folder=folder, port=port, url=url, address=address, more=more
        )
        (folder / by).write_text(written)
        options = ["-c"] if by == "nginx" else ["-f"]
        process = subprocess.Popen([by, *options, str(folder / by)], stderr=subprocess.DEVNULL)
        try:
            until_begin = time.monotonic() + TIMEOUT_S
            while not listens(port):
                if process.poll() is not None or time.monotonic() > until_begin:
                    pytest.fail(f"{by} does not begin")
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def listens(port: int) -> bool:
    try:
        create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def answers(url: str, *names: str, key: str = "") -> list[int]:
    """Return the statuses of reading and submitting under each name of the proxy."""
    with httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False) as client:
        sent = [{"Host": it} | ({"Authorization": f"Bearer {key}"} if key else {}) for it in names]
        return [
            call("/v1/refinements", headers=headers).status_code
            for headers in sent
            for call in (client.get, lambda path, **it: client.post(path, json=REQUEST, **it))
        ]


@pytest.mark.parametrize(
    ("by", "more", "names"),
    [
        ("nginx", "proxy_http_version 1.0;", NAMES),
        ("nginx", "proxy_http_version 1.1; proxy_set_header Host $host;", NAMES[:2]),
        ("nginx", "proxy_http_version 1.1; proxy_set_header X-Real-IP $remote_addr;", NAMES),
        ("haproxy", "", NAMES[:2]),
        ("haproxy", "option forwardfor", NAMES),
    ],
)
def test_what_a_proxy_shows_of_itself_needs_a_key(
    settings: Settings, tmp_path: Path, by: str, more: str, names: tuple[str, ...]
) -> None:
    with running(settings) as url, proxied(tmp_path, url, more, by=by) as proxy:
        assert set(answers(proxy, *names)) <= {401, 421}


@pytest.mark.parametrize(("by", "more"), [("nginx", "proxy_http_version 1.1;"), ("haproxy", "")])
async def test_a_proxy_that_shows_nothing_lets_all_in_until_there_is_a_key(
    settings: Settings, store: Store, tmp_path: Path, by: str, more: str
) -> None:
    """So nothing may stand before a server without keys, as it says at its start."""
    with running(settings) as url, proxied(tmp_path, url, more, by=by) as proxy:
        assert answers(proxy, "localhost") == [200, 202]
        issued = await Keyring(store.access, settings).create(OPERATOR, KeyRequest())
        await until(url, None, is_in=False)
        assert answers(proxy, "localhost") == [401, 401]
        assert answers(proxy, "localhost", key=issued.key) == [200, 202]
