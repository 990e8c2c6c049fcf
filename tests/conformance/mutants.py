"""The faults that are put into the sources of the SDKs, one at a time: sdk/conformance/mutants/LANGUAGE.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from archon.conformance import Scenario, load_scenarios, scenarios_folder
from tests.conformance.subjects import FOLDER

TABLES: Final = FOLDER / "mutants"


@dataclass(frozen=True, slots=True)
class Mutant:
    """An edit of an SDK: in `file`, relative to the SDK's folder, `find` is replaced by `replace`. The scenario `caught_by`
    must fail then."""

    name: str
    file: str
    find: str
    replace: str
    caught_by: str

    def applied(self, text: str) -> str:
        """Returns the changed content of the file. Raises ValueError if `find` is not in it exactly once."""
        if (count := text.count(self.find)) != 1:
            raise ValueError(f"{self.name}: {self.file} has the text {count} times: {self.find}")
        return text.replace(self.find, self.replace)


def languages() -> list[str]:
    """Returns the languages that have a table."""
    return sorted(path.stem for path in TABLES.glob("*.yaml"))


def load(language: str) -> list[Mutant]:
    """Reads the table of a language. Raises ValueError for a row that is not one."""
    keys = {field.name for field in fields(Mutant)}
    mutants = []
    for row in yaml.safe_load((TABLES / f"{language}.yaml").read_text()):
        if set(row) != keys or not all(isinstance(value, str) for value in row.values()):
            raise ValueError(f"{language}: a row has the texts {', '.join(sorted(keys))}, not {row}")
        mutants.append(Mutant(**row))
    return mutants


def faults(mutants: Sequence[Mutant], source: Path) -> list[str]:
    """Returns a sentence for each row that cannot be tried on these sources."""
    found = []
    names = [mutant.name for mutant in mutants]
    edits = [(mutant.file, mutant.find, mutant.replace) for mutant in mutants]
    for mutant, edit in zip(mutants, edits, strict=True):
        if names.count(mutant.name) > 1:
            found.append(f"{mutant.name}: there are several mutants of this name")
        if edits.count(edit) > 1:
            found.append(f"{mutant.name}: there are several mutants with this edit")
        if mutant.find == mutant.replace:
            found.append(f"{mutant.name}: changes nothing")
        if mutant.caught_by not in _scenarios():
            found.append(f"{mutant.name}: there is no scenario {mutant.caught_by}")
        try:
            mutant.applied((source / mutant.file).read_text())
        except OSError:
            found.append(f"{mutant.name}: there is no file {mutant.file}")
        except ValueError as error:
            found.append(str(error))
    return found


def place(name: str) -> tuple[str, str]:
    """Returns the transport and the security in which a mutant is held against a scenario: dialled and plain, if the
    scenario has such a case."""
    scenario = _scenarios()[name]
    transport = "dialled" if "dialled" in scenario.on else scenario.on[0]
    return transport, "plain" if "plain" in scenario.security else scenario.security[0]


@cache
def _scenarios() -> dict[str, Scenario]:
    return {scenario.name: scenario for scenario in load_scenarios(scenarios_folder())}
