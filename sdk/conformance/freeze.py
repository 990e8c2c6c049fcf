"""Adds new scenarios to frozen.json: `python sdk/conformance/freeze.py`.

A scenario that it has must not change: an SDK that has passed it would be held to something else without a new version
of the contract."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from archon.conformance import load_scenarios, scenarios_folder

FILE: Final = Path(__file__).parent / "frozen.json"
CONTRACT: Final = "v1"


def changed() -> list[str]:
    """Returns the names of frozen scenarios that are gone, or demand something else now."""
    frozen: dict[str, str] = json.loads(FILE.read_text())[CONTRACT] if FILE.exists() else {}
    now = {scenario.name: scenario.digest for scenario in load_scenarios(scenarios_folder())}
    return [name for name, digest in frozen.items() if now.get(name) != digest]


def missing() -> list[str]:
    """Returns the names of scenarios that are not frozen yet."""
    frozen: dict[str, str] = json.loads(FILE.read_text())[CONTRACT] if FILE.exists() else {}
    return [scenario.name for scenario in load_scenarios(scenarios_folder()) if scenario.name not in frozen]


def main() -> int:
    if names := changed():
        sys.stderr.write(f"frozen scenarios have changed: {', '.join(names)}\n")
        return 1
    versions = json.loads(FILE.read_text()) if FILE.exists() else {}
    scenarios = load_scenarios(scenarios_folder())
    versions[CONTRACT] = {scenario.name: scenario.digest for scenario in sorted(scenarios, key=lambda each: each.name)}
    FILE.write_text(json.dumps(versions, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
