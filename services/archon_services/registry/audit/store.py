"""Where the entries are kept: in etcd, under a prefix beside the registry's, or in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aetcd import rpc

from archon_services.registry.store.etcd_client import EtcdClient, parse_members


class AuditStore(Protocol):
    """Keeps entries by key. Raises Unavailable if the store cannot be reached."""

    async def read(self) -> dict[str, bytes]:
        """Returns all entries."""
        ...

    async def add(self, key: str, value: bytes) -> bool:
        """Stores an entry. Returns False, and stores nothing, if there is one with this key."""
        ...

    async def remove(self, keys: Sequence[str]) -> None:
        """Removes entries."""
        ...

    async def close(self) -> None:
        """Closes the connections of the store. Idempotent."""
        ...


class MemoryAuditStore:
    """Keeps entries as long as the process lives."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}

    async def read(self) -> dict[str, bytes]:
        return dict(self._entries)

    async def add(self, key: str, value: bytes) -> bool:
        return self._entries.setdefault(key, value) is value

    async def remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._entries.pop(key, None)

    async def close(self) -> None:
        pass


class EtcdAuditStore:
    """Keeps entries in the etcd `members` (host:port, ...) under `prefix`-audit/, which no listing or watch of the
    registry reads."""

    def __init__(self, members: str, prefix: str) -> None:
        self._etcd = EtcdClient(parse_members(members))
        self._prefix = f"{prefix}-audit/".encode()

    async def read(self) -> dict[str, bytes]:
        response = await self._etcd.range(self._prefix)
        return {kv.key.removeprefix(self._prefix).decode("utf-8", "replace"): kv.value for kv in response.kvs}

    async def add(self, key: str, value: bytes) -> bool:
        name = self._prefix + key.encode()
        absent = rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.VERSION, key=name, version=0)
        put = rpc.RequestOp(request_put=rpc.PutRequest(key=name, value=value))
        return bool((await self._etcd.txn([absent], [put])).succeeded)

    async def remove(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), 100):  # etcd takes 128 operations in a transaction
            requests = [rpc.DeleteRangeRequest(key=self._prefix + key.encode()) for key in keys[start : start + 100]]
            await self._etcd.txn([], [rpc.RequestOp(request_delete_range=request) for request in requests])

    async def close(self) -> None:
        await self._etcd.close()
