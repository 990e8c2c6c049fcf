"""YAML with the lines that its values stand on, and variables of the environment in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from archon.errors import FieldViolation, InvalidArgument, NotFound

_VARIABLE: Final = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\})")

Key = tuple[str | int, ...]


class Document:
    """A file that was read. `value` is what stands in it."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        """`${NAME}` in a text stands for a variable, `${NAME:-text}` for that text where it isn't set or is empty, `$$`
        for a dollar sign. Raises NotFound, and InvalidArgument with file, line and key."""
        self.path = path
        self._environment = environment
        self._lines: dict[Key, int] = {}
        try:
            node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        except FileNotFoundError:
            raise NotFound(f"there is no file {path}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{path} can't be read: {error}") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark is not None else ""
            said = getattr(error, "problem", None) or str(error)
            raise InvalidArgument(f"{path}{line}: this is no YAML: {said}") from None
        self.value = self._value(node, ()) if node is not None else {}

    def wrong(self, key: Sequence[str | int], why: str) -> InvalidArgument:
        """The error for what is wrong there."""
        where = ".".join(map(str, key))
        return InvalidArgument(
            f"{self.path}:{self.line(key)}: {where + ': ' if where else ''}{why}",
            field_violations=[FieldViolation(where, why)],
            metadata={"file": str(self.path), "line": str(self.line(key))},
        )

    def line(self, key: Sequence[str | int]) -> int:
        """Of the key, or of what it is missing in; from 1."""
        at = tuple(key)
        while at and at not in self._lines:
            at = at[:-1]
        return self._lines.get(at, 1)

    def _value(self, node: yaml.Node, key: Key) -> Any:
        self._lines.setdefault(key, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            made: dict[Any, Any] = {}
            for name_node, value_node in node.value:
                name = self._scalar(name_node, key)
                self._lines[*key, name] = name_node.start_mark.line + 1
                if name in made:
                    raise self.wrong((*key, name), "stands here a second time")
                made[name] = self._value(value_node, (*key, name))
            return made
        if isinstance(node, yaml.SequenceNode):
            return [self._value(one, (*key, number)) for number, one in enumerate(node.value)]
        return self._scalar(node, key)

    def _scalar(self, node: yaml.Node, key: Key) -> Any:
        value = _construct(node)
        if not isinstance(value, str) or "$" not in value:
            return value
        made = _VARIABLE.sub(lambda match: self._variable(match, key), value)
        # A plain `${N}` may stand for a number, as if it were written there.
        plain = isinstance(node, yaml.ScalarNode) and node.style is None and _VARIABLE.fullmatch(value) is not None
        return _construct(yaml.compose(made, Loader=yaml.SafeLoader)) if plain and made.strip() else made

    def _variable(self, match: re.Match[str], key: Key) -> str:
        if match.group() == "$$":
            return "$"
        name, default = match.group("name"), match.group("default")
        found = self._environment.get(name, "")
        if not found and default is None:
            raise self.wrong(key, f"the variable {name} is not set; ${{{name}:-text}} would give a default")
        return found or default or ""


def _construct(node: yaml.Node | None) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True) if node is not None else None
    finally:
        loader.dispose()
