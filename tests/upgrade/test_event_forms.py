"""A release whose stored events differ from those of the previous release has another revision of events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.upgrade.release import Release, present, previous

pytestmark = pytest.mark.slow


def forms(release: Release) -> dict[str, Any]:
    """Returns the output of event_forms.py with a release."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("event_forms.py"))],
        env={**os.environ, "PYTHONPATH": release.path, "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    form: dict[str, Any] = json.loads(done.stdout)
    return form


def test_durability_7_events_of_another_form_have_a_new_revision(tmp_path: Path) -> None:
    before, now = forms(previous(tmp_path)), forms(present())
    added = set(now["fields"]) - set(before["fields"])
    assert not set(before["fields"]) - set(now["fields"]), "what is stored keeps its number and its type"
    assert now["revision"] == before["revision"] + bool(added), (
        f"REVISION in convert/event_revision.py: {sorted(added)}"
    )
