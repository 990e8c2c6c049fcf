"""Python and the installed packages, compared with Archon's requirements."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import Final

from archon_services.cli.checks.finding import Finding, ok, problem, warning

DISTRIBUTION: Final = "archon-mesh"
_CRASHING_GRPC: Final = (1, 77)
_SLOW_GRPC: Final = (1, 80)
_REINSTALL_HINT: Final = "Install Archon in its own virtual environment: `pip install .` in its clone."
_REQUIREMENT: Final = re.compile(r"^\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?$")
_BOUND: Final = re.compile(r"^\s*(>=|<=|==|!=|~=|>|<)\s*([0-9.]+)")

Version = tuple[int, ...]


def check_python(running: Version = tuple(sys.version_info[:3]), bounds: str | None = None) -> list[Finding]:
    """Checks that Archon supports this version of Python."""
    if bounds is None:
        try:
            bounds = metadata(DISTRIBUTION)["Requires-Python"] or ""
        except PackageNotFoundError:
            bounds = ""
    name = ".".join(map(str, running))
    if any(violation(running, bound) for bound in bounds.split(",")):
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
    for name, bounds, optional in _parsed(requirements):
        try:
            installed_version = installed(name)
        except PackageNotFoundError:
            if not optional:
                findings.append(problem("packages", f"{name} is not installed", _REINSTALL_HINT))
            continue
        if name in ("grpcio", "protobuf"):
            shown.append(f"{name} {installed_version}")
        findings += _check_package(name, installed_version, bounds)
    return findings or [ok("packages", ", ".join([*shown, "all others as required"]))]


def _check_package(name: str, installed_version: str, bounds: str) -> Iterator[Finding]:
    numbers = parse_version(installed_version)
    if name == "grpcio" and numbers >= _CRASHING_GRPC:
        fault = (
            "is 20 to 50 % slower under asyncio than 1.76"
            if numbers >= _SLOW_GRPC
            else "can crash a process that stops just after a new connection"
        )
        yield warning(
            "packages",
            f"grpcio {installed_version} {fault}",
            f"Run `pip install 'grpcio{bounds}'`; see docs/adr/0002-grpcio-pinned.md.",
        )
        return
    broken = [kind for bound in bounds.split(",") if (kind := violation(numbers, bound))]
    if "too old" in broken:
        yield problem("packages", f"{name} {installed_version} is too old: requires {bounds}", _REINSTALL_HINT)
    elif broken:
        yield warning("packages", f"{name} {installed_version} is untested: requires {bounds}", _REINSTALL_HINT)


def parse_version(text: str) -> Version:
    """Returns the leading numbers of a version: 1.78.2rc1 is 1, 78, 2."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def violation(numbers: Version, bound: str) -> str:
    """Returns how a version violates a bound such as `>=1.78`: "too old", "another", or empty if it does not."""
    parsed = _BOUND.match(bound)
    if parsed is None:
        return ""
    operator, required = parsed[1], parse_version(parsed[2])
    width = max(len(numbers), len(required))
    left, right = ((*version, *[0] * (width - len(version))) for version in (numbers, required))
    if left < right and operator in (">=", ">", "==", "~="):
        return "too old"
    fits = {
        ">=": left >= right,
        ">": left > right,
        "<=": left <= right,
        "<": left < right,
        "==": left == right,
        "!=": left != right,
        "~=": left >= right and left[: len(required) - 1] == right[: len(required) - 1],
    }
    return "" if fits[operator] else "another"


def _parsed(requirements: Iterable[str]) -> Iterator[tuple[str, str, bool]]:
    """Yields name, bounds, and whether a platform marker makes it optional; without those of extras."""
    for requirement in requirements:
        parsed = _REQUIREMENT.match(requirement)
        if parsed is None or "extra" in (parsed[3] or ""):
            continue
        yield parsed[1], parsed[2].strip(), bool(parsed[3])
