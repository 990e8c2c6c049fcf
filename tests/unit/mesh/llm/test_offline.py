"""The offline model without tools: each task, and the chain of three roles."""

from __future__ import annotations

import ast
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.core.memory_graph import SharedMemoryGraph
from archon_mesh.core.messages import ChatMessage, with_shared_context
from archon_mesh.llm import ModelRequest, Usage, create_model
from archon_mesh.llm.offline_tasks import NOTICE, task_of, write_reply

PROMPTS = {
    "requirements": "You are the requirements analyst. Extract the requirements for the designer.",
    "designer": "You are the designer. Name a component for each requirement in your shared context.",
    "implementer": "From the requirements and the design, plan and write an implementation.",
}
EDGES = [("requirements", "designer"), ("requirements", "implementer"), ("designer", "implementer")]
GOAL = "Acme was founded in 1999. It must export\ninvoices as PDF. Users should see a log! Mustard is fine."
DEMANDS = ["It must export invoices as PDF.", "Users should see a log!"]


def run_chain(goal: str, edges: list[tuple[str, str]] = EDGES) -> dict[str, str]:
    """Runs the three roles in order, with shared memory."""
    graph = SharedMemoryGraph()
    for src, dst in edges:
        graph.add_edge(src, dst)
    answers = {}
    for role, prompt in PROMPTS.items():
        messages = [ChatMessage("system", prompt), ChatMessage("user", goal)]
        answers[role] = write_reply(with_shared_context(messages, graph.pull_for(role)))
        graph.publish(role, answers[role])
    return answers


def code_of(answer: str) -> str:
    match = re.search(r"```python\n(.*)\n```", answer, re.DOTALL)
    assert match
    return match[1]


def test_requirements_are_the_numbered_demands() -> None:
    answer = run_chain(GOAL)["requirements"]
    assert answer == f"{NOTICE}\n\nR1. {DEMANDS[0]}\nR2. {DEMANDS[1]}"


def test_designer_names_a_component_per_requirement() -> None:
    assert run_chain(GOAL)["designer"].splitlines()[2:] == [
        "C1. ExportInvoicesPDFService — covers R1: It must export invoices as PDF.",
        "C2. SeeLogService — covers R2: Users should see a log!",
    ]


def test_component_names_are_unique() -> None:
    design = run_chain("It must log mails. It shall log mails. It should log mails.")["designer"]
    assert re.findall(r"C\d\. (\w+)", design) == ["LogMailsService", "LogMailsService2", "LogMailsService3"]


def test_implementation_cites_requirements_and_components() -> None:
    answer = run_chain(GOAL)["implementer"]
    plan, code = answer.split("\nCode\n")
    names = ["ExportInvoicesPDFService", "SeeLogService"]
    for number, (demand, name) in enumerate(zip(DEMANDS, names, strict=True), start=1):
        assert f"C{number} {name}, which meets R{number}: {demand}" in plan
        assert f"# C{number} {name}\n# R{number}: {demand}\nclass {name}:" in code
    assert [node.name for node in ast.parse(code_of(answer)).body if isinstance(node, ast.ClassDef)] == names


def test_implementation_without_a_design_uses_requirements_only() -> None:
    answer = run_chain(GOAL, EDGES[:2])["implementer"]
    assert all(demand in answer for demand in DEMANDS)
    assert "component" not in answer.lower()
    assert not re.search(r"\bC\d", answer)
    assert "no design" in answer
    ast.parse(code_of(answer))


def test_implementation_without_requirements_follows_the_design() -> None:
    answer = run_chain(GOAL, [EDGES[0], EDGES[2]])["implementer"]
    assert "C1 ExportInvoicesPDFService" in answer
    assert "covers R1" in answer
    ast.parse(code_of(answer))


def test_implementation_without_either_uses_the_task() -> None:
    answer = run_chain(GOAL, [])["implementer"]
    assert "no requirements" in answer
    assert all(demand in answer for demand in DEMANDS)


def test_text_without_demands_yields_nothing_invented() -> None:
    answers = run_chain("Hello there, mesh.")
    assert "no requirement" in answers["requirements"]
    assert "no component" in answers["designer"]
    assert "Hello there, mesh." in answers["implementer"]
    assert not any(re.search(r"\b[RC]\d", answer) for answer in answers.values())


def test_requirement_without_a_component_is_still_built() -> None:
    shared = [
        ChatMessage("system", "Shared context from one:\n- **R1.** It must log.\n- **R2.** It must stop."),
        ChatMessage("system", "Shared context from two:\n**C1.** **Logger** covers R1\nC2. Extra, for looks"),
    ]
    answer = write_reply([ChatMessage("system", PROMPTS["implementer"]), *shared, ChatMessage("user", "go")])
    assert "C1 Logger, which meets R1: It must log." in answer
    assert "Write the part that meets R2: It must stop." in answer
    assert "C2 Extra" in answer
    ast.parse(code_of(answer))


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


