"""The environment of every test session, the servers that all tests share, and how tests are spread over workers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.fixtures.environment import clear_environment
from tests.fixtures.servers import etcd, fresh_etcd, fresh_postgres, postgres, postgres_dsn
from tests.fixtures.waiting import eventually_fixture

__all__ = ["etcd", "eventually_fixture", "fresh_etcd", "fresh_postgres", "postgres", "postgres_dsn"]

HERE: Final = Path(__file__).parent
LONGEST_FIRST: Final = ("chaos", "failures", "interop", "simulation", "e2e", "integration", "unit")
"""Folders in the order in which workers take them: a long test that begins last would leave the other workers idle."""


def pytest_configure(config: pytest.Config) -> None:
    """Clears the environment where tests run; the controller of workers keeps it, so that workers know the caller's."""
    if not getattr(config.option, "numprocesses", None):
        clear_environment()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps tests that share a fixture of their module on one worker, and spreads all others singly."""
    items.sort(key=_place)
    for item in items:
        if _shares_a_module_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(HERE).as_posix()))


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(HERE).parts[0]
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)


def _shares_a_module_fixture(item: pytest.Item) -> bool:
    definitions = item._fixtureinfo.name2fixturedefs.values()
    return any(definition[-1].scope in ("class", "module", "package") for definition in definitions)
