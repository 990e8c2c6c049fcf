"""The bill of materials is valid by CycloneDX's schema, and has each locked package of an image."""

from __future__ import annotations

import json

from tests.supply_chain.lockfile import IMAGE, read
from tests.supply_chain.sbom import SYSTEM, bill, text_of


def test_the_bill_is_valid_and_has_each_package_of_an_image() -> None:
    pins = [pin for pin in read(IMAGE) if pin.is_for(SYSTEM)]
    written = json.loads(text_of(bill(pins)))  # raises if the schema does not admit it
    assert written["bomFormat"] == "CycloneDX"
    assert written["metadata"]["component"]["name"] == "archon-mesh"
    assert {(item["name"], item["version"]) for item in written["components"]} == {
        (pin.name, str(pin.version)) for pin in pins
    }
    assert all(item["hashes"] and item["purl"].startswith("pkg:pypi/") for item in written["components"])
    [root] = [item for item in written["dependencies"] if item["ref"] == "archon-mesh"]
    assert any(ref.startswith("grpcio==") for ref in root["dependsOn"])
