"""Which page in a browser a request comes from, if from any."""

from enum import Enum, auto

from starlette.types import Scope

DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}


class Sender(Enum):
    """What a request comes from."""

    NO_PAGE = auto()
    """A program, or a person who has typed the address."""

    OWN_PAGE = auto()
    FOREIGN_PAGE = auto()


def sender_of(scope: Scope) -> Sender:
    """Return what a request comes from, as its browser says.

    `Sec-Fetch-Site` tells (W3C Fetch Metadata). Browsers send it over TLS and to loopback only;
    else `Origin` tells, which they send with every request that may have an effect. The
    scheme of the scope must be the one that the browser sees, which a proxy may have changed.
    """
    headers = dict(scope["headers"])
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site == b"same-origin":
        return Sender.OWN_PAGE
    if site not in {None, b"none"}:
        return Sender.FOREIGN_PAGE
    if origin is None:
        return Sender.NO_PAGE
    scheme, _, authority = origin.lower().partition(b"://")
    port = DEFAULT_PORTS.get(scheme)
    host = headers.get(b"host", b"").lower()
    is_own = (
        port is not None
        and scheme == str(scope.get("scheme", "http")).encode()
        and authority.removesuffix(port) == host.removesuffix(port)
    )
    return Sender.OWN_PAGE if is_own else Sender.FOREIGN_PAGE
