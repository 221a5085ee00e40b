"""The port to HTTP on aiohttp, whose connector can be given sockets and a resolver."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import aiohttp

from workers.outbound.http1 import (
    AddressRefused,
    ConnectionBroken,
    HttpResponse,
    InvalidField,
    InvalidResponse,
    InvalidUrl,
    NotConnected,
    UntrustedPeer,
    reason_of,
)


class AiohttpClient:
    """An `HttpClient` on a session that decompresses nothing."""

    def __init__(self, session: aiohttp.ClientSession, connect_s: float) -> None:
        self._session = session
        self._timeout = aiohttp.ClientTimeout(connect=connect_s)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Send a request once. Raises `AddressRefused` and `HttpError`."""
        with _translated_errors():
            return _AiohttpResponse(
                await self._session.post(
                    url, data=body, headers=headers, allow_redirects=False, timeout=self._timeout
                )
            )


class _AiohttpResponse:
    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self.status = reply.status
        self.fields: Mapping[str, str] = reply.headers
        self._reply = reply

    @property
    def is_whole(self) -> bool:
        return self._reply.content.is_eof()

    async def read(self) -> bytes:
        with _translated_errors():
            return await self._reply.content.readany()

    def close(self) -> None:
        if self._reply.content.at_eof():
            self._reply.release()
        else:
            self._reply.close()


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Raise the port's errors; aiohttp's are not chained, since some have the request's headers."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError:
        raise NotConnected("connection timeout") from None
    except aiohttp.ClientConnectorCertificateError:
        raise UntrustedPeer from None
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, AddressRefused):
            raise error.os_error from None
        raise NotConnected(reason_of(error.os_error)) from None
    except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
        raise ConnectionBroken from None
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, UnicodeError):
        raise InvalidUrl from None
    except ValueError:  # CR, LF or NUL in a header field
        raise InvalidField from None
    except aiohttp.ClientError:
        raise InvalidResponse from None
