"""The common parts of clients of model endpoints: address, key, the deadline of a call, and errors of one kind."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from archon.errors import ArchonError, DeadlineExceeded, Unauthenticated, Unavailable
from archon.failure_kinds import PROVIDER
from archon_mesh.llm.base import ModelRequest
from archon_mesh.llm.provider_errors import to_archon_error

T = TypeVar("T")
E = TypeVar("E")

_log = logging.getLogger(__name__)


class Endpoint:
    """The endpoint of a provider: `base_url` is None for the provider itself, `key` is empty if there is none."""

    def __init__(
        self,
        variables: str,
        provider: str,
        *,
        base_url: str | None,
        api_key: str | None,
        has_defaults: bool = True,
    ) -> None:
        """`variables` is the prefix of the environment variables that have the defaults (X_BASE_URL and X_API_KEY), if
        it `has_defaults`; `provider` is the name for people.

        Raises Unauthenticated if the endpoint is the provider's and there is no key, or if the key has characters that
        an HTTP header cannot carry.
        """
        defaults = os.environ if has_defaults else {}
        self.base_url = (base_url or defaults.get(f"{variables}_BASE_URL") or "").strip() or None
        self.key = (api_key or defaults.get(f"{variables}_API_KEY") or "").strip()
        if not self.key and self.base_url is None:
            raise Unauthenticated(
                f"no API key for {provider}: set {variables}_API_KEY, or {variables}_BASE_URL for another server"
            )
        if not (self.key.isascii() and self.key.isprintable()):
            raise Unauthenticated("invalid API key: it has characters that an HTTP header cannot carry")

    def call(self, request: ModelRequest) -> EndpointCall:
        """Begins a call, and the time that it may take."""
        return EndpointCall(self.key, request)


class EndpointCall:
    """One call: all its steps end before one deadline, so that a slow stream ends too.

    The deadline is applied to each step, because the time between chunks belongs to the consumer, and a timeout must
    not span a yield.
    """

    def __init__(
        self, key: str, request: ModelRequest, convert: Callable[[Exception, str], ArchonError] = to_archon_error
    ) -> None:
        """`convert` makes an Archon error of an exception and the key, which no error may have."""
        self._convert = convert
        self._key = key
        self._timeout = request.timeout
        self._deadline = asyncio.get_running_loop().time() + request.timeout

    async def step(self, step: Awaitable[T]) -> T:
        """Awaits a step. Raises DeadlineExceeded after the deadline, and the step's errors as errors of Archon."""
        try:
            async with asyncio.timeout_at(self._deadline):
                return await step
        except TimeoutError:
            raise DeadlineExceeded(f"no reply of the model within {self._timeout:g} s") from None
        except Exception as error:  # noqa: BLE001 - raised again as an Archon error
            # `from None`, because the original error may contain the key, and would be printed with this one.
            raise self._convert(error, self._key) from None

    def read(self, read: Callable[[E], Iterable[T]], event: E) -> list[T]:
        """Returns the value that `read` makes of an event. Raises Unavailable if it is malformed."""
        try:
            return list(read(event))
        except ArchonError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            _log.warning("malformed event of a model endpoint: %s: %s", type(error).__name__, error)
            raise Unavailable("the model endpoint sent a malformed event", kind=PROVIDER) from None
