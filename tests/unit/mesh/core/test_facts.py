"""What a summary must keep is found by rules, and appended within a bound."""

from __future__ import annotations

from archon_mesh.core.compaction import extract, summary, summary_text
from archon_mesh.core.facts import MAX_SENTENCE, facts, facts_of, instructions, sentences, with_facts
from archon_mesh.core.messages import ChatMessage


def user(text: str) -> ChatMessage:
    return ChatMessage("user", text)


def test_instructions_are_what_the_user_wants_kept() -> None:
    talk = [
        user("Hello. From now on, answer in French! Is that always possible?"),
        user("Never use the lift\nand buy two apples"),
        ChatMessage("assistant", "I will always do so."),
    ]
    assert instructions(talk) == ["From now on, answer in French!", "Never use the lift"]


def test_a_missing_instruction_is_appended_once() -> None:
    talk = [user("never use the lift"), user("never use the lift")]
    assert with_facts("They met.", talk) == "They met.\n\nAlso said:\n- never use the lift"
    assert with_facts("The user said: never use the lift", talk) == "The user said: never use the lift"


def test_a_number_within_another_one_counts_as_missing() -> None:
    assert with_facts("It costs 230.", [user("room 23")]).endswith("- room 23")


def test_the_latest_facts_have_room_first() -> None:
    text = with_facts("s", [user(f"room {number:04}") for number in range(100)], limit=100)
    assert text.count("\n- ") == 8
    assert text.endswith("- room 0099")


def test_a_summary_of_a_summary_has_the_same_facts() -> None:
    first = summary(with_facts("They met.", [user("The code of locker 7 is 8841")]))
    assert sentences(summary_text(first))[-1] == "The code of locker 7 is 8841"
    assert facts_of(summary_text(first)) == ["7", "8841"]


def test_an_extract_has_the_newest_messages_within_its_bound() -> None:
    talk = [summary("older"), *(user(f"Message {number}. " + "More. " * 50) for number in range(500))]
    lines = extract(talk).splitlines()
    assert lines[-1] == "user: Message 499."
    assert sum(len(line) + 1 for line in lines) <= 2_000
    assert extract([]) == ""


def test_facts_are_names_numbers_dates_and_urls() -> None:
    text = (
        "On 17 May 2024 Ada Lovelace paid $1,250.50 (12%) for the manual at https://example.org/a?b=1, and by "
        "2024-06-01 it was Charles who owed 3 more."
    )
    assert facts([user(text)]) == [
        "17 May 2024",
        "Ada Lovelace",
        "$1,250.50",
        "12%",
        "https://example.org/a?b=1",
        "2024-06-01",
        "Charles",
        "3",
    ]
    assert with_facts("Ada Lovelace paid on 17 May 2024.", [user(text)]).endswith(f"Also said:\n- {text}")
    assert with_facts("Ada Lovelace.", [user(text[:-1] + " and" * 100)]).endswith(
        "- 17 May 2024; $1,250.50; 12%; https://example.org/a?b=1; 2024-06-01; Charles; 3"
    )
    assert with_facts("12", [user("12")]) == "12"


def test_instructions_come_first_into_the_room_then_what_the_user_said() -> None:
    talk = [
        ChatMessage("assistant", "It is in room 4711."),
        user("My locker is 1234."),
        user("Never use the lift."),
    ]
    room = len("Never use the lift.") + 3
    assert with_facts("s", talk, limit=room) == "s\n\nAlso said:\n- Never use the lift."
    assert with_facts("s", talk, limit=room - 1) == "s\n\nAlso said:\n- My locker is 1234."
    room += len("My locker is 1234.") + 3
    assert with_facts("s", talk, limit=room).endswith("said:\n- My locker is 1234.\n- Never use the lift.")
    assert "4711" not in with_facts("s", talk, limit=room)
    assert "4711" in with_facts("s", talk, limit=room + 30)


def test_a_long_instruction_is_cut_and_a_long_sentence_is_reduced_to_its_facts() -> None:
    fits, long = "x" * (MAX_SENTENCE - 6) + " 4711.", "x" * (MAX_SENTENCE - 5) + " 4711."
    assert with_facts("s", [user(fits)]).endswith(f"- {fits}")
    assert with_facts("s", [user(long)]).endswith("- 4711")
    assert with_facts("s", [user("Never " + "x" * 500)]).endswith("- Never " + "x" * (MAX_SENTENCE - 6))


def test_a_fact_of_four_characters_may_stand_within_a_word() -> None:
    assert with_facts("It is A4711.", [user("room 4711")]) == "It is A4711."
    assert with_facts("It is A471.", [user("room 471")]).endswith("- room 471")
