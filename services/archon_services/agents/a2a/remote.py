"""The connection to an A2A agent elsewhere: its card, which is checked, and the calls to it, with typed errors."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.client.client import Client, ClientCallContext
from a2a.client.errors import A2AClientTimeoutError
from a2a.types import a2a_pb2
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH, TransportProtocol
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.signing import SignatureVerificationError, create_signature_verifier
from google.protobuf.json_format import ParseError
from jwt.api_jwk import PyJWK, PyJWKSet
from jwt.exceptions import PyJWTError

from archon import context
from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    UnknownFailure,
)

MAX_CARD: Final = 512 * 1024
"""Bytes of an agent card."""

CALL_SECONDS: Final = 30.0
"""Seconds of a call, and of a stream without a byte."""

SIGNATURES: Final = ("ES256", "ES384", "ES512", "RS256", "PS256", "EdDSA")
_BINDINGS: Final = (TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON)
_HTTP: Final[Mapping[int, type[ArchonError]]] = {
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    408: DeadlineExceeded,
    429: ResourceExhausted,
}
_CLASSES: Final[tuple[tuple[type[A2AError], type[ArchonError]], ...]] = (
    (A2AClientTimeoutError, DeadlineExceeded),
    (TaskNotFoundError, NotFound),
    (TaskNotCancelableError, FailedPrecondition),
    (UnsupportedOperationError, FailedPrecondition),
    (ContentTypeNotSupportedError, InvalidArgument),
    (InvalidParamsError, InvalidArgument),
    (InvalidRequestError, InvalidArgument),
    (InternalError, UnknownFailure),
)


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """Where an agent is: the URL of its card, or the URL below which it is at the well-known path. `token` is presented
    as a bearer token; with `keys`, a JSON Web Key Set, the card must have a signature by one of them."""

    url: str
    token: str = field(default="", repr=False)
    keys: str = ""

    @property
    def card_url(self) -> str:
        """The URL of the card."""
        return self.url if self.url.endswith(".json") else self.url.rstrip("/") + AGENT_CARD_WELL_KNOWN_PATH


class RemoteAgent:
    """An A2A agent, over JSON-RPC or HTTP+JSON. The card is read at the first call, and again after `forget`. An async
    context manager that closes the connection."""

    def __init__(self, options: RemoteOptions, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.options = options
        self._http = httpx.AsyncClient(timeout=CALL_SECONDS, follow_redirects=False, transport=transport)
        self._client: Client | None = None

    async def __aenter__(self) -> RemoteAgent:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def card(self) -> a2a_pb2.AgentCard:
        """Reads the card. Raises InvalidArgument for one that cannot be used, PermissionDenied for a missing or wrong
        signature, and the errors of `failures`."""
        with failures(self.options.url):
            async with self._http.stream("GET", self.options.card_url, headers=self._headers()) as response:
                response.raise_for_status()
                text = b""
                async for piece in response.aiter_bytes():
                    text += piece
                    if len(text) > MAX_CARD:
                        raise InvalidArgument(f"the card at {self.options.card_url} has more than {MAX_CARD:,} bytes")
        try:
            card = parse_agent_card(json.loads(text))
        except (ValueError, TypeError, AttributeError, KeyError, ParseError, RecursionError) as error:
            raise InvalidArgument(f"{self.options.card_url} is no agent card: {error}") from None
        self._check(card)
        return card

    def forget(self) -> None:
        """Has the next call read the card again."""
        self._client = None

    async def send(self, request: a2a_pb2.SendMessageRequest) -> AsyncGenerator[a2a_pb2.StreamResponse, None]:
        """Sends a message, and yields the events of its task. Raises the errors of `failures`."""
        client = await self._connected()
        with failures(self.options.url):
            async with aclosing(client.send_message(request, context=self._context())) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event

    async def subscribe(self, task_id: str) -> AsyncGenerator[a2a_pb2.StreamResponse, None]:
        """Yields a task and its further events. Raises the errors of `failures`."""
        client, request = await self._connected(), a2a_pb2.SubscribeToTaskRequest(id=task_id)
        with failures(self.options.url):
            async with aclosing(client.subscribe(request, context=self._context())) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event

    async def get(self, task_id: str) -> a2a_pb2.Task:
        """Returns a task. Raises NotFound, and the other errors of `failures`."""
        client = await self._connected()
        with failures(self.options.url):
            return await client.get_task(a2a_pb2.GetTaskRequest(id=task_id), context=self._context())

    async def cancel(self, task_id: str) -> None:
        """Cancels a task. Raises the errors of `failures`."""
        client = await self._connected()
        with failures(self.options.url):
            await client.cancel_task(a2a_pb2.CancelTaskRequest(id=task_id), context=self._context())

    async def _connected(self) -> Client:
        if self._client is None:
            card = await self.card()
            config = ClientConfig(
                streaming=card.capabilities.streaming,
                httpx_client=self._http,
                supported_protocol_bindings=list(_BINDINGS),
            )
            try:
                self._client = ClientFactory(config).create(card)
            except (ValueError, A2AError) as error:
                raise InvalidArgument(f"the agent {card.name} cannot be called: {error}") from None
        return self._client

    def _check(self, card: a2a_pb2.AgentCard) -> None:
        """Raises unless the interfaces of the card are at the host of the card, to which alone the token goes, and the
        signature is one of the given keys, if there are some."""
        own = urlsplit(self.options.card_url)
        usable = [each for each in card.supported_interfaces if each.protocol_binding in _BINDINGS]
        if not usable:
            raise InvalidArgument(f"the agent {card.name[:100]!r} speaks neither JSON-RPC nor HTTP+JSON")
        for each in usable:
            there = urlsplit(each.url)
            if (there.scheme, there.netloc) != (own.scheme, own.netloc):
                raise PermissionDenied(
                    f"the card at {own.netloc} names an interface elsewhere, {each.url[:200]!r}: serve the agent by "
                    "the URL of the host where it is"
                )
        if self.options.keys:
            keys = _keys(self.options.keys)
            try:
                create_signature_verifier(lambda kid, _: _key(keys, kid), list(SIGNATURES))(card)
            except (SignatureVerificationError, PyJWTError) as error:
                text = f"the card of {card.name[:100]!r} has no signature by a known key: {error}"
                raise PermissionDenied(text) from None

    def _context(self) -> ClientCallContext:
        return ClientCallContext(service_parameters=self._headers(), timeout=CALL_SECONDS)

    def _headers(self) -> dict[str, str]:
        headers = {"authorization": f"Bearer {self.options.token}"} if self.options.token else {}
        parent, state = context.trace()
        if parent:
            headers["traceparent"] = parent
        if parent and state:
            headers["tracestate"] = state
        return headers


def _keys(file: str) -> PyJWKSet:
    try:
        return PyJWKSet.from_json(Path(file).read_text())
    except (OSError, ValueError, PyJWTError) as error:
        raise InvalidArgument(f"{file} has no JSON Web Key Set: {error}") from None


def _key(keys: PyJWKSet, key_id: str | None) -> PyJWK:
    for key in keys.keys:
        if key.key_id == key_id:
            return key
    raise PyJWTError(f"no key {str(key_id)[:100]!r}")


@contextmanager
def failures(url: str) -> Iterator[None]:
    """Raises errors of the block as ArchonErrors: the class of its HTTP status or its code of A2A, Unavailable for a
    connection that fails or an answer of 5xx."""
    try:
        yield
    except ArchonError:
        raise
    except (A2AError, httpx.HTTPError, httpx.InvalidURL) as raised:
        raise _error_of(raised, url) from None


def _error_of(raised: Exception, url: str) -> ArchonError:
    cause: BaseException | None = raised
    while cause is not None and not isinstance(cause, httpx.HTTPStatusError):
        cause = cause.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        status = cause.response.status_code
        text = f"the agent at {url} answered {status}"
        if status >= 500:
            return Unavailable(text)
        return _HTTP.get(status, FailedPrecondition)(text)
    text = f"the agent at {url}: {re.sub(r'[^ -~]+', ' ', str(raised))[:500]}"
    if isinstance(raised, httpx.InvalidURL):
        return InvalidArgument(text)
    if isinstance(raised, httpx.TimeoutException):
        return DeadlineExceeded(f"no answer of the agent at {url} within {CALL_SECONDS:g} s")
    found: Any = next((error for kind, error in _CLASSES if isinstance(raised, kind)), Unavailable)
    error: ArchonError = found(text)
    return error
