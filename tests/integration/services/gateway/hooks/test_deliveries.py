"""Deliveries to hooks over HTTP: one run for each, whatever the sender, the network and the orchestrator do."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from archon.agent import AgentServer
from archon.client import Client
from archon.errors import FailedPrecondition, PermissionDenied
from archon.hooks import DELIVERY_KEY, HOOK_KEY
from archon.principal import Kind, Principal
from archon.types import Hook, HookDelivery
from archon_services.common import machine
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.hooks import signatures
from archon_services.orchestrator.hooks.hook import MAX_BODY, Scheme
from tests.fixtures.http_gateway import STRANGER, VIEWER, GatewayMesh
from tests.fixtures.waiting import eventually
from tests.integration.services.gateway.hooks.sending import ADD, BODY, RUN, Send, client, listed, reason, sign


async def test_a_delivery_submits_one_run_on_behalf_of_the_owner(hooks: Client, post: Send) -> None:
    hook, secret = await hooks.hooks.create("a", ADD, run=RUN, attach_body=True)
    assert (hook.path, hook.scheme, hook.identity, hook.goal) == ("/hooks/a", "standard", "olga", ADD)
    headers = sign(secret)
    first = await post("a", headers)
    answer = first.json()
    assert (first.status_code, answer["state"], answer["delivery"]) == (202, "accepted", headers["webhook-id"])
    assert first.headers["location"] == answer["watch"] and answer["watch"].endswith(f"/runs/{answer['run']}")
    run = await hooks.get(answer["run"])
    assert (run.metadata[HOOK_KEY], run.metadata[DELIVERY_KEY]) == ("a", headers["webhook-id"])
    again = await post("a", headers)
    assert (again.status_code, again.json()["state"], again.json()["run"]) == (200, "repeated", answer["run"])
    other = await post("a", _same_id(secret, headers["webhook-id"]), b'{"x": "no"}')
    assert (other.status_code, reason(other)) == (409, "DELIVERY_ID_REUSED")
    [delivery] = await listed(hooks, "a", "accepted")
    assert delivery.run_id == answer["run"]


def _same_id(secret: str, delivery_id: str) -> dict[str, str]:
    """Returns the signature of another body under the id of an earlier delivery."""
    body, now = b'{"x": "no"}', str(int(machine.wall_time()))
    content = f"{delivery_id}.{now}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return {"webhook-id": delivery_id, "webhook-timestamp": now, "webhook-signature": f"v1,{digest}"}


async def test_an_unknown_hook_answers_as_a_wrong_signature(
    hooks: Client, post: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    work: list[int] = []
    real = signatures._mac

    def counted(key: bytes, prefix: bytes, body: bytes) -> bytes:
        work.append(len(prefix) + len(body))
        return real(key, prefix, body)

    headers = sign(secret)
    monkeypatch.setattr(signatures, "_mac", counted)
    answers, works = [], []
    for name, changed in (
        ("a", headers | {"webhook-id": headers["webhook-id"][:-1] + "_"}),
        ("none", headers),
        ("blue/a", headers),
    ):
        work.clear()
        response = await post(name, changed)
        kept = {key: value for key, value in response.headers.items() if key != "date"}
        answers.append((response.status_code, response.content, kept))
        works.append(list(work))
    assert answers[0][0] == 401 and b"DELIVERY_UNVERIFIED" in answers[0][1]
    assert answers[0] == answers[1] == answers[2] and works[0] == works[1] == works[2] and len(works[0]) == 2


async def test_a_body_that_was_encoded_again_or_altered_is_refused(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    headers = sign(secret)
    for body in (
        json.dumps(json.loads(BODY), separators=(",", ":")).encode(),
        BODY + b"\n",
        b"",
        BODY.replace(b"hi", b"ho"),
    ):
        assert (await post("a", headers, body)).status_code == 401
    assert (await post("a", headers)).status_code == 202
    for body in ('{"x": "🚀"}'.encode(), b'{ "x" : "\\ud83d\\ude80", "n": 1.50 }\r\n'):
        assert (await post("a", sign(secret, body), body)).status_code == 202


async def test_a_captured_delivery_of_github_under_another_id_is_the_same(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("g", ADD, scheme="github", run=RUN)
    headers = sign(secret, scheme=Scheme.GITHUB)
    run = (await post("g", headers)).json()["run"]
    captured = await post("g", headers | {"x-github-delivery": "another", "x-github-event": "other"})
    assert (captured.status_code, captured.json()["run"]) == (200, run)
    body = b'{"x": "new"}'
    reused = await post(
        "g", sign(secret, body, Scheme.GITHUB) | {"x-github-delivery": headers["x-github-delivery"]}, body
    )
    assert (reused.status_code, reason(reused)) == (409, "DELIVERY_ID_REUSED")


@pytest.mark.slow
async def test_a_body_of_github_is_a_new_delivery_after_the_window(hooks: Client, post: Send) -> None:
    hook, secret = await hooks.hooks.create("g", ADD, scheme="github", run=RUN, replay_window=0.001)
    assert hook.replay_window == 0.001
    headers = sign(secret, scheme=Scheme.GITHUB)
    run = (await post("g", headers)).json()["run"]
    by_hand = await post("g", headers)
    assert (by_hand.status_code, by_hand.json()["run"]) == (200, run)
    other = await post("g", headers | {"x-github-delivery": "other"})
    assert other.status_code == 202 and other.json()["run"] != run


@pytest.mark.slow
async def test_ping_and_other_events_submit_nothing(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("g", ADD, scheme="github", run=RUN, events=["pull_request.opened"])
    for event, body, state in (
        ("ping", BODY, "ignored"),
        ("push", b'{"x": 1}', "ignored"),
        ("pull_request", b'{"action": "closed"}', "ignored"),
        ("pull_request", b'{"action": "opened", "x": 1}', "accepted"),
    ):
        headers = sign(secret, body, Scheme.GITHUB) | {"x-github-event": event}
        assert (await post("g", headers, body)).json()["state"] == state

    async def counted() -> bool:
        return sorted([each.state async for each in hooks.hooks.deliveries("g")]) == ["accepted", *["ignored"] * 3]

    await eventually(counted)
    assert ((await hooks.hooks.get("g")).ignored, (await hooks.hooks.get("g")).accepted) == (3, 1)


@pytest.mark.slow
async def test_slack_gets_its_challenge_and_nobody_else(hooks: Client, post: Send) -> None:
    secret = "8f742231b10e8888abcd99yyyzzz85a5"
    await hooks.hooks.create("s", ADD, scheme="slack", secret=secret, run=RUN)
    body = json.dumps({"type": "url_verification", "challenge": "<b>c</b>"}).encode()
    answer = await post("s", sign(secret, body, Scheme.SLACK), body)
    assert (answer.status_code, answer.text) == (200, "<b>c</b>")
    assert (
        answer.headers["content-type"].startswith("text/plain")
        and answer.headers["x-content-type-options"] == "nosniff"
    )
    assert (await post("s", sign(secret + "x", body, Scheme.SLACK), body)).status_code == 401
    event = b'{"event_id": "Ev1", "x": 1, "event": {"type": "app_mention"}}'
    runs = {(await post("s", sign(secret, event, Scheme.SLACK), event)).json()["run"] for _ in range(3)}
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"content-encoding": "gzip"}, 415),
        pytest.param({"content-type": "text/plain"}, 415, marks=pytest.mark.slow),
        pytest.param({"content-type": "multipart/form-data; boundary=x"}, 415, marks=pytest.mark.slow),
        pytest.param({"content-type": "application/json; charset=utf-16"}, 415, marks=pytest.mark.slow),
        ({"content-type": 'application/cloudevents+json; charset="UTF-8"'}, 202),
        ({"webhook-signature": "v1," + "x" * 5_000}, 400),
    ],
)
async def test_contents_that_no_hook_reads_are_refused(
    hooks: Client, post: Send, headers: dict[str, str], code: int
) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    body = gzip.compress(BODY) if "content-encoding" in headers else BODY
    assert (await post("a", sign(secret, body) | headers, body)).status_code == code


@pytest.mark.slow
async def test_headers_that_come_twice_are_refused(served: GatewayMesh, hooks: Client) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    async with served.http() as http:
        for name in ("webhook-signature", "webhook-id", "content-type"):
            headers = [*sign(secret).items(), (name, "v1,other")]
            response = await http.post("/hooks/a", content=BODY, headers=headers)
            assert (response.status_code, name in response.text) == (400, True)


async def test_a_large_body_is_413_and_a_chunked_one_is_read(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", "x", run=RUN)
    exact = b'{"x": "' + b"a" * (MAX_BODY - 9) + b'"}'
    assert (await post("a", sign(secret, exact), exact)).status_code == 202
    larger = await post("a", sign(secret, exact + b" "), exact + b" ")
    assert (larger.status_code, reason(larger)) == (413, "MESSAGE_TOO_LARGE")

    async def pieces() -> AsyncIterator[bytes]:
        for byte in BODY:
            yield bytes([byte])

    assert (await post("a", sign(secret), pieces())).status_code == 202


@pytest.mark.slow
async def test_a_stale_delivery_says_so_to_holders_of_the_secret(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    for late in (310.0, -310.0):
        answer = await post("a", sign(secret, late=late))
        assert (answer.status_code, reason(answer)) == (400, "DELIVERY_STALE")
    assert (await post("a", sign("whsec_" + "A" * 43 + "=", late=310.0))).status_code == 401


async def test_a_hook_takes_so_many_and_repeats_do_not_count(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN, max_per_minute=1)
    headers = sign(secret)
    assert (await post("a", headers)).status_code == 202
    more = await post("a", sign(secret))
    assert (more.status_code, reason(more)) == (429, "TOO_MANY_REQUESTS")
    assert 1 <= int(more.headers["retry-after"]) <= 60 and "more than 1 deliveries a minute of one hook" in more.text
    await hooks.hooks.update("a", max_per_minute=60_000)
    assert (await post("a", sign(secret))).status_code == 202, "the limit of an edit counts at once"
    assert {(await post("a", headers)).status_code for _ in range(5)} == {200}


async def test_all_deliveries_of_a_minute_may_come_at_once(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN, max_per_minute=3)
    answers = await asyncio.gather(*(post("a", sign(secret)) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [202, 202, 202, 429]


@pytest.mark.slow
async def test_a_paused_hook_asks_senders_to_come_again(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    await hooks.hooks.pause("a", "holidays")
    headers = sign(secret)
    refused = await post("a", headers)
    assert (refused.status_code, reason(refused), refused.headers["retry-after"]) == (503, "HOOK_PAUSED", "60")
    assert (await post("a", headers | {"webhook-id": "x"})).status_code == 401
    await hooks.hooks.resume("a")
    assert (await post("a", headers)).status_code == 202


@pytest.mark.slow
async def test_both_secrets_count_until_the_overlap_is_over(hooks: Client, post: Send) -> None:
    _, old = await hooks.hooks.create("a", ADD, run=RUN)
    rotated, new = await hooks.hooks.rotate("a", overlap=100)
    assert rotated.previous_secret_until is not None and old != new
    assert [(await post("a", sign(secret))).status_code for secret in (old, new)] == [202, 202]
    _, newer = await hooks.hooks.rotate("a", overlap=0.05)

    async def over() -> bool:
        return (await post("a", sign(new))).status_code == 401

    await eventually(over)
    assert [(await post("a", sign(secret))).status_code for secret in (old, newer)] == [401, 202]
    _, newest = await hooks.hooks.rotate("a", overlap=0)
    assert [(await post("a", sign(secret))).status_code for secret in (newer, newest)] == [401, 202]


@pytest.mark.slow
async def test_a_template_without_its_value_is_refused_and_listed(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    answer = await post("a", sign(secret, b""), b"")
    assert answer.status_code == 400 and "no attribute 'x'" in answer.text
    [delivery] = await listed(hooks, "a", "refused")
    assert delivery.failure is not None and not delivery.run_id


@pytest.mark.slow
async def test_a_delivery_that_was_refused_is_taken_when_it_is_sent_again(
    served: GatewayMesh, hooks: Client, post: Send
) -> None:
    _, secret = await hooks.hooks.create("late", ADD, scheme="github", run={"roles": ["late"]})
    headers = sign(secret, scheme=Scheme.GITHUB)
    assert (await post("late", headers)).status_code == 503
    async with AgentServer("late", handler=lambda task: "done", settings=served.mesh.agent_settings()):

        async def taken() -> bool:
            return (await post("late", headers)).status_code == 202

        await eventually(taken)
    assert (await post("late", headers)).status_code == 200


@pytest.mark.slow
async def test_an_orchestrator_that_dies_before_its_answer_has_one_run(
    served: GatewayMesh, hooks: Client, post: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    headers, before = sign(secret), len(await hooks.list_runs(limit=1_000))
    stored = asyncio.Event()
    real = Commands.submit

    async def submit(self: Commands, *arguments: Any, **options: Any) -> Any:
        await real(self, *arguments, **options)
        stored.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(Commands, "submit", submit)
        sending = asyncio.ensure_future(post("a", headers))
        await stored.wait()
        await served.mesh.orchestrator.kill()
    lost = await sending
    assert lost.status_code == 503 and int(lost.headers["retry-after"]) >= 1
    down = await post("a", sign(secret))
    assert down.status_code == 503 and int(down.headers["retry-after"]) >= 1
    await served.mesh.orchestrator.start()

    async def taken() -> bool:
        return (await post("a", headers)).status_code == 200

    await eventually(taken)
    assert len(await hooks.list_runs(limit=1_000)) == before + 1


@pytest.mark.slow
async def test_deliveries_at_once_have_a_run_each(hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("g", ADD, scheme="github", run=RUN)
    bodies = [json.dumps({"x": number}).encode() for number in range(8)]
    sent = [(sign(secret, body, Scheme.GITHUB), body) for body in bodies] * 3
    answers = await asyncio.gather(*(post("g", headers, body) for headers, body in sent))
    assert {answer.status_code for answer in answers} == {200, 202}
    assert len({answer.json()["run"] for answer in answers}) == 8
    await listed(hooks, "g", *["accepted"] * 8)


@pytest.mark.slow
async def test_a_revoked_owner_has_no_more_runs(served: GatewayMesh, hooks: Client, post: Send) -> None:
    assert served.keys is not None
    owner = Principal(Kind.OPERATOR, "otto", token_id="t-9")
    async with client(served, owner) as otto:
        _, secret = await otto.hooks.create("a", ADD, run=RUN)
    assert (await post("a", sign(secret))).status_code == 202
    served.keys.write("t-9")
    try:

        async def refused() -> bool:
            return (await post("a", sign(secret))).status_code == 403

        await eventually(refused)
        answer = await post("a", sign(secret))
        assert "otto" not in answer.text and "t-9" not in answer.text
    finally:
        served.keys.write()


@pytest.mark.slow
async def test_hooks_of_a_tenant_have_its_path(served: GatewayMesh, hooks: Client, post: Send) -> None:
    async with client(served, STRANGER) as blue:
        hook, secret = await blue.hooks.create("b", ADD, run=RUN)
        try:
            assert hook.path == "/hooks/blue/b"
            assert (await post("b", sign(secret))).status_code == 401
            answer = await post("blue/b", sign(secret))
            assert answer.status_code in (202, 503)  # the role may have no instance in the tenant
        finally:
            await blue.hooks.delete("b")


async def test_secrets_are_shown_once_and_stored_sealed(
    served: GatewayMesh, hooks: Client, post: Send, caplog: pytest.LogCaptureFixture
) -> None:
    hook, secret = await hooks.hooks.create("a", ADD, run=RUN, request_id="r")
    assert (await hooks.hooks.create("a", ADD, run=RUN, request_id="r")) == (hook, secret)
    await post("a", sign(secret))
    await listed(hooks, "a", "accepted")
    shown: list[Hook | HookDelivery] = [hook, await hooks.hooks.get("a"), *await hooks.hooks.list()]
    shown += [each async for each in hooks.hooks.deliveries("a")]
    assert len(shown) == 4
    for each in shown:
        assert secret not in repr(each) + str(each.proto)
    assert secret not in caplog.text
    stored = b"".join(file.read_bytes() for file in served.mesh.home.glob("journal.db*"))
    assert b'"name":"a"' in stored and secret.encode() not in stored and secret[6:].encode() not in stored


@pytest.mark.slow
async def test_another_key_verifies_nothing_and_says_so(served: GatewayMesh, hooks: Client, post: Send) -> None:
    _, secret = await hooks.hooks.create("a", ADD, run=RUN)
    key = served.mesh.home / "hooks.key"
    content = key.read_bytes()
    assert oct(key.stat().st_mode & 0o777) == "0o600"
    try:
        await _restarted(served, key, None)
        with pytest.raises(FailedPrecondition, match="ARCHON_HOOK_KEY"):
            await hooks.hooks.sign("a", BODY)
        assert (await post("a", sign(secret))).status_code == 503
        assert (await hooks.hooks.get("a")).name == "a"
    finally:
        await _restarted(served, key, content)
    assert (await post("a", sign(secret))).status_code == 202


async def _restarted(served: GatewayMesh, key: Path, content: bytes | None) -> None:
    await served.mesh.orchestrator.stop()
    await asyncio.to_thread(key.unlink if content is None else partial(key.write_bytes, content))
    await served.mesh.orchestrator.start()


async def test_a_test_delivery_needs_no_secret_but_an_operator(served: GatewayMesh, hooks: Client, post: Send) -> None:
    await hooks.hooks.create("a", ADD, run=RUN)
    path, headers = await hooks.hooks.sign("a", BODY)
    assert path == "/hooks/a" and (await post("a", headers)).status_code == 202
    async with client(served, VIEWER) as viewer:
        assert [hook.name for hook in await viewer.hooks.list()] == ["a"]
        for call in (viewer.hooks.sign("a", BODY), viewer.hooks.rotate("a"), viewer.hooks.create("b", ADD)):
            with pytest.raises(PermissionDenied):
                await call
