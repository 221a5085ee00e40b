"""A small HTTP server that answers as scripted and records what it was asked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class CannedResponse:
    """One response; with `hangs` silence follows its body, with `breaks` nothing is sent."""

    body: str = ""
    status: int = 200
    media_type: str = "application/json"
    hangs: bool = False
    breaks: bool = False


@dataclass(frozen=True)
class ReceivedRequest:
    """One request that came in."""

    route: str
    body: str
    last_event_id: str | None
    authorization: str | None = None
    key: str | None = None


@dataclass
class ScriptedApi:
    """The answers by route, such as `GET /readyz`; the last answer of a route is repeated."""

    url: str
    answers: dict[str, list[CannedResponse]] = field(default_factory=dict)
    asked: list[ReceivedRequest] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def answer_to(self, asked: ReceivedRequest) -> CannedResponse:
        self.asked.append(asked)
        answers = self.answers.get(asked.route, [CannedResponse("{}", 404)])
        return answers.pop(0) if len(answers) > 1 else answers[0]


class ScriptedServer(ThreadingHTTPServer):
    """Holds the script that its connections play."""

    daemon_threads = True

    def __init__(self, kind: type[ScriptedApi]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = kind(f"http://127.0.0.1:{self.server_port}")


class Handler(BaseHTTPRequestHandler):
    """Plays the script of its server."""

    server: ScriptedServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        route = f"{self.command} {self.path}"
        answer = self.server.script.answer_to(
            ReceivedRequest(
                route,
                body,
                self.headers.get("Last-Event-ID"),
                self.headers.get("Authorization"),
                self.headers.get("Idempotency-Key"),
            )
        )
        if answer.breaks:
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.media_type)
        self.end_headers()
        self.wfile.write(answer.body.encode())
        self.wfile.flush()
        if answer.hangs:
            self.server.script.released.wait()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def scripted_server(kind: type[ScriptedApi] = ScriptedApi) -> Iterator[ScriptedApi]:
    """Run one on a free port of this machine; `kind` says how it finds its answers."""
    with ScriptedServer(kind) as server:
        script = server.script
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield script
        finally:
            script.released.set()
            server.shutdown()
            thread.join()
