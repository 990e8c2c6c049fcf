"""Replies of the offline model without tools: requirements, and summaries for any other task."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.core.memory_graph import SharedMemoryGraph
from archon_mesh.core.messages import ChatMessage, with_shared_context
from archon_mesh.llm.offline.reply import NOTICE, asks_for_requirements, find_demands, write_reply

PROMPTS = {
    "requirements": "You are the requirements analyst. Extract the requirements for the designer.",
    "designer": "You are the designer. Name a component for each requirement in your shared context.",
    "implementer": "From the requirements and the design, plan and write an implementation.",
}
EDGES = [("requirements", "designer"), ("requirements", "implementer"), ("designer", "implementer")]
GOAL = "Acme was founded in 1999. It must export\ninvoices as PDF. Users should see a log! Mustard is fine."
DEMANDS = ["It must export invoices as PDF.", "Users should see a log!"]


def run_chain(goal: str) -> dict[str, str]:
    """Runs the three roles in order, with shared memory."""
    graph = SharedMemoryGraph()
    for src, dst in EDGES:
        graph.add_edge(src, dst)
    answers = {}
    for role, prompt in PROMPTS.items():
        messages = [ChatMessage("system", prompt), ChatMessage("user", goal)]
        answers[role] = write_reply(with_shared_context(messages, graph.pull_for(role)))
        graph.publish(role, answers[role])
    return answers


def test_requirements_are_the_numbered_demands() -> None:
    answer = run_chain(GOAL)["requirements"]
    assert answer == f"{NOTICE}\n\nR1. {DEMANDS[0]}\nR2. {DEMANDS[1]}"


def test_other_roles_summarise_the_goal_and_upstream_answers() -> None:
    answers = run_chain(GOAL)
    task = f"Task: Acme was founded in 1999. {' '.join(DEMANDS)} Mustard is fine."
    requirements = f"From requirements: R1. {DEMANDS[0]} R2. {DEMANDS[1]}"
    assert answers["designer"].splitlines()[3:] == [requirements, task]
    assert answers["implementer"].splitlines()[3:] == [requirements, "From designer: a summary of its material", task]


def test_text_without_demands_has_no_requirement() -> None:
    answer = run_chain("Hello there, mesh.")["requirements"]
    assert answer == f"{NOTICE}\n\nNo sentence of the text demands anything, so there is no requirement."


@pytest.mark.parametrize(
    "demand",
    [
        "The system must log.",
        "IT SHALL LOG.",
        "It should log.",
        "It needs to log.",
        "It has to log.",
        "They have to log.",
        "A log is required.",
        "Acme wants a log.",
        "I want a log.",
        "Ensure that it logs.",
        "It may not log.",
        "It cannot be slow.",
        "It mustn\u2019t be slow.",
        "Logs must be kept, mustn't they?",
    ],
)
def test_demand_is_found_verbatim(demand: str) -> None:
    assert find_demands(f"Acme was founded in 1999. {demand} Its mustard is good.") == [demand]


def test_question_is_not_a_demand() -> None:
    assert find_demands("Should it be blue? Must it? It must be red.") == ["It must be red."]


def test_imperative_is_a_demand_in_lists_or_if_there_is_no_other() -> None:
    assert find_demands("Build a tool.\n- Store mails\n- fast\n\nIt must log.") == [
        "Store mails",
        "It must log.",
    ]
    assert find_demands("Build a tool. It is for Acme.") == ["Build a tool."]


def test_query_is_the_last_user_message() -> None:
    history = [ChatMessage("user", "It must be old."), ChatMessage("assistant", "It must be said.")]
    prompt = ChatMessage("system", PROMPTS["requirements"])
    answer = write_reply([prompt, *history, ChatMessage("user", "It must be new.")])
    assert answer.endswith("\n\nR1. It must be new.")


def test_unknown_task_gets_a_summary_of_the_material() -> None:
    messages = [
        ChatMessage("system", "You are a poet."),
        ChatMessage("system", "Shared context from muse:\nA rose."),
        ChatMessage("user", "Sing of spring."),
        ChatMessage("tool", "42", tool_call_id="call_1"),
    ]
    answer = write_reply(messages)
    assert "no method for this task" in answer
    assert "Task: Sing of spring." in answer
    assert "From muse: A rose." in answer
    assert "Tool result: 42" in answer


def test_a_long_message_is_shortened_in_a_summary() -> None:
    answer = write_reply([ChatMessage("user", "word " * 1_000)])
    assert len(answer) < 1_000
    assert answer.endswith("characters left out]")


@pytest.mark.parametrize(
    ("prompt", "asks"),
    [
        ("Extract every functional requirement and all other requirements from the goal.", True),
        ("You are a requirements engineer. The designer and the implementer read your answer.", True),
        ("List the requirements. Do not design components, do not write code.", True),
        ("List one component per requirement, and state for each requirement why.", False),
        ("You are a software architect. Read the requirements.", False),
        ("Design the components of a system that meets the requirements; write no code.", False),
        ("For each requirement of the analyst, propose one component.", False),
        ("You are the implementer. Read the design and the requirements.", False),
        ("Use the requirements and the design of the components to write the code.", False),
        ("You are a helpful assistant.", False),
        ("", False),
    ],
)
def test_prompt_asks_for_requirements_or_for_something_else(prompt: str, asks: bool) -> None:
    assert asks_for_requirements(prompt) is asks


@pytest.mark.parametrize("prompt", [*PROMPTS.values(), "Anything else.", ""])
def test_every_reply_has_the_notice(prompt: str) -> None:
    assert write_reply([ChatMessage("system", prompt)]).startswith(f"{NOTICE}\n")


markers = st.text(alphabet="ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=4, max_size=12)
frames = st.sampled_from(
    [
        "The system must keep {} for a year.",
        "Users should see {} at once!",
        "Acme wants the {} report, e.g. as PDF.",
        "it needs to run {} on Python 3.11.",
        "A guest may not use {} (see above. Or below.).",
    ]
)
fillers = st.sampled_from(["Acme was founded in 1999.", "It is blue.", "Is it so?", "Mustard is fine."])


@given(
    st.lists(st.tuples(markers, frames, fillers, st.sampled_from([" ", "\n", "\n\n", "\n- "])), min_size=1),
    st.integers(0, 60),
)
def test_requirements_are_the_demands_verbatim(parts: list[tuple[str, str, str, str]], wrap_at: int) -> None:
    demands = [frame.format(marker) for marker, frame, _, _ in parts]
    goal = "".join(f"{demand} {parts[i][2]}{parts[i][3]}" for i, demand in enumerate(demands))
    # One line break at any space.
    place = goal.find(" ", wrap_at)
    wrapped = goal if place < 0 or goal[place - 1] == "-" else f"{goal[:place]}\n{goal[place + 1 :]}"
    assert re.findall(r"^R\d+\. (.*)$", run_chain(wrapped)["requirements"], re.MULTILINE) == demands


PATHOLOGICAL = [
    ".", ". ", "? A", '"', '"a', ' "a"b', "(", "(a", ").", " ", "\n", "- \n", "# \n", "may ", "ha", "a",
    "must ", "a. b? ", "R1", "1. ", "…", ".)",
]  # fmt: skip


@pytest.mark.parametrize(
    "unit", [*PATHOLOGICAL[:4], *(pytest.param(unit, marks=pytest.mark.slow) for unit in PATHOLOGICAL[4:])]
)
def test_run_time_is_linear_in_the_length_of_the_text(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        start = time.process_time()
        find_demands(text)
        return time.process_time() - start

    # With quadratic run time, eight times the text would take 64 times as long; the floor ignores tiny times.
    bound = 24 * max(seconds(20_000), 0.02)
    assert any(seconds(160_000) < bound for _ in range(3)), "other processes may slow one of them"
