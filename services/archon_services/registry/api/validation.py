"""What the registry takes: every wrong field of a request is named, and what is left out gets its default."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from archon.api.common.v1.common_pb2 import PROPAGATION_POLICY_FINAL_RESPONSE_ONLY, Edge, PropagationPolicy
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.api.registry.v1.registry_pb2 import Registration
from archon.errors import FieldViolation, InvalidArgument
from archon_services.common import paging

ROLE: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
INSTANCE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
VERSION: Final = re.compile(r"([0-9]{1,9}(\.[0-9]{1,9}){0,5})?")
VERSION_FILTER: Final = re.compile(r"([0-9]{1,9}(\.[0-9]{1,9}){0,5}(\.\*)?)?")
ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253}):([0-9]{1,5})")
CAPABILITY: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")

DEFAULT_TTL: Final = 10
"""Seconds."""

MAX_TTL: Final = 3600
MAX_TEXT: Final = 16 * 1024
MAX_BYTES: Final = 256 * 1024
"""Of one registration, well below the 1.5 MiB that etcd takes at once."""

MAX_DEPENDS_ON: Final = 50
MAX_PINS: Final = 100
MAX_LEASES: Final = 1_000


class _Check:
    """Collects what is wrong."""

    def __init__(self) -> None:
        self.violations: list[FieldViolation] = []

    def __call__(self, fine: bool, field: str, description: str) -> bool:
        if not fine:
            self.violations.append(FieldViolation(field, description))
        return fine

    def role(self, name: str, field: str) -> None:
        self(bool(ROLE.fullmatch(name)), field, f"a role is {ROLE.pattern}, not {name[:80]!r}")

    def done(self) -> None:
        if self.violations:
            first = self.violations[0]
            raise InvalidArgument(f"{first.field}: {first.description}", field_violations=self.violations)


def registration(given: Registration, *, tenant: str, identity: str) -> Registration:
    """The registration as it is kept: defaults filled in, output only fields from credentials. Raises
    InvalidArgument."""
    check = _Check()
    check.role(given.role, "registration.role")
    instance_id(given.instance_id, check, "registration.instance_id")
    check(bool(VERSION.fullmatch(given.version)), "registration.version", "dotted numbers, such as 1.2.0")
    address = ADDRESS.fullmatch(given.address)
    check(address is not None and 0 < int(address[2]) < 65536, "registration.address", "host:port, as others dial it")
    check(given.max_tasks >= 0, "registration.max_tasks", "at least 1; 0 reads as 1")
    seconds = given.ttl.seconds + (1 if given.ttl.nanos > 0 else 0) if given.HasField("ttl") else DEFAULT_TTL
    check(1 <= seconds <= MAX_TTL and given.ttl.nanos >= 0, "registration.ttl", "1 s to 1 h; 10 s where absent")
    check(len(given.description) <= MAX_TEXT, "registration.description", f"at most {MAX_TEXT} characters")
    for key, value in given.tags.items():
        check(0 < len(key) <= 128 and len(value) <= 256, "registration.tags", "keys of 1 to 128, values of at most 256")
    _offers(given, check)
    _dependencies(given, check)
    check(given.ByteSize() <= MAX_BYTES, "registration", f"at most {MAX_BYTES} bytes")
    check.done()
    kept = Registration()
    kept.CopyFrom(given)
    kept.ttl.FromSeconds(seconds)
    kept.max_tasks = max(1, given.max_tasks)
    for depends in kept.depends_on:
        depends.policy = _policy(depends.policy)
    kept.tenant, kept.identity = tenant, identity
    kept.revision, kept.via_orchestrator = 0, ""
    return kept


def _offers(given: Registration, check: _Check) -> None:
    check(len(given.tags) <= 64, "registration.tags", "at most 64")
    check(len(given.capabilities) <= 256, "registration.capabilities", "at most 256")
    for at, capability in enumerate(given.capabilities[:256]):
        field = f"registration.capabilities[{at}].id"
        check(bool(CAPABILITY.fullmatch(capability.id)), field, "lower case letters, digits, dots and dashes")
    check(len(given.tools) <= 256, "registration.tools", "at most 256")
    names = [tool.name for tool in given.tools]
    for at, tool in enumerate(given.tools[:256]):
        field = f"registration.tools[{at}]"
        check(
            0 < len(tool.name) <= 128 and names.index(tool.name) == at, f"{field}.name", "1 to 128 characters, unique"
        )
        check(_is_schema(tool.input_schema_json), f"{field}.input_schema_json", "a JSON object, or empty")
        check(_is_schema(tool.output_schema_json), f"{field}.output_schema_json", "a JSON object, or empty")


def _is_schema(text: str) -> bool:
    try:
        return not text or isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _dependencies(given: Registration, check: _Check) -> None:
    check(len(given.depends_on) <= MAX_DEPENDS_ON, "registration.depends_on", f"at most {MAX_DEPENDS_ON}")
    seen: set[str] = set()
    for at, depends in enumerate(given.depends_on[:MAX_DEPENDS_ON]):
        check.role(depends.role, f"registration.depends_on[{at}].role")
        check(depends.role not in seen, f"registration.depends_on[{at}].role", f"{depends.role[:80]} is named twice")
        seen.add(depends.role)


def _policy(number: PropagationPolicy.ValueType) -> PropagationPolicy.ValueType:
    """What isn't said, or isn't known here, reads as the narrowest."""
    known = number in PropagationPolicy.values() and number
    return number if known else PROPAGATION_POLICY_FINAL_RESPONSE_ONLY


def instance_id(given: str, check: _Check | None = None, field: str = "instance_id") -> str:
    """An instance's id. Raises InvalidArgument, unless a check collects what is wrong."""
    collect = check or _Check()
    collect(bool(INSTANCE_ID.fullmatch(given)), field, "1 to 128 letters, digits, dots, dashes and underscores")
    if check is None:
        collect.done()
    return given


def instance_ids(given: Sequence[str]) -> Sequence[str]:
    """The ids of one message of KeepAlive. Raises InvalidArgument."""
    check = _Check()
    check(len(given) <= MAX_LEASES, "instance_ids", f"at most {MAX_LEASES} in a message")
    for at, one in enumerate(given[:MAX_LEASES]):
        instance_id(one, check, f"instance_ids[{at}]")
    check.done()
    return given


def edges(given: Iterable[Edge]) -> list[Edge]:
    """Edges to pin or unpin. Raises InvalidArgument."""
    check = _Check()
    found = list(given)
    check(0 < len(found) <= MAX_PINS, "edges", f"1 to {MAX_PINS}")
    for at, edge in enumerate(found[:MAX_PINS]):
        check.role(edge.upstream, f"edges[{at}].upstream")
        check.role(edge.downstream, f"edges[{at}].downstream")
    check.done()
    return [Edge(upstream=e.upstream, downstream=e.downstream, policy=_policy(e.policy)) for e in found]


def resolve(given: pb.ResolveInstancesRequest) -> pb.ResolveInstancesRequest:
    """A question for instances. Raises InvalidArgument."""
    check = _Check()
    if given.WhichOneof("target") == "role":
        check.role(given.role, "role")
    else:
        check(bool(CAPABILITY.fullmatch(given.capability)), "capability", "name a role, or a capability's id")
    check(bool(VERSION_FILTER.fullmatch(given.version)), "version", "dotted numbers, which may end in .*")
    check.done()
    return given


def page_size(given: pb.ListInstancesRequest) -> int:
    """How many instances a page holds. Raises InvalidArgument."""
    check = _Check()
    if given.role:
        check.role(given.role, "role")
    check.done()
    return paging.page_size(given.page_size)
