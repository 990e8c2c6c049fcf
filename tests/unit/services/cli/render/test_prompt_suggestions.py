"""What the inspector of prompts suggests."""

from __future__ import annotations

import pytest

from archon_mesh.agent.loop import notes
from archon_mesh.tools.output_limit import limited
from archon_services.cli.render.prompt_sections import Expected
from archon_services.cli.render.prompt_suggestions import suggestions
from tests.unit.services.cli.render.test_prompt_sections import INPUT, LONG, context, prompt_of

MUCH = "word " * 2_500


@pytest.mark.parametrize(
    ("origin", "advice"),
    [
        ({"kind": "system_prompt"}, "shorten the system prompt"),
        ({"kind": "session_history"}, "let a compaction summarise it"),
        ({"kind": "memory"}, "lower `limit` or `budget` of the memory"),
        ({"kind": "tool_result", "tool": "look"}, "have tools return less"),
        ({"kind": "shared_context", "role": "cook", "version": 1}, "ask that role for a shorter answer"),
    ],
)
def test_a_long_section_has_advice_of_its_own(origin: dict[str, object], advice: str) -> None:
    (line,) = suggestions(prompt_of(("user", origin, MUCH), INPUT))
    assert line.startswith("long: ")
    assert advice in line
    assert "100% of the prompt" in line


def test_short_prompts_and_even_parts_need_no_advice() -> None:
    assert suggestions(prompt_of(INPUT)) == []
    kinds = ("system_prompt", "memory", "session_history", "input")
    texts = [("user", {"kind": kind}, MUCH + kind) for kind in kinds]
    assert suggestions(prompt_of(*texts)) == [], "none has 30 %"


def test_a_repeated_section_names_both_messages() -> None:
    lines = suggestions(prompt_of(context("cook", LONG), ("user", {"kind": "input"}, LONG)))
    assert lines == ["repeated: messages 1 and 2: leave one of them out where the later one is added"]


def test_sections_that_were_cut_say_what_to_raise() -> None:
    cut = str(limited("x" * 200, 100)[0])
    sent = [
        INPUT,
        ("tool", {"kind": "tool_result", "tool": "look"}, cut),
        ("system", {"kind": "note"}, notes.CUT),
        ("system", {"kind": "summary"}, "[Earlier conversation summarized: ...]"),
    ]
    result, reply, summary = suggestions(prompt_of(*sent))
    assert result.startswith("cut: message 2 (result of look ()): raise `max_output_bytes`")
    assert reply == "cut: the reply before message 3: raise `max_tokens` of the agent"
    assert summary.startswith("cut: message 4 stands for older messages")


def test_missing_sections_say_how_they_get_there() -> None:
    expected = Expected(depends_on=("cook", "waiter"), given=frozenset({"waiter"}), roles=frozenset({"cook"}))
    lines = suggestions(prompt_of(("system", {"kind": "system_prompt"}, "You help."), expected=expected))
    assert lines == [
        "missing: the shared context of cook: let that role run first, or remove it from `depends_on`",
        "missing: the shared context of waiter: have the agent's hooks and compaction keep system messages",
        "missing: the input of the task: have the agent's hooks and compaction keep the query",
    ]
