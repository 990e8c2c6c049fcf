"""What the exceptions of tools mean."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from archon_mesh.tools.errors import MAX_NAMES, MissingCredentials, UnknownTool
from archon_mesh.tools.failures import MAX_MESSAGE, failure_of, failure_of_kind, message_of, reason_of


class Carrying(Exception):
    """An error of a client of HTTP."""

    def __init__(self, **fields: Any) -> None:
        super().__init__("it failed")
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (399, "tool.crash"),
        (400, "tool.crash"),
        (401, "tool.permission"),
        (402, "tool.crash"),
        (403, "tool.permission"),
        (429, "infrastructure.rate_limit"),
        (499, "tool.crash"),
        (500, "tool.network"),
        (501, "tool.network"),
        (599, "tool.network"),
        (600, "tool.crash"),
        (99, "tool.crash"),
        ("500", "tool.crash"),
        (True, "tool.crash"),
    ],
)
def test_a_status_of_http_tells_the_kind(status: object, kind: str) -> None:
    for fields in ({"response": SimpleNamespace(status_code=status)}, {"status": status}, {"code": status}):
        assert failure_of(Carrying(**fields)).kind == kind


def test_a_status_below_400_leaves_the_type_to_tell() -> None:
    class Broken(ConnectionError):
        status = 200

    assert failure_of(Broken()).kind == "tool.network"
    Broken.status = 400
    assert failure_of(Broken()).kind == "tool.crash"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("tool.network", "UNAVAILABLE"),
        ("tool.resource_exhaustion", "RESOURCE_EXHAUSTED"),
        ("infrastructure.rate_limit", "RESOURCE_EXHAUSTED"),
        ("tool.permission", "PERMISSION_DENIED"),
        ("tool.timeout", "DEADLINE_EXCEEDED"),
        ("tool.crash", "UNKNOWN"),
    ],
)
def test_each_kind_has_its_code(kind: str, code: str) -> None:
    failure = failure_of_kind(kind)
    assert (failure.code, failure.reason, failure.kind) == (code, code, kind)


def test_a_reason_is_a_known_name_or_nothing() -> None:
    known = {"code": "UNAVAILABLE", "reason": "UNAVAILABLE", "kind": "tool.network"}
    assert reason_of(known) == "UNAVAILABLE"
    assert reason_of({"code": "UNKNOWN", "reason": "UNKNOWN", "kind": "tool.crash"}) == "tool.crash"
    for wrong in ({"kind": "of its own"}, {"reason": "lower case"}, {"code": 1}):
        assert reason_of({**known, **wrong}) == ""


def test_a_long_message_is_cut() -> None:
    fits = "x" * (MAX_MESSAGE - len("ValueError: "))
    assert message_of(ValueError(fits)) == f"ValueError: {fits}"
    assert message_of(ValueError(fits + "yz")).endswith("x ... [2 characters left out]")


def test_an_unknown_tool_names_those_that_are_known() -> None:
    assert str(UnknownTool("a", [])) == "no tool 'a'; registered: none"
    assert str(UnknownTool("tool", ["tool1", "tool2", "tool3", "tool4"])).startswith(
        "no tool 'tool'; did you mean tool4 or tool3 or tool2? registered: tool1, "
    )
    many = [f"x{number}" for number in range(MAX_NAMES)]
    assert str(UnknownTool("b", many)).endswith(f"x{MAX_NAMES - 1}")
    assert str(UnknownTool("b", [*many, "y", "z"])).endswith(f"x{MAX_NAMES - 1} and 2 more")


def test_a_missing_credential_is_named_and_its_tool_if_known() -> None:
    error = MissingCredentials("key")
    assert (error.credential, str(error), error.metadata) == ("key", "missing credential 'key'", {"credential": "key"})
    assert MissingCredentials("key", "f").metadata == {"credential": "key", "tool": "f"}
