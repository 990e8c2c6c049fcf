"""The revision of the form of stored events."""

from __future__ import annotations

from typing import Final

REVISION: Final = 2
"""The newest revision of events that this code can fold, and the one that it writes.

A run has the revision of the newest replica that has driven it: a replica of an earlier release leaves it alone. A
release that adds to the events of the previous release, a kind or a field, has the next number;
`tests/upgrade/test_event_forms.py` compares the two.
"""
