"""YAML documents with line numbers and environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from archon.errors import ArchonError, FieldViolation, InvalidArgument, NotFound
from archon_mesh.plain_yaml import (
    MAX_DEPTH,
    MAX_SHOWN,
    MAX_VALUES,
    YamlError,
    check_tag,
    composed,
    decoded,
    line_of,
    scalar,
)
from archon_mesh.plain_yaml import key as plain_key

_VARIABLE: Final = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\})")

Key = tuple[str | int, ...]

MAX_BYTES: Final = 1024 * 1024
"""Size of a file."""

MIN_SECRET: Final = 4
"""Characters of an environment variable's value from which on it is replaced in errors. A shorter one hides nothing."""


class Document:
    """A YAML file. `value` is its content."""

    def __init__(self, path: Path, environment: Mapping[str, str] | None, parent: Document | None = None) -> None:
        """Reads the file. `parent` is the file that names it.

        In texts, `${NAME}` is replaced by an environment variable, `${NAME:-text}` by `text` if the variable is unset
        or empty, and `$$` by a dollar sign; without an environment, texts stay as they are. Raises NotFound, and
        InvalidArgument with file, line and key.
        """
        self.path = path
        self._environment = environment
        self._lines: dict[Key, int] = {}
        self._secrets: dict[str, str] = dict(parent._secrets) if parent is not None else {}
        """Values of environment variables that are part of the content, with their names."""

        self._values = 0
        try:
            node = composed(decoded(self._read()))
        except ArchonError:
            raise
        except FileNotFoundError:
            raise NotFound(f"no such file: {self._shown}") from None
        except YamlError as error:
            line = f":{error.line}" if error.line else ""
            raise InvalidArgument(f"{self._shown}{line}: {self.redacted(error.why)}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidArgument(f"cannot read {self._shown}: {self.redacted(reason)}") from None
        self.value = self._value(node, ()) if node is not None else {}

    def _read(self) -> bytes:
        with self.path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise InvalidArgument(f"{self._shown} is larger than {MAX_BYTES:,} bytes")
        return content

    @property
    def _shown(self) -> str:
        """The path as errors show it."""
        return self.redacted(str(self.path))

    def redacted(self, text: str) -> str:
        """Returns a text with the values of environment variables replaced by their names."""
        for value, name in sorted(self._secrets.items(), key=lambda secret: -len(secret[0])):
            text = text.replace(value, f"${{{name}}}")
        return text

    def cause(self, error: BaseException) -> BaseException | None:
        """Returns an error to be shown as the cause of another one; None if its text has the value of a variable."""
        return error if self.redacted(str(error)) == str(error) else None

    def error(self, key: Sequence[str | int], why: str) -> InvalidArgument:
        """Returns the error for an invalid value, with file, line and key. It names environment variables instead of
        their values."""
        why = self.redacted(why)
        field = self.redacted(".".join(map(str, key)))
        return InvalidArgument(
            f"{self._shown}:{self.line(key)}: {field + ': ' if field else ''}{why}",
            field_violations=[FieldViolation(field, why)],
            metadata={"file": self._shown, "line": str(self.line(key))},
        )

    def errors(self, mistakes: Iterable[tuple[Key, str]]) -> InvalidArgument:
        """Returns one error for several mistakes, each with its line, key and field violation; at least one."""
        each = [self.error(key, why) for key, why in mistakes]
        return InvalidArgument(
            "\n".join(error.message for error in each),
            field_violations=[violation for error in each for violation in error.field_violations],
            metadata=each[0].metadata,
        )

    def line(self, key: Sequence[str | int]) -> int:
        """Returns the line of the key, or of its nearest parent in the file; from 1."""
        ancestor = tuple(key)
        while ancestor and ancestor not in self._lines:
            ancestor = ancestor[:-1]
        return self._lines.get(ancestor, 1)

    def _value(self, node: yaml.Node, key: Key) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise self.error(key[:1], f"more than {MAX_VALUES:,} values, with those that aliases repeat")
        if len(key) > MAX_DEPTH:
            raise self.error(key[:1], f"nested more than {MAX_DEPTH} levels deep")
        self._lines.setdefault(key, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, key)
        try:
            check_tag(node)
        except YamlError as error:
            raise self.error(key, error.why) from None
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*key, index)) for index, item in enumerate(node.value)]
        mapping: dict[str, Any] = {}
        for name_node, value_node in node.value:
            name = self._name(name_node, key)
            self._lines[*key, name] = line_of(name_node)
            if name in mapping:
                raise self.error((*key, name), "duplicate key")
            mapping[name] = self._value(value_node, (*key, name))
        return mapping

    def _name(self, node: yaml.Node, key: Key) -> str:
        self._lines[*key, ""] = line_of(node)
        try:
            plain_key(node)
        except YamlError as error:
            raise self.error((*key, ""), error.why) from None
        return str(self._scalar(node, key))

    def _scalar(self, node: yaml.Node, key: Key) -> Any:
        value = self._plain(node, key)
        if not isinstance(value, str) or "$" not in value or self._environment is None:
            return value
        text = _VARIABLE.sub(lambda match: self._variable(match, key), value)
        # A plain `${N}` may be a number, as if it were written there.
        is_plain = isinstance(node, yaml.ScalarNode) and node.style is None and _VARIABLE.fullmatch(value) is not None
        if not is_plain or not text.strip():
            return text
        try:
            inner = composed(text)
        except YamlError:
            return text
        return self._plain(inner, key, shown=value) if isinstance(inner, yaml.ScalarNode) else text

    def _plain(self, node: yaml.Node, key: Key, shown: str = "") -> Any:
        assert isinstance(node, yaml.ScalarNode)
        try:
            return scalar(node)
        except YamlError as error:
            # The value of a variable is not shown, nor a part of it.
            why = f"{error.why.partition(': ')[0]} in {shown[:MAX_SHOWN]}" if shown else error.why
            raise self.error(key, why) from None

    def _variable(self, match: re.Match[str], key: Key) -> str:
        if match.group() == "$$":
            return "$"
        name, default = match.group("name"), match.group("default")
        value = (self._environment or {}).get(name, "").strip("\r\n")  # of a file that was edited on Windows
        if len(value) >= MIN_SECRET:
            self._secrets[value] = name
        if not value and default is None:
            raise self.error(key, f"variable {name} is not set; use ${{{name}:-text}} to set a default")
        return value or default or ""
