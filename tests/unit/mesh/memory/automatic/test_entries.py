"""What a run leaves: turns, findings by their rule, outcomes, with their metadata."""

from __future__ import annotations

from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.memory.automatic.entries import EndedRun, entries_of
from archon_mesh.memory.automatic.findings import MAX_FINDINGS, drew_on, findings
from archon_mesh.memory.automatic.owner import Owner

OWNER = Owner("ana", "s1", "t1", "clerk")


def called(tool: str, result: str, call_id: str = "1") -> list[ChatMessage]:
    return [
        ChatMessage("assistant", tool_calls=(ToolCall(call_id, tool, '{"key": "secret"}'),)),
        ChatMessage("tool", result, tool_call_id=call_id),
    ]


def test_a_result_matters_if_the_answer_repeats_its_fact() -> None:
    messages = [
        *called("search", "Tokyo has 13,960,000 people. It is big."),
        *called("weather", "It is 7 degrees.", "2"),
    ]
    assert findings(messages, "How many live there?", "It has 13,960,000 people.") == [
        "search: Tokyo has 13,960,000 people."
    ]


def test_a_fact_of_the_query_makes_no_finding() -> None:
    messages = called("search", "Room 12 is free.")
    assert findings(messages, "Is room 12 free?", "Room 12 is free.") == []


def test_a_failed_call_makes_no_finding() -> None:
    assert findings(called("search", "Error UNAVAILABLE (X): port 8841 is closed"), "?", "Port 8841 is closed.") == []


def test_findings_of_one_run_are_bounded() -> None:
    messages = [each for number in range(9) for each in called("t", f"value {number}77", str(number))]
    answer = " ".join(f"{number}77" for number in range(9))
    assert len(findings(messages, "", answer)) == MAX_FINDINGS


def test_a_run_with_tools_leaves_turn_finding_and_outcome() -> None:
    messages = called("search", "It has 13,960,000 people.")
    run = EndedRun(OWNER, "t1", "How many live there?", "13,960,000.", messages)
    entries = entries_of(run, ["I only fly with window seats"])
    assert [(each.metadata["type"], each.metadata["role"], each.request_id) for each in entries] == [
        ("preference", "user", "t1/preference/0"),
        ("turn", "clerk", "t1/turn/0"),
        ("finding", "clerk", "t1/finding/0"),
        ("outcome", "clerk", "t1/outcome/0"),
    ]
    assert entries[1].content == "user: How many live there?\nassistant: 13,960,000."
    assert entries[3].content.endswith("Outcome: completed with search")
    assert all(each.metadata.items() >= {"user": "ana", "session": "s1", "task": "t1"}.items() for each in entries)
    assert not any("secret" in each.content for each in entries)
    assert entries[0].importance > 0.8 > entries[1].importance


def test_a_failed_run_leaves_its_outcome_alone() -> None:
    entries = entries_of(EndedRun(OWNER, "t1", "Book it", "", [], "Unavailable: down"), [])
    assert [each.content for each in entries] == ["Task: Book it\nOutcome: failed: Unavailable: down"]


def test_a_memory_was_useful_if_the_answer_has_its_fact() -> None:
    assert drew_on("The code is 8841.", "What is the code?", "user: the code is 8841")
    assert not drew_on("The code is 8841.", "Is it 8841?", "user: the code is 8841")
    assert not drew_on("I do not know.", "What is the code?", "user: the code is 8841")
