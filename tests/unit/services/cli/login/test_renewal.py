"""The thread that keeps a login fresh while a command goes on."""

from __future__ import annotations

import threading
import time

import pytest

from archon_services.cli.errors import CliError
from archon_services.cli.login import renewal
from archon_services.cli.login.renewal import Renewal
from archon_services.cli.login.stored import Login
from tests.fixtures.waiting import wait_until


def login(token: str, seconds: float) -> Login:
    return Login("https://login.example.com", "archon-cli", token, time.time() + seconds, "refresh")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "_RETRY", 0.01)


def test_a_login_is_replaced_while_a_command_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = login("second", 600)
    monkeypatch.setattr(renewal, "fresh_login", lambda name: fresh)
    kept = Renewal("prod", login("first", 60))
    wait_until(lambda: kept.login is fresh)
    kept.close()
    assert not kept._thread.is_alive()


@pytest.mark.parametrize("ended", [None, CliError("it has expired")])
def test_a_login_that_has_ended_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch, ended: CliError | None) -> None:
    asked = threading.Event()

    def fresh(name: str) -> None:
        asked.set()
        if ended is not None:
            raise ended

    monkeypatch.setattr(renewal, "fresh_login", fresh)
    first = login("first", 60)
    kept = Renewal("prod", first)
    assert asked.wait(10)
    kept._thread.join(10)
    assert (kept._thread.is_alive(), kept.login) == (False, first)
