"""The check of tests that sleep, `.ci/sleeps.py`, on small made-up trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.docs.checks import ROOT, load_check

SLEEPS = load_check("sleeps")


def found(root: Path, text: str, name: str = "tests/unit/test_a.py") -> list[str]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return list(SLEEPS.check(root))


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.sleep(1)",
        "import asyncio as aio\naio.sleep(0.5)",
        "from time import sleep\nsleep(1)",
        "from asyncio import sleep as pause\npause(2 * 0.1)",
        "import asyncio\nasyncio.sleep(delay=1)",
        "def f():\n    import time; time.sleep(+1)",
    ],
)
def test_a_sleep_for_a_fixed_time_is_found(tmp_path: Path, text: str) -> None:
    (finding,) = found(tmp_path, text)
    assert finding.startswith("tests/unit/test_a.py:2: ")


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio\nasyncio.sleep(0)\nasyncio.sleep(0.0)",
        "import asyncio\nasyncio.sleep(error.retry_delay)",
        "clock.sleep(5)\nsleep(5)",
        'CODE = "import time; time.sleep(60)"',
    ],
)
def test_other_calls_pass(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text) == []


def test_files_outside_of_tests_and_allowed_ones_pass(tmp_path: Path) -> None:
    assert found(tmp_path, "import time\ntime.sleep(1)", "mesh/a.py") == []
    for allowed in SLEEPS.ALLOWED:
        name = allowed if allowed.endswith(".py") else f"{allowed}a.py"
        assert found(tmp_path, "import time\ntime.sleep(1)", name) == []


def test_each_allowed_file_or_folder_exists() -> None:
    assert [name for name in SLEEPS.ALLOWED if not (ROOT / name).exists()] == []


def test_what_is_found_is_printed_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found(tmp_path, "import time\ntime.sleep(1)")
    monkeypatch.setattr("sys.argv", ["sleeps.py", str(tmp_path)])
    assert SLEEPS.main() == 1
    printed = capsys.readouterr().out
    assert printed.startswith("tests/unit/test_a.py:2: time.sleep(1)\n")
    assert "tests/fixtures/waiting.py" in printed
