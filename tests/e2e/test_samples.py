"""The samples and the tutorial of the documentation do what they say, against `hone serve`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook as Signer

from tests.e2e.conftest import TSC, run_in
from tests.local_endpoint import SECRET
from tests.ports import reserved_port
from tests.waiting import TIMEOUT_S, eventually

pytestmark = pytest.mark.long

DOCS = Path(__file__).parent.parent.parent / "docs"
TUTORIAL = (DOCS / "tutorial.md").read_text()
CLIENTS = (DOCS / "clients.md").read_text()
HERE = "localhost:8080"
SECTION = re.compile(r"^## (.*?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = {
    "Submit and wait": r"To use the API, ",
    "Submit now, look later": r"ref_\w+",
    "Watch": r"refinement\.completed",
    "Let a person decide": r'approved|"status":"queued"',
    "Many at once": r"mail-2.*We are open now",
    "Errors": r"invalid_request",
}
"""What each sample of docs/clients.md prints, in every language."""


WEBHOOK, SERVICE = "Check a webhook", "Inside your service"
BODY = b'{"type":"refinement.completed","timestamp":"2026-01-31T09:00:00Z","data":{"id":"ref_1"}}'
ALL_SAMPLES = """
const [, , sent, ...names] = process.argv;
const [body, headers, secret] = JSON.parse(sent);
for (const name of names) {
  const { receive } = await import(`./${name}.js`);
  if (receive) {
    console.log(await receive(body, new Headers(headers), secret));
    console.log(await receive(body + ' ', new Headers(headers), secret));
  }
  console.log('---');
}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service as `make serve` starts it, without a model."""
    folder = tmp_path_factory.mktemp("serve")
    with reserved_port() as port:
        yield from serving(folder, port)


def serving(folder: Path, port: int) -> Iterator[str]:
    environment = {name: it for name, it in os.environ.items() if not name.startswith("HONE_")}
    settings = {"HONE_PORT": str(port), "HONE_DATA_DIR": str(folder / "data")}
    (folder / ".env").write_text(re.findall(r"> \.env <<'END'\n(.*?)END\n", TUTORIAL, re.DOTALL)[0])
    log = folder / "log"
    with log.open("wb") as out:
        serving = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "serve"],
            env=environment | settings | {"PYTHONPATH": str(DOCS.parent)},
            cwd=folder,
            stdout=out,
            stderr=out,
        )
    try:
        assert eventually(lambda: b"is ready" in log.read_bytes() or serving.poll() is not None)
        assert serving.poll() is None, log.read_text()
        yield f"localhost:{port}"
    finally:
        serving.terminate()
        serving.wait(TIMEOUT_S)


def samples(language: str) -> dict[str, str]:
    """The samples of docs/clients.md in a language, by their section."""
    return {
        title: code
        for title, text in SECTION.findall(CLIENTS)
        for kind, code in BLOCK.findall(text)
        if kind == language and title != SERVICE
    }


def python(code: str) -> str:
    """Run Python in this process and return what it prints."""
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code, "sample", "exec"), {"__name__": "sample"})
    return printed.getvalue()


def shell(code: str) -> str:
    """Run a script and return what it prints."""
    command = ["bash", "-euo", "pipefail", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def signed(key: str) -> dict[str, str]:
    """The headers of a webhook that a key has signed now."""
    now = datetime.now(UTC)
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": f"{int(now.timestamp())}",
        "webhook-signature": Signer(key).sign("msg_1", now, BODY.decode()),
    }


@pytest.mark.parametrize("title", PRINTED)
@pytest.mark.parametrize(("language", "run"), [("sh", shell), ("python", python)])
def test_a_sample_prints_what_it_should(
    address: str, language: str, run: Callable[[str], str], title: str
) -> None:
    assert re.search(PRINTED[title], run(samples(language)[title].replace(HERE, address)))


def test_every_section_has_a_sample_in_every_language() -> None:
    assert set(samples("sh")) == set(PRINTED)
    assert set(samples("python")) == set(samples("ts")) == {*PRINTED, WEBHOOK}


def test_the_samples_of_the_front_page_are_the_first_ones() -> None:
    front = dict(BLOCK.findall((DOCS / "index.md").read_text()))
    assert front == {it: samples(it)["Submit and wait"] for it in ("sh", "python", "ts")}


@pytest.mark.parametrize("key", [SECRET, "whsec_" + "QUFB" * 10])
def test_the_receiver_in_python_accepts_what_is_signed_and_nothing_else(key: str) -> None:
    receiver: dict[str, Any] = {"__name__": "sample"}
    exec(samples("python")[WEBHOOK], receiver)
    status = receiver["receive"](BODY, signed(key), SECRET)
    assert status == (204 if key == SECRET else 400)


def test_the_samples_in_typescript_compile_strictly_and_print_the_same(
    address: str, package: Path
) -> None:
    folder = package / "samples"
    folder.mkdir()
    titles = {f"{at}": title for at, title in enumerate(samples("ts"))}
    for name, title in titles.items():
        (folder / f"{name}.ts").write_text(samples("ts")[title].replace(HERE, address))
    options = {"rootDir": ".", "outDir": "../built", "declaration": False}
    config = {"extends": "../tsconfig.json", "compilerOptions": options, "include": ["."]}
    (folder / "tsconfig.json").write_text(json.dumps(config))
    compiled = run_in(package, "node", TSC, "-p", "samples")
    assert compiled.returncode == 0, compiled.stdout
    (package / "built" / "all.mjs").write_text(ALL_SAMPLES)
    sent = json.dumps([BODY.decode(), signed(SECRET), SECRET])
    done = run_in(package, "node", "built/all.mjs", sent, *titles)
    assert done.returncode == 0, done.stderr
    printed = dict(zip(titles.values(), done.stdout.split("---\n"), strict=False))
    assert {it for it in PRINTED if not re.search(PRINTED[it], printed[it])} == set()
    assert printed[WEBHOOK].split() == ["refinement.completed", "ref_1", "204", "400"]


OFFERED = {
    "text": "In order to get a refund, you should contact us.",
    "audience": "customers",
}


def own_service(language: str, port: int) -> str:
    """The service that docs/clients.md names, in a language, on another port."""
    code = (DOCS.parent / "examples" / "service" / f"improving.{language}").read_text()
    return code.replace("8700", str(port))


@contextmanager
def started_service(command: list[str], folder: Path, address: str, log: Path) -> Iterator[None]:
    """Run a service of examples/service that uses the Hone at this address."""
    variables = {"HONE_SERVER": f"http://{address}", "WEBHOOK_SECRET": SECRET}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | variables, stdout=out, stderr=out
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def shows_what_the_page_says(port: int, log: Path) -> None:
    """Submit, look and be told; a wrong value, an id that there is not."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S) as callers:
        assert eventually(lambda: answers(callers)), log.read_text()
        ids = set()
        for _ in range(2):
            accepted = callers.post(
                "/improvements", json=OFFERED, headers={"Idempotency-Key": f"mail-{port}"}
            )
            assert accepted.status_code == 202, accepted.text + log.read_text()
            ids.add(accepted.json()["id"])
        (known,) = ids
        assert eventually(lambda: f"refinement.completed {known} succeeded" in log.read_text())
        found = callers.get(f"/improvements/{known}").json()
        assert found["outcome"] == "passed"
        assert found["result"]["text"] == "To get a refund, you should contact us."
        refused = callers.post("/improvements", json=OFFERED | {"text": ""})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "text")
        assert callers.get("/improvements/ref_01J00000000000000000000000").status_code == 404
        assert callers.post("/hone", json={}).status_code == 400
        key, long = {"Idempotency-Key": f"mail-{port}"}, "Long. " * 1_500_000
        for other, status in (("Another text.", 422), (long, 413)):
            refused = callers.post("/improvements", json=OFFERED | {"text": other}, headers=key)
            assert refused.status_code == status, refused.text
        assert callers.delete(f"/improvements/{known}").status_code == 409


