"""The check of names and prose, `.ci/glossary.py`, on small made-up trees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.docs.checks import ROOT, load_check

CHECK = ROOT / ".ci" / "glossary.py"
TABLE = """# Glossary

## Words not used

| kind | not | write |
|---|---|---|
| phrase | `nothing is to be counted` | Releases the slots. |
| regex | `(?<!there )\\bis none\\b` | invalid name 'x' |
| regex | `// (Which\\|Forks)\\.$` | The run to cancel. |
| regex | `\"\"\"See ` | no docstring, and `@override` |
| docstring | `\\b(what\\|that of)\\b` | a noun |
| file | `placing.py` | placement.py |
| file | `sdk/*/questions.py` | pending_calls.py |
| class | `Alarm` | Timer |

## After

| kind | not | write |
|---|---|---|
| phrase | `harmless` | nothing |
"""


GLOSSARY = load_check("glossary")


def found(root: Path) -> list[str]:
    return list(GLOSSARY.check(root))


def tree(root: Path, **files: str) -> Path:
    """Writes the files, whose names have `__` for `/` and end in `_py`, `_md` or `_proto`."""
    for key, text in {".ci__words_md": TABLE, **files}.items():
        folder, _, suffix = key.replace("__", "/").rpartition("_")
        path = root / f"{folder}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_clean_tree_passes(tmp_path: Path) -> None:
    root = tree(tmp_path, sdk__a_py='"""If there is none, harmless."""\n', README_md="Nothing is counted.\n")
    assert found(root) == []


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("mesh__a_py", "x = 1\n# nothing is to be counted\n", "mesh/a.py:2: 'nothing is to be counted'"),
        ("mesh__b_py", 'x = "it is none"\n', "mesh/b.py:1: 'is none'"),
        ("docs__c_md", "so nothing is\nto be counted\n", "docs/c.md:1: 'nothing is\\nto be counted'"),
        ("README_md", "It is none.\n", "README.md:1: 'is none'"),
        ("services__d_py", "# nothing is\n# to be counted\n", "services/d.py:1: 'nothing is\\n# to be counted'"),
        ("protos__e_proto", "message A {\n  // Which.\n}\n", "protos/e.proto:2: '// Which.'"),
        ("sdk__f_py", 'def f():\n    """See Base."""\n', 'sdk/f.py:2: \'"""See\''),
        (
            "services__archon_services__h_py",
            '"""Raises what\n`a` raises."""\n',
            "services/archon_services/h.py:1: 'what'",
        ),
        (
            "services__archon_services__i_py",
            'x = 1\n"""Uses `a\n b` and that\nof c."""\n',
            "services/archon_services/i.py:3: 'that\\nof'",
        ),
        ("services__runs__placing_py", "", "services/runs/placing.py:1: file name 'placing.py'"),
        ("sdk__python__questions_py", "", "sdk/python/questions.py:1: file name 'sdk/*/questions.py'"),
        ("mesh__g_py", "\n\nclass Alarm:\n    pass\n", "mesh/g.py:3: class name 'Alarm'"),
    ],
)
def test_a_word_not_used_is_found(tmp_path: Path, name: str, text: str, finding: str) -> None:
    lines = found(tree(tmp_path, **{name: text}))
    assert len(lines) == 1
    assert lines[0].startswith(f"{finding}: write ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("services__questions_py", ""),
        ("services__archon_services__j_py", '"""`what` names it."""\nx = "what"  # what\n'),
        ("services__other__k_py", '"""Raises what it raises."""\n'),
        ("mesh__alarms_py", "class Alarms:\n    pass\n"),
        ("examples__placing_py", "class Alarm:\n    '''It is none.'''\n"),
        ("sdk__python__archon__api__a_py", '"""See protos."""\n'),
    ],
)
def test_other_names_and_folders_pass(tmp_path: Path, name: str, text: str) -> None:
    assert found(tree(tmp_path, **{name: text})) == []


@pytest.mark.parametrize("row", ["| verb | `x` | y |", "| phrase | x | y |", "| phrase | `x` |"])
def test_a_row_that_cannot_be_read_is_an_error(tmp_path: Path, row: str) -> None:
    tree(tmp_path, **{".ci__words_md": f"{TABLE.partition('| phrase')[0]}{row}\n"})
    with pytest.raises(ValueError, match="cannot read the row"):
        found(tmp_path)


def test_a_missing_table_is_an_error(tmp_path: Path) -> None:
    tree(tmp_path, **{".ci__words_md": "# Words\n"})
    with pytest.raises(ValueError, match="no table"):
        found(tmp_path)


def test_the_table_of_the_glossary_is_read() -> None:
    assert len(GLOSSARY.banned(ROOT)) > 20


def test_the_program_prints_what_it_finds_and_fails(tmp_path: Path) -> None:
    root = tree(tmp_path, mesh__g_py="class Alarm:\n    pass\n")
    result = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.startswith("mesh/g.py:1: class name 'Alarm'")
