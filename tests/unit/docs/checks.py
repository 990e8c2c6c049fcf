"""The checks of `.ci`, which are programs and no modules of a package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[3]


def load_check(name: str) -> Any:
    """Imports `.ci/NAME.py`."""
    spec = importlib.util.spec_from_file_location(f"check_{name}", ROOT / ".ci" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module
