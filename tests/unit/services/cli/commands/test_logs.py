"""`archon logs`, over the files of a mesh."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from archon_services.cli.commands import logs as command
from archon_services.cli.commands.logs import Level
from archon_services.cli.errors import CliError
from tests.fixtures.waiting import wait_until

RUN, OTHER = "01a206428344aaaa", "01a206428344bbbb"


def line(second: int, message: str, level: str = "info", **fields: Any) -> str:
    """Returns a line as processes write it."""
    time = f"2026-11-23T14:02:{second:02}.000000Z"
    return json.dumps({"time": time, "level": level, "message": message, **fields}) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARCHON_HOME", str(tmp_path))
    folder = tmp_path / "logs"
    folder.mkdir()
    files = {
        "orchestrator": [line(1, "o 1"), line(4, f"run {RUN} is late", "warning", run_id=RUN)],
        "designer-1": [line(2, "d 2", run_id=RUN), line(5, "d 5", run_id=RUN), line(6, RUN, run_id=OTHER)],
        "designer-2": [line(3, "d 3", run_id=RUN), "Traceback (most recent call last):\n", "ValueError: x\n"],
        "designer-1.old": ["of an earlier mesh\n"],
    }
    for name, lines in files.items():
        (folder / f"{name}.log").write_text("".join(lines))
    return folder


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    def printed(name: str = "", lines: int | None = None, **options: Any) -> list[str]:
        """Returns the lines that the command prints, without the times."""
        command.logs(name, lines, **options)
        return [text[13:] if text[2:3] == ":" else text for text in capsys.readouterr().out.splitlines()]

    return printed


def test_the_logs_of_all_processes_are_merged_by_time(folder: Path, printed: Callable[..., list[str]]) -> None:
    assert printed() == [
        "info    orchestrator o 1",
        f"info    designer-1   d 2 run={RUN[:12]}",
        f"info    designer-2   d 3 run={RUN[:12]}",
        "designer-2   Traceback (most recent call last):",
        "designer-2   ValueError: x",
        f"warning orchestrator run {RUN} is late run={RUN[:12]}",
        f"info    designer-1   d 5 run={RUN[:12]}",
        f"info    designer-1   {RUN} run={OTHER[:12]}",
    ]


def test_the_last_lines_are_those_of_each_log(folder: Path, printed: Callable[..., list[str]]) -> None:
    assert [text.split()[-2] for text in printed("", 1)] == ["ValueError:", "late", RUN]


def test_the_log_of_one_process_has_no_column_of_processes(folder: Path, printed: Callable[..., list[str]]) -> None:
    assert printed("designer-2", 3)[0] == f"info    d 3 run={RUN[:12]}"
    assert printed("designer-2", 1) == ["ValueError: x"], "what is no line of a log is printed too"


def test_a_role_names_all_of_its_processes(folder: Path, printed: Callable[..., list[str]]) -> None:
    assert {text.split()[1] for text in printed("designer", 1)} >= {"designer-1"}
    assert len(printed("designer", 1)) == 2


def test_the_lines_of_a_run_are_those_with_its_field(folder: Path, printed: Callable[..., list[str]]) -> None:
    assert printed(RUN) == [
        "info    designer-1   d 2",
        "info    designer-2   d 3",
        f"warning orchestrator run {RUN} is late",
        "info    designer-1   d 5",
    ]
    assert printed(RUN[:13]) == printed(RUN), "a prefix is sufficient"


def test_a_prefix_of_several_runs_is_refused(folder: Path) -> None:
    with pytest.raises(CliError, match="2 run ids start with '01a206428344'"):
        command.logs(RUN[:12])


def test_all_lines_of_a_run_are_printed(folder: Path, printed: Callable[..., list[str]]) -> None:
    with (folder / "designer-1.log").open("a") as log:
        log.writelines(line(7, "more", run_id=RUN) for _ in range(100))
    assert len(printed(RUN)) == 104
    assert len(printed(RUN, 2)) == 2 + 1 + 1


def test_only_the_end_of_a_large_log_is_read(
    folder: Path, printed: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "TAIL_BYTES", len(line(5, "d 5", run_id=RUN)))
    (folder / "designer-1.log").write_text(line(4, "early") + line(5, "d 5", run_id=RUN))
    assert printed("designer-1") == [f"info    d 5 run={RUN[:12]}"]


def test_a_level_leaves_out_lower_ones(folder: Path, printed: Callable[..., list[str]]) -> None:
    assert printed(RUN, level=Level.WARNING) == [f"warning orchestrator run {RUN} is late"]
    texts = printed(level=Level.ERROR)
    assert texts == ["designer-2   Traceback (most recent call last):", "designer-2   ValueError: x"]


def test_json_prints_the_lines_as_they_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.logs(RUN, json=True)
    texts = capsys.readouterr().out.splitlines(keepends=True)
    assert texts[0] == line(2, "d 2", run_id=RUN)
    assert [json.loads(text)["run_id"] for text in texts] == [RUN] * 4


def test_a_run_that_no_line_names_is_reported(folder: Path) -> None:
    absent = "f" * 32
    with pytest.raises(CliError, match=f"no line of the logs names run {absent}$") as raised:
        command.logs(absent)
    assert raised.value.hint == "`archon show ffffffffffff` prints the run itself."
    with pytest.raises(CliError, match="at level error or above"):
        command.logs(RUN, level=Level.ERROR)


def test_the_newest_run_without_lines_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_newest_run", lambda: "e" * 32)
    with pytest.raises(CliError, match="no line of the logs names run eeee"):
        command.logs("last")


def test_an_unknown_name_is_refused_with_the_known_ones(folder: Path) -> None:
    with pytest.raises(CliError, match="'critic'") as raised:
        command.logs("critic")
    assert raised.value.hint == "There are logs of designer-1, designer-2, orchestrator."


@pytest.mark.parametrize("raw", [False, True])
def test_control_characters_of_a_log_do_not_reach_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str], raw: bool
) -> None:
    hostile = json.dumps({"time": "\x1b[1m", "level": "\x1b[2m", "message": "a\x1b[2Jb\ud83d", "\x9b": "\u2028"})
    (folder / "designer-1.log").write_text(f"a\x1b[2Jb\n{hostile}\n" + '{"time": "never"}\n' + "[" * 100_000 + "\n")
    command.logs("designer-1", json=raw)
    text = capsys.readouterr().out
    assert "a[2Jb" in text
    assert not {"\x1b", "\x9b", "\u2028"} & set(text)


def test_lines_of_etcd_are_read_as_well(folder: Path, printed: Callable[..., list[str]]) -> None:
    entry = {"level": "warn", "ts": "2026-11-23T14:02:00.5Z", "caller": "auth/store.go:1", "msg": "simple token"}
    (folder / "etcd.log").write_text(json.dumps(entry) + "\n")
    assert printed("")[0] == "warning etcd         simple token"


@contextmanager
def following(monkeypatch: pytest.MonkeyPatch, name: str, **options: Any) -> Iterator[None]:
    """Runs the command with -f until the end of the block."""
    ended = threading.Event()

    def pause(_: float) -> None:
        if ended.wait(0.01):
            raise KeyboardInterrupt

    monkeypatch.setattr("archon_services.cli.commands.logs.time.sleep", pause)
    thread = threading.Thread(target=command.logs, args=(name,), kwargs={"follow": True, **options})
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)
    assert not thread.is_alive()


def test_what_is_appended_is_followed_by_whole_lines(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ""

    def seen() -> str:
        nonlocal text
        text += capsys.readouterr().out
        return text

    with following(monkeypatch, "designer-2", lines=1):
        wait_until(lambda: seen() == "ValueError: x\n")
        with (folder / "designer-2.log").open("a") as log:
            log.write("whole\nhalf of")
        wait_until(lambda: seen().endswith("whole\n"))
        with (folder / "designer-2.log").open("a") as log:
            log.write(" a line\n")
        wait_until(lambda: seen().endswith("whole\nhalf of a line\n"))
        (folder / "designer-2.log").write_text("new\n")
        wait_until(lambda: seen().endswith("new\n"))


def test_a_run_without_lines_is_followed_until_it_has_some(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, out, err = "c" * 32, "", ""

    def seen() -> str:
        nonlocal out, err
        captured = capsys.readouterr()
        out, err = out + captured.out, err + captured.err
        return out

    with following(monkeypatch, run_id):
        wait_until(lambda: not seen() and "waiting for one" in err)
        for name, second in (("designer-1", 9), ("designer-2", 8)):
            with (folder / f"{name}.log").open("a") as log:
                log.write(line(second, "other", run_id=RUN) + line(second, f"own of {name}", run_id=run_id))
        wait_until(lambda: seen().count("own of") == 2)
    assert "other" not in out
