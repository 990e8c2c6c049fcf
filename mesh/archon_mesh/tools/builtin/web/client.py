"""A client for single GET requests: bounded in time, size and redirects, with typed errors."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import httpx2

from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from archon.failure_kinds import INVALID_PARAMETERS, TOOL_CRASH, TOOL_NETWORK, TOOL_PERMISSION, TOOL_TIMEOUT
from archon_mesh.tools.builtin.web.addresses import AddressPolicy
from archon_mesh.tools.builtin.web.pinned import parsed_url, pinned_request, port_of

TOTAL_SECONDS: Final = 25.0
"""For a request with its redirects; below the default time limit of a tool, so that the error names the slow part."""

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 10.0
"""Seconds to connect to one address; and without a byte of the answer."""

MAX_REDIRECTS: Final = 5
MAX_URL: Final = 4_000
"""Characters of a URL."""

_REDIRECTS: Final = {301, 302, 303, 307, 308}


@dataclass(frozen=True, slots=True)
class Response:
    """A successful answer: its URL after redirects, the decompressed body, and whether the body was cut."""

    url: str
    media_type: str
    charset: str
    body: bytes
    is_cut: bool


class WebClient:
    """Sends GET requests to addresses that a policy allows."""

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        max_redirects: int = MAX_REDIRECTS,
        tls: ssl.SSLContext | None = None,
        seconds: float = TOTAL_SECONDS,
    ) -> None:
        self._policy = policy
        self._max_redirects = max_redirects
        self._given_tls = tls
        self._seconds = seconds

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or httpx2.create_ssl_context(trust_env=False)

    async def get(
        self, url: str, *, max_bytes: int, check_type: Callable[[str], None], params: Mapping[str, str] | None = None
    ) -> Response:
        """Returns the answer to a GET request, its body cut at `max_bytes`. `check_type` raises for a media type that
        is not wanted, before the body is read.

        Raises InvalidArgument for a URL that is not http or https, PermissionDenied for a refused address, a 401 or a
        403, NotFound for an unknown host, a 404 or a 410, ResourceExhausted for a 429, Unavailable for a 5xx or a lost
        connection, DeadlineExceeded after the time limit, and FailedPrecondition for TLS errors, other statuses, and
        too many redirects.
        """
        target = parsed_url(url, longest=MAX_URL)
        if params:
            target = target.copy_merge_params(dict(params))
        try:
            async with asyncio.timeout(self._seconds):
                for _ in range(self._max_redirects + 1):
                    answer = await self._get_once(target, max_bytes, check_type)
                    if isinstance(answer, Response):
                        return answer
                    target = parsed_url(answer, longest=MAX_URL, base=target)
        except TimeoutError as error:
            if isinstance(error, ArchonError):
                raise
            raise DeadlineExceeded(
                f"no answer of {target.host} within {self._seconds:g} s", kind=TOOL_TIMEOUT
            ) from None
        raise FailedPrecondition(f"more than {self._max_redirects} redirects, the last one to {target.host}")

    async def _get_once(self, url: httpx2.URL, max_bytes: int, check_type: Callable[[str], None]) -> Response | str:
        """Returns the answer, or the location of a redirect."""
        error: ArchonError | None = None
        for address in await self._policy.addresses_of(url.host, port_of(url)):
            try:
                timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
                headers = {"Accept-Encoding": "gzip"}
                async with pinned_request(
                    "GET", url, address, tls=self._tls, timeout=timeout, headers=headers
                ) as response:
                    return await _read(url, response, max_bytes, check_type)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as failure:
                error = _error_of(failure, url.host)
            except (httpx2.HTTPError, httpx2.InvalidURL, zlib.error) as failure:
                raise _error_of(failure, url.host) from None
        assert error is not None
        raise error


async def _read(
    url: httpx2.URL, response: httpx2.Response, max_bytes: int, check_type: Callable[[str], None]
) -> Response | str:
    status, headers = response.status_code, response.headers
    if status in _REDIRECTS and "location" in headers:
        return headers["location"]
    if not 200 <= status < 300:
        raise _error_of_status(status, url.host, headers.get("retry-after", ""))
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    check_type(media_type)
    body = bytearray()
    decompress = _decompressor(headers.get("content-encoding", "").strip().lower(), url.host)
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            # One byte more than wanted tells a body that is cut from one that ends there.
            body += decompress(chunk, max_bytes + 1 - len(body))
            if len(body) > max_bytes:
                break
    shown = str(url.copy_with(fragment=None))
    return Response(shown, media_type, response.charset_encoding or "", bytes(body[:max_bytes]), len(body) > max_bytes)


def _decompressor(encoding: str, host: str) -> Callable[[bytes, int], bytes]:
    """Returns a function that decompresses a chunk to at most some bytes: a small answer may unpack to a large one."""
    if encoding in ("", "identity"):
        return lambda chunk, limit: chunk[:limit]
    if encoding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(47).decompress
    raise FailedPrecondition(f"{host} answers with an encoding that was not asked for: {encoding[:50]!r}")


def _error_of(error: Exception, host: str) -> ArchonError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return FailedPrecondition(f"no secure connection to {host}: {cause}", kind=TOOL_CRASH)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.TimeoutException):
        step = "connect" if isinstance(error, httpx2.ConnectTimeout) else "answer"
        return DeadlineExceeded(f"{host} does not {step} in time", kind=TOOL_TIMEOUT)
    if isinstance(error, (httpx2.InvalidURL, httpx2.LocalProtocolError)):
        return InvalidArgument(f"invalid URL: {error}", kind=INVALID_PARAMETERS)
    return Unavailable(f"no answer of {host}: {error or type(error).__name__}", kind=TOOL_NETWORK)


def _error_of_status(status: int, host: str, retry_after: str) -> ArchonError:
    message = f"{host} answers with status {status}"
    if status in (404, 410):
        return NotFound(message)
    if status in (401, 403, 407):
        return PermissionDenied(message, kind=TOOL_PERMISSION)
    delay = float(retry_after) if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 6 else None
    if status == 429:
        return ResourceExhausted(message, retry_delay=delay)
    if status >= 500:
        return Unavailable(message, retry_delay=delay, kind=TOOL_NETWORK)
    return FailedPrecondition(message)
