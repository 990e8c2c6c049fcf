"""The connection to Weaviate: opened when it is first needed, with deadlines and errors of one tree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

from archon.channel import DIRECT
from archon.errors import ArchonError, Internal, InvalidArgument, Unauthenticated, Unavailable
from archon.failure_kinds import STORAGE
from archon_mesh.llm.extras import import_extra
from archon_mesh.memory.long_term.weaviate.objects import NO_VECTOR, properties, tenant_name

if TYPE_CHECKING:
    from weaviate import WeaviateAsyncClient

T = TypeVar("T")

TIMEOUT: Final = 30.0
"""Seconds that an operation may take."""

CONNECT_TIMEOUT: Final = 5
"""Seconds that connecting may take."""

MAX_KNOWN: Final = 10_000
"""Tenants that are remembered to exist."""

_GRPC_PORT: Final = 50051


class Address:
    """An address `weaviate://HOST:PORT`, with `?grpc_port=PORT` if that is not 50051; `weaviates://` uses TLS."""

    def __init__(self, url: str) -> None:
        """Raises InvalidArgument if the address is malformed."""
        try:
            parts = urlsplit(url)
            self.secure = parts.scheme == "weaviates"
            self.host = parts.hostname or ""
            self.port = parts.port or (443 if self.secure else 8080)
            self.grpc_port = int(parse_qs(parts.query).get("grpc_port", [str(_GRPC_PORT)])[0])
        except ValueError:
            self.host = ""
        if not self.host or parts.scheme not in ("weaviate", "weaviates"):
            raise InvalidArgument(
                "the address of Weaviate must be weaviate://HOST:PORT, optionally with ?grpc_port=PORT"
            )


class Connection:
    """Opens the client and the collection when they are needed, so that a server may start later."""

    def __init__(self, address: Address, collection: str, api_key: str | None) -> None:
        self._address = address
        self._name = collection
        self._api_key = api_key
        self._client: WeaviateAsyncClient | None = None
        self._lock = asyncio.Lock()
        self._vectors: set[str] = set()
        self._tenants: set[str] = set()

    async def close(self) -> None:
        """Closes the client. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Calls `work` with the collection. Raises Unavailable, Unauthenticated, Internal."""
        try:
            async with asyncio.timeout(TIMEOUT):
                client = await self._opened()
                return await work(client.collections.use(self._name))
        except ArchonError:
            raise
        except TimeoutError:
            raise Unavailable(f"no answer of Weaviate within {TIMEOUT:g} s", retry_delay=1.0, kind=STORAGE) from None
        except Exception as error:
            converted = _to_archon_error(error)
            if converted is None:
                raise
            raise converted from error

    async def of_tenant(self, collection: Any, tenant: str) -> Any | None:
        """Returns the collection of a tenant, or None if the tenant has no entries."""
        name = tenant_name(tenant)
        if name not in self._tenants:
            if not await collection.tenants.exists(name):
                return None
            self._remember(name)
        return collection.with_tenant(name)

    async def for_writing(self, collection: Any, tenant: str) -> Any:
        """Returns the collection of a tenant, which is created if it does not exist."""
        name = tenant_name(tenant)
        if name not in self._tenants and not await collection.tenants.exists(name):
            await collection.tenants.create([name])  # creating it twice is not an error
        self._remember(name)
        return collection.with_tenant(name)

    async def has_vectors(self, collection: Any, name: str) -> bool:
        """Whether the collection has the vectors of this name."""
        if name not in self._vectors:
            config = await collection.config.get()
            self._vectors = set(config.vector_config or ())
        return name in self._vectors

    async def create_vectors(self, collection: Any, name: str) -> None:
        """Adds the vectors of this name to the collection if it does not have them."""
        from weaviate.classes.config import Configure, VectorDistances

        async with self._lock:
            if await self.has_vectors(collection, name):
                return
            index = Configure.VectorIndex.hnsw(distance_metric=VectorDistances.COSINE)
            await collection.config.add_vector(
                vector_config=Configure.Vectors.self_provided(name=name, vector_index_config=index)
            )
            self._vectors.add(name)

    def _remember(self, name: str) -> None:
        if len(self._tenants) >= MAX_KNOWN:
            self._tenants.clear()
        self._tenants.add(name)

    async def _opened(self) -> WeaviateAsyncClient:
        async with self._lock:
            if self._client is None:
                client = self._new_client()
                try:
                    await client.connect()
                    await self._create_collection(client)
                except BaseException:
                    await client.close()
                    raise
                self._client = client
            return self._client

    def _new_client(self) -> WeaviateAsyncClient:
        weaviate = import_extra("weaviate", "weaviate")
        from weaviate.classes.init import AdditionalConfig, Auth, Timeout
        from weaviate.config import GrpcConfig

        address = self._address
        client: WeaviateAsyncClient = weaviate.use_async_with_custom(
            http_host=address.host,
            http_port=address.port,
            http_secure=address.secure,
            grpc_host=address.host,
            grpc_port=address.grpc_port,
            grpc_secure=address.secure,
            auth_credentials=Auth.api_key(self._api_key) if self._api_key else None,
            additional_config=AdditionalConfig(
                timeout=Timeout(init=CONNECT_TIMEOUT, query=int(TIMEOUT), insert=int(TIMEOUT)),
                trust_env=False,
                grpc_config=GrpcConfig(channel_options=[DIRECT]),
            ),
        )
        return client

    async def _create_collection(self, client: WeaviateAsyncClient) -> None:
        from weaviate.classes.config import Configure
        from weaviate.exceptions import UnexpectedStatusCodeError

        if await client.collections.exists(self._name):
            return
        try:
            await client.collections.create(
                self._name,
                properties=properties(),
                vector_config=[Configure.Vectors.self_provided(name=NO_VECTOR)],
                multi_tenancy_config=Configure.multi_tenancy(enabled=True, auto_tenant_activation=True),
            )
        except UnexpectedStatusCodeError:
            if not await client.collections.exists(self._name):  # another process may have created it
                raise


def _to_archon_error(error: Exception) -> ArchonError | None:
    """Returns the Archon error for one of the client or the network, or None if it is neither."""
    import httpx
    from grpc import RpcError
    from weaviate import exceptions

    message = f"Weaviate: {' '.join(str(error).split())[:300] or type(error).__name__}"
    if isinstance(error, (exceptions.AuthenticationFailedError, exceptions.InsufficientPermissionsError)):
        return Unauthenticated(message)
    if isinstance(error, exceptions.UnexpectedStatusCodeError) and 400 <= error.status_code < 500:
        return Internal(message)
    if isinstance(error, (exceptions.WeaviateInvalidInputError, exceptions.WeaviateInsertInvalidPropertyError)):
        return Internal(message)
    if isinstance(error, (exceptions.WeaviateBaseError, httpx.HTTPError, RpcError, OSError)):
        return Unavailable(message, retry_delay=1.0, kind=STORAGE)
    return None
