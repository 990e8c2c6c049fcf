"""Requests to the webhooks that clients name: to public addresses only, and to the address that was checked."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

import httpx2

from archon.errors import ArchonError, DeadlineExceeded, FailedPrecondition, InvalidArgument, NotFound, Unavailable
from archon_mesh.tools.builtin.web.addresses import AddressPolicy, Resolve, refusal_of, resolve_by_system
from archon_mesh.tools.builtin.web.pinned import parsed_url, pinned_request, port_of

SECONDS: Final = 10.0
"""Seconds of a request, with its connection."""

MAX_URL: Final = 2_000
"""Characters of a URL."""

_FORBIDDEN: Final = frozenset("\r\n\0")


class Webhooks:
    """Posts JSON to webhooks. Addresses that are not public are refused, except the ones of `allow_hosts`: names of
    hosts, or `host:port`, which may be reached without TLS too. Proxies of the environment are not used, and redirects
    not followed. `resolve` and `tls` replace the system's resolver and certificates."""

    def __init__(
        self,
        allow_hosts: Iterable[str] = (),
        *,
        resolve: Resolve = resolve_by_system,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = frozenset(host.lower().rstrip(".") for host in allow_hosts)
        self._policy = AddressPolicy(self._allowed, resolve)
        self._given_tls = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or httpx2.create_ssl_context(trust_env=False)

    def check(self, url: str, headers: Mapping[str, str]) -> None:
        """Raises InvalidArgument unless the URL is one of https, or of http to an allowed host, without a user name,
        and not of a literal address that is not public; or if a header has a line break."""
        target = self._parse(url)
        host = target.host.strip("[]")
        if not self._is_allowed(target) and (host[-1:].isdigit() or ":" in host) and refusal_of(host) is not None:
            raise InvalidArgument(f"the webhook {host} is not at a public address")
        for name, value in headers.items():
            if _FORBIDDEN & set(value) or not value.isascii():
                raise InvalidArgument(f"the value of the header {name} of a webhook has characters that no header has")

    async def post(self, url: str, content: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Posts one JSON object. Raises InvalidArgument and PermissionDenied for a URL that is refused, NotFound for an
        unknown host, Unavailable for a lost connection, a 429 or a 5xx, DeadlineExceeded after the time limit, and
        FailedPrecondition for any other status than 2xx."""
        target = self._parse(url)
        sent = {**headers, "Content-Type": "application/a2a+json"}
        body = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
        try:
            async with asyncio.timeout(SECONDS):
                error: ArchonError = NotFound(f"no host {target.host!r}")
                for address in await self._policy.addresses_of(target.host, port_of(target)):
                    try:
                        async with pinned_request(
                            "POST", target, address, tls=self._tls, timeout=SECONDS, headers=sent, content=body
                        ) as response:
                            return _check_status(target.host, response.status_code)  # the body is not read
                    except (httpx2.ConnectError, httpx2.ConnectTimeout) as failure:
                        error = Unavailable(f"cannot connect to the webhook {target.host}: {failure}")
                        continue
                    except httpx2.HTTPError as failure:
                        raise Unavailable(f"the webhook {target.host} gave no answer: {failure}") from None
                raise error
        except TimeoutError as raised:
            if isinstance(raised, ArchonError):
                raise
            raise DeadlineExceeded(f"no answer of the webhook {target.host} within {SECONDS:g} s") from None

    def _parse(self, url: str) -> httpx2.URL:
        try:
            target = parsed_url(url, longest=MAX_URL)
        except InvalidArgument as error:
            raise InvalidArgument(f"the webhook has an {error.message}") from None
        if target.scheme == "http" and not self._is_allowed(target):
            raise InvalidArgument("a webhook needs https")
        return target

    def _is_allowed(self, target: httpx2.URL) -> bool:
        name = target.host.lower().rstrip(".")
        return name in self._allowed or f"{name}:{port_of(target)}" in self._allowed


def _check_status(host: str, status: int) -> None:
    if status < 300 and status >= 200:
        return
    if status == 429 or status >= 500:
        raise Unavailable(f"the webhook {host} answered {status}")
    raise FailedPrecondition(f"the webhook {host} answered {status}")
