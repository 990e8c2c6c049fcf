"""What the registry needs of etcd: transactions, leases, one stream that renews them, and a watch.

Over aetcd's stubs, on channels of our own: every call has a deadline and goes to the next member where one doesn't
answer, all leases are renewed on one stream, and a frozen member is noticed. Errors are Archon's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import grpc
import grpc.aio
from aetcd import rpc

from archon import errors

CALL_TIMEOUT: Final = 3.0
"""Seconds that a call may take, over all members."""

_CHUNK: Final = 100
"""Operations in one transaction (etcd takes 128), and renewals under way at once."""

_OPTIONS: Final = [
    ("grpc.max_receive_message_length", 256 * 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # etcd by default closes connections that are pinged more often than every 5 s, or without a call under way
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.http2.ping_timeout_ms", 2_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
_LEADER: Final = (("hasleader", "true"),)
"""A member cut off from its cluster ends streams that say this, instead of going silent."""

_MEMBER: Final = re.compile(r"^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})$")


def members(text: str) -> list[str]:
    """The members in `host:port,host:port`. Raises InvalidArgument."""
    found = [part.strip().removeprefix("http://").rstrip("/") for part in text.split(",") if part.strip()]
    if not found or not all(_MEMBER.match(member) for member in found):
        raise errors.InvalidArgument(f"{text!r} is no list of etcd members such as 10.0.0.1:2379,10.0.0.2:2379")
    return found


def range_end(prefix: bytes) -> bytes:
    """The end of the range of all keys that begin with `prefix`."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def _translated(raised: grpc.aio.AioRpcError) -> errors.ArchonError:
    text = f"etcd: {raised.details() or raised.code().name}"
    if raised.code() is grpc.StatusCode.NOT_FOUND:
        return errors.LeaseExpired(text)
    if raised.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return errors.ResourceExhausted(text, retry_delay=1.0)
    if raised.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED):
        return errors.Internal(text)
    return errors.Unavailable(text, retry_delay=0.5)


class Etcd:
    """A connection to a cluster, one channel per member. Lazy; close it."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._channels = [grpc.aio.insecure_channel(target, options=_OPTIONS) for target in targets]
        self._at = 0
        self._renewals: Any = None
        self._renewing = asyncio.Lock()

    async def close(self) -> None:
        """Ends all calls."""
        self._drop_renewals()
        for channel in self._channels:
            await channel.close()

    def _next_member(self) -> None:
        self._at = (self._at + 1) % len(self._channels)

    async def _call(self, stub: Any, method: str, request: Any) -> Any:
        failure: errors.ArchonError = errors.Unavailable("no etcd member answers")
        for _ in self._channels:
            at = self._at
            try:
                return await getattr(stub(self._channels[at]), method)(
                    request, timeout=max(1.0, CALL_TIMEOUT / len(self._channels))
                )
            except grpc.aio.AioRpcError as raised:
                failure = _translated(raised)
                if not isinstance(failure, errors.Unavailable):
                    break
                if at == self._at:  # else another call moved on already
                    self._next_member()
        raise failure

    async def range(self, prefix: bytes) -> Any:
        """All keys below a prefix, as a RangeResponse: linearizable."""
        return await self._call(rpc.KVStub, "Range", rpc.RangeRequest(key=prefix, range_end=range_end(prefix)))

    async def get(self, key: bytes) -> Any | None:
        """One key's KeyValue, None where it isn't there."""
        found = await self._call(rpc.KVStub, "Range", rpc.RangeRequest(key=key))
        return found.kvs[0] if found.kvs else None

    async def leases(self, keys: Sequence[bytes]) -> list[int]:
        """The lease of each key; 0 where the key isn't there."""
        found: list[int] = []
        for start in range(0, len(keys), _CHUNK):
            ranges = [rpc.RangeRequest(key=key, keys_only=True) for key in keys[start : start + _CHUNK]]
            request = rpc.TxnRequest(success=[rpc.RequestOp(request_range=one) for one in ranges])
            answer = await self._call(rpc.KVStub, "Txn", request)
            kvs = [one.response_range.kvs for one in answer.responses]
            found += [kv[0].lease if kv else 0 for kv in kvs]
        return found

    async def txn(self, compare: Sequence[Any], success: Sequence[Any]) -> Any:
        """A transaction, as a TxnResponse."""
        return await self._call(rpc.KVStub, "Txn", rpc.TxnRequest(compare=compare, success=success))

    async def grant(self, ttl: int) -> tuple[int, int]:
        """A new lease: its id, and its seconds as granted."""
        granted = await self._call(rpc.LeaseStub, "LeaseGrant", rpc.LeaseGrantRequest(TTL=ttl))
        return granted.ID, granted.TTL

    async def revoke(self, lease: int) -> None:
        """Ends a lease and deletes its keys; one that is gone is no error."""
        try:
            await self._call(rpc.LeaseStub, "LeaseRevoke", rpc.LeaseRevokeRequest(ID=lease))
        except errors.LeaseExpired:
            pass

    async def renew(self, leases: Sequence[int]) -> list[int]:
        """Renews leases on the one stream for all; seconds left for each, 0 where a lease is gone."""
        left: list[int] = []
        async with self._renewing:
            try:
                async with asyncio.timeout(CALL_TIMEOUT):
                    if self._renewals is None or self._renewals.done():
                        self._renewals = rpc.LeaseStub(self._channels[self._at]).LeaseKeepAlive(metadata=_LEADER)
                    for start in range(0, len(leases), _CHUNK):
                        chunk = leases[start : start + _CHUNK]
                        for lease in chunk:
                            await self._renewals.write(rpc.LeaseKeepAliveRequest(ID=lease))
                        for lease in chunk:  # etcd answers in the order of the requests
                            answer = await self._renewals.read()
                            if answer is grpc.aio.EOF or lease != answer.ID:
                                raise errors.Unavailable("the stream of renewals ended")
                            left.append(answer.TTL)
            except BaseException as raised:
                self._drop_renewals()  # answers that are still to come belong to nobody
                if isinstance(
                    raised, (grpc.aio.AioRpcError, TimeoutError, errors.Unavailable, asyncio.InvalidStateError)
                ):
                    self._next_member()
                    raise errors.Unavailable(f"etcd renews no leases: {raised!r:.200}", retry_delay=0.5) from None
                raise
        return left

    def _drop_renewals(self) -> None:
        if self._renewals is not None:
            self._renewals.cancel()
            self._renewals = None

    async def watch(self, prefix: bytes, start_revision: int) -> AsyncGenerator[list[Any], None]:
        """The events from `start_revision` on, in lists that hold whole revisions. Raises Unavailable where the stream
        ends, also where the revisions were compacted: list again, then watch from there."""
        create = rpc.WatchCreateRequest(key=prefix, range_end=range_end(prefix), start_revision=start_revision)
        call = rpc.WatchStub(self._channels[self._at]).Watch(metadata=_LEADER)
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                await call.write(rpc.WatchRequest(create_request=create))
                answer = await call.read()
            while answer is not grpc.aio.EOF and not answer.canceled:
                if answer.events:
                    yield list(answer.events)
                answer = await call.read()  # the channel's keepalive bounds it: etcd frozen or gone ends the stream
            raise errors.Unavailable("etcd ended the watch")
        except grpc.aio.AioRpcError as raised:
            self._next_member()
            raise _translated(raised) from None
        except TimeoutError:
            self._next_member()
            raise errors.Unavailable("etcd opens no watch in time") from None
        finally:
            call.cancel()
