"""A message of an A2A client as the submit of a run, or as the answer to a question of one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from a2a.types import a2a_pb2

from archon.client import Client
from archon.errors import InvalidArgument, RequestIdReused
from archon.submission import RunOptions
from archon.types.run import Run
from archon_services.common.a2a_keys import RESERVED, budget_from, timeout_from
from archon_services.common.a2a_parts import parts_from_a2a, plain, strings_of
from archon_services.gateway.a2a.questions import Asked, answer_of
from archon_services.gateway.a2a.tasks import AGENT, MESH, context_of, is_unique, new_context

MAX_ID: Final = 256
"""Characters of a message id and of a context id."""

MAX_METADATA: Final = 48
"""Entries of the metadata of a message that the run has."""

REFERENCES: Final = "org.a2a-protocol/reference-task-ids"
"""Metadata of a run: the tasks that its message refers to, with commas."""


def check(message: a2a_pb2.Message) -> None:
    """Raises InvalidArgument for a message that no client may send."""
    if message.role != a2a_pb2.Role.ROLE_USER:
        raise InvalidArgument("a client sends messages of the role ROLE_USER")
    if not message.parts:
        raise InvalidArgument("a message needs a part")
    if not message.message_id or len(message.message_id) > MAX_ID or len(message.context_id) > MAX_ID:
        raise InvalidArgument(f"a message id has 1 to {MAX_ID} characters, a context id at most {MAX_ID}")


async def submit(client: Client, agent: str, request: a2a_pb2.SendMessageRequest) -> Run:
    """Submits a run for a message, to a role or, if that is empty, to the roles that the mesh chooses. A message whose
    id is a UUID is submitted once: sent again, it returns the same run.

    Raises the errors of Client.submit, and RequestIdReused if another message had the same id.
    """
    message = request.message
    goal = parts_from_a2a(message)
    wishes = {**plain(request.metadata), **plain(message.metadata)}
    roles, strategy = [agent], "agent"
    if not agent:
        chosen = await client.choose_strategy(goal)
        roles, strategy = list(chosen.roles), chosen.strategy
    options = RunOptions(
        roles=roles,
        strategy=strategy,
        session_id=message.context_id or new_context(message.message_id),
        timeout=timeout_from(wishes),
        budget=budget_from(wishes),
        request_id=_request_id(agent, message),
        metadata={**_metadata(request), AGENT: agent or MESH},
    )
    try:
        return (await client.submit(goal, **options)).run
    except RequestIdReused as error:
        # The same message, but the mesh has other roles by now, or the client has not been told the context.
        run = await client.get(error.metadata["run_id"]) if "run_id" in error.metadata else None
        if run is None or [part.proto for part in run.goal] != [part.proto for part in goal]:
            raise
        return run


async def respond(client: Client, run: Run, message: a2a_pb2.Message) -> Run:
    """Gives a message as the answer to an open question of a run. Raises InvalidArgument if the message names another
    context, FailedPrecondition if no question is open, and the errors of Client.respond."""
    if message.context_id and message.context_id != context_of(run):
        raise InvalidArgument(f"task {run.run_id} belongs to another context")
    answer = answer_of(message, [Asked.from_question(each) for each in run.questions])
    return await client.respond(run.run_id, answer.input_id, answer.parts, decision=answer.decision)


def _request_id(agent: str, message: a2a_pb2.Message) -> str:
    if not is_unique(message.message_id):
        return ""
    return "a2a:" + hashlib.sha256(f"{agent}/{message.message_id.lower()}".encode()).hexdigest()


def _metadata(request: a2a_pb2.SendMessageRequest) -> Mapping[str, str]:
    found = {**strings_of(request.metadata), **strings_of(request.message.metadata)}
    kept = {key: value for key, value in found.items() if not key.startswith(RESERVED)}
    if len(kept) > MAX_METADATA:
        raise InvalidArgument(f"the metadata of a message has at most {MAX_METADATA} entries")
    if references := ",".join(request.message.reference_task_ids):
        kept[REFERENCES] = references
    return kept
