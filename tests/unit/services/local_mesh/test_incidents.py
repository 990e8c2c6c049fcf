"""The exception behind an incident number is found in the logs of the mesh."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from archon import status
from archon.api.common.v1 import failure_pb2
from archon.telemetry.logs.fields import ProcessIdentity
from archon.telemetry.logs.process import formatter
from archon_services.cli.render.incidents import incident_text
from archon_services.local_mesh import Home
from archon_services.local_mesh.incidents import find_incident


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.logs.mkdir()
    return home


def logged(log: Path, error: Exception) -> failure_pb2.Failure:
    """Converts an error as a process does whose log is this file, and returns what crosses the wire."""
    handler = logging.StreamHandler(log.open("a"))
    handler.setFormatter(formatter("json", handler.stream, ProcessIdentity("designer")))
    logger = logging.getLogger("archon.status")
    logger.addHandler(handler)
    try:
        raise error
    except (KeyError, ValueError) as raised:
        return status.to_failure(status.as_error(raised, "tool.crash"))
    finally:
        logger.removeHandler(handler)
        handler.stream.close()


def test_an_incident_shows_class_message_and_log(home: Home) -> None:
    logged(home.log_file("designer-1"), KeyError("another one"))
    failure = logged(home.log_file("designer-2"), ValueError("no order 17"))
    assert "no order" not in str(failure), "it crosses the wire as a number"
    incident = find_incident(home, failure.metadata["incident"])
    assert incident is not None
    assert (incident.exception, incident.log) == ("ValueError: no order 17", home.log_file("designer-2"))
    text = incident_text(failure, home)
    assert text.startswith("ValueError: no order 17 (stack in ")
    assert text.endswith("designer-2.log)")


def test_an_incident_of_another_machine_shows_nothing(home: Home) -> None:
    failure = status.to_failure(status.as_error(ValueError("elsewhere")))
    assert incident_text(failure, home) == ""
    assert incident_text(status.to_failure(status.as_error(TimeoutError())), home) == ""
    assert find_incident(home, "../..") is None
