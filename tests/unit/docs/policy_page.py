"""Writes docs/reference/policy.md from the code: `python -m tests.unit.docs.policy_page`."""

from __future__ import annotations

from typing import Final

from archon.principal import Kind
from archon.security.policy import POLICY
from archon.security.policy_file import PACKAGE
from tests.unit.docs.tables import REFERENCE, table

PAGE: Final = REFERENCE / "policy.md"

HEAD: Final = """# The policy

The kinds of callers that may call each RPC ([tokens](../security.md#tokens) say of which kind a caller is). An RPC without a row is
refused. A file in `ARCHON_POLICY` replaces rows; `archon policy test KIND RPC` asks for one. Beside a row count the
resources: a caller reaches things of its own [tenant](../security.md#tenants), an agent registers the roles of its credentials, and an
approver answers the questions that name it.

This page is written by `python -m tests.unit.docs.policy_page` from the code; a test compares them.
"""


def page() -> str:
    """Returns the page."""
    services: dict[str, list[tuple[str, ...]]] = {}
    for name, kinds in POLICY.items():
        service, _, method = name.removeprefix(PACKAGE).partition("/")
        services.setdefault(service, []).append((f"`{method}`", *("yes" if kind in kinds else "" for kind in Kind)))
    parts = [f"## {service}\n\n{table(('RPC', *Kind), rows)}" for service, rows in services.items()]
    return "\n".join((HEAD, *parts))


if __name__ == "__main__":
    PAGE.write_text(page())
