"""An embedder behind the embeddings API of OpenAI and compatible servers (vLLM, Ollama, ...)."""

from __future__ import annotations

import asyncio
import json
import random
from array import array
from collections.abc import Awaitable, Callable, Iterator, Sequence
from math import isfinite, sqrt
from typing import Final

from archon.clock import monotonic
from archon.errors import ArchonError, DeadlineExceeded, InvalidArgument, ResourceExhausted, Unavailable
from archon.failure_kinds import EMBEDDING
from archon_mesh.llm.base import estimate_tokens
from archon_mesh.llm.endpoint import Endpoint
from archon_mesh.llm.endpoint_http import whole
from archon_mesh.llm.openai_http import openai_http
from archon_mesh.llm.provider_errors import to_archon_error
from archon_mesh.llm.retry import RETRIES, WITHIN, is_transient, pause_before
from archon_mesh.llm.wrappers.rate_limit import MAX_WAIT, TokenBucket
from archon_mesh.memory.long_term.embedders.prefixes import prefixes_of
from archon_mesh.memory.long_term.port import Vector

BATCH_TEXTS: Final = 128
BATCH_TOKENS: Final = 100_000
"""Texts and estimated tokens of one request."""

CALL_TIMEOUT: Final = 30.0
"""Seconds of one request, unless a caller waits for longer."""

REQUESTS_PER_MINUTE: Final = 3_000
TOKENS_PER_MINUTE: Final = 1_000_000


class OpenAIEmbedder:
    """Embeds texts in batches. Requests that fail for a reason that may pass are made again, not before the time that
    the server asked for (Retry-After); requests above the limits per minute are delayed."""

    range: None = None

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = CALL_TIMEOUT,
        retries: int = RETRIES,
        requests_per_minute: int = REQUESTS_PER_MINUTE,
        tokens_per_minute: int = TOKENS_PER_MINUTE,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """`base_url` and `api_key` default to OPENAI_BASE_URL and OPENAI_API_KEY; with a URL, the key does not.
        `timeout` is in seconds, for one request. Queries and other texts get the prefixes of the model's family.

        Raises Unauthenticated if the endpoint is OpenAI and there is no key, InvalidArgument for a limit below 1."""
        if min(requests_per_minute, tokens_per_minute) < 1 or retries < 0:
            raise InvalidArgument("requests_per_minute and tokens_per_minute must be at least 1, retries at least 0")
        self._model = model
        self._prefixes = prefixes_of(model)
        self._timeout = timeout
        # A server of its own does not get the key of the chat model.
        endpoint = Endpoint("OPENAI", "OpenAI", base_url=base_url, api_key=api_key, has_defaults=not base_url)
        self._key = endpoint.key
        self._http = openai_http(endpoint, "/embeddings")
        self._retries = retries
        self._clock = clock
        self._sleep = sleep
        self._uniform = uniform
        self._requests = TokenBucket(requests_per_minute, clock())
        self._tokens = TokenBucket(tokens_per_minute, clock())
        self._dimensions = 0

    @property
    def name(self) -> str:
        return f"openai/{self._model}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return await self._embed([self._prefixes.passage + text for text in texts])

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return await self._embed([self._prefixes.query + text for text in texts])

    async def _embed(self, texts: Sequence[str]) -> list[Vector]:
        vectors: list[Vector] = []
        for batch in _batches(texts):
            vectors += await self._with_retries(batch)
        return vectors

    async def close(self) -> None:
        await self._http.close()

    async def _with_retries(self, texts: Sequence[str]) -> list[Vector]:
        began = self._clock()
        for retry in range(1, self._retries + 2):
            try:
                await self._sleep(self._reserve(texts))
                return await self._call(texts)
            except ArchonError as error:
                pause = pause_before(retry, error, self._uniform)
                if retry > self._retries or not is_transient(error) or self._clock() - began + pause >= WITHIN:
                    raise
            await self._sleep(pause)
        raise AssertionError("unreachable")

    def _reserve(self, texts: Sequence[str]) -> float:
        """Takes the share of a request, and returns the seconds to wait before it may be made."""
        now = self._clock()
        shares = ((self._requests, 1), (self._tokens, sum(map(estimate_tokens, texts))))
        seconds = max(bucket.wait_for(amount, now) for bucket, amount in shares)
        if seconds > MAX_WAIT:
            raise ResourceExhausted(f"the rate limit of {self.name} is reached", retry_delay=seconds)
        for bucket, amount in shares:
            bucket.take(amount)
        return seconds

    async def _call(self, texts: Sequence[str]) -> list[Vector]:
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._http.post(body, self._timeout)
                try:
                    content = await whole(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise DeadlineExceeded(f"no embeddings within {self._timeout:g} s", kind=EMBEDDING) from None
        except Exception as error:  # noqa: BLE001 - raised again as an Archon error
            # `from None`, because the original error may contain the key, and would be printed with this one.
            raise to_archon_error(error, self._key) from None
        return self._read(content, len(texts))

    def _read(self, content: bytes, count: int) -> list[Vector]:
        """Reads a response. Raises Unavailable if it is malformed, InvalidArgument if a text has no embedding."""
        try:
            data = json.loads(content)["data"]
            ordered = sorted(enumerate(data), key=lambda entry: entry[1].get("index", entry[0]))
            vectors = [_normalised(item["embedding"]) for _, item in ordered]
        except InvalidArgument:
            raise
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise Unavailable(f"the endpoint sent malformed embeddings ({error})", kind=EMBEDDING) from None
        sizes = {len(vector) for vector in vectors} | ({self._dimensions} if self._dimensions else set())
        if len(vectors) != count or len(sizes) != 1:
            raise Unavailable("the endpoint sent another number of embeddings or dimensions", kind=EMBEDDING)
        self._dimensions = sizes.pop()
        return vectors


def _normalised(values: Sequence[float]) -> Vector:
    """Raises ValueError if it is empty, InvalidArgument if the text has no direction: a retry would not help."""
    length = sqrt(sum(value * value for value in values))
    if not values:
        raise ValueError("an embedding is empty")
    if not isfinite(length) or length == 0:
        raise InvalidArgument("the endpoint has no embedding for a text")
    return array("f", [value / length for value in values])


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    tokens = 0
    for text in texts:
        cost = estimate_tokens(text)
        if batch and (len(batch) >= BATCH_TEXTS or tokens + cost > BATCH_TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(text)
        tokens += cost
    if batch:
        yield batch
