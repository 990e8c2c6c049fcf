"""The content of deliveries: JSON and forms, their limits, events, ids, and the runs that templates make of them."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import InvalidArgument
from archon_services.orchestrator.hooks.content import MAX_DEPTH, Content, content_of
from archon_services.orchestrator.hooks.filling import MEDIA_TYPE, check_templates, filled_run
from archon_services.orchestrator.hooks.hook import Hook, Scheme
from archon_services.orchestrator.hooks.signatures import Proof, Received
from archon_services.orchestrator.schedules.schedule import Owner

FORM: Final = {"content-type": "application/x-www-form-urlencoded; charset=UTF-8"}


def read(body: bytes | Any, scheme: Scheme = Scheme.STANDARD, headers: dict[str, str] | None = None) -> Content:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return content_of(scheme, Received(headers or {}, raw), Proof("id" if scheme is Scheme.STANDARD else "", 1_000.0))


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"", {}),
        (b" \n", {}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        ('{"ä": "€😀"}'.encode(), {"ä": "€😀"}),
        (b'{"a": "\\ud83d"}', {"a": "?"}),
        (b'{"a": "[[[[", "b": "\\"{{{{"}', {"a": "[[[[", "b": '"{{{{'}),
        (b"[1, 2.5, null]", [1, 2.5, None]),
    ],
)
def test_a_body_is_read_as_json_in_utf_8(body: bytes, value: Any) -> None:
    assert read(body).body == value


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 200 + b"1" + b"}" * 200,
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b"{'a': 1}",
        b"\xff\xfe{\x00}\x00",
        b"9" * 5_000,
        b'{"a": 1} {"b": 2}',
    ],
)
def test_a_body_that_parsers_read_differently_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgument, match="the body"):
        read(body)


def test_the_depth_of_a_body_is_bounded() -> None:
    assert read(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH).body
    with pytest.raises(InvalidArgument, match=f"more than {MAX_DEPTH} levels"):
        read(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))


def test_a_form_is_an_object_and_its_payload_is_json() -> None:
    assert read(urlencode({"text": "a b", "user": "ü"}).encode(), headers=FORM).body == {"text": "a b", "user": "ü"}
    assert read(urlencode({"payload": '{"a": 1}'}).encode(), headers=FORM).body == {"a": 1}
    for form in (b"a=1&a=2", b"payload=%7B", b"a=%ff", b"&".join(b"a%d=1" % n for n in range(1_001))):
        with pytest.raises(InvalidArgument, match="body"):
            read(form, headers=FORM)


def test_events_and_ids_are_those_of_the_scheme() -> None:
    github = read({"action": "opened"}, Scheme.GITHUB, {"x-github-event": "pull_request"})
    assert (github.event, github.delivery_id[:7]) == ("pull_request.opened", "sha256:")
    stripe = read({"id": "evt_1", "type": "invoice.paid"}, Scheme.STRIPE)
    assert (stripe.event, stripe.delivery_id) == ("invoice.paid", "evt_1")
    slack = read({"event_id": "Ev1", "event": {"type": "app_mention"}}, Scheme.SLACK)
    assert (slack.event, slack.delivery_id) == ("app_mention", "Ev1")
    command = read(b"command=%2Fask&trigger_id=1.2.3", Scheme.SLACK, FORM)
    assert (command.event, command.delivery_id) == ("/ask", "1.2.3")
    assert read({"type": "user.created"}).event == "user.created"
    assert read({"type": 5, "id": ["x"]}, Scheme.STRIPE).event == ""


def test_a_try_of_stripe_that_counts_pending_ones_is_the_same_delivery() -> None:
    first = read({"id": "evt_1", "type": "t", "pending_webhooks": 2}, Scheme.STRIPE)
    again = read({"id": "evt_1", "type": "t", "pending_webhooks": 1}, Scheme.STRIPE)
    other = read({"id": "evt_1", "type": "u", "pending_webhooks": 1}, Scheme.STRIPE)
    assert first.digest == again.digest != other.digest


def test_ids_that_no_store_takes_are_replaced_by_their_digest() -> None:
    for delivery_id in ("x" * 500, "a b", "\x7f"):
        received = Received({}, b"{}")
        assert content_of(Scheme.STANDARD, received, Proof(delivery_id, 1.0)).delivery_id.startswith("sha256:")


def test_a_hook_takes_the_events_that_it_names() -> None:
    fields: Any = {"created": 0.0, "updated": 0.0, "secret": "", "secret_set": 0.0}

    def taken(scheme: Scheme, events: tuple[str, ...], event: str) -> bool:
        return Hook("t", "n", "u", scheme, b"", Owner(""), **fields, events=events).takes(event)

    assert taken(Scheme.GITHUB, (), "push") and not taken(Scheme.GITHUB, (), "ping")
    assert taken(Scheme.STRIPE, ("invoice",), "invoice.paid")
    assert not taken(Scheme.STRIPE, ("invoice",), "invoiceitem.created")
    assert not taken(Scheme.GITHUB, ("pull_request.opened",), "pull_request.closed")
    assert not taken(Scheme.STANDARD, ("a",), "")


async def test_values_of_a_delivery_are_data_and_no_templates() -> None:
    run = pb.SubmitRunRequest(
        goal=[common_pb2.Part(text="Do {{ body.x }} of {{ event }}")], session_id="s-{{ body.n }}"
    )
    check_templates(run)
    values = {"body": {"x": "{{ 7 * 7 }} {% for %}", "n": 3}, "event": "e", "delivery": "d", "hook": "h"}
    filled = await filled_run(run, values, attach_body=True)
    assert filled.goal[0].text == "Do {{ 7 * 7 }} {% for %} of e" and filled.session_id == "s-3"
    assert json.loads(filled.goal[1].data_json) == values["body"]
    assert run.goal[0].text == "Do {{ body.x }} of {{ event }}"


@pytest.mark.parametrize(
    "text", ["{{ secret }}", "{{ body.__class__ }}{{ x }}", "{% include 'x' %}", "{{ body", "x" * 20_001]
)
def test_a_template_that_reads_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        check_templates(pb.SubmitRunRequest(goal=[common_pb2.Part(text=text)]))


@pytest.mark.parametrize(
    "text",
    [
        "{{ body.y }}",
        "{{ body.x.y.z }}",
        pytest.param("{% for a in range(99999999) %}{{ a }}{% endfor %}", marks=pytest.mark.slow),
    ],
)
async def test_a_missing_value_and_an_endless_template_fail_typed(text: str) -> None:
    values = {"body": {"x": "a" * 1_000}, "event": "", "delivery": "", "hook": ""}
    run = pb.SubmitRunRequest(goal=[common_pb2.Part(text=text)])
    with pytest.raises(InvalidArgument, match="templates of the hook cannot be filled"):
        await filled_run(run, values, attach_body=False)


async def test_arguments_of_a_workflow_are_filled_with_their_types() -> None:
    content = {
        "name": "trip",
        "parameters": {"city": {}, "nights": {"type": "integer", "default": 2}},
        "steps": [{"task": "Go to {{ city }}"}],
    }
    workflow = {"content": content, "calls": {}}
    data = {"workflow": workflow, "arguments": {"city": "{{ body.city }}", "nights": "{{ body.nights }}"}}
    parts = [
        common_pb2.Part(text="Workflow {{ it }}"),
        common_pb2.Part(data_json=json.dumps(data), media_type=MEDIA_TYPE),
    ]
    run = pb.SubmitRunRequest(goal=parts)
    check_templates(run)

    async def arguments(body: Any) -> Any:
        values = {"body": body, "event": "", "delivery": "", "hook": ""}
        filled = await filled_run(run, values, attach_body=False)
        document = json.loads(filled.goal[1].data_json)
        assert document["workflow"] == workflow
        return document["arguments"]

    assert await arguments({"city": "Rome {{ x }}", "nights": 3}) == {"city": "Rome {{ x }}", "nights": 3}
    with pytest.raises(InvalidArgument, match="nights: must be"):
        await arguments({"city": "Rome", "nights": "many"})
