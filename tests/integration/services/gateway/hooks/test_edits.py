"""Edits of hooks: their fields, lost updates, the owner, and deliveries that came before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cryptography.fernet import Fernet

from archon.api.orchestrator.v1 import hook_service_pb2 as pb
from archon.audit_client import AuditClient
from archon.client import Client
from archon.errors import HookChanged, InvalidArgument, PermissionDenied, UnknownHook
from archon.principal import Kind, Principal
from archon.types import Run
from archon.wire import text_of
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.hooks.hook import Scheme
from tests.fixtures.http_gateway import VIEWER, GatewayMesh
from tests.integration.services.gateway.hooks.sending import ADD, RUN, Send, client, listed, sign


def goal(run: Run) -> str:
    return text_of(run.proto.goal)


async def run_of(hooks: Client, response: Any) -> Run:
    return await hooks.get(response.json()["run"])


async def test_an_edit_changes_what_it_names_alone(hooks: Client) -> None:
    options: Any = {"roles": ["echo"], "timeout": 60.0, "session_id": "s"}
    before, _ = await hooks.hooks.create("a", ADD, run=options, events=["push"], note="n", scheme="github")
    edited = await hooks.hooks.update("a", goal="Other {{ body.x }}", run={"timeout": 9.0}, replay_window=0.0)
    assert (edited.goal, edited.roles, edited.events, edited.note) == ("Other {{ body.x }}", ("echo",), ("push",), "n")
    assert (edited.proto.run.timeout.seconds, edited.proto.run.session_id, edited.replay_window) == (9, "s", 0.0)
    assert (edited.etag != before.etag, edited.secret_time, edited.update_time > before.update_time) == (
        *(True, before.secret_time, True),
    )
    edited = await hooks.hooks.update("a", events=[], note="", attach_body=True, max_per_minute=7, run={"roles": []})
    assert (edited.events, edited.note, edited.attach_body, edited.max_per_minute) == ((), "", True, 7)
    assert (edited.roles, edited.goal) == ((), "Other {{ body.x }}")
    assert (await hooks.hooks.update("a", max_per_minute=0)).max_per_minute == 600


async def test_two_edits_at_once_lose_nothing_and_an_etag_refuses(hooks: Client) -> None:
    first, _ = await hooks.hooks.create("a", ADD, run=RUN)
    await asyncio.gather(
        hooks.hooks.update("a", note="mine"),
        hooks.hooks.update("a", events=["push"]),
        hooks.hooks.update("a", run={"session_id": "s"}),
        hooks.hooks.update("a", run={"timeout": 5.0}),
    )
    both = await hooks.hooks.get("a")
    assert (both.note, both.events, both.proto.run.session_id, both.proto.run.timeout.seconds) == (
        *("mine", ("push",), "s", 5),
    )
    with pytest.raises(HookChanged) as refused:
        await hooks.hooks.update("a", note="late", etag=first.etag)
    assert refused.value.metadata == {"hook": "a", "etag": both.etag}
    results = await asyncio.gather(
        *(hooks.hooks.update("a", note=str(number), etag=both.etag) for number in range(4)), return_exceptions=True
    )
    assert [type(each) for each in results].count(HookChanged) == 3, "one of those that read the same state"


@pytest.mark.parametrize("change", ["rotate", "pause", "resume"])
async def test_every_change_of_a_caller_is_another_etag(hooks: Client, change: str) -> None:
    before, _ = await hooks.hooks.create("a", ADD, run=RUN)
    if change == "resume":
        before = await hooks.hooks.pause("a")
    await getattr(hooks.hooks, change)("a")
    with pytest.raises(HookChanged):
        await hooks.hooks.update("a", note="n", etag=before.etag)


async def test_deliveries_that_are_counted_leave_the_etag(hooks: Client, post: Send) -> None:
    hook, secret = await hooks.hooks.create("a", ADD, run=RUN)
    assert (await post("a", sign(secret))).status_code == 202
    await listed(hooks, "a", "accepted")
    assert (await hooks.hooks.update("a", note="n", etag=hook.etag)).accepted == 1, "and the edit leaves the counts"


async def test_a_delivery_that_was_accepted_keeps_its_run(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    headers = sign(secret)
    first = await post("a", headers)
    await hooks.hooks.update("a", goal="Shout {{ body.x }}", events=["never"])
    again = await post("a", headers)
    assert (again.status_code, again.json()["run"]) == (200, first.json()["run"]), (
        "though its event submits nothing now"
    )
    assert goal(await run_of(hooks, again)) == "Say hi"
    assert (await post("a", sign(secret))).json()["state"] == "ignored"
    await hooks.hooks.update("a", events=[])
    assert goal(await run_of(hooks, await post("a", sign(secret)))) == "Shout hi"


async def test_a_delivery_without_a_run_is_taken_as_the_hook_is_now(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", "Say {{ body.y }}", run=RUN, events=["push"])
    body = b'{"x": "hi", "type": "pull"}'
    ignored, refused = sign(secret, body), sign(secret)
    assert (await post("a", ignored, body)).json()["state"] == "ignored"
    await hooks.hooks.update("a", goal=ADD, events=[])
    assert (await post("a", ignored, body)).status_code == 202
    await hooks.hooks.update("a", goal="Say {{ body.y }}")
    assert (await post("a", refused)).status_code == 400
    await hooks.hooks.update("a", goal=ADD)
    assert (await post("a", refused)).status_code == 202


async def test_an_edit_during_a_delivery_leaves_its_run_as_it_began(
    hooks: Client, post: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    real, begun, go_on = Commands.submit, asyncio.Event(), asyncio.Event()

    async def submit(self: Commands, *arguments: Any, **options: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await real(self, *arguments, **options)

    monkeypatch.setattr(Commands, "submit", submit)
    sending = asyncio.ensure_future(post("a", sign(secret)))
    await begun.wait()
    await hooks.hooks.update("a", goal="Shout {{ body.x }}")
    go_on.set()
    assert goal(await run_of(hooks, await sending)) == "Say hi"


async def test_a_shorter_replay_window_counts_for_bodies_that_came_before(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("g", ADD, run=RUN, scheme="github")
    first = await post("g", sign(secret, scheme=Scheme.GITHUB))
    copied = await post("g", sign(secret, scheme=Scheme.GITHUB))
    assert copied.json()["run"] == first.json()["run"]
    await hooks.hooks.update("g", replay_window=0.0)
    other = await post("g", sign(secret, scheme=Scheme.GITHUB))
    assert (other.status_code, other.json()["run"] != first.json()["run"]) == (202, True)


async def test_who_changes_what_is_submitted_becomes_the_owner(served: GatewayMesh, hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    async with client(served, Principal(Kind.OPERATOR, "otto")) as otto:
        limits: Any
        taking: Any
        for limits in ({"note": "n"}, {"max_per_minute": 60}, {"reseal": True}):
            assert (await otto.hooks.update("a", **limits)).identity == "olga"
        for taking in ({"goal": ADD}, {"run": {"timeout": 5.0}}, {"events": []}, {"attach_body": True}):
            assert (await otto.hooks.update("a", **taking)).identity == "otto"
            await hooks.hooks.update("a", goal=ADD)
        await otto.hooks.update("a", goal=ADD)
    assert (await run_of(hooks, await post("a", sign(secret)))).proto.identity == "otto"
    async with client(served, VIEWER) as viewer:
        with pytest.raises(PermissionDenied):
            await viewer.hooks.update("a", note="n")
    with pytest.raises(UnknownHook):
        await hooks.hooks.update("none", note="n")


@pytest.mark.parametrize(
    ("paths", "field"),
    [
        (["name"], "update_mask"),
        (["scheme"], "update_mask"),
        (["identity"], "update_mask"),
        (["paused"], "update_mask"),
        (["run.colour"], "update_mask"),
        (["run.metadata.a"], "update_mask"),
        ([""], "update_mask"),
        (["note"] * 101, "update_mask"),
        (["run.goal"], "goal"),
        (["run"], "goal"),
        (["*"], "goal"),
        (["run.request_id"], "hook.run.request_id"),
        (["replay_window"], "hook.replay_window"),
        (["max_per_minute"], "hook.max_per_minute"),
    ],
)
async def test_a_wrong_edit_is_refused_and_changes_nothing(hooks: Client, paths: list[str], field: str) -> None:
    before, _ = await hooks.hooks.create("a", ADD, run=RUN)
    hook = pb.Hook(name="a", note="changed", max_per_minute=-1)
    hook.run.request_id = "r"
    hook.replay_window.seconds = 5
    request = pb.UpdateHookRequest(hook=hook)
    request.update_mask.paths.extend(paths)
    with pytest.raises(InvalidArgument) as refused:
        await hooks.hooks._stub.UpdateHook(request, timeout=10)
    assert any(each.field.endswith(field) for each in refused.value.field_violations), refused.value
    assert await hooks.hooks.get("a") == before
    with pytest.raises(InvalidArgument, match="reads 'other'"):
        await hooks.hooks.update("a", goal="{{ other }}")
    with pytest.raises(InvalidArgument, match="nothing to change"):
        await hooks.hooks.update("a")


async def test_without_a_mask_the_fields_that_are_set_change(served: GatewayMesh, hooks: Client) -> None:
    await hooks.hooks.create("a", ADD, run=RUN, events=["push"])
    request = pb.UpdateHookRequest(hook=pb.Hook(name="a", note="n", scheme=pb.HOOK_SCHEME_SLACK, accepted=7))
    changed = (await hooks.hooks._stub.UpdateHook(request, timeout=10)).hook
    assert (changed.note, list(changed.events), changed.scheme, changed.accepted) == (
        *("n", ["push"], pb.HOOK_SCHEME_STANDARD, 0),
    )
    nothing = (await hooks.hooks._stub.UpdateHook(pb.UpdateHookRequest(hook=pb.Hook(name="a")), timeout=10)).hook
    assert nothing == changed
    path = "/archon.api.orchestrator.v1.HookService/UpdateHook"
    assert served.keys is not None
    token = served.keys.token(Principal(Kind.OPERATOR, "olga"))
    async with served.http() as http:
        body = {"hook": {"name": "a", "run": {"sessionId": "s"}}, "updateMask": "run.sessionId,note"}
        answer = await http.post(path, json=body, headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    found = await hooks.hooks.get("a")
    assert (found.proto.run.session_id, found.note, found.goal) == ("s", "", ADD)


async def test_an_edit_is_in_the_audit_log_with_its_fields(served: GatewayMesh, hooks: Client) -> None:
    await hooks.hooks.create("audited", ADD, run=RUN)
    await hooks.hooks.update("audited", goal="Say less", note="n", reseal=True)
    assert served.keys is not None
    credentials = served.keys.credentials(Principal(Kind.ADMIN, "root"))
    async with AuditClient(served.mesh.orchestrator.address, credentials=credentials) as auditor:
        [entry] = [
            each for each in await auditor.entries() if each.action == "hook.update" and each.target == "audited"
        ]
    assert (entry.details["fields"], entry.details["resealed"]) == ("run.goal, note", True)


async def test_a_key_is_rotated_while_deliveries_come(served: GatewayMesh, hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    _, newer = await hooks.hooks.rotate("a", overlap=60)
    key = served.mesh.home / "hooks.key"
    old = await asyncio.to_thread(key.read_bytes)
    try:
        await asyncio.to_thread(key.write_bytes, Fernet.generate_key() + b"\n" + old)
        assert (await post("a", sign(secret))).status_code == 202
        await hooks.hooks.update("a", reseal=True)
        await asyncio.to_thread(key.write_bytes, key.read_bytes().split()[0] + b"\n")
        await served.mesh.orchestrator.stop()
        await served.mesh.orchestrator.start()
        assert [(await post("a", sign(each))).status_code for each in (secret, newer)] == [202, 202]
    finally:
        await asyncio.to_thread(key.write_bytes, old)
        await served.mesh.orchestrator.stop()
        await served.mesh.orchestrator.start()
