"""The type of an answer: any type that pydantic knows, or a JSON Schema. The schema and the value follow from it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Never, cast

from archon.errors import FieldViolation, InvalidArgument, OutputMismatch

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MAX_SCHEMA_BYTES: Final = 32 * 1024
"""Bytes of the JSON Schema of an answer."""

MAX_VIOLATIONS: Final = 10
MAX_VIOLATION: Final = 300
"""Violations that an error names, and characters of each."""

MAX_REFERENCES: Final = 50_000
"""References that the check of one value follows: a schema that refers to itself twice may take for ever."""

_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_VALUES: Final = ("const", "enum", "default", "examples")


class OutputType:
    """The type of an answer. `declared` is a pydantic model, a dataclass, a TypedDict, another type such as
    `list[int]`, or a JSON Schema as a mapping, of any draft, without references to other documents.

    Raises InvalidArgument for anything else, for an invalid schema, and for one that is larger than MAX_SCHEMA_BYTES.
    """

    def __init__(self, declared: object) -> None:
        self.declared = declared
        self._adapter: TypeAdapter[Any] | None = None
        self._validator: Any = None
        self._references = _References()
        if isinstance(declared, Mapping):
            self.schema = _json_object(declared)
            self._validator = _checked_validator(self.schema, self._references)
        else:
            self._adapter, self.schema = _adapter_of(declared)
        if (size := len(json.dumps(self.schema).encode())) > MAX_SCHEMA_BYTES:
            raise InvalidArgument(f"the JSON Schema of the output has {size:,} bytes, at most {MAX_SCHEMA_BYTES:,}")

    @classmethod
    def of(cls, declared: object) -> OutputType | None:
        """Returns the type; None for None and for `str`, which leave an answer as the text that it is."""
        if declared is None or declared is str:
            return None
        return declared if isinstance(declared, OutputType) else cls(declared)

    def validate(self, value: Any, text: str = "") -> Any:
        """Returns the object for a JSON value; for a JSON Schema, the value. Raises OutputMismatch with the violations,
        and with `text`, by default the value as JSON."""
        try:
            if self._adapter is not None:
                return self._adapter.validate_json(json.dumps(value))
            self._references.left = MAX_REFERENCES
            violations = [*_violations(self._validator, value)]
        except (ValueError, RecursionError) as error:  # pydantic's ValidationError is a ValueError
            violations = _of_pydantic(error)
        if violations:
            raise OutputMismatch.of(violations, text or json.dumps(value, ensure_ascii=False, default=str))
        return value

    def parse(self, text: str) -> Any:
        """Returns the object for a text that is JSON and nothing else. Raises OutputMismatch."""
        try:
            value = read_json(text)
        except (ValueError, RecursionError):
            raise OutputMismatch.of([FieldViolation("(all)", "the answer is not JSON")], text) from None
        return self.validate(value, text)

    def to_json(self, answer: Any) -> str:
        """Returns an object that `validate` has returned as JSON text."""
        if self._adapter is None:
            return json.dumps(answer, ensure_ascii=False)
        return self._adapter.dump_json(answer, by_alias=True).decode()


def read_json(text: str) -> Any:
    """Returns the value of a JSON text. Raises ValueError, also for NaN and infinite numbers, and RecursionError."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is no JSON")


def _adapter_of(declared: object) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    from pydantic import PydanticUserError, TypeAdapter  # slow to import, and few programs have typed answers
    from pydantic.errors import PydanticUndefinedAnnotation

    if isinstance(declared, str) or inspect.isroutine(declared):
        raise InvalidArgument(f"invalid output {declared!r}: expected a type or a JSON Schema")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast(Any, declared))
        return adapter, adapter.json_schema()
    except (PydanticUserError, PydanticUndefinedAnnotation, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidArgument(f"invalid output {declared!r}: expected a type or a JSON Schema: {reason}") from None


def _json_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    try:
        copied: dict[str, Any] = json.loads(json.dumps(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"invalid output: the JSON Schema is not JSON: {error}") from None
    return copied


class _References:
    """Counts the references that a check follows."""

    left = MAX_REFERENCES

    def bounded(self, follow: Any) -> Any:
        """Returns a keyword's check that raises RecursionError once no references are left."""

        def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self.left -= 1
            if self.left < 0:
                raise RecursionError("the check of the answer takes too long: its schema refers to itself too often")
            yield from follow(validator, value, instance, schema) or ()

        return check


def _checked_validator(schema: dict[str, Any], references: _References) -> Any:
    """Returns the validator of a schema, by the draft that it declares. Raises InvalidArgument if the schema is
    invalid: also if it has a reference to another document, or a pattern that Python does not read."""
    import referencing.jsonschema  # both are slow to import
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import extend, validator_for

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        path = ".".join(map(str, error.absolute_path)) or "(all)"
        raise InvalidArgument(f"invalid output: no JSON Schema: {path}: {error.message[:MAX_VIOLATION]}") from None
    except RecursionError:
        raise InvalidArgument("invalid output: the JSON Schema is nested too deep") from None
    draft = referencing.jsonschema.specification_with(kind.META_SCHEMA["$schema"])
    registry: Any = referencing.Registry()  # no document but the schema is read
    resolver = registry.resolver_with_root(draft.create_resource(schema))
    for key, value in _assertions(schema):
        try:
            if key == "$ref":
                resolver.lookup(value)
            else:
                re.compile(value)
        except referencing.exceptions.Unresolvable:
            raise InvalidArgument(f"invalid output: the reference {value!r} has no target in the schema") from None
        except (re.error, TypeError) as error:
            raise InvalidArgument(f"invalid output: the pattern {value!r} cannot be read: {error}") from None
    keywords = {key: kind.VALIDATORS[key] for key in ("$ref", "$dynamicRef", "$recursiveRef") if key in kind.VALIDATORS}
    bounded: Any = cast(Any, extend)(kind, {key: references.bounded(follow) for key, follow in keywords.items()})
    return bounded(schema, registry=registry)


def _assertions(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yields the references and patterns of a schema, but not of schemas with an `$id` of their own."""
    if isinstance(schema, list):
        for each in schema:
            yield from _assertions(each)
    if not isinstance(schema, Mapping):
        return
    for key, value in schema.items():
        if key in ("$ref", "pattern"):
            yield key, value
        elif key in _NAMED and isinstance(value, Mapping):
            if key == "patternProperties":
                yield from (("pattern", name) for name in value)
            for each in value.values():
                yield from () if isinstance(each, Mapping) and "$id" in each else _assertions(each)
        elif key not in _VALUES:
            yield from _assertions(value)


def _violations(validator: Any, value: Any) -> Iterator[FieldViolation]:
    for _, error in zip(range(MAX_VIOLATIONS), validator.iter_errors(value), strict=False):
        path = ".".join(map(str, error.absolute_path)) or "(all)"
        yield FieldViolation(path, error.message[:MAX_VIOLATION])


def _of_pydantic(error: Exception) -> list[FieldViolation]:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return [FieldViolation("(all)", str(error)[:MAX_VIOLATION] or "the answer is nested too deep")]
    return [
        FieldViolation(".".join(map(str, each["loc"])) or "(all)", each["msg"][:MAX_VIOLATION])
        for each in error.errors(include_url=False, include_context=False, include_input=False)[:MAX_VIOLATIONS]
    ]
