"""A scripted server in a process of its own, which can be frozen."""

import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.cli.scripted_server import CannedResponse, scripted_server

Answers = Mapping[str, Sequence[CannedResponse]]


@dataclass(frozen=True)
class FrozenApi:
    """The process, which can be frozen, and answers no more until it is thawed."""

    process: "subprocess.Popen[bytes]"
    url: str

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def release(self) -> None:
        """End the answers that hang, once it is not frozen."""
        assert self.process.stdin
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


@contextmanager
def frozen_api(answers: Answers) -> Iterator[FrozenApi]:
    """Run one with these answers by route; it is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            pickle.dump({route: [*each] for route, each in answers.items()}, process.stdin)
            process.stdin.flush()
            yield FrozenApi(process, process.stdout.readline().decode().strip())
        finally:
            process.kill()


def main() -> None:
    """Read the answers, print the URL, and serve until the input ends."""
    with scripted_server() as script:
        script.answers |= pickle.load(sys.stdin.buffer)
        sys.stdout.write(f"{script.url}\n")
        sys.stdout.flush()
        for _ in sys.stdin.buffer:
            script.released.set()


if __name__ == "__main__":
    main()
