"""YAML as JSON has it: texts, numbers, booleans, null, lists, and objects whose keys are texts.

PyYAML fails for other documents in as many ways as Python; here each is one sentence.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

MAX_DEPTH: Final = 50
MAX_VALUES: Final = 10_000
"""Values of a document; an alias counts as often as its values are repeated."""

MAX_NUMBER: Final = 2**64
MAX_SHOWN: Final = 60
"""Characters of a wrong value in an error."""

_IS_NO_NUMBER: Final = re.compile(r"[-+]?(\d[\d_]*:|0[\d_]+$)")
"""Times of day such as 12:30, and digits behind a zero such as 0471, are texts: YAML 1.1 has 750 and an octal 313."""

_STANDARD: Final = "tag:yaml.org,2002:"
_SCALARS: Final = {"str": "text", "int": "whole number", "float": "number", "bool": "boolean", "null": "null"}


class YamlError(ValueError):
    """A document that is not plain. `line` counts from 1; 0 if it is not known."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {why}" if line else why)
        self.why = why
        self.line = line


def plain_yaml(content: bytes) -> Any:
    """Returns the value of a document, None if it is empty. Raises YamlError."""
    node = composed(decoded(content))
    return _Values().of(node, 0) if node is not None else None


def decoded(content: bytes) -> str:
    """Raises YamlError unless it is UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise YamlError("it is not UTF-8") from None


def composed(text: str) -> yaml.Node | None:
    """Returns the nodes of a document. Raises YamlError if it is malformed, or nested too deep."""
    try:
        _check_depth(text)
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line, character = text.count("\n", 0, error.position) + 1, ord(text[error.position])
        raise YamlError(f"invalid YAML: the character U+{character:04X}", line) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise YamlError(f"invalid YAML: {problem}", mark.line + 1 if mark is not None else 0) from None
    except RecursionError:
        raise YamlError("nested too deep") from None


def scalar(node: yaml.ScalarNode) -> Any:
    """Returns a text, a number, a boolean or None. Dates and times are texts. Raises YamlError without a line."""
    tag = node.tag.removeprefix(_STANDARD)
    if tag in ("timestamp", "value") or (tag in ("int", "float") and _IS_NO_NUMBER.match(node.value)):
        tag = "str"
    if tag not in _SCALARS:
        raise refused_tag(node)
    try:
        value = node.value if tag == "str" else _construct(node)
    except Exception:  # noqa: BLE001 - a value that is not of its tag fails in as many ways as Python
        raise YamlError(f"invalid {_SCALARS[tag]}: {node.value[:MAX_SHOWN]!r}") from None
    if isinstance(value, int) and abs(value) >= MAX_NUMBER:
        raise YamlError("the number has more than 64 bits: write it in quotes")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise YamlError("the text has half of a surrogate pair, which is no character") from None
    return value


def key(node: yaml.Node) -> str:
    """Returns the text of a key. Raises YamlError without a line."""
    if not isinstance(node, yaml.ScalarNode):
        raise YamlError("a key must be a text")
    if node.tag == f"{_STANDARD}merge":
        raise YamlError("merge keys (<<) are not supported: write the keys here")
    if not isinstance(name := scalar(node), str):
        raise YamlError(f"the key {node.value[:MAX_SHOWN]} must be a text: write it in quotes")
    return name


def check_tag(node: yaml.Node) -> None:
    """Raises YamlError without a line unless a list or an object has no tag."""
    if node.tag != f"{_STANDARD}{'map' if isinstance(node, yaml.MappingNode) else 'seq'}":
        raise refused_tag(node)


def refused_tag(node: yaml.Node) -> YamlError:
    """Returns the error that names a tag, cut to MAX_SHOWN characters."""
    return YamlError(f"the tag {node.tag.replace(_STANDARD, '!!')[:MAX_SHOWN]} is not supported here")


def line_of(node: yaml.Node) -> int:
    """Returns the line of a node, from 1."""
    return int(node.start_mark.line) + 1


class _Values:
    def __init__(self) -> None:
        self._count = 0

    def of(self, node: yaml.Node, depth: int) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            raise YamlError(f"more than {MAX_VALUES:,} values, with those that aliases repeat")
        if depth > MAX_DEPTH:
            raise YamlError(f"nested more than {MAX_DEPTH} levels deep", line_of(node))
        try:
            if isinstance(node, yaml.ScalarNode):
                return scalar(node)
            check_tag(node)
            if isinstance(node, yaml.SequenceNode):
                return [self.of(item, depth + 1) for item in node.value]
            mapping: dict[str, Any] = {}
            for name_node, value_node in node.value:
                if (name := key(name_node)) in mapping:
                    raise YamlError(f"duplicate key {name}", line_of(name_node))
                mapping[name] = self.of(value_node, depth + 1)
        except YamlError as error:
            raise error if error.line else YamlError(error.why, line_of(node)) from None
        return mapping


def _check_depth(text: str) -> None:
    """Raises YamlError for deep nesting. The parser's events nest without recursion, unlike the composer."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark is not None else 0
            raise YamlError(f"nested more than {MAX_DEPTH} levels deep", line)


def _construct(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node)
    finally:
        loader.dispose()
