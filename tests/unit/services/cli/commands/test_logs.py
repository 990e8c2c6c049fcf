"""`archon logs`, over the files of a mesh."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from archon_services.cli.commands import logs as command
from archon_services.cli.errors import CliError
from tests.fixtures.waiting import wait_until

RUN = "01a206428344aaaa"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARCHON_HOME", str(tmp_path))
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("orchestrator", "designer-1", "designer-2"):
        (folder / f"{name}.log").write_text("".join(f"{name} line {number}\n" for number in range(3)))
    (folder / "designer-1.old.log").write_text("of an earlier mesh\n")
    with (folder / "orchestrator.log").open("a") as log:
        log.write(f"run {RUN} failed\n")
    return folder


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    command.logs(*arguments)  # type: ignore[arg-type]
    return capsys.readouterr().out.splitlines()


def test_the_last_lines_of_all_processes_are_printed_with_their_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, "", 1) == [
        "designer-1    designer-1 line 2",
        "designer-2    designer-2 line 2",
        f"orchestrator  run {RUN} failed",
    ]


def test_the_log_of_one_process_is_printed_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "designer-1", 2) == ["designer-1 line 1", "designer-1 line 2"]


def test_a_role_names_all_of_its_processes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [line.split()[0] for line in printed(capsys, "designer", 1)] == ["designer-1", "designer-2"]


def test_a_run_id_selects_the_lines_about_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, RUN[:12], 20) == [f"orchestrator  run {RUN} failed"]


def test_an_unknown_name_is_refused_with_the_known_ones(folder: Path) -> None:
    with pytest.raises(CliError, match="'critic'") as raised:
        command.logs("critic")
    assert raised.value.hint == "There are logs of designer-1, designer-2, orchestrator."


def test_control_characters_of_a_log_do_not_reach_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "designer-1.log").write_text("a\x1b[2Jb\n")
    assert printed(capsys, "designer-1", 1) == ["a[2Jb"]


def test_what_is_appended_is_followed_by_whole_lines(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def pause(_: float) -> None:
        if ended.wait(0.01):
            raise KeyboardInterrupt

    monkeypatch.setattr("archon_services.cli.commands.logs.time.sleep", pause)
    following = threading.Thread(target=command.logs, args=("designer-1", 1, True))
    following.start()
    text = ""

    def seen() -> str:
        nonlocal text
        text += capsys.readouterr().out
        return text

    last = "designer-1 line 2\n"
    wait_until(lambda: seen() == last)
    with (folder / "designer-1.log").open("a") as log:
        log.write("whole\nhalf of")
    wait_until(lambda: seen() == last + "whole\n")
    with (folder / "designer-1.log").open("a") as log:
        log.write(" a line\n")
    wait_until(lambda: seen() == last + "whole\nhalf of a line\n")
    (folder / "designer-1.log").write_text("new\n")
    wait_until(lambda: seen().endswith("new\n"))
    ended.set()
    following.join(10)
