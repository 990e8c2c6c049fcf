"""A client refuses answers to questions that cannot be sent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from archon.client import Client
from archon.errors import InvalidArgument, MessageTooLarge
from archon.types import Part

NOWHERE = "127.0.0.1:1"  # no server listens there: the answers are refused before they are sent


@pytest.mark.parametrize("answer", ["x" * 5_000_000, [Part(raw=bytes(5_000_000))]])
async def test_a_too_large_answer_is_refused_before_it_is_sent(
    answer: str | Sequence[Part],
) -> None:
    async with Client(NOWHERE) as client, client.converse() as stream:
        for respond in (client.respond, stream.respond):
            with pytest.raises(MessageTooLarge, match="the answer has 5,000,0"):
                await respond("r", "r.1/q1", answer)


async def test_an_answer_that_is_not_utf_8_is_refused() -> None:
    async with Client(NOWHERE) as client, client.converse() as stream:
        for respond in (client.respond, stream.respond):
            with pytest.raises(InvalidArgument, match="the answer is not valid UTF-8"):
                await respond("r", "r.1/q1", "yes\ud800")
