"""docs/reference/python.md is what the code gives, and docs and examples import nothing else."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.unit.docs import python_page
from tests.unit.docs.checks import ROOT, load_check

PUBLIC = load_check("public")


def test_the_page_is_what_the_code_gives() -> None:
    assert python_page.PAGE.read_text() == python_page.page(), "run: python -m tests.unit.docs.python_page"


@pytest.mark.parametrize("name", python_page.MODULES)
def test_each_name_of_a_public_module_can_be_imported(name: str) -> None:
    module = import_module(name)
    assert all(getattr(module, each) is not None for each in python_page.names_of(module))


def test_docs_examples_and_packages_import_public_names_only() -> None:
    assert list(PUBLIC.check(ROOT)) == []


def tree(root: Path, **files: str) -> Path:
    """Writes files, whose paths have `__` for `/`, beside a page with two modules."""
    (root / "docs/reference").mkdir(parents=True)
    (root / PUBLIC.PAGE).write_text("## `archon`\n\n| `Client` | x |\n\n## `archon.errors`\n\n| `NotFound` | x |\n")
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_md", ".md").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("from archon import Hidden", "Hidden is no public name of archon"),
        ("from archon.wire import text_of", "archon.wire is no public module"),
        ("import archon_mesh.engine", "archon_mesh.engine is no public module"),
        ("def f():\n    from archon.errors import _Base", "_Base is no public name of archon.errors"),
    ],
)
def test_a_private_import_of_an_example_or_a_guide_is_found(tmp_path: Path, code: str, problem: str) -> None:
    block = "Text.\n\n  ```python\n" + "".join(f"  {line}\n" for line in code.splitlines()) + "  ```\n"
    root = tree(tmp_path, examples__a_py=code, docs__a_md=block)
    line = 1 + code.count("\n")
    assert list(PUBLIC.check(root)) == [f"docs/a.md:{line + 3}: {problem}", f"examples/a.py:{line}: {problem}"]


def test_a_private_import_from_another_package_is_found(tmp_path: Path) -> None:
    code = "from archon.client import _private\nfrom archon._own import x\nfrom archon_mesh._own import y\n"
    root = tree(tmp_path, mesh__archon_mesh__a_py=code)
    assert list(PUBLIC.check(root)) == [
        "mesh/archon_mesh/a.py:1: _private of archon.client is private to the package archon",
        "mesh/archon_mesh/a.py:2: _own of archon._own is private to the package archon",
    ]


def test_public_names_stubs_and_other_packages_pass(tmp_path: Path) -> None:
    code = "import os\nfrom archon import Client, errors\nfrom archon.api.common.v1 import common_pb2\nimport archon.errors\n"
    assert list(PUBLIC.check(tree(tmp_path, examples__a_py=code))) == []


def test_importing_a_package_imports_none_of_its_names() -> None:
    code = (
        "import sys, archon, archon_mesh, archon_mesh.memory\n"
        "heavy = {'grpc', 'pydantic', 'sqlalchemy', 'networkx', 'archon_mesh.agent', 'archon.client'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert archon_mesh.tool is archon_mesh.tool and 'archon_mesh.tools' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
