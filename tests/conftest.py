"""The environment of every test session, the fixtures that all tests share, and the distribution over workers."""

from __future__ import annotations

# isort: off
import archon_services.testing.movable_clock  # noqa: F401 - before modules that keep a reference to the clock

# isort: on
import gc
import signal
from functools import cache
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest

from tests.fixtures.environment import clear_environment
from tests.fixtures.servers import etcd, fresh_etcd, fresh_postgres, postgres, postgres_dsn
from tests.fixtures.virtual_time import clock_put_back
from tests.fixtures.waiting import eventually_fixture
from tests.fixtures.workers import Scheduler, in_order

__all__ = ["clock_put_back", "etcd", "eventually_fixture", "fresh_etcd", "fresh_postgres", "postgres", "postgres_dsn"]


# No deadline: a slow machine is not an error.
hypothesis.settings.register_profile("archon", deadline=None, max_examples=50, derandomize=True, database=None)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.register_profile("mutants", deadline=None, max_examples=20, derandomize=True, database=None)


def pytest_configure(config: pytest.Config) -> None:
    """Clears the environment where tests run; the controller of workers keeps it, so that workers know the caller's."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has its background jobs do
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not config.getoption("--hypothesis-profile"):
        hypothesis.settings.load_profile("archon")
    if not config.option.numprocesses:
        clear_environment()
        gc.disable()  # until the tests are collected


OBJECTS_BETWEEN_COLLECTIONS: Final = 50_000


def pytest_collection_finish() -> None:
    """Leaves what exists now, hundreds of thousands of objects of the tests, out of all collections of garbage."""
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    gc.enable()


TESTS: Final = Path(__file__).resolve().parent

SLOW_FILE: Final = "\npytestmark = pytest.mark.slow\n"
"""The line of a file all of whose tests are slow."""

SLOW_WORDS: Final = ("mark.slow", "one_in(", "hypothesis", "fresh_mesh")
"""Slow tests have one of these words in their file, or in a conftest.py above it: the collection of `make test` checks that."""


@cache
def may_be_slow(file: Path) -> bool:
    """Returns whether a file may have slow tests."""
    above = [folder / "conftest.py" for folder in file.parents if folder.is_relative_to(TESTS) and folder != TESTS]
    texts = [each.read_text() for each in (file, *above) if each.exists()]
    return any(word in text for word in SLOW_WORDS for text in texts)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files none of whose tests are wanted by `-m slow` or `-m "not slow"`: they are not even imported."""
    wanted = config.getoption("-m")
    if wanted not in ("slow", "not slow") or not collection_path.match("test_*.py"):
        return None
    left_out = SLOW_FILE in collection_path.read_text() if wanted == "not slow" else not may_be_slow(collection_path)
    return True if left_out else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts tests into the order for workers. With the profile `search`, property tests are slow tests too: they try examples
    that no run before has tried."""
    if config.getoption("--hypothesis-profile") == "search":
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker(pytest.mark.slow)
    unseen = {item.path for item in items if item.get_closest_marker("slow") and not may_be_slow(item.path)}
    if unseen:
        raise pytest.UsageError(f"make test-slow would leave out slow tests of {unseen}: see SLOW_WORDS")
    items[:] = [items[index] for index in in_order([item.nodeid for item in items])]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    """Creates the scheduler that distributes tests over workers."""
    return Scheduler(config, log)
