"""`archon prompts` of one call, `archon playground`, and ratings in a chat, over a model behind an API: the pages about them
print what they show."""

from __future__ import annotations

import json
import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shown_output import Step, matches, steps
from tests.e2e.small_mesh import PIPELINE, small_mesh
from tests.e2e.terminal import Result, Terminal
from tests.fixtures.told_model import ToldModel, folder_of, told_model

DOCS = Path(__file__).parents[2] / "docs"
WIDTH = 80
KEY = "sk-not-a-key-of-anyone"


@pytest.fixture(scope="module")
def server() -> Iterator[ToldModel]:
    with told_model() as server:
        yield server


@pytest.fixture(scope="module")
def terminal(server: ToldModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("mesh")
    model = {"ARCHON_MODEL": "openai/gpt-5-mini", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
    with small_mesh(folder, *PIPELINE, **model) as terminal:
        yield terminal


def command(terminal: Terminal, line: str) -> Result:
    """Runs a command of a page, in which `printf TEXT | archon ...` types the text."""
    typed, bar, rest = line.partition(" | ") if line.startswith("printf") else ("", "", line)
    stdin = shlex.split(typed)[1].replace("\\n", "\n") if bar else ""
    return terminal.archon(*shlex.split(rest)[1:], stdin=stdin)


def print_step(terminal: Terminal, step: Step) -> str:
    results = [command(terminal, line) for line in step.commands.replace("\\\n", " ").splitlines() if line]
    assert all(result.code == 0 for result in results), results
    return "".join(result.out + (result.err if "|" in step.commands else "") for result in results)


@pytest.mark.parametrize("name", ["prompts", "playground"])
def test_the_page_prints_what_it_shows(terminal: Terminal, server: ToldModel, tmp_path: Path, name: str) -> None:
    shown = steps((DOCS / f"{name}.md").read_text())
    (tmp_path / "short.txt").write_text("Answer in one sentence.\n")
    (tmp_path / "cases.jsonl").write_text(
        json.dumps({"id": "shop", "goal": "Build a shop.", "expect": [{"scorer": "contains", "texts": ["list"]}]})
        + "\n"
    )
    with folder_of(tmp_path):
        for step in shown:
            printed = print_step(terminal, step).replace(server.url, "https://api.openai.com/v1")
            printed = printed.replace("  --noproxy '*' \\\n", "")  # it is there for a server of this machine
            assert not step.shown or matches(step.shown, printed), f"{step.commands}\n{printed}"
            if "playground" in step.commands:
                assert all(len(line) <= WIDTH for line in printed.splitlines()), printed
    assert sum(bool(step.shown) for step in shown) >= 3


@pytest.fixture(scope="module")
def run(terminal: Terminal) -> str:
    assert terminal.archon("run", "Build a todo app.", "--quiet").code == 0
    return str(json.loads(terminal.archon("show", "last", "--json").out)["run_id"])


def test_the_sent_request_is_saved_byte_by_byte(
    terminal: Terminal, server: ToldModel, run: str, tmp_path: Path
) -> None:
    file = tmp_path / "request.json"
    saved = terminal.archon("prompts", run, "--task", "designer", "--sent", "--save", str(file))
    assert saved.out == f"Wrote {file}.\n", saved.err
    content = file.read_bytes()
    assert content in [received.content for received in server.received]
    exported = tmp_path / "run.archon"
    assert terminal.archon("export", run, "-o", str(exported)).code == 0
    assert terminal.archon("prompts", str(exported), "--task", "designer", "--sent").out == content.decode()
    curl = terminal.archon("prompts", str(exported), "--role", "designer", "--curl")
    assert "${OPENAI_API_KEY:?}" in curl.out and KEY not in curl.out
    assert server.url in curl.err, "the address that the key goes to is named"
    report = terminal.archon("prompts", str(exported), "--no-text").out
    assert report.count("===") == 6 and "designer, call 1, attempt 1: model gpt-5-mini" in report


def test_a_tried_prompt_changes_nothing_of_the_run(terminal: Terminal, run: str) -> None:
    before = terminal.archon("show", run, "--json").out, terminal.archon("prompts", run, "--json").out
    played = terminal.archon(
        "playground", run, "designer", "--set", "system=In one sentence.", "--repeat", "2", "--json"
    )
    document = json.loads(played.out)
    assert [answer["same"] for answer in document["answers"]] == [False, False]
    assert document["recorded"]["model"] == "openai/gpt-5-mini" and document["mean"]["cost_micro_usd"] > 0
    assert before == (terminal.archon("show", run, "--json").out, terminal.archon("prompts", run, "--json").out)


def test_the_editor_changes_a_prompt(terminal: Terminal, run: str, tmp_path: Path) -> None:
    saved = tmp_path / "v.yaml"
    command = ["playground", run, "designer", "--edit", "--save", str(saved)]
    terminal.environment["EDITOR"] = "sed -i 's/You are the designer of a team/Be the designer in one sentence/'"
    edited = terminal.archon(*command)
    assert edited.code == 0 and "changed: message 1 (system)" in edited.out, edited.err
    assert "[-You are-] {+Be+}" in edited.out
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    again = terminal.archon("playground", run, "designer", "--variant", str(saved), "--json")
    assert json.loads(again.out)["answers"][0]["text"].startswith("A list that keeps")
    terminal.environment["EDITOR"] = "false"
    assert "ended with exit code 1: nothing was sent" in terminal.archon(*command).err
    terminal.environment["EDITOR"] = "sed -i s/archon_variant/other/"
    assert "The text is still in" in terminal.archon(*command).err
    terminal.environment["EDITOR"] = "no-such-editor"
    assert "cannot start the editor" in terminal.archon(*command).err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["playground", "RUN"], 2, "3 tasks have model calls"),
        (["playground", "RUN", "cook"], 4, "recorded of requirements, designer, implementer"),
        (["playground", "RUN", "designer", "7"], 4, "there is no call 7"),
        (["playground", "RUN", "designer", "--set", "prompt=x"], 2, "expected system=TEXT"),
        (["playground", "RUN", "designer", "--set", "system=@absent.txt"], 2, "cannot read absent.txt"),
        (["playground", "RUN", "designer", "--replace", "nothing"], 2, "expected OLD=NEW"),
        (["playground", "RUN", "designer", "--replace", "zebra=x"], 4, "no message of the prompt has the text 'zebra'"),
        (["playground", "RUN", "designer", "--temperature", "3"], 2, "the temperature must be from 0 to 2"),
        (["playground", "RUN", "designer", "--max-cost", "0"], 2, "the budget must be from"),
        (["playground", "RUN", "designer", "--max-cost", "0.000001"], 1, ""),
        (["playground", "RUN", "designer", "--model", "unheard"], 2, "unknown model 'unheard'"),
        (["playground", "absent.archon"], 4, "cannot read absent.archon"),
        (["prompts", "RUN", "--sent"], 2, "3 tasks have model calls"),
        (["prompts", "RUN", "--sent", "--curl"], 2, "name one of them"),
        (["prompts", "RUN", "--sent", "--json"], 2, "--json goes with neither"),
        (["eval", "absent.jsonl", "--variant", "v.yaml", "--version", "designer=1"], 2, "goes with neither --version"),
    ],
)
def test_a_wrong_argument_is_one_line(
    terminal: Terminal, run: str, arguments: list[str], code: int, words: str
) -> None:
    result = terminal.archon(*[run if argument == "RUN" else argument for argument in arguments])
    assert result.code == code and words in " ".join(result.err.split()), result


def test_a_chat_rates_the_run_of_its_last_answer(terminal: Terminal) -> None:
    lines = "/rate up\nBuild a shop.\n/rate up quite right\n/rate sideways\nBuild a wiki.\n/rate down too short\n"
    chat = terminal.archon("chat", "designer", stdin=lines)
    assert chat.code == 2
    assert "error: there is no answer to rate so far" in chat.err and "a rating is /rate up|down [WHY]" in chat.err
    assert ": up (5 of 5)." in chat.err and ": down (1 of 5)." in chat.err
    assert "/rate" not in chat.out and chat.out.count("TaskStore") == 2
    assert re.search(r"rated +1 of 5 by \w+: too short\n", terminal.archon("show", "last").out)
    header, *rows = terminal.archon("runs", "--limit", "2").out.splitlines()
    assert "stars" in header and [" 1.0 " in rows[0], " 5.0 " in rows[1]] == [True, True]


def test_a_chat_with_a_file_has_no_run_to_rate(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "helper.yaml").write_text("name: helper\n")
    chat = terminal.archon("chat", str(tmp_path / "helper.yaml"), stdin="Hello.\n/rate up\n")
    assert chat.code == 1 and "helper answers in this process" in " ".join(chat.err.split())