def tells_that_hone_is_away(port: int, log: Path) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S) as callers:
        assert eventually(lambda: answers(callers)), log.read_text()
        refused = callers.post("/improvements", json=OFFERED)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10")


def answers(callers: httpx.Client) -> bool:
    try:
        return callers.get("/").status_code == 404
    except httpx.TransportError:
        return False


def in_python(_package: Path, folder: Path, port: int) -> list[str]:
    (folder / "improving.py").write_text(own_service("py", port))
    return [sys.executable, "-m", "uvicorn", "improving:app", "--port", str(port)]


def in_typescript(package: Path, folder: Path, port: int) -> list[str]:
    """Compile it beside the client, whose name it imports."""
    name = f"improving{port}"
    (package / name).mkdir()
    (package / name / "improving.ts").write_text(own_service("ts", port))
    options = {"rootDir": ".", "outDir": f"../built/{name}", "types": ["node"]}
    config = {"extends": "../tsconfig.json", "compilerOptions": options, "include": ["."]}
    (package / name / "tsconfig.json").write_text(json.dumps(config))
    compiled = run_in(package, "npx", "--no-install", "tsc", "-p", name)
    assert compiled.returncode == 0, compiled.stdout
    return ["node", str(package / "built" / name / "improving.js")]


@pytest.mark.parametrize("written", [in_python, in_typescript])
def test_a_service_of_the_page_does_what_it_shows(
    address: str,
    package: Path,
    tmp_path: Path,
    written: Callable[[Path, Path, int], list[str]],
) -> None:
    log = tmp_path / "log"
    with reserved_port() as port:
        command = written(package, tmp_path, port)
        with started_service(command, tmp_path, address, log):
            shows_what_the_page_says(port, log)
        with started_service(command, tmp_path, "127.0.0.1:1", log):
            tells_that_hone_is_away(port, log)


