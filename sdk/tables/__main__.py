"""`python -m sdk.tables` writes the tables of each SDK; with `--check` it only compares, and returns 1 if one differs.

A language takes part by a module of its name in this folder, with `FILES`: a function for each path (from the root of the
repository), which returns the content of that file.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Final

from sdk.tables.reasons import ROOT

LANGUAGES: Final = ("go", "typescript", "java")


def main() -> int:
    """Writes or compares all files. Returns 0 if they are current."""
    check = "--check" in sys.argv[1:]
    code = 0
    for language in LANGUAGES:
        if not Path(__file__).with_name(f"{language}.py").exists():
            continue
        renderer = importlib.import_module(f"sdk.tables.{language}")
        for path, render in renderer.FILES.items():
            file, text = ROOT / path, render()
            if file.exists() and file.read_text() == text:
                continue
            if check:
                print(f"{path} is not current: python -m sdk.tables", file=sys.stderr)
                code = 1
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
