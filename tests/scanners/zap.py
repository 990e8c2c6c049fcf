"""`python -m tests.scanners.zap CHECKOUT` builds ZAP's passive scan rules into .tools/zap, from a checkout of
zaproxy/zap-extensions at RULES; ZAP itself is from Maven. Needs Java 17 and Maven."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fixtures.require import TOOLS, missing, require

RULES: Final = "pscanrules-v75"
"""The tag of the rules."""

FOLDER: Final = TOOLS / "zap"
STAMP: Final = FOLDER / "built.txt"
HERE: Final = Path(__file__).parent
SCAN_SECONDS: Final = 120.0

_PACKAGE: Final = "org/zaproxy/zap/extension/pscanrules"
_RULES_FOLDER: Final = "addOns/pscanrules/src/main"


@dataclass(frozen=True, slots=True)
class Alert:
    """A finding of a rule about an exchange. `risk` is 0 (informational), 1 (low), 2 (medium) or 3 (high)."""

    risk: int
    rule: int
    name: str
    exchange: str
    parameter: str
    evidence: str


def build(checkout: Path) -> None:
    """Builds the rules and the program that runs them. Raises CalledProcessError."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name in ("lib", "sources", "generated", "classes", "home"):
        (FOLDER / name).mkdir(parents=True)
    libraries = f"-DoutputDirectory={FOLDER / 'lib'}"
    _run("mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies", libraries)
    archive = subprocess.run(["git", "archive", RULES, _RULES_FOLDER], cwd=checkout, capture_output=True, check=True)
    subprocess.run(["tar", "x", "-C", str(FOLDER / "sources")], input=archive.stdout, check=True)
    sources = FOLDER / "sources" / _RULES_FOLDER
    lexer = f"{_PACKAGE}/antlr"
    grammar = sources / "antlr" / lexer / "JavaScriptLexer.g4"
    generated = FOLDER / "generated" / lexer
    _run(
        "java", "-cp", _libraries(), "org.antlr.v4.Tool", "-package", lexer.replace("/", "."), "-o", str(generated),
        str(grammar),
    )  # fmt: skip
    code = [path for path in (sources / "java").rglob("*.java") if "payloader" not in path.parts]
    code += [*(FOLDER / "generated").rglob("*.java"), HERE / "PassiveScan.java"]
    _run("javac", "-nowarn", "-d", str(FOLDER / "classes"), "-cp", _libraries(), *map(str, code))
    shutil.copytree(sources / "resources", FOLDER / "classes", dirs_exist_ok=True)
    shutil.copytree(sources / "zapHomeFiles", FOLDER / "home", dirs_exist_ok=True)
    STAMP.write_text(_version())


def scan(exchanges: Path) -> tuple[int, Sequence[Alert]]:
    """Runs all rules over the exchanges in a folder. Returns the number of rules, and their alerts. Skips the test if the
    rules are not built."""
    if not STAMP.exists() or STAMP.read_text() != _version():
        missing("zap", "ZAP's passive rules are not built: `python -m tests.scanners.zap CHECKOUT`")
    command = [
        require("java"), "-Djava.awt.headless=true", "-cp", f"{FOLDER / 'classes'}:{_libraries()}", "PassiveScan",
        exchanges, FOLDER / "home", FOLDER / "classes" / _PACKAGE,
    ]  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=SCAN_SECONDS)
    assert done.returncode == 0, done.stderr[-3_000:]
    lines = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    [count] = [int(fields[1]) for fields in lines if fields[0] == "rules"]
    return count, [Alert(int(fields[0]), int(fields[1]), *fields[2:6]) for fields in lines if fields[0] != "rules"]


def _libraries() -> str:
    return ":".join(str(path) for path in sorted((FOLDER / "lib").glob("*.jar")))


def _version() -> str:
    return f"{RULES}\n{(HERE / 'PassiveScan.java').read_text()}{(HERE / 'pom.xml').read_text()}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