DONE_BEFORE = ("make serve", "source .venv/bin/activate", "pip install ./clients/python")
"""Commands of the tutorial that the tests have done in another way."""


def test_the_tutorial_does_what_it_shows(address: str, tmp_path: Path) -> None:
    with reserved_port() as first, reserved_port() as second:
        page = TUTORIAL.replace("8766", str(first)).replace("8767", str(second))
        does_what_it_shows(page.replace(HERE, address), address, tmp_path)


def does_what_it_shows(page: str, address: str, tmp_path: Path) -> None:
    commands = "".join(
        f"{code}printf '\\n\\036\\n'\n"
        for language, code in BLOCK.findall(page)
        if language == "sh"
    )
    for it in DONE_BEFORE:
        assert commands.count(f"{it}\n") == 1
        commands = commands.replace(f"{it}\n", "")
    path = f"PATH={Path(sys.executable).parent}:$PATH HONE_SERVER=http://{address}"
    outputs = iter(shell(f"cd {tmp_path}\nexport {path}\n{commands}").split("\x1e\n"))
    output = ""
    for language, code in BLOCK.findall(page):
        if language == "sh":
            output = next(outputs)
        elif language == "text":
            assert re.search(pattern_of(code), output, re.DOTALL), f"{code}\nis not in\n{output}"


def test_the_tutorial_is_read_and_typed_in_20_minutes() -> None:
    words = BLOCK.sub("", TUTORIAL).split()
    copied = [code for language, code in BLOCK.findall(TUTORIAL) if language == "sh"]
    assert len(words) / 150 + len(copied) / 2 < 20  # words a minute; half a minute a block


def pattern_of(shown: str) -> str:
    """What an output that a page shows stands for: its lines in this order; `...` is anything."""
    shown = re.sub(r'"workers":\d+', '"workers":...', shown)  # one for each core
    lines = (re.escape(it.strip()).replace(r"\.\.\.", ".*") for it in shown.splitlines())
    return r".*".join(lines)
