"""YAML documents with line numbers and environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from archon.errors import FieldViolation, InvalidArgument, NotFound

_VARIABLE: Final = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\})")

Key = tuple[str | int, ...]

MAX_BYTES: Final = 1024 * 1024
"""Size of a file."""

MAX_DEPTH: Final = 50
MAX_VALUES: Final = 10_000
"""Values of a file; an alias counts as often as its values are repeated."""

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
            text = self._read()
            self._check_depth(text)
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except FileNotFoundError:
            raise NotFound(f"no such file: {self._shown}") from None
        except RecursionError:
            raise InvalidArgument(f"{self._shown}: nested too deep") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"cannot read {self._shown}: {self.redacted(str(error))}") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark is not None else ""
            problem = getattr(error, "problem", None) or str(error)
            raise InvalidArgument(f"{self._shown}{line}: invalid YAML: {problem}") from None
        self.value = self._value(node, ()) if node is not None else {}

    def _read(self) -> str:
        with self.path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise InvalidArgument(f"{self._shown} is larger than {MAX_BYTES:,} bytes")
        return content.decode()

    def _check_depth(self, text: str) -> None:
        """Raises InvalidArgument for deep nesting. The parser's events nest without recursion, unlike the composer."""
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                line = f":{event.start_mark.line + 1}" if event.start_mark is not None else ""
                raise InvalidArgument(f"{self._shown}{line}: nested more than {MAX_DEPTH} levels deep")

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
        if not isinstance(value, str) or "$" not in value or self._environment is None:
            return value
        text = _VARIABLE.sub(lambda match: self._variable(match, key), value)
        # A plain `${N}` may be a number, as if it were written there.
        is_plain = isinstance(node, yaml.ScalarNode) and node.style is None and _VARIABLE.fullmatch(value) is not None
        return _construct(yaml.compose(text, Loader=yaml.SafeLoader)) if is_plain and text.strip() else text

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


def _construct(node: yaml.Node | None) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True) if node is not None else None
    finally:
        loader.dispose()
