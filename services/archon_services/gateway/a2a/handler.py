"""The operations of A2A over the runs of the mesh. The SDK serves them over JSON-RPC, HTTP+JSON and gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeVar, cast

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.types import a2a_pb2
from a2a.utils.constants import PROTOCOL_VERSION_1_0
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.input_mode_validator import validate_input_modes
from a2a.utils.task import apply_history_length, validate_history_length, validate_page_size
from a2a.utils.version_validator import validate_version

from archon.errors import ArchonError, InvalidArgument, UnknownRole
from archon.security.authenticator import Caller
from archon.types.run import Run
from archon_services.gateway.a2a.a2a_errors import refuse
from archon_services.gateway.a2a.cards import CardPlace, card_of
from archon_services.gateway.a2a.events import TaskEvent
from archon_services.gateway.a2a.history import history_of
from archon_services.gateway.a2a.mesh_access import MeshAccess
from archon_services.gateway.a2a.push_delivery import PushDelivery
from archon_services.gateway.a2a.push_store import PushStore, config_of
from archon_services.gateway.a2a.runs import Wanted, followed, page_of, settled
from archon_services.gateway.a2a.signing import CardKey
from archon_services.gateway.a2a.submission import check, respond, submit
from archon_services.gateway.a2a.tasks import AGENT, goal_message, task_of
from archon_services.gateway.a2a.webhook import Webhooks
from archon_services.gateway.agents import AgentDirectory, MeshAgent

WAIT: Final = 600.0
"""Seconds for which a call waits for a task; then it returns the task as it is."""

CANCEL_WAIT: Final = 5.0
"""Seconds for which a cancellation waits for the end of the task."""

PAGE: Final = 50
"""Tasks of a page if the caller names no size."""

CALLER: Final = "archon_caller"
"""State of a call: who makes it."""

ROLE: Final = "archon_role"
"""State of a call: the role in the path of its URL; empty for the mesh itself."""

PLACE: Final = "archon_place"
"""State of a call: the CardPlace by which the caller reaches the room."""

REFUSED: Final = "archon_refused"
"""State of a call: the error with which its caller is refused."""

F = TypeVar("F", bound=Callable[..., Any])


def _unary(method: F) -> F:
    """Has a method fail with errors of A2A alone."""
    served = validate_version(PROTOCOL_VERSION_1_0)(method)  # the SDK does not ask for it over gRPC

    @wraps(method)
    async def guarded(self: MeshRequestHandler, params: Any, context: ServerCallContext) -> Any:
        try:
            _let_in(context)
            return await served(self, params, context)
        except Exception as raised:  # noqa: BLE001 - whatever it is, the caller gets a typed error
            raise await refuse(raised, context) from None

    return cast(F, guarded)


def _streaming(method: F) -> F:
    """Has a streaming method fail with errors of A2A alone, and close its stream with its caller's."""
    served = validate_version(PROTOCOL_VERSION_1_0)(method)

    @wraps(method)
    async def guarded(
        self: MeshRequestHandler, params: Any, context: ServerCallContext
    ) -> AsyncGenerator[a2a_pb2.Task | TaskEvent, None]:
        try:
            _let_in(context)
            async with aclosing(served(self, params, context)) as events:
                async for event in events:
                    yield event
        except Exception as raised:  # noqa: BLE001 - whatever it is, the caller gets a typed error
            raise await refuse(raised, context) from None

    return cast(F, guarded)


def _let_in(context: ServerCallContext) -> None:
    refused = context.state.get(REFUSED)
    if isinstance(refused, ArchonError):
        raise refused


@dataclass(frozen=True, slots=True)
class PushParts:
    """The parts of the room that send push notifications."""

    store: PushStore
    delivery: PushDelivery
    webhooks: Webhooks


