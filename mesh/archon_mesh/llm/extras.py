"""Imports packages that are installed on request only."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from archon.errors import FailedPrecondition


def import_extra(package: str, extra: str) -> ModuleType:
    """Imports a package of an extra. Raises FailedPrecondition, with the package to install, if it is missing."""
    try:
        return import_module(package)
    except ImportError:
        raise FailedPrecondition(
            f"the package {package} is not installed: run `pip install 'archon-mesh[{extra}]'`",
            metadata={"package": package, "extra": extra},
        ) from None
