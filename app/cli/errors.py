"""What can go wrong for somebody at a terminal, in words for them.

CliError
  Unreachable    no server answers
  Refused        the server says no, and why
  NotHone        something else answers
  ServiceFailed  a process of our own service will not run
"""

from app.contract.errors import Problem


class CliError(Exception):
    """Shown as it is; the command ends with exit code 1."""


class ServerUnreachable(CliError):
    """No server answers, or it has stopped answering."""

    def __init__(self, server: str, cause: Exception) -> None:
        reason = str(cause) or type(cause).__name__
        super().__init__(f"{server} cannot be reached: {reason}\nIs `hone serve` running there?")


class RequestRejected(CliError):
    """The server answered with a problem (RFC 9457)."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        wrong = [f"  {error.pointer or '/'}  {error.detail}" for error in problem.errors or ()]
        super().__init__("\n".join([f"{problem.title}: {problem.detail}", *wrong]))


class NotHone(CliError):
    """Something answers that does not speak this contract."""

    def __init__(self, server: str) -> None:
        super().__init__(f"what answers at {server} is not a Hone server")


class ServiceFailed(CliError):
    """A process of the service that this command runs has ended, or does not get ready."""
