"""Client for etcd: transactions, leases with one stream of renewals, and watches.

Uses the stubs of aetcd on its own channels: every call has a deadline and fails over to the next member, all leases are
renewed on one stream, and keepalive pings detect a frozen member. Raises errors of `archon.errors` only.

No transaction only reads: an etcd before 3.5.5 crashes if the client cancels such a transaction, or its deadline passes
(https://github.com/etcd-io/etcd/issues/14110).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from aetcd import rpc

from archon import errors
from archon.channel import DIRECT
from archon.failure_kinds import STORAGE
from archon.security.certificates import OwnCertificate, own_folder
from archon.security.secure_channel import RenewedChannel

T = TypeVar("T")

CALL_TIMEOUT: Final = 3.0
"""Seconds that a call may take, all members included."""

_CHUNK: Final = 100
"""Renewals and reads in flight at once."""

_SINGLE_READS: Final = 16
"""Keys up to which each is read by itself; the range of more keys is read at once, with its other keys."""

_OPTIONS: Final = [
    DIRECT,
    ("grpc.max_receive_message_length", 256 * 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),  # the timeout of an attempt to connect
    ("grpc.max_reconnect_backoff_ms", 500),
    # by default etcd closes connections that are pinged more often than every 5 s, or while no call is in flight
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.http2.ping_timeout_ms", 2_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
_LEADER: Final = (("hasleader", "true"),)
"""Metadata that makes a member without a leader end the stream instead of going silent."""

HTTPS: Final = "https://"
"""Before a member whose connections are encrypted."""

_SOCKET: Final = re.compile(r"^unix:/[^\0]+$")
_MEMBER: Final = re.compile(r"^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})$")


def parse_members(text: str) -> list[str]:
    """Parses `host:port,host:port`; members with `https://` keep it, and `unix:PATH` is a Unix socket. Raises
    InvalidArgument."""
    members = [part.strip().removeprefix("http://").rstrip("/") for part in text.split(",") if part.strip()]
    if not members or not all(_MEMBER.match(member.removeprefix(HTTPS)) or _SOCKET.match(member) for member in members):
        raise errors.InvalidArgument(
            f"invalid etcd members {text!r}, expected a list such as 10.0.0.1:2379,10.0.0.2:2379, or unix:/PATH"
        )
    return members


def _channel(target: str) -> grpc.aio.Channel:
    if not target.startswith(HTTPS):
        return grpc.aio.insecure_channel(target, options=_OPTIONS)
    if (folder := own_folder()) is None:
        raise errors.FailedPrecondition(f"{target} needs a certificate of this process: ARCHON_TLS names none")

    def make(own: OwnCertificate) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(own.authorities, own.key, own.chain)
        return grpc.aio.secure_channel(target.removeprefix(HTTPS), credentials, options=_OPTIONS)

    return RenewedChannel(folder.read, make)


def range_end(prefix: bytes) -> bytes:
    """Returns the end of the range of all keys that begin with `prefix`."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def _to_archon_error(rpc_error: grpc.aio.AioRpcError) -> errors.ArchonError:
    text = f"etcd: {rpc_error.details() or rpc_error.code().name}"
    if rpc_error.code() is grpc.StatusCode.NOT_FOUND:
        return errors.LeaseExpired(text)
    if rpc_error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return errors.ResourceExhausted(text, retry_delay=1.0, kind=STORAGE)
    if rpc_error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED):
        return errors.Internal(text)
    return errors.Unavailable(text, retry_delay=0.5, kind=STORAGE)


