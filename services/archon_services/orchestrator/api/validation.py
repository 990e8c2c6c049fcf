"""Checks of a SubmitRun request before the run is created."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2, run_pb2
from archon.errors import EmptyGoal, FieldViolation, InvalidArgument, MessageTooLarge, Unimplemented
from archon.wire import MAX_CHECKED_BYTES, to_seconds
from archon_mesh.engine.types import PLAN, quantize

DEFAULT_TIMEOUT = 3600.0
MAX_TIMEOUT = 24 * 3600.0
MAX_WAIT = 600.0
MAX_ID = 256
MAX_ROLES = 200
MAX_METADATA = 64
MAX_METADATA_LENGTH = 4096
MAX_DEPTH = 32
MAX_PLAN_BYTES = 1024 * 1024
VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,7}(\.\*)?")


def check_submit(request: orchestrator_service_pb2.SubmitRunRequest) -> None:
    """Raises EmptyGoal, MessageTooLarge, Unimplemented if the strategy is not served, or InvalidArgument with all field
    violations."""
    if request.strategy not in run_pb2.Strategy.values():
        name = str(request.strategy)
        raise Unimplemented(f"strategy {name} is not served by this orchestrator", metadata={"strategy": name})
    check_goal(request)
    violations = list(_violations(request))
    if violations:
        raise InvalidArgument(
            "; ".join(f"{violation.field}: {violation.description}" for violation in violations),
            field_violations=violations,
        )


def check_edit(request: orchestrator_service_pb2.EditPlanRequest) -> None:
    """Raises MessageTooLarge if the plan is too large."""
    size = request.ByteSize()
    if size > MAX_PLAN_BYTES:
        raise MessageTooLarge(
            f"message too large: the plan has {size:,} bytes, at most {MAX_PLAN_BYTES:,} are allowed",
            metadata={"size": str(size), "limit": str(MAX_PLAN_BYTES)},
            field_violations=[FieldViolation("plan_json", "too large")],
        )


def check_goal(request: orchestrator_service_pb2.SubmitRunRequest | orchestrator_service_pb2.ForkRunRequest) -> None:
    """Raises MessageTooLarge if the request is too large, EmptyGoal if its goal has no content."""
    size = request.ByteSize()
    if size > MAX_CHECKED_BYTES:
        raise MessageTooLarge(
            f"message too large: the request has {size:,} bytes, at most {MAX_CHECKED_BYTES:,} are allowed; "
            "pass large content by URL",
            metadata={"size": str(size), "limit": str(MAX_CHECKED_BYTES)},
            field_violations=[FieldViolation("goal", "too large")],
        )
    if not any(map(has_content, request.goal)):
        raise EmptyGoal(
            "the goal is empty",
            field_violations=[FieldViolation("goal", "at least one part must not be empty")],
        )


def has_content(part: common_pb2.Part) -> bool:
    """Whether the part holds more than white space."""
    arm = part.WhichOneof("content")
    return arm is not None and bool(getattr(part, arm).strip())


def _violations(request: orchestrator_service_pb2.SubmitRunRequest) -> Iterator[FieldViolation]:
    for name, text in (("request_id", request.request_id), ("session_id", request.session_id)):
        if len(text) > MAX_ID:
            yield FieldViolation(name, f"longer than {MAX_ID} characters")
    if request.planner and request.strategy != run_pb2.STRATEGY_PLAN:
        yield FieldViolation("planner", "only strategy PLAN has a planner")
    if request.check_alignment and request.strategy != run_pb2.STRATEGY_PLAN:
        yield FieldViolation("check_alignment", "only strategy PLAN has a plan to check")
    if request.plan_json:
        yield from _plan_violations(request)
    if request.roles or request.capabilities or request.versions:
        yield from _role_violations(request)
    if request.HasField("budget"):
        yield from _budget_violations(request.budget)
    if request.HasField("timeout") and not 0 < to_seconds(request.timeout) <= MAX_TIMEOUT:
        yield FieldViolation("timeout", f"must be above 0 and at most {MAX_TIMEOUT:g} s")
    if request.HasField("wait") and not 0 <= to_seconds(request.wait) <= MAX_WAIT:
        yield FieldViolation("wait", f"must be 0 to {MAX_WAIT:g} s")
    if request.metadata and _too_much(request.metadata):
        limits = f"at most {MAX_METADATA} keys, each with its value at most {MAX_METADATA_LENGTH:,} characters"
        yield FieldViolation("metadata", limits)


def _plan_violations(request: orchestrator_service_pb2.SubmitRunRequest) -> Iterator[FieldViolation]:
    if request.strategy != run_pb2.STRATEGY_PLAN:
        yield FieldViolation("plan_json", "only strategy PLAN has a plan")
    if len(request.plan_json.encode()) > MAX_PLAN_BYTES:
        yield FieldViolation("plan_json", f"larger than {MAX_PLAN_BYTES:,} bytes")
    if request.check_alignment and not request.planner:
        yield FieldViolation("check_alignment", "needs a planner")


def _too_much(metadata: Mapping[str, str]) -> bool:
    too_long = any(len(key) + len(value) > MAX_METADATA_LENGTH for key, value in metadata.items())
    return too_long or len(metadata) > MAX_METADATA


def _role_violations(request: orchestrator_service_pb2.SubmitRunRequest) -> Iterator[FieldViolation]:
    if request.roles and request.capabilities:
        yield FieldViolation("capabilities", "give roles or capabilities, not both")
    if request.strategy == run_pb2.STRATEGY_AGENT and len(request.roles) + len(request.capabilities) > 1:
        yield FieldViolation("roles", "strategy AGENT takes one role, which may delegate to others")
    for role, version in request.versions.items():
        if not VERSION.fullmatch(version):
            yield FieldViolation("versions", f"invalid version {version!r} of {role!r}: expected one like 1.2 or 1.*")
    for name in ("roles", "capabilities"):
        values = list(getattr(request, name))
        if len(values) > MAX_ROLES:
            yield FieldViolation(name, f"more than {MAX_ROLES}")
        if len(set(values)) != len(values) or not all(values):
            yield FieldViolation(name, "empty or duplicate name")


def _budget_violations(budget: common_pb2.Budget) -> Iterator[FieldViolation]:
    for name in ("max_tokens", "max_cost_micro_usd", "max_depth", "max_model_calls"):
        if getattr(budget, name) < 0:
            yield FieldViolation(f"budget.{name}", "must not be negative")
    if budget.max_depth > MAX_DEPTH:
        yield FieldViolation("budget.max_depth", f"at most {MAX_DEPTH}")
    if budget.HasField("max_time") and not 0 < to_seconds(budget.max_time) <= MAX_TIMEOUT:
        yield FieldViolation("budget.max_time", f"must be above 0 and at most {MAX_TIMEOUT:g} s")


def strategy_of(request: orchestrator_service_pb2.SubmitRunRequest) -> str:
    """Returns the strategy of a run: without one, `agent` if exactly one role is named, else `pipeline`."""
    if request.strategy == run_pb2.STRATEGY_UNSPECIFIED:
        return "agent" if len(request.roles) + len(request.capabilities) == 1 else "pipeline"
    if request.strategy == run_pb2.STRATEGY_PLAN:
        return PLAN
    return "agent" if request.strategy == run_pb2.STRATEGY_AGENT else "pipeline"


def time_of(request: orchestrator_service_pb2.SubmitRunRequest) -> float:
    """The timeout of the run in seconds, at most the time limit of its budget."""
    timeout = quantize(to_seconds(request.timeout)) if request.HasField("timeout") else DEFAULT_TIMEOUT
    if request.budget.HasField("max_time"):
        return min(timeout, quantize(to_seconds(request.budget.max_time)))
    return timeout


def payload_hash(request: orchestrator_service_pb2.SubmitRunRequest) -> bytes:
    """SHA-256 of the request without its id, its wait time and its trace: equal for retries of the same request."""
    payload = orchestrator_service_pb2.SubmitRunRequest()
    payload.CopyFrom(request)
    for name in ("request_id", "wait", "trace"):
        payload.ClearField(name)
    return hashlib.sha256(payload.SerializeToString(deterministic=True)).digest()
