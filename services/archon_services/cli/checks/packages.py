"""Python and the installed packages, compared with Archon's requirements."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import Final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from archon_services.cli.checks.finding import Finding, ok, problem, warning

DISTRIBUTION: Final = "archon-mesh"
_CRASHING_GRPC: Final = (1, 77)
_SLOW_GRPC: Final = (1, 80)
_REINSTALL_HINT: Final = "Install Archon in its own virtual environment: `pip install .` in its clone."
_AT_LEAST: Final = (">=", ">", "==", "~=")
"""Operators of bounds that a version which is below them violates."""


def check_python(running: tuple[int, ...] = tuple(sys.version_info[:3]), bounds: str | None = None) -> list[Finding]:
    """Checks that Archon supports this version of Python."""
    if bounds is None:
        try:
            bounds = metadata(DISTRIBUTION)["Requires-Python"] or ""
        except PackageNotFoundError:
            bounds = ""
    name = ".".join(map(str, running))
    if name not in SpecifierSet(bounds):
        return [problem("python", f"Python {name} is not supported ({bounds})", "Use Python 3.11 to 3.13.")]
    return [ok("python", f"Python {name}")]


def check_packages(
    requirements: Iterable[str] | None = None, installed: Callable[[str], str] = version
) -> list[Finding]:
    """Checks that every required package is installed in a supported version."""
    if requirements is None:
        try:
            requirements = requires(DISTRIBUTION) or ()
        except PackageNotFoundError:
            return [warning("packages", "Archon is not installed: cannot compare versions", _REINSTALL_HINT)]
    findings: list[Finding] = []
    shown = []
    for required in map(Requirement, requirements):
        if "extra" in str(required.marker or ""):
            continue
        name = required.name
        try:
            installed_version = installed(name)
        except PackageNotFoundError:
            if required.marker is None:  # else it is one of some platforms
                findings.append(problem("packages", f"{name} is not installed", _REINSTALL_HINT))
            continue
        if name in ("grpcio", "protobuf"):
            shown.append(f"{name} {installed_version}")
        findings += _check_package(name, installed_version, required.specifier)
    return findings or [ok("packages", ", ".join([*shown, "all others as required"]))]


def _check_package(name: str, installed_version: str, bounds: SpecifierSet) -> Iterator[Finding]:
    try:
        found = Version(installed_version)
    except InvalidVersion:
        yield warning("packages", f"{name} has no valid version: {installed_version}", _REINSTALL_HINT)
        return
    if name == "grpcio" and found.release >= _CRASHING_GRPC:
        fault = (
            "is 20 to 50 % slower under asyncio than 1.76"
            if found.release >= _SLOW_GRPC
            else "can crash a process that stops just after a new connection"
        )
        yield warning(
            "packages",
            f"grpcio {installed_version} {fault}",
            f"Run `pip install 'grpcio{bounds}'`; see docs/adr/0002-grpcio-pinned.md.",
        )
    elif any(bound.operator in _AT_LEAST and found < Version(bound.version.removesuffix(".*")) for bound in bounds):
        yield problem("packages", f"{name} {installed_version} is too old: requires {bounds}", _REINSTALL_HINT)
    elif not bounds.contains(found, prereleases=True):
        yield warning("packages", f"{name} {installed_version} is untested: requires {bounds}", _REINSTALL_HINT)
