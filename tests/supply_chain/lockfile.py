"""The files of deploy/locks: each package in one version, with the hashes of all its wheels and of its source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.markers import Marker
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "deploy" / "locks"
EVERYTHING: Final = FOLDER / "everything.txt"
"""What Archon runs on with all extras, and what it is tested, developed and audited with."""

IMAGE: Final = FOLDER / "image.txt"
"""What the images of deploy/Dockerfile have, in the versions of EVERYTHING."""

_PIN: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?==(?P<version>[^\s;]+)(\s*;\s*(?P<marker>.*))?")
_VIA: Final = re.compile(r"#\s+(?:via\s+)?(?P<name>[a-z0-9][a-z0-9._-]*)")


BUILD: Final = FOLDER / "build.txt"
"""What builds the wheel of Archon: its build backend."""


class LockfileError(Exception):
    """A lock file has a line that no pin explains. The message names file and line."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One version of a package. `hashes` are SHA-256 in hexadecimal digits, `needed_by` names the packages that require
    it, and `marker` says where it is installed."""

    name: str
    version: Version
    marker: Marker | None
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]

    def is_for(self, environment: dict[str, str]) -> bool:
        """Returns whether it is installed in an environment (PEP 508)."""
        return self.marker is None or self.marker.evaluate(environment)


def read(path: Path) -> list[Pin]:
    """Returns the pins of a file. Raises LockfileError if a line is neither a pin, a hash nor a comment."""
    pins: list[Pin] = []
    text = path.read_text().replace("\\\n", " ")
    for number, block in enumerate(re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)):
        lines = block.splitlines()
        if number == 0:
            if any(line.strip() and not line.startswith("#") for line in lines):
                raise LockfileError(f"{path.name} does not begin with a pin: {lines[0]!r}")
            continue
        pins.append(_pin(path, lines))
    return pins


def _pin(path: Path, lines: list[str]) -> Pin:
    requirement, *options = re.split(r"\s+--hash=", lines[0].rstrip())
    found = _PIN.fullmatch(requirement.strip())
    hashes = tuple(option.removeprefix("sha256:").strip() for option in options)
    if found is None or not hashes or any(not re.fullmatch(r"[0-9a-f]{64}", value) for value in hashes):
        raise LockfileError(f"{path.name} has a line that is no version with hashes: {lines[0][:80]!r}")
    via = [match["name"] for line in lines[1:] if (match := _VIA.search(line))]
    return Pin(
        canonicalize_name(found["name"]),
        Version(found["version"]),
        Marker(found["marker"]) if found["marker"] else None,
        hashes,
        tuple(sorted({canonicalize_name(name) for name in via} - {"via"})),
    )
