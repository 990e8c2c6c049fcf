"""docs/reference/errors.md is what the code gives, with a remedy for each reason and kind."""

from __future__ import annotations

import re
from pathlib import Path

from archon import errors
from archon.failure_kinds import CATALOGUE
from archon_services.cli.checks.environment import known_variables
from archon_services.cli.command_table import COMMANDS
from tests.unit.docs import errors_page, remedies


def test_the_page_is_what_the_code_gives() -> None:
    assert errors_page.PAGE.read_text() == errors_page.page(), "run: python -m tests.unit.docs.errors_page"


def test_each_error_class_is_on_the_page() -> None:
    source = Path(errors.__file__).read_text()
    names = set(re.findall(r"^class (\w+)\((?!Exception)\w+", source, re.M))
    assert len(names) >= 40
    assert names <= set(re.findall(r"`(\w+)`", errors_page.PAGE.read_text()))


def test_each_reason_has_a_remedy_and_none_is_left_over() -> None:
    assert set(remedies.REASONS) == set(errors_page.reasons())


def test_each_kind_without_a_reason_has_a_remedy() -> None:
    by_reason = {reason.kind.name for reason in errors_page.reasons().values()}
    assert set(remedies.KINDS) == CATALOGUE.keys() - by_reason


def test_a_remedy_is_one_sentence() -> None:
    for remedy in (*remedies.REASONS.values(), *remedies.KINDS.values()):
        assert re.fullmatch(r"[A-Z`].*[^.]\.", remedy)
        assert ". " not in remedy


def test_a_reason_of_two_classes_names_both() -> None:
    conflict = errors_page.reasons()["CONFLICT"]
    assert {"ABORTED", "ALREADY_EXISTS"} <= set(conflict.codes)


def test_variables_and_commands_of_remedies_exist() -> None:
    texts = " ".join((*remedies.REASONS.values(), *remedies.KINDS.values()))
    assert set(re.findall(r"`archon (\w+)", texts)) <= COMMANDS.keys()
    assert set(re.findall(r"ARCHON_\w+", texts)) <= known_variables()
