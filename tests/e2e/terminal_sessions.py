"""Terminal sessions of a page, played again: each command runs, and its output is as shown.

`python -m tests.e2e.terminal_sessions` writes the sessions of docs/cli.md anew.
"""

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from app.cli.processes import free_port
from tests.e2e.running_service import RunningService, running_service
from tests.waiting import TIMEOUT_S

PAGE = Path(__file__).parent.parent.parent / "docs" / "cli.md"
BLOCK = re.compile(r"^```console\n(\$ .*?)^```$", re.DOTALL | re.MULTILINE)
CONTROL = re.compile(r"\x1b\[\??([0-9;]*)([A-Za-z])|\x1b\][^\x07]*\x07|([\r\n])|([^\x1b\r\n]+)")
ID = re.compile(r"\b(?:ref|batch|key)_[0-9a-zA-Z]{12,26}\b")
ROWS, COLUMNS = 100, 80

WITHOUT_KEY: dict[str, Any] = {
    "model": "offline:editor",
    "openai_api_key": SecretStr(""),
    "anthropic_api_key": SecretStr(""),
}

FILES = {
    "refund.txt": (
        "In order to get a refund, you should contact our support team. Refunds are"
        " processed within a period of 14 days, due to the fact that our bank is slow. In the"
        " event that you have payed by card, please do not send us your card number, because it"
        " is definately not needed.\n"
    ),
}
TOO_FAST = {"draft": FILES["refund.txt"], "threshold": 0.9, "stop": {"max_seconds": 0.001}}
FILES["too-fast.json"] = json.dumps(TOO_FAST)
FILES["many.jsonl"] = "".join(
    f'{{"custom_id": "mail-{n}", "request": {{"draft": "In order to be short, no. {n}."}}}}\n'
    for n in range(120)
)

INTERRUPTED = {"--review before": "now: waiting", "hone batch": "%", "hone serve": "Ctrl-C ends"}
"""After what Ctrl-C is pressed, once each, by a part of the command."""

SHAPED = "hone doctor", "hone batch"
"""What is not the same twice, and is compared by its words."""

Environment = Mapping[str, str]


@dataclass
class TerminalScreen:
    """What a terminal shows of what it is sent; long lines are not wrapped."""

    lines: list[str] = field(default_factory=lambda: [""])
    row: int = 0
    column: int = 0

    def feed(self, sent: str) -> None:
        for found in CONTROL.finditer(sent):
            number, command, end, text = found.groups()
            if text:
                line = self.lines[self.row].ljust(self.column)
                after = self.column + len(text)
                self.lines[self.row] = line[: self.column] + text + line[after:]
                self.column = after
            elif end == "\r":
                self.column = 0
            elif end == "\n":
                self.row += 1
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif command == "A":
                self.row = max(0, self.row - int(number or 1))
            elif command == "K":
                kept = "" if number == "2" else self.lines[self.row][: self.column]
                self.lines[self.row] = kept

    def text(self) -> str:
        return "\n".join(it.rstrip() for it in self.lines).strip("\n")


