"""Checks of hooks before they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from archon.api.orchestrator.v1 import hook_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as run_pb
from archon.errors import FieldViolation, InvalidArgument, MessageTooLarge
from archon.hooks import DELIVERY_KEY, HOOK_KEY
from archon.wire import to_seconds
from archon_services.orchestrator.api.schedule_validation import (
    MAX_NOTE,
    MAX_REQUEST_ID,
    MAX_RUN_BYTES,
    check_violations,
)
from archon_services.orchestrator.api.validation import MAX_METADATA, check_submit
from archon_services.orchestrator.hooks.content import MAX_EVENT
from archon_services.orchestrator.hooks.filling import check_templates
from archon_services.orchestrator.hooks.hook import MAX_BODY, NAME

MAX_EVENTS: Final = 100
"""Events that a hook names."""

MAX_PER_MINUTE: Final = 60_000
"""Deliveries a minute that a hook may allow."""

MAX_KEPT: Final = 30 * 86_400.0
"""Seconds of a replay window, and of the overlap of two secrets."""

KEYS: Final = (HOOK_KEY, DELIVERY_KEY)
_NOT_HOOKED: Final = ("request_id", "wait", "trace", "breakpoints")


def check_hook(hook: pb.Hook, request_id: str = "") -> None:
    """Raises InvalidArgument with all field violations, the errors of a submit about the run, and MessageTooLarge if
    the run is too large."""
    check_submit(hook.run)
    if (size := hook.run.ByteSize()) > MAX_RUN_BYTES:
        raise MessageTooLarge(
            f"message too large: the run of the hook has {size:,} bytes, at most {MAX_RUN_BYTES:,} are allowed",
            metadata={"size": str(size), "limit": str(MAX_RUN_BYTES)},
            field_violations=[FieldViolation("hook.run", "too large")],
        )
    check_violations([*_violations(hook, request_id), *_run_violations(hook.run)])
    try:
        check_templates(hook.run)
    except InvalidArgument as error:
        check_violations([FieldViolation("hook.run.goal", error.message)])


def check_body(body: bytes) -> None:
    """Raises MessageTooLarge if the body of a delivery is too large."""
    if len(body) > MAX_BODY:
        raise MessageTooLarge(
            f"message too large: the body has {len(body):,} bytes, at most {MAX_BODY:,} are allowed",
            metadata={"size": str(len(body)), "limit": str(MAX_BODY)},
            field_violations=[FieldViolation("body", "too large")],
        )


def check_overlap(seconds: float) -> None:
    """Raises InvalidArgument if the overlap of two secrets is out of range."""
    if not 0 <= seconds <= MAX_KEPT:
        check_violations([FieldViolation("overlap", f"must be 0 to {MAX_KEPT:g} s")])


def _violations(hook: pb.Hook, request_id: str) -> Iterator[FieldViolation]:
    if len(request_id) > MAX_REQUEST_ID:
        yield FieldViolation("request_id", f"longer than {MAX_REQUEST_ID} characters")
    if not NAME.fullmatch(hook.name):
        yield FieldViolation(
            "hook.name", "expected up to 100 letters, digits, `.`, `-` and `_`, a letter or digit first"
        )
    if hook.scheme not in pb.HookScheme.values():
        yield FieldViolation("hook.scheme", "is no scheme of this orchestrator")
    if len(hook.note) > MAX_NOTE:
        yield FieldViolation("hook.note", f"longer than {MAX_NOTE:,} characters")
    if not 0 <= hook.max_per_minute <= MAX_PER_MINUTE:
        yield FieldViolation("hook.max_per_minute", f"must be 0 to {MAX_PER_MINUTE:,}")
    if not 0 <= to_seconds(hook.replay_window) <= MAX_KEPT:
        yield FieldViolation("hook.replay_window", f"must be 0 to {MAX_KEPT:g} s")
    if hook.HasField("replay_window") and hook.scheme != pb.HOOK_SCHEME_GITHUB:
        yield FieldViolation("hook.replay_window", "only GITHUB signs no id")
    if len(hook.events) > MAX_EVENTS or not all(0 < len(event) <= MAX_EVENT for event in hook.events):
        yield FieldViolation("hook.events", f"at most {MAX_EVENTS} events, each of 1 to {MAX_EVENT} characters")


def _run_violations(run: run_pb.SubmitRunRequest) -> Iterator[FieldViolation]:
    given = {field.name for field, _ in run.ListFields()}
    for name in _NOT_HOOKED:
        if name in given:
            yield FieldViolation(f"hook.run.{name}", "must not be set: a hook submits many runs")
    if len(run.metadata.keys() - set(KEYS)) > MAX_METADATA - len(KEYS):
        yield FieldViolation("hook.run.metadata", f"at most {MAX_METADATA - len(KEYS)} keys")
