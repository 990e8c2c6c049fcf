"""The names by which members of a mesh know each other: roles, capabilities and versions. One rule for each, wherever a
name is first seen: commands, files of agents, servers of agents, and the registry."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from archon.errors import InvalidArgument

ROLE: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
CAPABILITY: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
VERSION: Final = re.compile(r"([0-9]{1,9}(\.[0-9]{1,9}){0,5})?")

_MAX_SHOWN: Final = 80


def role_fault(name: str) -> str:
    """Returns the fault of a role's name; empty if it is valid."""
    if ROLE.fullmatch(name):
        return ""
    similar = suggested_role(name)
    such = f", such as {similar}" if similar else ""
    return (
        f"invalid role name {name[:_MAX_SHOWN]!r}: use 1 to 63 lower case letters a to z, digits and dashes, beginning "
        f"with a letter{such}"
    )


def capability_fault(name: str) -> str:
    """Returns the fault of a capability's id; empty if it is valid."""
    if CAPABILITY.fullmatch(name):
        return ""
    return (
        f"invalid capability {name[:_MAX_SHOWN]!r}: use 1 to 128 lower case letters a to z, digits, dots, dashes and "
        "underscores, beginning with a letter or a digit"
    )


def version_fault(version: str) -> str:
    """Returns the fault of a role's version; empty if it is valid."""
    if VERSION.fullmatch(version):
        return ""
    return f"invalid version {version[:_MAX_SHOWN]!r}: use dotted numbers, such as 1.2.0"


def check_role(name: str) -> str:
    """Returns the name of a role. Raises InvalidArgument if it is invalid."""
    if fault := role_fault(name):
        raise InvalidArgument(fault)
    return name


def suggested_role(name: str) -> str:
    """Returns the valid name that is most like `name`; empty if there is none."""
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return re.sub(r"^[0-9-]+", "", words)[:63].rstrip("-")
