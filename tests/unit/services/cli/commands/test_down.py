"""What `archon down` prints about runs in progress."""

from __future__ import annotations

import pytest

from archon_services.cli.commands.down import open_runs_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 run continues at the next `archon up`: r0"),
        (5, "5 runs continue at the next `archon up`: r0, r1, r2, r3, r4"),
        (1_234, "1,234 runs continue at the next `archon up`: r0, r1, r2, r3, r4 and 1,229 more"),
    ],
)
def test_a_handful_of_the_runs_is_named(count: int, text: str) -> None:
    assert open_runs_text([f"r{number}" for number in range(count)]) == text


def test_runs_in_a_journal_in_memory_are_lost() -> None:
    assert open_runs_text(["r0"], durable=False) == "1 run is lost, because the journal is in memory: r0"
    text = "2 runs are lost, because the journal is in memory: r0, r1"
    assert open_runs_text(["r0", "r1"], durable=False) == text


def test_run_ids_are_short_as_everywhere() -> None:
    assert open_runs_text(["a" * 32]).endswith(f": {'a' * 12}")
