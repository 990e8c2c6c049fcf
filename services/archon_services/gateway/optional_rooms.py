"""The rooms whose packages are optional."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.util import find_spec

from archon_services.gateway.room import Room

_log = logging.getLogger(__name__)


def optional_rooms() -> Iterator[Room]:
    """Yields the rooms whose packages are installed."""
    if find_spec("a2a") is not None:
        from archon_services.gateway.a2a.room import a2a_room

        yield a2a_room
    else:
        _log.info("A2A is not served: archon-mesh[a2a] is not installed")
    if find_spec("ag_ui") is not None:
        from archon_services.gateway.agui.room import agui_room

        yield agui_room
    else:
        _log.info("AG-UI is not served: archon-mesh[agui] is not installed")
