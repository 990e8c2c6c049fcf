"""Virtual environments of other frameworks: made on the first use, below the user's cache, and found again afterwards."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.interop import cache

INSTALL_TIMEOUT = 600.0


class NotInstalled(Exception):
    """An environment cannot be made; the message says why."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with these packages, each pinned as `name==version`."""

    name: str
    packages: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """The folder of the environment; another Python or other packages give another one."""
        key = hashlib.sha256("\n".join((sys.version, *self.packages)).encode()).hexdigest()[:16]
        return cache.folder().parent / "environments" / f"{self.name}-{key}"

    def python(self) -> str:
        """Returns the Python of the environment, which is made if there is none. Raises NotInstalled."""
        try:
            with cache.lock(self.folder.with_suffix(".lock")):
                if not self._complete.exists():
                    self._make()
        except OSError as error:
            raise NotInstalled(str(error)) from error
        return str(self.folder / "bin" / "python")

    @property
    def _complete(self) -> Path:
        return self.folder / "complete"

    def _make(self) -> None:
        print(f"making the environment of {self.name} in {self.folder} ...", flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        python = self.folder / "bin" / "python"
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *self.packages]
        inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for command in ([sys.executable, "-m", "venv", str(self.folder)], install):
            try:
                done = subprocess.run(command, env=inherited, capture_output=True, text=True, timeout=INSTALL_TIMEOUT)
            except subprocess.TimeoutExpired:
                raise NotInstalled(f"{' '.join(command)} took more than {INSTALL_TIMEOUT:g} s") from None
            if done.returncode:
                raise NotInstalled((done.stderr or done.stdout).strip()[-500:])
        self._complete.touch()
