"""`python -m tests.supply_chain.sbom` writes build/sbom.json: what an image has, as CycloneDX 1.6, from deploy/locks."""

from __future__ import annotations

import argparse
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from tests.supply_chain.lockfile import IMAGE, ROOT, Pin, read
from tests.supply_chain.locks import project

TARGET: Final = ROOT / "build" / "sbom.json"
SYSTEM: Final = {
    "python_version": "3.12",
    "python_full_version": "3.12.9",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
    "os_name": "posix",
    "extra": "",
}
"""The environment (PEP 508) of the images."""


def bill(pins: list[Pin]) -> Bom:
    """Returns the bill of materials of the packages that images have, with the graph of who requires whom."""
    table = project()
    root = Component(
        name=table["name"],
        version=table["version"],
        type=ComponentType.APPLICATION,
        bom_ref=table["name"],
        licenses=[LicenseFactory().make_with_id(table["license"])],
        purl=PackageURL("pypi", None, table["name"], table["version"]),
    )
    bom = Bom()
    bom.metadata.component = root
    used = [pin for pin in pins if pin.is_for(SYSTEM)]
    components = {pin.name: _component(pin) for pin in used}
    bom.components.update(components.values())
    requires: dict[str, list[Component]] = {}
    for pin in used:
        for name in pin.needed_by:
            requires.setdefault(name, []).append(components[pin.name])
    bom.register_dependency(root, requires.get(table["name"], []))
    for name, component in components.items():
        bom.register_dependency(component, requires.get(name, []))
    return bom


def _component(pin: Pin) -> Component:
    component = Component(
        name=pin.name,
        version=str(pin.version),
        type=ComponentType.LIBRARY,
        bom_ref=f"{pin.name}=={pin.version}",
        purl=PackageURL("pypi", None, pin.name, str(pin.version)),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=value) for value in pin.hashes],
    )
    if expression := _license(pin):
        component.licenses.add(LicenseFactory().make_from_string(expression))
    return component


def _license(pin: Pin) -> str | None:
    """Returns the licence that the package declares, if it is installed here."""
    try:
        about = metadata.distribution(pin.name).metadata
    except metadata.PackageNotFoundError:
        return None
    for field in ("License-Expression", "License"):
        text = next(iter(about.get_all(field) or ()), "")
        if text and text != "UNKNOWN" and len(text) < 100 and "\n" not in text:
            return text
    return next(
        (line.rpartition(" :: ")[2] for line in (about.get_all("Classifier") or []) if line.startswith("License ::")),
        None,
    )


def text_of(bom: Bom) -> str:
    """Returns a bill as CycloneDX 1.6 in JSON. Raises ValueError if the schema does not admit it."""
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"not CycloneDX 1.6: {error}")
    return text


def main(arguments: list[str]) -> int:
    """Writes the bill of a lock file. Returns 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lock", type=Path, default=IMAGE, help="a file of deploy/locks")
    parser.add_argument("--output", type=Path, default=TARGET)
    given = parser.parse_args(arguments)
    bom = bill(read(given.lock))
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(text_of(bom))
    print(f"{len(bom.components)} packages: {given.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