async def _all(call: Callable[[T], Awaitable[int]], items: Sequence[T]) -> list[int]:
    """Returns the results of the calls, _CHUNK of them at a time. Raises the first error, once all calls have ended."""
    results: list[int] = []
    for start in range(0, len(items), _CHUNK):
        for result in await asyncio.gather(*map(call, items[start : start + _CHUNK]), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            results.append(result)
    return results


class EtcdClient:
    """Connects to a cluster lazily, with one channel per member. Must be closed.

    Members with `https://` are connected with mutual TLS and the certificate of this process (ARCHON_TLS); theirs must
    name their host. Raises FailedPrecondition if this process has none."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._channels = [_channel(target) for target in targets]
        self._member = 0
        self._renewal_stream: Any = None
        self._renewal_lock = asyncio.Lock()

    async def close(self) -> None:
        """Cancels all calls and closes the channels."""
        self._close_renewal_stream()
        for channel in self._channels:
            await channel.close()

    def _next_member(self) -> None:
        self._member = (self._member + 1) % len(self._channels)

    async def _call(self, stub: Any, method: str, request: Any) -> Any:
        failure: errors.ArchonError = errors.Unavailable("no etcd member answers")
        for _ in self._channels:
            member = self._member
            try:
                return await getattr(stub(self._channels[member]), method)(
                    request, timeout=max(1.0, CALL_TIMEOUT / len(self._channels))
                )
            except grpc.aio.AioRpcError as rpc_error:
                failure = _to_archon_error(rpc_error)
                if not isinstance(failure, errors.Unavailable):
                    break
                if member == self._member:  # else a concurrent call has failed over already
                    self._next_member()
        raise failure

    async def range(self, prefix: bytes) -> Any:
        """Returns all keys below a prefix as a RangeResponse (linearizable)."""
        return await self._call(rpc.KVStub, "Range", rpc.RangeRequest(key=prefix, range_end=range_end(prefix)))

    async def get(self, key: bytes) -> Any | None:
        """Returns the KeyValue of a key, or None."""
        response = await self._call(rpc.KVStub, "Range", rpc.RangeRequest(key=key))
        return response.kvs[0] if response.kvs else None

    async def count_from(self, key: bytes, prefix: bytes) -> tuple[int, int, int]:
        """Returns the current revision, the number of keys below a prefix from `key` on, and the revision that last
        wrote `key`, 0 if that does not exist (linearizable)."""
        request = rpc.RangeRequest(key=key, range_end=range_end(prefix), limit=1, keys_only=True)
        response = await self._call(rpc.KVStub, "Range", request)
        first = response.kvs[0] if response.kvs else None
        return response.header.revision, response.count, first.mod_revision if first and first.key == key else 0

    async def leases(self, keys: Sequence[bytes]) -> list[int]:
        """Returns the lease id of each key, 0 if the key does not exist."""
        if len(keys) > _SINGLE_READS:
            request = rpc.RangeRequest(key=min(keys), range_end=max(keys) + b"\0", keys_only=True)
            found = {kv.key: kv.lease for kv in (await self._call(rpc.KVStub, "Range", request)).kvs}
            return [found.get(key, 0) for key in keys]

        async def of(key: bytes) -> int:
            response = await self._call(rpc.KVStub, "Range", rpc.RangeRequest(key=key, keys_only=True))
            return response.kvs[0].lease if response.kvs else 0

        return await _all(of, keys)

    async def txn(self, compare: Sequence[Any], success: Sequence[Any]) -> Any:
        """Commits a transaction and returns its TxnResponse."""
        return await self._call(rpc.KVStub, "Txn", rpc.TxnRequest(compare=compare, success=success))

    async def grant(self, ttl: int) -> tuple[int, int]:
        """Creates a lease. Returns its id and its TTL as granted, in seconds."""
        granted = await self._call(rpc.LeaseStub, "LeaseGrant", rpc.LeaseGrantRequest(TTL=ttl))
        return granted.ID, granted.TTL

    async def revoke(self, lease: int) -> None:
        """Revokes a lease and deletes its keys; an unknown lease is not an error."""
        try:
            await self._call(rpc.LeaseStub, "LeaseRevoke", rpc.LeaseRevokeRequest(ID=lease))
        except errors.LeaseExpired:
            pass

    async def seconds_left(self, leases: Sequence[int]) -> list[int]:
        """Returns the whole seconds that each lease has left, 0 if it has expired or the id is 0."""

        async def of(lease: int) -> int:
            if not lease:
                return 0
            request = rpc.LeaseTimeToLiveRequest(ID=lease)
            response = await self._call(rpc.LeaseStub, "LeaseTimeToLive", request)
            return max(0, int(response.TTL))

        return await _all(of, leases)

    async def renew(self, leases: Sequence[int]) -> list[int]:
        """Renews leases on one stream. Returns the seconds left for each, 0 if a lease has expired."""
        ttls: list[int] = []
        async with self._renewal_lock:
            try:
                async with asyncio.timeout(CALL_TIMEOUT):
                    if self._renewal_stream is None or self._renewal_stream.done():
                        self._renewal_stream = rpc.LeaseStub(self._channels[self._member]).LeaseKeepAlive(
                            metadata=_LEADER
                        )
                    for start in range(0, len(leases), _CHUNK):
                        chunk = leases[start : start + _CHUNK]
                        for lease in chunk:
                            await self._renewal_stream.write(rpc.LeaseKeepAliveRequest(ID=lease))
                        for lease in chunk:  # etcd answers in the order of the requests
                            response = await self._renewal_stream.read()
                            if response is grpc.aio.EOF or lease != response.ID:
                                raise errors.Unavailable("the stream of renewals ended")
                            ttls.append(response.TTL)
            except BaseException as error:
                self._close_renewal_stream()  # its outstanding responses can no longer be matched to requests
                if isinstance(
                    error, (grpc.aio.AioRpcError, TimeoutError, errors.Unavailable, asyncio.InvalidStateError)
                ):
                    self._next_member()
                    raise errors.Unavailable(
                        f"etcd does not renew leases: {error!r:.200}", retry_delay=0.5, kind=STORAGE
                    ) from None
                raise
        return ttls

    def _close_renewal_stream(self) -> None:
        if self._renewal_stream is not None:
            self._renewal_stream.cancel()
            self._renewal_stream = None

    async def watch(self, prefix: bytes, start_revision: int) -> AsyncGenerator[list[Any], None]:
        """Yields the events from `start_revision` on, in lists of whole revisions. Raises Unavailable if the stream
        ends, also if the revisions were compacted: the caller lists again and watches from there."""
        create = rpc.WatchCreateRequest(key=prefix, range_end=range_end(prefix), start_revision=start_revision)
        call = rpc.WatchStub(self._channels[self._member]).Watch(metadata=_LEADER)
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                await call.write(rpc.WatchRequest(create_request=create))
                response = await call.read()
            while response is not grpc.aio.EOF and not response.canceled:
                if response.events:
                    yield list(response.events)
                response = await call.read()  # bounded by the channel's keepalive
            raise errors.Unavailable("etcd ended the watch")
        except grpc.aio.AioRpcError as rpc_error:
            self._next_member()
            raise _to_archon_error(rpc_error) from None
        except TimeoutError:
            self._next_member()
            raise errors.Unavailable("etcd does not open a watch in time") from None
        finally:
            call.cancel()
