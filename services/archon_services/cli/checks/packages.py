"""Python and the packages that Archon runs on, against what it says it needs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import Final

from archon_services.cli.checks.finding import Finding, ok, problem, warning

DISTRIBUTION: Final = "archon-mesh"
_SLOW_GRPC: Final = (1, 80)
_REINSTALL: Final = "Install Archon into an environment of its own, with `pip install archon-mesh`."
_REQUIREMENT: Final = re.compile(r"^\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?$")
_BOUND: Final = re.compile(r"^\s*(>=|<=|==|!=|~=|>|<)\s*([0-9.]+)")

Numbers = tuple[int, ...]


def check_python(running: Numbers = tuple(sys.version_info[:3]), wanted: str | None = None) -> list[Finding]:
    """Whether this Python is one that Archon is made for."""
    if wanted is None:
        try:
            wanted = metadata(DISTRIBUTION)["Requires-Python"] or ""
        except PackageNotFoundError:
            wanted = ""
    name = ".".join(map(str, running))
    if any(violation(running, bound) for bound in wanted.split(",")):
        return [problem("python", f"Python {name} is none that Archon is made for ({wanted})", "Use 3.11 to 3.13.")]
    return [ok("python", f"Python {name}")]


def check_packages(
    requirements: Iterable[str] | None = None, installed: Callable[[str], str] = version
) -> list[Finding]:
    """Every package that is missing or has another version than Archon needs; one line where all are well."""
    if requirements is None:
        try:
            requirements = requires(DISTRIBUTION) or ()
        except PackageNotFoundError:
            return [warning("packages", "Archon isn't installed, so that its versions can't be compared", _REINSTALL)]
    found: list[Finding] = []
    seen = []
    for name, bounds, optional in _parsed(requirements):
        try:
            is_there = installed(name)
        except PackageNotFoundError:
            if not optional:
                found.append(problem("packages", f"{name} isn't installed", _REINSTALL))
            continue
        if name in ("grpcio", "protobuf"):
            seen.append(f"{name} {is_there}")
        found += _against(name, is_there, bounds)
    return found or [ok("packages", ", ".join([*seen, "all others as they are needed"]))]


def _against(name: str, is_there: str, bounds: str) -> Iterator[Finding]:
    numbers = numbers_of(is_there)
    if name == "grpcio" and numbers >= _SLOW_GRPC:
        yield warning(
            "packages",
            f"grpcio {is_there} is 20 to 50 % slower under asyncio than 1.78",
            f"`pip install 'grpcio{bounds}'`; docs/adr/0002-grpcio-pinned.md says why.",
        )
        return
    broken = [kind for bound in bounds.split(",") if (kind := violation(numbers, bound))]
    if "too old" in broken:
        yield problem("packages", f"{name} {is_there} is too old: {bounds} is needed", _REINSTALL)
    elif broken:
        yield warning("packages", f"{name} {is_there} was never tried: {bounds} is asked for", _REINSTALL)


def numbers_of(text: str) -> Numbers:
    """1.78.2rc1 is 1, 78, 2."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def violation(numbers: Numbers, bound: str) -> str:
    """How a version breaks one bound such as `>=1.78`: `too old`, `another`, or not at all."""
    parsed = _BOUND.match(bound)
    if parsed is None:
        return ""
    kind, wanted = parsed[1], numbers_of(parsed[2])
    width = max(len(numbers), len(wanted))
    here, there = ((*one, *[0] * (width - len(one))) for one in (numbers, wanted))
    if here < there and kind in (">=", ">", "==", "~="):
        return "too old"
    fits = {
        ">=": here >= there,
        ">": here > there,
        "<=": here <= there,
        "<": here < there,
        "==": here == there,
        "!=": here != there,
        "~=": here >= there and here[: len(wanted) - 1] == there[: len(wanted) - 1],
    }
    return "" if fits[kind] else "another"


def _parsed(requirements: Iterable[str]) -> Iterator[tuple[str, str, bool]]:
    """Name, bounds, and whether it may be missing here; without what only development needs."""
    for one in requirements:
        parsed = _REQUIREMENT.match(one)
        if parsed is None or "extra" in (parsed[3] or ""):
            continue
        yield parsed[1], parsed[2].strip(), bool(parsed[3])
