"""Makes the package's clients of the providers."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from typing_extensions import override

from archon.errors import InvalidArgument, Unauthenticated
from archon.loopback import is_loopback
from archon_mesh.llm.endpoint_http import MAX_REPLY, MAX_STREAM, check_size, direct

CONNECT: Final = 10.0
"""Seconds to connect, of those that a call may take."""

READ: Final = 300.0
"""Seconds of silence after which a thread that reads from Bedrock ends: the call may have ended before."""


@dataclass(slots=True)
class NativeClient:
    """A model of the package, for one event loop."""

    model: Any
    http: httpx2.AsyncClient | None = None
    """Its connections; None if the package has them in threads."""

    async def close(self) -> None:
        """Closes the connections. Idempotent."""
        if self.http is not None:
            await self.http.aclose()


@dataclass(frozen=True, slots=True)
class NativeProvider:
    """A provider: the variables with its key (none if it is found otherwise) and with its address, and how a client is
    made of the name of a model, a key and an address."""

    title: str
    keys: tuple[str, ...]
    address: str
    create: Callable[[str, str, str | None], NativeClient]
    media: tuple[str, ...]
    """The kinds of files that models take."""

    def key(self, given: str | None) -> str:
        """Returns the key. Raises Unauthenticated if one is needed and not there, or if an HTTP header cannot carry
        it."""
        if given and not self.keys:
            raise InvalidArgument(f"{self.title} takes no API key, but the credentials that the tools of AWS find")
        values = [given or "", *(os.environ.get(name, "") for name in self.keys)]
        key = next((value.strip() for value in values if value.strip()), "")
        if not key and self.keys:
            raise Unauthenticated(f"no API key for {self.title}: set {self.keys[0]}")
        if not (key.isascii() and key.isprintable()):
            raise Unauthenticated("invalid API key: it has characters that an HTTP header cannot carry")
        return key

    def url(self, given: str | None) -> str | None:
        """Returns the address, None for the provider's. Raises InvalidArgument if it is no URL of HTTP."""
        url = (given or os.environ.get(self.address, "")).strip() or None
        if url is not None and not url.startswith(("http://", "https://")):
            raise InvalidArgument(f"invalid base URL {url!r}: expected http://HOST or https://HOST")
        return url


def _google(model: str, key: str, url: str | None) -> NativeClient:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    http = _http(url)
    provider = GoogleProvider(api_key=key, base_url=url, http_client=http)
    return NativeClient(GoogleModel(model, provider=provider), http)


def _mistral(model: str, key: str, url: str | None) -> NativeClient:
    from pydantic_ai.models.mistral import MistralModel
    from pydantic_ai.providers.mistral import MistralProvider

    http = _http(url)
    provider = MistralProvider(api_key=key, base_url=url, http_client=http)
    return NativeClient(MistralModel(model, provider=provider), http)


def _bedrock(model: str, _: str, url: str | None) -> NativeClient:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    config = Config(
        connect_timeout=CONNECT,
        read_timeout=READ,
        retries={"total_max_attempts": 1},
        proxies={} if is_loopback(urlsplit(url or "").hostname or "") else None,
    )
    try:
        # Lambda and other tools set AWS_REGION, which boto3 does not read.
        region = os.environ.get("AWS_REGION") or None
        client = boto3.client("bedrock-runtime", region_name=region, endpoint_url=url, config=config)
    except BotoCoreError as error:
        raise InvalidArgument(f"Amazon Bedrock cannot be used: {error}") from None
    return NativeClient(BedrockConverseModel(model, provider=BedrockProvider(bedrock_client=client)))


def _http(url: str | None) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        # A compressed body could be bounded only after it has been unpacked.
        headers={"accept-encoding": "identity"},
        timeout=httpx2.Timeout(None, connect=CONNECT),
        follow_redirects=True,
        transport=direct(url, httpx2.Limits()),
        event_hooks={"response": [_bound]},
    )


async def _bound(response: httpx2.Response) -> None:
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    response.stream = _BoundedStream(response.stream, MAX_STREAM if is_stream else MAX_REPLY)


class _BoundedStream(httpx2.AsyncByteStream):
    """Ends a reply that is larger than its limit."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, pieces = 0, aiter(self._stream)
        try:
            async for piece in pieces:
                size += len(piece)
                check_size(size, self._limit)
                yield piece
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()


PROVIDERS: Final = {
    "google": NativeProvider(
        "Google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "GOOGLE_BASE_URL", _google, ("image", "audio", "file")
    ),
    "mistral": NativeProvider("Mistral", ("MISTRAL_API_KEY",), "MISTRAL_BASE_URL", _mistral, ("image",)),
    "bedrock": NativeProvider("Amazon Bedrock", (), "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", _bedrock, ("image", "file")),
}
"""The providers by the first part of a model's name."""
