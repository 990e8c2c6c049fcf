"""Scenarios as data: the files of a folder, and the cases that they give."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from archon.errors import InvalidArgument

TRANSPORTS: Final = ("dialled", "attached")
SECURITIES: Final = ("plain", "mtls")

_KEYS: Final = frozenset(
    {"name", "does", "rules", "on", "security", "env", "own", "heavy", "each", "steps", "host", "standing"}
)
_MODIFIERS: Final = frozenset({"on", "within", "for", "only", "as", "or"})


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads `on` and `off` as texts, as YAML 1.2 does: only true and false are booleans."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario, as its file has it, after the expansion of `each`."""

    name: str
    area: str
    mode: str
    does: str
    rules: tuple[str, ...]
    on: tuple[str, ...]
    security: tuple[str, ...]
    env: Mapping[str, str]
    own: bool
    """Whether it needs a subject of its own, because it stops it or changes its capacity."""
    heavy: bool
    """Whether it runs after the others: it needs much of the machine."""
    host: str
    standing: bool
    """Whether the rules that hold for all frames are checked."""
    steps: tuple[Mapping[str, Any], ...]
    template: str
    """The name before the expansion."""

    @property
    def digest(self) -> str:
        """A hash over everything that the scenario demands."""
        content = {
            name: getattr(self, name) for name in ("mode", "on", "security", "env", "own", "host", "standing", "steps")
        }
        text = json.dumps(content, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario over one transport, in clear text or with mutual TLS."""

    scenario: Scenario
    transport: str
    security: str

    @property
    def name(self) -> str:
        """Unique, such as results/text-is-answered [dialled plain]."""
        where = f"{self.transport} {self.security}" if self.scenario.mode == "agent" else self.security
        return f"{self.scenario.name} [{where}]"


def scenarios_folder() -> Path:
    """Returns the folder of the scenarios: beside this module in a wheel, in sdk/conformance in a clone."""
    own = Path(__file__).parent / "cases"
    return own if own.is_dir() else Path(__file__).parents[3] / "conformance" / "cases"


def load_scenarios(folder: Path) -> list[Scenario]:
    """Reads all files of a folder. Raises InvalidArgument with file and scenario."""
    scenarios = [scenario for path in sorted(folder.glob("*.yaml")) for scenario in _in_file(path)]
    names = [scenario.name for scenario in scenarios]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidArgument(f"scenarios with the same name: {', '.join(twice)}")
    return scenarios


def _in_file(path: Path) -> Iterator[Scenario]:
    content = yaml.load(path.read_text(), Loader=_Loader)
    try:
        area, mode = content["area"], content["mode"]
        entries = content["scenarios"]
    except (TypeError, KeyError) as error:
        raise InvalidArgument(f"{path}: needs area, mode and scenarios: {error}") from None
    for entry in entries:
        name = f"{area}/{entry.get('name', '?')}"
        if unknown := sorted(set(entry) - _KEYS):
            raise InvalidArgument(f"{path}: {name} has unknown keys {', '.join(unknown)}")
        if not entry.get("does") or not entry.get("steps"):
            raise InvalidArgument(f"{path}: {name} needs a sentence `does`, and steps")
        for values in entry.get("each", [{}]):
            yield _scenario(area, mode, _replaced(entry, values) if values else entry, name)


def _scenario(area: str, mode: str, entry: Mapping[str, Any], template: str) -> Scenario:
    steps = tuple(entry["steps"])
    for step in steps:
        if len(set(step) - _MODIFIERS) != 1 and not (set(step) <= _MODIFIERS and len(step) == 1):
            raise InvalidArgument(f"{template}: a step has one action, not {', '.join(map(str, step))}")
    return Scenario(
        name=f"{area}/{entry['name']}",
        area=area,
        mode=mode,
        does=entry["does"],
        rules=tuple(entry.get("rules", ())),
        on=tuple(entry.get("on", TRANSPORTS if mode == "agent" else ("dialled",))),
        security=tuple(entry.get("security", SECURITIES)),
        env={key: str(text) for key, text in entry.get("env", {}).items()},
        own=bool(entry.get("own", False)),
        heavy=bool(entry.get("heavy", False)),
        host=entry.get("host", "127.0.0.1"),
        standing=bool(entry.get("standing", True)),
        steps=steps,
        template=template,
    )


def _replaced(value: Any, values: Mapping[str, Any]) -> Any:
    """Fills in `<name>`: alone as it is, within a text as text."""
    if isinstance(value, str):
        if value.startswith("<") and value.endswith(">") and value[1:-1] in values:
            return values[value[1:-1]]
        for name, each in values.items():
            value = value.replace(f"<{name}>", str(each))
        return value
    if isinstance(value, Mapping):
        return {_replaced(key, values): _replaced(each, values) for key, each in value.items() if key != "each"}
    if isinstance(value, list):
        return [_replaced(each, values) for each in value]
    return value


def cases_of(scenarios: list[Scenario]) -> list[Case]:
    """Returns each scenario over each of its transports, in clear text and with mutual TLS."""
    return [
        Case(scenario, transport, security)
        for scenario in scenarios
        for transport in scenario.on
        for security in scenario.security
    ]
