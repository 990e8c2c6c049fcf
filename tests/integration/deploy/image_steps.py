"""Executes the steps of a Dockerfile in folders of this machine, without a container engine.

Each stage has a folder that stands for its root. COPY copies, admitted by the dockerignore file; RUN executes the same
command with the machine's own programs, and with the absolute paths of a stage in its folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

ROOTED: Final = re.compile(r"(?<![\w.$/}-])/(src|opt|out|app)(?=[/:\s\"*]|$)")
"""Absolute paths that the images use; `/usr`, `/tmp` and programs are those of the machine."""

RUN_SECONDS: Final = 540.0

_WORDS: Final = re.compile(r"\$\{(\w+)\}|\$(\w+)")


@dataclass
class Stage:
    """A stage of a build: its folder, its variables, and how its program starts."""

    root: Path
    base: str
    workdir: str = "/"
    env: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    ports: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The folder of WORKDIR."""
        return self.root / self.workdir.lstrip("/")

    def rooted(self, text: str) -> str:
        """Returns a text with the absolute paths of the stage in its folder."""
        return ROOTED.sub(lambda found: f"{self.root}/{found[1]}", text)

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment of a process of the stage on this machine."""
        own = {name: self.rooted(value) for name, value in self.env.items()}
        if "PATH" in own:
            own["PATH"] = own["PATH"].replace("$PATH", os.environ["PATH"])
        return {"PATH": os.environ["PATH"], **own, **more}


def instructions(text: str) -> list[tuple[str, str]]:
    """Returns the instructions of a Dockerfile, each in one line, without comments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


class Build:
    """Executes the Dockerfile at `file`, with `context` as the root of the repository, below `folder`. The programs of
    the folder `programs`, if given, come before those of the machine: commands may install into what is theirs."""

    def __init__(self, file: Path, context: Path, folder: Path, programs: Path | None = None) -> None:
        self._path = f"{programs}{os.pathsep}{os.environ['PATH']}" if programs is not None else os.environ["PATH"]
        self.stages: dict[str, Stage] = {}
        self._context = context
        self._folder = folder
        self._instructions = instructions(file.read_text())
        rules = file.with_name(f"{file.name}.dockerignore").read_text().splitlines()
        self._rules = [rule for rule in rules if rule and not rule.startswith("#")]

    def run(self) -> Stage:
        """Returns the last stage. Fails the test with the output of a command that fails."""
        arguments: dict[str, str] = {}
        stage: Stage | None = None
        for word, rest in self._instructions:
            rest = _WORDS.sub(lambda found: arguments.get(found[1] or found[2], found[0]), rest)
            if word == "ARG":
                name, _, value = rest.partition("=")
                arguments[name] = value
            elif word == "FROM":
                base, _, name = rest.partition(" AS ")
                stage = self.stages[name] = Stage(self._folder / name, base)
                stage.root.mkdir()
            else:
                assert stage is not None
                self._execute(stage, word, rest)
        assert stage is not None
        return stage

    def _execute(self, stage: Stage, word: str, rest: str) -> None:
        match word:
            case "WORKDIR":
                stage.workdir = rest
                stage.folder.mkdir(parents=True, exist_ok=True)
            case "COPY":
                self._copy(stage, rest)
            case "RUN":
                command = ["/bin/sh", "-ec", stage.rooted(rest)]
                environment = {**os.environ, **stage.environment({}), "PATH": self._path}
                done = subprocess.run(
                    command, cwd=stage.folder, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS
                )
                assert done.returncode == 0, f"RUN {rest}\n{(done.stdout + done.stderr)[-3000:]}"
            case "ENV":
                stage.env |= dict(pair.split("=", 1) for pair in shlex.split(rest))
            case "USER":
                stage.user = rest
            case "EXPOSE":
                stage.ports.append(rest)
            case "ENTRYPOINT":
                stage.entrypoint = [stage.rooted(part) for part in json.loads(rest)]
            case _:
                raise AssertionError(f"{word} is no instruction that these images use")

    def _copy(self, stage: Stage, rest: str) -> None:
        words = rest.split()
        source: Path | None = None
        if words[0].startswith("--from="):
            source = self.stages[words.pop(0).removeprefix("--from=")].root
        *names, target = words
        destination = stage.folder / target if not target.startswith("/") else stage.root / target.lstrip("/")
        for name in names:
            origin = (self._context if source is None else source) / name.lstrip("/")
            assert origin.exists(), f"COPY {rest}: there is no {name}"
            into = destination / origin.name if target.endswith("/") and origin.is_file() else destination
            into.parent.mkdir(parents=True, exist_ok=True)
            if origin.is_file():
                shutil.copy2(origin, into)
            else:
                leave = None if source is not None else self._ignored
                shutil.copytree(origin, into, symlinks=True, dirs_exist_ok=True, ignore=leave)
            if source is None:
                assert self._admitted(name.rstrip("/")), f"the dockerignore file leaves out {name}"

    def _admitted(self, name: str) -> bool:
        return any(name == rule[1:] or name.startswith(f"{rule[1:]}/") for rule in self._rules if rule[0] == "!")

    def _ignored(self, folder: str, names: list[str]) -> set[str]:
        patterns = [rule.removeprefix("**/") for rule in self._rules if rule.startswith("**/")]
        return {name for name in names for pattern in patterns if fnmatch(name, pattern)}
