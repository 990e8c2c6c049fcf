"""The push notification configs of tasks, in the working memory of the mesh: every replica has them.

The configs of all runs that were submitted on the same day, in UTC, are one scope, which the memory service deletes 30
days after the last write. The owner of a config is the replica that delivers its notifications, under a lease.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from a2a.types import a2a_pb2

from archon.errors import InvalidArgument, NotFound, ResourceExhausted, Unavailable
from archon.memory.values import WorkingValue
from archon.memory.working import WorkingMemoryClient
from archon.types.run import Run
from archon_services.gateway.a2a.tasks import context_of

MAX_CONFIGS: Final = 16
"""Configs of one task."""

MAX_ID: Final = 64
"""Characters of the id of a config."""

MAX_SECRET: Final = 4_096
"""Characters of the token of a config, and of its credentials."""

DAYS: Final = 32
"""Days of submits whose configs are searched for notifications that no replica delivers."""

_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class PushConfig:
    """A config as it is stored. `seq` is the last event of the run that was delivered; `owner` delivers until the time
    `until`, in seconds since the epoch. `over`: the task had ended before, and nothing is delivered."""

    id: str
    tenant: str
    run_id: str
    context_id: str
    url: str
    token: str = ""
    scheme: str = ""
    credentials: str = ""
    seq: int = 0
    owner: str = ""
    until: float = 0.0
    over: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers that authenticate the notifications."""
        headers = {"X-A2A-Notification-Token": self.token} if self.token else {}
        if self.scheme and self.credentials:
            headers["Authorization"] = f"{self.scheme} {self.credentials}"
        return headers

    @property
    def proto(self) -> a2a_pb2.TaskPushNotificationConfig:
        """The config as a message."""
        message = a2a_pb2.TaskPushNotificationConfig(id=self.id, task_id=self.run_id, url=self.url, token=self.token)
        if self.scheme:
            message.authentication.scheme = self.scheme
            message.authentication.credentials = self.credentials
        return message


@dataclass(frozen=True, slots=True)
class Stored:
    """A config with the place where it is stored, and its version there."""

    scope: str
    key: str
    version: int
    config: PushConfig


def config_of(message: a2a_pb2.TaskPushNotificationConfig, run: Run) -> PushConfig:
    """Returns a config for the events of a run that come after its state. Raises InvalidArgument if a field is too
    long."""
    authentication = message.authentication
    if len(message.id) > MAX_ID:
        raise InvalidArgument(f"the id of a push notification config has at most {MAX_ID} characters")
    if max(map(len, (message.token, authentication.scheme, authentication.credentials))) > MAX_SECRET:
        raise InvalidArgument(f"the token and the credentials of a config have at most {MAX_SECRET:,} characters")
    return PushConfig(
        message.id or uuid.uuid4().hex,
        run.tenant or "default",
        run.run_id,
        context_of(run),
        message.url,
        message.token,
        authentication.scheme,
        authentication.credentials,
        seq=run.last_seq,
        over=run.state.final,
    )


class PushStore:
    """The configs of all tasks. Without a memory service, `values` None, every call raises Unavailable."""

    def __init__(self, values: WorkingMemoryClient | None, clock: Callable[[], float] = time.time) -> None:
        self._values = values
        self._clock = clock

    async def create(self, run: Run, config: PushConfig) -> Stored:
        """Stores a config; one with the same id is replaced. Raises ResourceExhausted if the task has too many."""
        known = await self.list(run)
        if len(known) >= MAX_CONFIGS and all(each.config.id != config.id for each in known):
            raise ResourceExhausted(f"a task has at most {MAX_CONFIGS} push notification configs")
        scope, key = _scope(run.create_time), _key(run, config.id)
        version = await self._of(scope).set(key, asdict(config))
        return Stored(scope, key, version, config)

    async def get(self, run: Run, config_id: str) -> Stored:
        """Returns a config of a task. Raises NotFound."""
        scope, key = _scope(run.create_time), _key(run, config_id)
        value = await self._of(scope).get_value(key)
        if value is None:
            raise NotFound(f"task {run.run_id} has no push notification config {config_id[:MAX_ID]!r}")
        return _stored(scope, value)

    async def list(self, run: Run) -> list[Stored]:
        """Returns the configs of a task, ordered by their ids."""
        scope = _scope(run.create_time)
        return [_stored(scope, value) for value in await self._of(scope).list_values(_key(run, ""))]

    async def delete(self, run: Run, config_id: str) -> None:
        """Deletes a config; one that does not exist is no error."""
        await self._of(_scope(run.create_time)).delete(_key(run, config_id))

    async def abandoned(self) -> AsyncIterator[Stored]:
        """Yields the configs of tasks whose notifications no replica delivers now."""
        now = self._clock()
        for day in range(DAYS):
            scope = _scope(now - day * _DAY)
            for value in await self._of(scope).list_values():
                stored = _stored(scope, value)
                if not stored.config.over and stored.config.until < now:
                    yield stored

    async def read(self, scope: str, key: str) -> Stored | None:
        """Returns a config by its place; None if it was deleted."""
        value = await self._of(scope).get_value(key)
        return None if value is None else _stored(scope, value)

    async def update(self, stored: Stored, **changes: Any) -> Stored:
        """Changes a config that is stored as it was read. Raises Aborted if it was changed or deleted since."""
        config = replace(stored.config, **changes)
        version = await self._of(stored.scope).set(stored.key, asdict(config), stored.version)
        return Stored(stored.scope, stored.key, version, config)

    async def remove(self, stored: Stored) -> None:
        """Deletes a config that is stored as it was read. Raises Aborted if it was changed since."""
        await self._of(stored.scope).delete(stored.key, stored.version)

    def _of(self, scope: str) -> WorkingMemoryClient:
        if self._values is None:
            raise Unavailable("the gateway has no memory service, which keeps push notification configs")
        return self._values.of_scope(scope)


def _scope(seconds: float) -> str:
    return "a2a-push/" + time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _key(run: Run, config_id: str) -> str:
    return f"{run.tenant or 'default'}/{run.run_id}/{quote(config_id, safe='')}"


def _stored(scope: str, value: WorkingValue) -> Stored:
    return Stored(scope, value.key, value.version, PushConfig(**value.value))
