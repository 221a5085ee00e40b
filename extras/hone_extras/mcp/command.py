"""The command `hone mcp`."""

import secrets
from typing import Annotated

import typer

from app.cli.client_commands import connected
from app.cli.display import say
from app.cli.processes import check_port
from app.cli.root import ServerOption, errors
from app.telemetry.logs import configure_logs


def mcp(
    server: ServerOption = None,
    http: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Serve HTTP on this port of 127.0.0.1, not stdio."),
    ] = None,
    token: Annotated[
        str,
        typer.Option(
            envvar="HONE_MCP_TOKEN",
            metavar="TOKEN",
            help="What callers of HTTP send as `Authorization: Bearer TOKEN`.  [default: a random"
            " one, which is printed]",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Let an assistant refine texts, by MCP.

    It is a server of the Model Context Protocol.
    """
    # Loading the SDK takes as long as the rest of the command line, whose help lists this command.
    from hone_extras.mcp.mcp_server import mcp_server, serve_http  # noqa: PLC0415

    configure_logs("mcp", level="warning")
    with connected(server) as hone:
        if http is None:
            mcp_server(hone).run("stdio")
        else:
            check_port("127.0.0.1", http, "--http")
            if not token:
                token = secrets.token_urlsafe(32)
                say(errors(), f"callers must send: Authorization: Bearer {token}")
            serve_http(hone, http, token)
