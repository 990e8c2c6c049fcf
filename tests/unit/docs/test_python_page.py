"""docs/reference/python.md is what the code gives, docs and examples import nothing else, and signatures have plain
types."""

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


def signatures(root: Path) -> list[str]:
    return list(PUBLIC.Signatures(root).check(PUBLIC.public_names((root / PUBLIC.PAGE).read_text())))


def test_no_public_signature_has_a_class_of_the_stubs() -> None:
    assert signatures(ROOT) == []


HEAD = """
from typing import TYPE_CHECKING
from archon.api.common.v1 import common_pb2
from archon.client import Goal
if TYPE_CHECKING:
    from archon.api.common.v1.common_pb2 import Part as Hidden
"""


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("class NotFound:\n    def f(self, part: list[common_pb2.Part]): ...", ["NotFound.f has common_pb2"]),
        ("class NotFound:\n    async def f(self) -> common_pb2.Part: ...", ["NotFound.f has common_pb2"]),
        ("class NotFound:\n    def f(self, *, part: 'Hidden | None' = None): ...", ["NotFound.f has Hidden"]),
        ("class NotFound:\n    @property\n    def f(self) -> Hidden: ...", ["NotFound.f has Hidden"]),
        ("class NotFound:\n    part: Hidden", ["NotFound.part has Hidden"]),
        ("class NotFound:\n    def __init__(self):\n        self.part: Hidden = 1", ["NotFound.__init__ has Hidden"]),
        ("class _Base:\n    def f(self, x: Hidden): ...\nclass NotFound(_Base): ...", ["NotFound.f has Hidden"]),
        ("class NotFound:\n    def f(self, goal: Goal): ...", ["NotFound.f has Part"]),
        ("def NotFound(**goals: Goal): ...", ["NotFound has Part"]),
        ("NotFound = dict[str, Hidden]", ["NotFound has Hidden"]),
        ("class NotFound:\n    proto: Hidden\n    def __init__(self, proto: Hidden): ...", []),
        ("class NotFound:\n    @classmethod\n    def from_proto(cls, message: Hidden): ...", []),
        ("class NotFound:\n    _part: Hidden\n    def _f(self) -> Hidden: ...\n    def f(self, x: int): ...", []),
        ("def _f(part: Hidden): ...\nclass NotFound: ...", []),
    ],
)
def test_classes_of_the_stubs_in_signatures_are_found(tmp_path: Path, code: str, found: list[str]) -> None:
    root = tree(
        tmp_path,
        sdk__python__archon__errors_py=HEAD + code,
        sdk__python__archon__client_py="from archon.api.common.v1.common_pb2 import Part\nGoal = str | Part\n",
    )
    assert [finding.partition(": ")[2].partition(" of the stubs")[0] for finding in signatures(root)] == found


def test_a_name_is_followed_to_the_module_that_defines_it(tmp_path: Path) -> None:
    code = "from archon.api.common.v1 import common_pb2\nclass Client:\n    def f(self) -> common_pb2.Part: ...\n"
    root = tree(tmp_path, sdk__python__archon__client_py=code)
    (root / "sdk/python/archon/__init__.py").write_text("from archon.client import Client\n")
    assert signatures(root) == [
        "sdk/python/archon/client.py:3: Client.f has common_pb2 of the stubs in its signature",
    ]


def test_importing_a_package_imports_none_of_its_names() -> None:
    code = (
        "import sys, archon, archon_mesh, archon_mesh.memory\n"
        "heavy = {'grpc', 'pydantic', 'sqlalchemy', 'networkx', 'archon_mesh.agent', 'archon.client'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert archon_mesh.tool is archon_mesh.tool and 'archon_mesh.tools' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
