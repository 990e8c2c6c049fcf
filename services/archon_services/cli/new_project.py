"""The files of a new agent in Go, TypeScript or Java, over the SDK of its language."""

from __future__ import annotations

from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Final

import archon

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


def steps(folder: Path, language: str) -> list[str]:
    """Returns the commands that build, test and serve the agent, as lines for a person."""
    first = []
    if (local := local_sdk(language)) is not None:
        if language == "typescript":
            first = [f"(cd {local} && npm ci && npm run build)"]
        elif language == "java":
            first = [f"mvn -q -f {local} install -DskipTests"]
    *build, serve = _COMMANDS[language]
    return [
        *first,
        f"cd {folder}",
        *build,
        "archon up --detach          # unless a mesh is running; `archon status` shows the address of its registry",
        f"ARCHON_REGISTRY=127.0.0.1:7101 {serve}",
        f'archon run "Hello." --role {folder.name}   # in another terminal',
        "On another machine, or with ARCHON_ATTACH, it needs a token: "
        f"ARCHON_TOKEN=$(archon token --role {folder.name})",
    ]
