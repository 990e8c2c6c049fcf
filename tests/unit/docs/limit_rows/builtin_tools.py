"""Limits of the tools that come with Archon."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "An expression; nesting; bits of a whole number; factorial",
        "{archon_mesh.tools.builtin.arithmetic:MAX_CHARS|characters}; {archon_mesh.tools.builtin.arithmetic:MAX_DEPTH}; "
        "{archon_mesh.tools.builtin.arithmetic:MAX_BITS}; {archon_mesh.tools.builtin.arithmetic:MAX_FACTORIAL}",
        "`INVALID_ARGUMENT`",
        ["test_what_has_no_value_is_refused_with_the_reason"],
    ),
    Limit(
        "Part of a file that one call reads; a file that one call writes",
        "{archon_mesh.tools.builtin.files:READ_BYTES|bytes}; {archon_mesh.tools.builtin.files:WRITE_BYTES|bytes}",
        "A note says from where to read on; `INVALID_ARGUMENT`.",
        ["test_a_long_file_is_read_part_by_part", "test_what_is_missing_or_no_text_or_too_large_is_refused"],
    ),
    Limit(
        "Entries of a folder that one call lists; parts of a path; bytes of a part",
        "{archon_mesh.tools.builtin.files:MAX_ENTRIES}; {archon_mesh.tools.builtin.folder:MAX_PARTS}; "
        "{archon_mesh.tools.builtin.folder:MAX_NAME_BYTES}",
        "`more` is true; `INVALID_ARGUMENT`.",
        ["test_a_large_folder_is_listed_in_part", "test_a_path_that_is_too_long_is_refused"],
    ),
    Limit(
        "A sandboxed program: time; CPU time of each process",
        "{archon_mesh.tools.builtin.sandbox:DEFAULT.seconds|seconds}; "
        "{archon_mesh.tools.builtin.sandbox:DEFAULT.cpu_seconds|seconds}; `SandboxLimits`",
        "It is killed with all that it started.",
        ["test_a_program_that_does_not_end_is_killed"],
    ),
    Limit(
        "Its memory per process; processes and threads; files; open files",
        "{archon_mesh.tools.builtin.sandbox:DEFAULT.memory_bytes|bytes}; "
        "{archon_mesh.tools.builtin.sandbox:DEFAULT.processes}; "
        "{archon_mesh.tools.builtin.sandbox:DEFAULT.file_bytes|bytes}; "
        "{archon_mesh.tools.builtin.sandbox:DEFAULT.open_files}",
        "The system call fails.",
        ["test_an_escape_fails"],
    ),
    Limit(
        "Its standard output and standard error, each; its code",
        "{archon_mesh.tools.builtin.sandbox:DEFAULT.output_bytes|bytes}; "
        "{archon_mesh.tools.builtin.sandbox:DEFAULT.code_bytes|bytes}",
        "It is killed; `INVALID_ARGUMENT`.",
        ["test_a_program_that_does_not_end_is_killed", "test_a_program_that_is_too_large_is_refused"],
    ),
]