@pytest.mark.parametrize(
    ("prompt", "task"),
    [
        ("Extract every functional requirement and all other requirements from the goal.", "requirements"),
        (
            "You are a requirements engineer. The designer and the implementer read your answer.",
            "requirements",
        ),
        ("List the requirements. Do not design components, do not write code.", "requirements"),
        ("List one component per requirement, and state for each requirement why.", "design"),
        ("You are a software architect. Read the requirements.", "design"),
        ("Design the components of a system that meets the requirements; write no code.", "design"),
        ("For each requirement of the analyst, propose one component.", "design"),
        ("You are the implementer. Read the design and the requirements.", "implementation"),
        ("Use the requirements and the design of the components to write the code.", "implementation"),
        ("You implement what the designer has named.", "implementation"),
        ("You are a helpful assistant.", None),
        ("", None),
    ],
)
def test_prompt_selects_the_task(prompt: str, task: str | None) -> None:
    assert task_of(prompt) == task


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
def test_demands_stay_verbatim_along_the_chain(parts: list[tuple[str, str, str, str]], wrap_at: int) -> None:
    demands = [frame.format(marker) for marker, frame, _, _ in parts]
    goal = "".join(f"{demand} {parts[i][2]}{parts[i][3]}" for i, demand in enumerate(demands))
    # One line break at any space.
    place = goal.find(" ", wrap_at)
    wrapped = goal if place < 0 or goal[place - 1] == "-" else f"{goal[:place]}\n{goal[place + 1 :]}"
    answers = run_chain(wrapped)
    assert re.findall(r"^R\d+\. (.*)$", answers["requirements"], re.MULTILINE) == demands
    assert re.findall(r"covers (R\d+):", answers["designer"]) == [f"R{n}" for n in range(1, len(demands) + 1)]
    assert re.findall(r"^# R\d+: (.*)$", answers["implementer"], re.MULTILINE) == demands
    ast.parse(code_of(answers["implementer"]))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"])))
def test_generated_code_is_valid_python(words: str) -> None:
    ast.parse(code_of(run_chain(f"It must {words}.")["implementer"]))


@pytest.mark.parametrize("prompt", PROMPTS.values())
async def test_chunks_of_a_stream_are_small_and_add_up_to_the_reply(prompt: str) -> None:
    model = create_model("offline")
    shared = ChatMessage("system", "Shared context from analyst:\nR1. It must log all  mails twice a day.")
    request = ModelRequest([ChatMessage("system", prompt), shared, ChatMessage("user", GOAL)])
    steps = [step async for step in model.stream(request)]
    reply = await model.generate(request)
    assert steps[-1].reply == reply
    assert "".join(step.text_delta for step in steps) == reply.text
    assert len(steps) > 3
    assert all(0 < len(step.text_delta.split(" ")) <= 5 for step in steps[:-1])


async def test_usage_is_estimated_at_four_characters_per_token() -> None:
    messages = [ChatMessage("system", "12345"), ChatMessage("user", "1234")]
    reply = await create_model().generate(ModelRequest(messages))
    assert reply.usage == Usage(3, -(-len(reply.text) // 4), estimated=True)
    assert (reply.model, reply.finish_reason, reply.tool_calls) == ("offline", "stop", ())


async def test_token_limit_truncates_the_reply() -> None:
    messages = [ChatMessage("system", PROMPTS["requirements"]), ChatMessage("user", GOAL)]
    whole = (await create_model().generate(ModelRequest(messages))).text
    cut = await create_model().generate(ModelRequest(messages, max_tokens=25))
    assert (cut.text, cut.finish_reason, cut.usage.output_tokens) == (whole[:100], "length", 25)
    going_on = [*messages, cut.message(), ChatMessage("system", "Go on.")]
    assert (await create_model().generate(ModelRequest(going_on))).text == whole[100:]
    again = [*messages, ChatMessage("assistant", whole)]
    assert (await create_model().generate(ModelRequest(again))).text == whole, "an answer that was not accepted"


@pytest.mark.parametrize("size", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
async def test_a_long_goal_takes_seconds_per_role(size: int) -> None:
    unit = "The system must keep the\nZEBRA invoice for a year. It was nice. Users want PDF files. "
    goal = unit * (size // len(unit))
    model, graph = create_model(), SharedMemoryGraph()
    for src, dst in EDGES:
        graph.add_edge(src, dst)
    for role, prompt in PROMPTS.items():
        own = [ChatMessage("system", prompt), ChatMessage("user", goal)]
        messages = with_shared_context(own, graph.pull_for(role))
        start = time.process_time()
        steps = [step async for step in model.stream(ModelRequest(messages))]
        assert time.process_time() - start < 10, "in quadratic time it would take minutes"
        assert steps[-1].reply is not None
        graph.publish(role, steps[-1].reply.text)
