"""make mutants: changes the core, the tool engine and the parser of the text format in small ways, one at a time, and
counts the changes that a unit test notices. docs/testing/mutants.md has the figures.

`python .ci/mutants.py [PART ...]` takes the parts below, by default all. The mutants lie in a copy of the sources that
the next run of the same part reuses.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FLOOR: Final = 0.85
"""Mutants that must be killed, as a part of all."""

PARTS: Final = {
    "core": (("archon_mesh/core/*", "archon_mesh/engine/*"), ("tests/unit/mesh/core", "tests/unit/mesh/engine")),
    "tools": (("archon_mesh/tools/*.py",), ("tests/unit/mesh/tools",)),
    "parser": (("archon_mesh/llm/text_format/*",), ("tests/unit/mesh/llm/text_format",)),
}
"""Sources to change, and the tests that have to notice."""

LEFT_OUT: Final = tuple(f"archon_mesh/tools/{folder}/*" for folder in ("builtin", "composite", "mcp", "people"))
"""Tools that use the engine. Most of them are tested with real databases, servers, processes, or in a mesh."""

SOURCES: Final = ("mesh/archon_mesh", "sdk/python/archon", "services/archon_services", "tests")
KILLED: Final = {1, 3, 36, 24, -24, 152, 255, -11, -9}
"""Exit codes of a test run that noticed: a test failed, ran too long, or crashed."""

UNTESTED: Final = {5, 33}


def main(parts: list[str]) -> int:
    """Runs the parts; returns 1 if less than FLOOR of all mutants were killed."""
    if unknown := [part for part in parts if part not in PARTS]:
        print(f"error: unknown part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
        return 2
    total: Counter[str] = Counter()
    for part in parts or PARTS:
        folder = ROOT / ".mutants" / part
        print(f"{part}: this takes from ten minutes to an hour ...", flush=True)
        prepare(folder, *PARTS[part])
        forget_survivors(folder)
        subprocess.run([ROOT / ".venv/bin/mutmut", "run"], cwd=folder, stdout=subprocess.DEVNULL, check=False)
        total += report(part, folder)
    share = total["killed"] / max(1, sum(total.values()))
    print(f"all: {share:.1%} of {sum(total.values()):,} mutants killed (at least {FLOOR:.0%})")
    return 0 if share >= FLOOR else 1


def prepare(folder: Path, sources: tuple[str, ...], tests: tuple[str, ...]) -> None:
    """Copies the sources, so that mutants have the import paths of their modules, and writes mutmut's configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        target = folder / Path(source).name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
    (folder / "setup.cfg").write_text(
        "[mutmut]\n"
        "source_paths=archon_mesh\n"
        f"only_mutate={_lines(sources)}\n"
        f"do_not_mutate={_lines(LEFT_OUT)}\n"
        f"also_copy={_lines(('archon', 'archon_services', 'pytest.ini'))}\n"
        f"pytest_add_cli_args_test_selection={_lines(tests)}\n"
    )
    (folder / "pytest.ini").write_text(
        "[pytest]\n"
        "addopts = --import-mode=importlib -p no:cacheprovider --hypothesis-profile=mutants -m 'not large'\n"
        "asyncio_mode = auto\n"
        "asyncio_default_fixture_loop_scope = session\n"
        "asyncio_default_test_loop_scope = session\n"
        "pythonpath = .\n"
        "markers =\n  short: short\n  liveness: liveness\n  large: large\n"
    )


def forget_survivors(folder: Path) -> None:
    """Has mutants that no test noticed in an earlier run run again: there may be tests now that do."""
    for meta in (folder / "mutants").rglob("*.py.meta"):
        content = json.loads(meta.read_text())
        codes = content["exit_code_by_key"]
        content["exit_code_by_key"] = {name: code if code in KILLED else None for name, code in codes.items()}
        meta.write_text(json.dumps(content))


def _lines(values: tuple[str, ...]) -> str:
    return "".join(f"\n    {value}" for value in values)


def report(part: str, folder: Path) -> Counter[str]:
    """Prints what became of the mutants of each file, and the names of those that survived to a file."""
    total: Counter[str] = Counter()
    survivors: list[str] = []
    for meta in sorted((folder / "mutants").rglob("*.py.meta")):
        codes = json.loads(meta.read_text())["exit_code_by_key"]
        counts = Counter(_verdict(code) for code in codes.values())
        survivors += [name for name, code in codes.items() if _verdict(code) in ("survived", "untested")]
        if counts:
            name = meta.relative_to(folder / "mutants").as_posix().removesuffix(".meta")
            print(f"{counts['killed'] / sum(counts.values()):7.1%} of {sum(counts.values()):5,}  {name}")
        total += counts
    (folder / "survivors.txt").write_text("\n".join(survivors) + "\n")
    others = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(total.items()) if verdict != "killed")
    share = total["killed"] / max(1, sum(total.values()))
    killed = f"{share:.1%} of {sum(total.values()):,} killed"
    print(f"{part}: {killed}; {others}; names in {folder.relative_to(ROOT)}/survivors.txt")
    return total


def _verdict(code: int | None) -> str:
    if code is None:
        return "not run"
    if code in UNTESTED:
        return "untested"
    return "killed" if code in KILLED else "survived"


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    sys.exit(main(sys.argv[1:]))
