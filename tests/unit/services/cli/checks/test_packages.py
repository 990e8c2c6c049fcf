"""Checks of Python and the installed packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from archon_services.cli.checks import packages
from archon_services.cli.checks.finding import Finding
from tests.unit.services.cli.checks.findings import levels, texts

REQUIRED = (
    "grpcio<1.77,>=1.76",
    "protobuf<7,>=6.31",
    "aetcd==1.0.0",
    "uvloop>=0.21; sys_platform != 'win32'",
    "ruff==0.1; extra == 'dev'",
)
GOOD = {"grpcio": "1.76.0", "protobuf": "6.33.6", "aetcd": "1.0.0", "uvloop": "0.22"}


def with_versions(**changed: str) -> list[Finding]:
    versions = {**GOOD, **changed}

    def installed(name: str) -> str:
        if not versions.get(name):
            raise PackageNotFoundError(name)
        return versions[name]

    return packages.check_packages(REQUIRED, installed)


@pytest.mark.parametrize(
    ("running_version", "level"),
    [((3, 10, 9), "problem"), ((3, 11, 0), "ok"), ((3, 13, 5), "ok"), ((3, 14, 0), "problem")],
)
def test_unsupported_python_is_a_problem(running_version: tuple[int, ...], level: str) -> None:
    assert levels(packages.check_python(running_version, "<3.14,>=3.11")) == [level]
    assert levels(packages.check_python()) == ["ok"]


@pytest.mark.parametrize(
    ("changed", "level", "text"),
    [
        ({}, "ok", "grpcio 1.76.0"),
        ({"grpcio": "1.80.0"}, "warning", "slower under asyncio"),
        ({"grpcio": "1.78.2"}, "warning", "can crash"),
        ({"grpcio": "1.71.0"}, "problem", "too old"),
        ({"protobuf": "7.0.0"}, "warning", "untested"),
        ({"protobuf": "6.30.9"}, "problem", "too old"),
        ({"aetcd": "1.0.1"}, "warning", "untested"),
        ({"aetcd": ""}, "problem", "is not installed"),
        ({"uvloop": ""}, "ok", "others"),
    ],
)
def test_package_versions_are_compared_with_requirements(changed: dict[str, str], level: str, text: str) -> None:
    findings = with_versions(**changed)
    assert levels(findings) == [level]
    assert text in texts(findings)


@pytest.mark.parametrize(
    ("version", "bound", "level"),
    [
        ("1.78", ">=1.78.0", "ok"),
        ("1.10", "<1.9", "warning"),
        ("2.3", "~=2.1", "ok"),
        ("3.0", "~=2.1", "warning"),
        ("2.0", "~=2.1", "problem"),
        ("1.5", "!=1.5.0", "warning"),
        ("1.5rc1", ">=1.4", "ok"),
        ("1.5rc1", ">=1.5", "problem"),
        ("1.5", "", "ok"),
        ("nonsense", ">=1.5", "warning"),
    ],
)
def test_versions_are_compared_by_number(version: str, bound: str, level: str) -> None:
    assert levels(packages.check_packages([f"thing{bound}"], lambda name: version)) == [level]
