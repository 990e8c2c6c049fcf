"""`python -m tests.supply_chain.audit` asks the databases of known vulnerabilities about everything that is locked: pip-audit
for deploy/locks, govulncheck for each go.mod, npm audit for each package-lock.json.

Exit code 0: all were asked, and none knows of a vulnerability. 1: there are vulnerabilities. 3: a database could not be
reached, or did not know a package, so that nothing is known about some package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from tests.fixtures.environment import CALLER
from tests.fixtures.require import find
from tests.supply_chain.lockfile import EVERYTHING, ROOT

GOVULNCHECK: Final = "golang.org/x/vuln/cmd/govulncheck@v1.9.0"
SECONDS: Final = 300
"""The deadline of each tool."""


class Outcome(IntEnum):
    """What asking has shown; the largest of all is the exit code."""

    CLEAN = 0
    VULNERABLE = 1
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What one tool says about one lock file, in one sentence for each finding."""

    outcome: Outcome
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that has ended, or that was not there."""

    code: int
    stdout: str
    stderr: str


Run = Callable[[Path, Sequence[str]], Ended]
"""Executes a program in a folder."""


def execute(folder: Path, command: Sequence[str]) -> Ended:
    """Executes a program for SECONDS at most."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**CALLER, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        return Ended(127, "", f"{command[0]} is not installed")
    except subprocess.TimeoutExpired:
        return Ended(124, "", f"no answer within {SECONDS} s")
    return Ended(done.returncode, done.stdout, done.stderr)


def python_packages(run: Run) -> Answer:
    """Asks the advisories of PyPI, then those of OSV if PyPI does not know them, about each locked Python package."""
    answer = _pip_audit(run, "pypi")
    if answer.outcome is not Outcome.UNKNOWN:
        return answer
    second = _pip_audit(run, "osv")
    return second if second.outcome is not Outcome.UNKNOWN else Answer(Outcome.UNKNOWN, answer.lines + second.lines)


def _pip_audit(run: Run, database: str) -> Answer:
    name = {"pypi": "the advisories of PyPI", "osv": "the database OSV"}[database]
    command = [str(Path(sys.executable).parent / "pip-audit"), "--requirement", str(EVERYTHING), "--require-hashes"]
    command += ["--disable-pip", "--vulnerability-service", database, "--format", "json", "--progress-spinner", "off"]
    done = run(ROOT, command)
    report = _json(done.stdout)
    if report is None:
        return Answer(Outcome.UNKNOWN, (f"pip-audit could not reach {name}: {_last(done)}",))
    packages = report.get("dependencies", [])
    found = tuple(
        f"{package['name']} {package['version']}: {item['id']}, fixed in {', '.join(item['fix_versions']) or 'no version'}"
        for package in packages
        for item in package.get("vulns", [])
    )
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if found:
        return Answer(Outcome.VULNERABLE, found)
    if skipped or not packages:
        return Answer(
            Outcome.UNKNOWN, (f"pip-audit got no answer of {name} about {len(skipped)} of {len(packages)} packages",)
        )
    return Answer(Outcome.CLEAN, (f"pip-audit: {len(packages)} packages, nothing known",))


def go_module(run: Run, folder: Path) -> Answer:
    """Asks the vulnerability database of Go about the modules of a go.mod and its version of Go, used or not."""
    name = folder.relative_to(ROOT)
    go = find("go")
    done = run(folder, [str(go or "go"), "run", GOVULNCHECK, "-scan", "module", "-format", "json"])
    messages = _json_stream(done.stdout)
    if done.code != 0 or not any("SBOM" in message or "config" in message for message in messages):
        return Answer(Outcome.UNKNOWN, (f"govulncheck could not reach the database of Go for {name}: {_last(done)}",))
    found = sorted({message["finding"]["osv"] for message in messages if "finding" in message})
    if found:
        return Answer(Outcome.VULNERABLE, tuple(f"{name}: {identifier}" for identifier in found))
    return Answer(Outcome.CLEAN, (f"govulncheck: {name}, nothing known",))


def npm_package(run: Run, folder: Path) -> Answer:
    """Asks the advisories of npm about a package-lock.json."""
    name = folder.relative_to(ROOT)
    done = run(folder, [str(find("npm") or "npm"), "audit", "--package-lock-only", "--json"])
    report = _json(done.stdout)
    if report is None or "metadata" not in report:
        why = (report or {}).get("message") or _last(done)
        return Answer(Outcome.UNKNOWN, (f"npm audit could not reach the advisories of npm for {name}: {why}",))
    found = report.get("vulnerabilities", {})
    if found:
        return Answer(
            Outcome.VULNERABLE, tuple(f"{name}: {package}, {item['severity']}" for package, item in found.items())
        )
    return Answer(Outcome.CLEAN, (f"npm audit: {name}, nothing known",))


def _json(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _json_stream(text: str) -> list[dict[str, Any]]:
    """Returns the JSON objects that follow one another in a text, up to the first that is broken."""
    decoder, messages, text = json.JSONDecoder(), [], text.strip()
    while text:
        try:
            value, end = decoder.raw_decode(text)
        except ValueError:
            break
        messages.append(value)
        text = text[end:].lstrip()
    return messages


def _last(done: Ended) -> str:
    """Returns the last line of what a program has said about its failure."""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    lines = [line for line in lines if "complete log of this run" not in line and not line.startswith("exit status")]
    return lines[-1][:200] if lines else f"exit code {done.code}"


def tracked(name: str) -> list[Path]:
    """Returns the folders of the repository that have a file of this name."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--", name, f"*/{name}"],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
    )
    return sorted({(ROOT / path).parent for path in done.stdout.split("\0") if path})


def main() -> int:
    """Prints what each database says. Returns the largest outcome."""
    answers = [python_packages(execute)]
    answers += [go_module(execute, folder) for folder in tracked("go.mod")]
    answers += [npm_package(execute, folder) for folder in tracked("package-lock.json")]
    for answer in answers:
        for line in answer.lines:
            print(f"{answer.outcome.name.lower():10} {line}", flush=True)
    return max(answer.outcome for answer in answers)


if __name__ == "__main__":
    sys.exit(main())
