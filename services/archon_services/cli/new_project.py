"""The files of a new agent in Go, TypeScript or Java, over the SDK of its language."""

from __future__ import annotations

import shlex
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Final

import archon
from archon.errors import FailedPrecondition
from archon_services.cli.contexts import find_home
from archon_services.local_mesh.ports import DEFAULT_PORTS
from archon_services.local_mesh.state import live_state

LANGUAGES: Final = {"go": "Go", "typescript": "TypeScript", "java": "Java"}

_TEMPLATES: Final = "archon_services.cli"
_SUFFIX: Final = ".txt"
"""Of the name of a template: tools of its language do not take it for a program."""

_COMMANDS: Final = {
    "go": ("go mod tidy", "go test ./...", "go run ."),
    "typescript": ("npm install", "npm test", "npm start"),
    "java": ("mvn -q test", "mvn -q exec:java"),
}
"""The commands that build, test and serve a new agent."""


def project(name: str, folder: Path, language: str) -> dict[Path, str]:
    """Returns the files of an agent of this name below `folder`, by their paths."""
    released = version("archon-mesh")
    local = local_sdk(language)
    values = {"@name@": name, "@version@": released, "@replace@": "", "@sdk@": released}
    if local is not None:
        values |= {"@replace@": f"\nreplace github.com/archon-mesh/archon/sdk/go => {local}", "@sdk@": f"file:{local}"}
    files = {}
    root = resources.files(_TEMPLATES).joinpath("templates", language)
    with resources.as_file(root) as templates:
        for path in sorted(templates.rglob(f"*{_SUFFIX}")):
            text = path.read_text()
            for mark, value in values.items():
                text = text.replace(mark, value)
            files[folder / path.relative_to(templates).with_suffix("")] = text.rstrip() + "\n"
    return files


def local_sdk(language: str) -> Path | None:
    """Returns the folder of the SDK if Archon runs from a clone of its repository, else None."""
    folder = Path(archon.__file__).resolve().parents[3] / "sdk" / language
    return folder if folder.is_dir() else None


def steps(name: str, folder: Path, language: str) -> list[str]:
    """Returns the commands that build, test and serve the agent, and give it a task, as lines for a person."""
    first = []
    if (local := local_sdk(language)) is not None:
        path = shlex.quote(str(local))
        if language == "typescript":
            first = [f"(cd {path} && npm ci && npm run build)"]
        elif language == "java":
            first = [f"mvn -q -f {path} install -DskipTests"]
    *build, serve = _COMMANDS[language]
    home, registry = _mesh()
    return [
        "Build and test it:",
        *(f"  {line}" for line in (*first, f"cd {shlex.quote(str(folder))}", *build)),
        "Serve it while the mesh runs (`archon up` starts it, `archon status` has its addresses):",
        f"  export {home}ARCHON_REGISTRY={registry}",
        f"  {serve}",
        "Give it a task, in another terminal:",
        f'  {home}archon run --role {name} "hello"',
        f"Elsewhere, or with ARCHON_ATTACH, it needs ARCHON_TOKEN: `archon token --role {name}` prints its token.",
    ]


def _mesh() -> tuple[str, str]:
    """Returns the assignment by which programs in any folder find the mesh of this one, and its registry's address."""
    registry = f"127.0.0.1:{DEFAULT_PORTS['registry']}"
    try:
        home = find_home()
        state = live_state(home)
    except FailedPrecondition:  # the folder cannot be used: `archon up` says why
        return "", registry
    if state is not None and state.registry:
        registry = state.registry
    return f"ARCHON_HOME={shlex.quote(str(home.root))} ", registry
