"""Validation of registry requests: names every invalid field and fills in defaults."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from archon.api.common.v1.capability_pb2 import Profile
from archon.api.common.v1.common_pb2 import PROPAGATION_POLICY_FINAL_RESPONSE_ONLY, Edge, PropagationPolicy
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.api.registry.v1.registry_pb2 import Registration
from archon.identifiers import CAPABILITY, capability_fault, version_fault
from archon_services.common import paging
from archon_services.common.validation import Violations

INSTANCE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
VERSION_FILTER: Final = re.compile(r"([0-9]{1,9}(\.[0-9]{1,9}){0,5}(\.\*)?)?")
ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253}):([0-9]{1,5})")

DEFAULT_TTL: Final = 10
"""Seconds."""

MAX_TTL: Final = 3600
MAX_TEXT: Final = 16 * 1024
MAX_BYTES: Final = 256 * 1024
"""Size of one registration, well below etcd's limit of 1.5 MiB per request."""

MAX_OUTPUT_SCHEMA: Final = 32 * 1024
"""Characters of the JSON Schema of a role's answers."""

MAX_EXPECTED: Final = 10**12
"""Milliseconds, or millionths of a US dollar."""

MAX_DEPENDS_ON: Final = 50
MAX_PINS: Final = 100
_LOOPBACK: Final = "must not be a loopback address, since this registry serves other machines too: set ARCHON_ADVERTISE"
MAX_LEASES: Final = 1_000
MIN_TOKEN: Final = 16
MAX_TOKEN: Final = 128


def registration(
    request: Registration, *, tenant: str, identity: str, loopback: bool = True, attached: bool = False
) -> Registration:
    """Returns the registration to store: with defaults, and output-only fields set from the caller's credentials.
    `loopback`: whether addresses of this machine alone are accepted, `attached`: whether the caller may register an
    instance by the orchestrator through which it is reached. Raises InvalidArgument."""
    violations = Violations()
    violations.check_role(request.role, "registration.role")
    instance_id(request.instance_id, violations, "registration.instance_id")
    fault = version_fault(request.version)
    violations.check(not fault, "registration.version", fault)
    via = request.via_orchestrator if attached and not request.address else ""
    field = "registration.via_orchestrator" if via else "registration.address"
    address = ADDRESS.fullmatch(via or request.address)
    violations.check(
        address is not None and 0 < int(address[2]) < 65536, field, "must be host:port that other services can dial"
    )
    if address is not None and (reason := _undialable(address[1], loopback=loopback)):
        violations.check(False, field, reason)
    violations.check(request.max_tasks >= 0, "registration.max_tasks", "must be at least 1; 0 means 1")
    ttl = request.ttl.seconds + (1 if request.ttl.nanos > 0 else 0) if request.HasField("ttl") else DEFAULT_TTL
    violations.check(
        1 <= ttl <= MAX_TTL and request.ttl.nanos >= 0, "registration.ttl", "must be 1 s to 1 h; 10 s if absent"
    )
    violations.check(
        len(request.description) <= MAX_TEXT, "registration.description", f"must be at most {MAX_TEXT} characters"
    )
    for key, value in request.tags.items():
        violations.check(
            0 < len(key) <= 128 and len(value) <= 256,
            "registration.tags",
            "keys must be 1 to 128 characters, values at most 256",
        )
    _offers(request, violations)
    violations.check(
        _is_schema(request.output_schema_json) and len(request.output_schema_json) <= MAX_OUTPUT_SCHEMA,
        "registration.output_schema_json",
        f"must be a JSON object of at most {MAX_OUTPUT_SCHEMA:,} characters, or empty",
    )
    if request.HasField("profile"):
        _profile(request.profile, violations)
    _dependencies(request, violations)
    violations.check(request.ByteSize() <= MAX_BYTES, "registration", f"must be at most {MAX_BYTES} bytes")
    violations.raise_if_any()
    result = Registration()
    result.CopyFrom(request)
    result.ttl.FromSeconds(ttl)
    result.max_tasks = max(1, request.max_tasks)
    for dependency in result.depends_on:
        dependency.policy = _policy(dependency.policy)
    result.tenant, result.identity = tenant, identity
    result.revision, result.via_orchestrator, result.owner = 0, via, ""
    return result


