"""Reports of a run: for people, as JSON, and as JUnit's XML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

from archon.conformance.suite import Outcome
from archon.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Report:
    """The outcomes of a run, judged by the failures that are expected."""

    outcomes: Sequence[Outcome]
    expected: frozenset[str]
    seconds: float

    @property
    def failed(self) -> list[Outcome]:
        """Cases that failed, and were expected to pass."""
        return [each for each in self.outcomes if each.fault and not self._is_expected(each)]

    @property
    def unexpected_passes(self) -> list[Outcome]:
        """Cases that passed, and are in the list of expected failures."""
        return [each for each in self.outcomes if not each.fault and self._is_expected(each)]

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return not self.failed and not self.unexpected_passes

    def _is_expected(self, outcome: Outcome) -> bool:
        return outcome.case.name in self.expected or outcome.case.scenario.name in self.expected

    def areas(self) -> list[tuple[str, int, int, int]]:
        """Returns of each area the numbers of cases that passed, failed, and failed as expected."""
        rows: dict[str, list[int]] = {}
        for each in self.outcomes:
            row = rows.setdefault(each.case.scenario.area, [0, 0, 0])
            row[0 if not each.fault else 2 if self._is_expected(each) else 1] += 1
        return [(area, *counts) for area, counts in rows.items()]  # type: ignore[misc]

    def text(self) -> str:
        """Returns the report for people."""
        rows = self.areas()
        width = max([4, *(len(area) for area, *_ in rows)])
        lines = [f"{'area':<{width}}  passed  failed  expected failures"]
        lines += [f"{area:<{width}}  {passed:>6}  {failed:>6}  {known:>17}" for area, passed, failed, known in rows]
        for each in self.failed:
            lines += ["", f"FAILED {each.case.name}: {each.case.scenario.does}", f"  {each.fault}"]
        for each in self.unexpected_passes:
            lines += ["", f"PASSED, though it is in the list of expected failures: {each.case.name}"]
        scenarios = len({each.case.scenario.name for each in self.outcomes})
        good = sum(not each.fault for each in self.outcomes)
        lines += [
            "",
            f"{len(self.outcomes)} cases of {scenarios} scenarios: {good} passed, {len(self.failed)} failed, "
            f"{len(self.outcomes) - good - len(self.failed)} failed as expected, in {self.seconds:.1f} s",
        ]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Returns the counts of each area and the cases; times in seconds, rounded to milliseconds."""
        return {
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "areas": {
                area: {"passed": passed, "failed": failed, "expected_failures": known}
                for area, passed, failed, known in self.areas()
            },
            "cases": [
                {
                    "name": each.case.name,
                    "does": each.case.scenario.does,
                    "passed": not each.fault,
                    "expected": self._is_expected(each) is bool(each.fault),
                    "fault": each.fault,
                    "seconds": round(each.seconds, 3),
                }
                for each in self.outcomes
            ],
        }

    def write_junit(self, path: Path) -> None:
        """Writes the outcomes as JUnit XML, one test case per scenario. Raises OSError."""
        suite = ElementTree.Element(
            "testsuite",
            name="conformance",
            tests=str(len(self.outcomes)),
            failures=str(len(self.failed) + len(self.unexpected_passes)),
            time=f"{self.seconds:.3f}",
        )
        for each in self.outcomes:
            case = ElementTree.SubElement(
                suite, "testcase", classname=each.case.scenario.area, name=each.case.name, time=f"{each.seconds:.3f}"
            )
            if each in self.failed:
                ElementTree.SubElement(case, "failure", message=_clean(each.fault[:500])).text = _clean(each.fault)
            elif each in self.unexpected_passes:
                ElementTree.SubElement(case, "failure", message="passed, and is in the list of expected failures")
            elif each.fault:
                ElementTree.SubElement(case, "skipped", message="fails as expected")
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _clean(text: str) -> str:
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def read_expected(path: Path, names: Iterable[str]) -> frozenset[str]:
    """Reads a list of expected failures: names of scenarios or cases. Raises InvalidArgument for an unknown name."""
    content = yaml.safe_load(path.read_text()) or []
    if not isinstance(content, list):
        raise InvalidArgument(f"{path}: a list of names of scenarios or cases, each with a reason in a comment")
    if unknown := sorted(set(content) - set(names)):
        raise InvalidArgument(f"{path}: there are no scenarios {', '.join(unknown)}")
    return frozenset(content)