class MeshRequestHandler(RequestHandler):
    """Serves the operations for the caller of each call. Without `push` there are no push notifications."""

    def __init__(self, mesh: MeshAccess, agents: AgentDirectory, key: CardKey, push: PushParts | None) -> None:
        self._mesh = mesh
        self._agents = agents
        self._key = key
        self._push = push

    @validate_request_params
    @_unary
    async def on_message_send(
        self, params: a2a_pb2.SendMessageRequest, context: ServerCallContext
    ) -> a2a_pb2.Task | a2a_pb2.Message:
        """Submits or answers, and waits for the task unless the caller wants no wait."""
        configuration = params.configuration
        validate_history_length(configuration)
        run = await self._accept(params, context)
        if not configuration.return_immediately:
            with self._mesh.held():
                run = await settled(self._mesh.runs, run, WAIT)
        return await self._task(run, configuration)

    @validate_request_params
    @_streaming
    async def on_message_send_stream(
        self, params: a2a_pb2.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[a2a_pb2.Task | TaskEvent, None]:
        """Submits or answers, and yields the task and its events until it has ended or requires input."""
        validate_history_length(params.configuration)
        with self._mesh.held():
            run = await self._accept(params, context)
            yield await self._task(run, params.configuration)
            if run.state.final or run.questions:
                return
            async with aclosing(followed(self._mesh.runs, run, until_interrupted=True)) as events:
                async for event in events:
                    yield event

    @validate_request_params
    @_streaming
    async def on_subscribe_to_task(
        self, params: a2a_pb2.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[a2a_pb2.Task | TaskEvent, None]:
        """Yields the task, and its events until it has ended."""
        with self._mesh.held():
            run = await self._run(params.id, context)
            if run.state.final:
                raise UnsupportedOperationError(f"task {run.run_id} has ended: get it")
            yield task_of(run, await history_of(self._mesh.runs, run))
            async with aclosing(followed(self._mesh.runs, run, until_interrupted=False)) as events:
                async for event in events:
                    yield event

    @validate_request_params
    @_unary
    async def on_get_task(self, params: a2a_pb2.GetTaskRequest, context: ServerCallContext) -> a2a_pb2.Task | None:
        """Returns a task."""
        validate_history_length(params)
        return await self._task(await self._run(params.id, context), params)

    @validate_request_params
    @_unary
    async def on_list_tasks(
        self, params: a2a_pb2.ListTasksRequest, context: ServerCallContext
    ) -> a2a_pb2.ListTasksResponse:
        """Returns a page of tasks, the newest status first."""
        validate_history_length(params)
        if params.HasField("page_size"):
            validate_page_size(params.page_size)
        size = params.page_size or PAGE
        after = params.status_timestamp_after.ToNanoseconds() / 1e9  # 0 if it is not set
        wanted = Wanted(self._name(context), params.context_id, params.status, after)
        page = await page_of(self._mesh, wanted, size, params.page_token)
        tasks = [apply_history_length(task_of(run, [goal_message(run)]), params) for run in page.runs]
        if not params.include_artifacts:
            for task in tasks:
                task.ClearField("artifacts")
        return a2a_pb2.ListTasksResponse(
            tasks=tasks, next_page_token=page.next_token, page_size=size, total_size=page.total
        )

    @validate_request_params
    @_unary
    async def on_cancel_task(
        self, params: a2a_pb2.CancelTaskRequest, context: ServerCallContext
    ) -> a2a_pb2.Task | None:
        """Cancels a task, and waits a moment for its end."""
        run = await self._run(params.id, context)
        if run.state.final:
            raise TaskNotCancelableError(f"task {run.run_id} has ended already")
        run = await self._mesh.runs.cancel(run.run_id, "cancelled by an A2A client")
        return task_of(await self._ended(run))

    @validate_request_params
    @_unary
    async def on_create_task_push_notification_config(
        self, params: a2a_pb2.TaskPushNotificationConfig, context: ServerCallContext
    ) -> a2a_pb2.TaskPushNotificationConfig:
        """Stores a push notification config of a task."""
        push = self._pushing()
        run = await self._run(params.task_id, context)
        return await self._add_push(push, params, run)

    @validate_request_params
    @_unary
    async def on_get_task_push_notification_config(
        self, params: a2a_pb2.GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> a2a_pb2.TaskPushNotificationConfig:
        """Returns a push notification config of a task."""
        push = self._pushing()
        return (await push.store.get(await self._run(params.task_id, context), params.id)).config.proto

    @validate_request_params
    @_unary
    async def on_list_task_push_notification_configs(
        self, params: a2a_pb2.ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> a2a_pb2.ListTaskPushNotificationConfigsResponse:
        """Returns all push notification configs of a task: they are few."""
        push = self._pushing()
        configs = await push.store.list(await self._run(params.task_id, context))
        return a2a_pb2.ListTaskPushNotificationConfigsResponse(configs=[each.config.proto for each in configs])

    @validate_request_params
    @_unary
    async def on_delete_task_push_notification_config(
        self, params: a2a_pb2.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Deletes a push notification config of a task. Idempotent."""
        push = self._pushing()
        await push.store.delete(await self._run(params.task_id, context), params.id)

    @validate_request_params
    @_unary
    async def on_get_extended_agent_card(
        self, params: a2a_pb2.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> a2a_pb2.AgentCard:
        """Returns the card for callers with a token: of their tenant, with the tools of the role."""
        place: CardPlace = context.state[PLACE]
        if not place.secured:
            raise ExtendedAgentCardNotConfiguredError("a mesh without keys has one card for everybody")
        card = card_of(await self._agent(context), place, extended=True)
        return self._key.sign(card, place.base_url)

    def _name(self, context: ServerCallContext) -> str:
        """Returns the role that a call is for: of its path, or of the field `tenant`; empty for the mesh itself."""
        role, tenant = str(context.state.get(ROLE, "")), context.tenant
        if role and tenant and role != tenant:
            raise InvalidArgument(f"the interface of {role!r} serves no agent {tenant[:100]!r}")
        return role or tenant

    async def _agent(self, context: ServerCallContext) -> MeshAgent:
        name, caller = self._name(context), context.state.get(CALLER)
        agent = await self._agents.find(name, caller.tenant if isinstance(caller, Caller) else Caller().tenant)
        if agent is None:
            raise UnknownRole(f"no instance of the role {name[:100]!r} is live", metadata={"role": name[:100]})
        return agent

    async def _accept(self, params: a2a_pb2.SendMessageRequest, context: ServerCallContext) -> Run:
        """Returns the run of a message, with the push notifications that it asks for."""
        message, configuration = params.message, params.configuration
        check(message)
        wants_push = configuration.HasField("task_push_notification_config")
        config = configuration.task_push_notification_config
        push = self._pushing() if wants_push else None
        if push is not None:
            push.webhooks.check(config.url, {"token": config.token, "credentials": config.authentication.credentials})
        if message.task_id:
            run = await self._run(message.task_id, context)
            if run.state.final:
                raise UnsupportedOperationError(f"task {run.run_id} has ended: send the message without a task id")
            run = await respond(self._mesh.runs, run, message)
        else:
            agent = await self._agent(context)
            validate_input_modes(message, card_of(agent, context.state[PLACE]))
            run = await submit(self._mesh.runs, agent.name, params)
        if push is not None:
            await self._add_push(push, config, run)
        return run

    async def _run(self, run_id: str, context: ServerCallContext) -> Run:
        name = self._name(context)
        run = await self._mesh.runs.get(run_id)
        if name and run.metadata.get(AGENT) != name:
            raise TaskNotFoundError(f"the role {name} has no task {run_id}")
        return run

    async def _task(self, run: Run, limits: Any) -> a2a_pb2.Task:
        """Returns a run as a task with as much of its history as the caller wants."""
        wants_none = limits.HasField("history_length") and limits.history_length == 0
        history = () if wants_none else await history_of(self._mesh.runs, run)
        return apply_history_length(task_of(run, history), limits)

    async def _ended(self, run: Run) -> Run:
        end = asyncio.get_running_loop().time() + CANCEL_WAIT
        while not run.state.final and (left := end - asyncio.get_running_loop().time()) > 0:
            try:
                async with (
                    asyncio.timeout(left),
                    aclosing(followed(self._mesh.runs, run, until_interrupted=False, pieces=False)) as events,
                ):
                    async for _ in events:
                        pass
            except TimeoutError:
                pass
            run = await self._mesh.runs.get(run.run_id)
        return run

    def _pushing(self) -> PushParts:
        if self._push is None:
            raise PushNotificationNotSupportedError("the gateway has no memory service: it sends no push notifications")
        return self._push

    async def _add_push(
        self, push: PushParts, wanted: a2a_pb2.TaskPushNotificationConfig, run: Run
    ) -> a2a_pb2.TaskPushNotificationConfig:
        config = config_of(wanted, run)
        push.webhooks.check(config.url, config.headers)
        stored = await push.store.create(run, config)
        push.delivery.deliver(stored)
        return config.proto