def is_loopback(host: str) -> bool:
    """Whether a host, as a service listens on it, is reached from this machine alone."""
    return bool(_undialable(host, loopback=False)) and not _undialable(host, loopback=True)


def _undialable(host: str, *, loopback: bool) -> str:
    """Says why other machines cannot dial a host; empty if they may. Names are not resolved."""
    if host.rstrip(".").lower() == "localhost" or host.lower().endswith(".localhost"):
        return "" if loopback else _LOOPBACK
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return ""
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return "" if loopback else _LOOPBACK
    if address.is_unspecified:
        return "must not be the unspecified address, which names no machine: set ARCHON_ADVERTISE"
    if address.is_link_local:
        return "must not be a link-local address"
    return "must not be a multicast address" if address.is_multicast else ""


def _offers(request: Registration, violations: Violations) -> None:
    violations.check(len(request.tags) <= 64, "registration.tags", "must be at most 64")
    violations.check(len(request.capabilities) <= 256, "registration.capabilities", "must be at most 256")
    for index, capability in enumerate(request.capabilities[:256]):
        fault = capability_fault(capability.id)
        violations.check(not fault, f"registration.capabilities[{index}].id", fault)
    violations.check(len(request.tools) <= 256, "registration.tools", "must be at most 256")
    names = [tool.name for tool in request.tools]
    for index, tool in enumerate(request.tools[:256]):
        field = f"registration.tools[{index}]"
        violations.check(
            0 < len(tool.name) <= 128 and names.index(tool.name) == index,
            f"{field}.name",
            "must be 1 to 128 characters and unique",
        )
        violations.check(
            _is_schema(tool.input_schema_json), f"{field}.input_schema_json", "must be a JSON object or empty"
        )
        violations.check(
            _is_schema(tool.output_schema_json), f"{field}.output_schema_json", "must be a JSON object or empty"
        )
        share = tool.share
        violations.check(
            share.max_calls_per_minute >= 0 and share.calls >= 0 and 0 <= share.success_rate <= 1,  # false for NaN
            f"{field}.share",
            "max_calls_per_minute and calls must be at least 0, success_rate 0 to 1",
        )
        violations.check(
            share.mean_latency.seconds >= 0 and share.mean_latency.nanos >= 0,
            f"{field}.share.mean_latency",
            "must be at least 0 s",
        )


def _profile(profile: Profile, violations: Violations) -> None:
    for name in ("instructions", "prompt_template"):
        violations.check(
            len(getattr(profile, name)) <= MAX_TEXT,
            f"registration.profile.{name}",
            f"must be at most {MAX_TEXT} characters",
        )
    for name in ("expected_latency_ms", "expected_cost_micro_usd"):
        violations.check(
            0 <= getattr(profile, name) <= MAX_EXPECTED, f"registration.profile.{name}", f"must be 0 to {MAX_EXPECTED}"
        )
    # False for NaN as well.
    violations.check(
        0 <= profile.expected_quality <= 1, "registration.profile.expected_quality", "must be 0 to 1; 0 if unknown"
    )
    types = profile.message_types
    violations.check(
        len(types) <= 64 and all(0 < len(name) <= 128 and len(roles) <= MAX_TEXT for name, roles in types.items()),
        "registration.profile.message_types",
        f"must be at most 64, with names of 1 to 128 characters, and at most {MAX_TEXT} characters of roles",
    )


