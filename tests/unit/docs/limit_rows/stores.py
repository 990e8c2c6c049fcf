"""Limits of stores."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "Work queued for PostgreSQL",
        "{archon_services.postgres.group_commit:MAX_WAITING}; {archon_services.postgres.connections:DEADLINE|seconds}",
        "`RESOURCE_EXHAUSTED` with a delay; `UNAVAILABLE` with a delay",
        [
            "test_the_queue_for_the_database_has_a_bound",
            "test_a_server_that_freezes_for_long_is_unavailable",
        ],
    ),
    Limit(
        "Connections of an orchestrator to PostgreSQL",
        "8",
        "Requests wait.",
        ["test_an_orchestrator_takes_eight_connections_at_most"],
    ),
    Limit(
        "Work queued for the SQLite writer",
        "{archon_services.common.sqlite_writer:MAX_WAITING}",
        "`RESOURCE_EXHAUSTED` with a delay",
        ["test_the_queue_of_writes_has_a_bound"],
    ),
    Limit(
        "The disk",
        "its size",
        "`RESOURCE_EXHAUSTED` with a delay; results stay with their agents.",
        [
            "test_durability_5_a_full_disk_refuses_until_there_is_room",
            "test_a_full_disk_refuses_steps_until_there_is_room",
        ],
    ),
]