def printed(command: str, cwd: Path, environment: Environment, interrupt_at: str | None) -> str:
    """Run a command in a terminal of its own, and return what is on its screen at the end."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    mode = termios.tcgetattr(its)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(its, termios.TCSANOW, mode)
    begin = ["setsid", "--ctty", "bash", "-c", command]
    process = subprocess.Popen(begin, stdin=its, stdout=its, stderr=its, cwd=cwd, env=environment)
    os.close(its)
    sent, deadline = b"", time.monotonic() + TIMEOUT_S
    try:
        while piece := _read(ours, deadline):
            sent += piece
            if interrupt_at and interrupt_at.encode() in sent:
                os.write(ours, b"\x03")
                interrupt_at = None
    finally:
        if process.poll() is None and time.monotonic() > deadline:
            process.kill()
        process.wait()
        os.close(ours)
    screen = TerminalScreen()
    screen.feed(sent.decode())
    return screen.text()


def _read(terminal: int, deadline: float) -> bytes:
    """Return what is sent next; nothing after the end of the command, or at the deadline."""
    if not select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
        return b""
    try:
        return os.read(terminal, 65_536)
    except OSError:  # as Linux says that the other end is closed
        return b""


@dataclass
class PlayedSession:
    """A command of the page with its output there and now, and the ids there and now."""

    command: str
    shown: str
    now: str
    ids: Mapping[str, str]

    def differs(self) -> bool:
        """Return whether the output is another one than the page shows."""
        if any(it in self.command for it in SHAPED):
            return not words_of(self.shown) <= words_of(self.now)
        return steady(with_ids(self.shown, self.ids)) != steady(self.now)


def steady(output: str) -> list[str]:
    """Return the lines without what time and place change."""
    output = re.sub(r"\d{4}-\d\d-\d\d|\d\d:\d\d(?::\d\d)?", "TIME", output)
    output = re.sub(r"\b\d+\.\d s\b|seconds \d+\.\d", "SECONDS", output)
    return [" ".join(line.split()) for line in output.splitlines() if line.strip()]


def words_of(output: str) -> set[str]:
    """Return the words that are no numbers, names of this machine, or units of time."""
    return set(re.findall(r"(?<![\w-])[a-z]+(?![\w-])", output)) - {"vm", "min", "s", "h"}


def with_ids(text: str, ids: Mapping[str, str]) -> str:
    """Return a text with the ids of the page replaced by those of now."""
    return ID.sub(lambda found: ids.get(found[0], found[0]), text)


def commands_of(block: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a block with what they print."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def played(
    page: str, service: RunningService, folder: Path, leave_out: tuple[str, ...] = ()
) -> Iterator[PlayedSession]:
    """Run every command of a page in its order, but those with a part that is to be left out."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    port, own = str(service.settings.port), str(free_port("127.0.0.1"))
    base = {name: it for name, it in os.environ.items() if not name.startswith("HONE_")}
    base |= {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "xterm",
        "HOME": str(folder),
        "NO_PROXY": "*",
    }
    base.pop("COLUMNS", None)
    its = {"HONE_PORT": port, "HONE_REDIS_URL": service.settings.redis_url}
    alone = {
        "HONE_PORT": own,
        "HONE_DATA_DIR": str(folder / "data"),
        "HONE_MODEL": "offline:editor",
    }
    ids: dict[str, str] = {}
    pressed = dict(INTERRUPTED)
    for block in BLOCK.findall(page):
        for command, shown in commands_of(block):
            if any(it in command for it in leave_out):
                continue
            part = next((it for it in pressed if it in command), None)
            at = pressed.pop(part) if part else None
            script = (
                f". ./variables 2>/dev/null\n{with_ids(command, ids)}\n"
                "declare -p ID >variables 2>/dev/null"
            )
            environment = base | (alone if command.endswith("hone serve") else its)
            now = printed(script, folder, environment, at)
            now = now.replace(port, "8080").replace(own, "8080")
            now = now.replace(str(folder / "data"), "/home/ann/.local/share/hone")
            for there, here in zip(ids_in(shown), ids_in(now), strict=False):
                ids.setdefault(there, here)
            yield PlayedSession(command, shown, now, dict(ids))


def ids_in(text: str) -> list[str]:
    return list(dict.fromkeys(ID.findall(text)))


def rewritten(page: str, sessions: list[PlayedSession]) -> str:
    """Return the page with what was printed now."""
    left = iter(sessions)

    def block(found: re.Match[str]) -> str:
        parts = []
        for _ in commands_of(found[1]):
            it = next(left)
            now = f"{it.now}\n".replace(socket.gethostname(), "vm") if it.now else ""
            parts.append(f"$ {with_ids(it.command, it.ids)}\n{now}")
        return f"```console\n{''.join(parts)}```"

    return BLOCK.sub(block, page)


def sessions_of(page: str) -> str:
    """Return the part of the page that has sessions."""
    return page.partition("## Sessions")[2].partition("\n## ")[0]


async def _main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    part = sessions_of(page)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "service").mkdir()
        (path / "home").mkdir()
        async with running_service(path / "service", **WITHOUT_KEY) as service:
            found = await asyncio.to_thread(lambda: [*played(part, service, path / "home")])
    PAGE.write_text(page.replace(part, rewritten(part, found)), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(_main())
