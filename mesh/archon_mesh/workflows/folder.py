"""The workflows of some folders, by name and version."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, NotFound
from archon_mesh.declared.document import MAX_BYTES, Document
from archon_mesh.workflows.load import load_workflow
from archon_mesh.workflows.workflow import SEPARATOR, Workflow

FOLDER: Final = "workflows"
"""The name of a folder of workflows."""

VARIABLE: Final = "ARCHON_WORKFLOWS"

MAX_FILES: Final = 1_000
"""Files of a folder that are read."""

MAX_DIGITS: Final = 9
"""Digits of a version that is asked for."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that is no workflow, and why."""

    path: Path
    error: ArchonError


class WorkflowFolder:
    """Finds workflows in folders, which may be missing. Files are read anew by each call."""

    def __init__(self, *folders: Path | str) -> None:
        try:
            self.folders = tuple(dict.fromkeys(Path(folder).absolute() for folder in folders))
        except FileNotFoundError:
            raise FailedPrecondition("the current directory has been removed: change to another one") from None

    @classmethod
    def from_environment(cls, home: Path | None = None, environment: Mapping[str, str] | None = None) -> WorkflowFolder:
        """Returns the folder in ARCHON_WORKFLOWS; without it, `workflows` in the current directory and in `home`."""
        configured = (os.environ if environment is None else environment).get(VARIABLE, "")
        if configured:
            return cls(configured)
        return cls(FOLDER, *([home / FOLDER] if home is not None else []))

    def list(self) -> tuple[list[Workflow], list[Broken]]:
        """Returns all workflows by name and version, the highest version first, and the files that are broken. Raises
        InvalidArgument if two files have the same name and version."""
        workflows: list[Workflow] = []
        broken: list[Broken] = []
        self._index()
        for path in self._files():
            try:
                workflows.append(load_workflow(path, self.find))
            except ArchonError as error:
                broken.append(Broken(path, error))
        return sorted(workflows, key=lambda each: (each.name, -each.version)), broken

    def load(self, reference: str) -> Workflow:
        """Returns a workflow by name, of the highest version, or by NAME@VERSION. Raises NotFound, and InvalidArgument
        if the file is wrong, or another one has the same name and version."""
        return load_workflow(self.find(reference), self.find)

    def find(self, reference: str) -> Path:
        """Returns the file of a workflow. Raises NotFound and InvalidArgument."""
        name, separator, version = reference.partition(SEPARATOR)
        if separator and not (version.isascii() and version.isdigit() and len(version) <= MAX_DIGITS):
            raise InvalidArgument(
                f"invalid version {version!r} in {reference}: expected a whole number, as in {name}@1"
            )
        versions = {number: path for (each, number), path in self._index().items() if each == name}
        wanted = int(version) if separator else max(versions, default=0)
        if wanted in versions:
            return versions[wanted]
        shown = ", ".join(map(str, self.folders))
        if versions:
            listed = ", ".join(map(str, sorted(versions)))
            raise NotFound(f"there is no version {version} of the workflow {name}; there are {listed}")
        for path in self._files():
            if path.stem == name or _is_named(path, name):
                load_workflow(path, self.find)  # raises its error
        raise NotFound(f"there is no workflow {name} in {shown}", metadata={"workflow": name})

    def _index(self) -> dict[tuple[str, int], Path]:
        """Returns the files by name and version. Files that cannot be read are left out. Raises InvalidArgument for two
        files with the same."""
        found: dict[tuple[str, int], Path] = {}
        for path in self._files():
            try:
                content = Document(path, None).value
            except ArchonError:
                continue
            if not isinstance(content, dict) or not isinstance(content.get("name"), str):
                continue
            version = content.get("version", 1)
            key = content["name"], version if isinstance(version, int) else 1
            if key in found:
                reference = f"{key[0]}{SEPARATOR}{key[1]}"
                raise InvalidArgument(f"two files have the workflow {reference}: {found[key]} and {path}")
            found[key] = path
        return found

    def _files(self) -> Sequence[Path]:
        files: list[Path] = []
        for folder in self.folders:
            if folder.is_dir():
                try:
                    names = [path for path in folder.iterdir() if path.suffix in (".yaml", ".yml") and path.is_file()]
                except OSError as error:
                    raise FailedPrecondition(f"cannot read the folder {folder}: {error.strerror}") from None
                files += sorted(names)[:MAX_FILES]
        return files


def _is_named(path: Path, name: str) -> bool:
    """Whether a file that may be no YAML says that it has this name."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_BYTES)
    except OSError:
        return False
    return re.search(rf"""^name:\s*(["']?){re.escape(name)}\1\s*(#.*)?$""", text, re.MULTILINE) is not None
