"""Programs and virtual environments of other frameworks: installed on the first use, below the user's cache, and found
again afterwards."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from tests.interop import cache, tools


class NotInstalled(Exception):
    """An installation cannot be made; the message says why."""


@dataclass(frozen=True)
class Installation(ABC):
    """A folder with these packages, each pinned as in `name==version`."""

    name: str
    packages: tuple[str, ...]
    within: ClassVar[float] = 600.0

    @property
    def folder(self) -> Path:
        """The folder of the installation; another machine or other packages give another one."""
        key = hashlib.sha256("\n".join((self._machine(), *self.packages)).encode()).hexdigest()[:16]
        return cache.folder().parent / "environments" / f"{self.name}-{key}"

    @property
    def is_complete(self) -> bool:
        """Whether the packages are installed."""
        return (self.folder / "complete").exists()

    def provide(self) -> None:
        """Installs the packages unless they are. Raises NotInstalled."""
        try:
            with cache.lock(self.folder.with_suffix(".lock")):
                if not self.is_complete:
                    self._install()
        except OSError as error:
            raise NotInstalled(str(error)) from error

    def _install(self) -> None:
        print(f"installing {', '.join(self.packages)} in {self.folder} ...", flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for command in self._commands():
            try:
                done = subprocess.run(
                    command,
                    env={**inherited, **self._environment()},
                    capture_output=True,
                    text=True,
                    timeout=self.within,
                )
            except subprocess.TimeoutExpired:
                raise NotInstalled(f"{' '.join(command)} took more than {self.within:g} s") from None
            if done.returncode:
                raise NotInstalled((done.stderr or done.stdout).strip()[-500:])
        (self.folder / "complete").touch()

    def _machine(self) -> str:
        return f"{platform.system()} {platform.machine()}"

    def _environment(self) -> Mapping[str, str]:
        """Returns further environment variables of the commands."""
        return {}

    @abstractmethod
    def _commands(self) -> Iterator[list[str]]:
        """Yields the commands that install the packages. Raises NotInstalled or OSError if a program is missing."""


class Environment(Installation):
    """A virtual environment with packages of PyPI."""

    def python(self) -> str:
        """Returns the Python of the environment, which is made if there is none. Raises NotInstalled."""
        self.provide()
        return str(self._python)

    def file(self, path: str) -> Path:
        """Returns a file of an installed package. Raises NotInstalled."""
        self.provide()
        return next(self.folder.glob(f"lib/python*/site-packages/{path}"))

    @property
    def _python(self) -> Path:
        return self.folder / "bin" / "python"

    @override
    def _machine(self) -> str:
        return sys.version

    @override
    def _commands(self) -> Iterator[list[str]]:
        yield [sys.executable, "-m", "venv", str(self.folder)]
        yield [str(self._python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *self.packages]


class NodePackage(Installation):
    """A package of npm, pinned as `name@version`, that contains a program."""

    def program(self, path: str) -> Path:
        """Returns the program at this path in the package, which is installed if it is not. Raises NotInstalled."""
        self.provide()
        return self.folder / "node_modules" / self.packages[0].rpartition("@")[0] / path

    @override
    def _commands(self) -> Iterator[list[str]]:
        npm = shutil.which("npm")
        if npm is None:
            raise NotInstalled("npm is not on PATH")
        prefix = ["--prefix", str(self.folder)]
        yield [npm, "install", *prefix, "--no-audit", "--no-fund", "--ignore-scripts", *self.packages]


class GoProgram(Installation):
    """A program of a Go package, pinned as `package@version`, that is built."""

    within = 3600.0

    def program(self) -> Path:
        """Returns the program, which is built if it is not. Raises NotInstalled."""
        self.provide()
        return self.folder / self.packages[0].partition("@")[0].rpartition("/")[2]

    @override
    def _environment(self) -> Mapping[str, str]:
        return {"GOBIN": str(self.folder)}

    @override
    def _commands(self) -> Iterator[list[str]]:
        yield [str(tools.go()), "install", *self.packages]
