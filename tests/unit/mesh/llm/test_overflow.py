"""A request that is too long is recognised by the words of each family of servers."""

from __future__ import annotations

import pytest

from archon_mesh.llm.overflow import is_overflow


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "context_length_exceeded",
        "request (66202 tokens) exceeds the available context size (65536 tokens), try increasing it",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The decoder prompt (length 40000) is longer than the maximum model length of 32768.",
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
        "`inputs` must have less than 1024 tokens. Given: 1025",
        "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
        "Please reduce the length of the messages or completion.",
        "Invalid request: Your request exceeded model token limit: 8192",
        "Input is too long for requested model.",
        "Trying to keep the first 9000 tokens when context the overflows.",
    ],
)
def test_words_of_a_server(words: str) -> None:
    assert is_overflow(words)


@pytest.mark.parametrize(
    "words", ["invalid value for temperature", "unknown field: foo", "max_tokens must be positive"]
)
def test_other_errors_are_none(words: str) -> None:
    assert not is_overflow(words)
