"""Limits of a mesh on one machine."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "Commands to its supervisor at a time; bytes of one",
        "{archon_services.local_mesh.control:MAX_CONNECTIONS}, of which one restarts or scales roles; "
        "{archon_services.local_mesh.control:MAX_REQUEST|bytes}",
        "The command is refused.",
        ["test_connections_are_bounded", "test_a_command_above_its_limit_is_refused"],
    ),
    Limit(
        "Instances of a role",
        "{archon_services.local_mesh.options:MAX_REPLICAS}",
        "`archon up` and `archon scale` refuse.",
        ["test_commands_to_a_mesh_are_for_its_owner_and_refused_typed"],
    ),
    Limit(
        "Time until a new instance is registered; until a stopped one is killed",
        "{archon_services.local_mesh.role_instances:INSTANCE_TIMEOUT|seconds}; "
        "{archon_services.local_mesh.child:GRACE|seconds}",
        "`archon restart` and `archon scale` fail; SIGKILL.",
        ["test_an_instance_that_cannot_start_is_removed"],
    ),
    Limit(
        "Files that `archon serve --reload` looks at",
        "{archon_services.cli.reload:MAX_FILES} of one folder",
        "Further files are ignored.",
        ["test_the_files_that_are_looked_at_are_bounded"],
    ),
    Limit(
        "Instances that `archon agents` asks whether they serve, and how many tasks are in progress",
        "{archon_services.cli.commands.agents:PROBED}",
        "State and load of further instances are not shown.",
        ["test_instances_beyond_the_probed_ones_have_no_state"],
    ),
]
