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

SLOW_FILES: Final = ("\npytestmark = pytest.mark.slow\n", "\npytestmark = pytest.mark.search\n")
"""Lines of a file all of whose tests are slow."""

WORDS: Final = {
    "slow": ("mark.slow", "mark.search", "one_in(", "hypothesis", "fresh_mesh"),
    "slow and not search": ("mark.slow", "fresh_mesh"),
    "search": ("mark.search", "one_in(", "hypothesis", "fresh_mesh"),
}
"""By the value of `-m`: tests that it selects have one of these words in their file, or in a conftest.py above it. Each
session checks that."""


@cache
def may_be(wanted: str, file: Path) -> bool:
    """Returns whether `-m` may select tests of a file."""
    above = [folder / "conftest.py" for folder in file.parents if folder.is_relative_to(TESTS) and folder != TESTS]
    texts = [each.read_text() for each in (file, *above) if each.exists()]
    return any(word in text for word in WORDS[wanted] for text in texts)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files none of whose tests are selected by `-m`: they are not even imported."""
    wanted = config.getoption("-m")
    if not collection_path.match("test_*.py"):
        return None
    if wanted == "not slow":
        text = collection_path.read_text()
        left_out = any(line in text for line in SLOW_FILES)
    else:
        left_out = wanted in WORDS and not may_be(wanted, collection_path)
    return True if left_out else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts tests into the order for workers. A test that searches is a slow test. With the profile `search`, property tests
    search too: they try examples that no run before has tried."""
    if config.getoption("--hypothesis-profile") == "search":
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker(pytest.mark.search)
    unseen = set()
    for item in items:
        if item.get_closest_marker("search"):
            item.add_marker(pytest.mark.slow)
        mark = "search" if item.get_closest_marker("search") else "slow and not search"
        if item.get_closest_marker("slow") and not may_be(mark, item.path):
            unseen.add(item.path)
    if unseen:
        raise pytest.UsageError(f"make test-slow or test-search would leave out tests of {unseen}: see WORDS")
    items[:] = [items[index] for index in in_order([item.nodeid for item in items])]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    """Creates the scheduler that distributes tests over workers."""
    return Scheduler(config, log)