def _is_schema(text: str) -> bool:
    try:
        return not text or isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _dependencies(request: Registration, violations: Violations) -> None:
    violations.check(
        len(request.depends_on) <= MAX_DEPENDS_ON, "registration.depends_on", f"must be at most {MAX_DEPENDS_ON}"
    )
    seen: set[str] = set()
    for index, dependency in enumerate(request.depends_on[:MAX_DEPENDS_ON]):
        violations.check_role(dependency.role, f"registration.depends_on[{index}].role")
        violations.check(
            dependency.role not in seen,
            f"registration.depends_on[{index}].role",
            f"duplicate role {dependency.role[:80]}",
        )
        seen.add(dependency.role)


def _policy(number: PropagationPolicy.ValueType) -> PropagationPolicy.ValueType:
    """Returns the policy, or the narrowest if it is unset or unknown."""
    is_known = number in PropagationPolicy.values() and number
    return number if is_known else PROPAGATION_POLICY_FINAL_RESPONSE_ONLY


def instance_id(value: str, violations: Violations | None = None, field: str = "instance_id") -> str:
    """Checks an instance_id. Raises InvalidArgument, unless `violations` collects the violation."""
    collector = violations or Violations()
    valid = bool(INSTANCE_ID.fullmatch(value))
    collector.check(valid, field, "must be 1 to 128 letters, digits, dots, dashes and underscores")
    if violations is None:
        collector.raise_if_any()
    return value


def token(value: str) -> str:
    """Checks a registration token. Raises InvalidArgument, without the token in its message."""
    violations = Violations()
    violations.check(MIN_TOKEN <= len(value) <= MAX_TOKEN, "token", f"must be {MIN_TOKEN} to {MAX_TOKEN} characters")
    violations.raise_if_any()
    return value


def instance_ids(values: Sequence[str]) -> Sequence[str]:
    """Checks the ids of one KeepAlive message. Raises InvalidArgument."""
    violations = Violations()
    violations.check(len(values) <= MAX_LEASES, "instance_ids", f"must be at most {MAX_LEASES} in a message")
    for index, value in enumerate(values[:MAX_LEASES]):
        instance_id(value, violations, f"instance_ids[{index}]")
    violations.raise_if_any()
    return values


def tokens(values: Sequence[str], instances: Sequence[str]) -> None:
    """Checks the tokens of one KeepAlive message. Raises InvalidArgument."""
    violations = Violations()
    violations.check(len(values) in (0, len(instances)), "tokens", "must be one for each instance, or none")
    violations.raise_if_any()


def edges(values: Iterable[Edge]) -> list[Edge]:
    """Returns the edges to pin or unpin, with default policies. Raises InvalidArgument."""
    violations = Violations()
    requested = list(values)
    violations.check(0 < len(requested) <= MAX_PINS, "edges", f"must be 1 to {MAX_PINS}")
    for index, edge in enumerate(requested[:MAX_PINS]):
        violations.check_role(edge.upstream, f"edges[{index}].upstream")
        violations.check_role(edge.downstream, f"edges[{index}].downstream")
    violations.raise_if_any()
    return [Edge(upstream=edge.upstream, downstream=edge.downstream, policy=_policy(edge.policy)) for edge in requested]


def resolve(request: pb.ResolveInstancesRequest) -> None:
    """Checks a ResolveInstancesRequest. Raises InvalidArgument."""
    violations = Violations()
    if request.WhichOneof("target") == "role":
        violations.check_role(request.role, "role")
    else:
        valid = bool(CAPABILITY.fullmatch(request.capability))
        violations.check(valid, "capability", "must name a role or a capability id")
    valid = bool(VERSION_FILTER.fullmatch(request.version))
    violations.check(valid, "version", "must be dotted numbers, which may end in .*")
    violations.raise_if_any()


def page_size(request: pb.ListInstancesRequest) -> int:
    """Returns the number of instances per page. Raises InvalidArgument."""
    violations = Violations()
    if request.role:
        violations.check_role(request.role, "role")
    violations.raise_if_any()
    return paging.page_size(request.page_size)
