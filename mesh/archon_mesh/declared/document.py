"""YAML documents with line numbers and environment variables."""

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
    """A YAML file. `value` is its content."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        """Reads the file.

        In texts, `${NAME}` is replaced by an environment variable, `${NAME:-text}` by `text` if the variable is unset
        or empty, and `$$` by a dollar sign. Raises NotFound, and InvalidArgument with file, line and key.
        """
        self.path = path
        self._environment = environment
        self._lines: dict[Key, int] = {}
        try:
            node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        except FileNotFoundError:
            raise NotFound(f"no such file: {path}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"cannot read {path}: {error}") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark is not None else ""
            problem = getattr(error, "problem", None) or str(error)
            raise InvalidArgument(f"{path}{line}: invalid YAML: {problem}") from None
        self.value = self._value(node, ()) if node is not None else {}

    def error(self, key: Sequence[str | int], why: str) -> InvalidArgument:
        """Returns the error for an invalid value, with file, line and key."""
        field = ".".join(map(str, key))
        return InvalidArgument(
            f"{self.path}:{self.line(key)}: {field + ': ' if field else ''}{why}",
            field_violations=[FieldViolation(field, why)],
            metadata={"file": str(self.path), "line": str(self.line(key))},
        )

    def line(self, key: Sequence[str | int]) -> int:
        """Returns the line of the key, or of its nearest parent in the file; from 1."""
        ancestor = tuple(key)
        while ancestor and ancestor not in self._lines:
            ancestor = ancestor[:-1]
        return self._lines.get(ancestor, 1)

    def _value(self, node: yaml.Node, key: Key) -> Any:
        self._lines.setdefault(key, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            mapping: dict[Any, Any] = {}
            for name_node, value_node in node.value:
                name = self._scalar(name_node, key)
                self._lines[*key, name] = name_node.start_mark.line + 1
                if name in mapping:
                    raise self.error((*key, name), "duplicate key")
                mapping[name] = self._value(value_node, (*key, name))
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*key, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, key)

    def _scalar(self, node: yaml.Node, key: Key) -> Any:
        value = _construct(node)
        if not isinstance(value, str) or "$" not in value:
            return value
        text = _VARIABLE.sub(lambda match: self._variable(match, key), value)
        # A plain `${N}` may be a number, as if it were written there.
        is_plain = isinstance(node, yaml.ScalarNode) and node.style is None and _VARIABLE.fullmatch(value) is not None
        return _construct(yaml.compose(text, Loader=yaml.SafeLoader)) if is_plain and text.strip() else text

    def _variable(self, match: re.Match[str], key: Key) -> str:
        if match.group() == "$$":
            return "$"
        name, default = match.group("name"), match.group("default")
        value = self._environment.get(name, "")
        if not value and default is None:
            raise self.error(key, f"variable {name} is not set; use ${{{name}:-text}} to set a default")
        return value or default or ""


def _construct(node: yaml.Node | None) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True) if node is not None else None
    finally:
        loader.dispose()
