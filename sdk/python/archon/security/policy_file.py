"""The policy of a server: the built-in one, or with the rows of a YAML file in place of some of them.

    orchestrator.v1.OrchestratorService:
      SubmitRun: [operator, admin, service]

A row names all kinds that may call its RPC. The services of the mesh call each other by these rows, too: a row that
took `service` away from one that the built-in policy gives it would stop the mesh, and is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from archon.errors import FailedPrecondition, InvalidArgument
from archon.principal import Kind
from archon.security.policy import POLICY, Policy

VARIABLE: Final = "ARCHON_POLICY"
"""The variable with the file."""

PACKAGE: Final = "/archon.api."


def own_policy() -> Policy:
    """Returns the policy of this process, by the environment. Raises FailedPrecondition if the file in ARCHON_POLICY
    cannot be used."""
    if not (path := os.environ.get(VARIABLE, "")):
        return POLICY
    try:
        return read_policy(Path(path).read_text())
    except (OSError, UnicodeDecodeError, InvalidArgument) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FailedPrecondition(f"the policy in {path} ({VARIABLE}) cannot be used: {reason}") from None


def read_policy(text: str) -> Policy:
    """Returns the built-in policy with the rows of a YAML text in place of its own. Raises InvalidArgument if the text
    has something else, or takes an RPC away from the services of the mesh."""
    import yaml  # 10 ms, of the processes with a policy of their own

    try:
        services = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidArgument(f"it is no YAML: {error}") from None
    if not isinstance(services, dict):
        raise InvalidArgument("it is not a mapping of services to their RPCs")
    changed: dict[str, frozenset[Kind]] = {}
    for service, methods in services.items():
        if not isinstance(methods, dict):
            raise InvalidArgument(f"{service}: it is not a mapping of RPCs to kinds of callers")
        for method, kinds in methods.items():
            name = f"{PACKAGE}{service}/{method}"
            changed[name] = _kinds(f"{service}/{method}", name, kinds)
    return {**POLICY, **changed}


def policy_text(policy: Policy = POLICY) -> str:
    """Returns a policy as the YAML text of such a file."""
    lines: list[str] = []
    last = ""
    for name, kinds in policy.items():
        service, _, method = name.removeprefix(PACKAGE).partition("/")
        if service != last:
            lines.append(f"{service}:")
            last = service
        lines.append(f"  {method}: [{', '.join(sorted(kinds))}]")
    return "\n".join(lines) + "\n"


def _kinds(row: str, name: str, given: Any) -> frozenset[Kind]:
    known: Mapping[str, Kind] = {kind.value: kind for kind in Kind}
    if name not in POLICY:
        raise InvalidArgument(
            f"{row}: there is no such RPC{_hint(row, [each.removeprefix(PACKAGE) for each in POLICY])}"
        )
    if not isinstance(given, list) or not all(isinstance(kind, str) for kind in given):
        raise InvalidArgument(f"{row}: expected a list of kinds, such as [operator, admin, service]")
    for kind in given:
        if kind not in known:
            raise InvalidArgument(f"{row}: {kind!r} is no kind of caller{_hint(kind, list(known))}")
    kinds = frozenset(known[kind] for kind in given)
    if Kind.SERVICE in POLICY[name] and Kind.SERVICE not in kinds:
        raise InvalidArgument(f"{row}: services of the mesh need it: add `service`")
    return kinds


def _hint(given: str, known: list[str]) -> str:
    close = get_close_matches(given, known, 1)
    return f"; did you mean {close[0]}?" if close else ""
