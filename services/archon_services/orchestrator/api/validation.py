"""What a submit must hold, before anything is decided about it."""

from __future__ import annotations

import hashlib
import re

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2, run_pb2
from archon.errors import EmptyGoal, FieldViolation, InvalidArgument, MessageTooLarge, Unimplemented
from archon.wire import MAX_CHECKED_BYTES
from archon_mesh.core.run.types import quantize
from archon_services.orchestrator.convert.read import seconds_of

DEFAULT_TIMEOUT = 3600.0
MAX_TIMEOUT = 24 * 3600.0
MAX_WAIT = 600.0
MAX_ID = 256
MAX_ROLES = 200
MAX_METADATA = 64
MAX_DEPTH = 32
VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,7}(\.\*)?")


def check_submit(request: orchestrator_service_pb2.SubmitRunRequest) -> None:
    """Raises EmptyGoal, MessageTooLarge, Unimplemented (a strategy that isn't served) or InvalidArgument with all
    violations."""
    if request.strategy not in (run_pb2.STRATEGY_UNSPECIFIED, run_pb2.STRATEGY_PIPELINE, run_pb2.STRATEGY_AGENT):
        known = request.strategy in run_pb2.Strategy.values()
        name = run_pb2.Strategy.Name(request.strategy) if known else str(request.strategy)
        raise Unimplemented(f"strategy {name} is not served by this orchestrator", metadata={"strategy": name})
    size = request.ByteSize()
    if size > MAX_CHECKED_BYTES:
        raise MessageTooLarge(
            f"the goal makes a message of {size:,} bytes, at most {MAX_CHECKED_BYTES:,} are taken; "
            "pass large content by URL",
            metadata={"size": str(size), "limit": str(MAX_CHECKED_BYTES)},
            field_violations=[FieldViolation("goal", "too large")],
        )
    if not any(says_something(part) for part in request.goal):
        raise EmptyGoal(
            "the goal is empty: say what is to be done",
            field_violations=[FieldViolation("goal", "at least one part must not be empty")],
        )
    violations = list(_violations(request))
    if violations:
        raise InvalidArgument(
            "; ".join(f"{violation.field}: {violation.description}" for violation in violations),
            field_violations=violations,
        )


def says_something(part: common_pb2.Part) -> bool:
    """Whether there is more in it than white space."""
    arm = part.WhichOneof("content")
    return arm is not None and bool(getattr(part, arm).strip())


def _violations(request: orchestrator_service_pb2.SubmitRunRequest) -> list[FieldViolation]:
    found = []
    for name in ("request_id", "session_id"):
        if len(getattr(request, name)) > MAX_ID:
            found.append(FieldViolation(name, f"longer than {MAX_ID} characters"))
    if request.roles and request.capabilities:
        found.append(FieldViolation("capabilities", "give roles or capabilities, not both"))
    if request.strategy == run_pb2.STRATEGY_AGENT and len(request.roles) + len(request.capabilities) > 1:
        found.append(FieldViolation("roles", "strategy AGENT takes one role, which may delegate to others"))
    budget = request.budget
    for name in ("max_tokens", "max_cost_micro_usd", "max_depth"):
        if getattr(budget, name) < 0:
            found.append(FieldViolation(f"budget.{name}", "must not be negative"))
    if budget.max_depth > MAX_DEPTH:
        found.append(FieldViolation("budget.max_depth", f"at most {MAX_DEPTH}"))
    if budget.HasField("max_time") and not 0 < seconds_of(budget.max_time) <= MAX_TIMEOUT:
        found.append(FieldViolation("budget.max_time", f"must be above 0 and at most {MAX_TIMEOUT:g} s"))
    for role, version in request.versions.items():
        if not VERSION.fullmatch(version):
            found.append(FieldViolation("versions", f"{version!r} of {role!r} is no version such as 1.2 or 1.*"))
    for name in ("roles", "capabilities"):
        values = list(getattr(request, name))
        if len(values) > MAX_ROLES:
            found.append(FieldViolation(name, f"more than {MAX_ROLES}"))
        if len(set(values)) != len(values) or not all(values):
            found.append(FieldViolation(name, "empty or named twice"))
    if request.HasField("timeout") and not 0 < seconds_of(request.timeout) <= MAX_TIMEOUT:
        found.append(FieldViolation("timeout", f"must be above 0 and at most {MAX_TIMEOUT:g} s"))
    if request.HasField("wait") and not 0 <= seconds_of(request.wait) <= MAX_WAIT:
        found.append(FieldViolation("wait", f"must be 0 to {MAX_WAIT:g} s"))
    if len(request.metadata) > MAX_METADATA or any(len(k) + len(v) > 4096 for k, v in request.metadata.items()):
        found.append(FieldViolation("metadata", f"more than {MAX_METADATA} keys, or one above 4,096 characters"))
    return found


def wants_agent(request: orchestrator_service_pb2.SubmitRunRequest) -> bool:
    """Whether the goal goes to one role: asked for, or where one is named and nothing else is said."""
    if request.strategy == run_pb2.STRATEGY_UNSPECIFIED:
        return len(request.roles) + len(request.capabilities) == 1
    return request.strategy == run_pb2.STRATEGY_AGENT


def time_of(request: orchestrator_service_pb2.SubmitRunRequest) -> float:
    """The run's time in seconds: its timeout, or what its budget has of it where that is less."""
    timeout = quantize(seconds_of(request.timeout)) if request.HasField("timeout") else DEFAULT_TIMEOUT
    if request.budget.HasField("max_time"):
        return min(timeout, quantize(seconds_of(request.budget.max_time)))
    return timeout


def payload_hash(request: orchestrator_service_pb2.SubmitRunRequest) -> bytes:
    """SHA-256 of what is asked for: neither of the id, nor of how long the caller waits, nor of its trace."""
    same = orchestrator_service_pb2.SubmitRunRequest()
    same.CopyFrom(request)
    for name in ("request_id", "wait", "trace"):
        same.ClearField(name)
    return hashlib.sha256(same.SerializeToString(deterministic=True)).digest()
