"""Writes docs/reference/conformance.md from the scenarios and the lists of expected failures:
`python -m tests.unit.docs.conformance_page`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from archon.conformance import Case, cases_of, load_scenarios, scenarios_folder
from archon.conformance.report import read_expected
from tests.unit.docs.tables import REFERENCE, table

PAGE: Final = REFERENCE / "conformance.md"
EXPECTED: Final = Path(__file__).parents[3] / "sdk" / "conformance" / "expected"
NAMES: Final = {"go": "Go", "java": "Java", "python": "Python", "typescript": "TypeScript"}

HEAD: Final = """# Conformance

Scenarios hold every SDK, and every agent over stubs, to [the contract](../contract.md): the runner starts a small program over the SDK,
the *subject*, plays its orchestrators, its registry and its memory service, and compares every frame and call that comes. A scenario of an
agent is a case for each of {dialled, attached} x {clear text, mutual TLS}, one of a client for each of {clear text, mutual TLS}, unless it
names fewer.

```sh
archon conformance --subject ./my-subject
archon conformance --subject ./my-subject --case adoption --verbose
```

An SDK in another language needs a subject: about 150 lines for agents, and as many for clients (`--mode`). Its protocol and the vocabulary of the scenarios are in
[sdk/conformance](../../sdk/conformance/README.md). Scenarios are frozen for a version of the contract: an SDK that has passed one is never held to
another one under its name.

This page is written by `python -m tests.unit.docs.conformance_page`; a test compares them.

## Cases that an SDK passes

"""


def page() -> str:
    """Returns the page."""
    cases = cases_of(load_scenarios(scenarios_folder()))
    names = {case.name for case in cases} | {case.scenario.name for case in cases}
    lists = {path.stem: read_expected(path, names) for path in sorted(EXPECTED.glob("*.yaml"))}
    areas: dict[str, list[Case]] = {}
    for case in cases:
        areas.setdefault(case.scenario.area, []).append(case)
    rows = [_row(area, own, lists) for area, own in areas.items()]
    rows.append(_row("all", cases, lists))
    head = ("area", "scenarios", "cases", *(NAMES.get(name, name) for name in lists))
    return HEAD + table(head, rows)


def _row(area: str, cases: list[Case], lists: dict[str, frozenset[str]]) -> tuple[str, ...]:
    passed = (sum(not {case.name, case.scenario.name} & expected for case in cases) for expected in lists.values())
    return area, str(len({case.scenario.name for case in cases})), str(len(cases)), *map(str, passed)


if __name__ == "__main__":
    PAGE.write_text(page())
