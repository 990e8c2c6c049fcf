"""The package from which tests import: its names, their types, and what it says without the services."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import archon_mesh.testing

TYPES = Path(archon_mesh.testing.__file__).with_suffix(".pyi")

LIGHT = """
import sys, archon_mesh.testing
heavy = {'grpc', 'pydantic', 'archon_services', 'archon.testing', 'archon_mesh.llm'}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
import time
assert time.monotonic.__module__ == 'time', "the clock is replaced by its first use"
from archon_mesh.testing import VirtualTime, ScriptedModel, FaultyModel
assert 'archon_services' not in sys.modules
"""

WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] == 'archon_services':
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from archon_mesh.testing import FakeAgent, FakeOrchestrator, ScriptedModel, VirtualTime
try:
    from archon_mesh.testing import InProcessMesh
except ImportError as error:
    print(error)
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True).stdout


def test_the_package_is_light_until_a_name_is_used() -> None:
    run(LIGHT)


def test_without_the_services_their_names_say_so() -> None:
    assert run(WITHOUT) == (
        "InProcessMesh of archon_mesh.testing needs the services of Archon (the package archon_services), which are not "
        "installed here: pip install archon-mesh\n"
    )


def test_types_and_names_are_the_same() -> None:
    pairs = re.findall(r"^from ([\w.]+) import (\w+) as \2$", TYPES.read_text(), re.M)
    assert sorted(name for _, name in pairs) == archon_mesh.testing.__all__
    for module, name in pairs:
        assert getattr(archon_mesh.testing, name) is getattr(import_module(module), name)


def test_other_names_are_missing_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Mesh'"):
        archon_mesh.testing.Mesh  # type: ignore[attr-defined]  # noqa: B018


def test_products_do_not_import_the_package() -> None:
    root = Path(__file__).parents[4]
    packages = [root / "sdk/python/archon", root / "mesh/archon_mesh", root / "services/archon_services"]
    files = [file for package in packages for file in package.rglob("*.py") if "testing" not in file.parts]
    assert [
        file for file in files if re.search(r"^\s*(from|import) archon_mesh\.testing", file.read_text(), re.M)
    ] == []
