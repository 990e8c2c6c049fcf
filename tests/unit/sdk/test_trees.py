"""The SDKs have the same rooms, under the same names: a reader of one finds the way in another."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]

SOURCES: Final = {
    "python": "sdk/python/archon",
    "go": "sdk/go",
    "typescript": "sdk/typescript/src",
    "java": "sdk/java/src/main/java/dev/archon/sdk",
}
"""The folder that has the rooms of each SDK."""

ROOMS: Final = frozenset(
    {"errors", "context", "channel", "registry", "memory", "client", "agent", "tools", "runview", "testing"}
)
"""The names without underscores and capitals, of a folder or of a file. No SDK lacks one."""

PYTHON_ALONE: Final = {
    "for the services and the command line, which are in Python": (
        "auditclient breakpointtext federation grpclog history hooks learning lineage memoryroom processinput schedules strategychoice"
    ),
    "a helper for Python's types, its event loop or its import": (
        "background clock init interceptors jsontext lazynames localsockets pages plaintext privatefiles py surrogates threads"
    ),
    "for models, which the other SDKs do not have": "answers messageprofile output propagation toolarguments",
    "the kinds are in the table of reasons": "failurekinds",
    "parts of the client, which is one file elsewhere": "runanswers runcontrol",
}
"""Entries of Python's SDK that no other one needs, by the reason."""

ABSENT: Final[Mapping[str, Mapping[str, str]]] = {
    "go": {
        "in the package `internal`, which programs cannot import": (
            "callwindow frames identifiers loopback principal security server wire"
        ),
        "in the package that uses it": "meshid telemetry",
        "plain types are in the package `archon` itself": "types",
        "under the name `converse`": "conversestream",
    },
    "typescript": {"a folder beside the sources": "conformance"},
    "java": {
        "a folder beside the sources, and generated": "api conformance",
        "in the package `channel`, `internal` or `errors`": (
            "frames identifiers loopback meshid principal security server status wire"
        ),
        "in the package that uses it": "callwindow telemetry",
    },
}
"""Entries of Python's SDK that another one has elsewhere."""

MORE: Final[Mapping[str, Mapping[str, str]]] = {
    "go": {
        "a part of a room, as a file of its package": (
            "channelresolver channeltarget clientlists credentials runhandle values converse"
        ),
        "of the table of reasons, which is generated": "reasonsgen generate",
        "files that the language wants": "doc go internal",
        "tests and examples beside the sources": "errorstest examples partstest secretanswerstest",
    },
    "typescript": {
        "gRPC services that Python has as packages": "grpc health reflection",
        "the entry of the package": "index",
        "in place of Python's logging and jsonschema": "log schema",
        "of the table of reasons, which is generated": "reasons",
    },
    "java": {"a class has a file of its own": "runhandle runwatch strategy", "not for programs": "internal"},
}
"""Entries that Python's SDK does not have, by the reason."""


def entries(language: str) -> set[str]:
    """Returns the names of the files and folders of an SDK, without suffixes, underscores and capitals."""
    folder = SOURCES[language]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = {Path(file).relative_to(folder).parts[0] for file in files if (ROOT / file).exists()}
    return {re.sub(r"[_-]", "", name.partition(".")[0]).lower() for name in names}


def listed(*tables: Mapping[str, str]) -> set[str]:
    """Returns the names of tables whose keys are reasons."""
    return {name for table in tables for names in table.values() for name in names.split()}


@pytest.mark.parametrize("language", SOURCES)
def test_an_sdk_has_every_room(language: str) -> None:
    assert ROOMS - entries(language) == set()


@pytest.mark.parametrize("language", ABSENT)
def test_what_an_sdk_lacks_has_a_reason(language: str) -> None:
    assert entries("python") - entries(language) - listed(PYTHON_ALONE, ABSENT[language]) == set()


@pytest.mark.parametrize("language", MORE)
def test_what_an_sdk_has_more_has_a_reason(language: str) -> None:
    assert entries(language) - entries("python") - listed(MORE[language]) == set()


@pytest.mark.parametrize("language", ABSENT)
def test_no_reason_is_out_of_date(language: str) -> None:
    lacks, has = entries("python") - entries(language), entries(language) - entries("python")
    assert listed(ABSENT[language]) - lacks == set()
    assert listed(MORE[language]) - has == set()
    assert listed(PYTHON_ALONE) - lacks == set()
    assert not listed(ABSENT[language], PYTHON_ALONE) & ROOMS
