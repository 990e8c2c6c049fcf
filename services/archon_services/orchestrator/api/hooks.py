"""The commands about hooks. Hooks of other tenants do not exist here."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from archon import context
from archon.api.orchestrator.v1 import hook_service_pb2 as pb
from archon.errors import AlreadyExists, HookChanged, ResourceExhausted
from archon.wire import to_seconds
from archon_services.orchestrator.api.hook_validation import check_body, check_hook, check_overlap
from archon_services.orchestrator.api.schedule_validation import check_note
from archon_services.orchestrator.api.trigger_owner import caller
from archon_services.orchestrator.audit import AuditRecord
from archon_services.orchestrator.convert.field_mask import checked_paths, masked
from archon_services.orchestrator.convert.hook import hook_to_proto, settings_from_proto
from archon_services.orchestrator.hooks import HookStore, SecretSealer
from archon_services.orchestrator.hooks.hook import Hook, Scheme
from archon_services.orchestrator.hooks.secrets import checked_secret
from archon_services.orchestrator.hooks.signatures import signed

MAX_HOOKS: Final = 1_000
"""Hooks of a tenant."""

CHANGEABLE: Final = ("run", "attach_body", "events", "max_per_minute", "replay_window", "note")
"""The fields of a hook that an update changes."""

OWNED: Final = frozenset({"run", "attach_body", "events"})
"""The fields that say which runs a hook submits: the caller who changes them becomes its owner."""

OVERLAP: Final = 86_400.0
"""Seconds for which the secret before is valid, if the caller does not say."""


class HookCommands:
    """Raises Archon's errors."""

    def __init__(self, store: HookStore, secrets: SecretSealer, audit: AuditRecord) -> None:
        self.store = store
        self._secrets = secrets
        self._audit = audit

    async def create(self, request: pb.CreateHookRequest) -> tuple[Hook, str]:
        """Creates a hook, or returns the one of the same request; with its secret. Raises InvalidArgument,
        AlreadyExists, ResourceExhausted, FailedPrecondition if secrets cannot be sealed, and the errors of the
        journal."""
        check_hook(request.hook, request.request_id)
        given, tenant, now = request.hook, context.current().tenant, self.store.now()
        scheme = Scheme(given.scheme) if given.scheme else Scheme.STANDARD
        secret, uid = checked_secret(scheme, request.secret), uuid.uuid4().hex[:16]
        hook = Hook(
            tenant,
            given.name,
            uid,
            scheme,
            owner=caller(),
            created=now,
            updated=now,
            secret=self._secrets.seal(tenant, uid, secret),
            secret_set=now,
            request_id=request.request_id,
            **settings_from_proto(given),
        )
        if await self.store.count(tenant) >= MAX_HOOKS:
            raise ResourceExhausted(f"the tenant has {MAX_HOOKS:,} hooks: remove some")
        if not await self.store.add(hook):
            present = await self.store.get(tenant, given.name)
            if not request.request_id or present.request_id != request.request_id:
                raise AlreadyExists(f"there is a hook {given.name!r} already", metadata={"hook": given.name})
            return present, self._secrets.current(present)
        await self._noted("hook.create", hook.name, scheme=scheme.name.lower())
        return hook, secret

    async def get(self, name: str) -> Hook:
        """Returns a hook. Raises UnknownHook."""
        return await self.store.get(context.current().tenant, name)

    async def update(self, request: pb.UpdateHookRequest) -> Hook:
        """Changes the fields of the mask. Raises UnknownHook, HookChanged, InvalidArgument, and FailedPrecondition if
        secrets cannot be sealed anew."""
        given, now, owner = request.hook, self.store.now(), caller()
        paths = checked_paths(request.update_mask, given, CHANGEABLE)
        takes_over = any(path.partition(".")[0] in OWNED for path in paths)

        def edit(hook: Hook) -> Hook:
            check_etag(hook, request.etag)
            if not paths and not request.reseal:
                return hook
            changed = masked(hook_to_proto(hook, now), given, paths)
            check_hook(changed)
            edited = self._secrets.resealed(hook, now) if request.reseal else hook
            fields = {**settings_from_proto(changed), "owner": owner if takes_over else hook.owner}
            return _edited(edited, now, **fields)

        details = {"fields": ", ".join(paths), **({"resealed": True} if request.reseal else {})}
        return await self._changed(given.name, edit, "hook.update", **details)

    async def rotate(self, request: pb.RotateHookSecretRequest) -> tuple[Hook, str]:
        """Gives a hook another secret, and returns both. Raises UnknownHook, InvalidArgument and FailedPrecondition."""
        overlap = to_seconds(request.overlap) if request.HasField("overlap") else OVERLAP
        check_overlap(overlap)
        present = await self.get(request.name)
        secret, now = checked_secret(present.scheme, request.secret), self.store.now()

        def edit(hook: Hook) -> Hook:
            sealed = self._secrets.seal(hook.tenant, hook.uid, secret)
            kept = hook.secret if overlap else ""
            return _edited(hook, now, secret=sealed, secret_set=now, previous=kept, previous_until=now + overlap)

        return await self._changed(request.name, edit, "hook.rotate"), secret

    async def pause(self, request: pb.PauseHookRequest) -> Hook:
        """Pauses a hook. Raises UnknownHook and InvalidArgument."""
        check_note("reason", request.reason)
        now, fields = self.store.now(), {"paused": True, "pause_reason": request.reason}
        return await self._changed(
            request.name, lambda hook: hook if hook.paused else _edited(hook, now, **fields), "hook.pause"
        )

    async def resume(self, request: pb.ResumeHookRequest) -> Hook:
        """Resumes a hook. Raises UnknownHook."""
        now, fields = self.store.now(), {"paused": False, "pause_reason": ""}
        return await self._changed(
            request.name, lambda hook: _edited(hook, now, **fields) if hook.paused else hook, "hook.resume"
        )

    async def delete(self, request: pb.DeleteHookRequest) -> None:
        """Deletes a hook. Raises UnknownHook."""
        await self.store.delete(context.current().tenant, request.name)
        await self._noted("hook.delete", request.name)

    async def sign(self, request: pb.SignDeliveryRequest) -> tuple[Hook, dict[str, str]]:
        """Returns a hook, and the headers with which its sender would send a body. Raises UnknownHook, MessageTooLarge
        and FailedPrecondition."""
        check_body(request.body)
        hook = await self.get(request.name)
        secret = self._secrets.current(hook)
        await self._noted("hook.sign", hook.name)
        return hook, signed(hook.scheme, secret, request.body, self.store.now(), event=request.event)

    async def _changed(self, name: str, edit: Callable[[Hook], Hook], action: str, **details: Any) -> Hook:
        hook, changed = await self.store.change(context.current().tenant, name, edit)
        if changed:
            await self._noted(action, name, **details)
        return hook

    async def _noted(self, action: str, name: str, **details: Any) -> None:
        await self._audit.add(self._audit.row(action, target=name, details=details))


def check_etag(hook: Hook, etag: str) -> None:
    """Raises HookChanged if a hook has another etag; an empty one is any."""
    if etag and etag != hook.etag:
        raise HookChanged(
            f"the hook {hook.name} was changed since: its etag is {hook.etag}",
            metadata={"hook": hook.name, "etag": hook.etag},
        )


def _edited(hook: Hook, now: float, **fields: Any) -> Hook:
    return replace(hook, updated=now, version=hook.version + 1, **fields)
