"""Contexts: named meshes in a file of the user; one of them may be in use."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from archon_services.cli.errors import FAILED, CliError
from archon_services.local_mesh.home import Home

RESOLUTION: Final = """\b
The mesh of a command, the first of these that names it:
  1  options: --orchestrator, --registry, --memory
  2  the environment: ARCHON_ORCHESTRATOR, ARCHON_REGISTRY, ARCHON_MEMORY,
     ARCHON_HOME
  3  the context in use: `archon context use NAME`
  4  the nearest .archon, up to the root of the repository"""


@dataclass(frozen=True, slots=True)
class Context:
    """A mesh: addresses of its services as host:port, or the folder of a mesh on this machine; a file with a token for
    them, and the OpenID provider and the client of `archon login`. Empty if unknown."""

    orchestrator: str = ""
    registry: str = ""
    memory: str = ""
    home: str = ""
    token_file: str = ""
    issuer: str = ""
    client_id: str = ""

    def serves(self, target: str) -> bool:
        """Returns whether a service of the mesh is at `target` (host:port) now."""
        if target in filter(None, (self.orchestrator, self.registry, self.memory)):
            return True
        from archon.security.mesh_folder import MeshFolder

        return bool(self.home) and MeshFolder(Path(self.home)).serves(target)


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts by name, and the name of the one in use; empty if none is."""

    contexts: Mapping[str, Context] = field(default_factory=dict)
    current: str = ""


def contexts_file() -> Path:
    """Returns the file in XDG_CONFIG_HOME, else in ~/.config. It need not exist."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    # Relative paths must be ignored: https://specifications.freedesktop.org/basedir-spec
    return (Path(folder) if os.path.isabs(folder) else Path.home() / ".config") / "archon" / "contexts.json"


def read_contexts() -> Contexts:
    """Reads the file; empty without one. Raises CliError if it is invalid or cannot be read."""
    file = contexts_file()
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
        contexts = {str(name): Context(**values) for name, values in content["contexts"].items()}
        current = content["current"]
        if not all(isinstance(value, str) for context in contexts.values() for value in asdict(context).values()):
            raise TypeError("a value is no text")
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}", code=FAILED) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise CliError(
            f"{file} is invalid", hint="Correct it, or remove it and use `archon context set`.", code=FAILED
        ) from None
    return Contexts(contexts, current if current in contexts else "")


def write_contexts(contexts: Contexts) -> None:
    """Replaces the file atomically. Raises CliError if it cannot be written."""
    from archon.private_files import replace_private_file

    file = contexts_file()
    try:
        replace_private_file(file, json.dumps(asdict(contexts), indent=2))
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}", code=FAILED) from None


def active_context() -> tuple[str, Context] | None:
    """Returns name and values of the context in use; None if there is none, or ARCHON_HOME is set, which comes before
    it. Raises CliError if the file is invalid."""
    if os.environ.get("ARCHON_HOME"):
        return None
    contexts = read_contexts()
    return (contexts.current, contexts.contexts[contexts.current]) if contexts.current else None


def find_home() -> Home:
    """Returns ARCHON_HOME, else the folder of the context in use, else the nearest `.archon`."""
    active = active_context()
    if active is None or not active[1].home:
        return Home.find()
    home = Home(Path(active[1].home))
    home.check()
    return home
