"""Client of hooks: runs that signed webhooks submit at the HTTP gateway.

hook, secret = await client.hooks.create("review", "Review {{ body.pull_request.html_url }}", scheme="github")
"""

from __future__ import annotations

import builtins
import uuid
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask

from archon.api.orchestrator.v1 import hook_service_pb2 as pb
from archon.api.orchestrator.v1 import hook_service_pb2_grpc
from archon.errors import InvalidArgument
from archon.pages import listed, pages
from archon.submission import Goal, RunOptions, run_changes, submit_request
from archon.types.hook import Hook, HookDelivery
from archon.wire import set_seconds

__all__ = ["DELIVERY_KEY", "HOOK_KEY", "Hooks"]

HOOK_KEY: Final = "dev.archon/hook"
"""The metadata of a run with the name of the hook that has submitted it."""

DELIVERY_KEY: Final = "dev.archon/hook-delivery"
"""The metadata of a run with the id of its delivery."""

CALL_TIMEOUT: Final = 10.0
PAGE: Final = 100


class Hooks:
    """The hooks of the caller's tenant. Calls raise the errors that the orchestrator raised."""

    def __init__(self, channel: Any) -> None:
        self._stub = hook_service_pb2_grpc.HookServiceStub(channel)

    async def create(
        self,
        name: str,
        goal: Goal,
        *,
        scheme: str = "standard",
        secret: str = "",
        run: RunOptions | None = None,
        attach_body: bool = False,
        events: Sequence[str] = (),
        max_per_minute: int = 0,
        replay_window: float | None = None,
        note: str = "",
        request_id: str = "",
    ) -> tuple[Hook, str]:
        """Creates a hook, durable on return, and returns it with its secret, which no other call returns. Each delivery
        submits `goal`, whose texts are templates that read `body`, `event`, `delivery` and `hook`, with the options
        `run` of `Client.submit` and with the rights that the caller has then.

        `scheme` says how the sender signs: `standard`, `github`, `stripe` or `slack`; the last two give the `secret`.
        With `attach_body` the body is a part of the goal. `events` are the events that submit runs, by default all.
        Each orchestrator takes `max_per_minute` deliveries, 600 if it is 0. `replay_window`: seconds for which the same
        body of GitHub, which signs no id, is the same delivery, by default a day. `note` is for people. An empty
        `request_id` is replaced by a new one: gRPC's retries of one call create one.

        Raises InvalidArgument, AlreadyExists if the name is taken, ResourceExhausted if there are too many,
        FailedPrecondition if the orchestrator cannot seal secrets."""
        hook = pb.Hook(
            name=name,
            scheme=_scheme(scheme),
            run=submit_request(goal, **(run or {})),
            attach_body=attach_body,
            events=events,
            max_per_minute=max_per_minute,
            note=note,
        )
        for field in ("request_id", "trace"):
            hook.run.ClearField(field)
        if replay_window is not None:
            set_seconds(hook.replay_window, replay_window)
        request = pb.CreateHookRequest(request_id=request_id or uuid.uuid4().hex, hook=hook, secret=secret)
        response = await self._stub.CreateHook(request, timeout=CALL_TIMEOUT)
        return Hook(response.hook), response.secret

    async def get(self, name: str) -> Hook:
        """Returns a hook. Raises UnknownHook."""
        return Hook((await self._stub.GetHook(pb.GetHookRequest(name=name), timeout=CALL_TIMEOUT)).hook)

    async def list(self) -> list[Hook]:
        """Returns the hooks of the tenant by name, without goals."""
        request = pb.ListHooksRequest(page_size=PAGE)
        return await listed(self._stub.ListHooks, request, "hooks", Hook, timeout=CALL_TIMEOUT)

    async def update(
        self,
        name: str,
        *,
        goal: Goal | None = None,
        run: RunOptions | None = None,
        attach_body: bool | None = None,
        events: Sequence[str] | None = None,
        max_per_minute: int | None = None,
        replay_window: float | None = None,
        note: str | None = None,
        reseal: bool = False,
        etag: str = "",
    ) -> Hook:
        """Changes the given fields of a hook, which `create` describes, and the given options of its `run`. The rest
        stays, also the changes that another caller makes at the same time. Later deliveries have the change; earlier
        ones keep their runs. A caller who changes which runs are submitted (goal, run, attach_body, events) becomes the
        owner, whose rights they have. With `reseal` the secrets are sealed anew with the first key of the orchestrator.
        With an `etag` the hook must be as it was read.

        Raises UnknownHook, HookChanged if it was changed since, InvalidArgument, FailedPrecondition if secrets cannot
        be sealed."""
        request, fields = run_changes(goal, run)
        paths = [f"run.{field}" for field in fields]
        values = {"attach_body": attach_body, "events": events, "max_per_minute": max_per_minute, "note": note}
        given: Any = {field: value for field, value in values.items() if value is not None}
        hook = pb.Hook(name=name, run=request, **given)
        paths += given
        if replay_window is not None:
            set_seconds(hook.replay_window, replay_window)
            paths.append("replay_window")
        if not paths and not reseal:
            raise InvalidArgument("nothing to change: give a goal, an option, or reseal")
        if not paths:
            hook.ClearField("run")
        update = pb.UpdateHookRequest(hook=hook, update_mask=FieldMask(paths=paths), etag=etag, reseal=reseal)
        return Hook((await self._stub.UpdateHook(update, timeout=CALL_TIMEOUT)).hook)

    async def rotate(self, name: str, *, secret: str = "", overlap: float | None = None) -> tuple[Hook, str]:
        """Gives a hook another secret, and returns both. The secret before is valid for `overlap` seconds, by default a
        day. Raises UnknownHook, InvalidArgument."""
        request = pb.RotateHookSecretRequest(name=name, secret=secret)
        if overlap is not None:
            set_seconds(request.overlap, overlap)
        response = await self._stub.RotateHookSecret(request, timeout=CALL_TIMEOUT)
        return Hook(response.hook), response.secret

    async def pause(self, name: str, reason: str = "") -> Hook:
        """Pauses a hook: senders try their deliveries again later. Raises UnknownHook."""
        request = pb.PauseHookRequest(name=name, reason=reason)
        return Hook((await self._stub.PauseHook(request, timeout=CALL_TIMEOUT)).hook)

    async def resume(self, name: str) -> Hook:
        """Resumes a hook. Raises UnknownHook."""
        return Hook((await self._stub.ResumeHook(pb.ResumeHookRequest(name=name), timeout=CALL_TIMEOUT)).hook)

    async def delete(self, name: str) -> None:
        """Deletes a hook and its list of deliveries; its runs go on. Raises UnknownHook."""
        await self._stub.DeleteHook(pb.DeleteHookRequest(name=name), timeout=CALL_TIMEOUT)

    async def deliveries(self, name: str) -> AsyncGenerator[HookDelivery, None]:
        """Yields the verified deliveries of a hook, the newest first. Raises UnknownHook."""
        request = pb.ListDeliveriesRequest(name=name, page_size=PAGE)
        async for page in pages(self._stub.ListDeliveries, request, timeout=CALL_TIMEOUT):
            for delivery in page.deliveries:
                yield HookDelivery(delivery)

    async def sign(self, name: str, body: bytes, *, event: str = "") -> tuple[str, dict[str, str]]:
        """Signs a test delivery as its sender would. Returns the path and the headers of a POST with this body, which
        is valid for 5 min. `event` is the one of GitHub. Raises UnknownHook, MessageTooLarge."""
        request = pb.SignDeliveryRequest(name=name, body=body, event=event)
        response = await self._stub.SignDelivery(request, timeout=CALL_TIMEOUT)
        return response.path, {header.name: header.value for header in response.headers}


def schemes() -> builtins.list[str]:
    """Returns the names of the signature schemes in lower case, as `Hooks.create` takes them."""
    return [value.removeprefix("HOOK_SCHEME_").lower() for value in pb.HookScheme.keys()[1:]]


def _scheme(name: str) -> pb.HookScheme.ValueType:
    if name.lower() not in schemes():
        raise InvalidArgument(f"unknown scheme {name!r}; use one of {', '.join(schemes())}")
    return pb.HookScheme.Value(f"HOOK_SCHEME_{name.upper()}")
