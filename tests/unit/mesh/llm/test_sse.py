"""Server-sent events are read from bytes, however these are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import MessageTooLarge
from archon_mesh.llm import sse
from archon_mesh.llm.sse import EventReader, ServerEvent


def read(*pieces: bytes) -> list[ServerEvent]:
    reader = EventReader()
    found = [event for piece in pieces for event in reader.feed(piece)]
    return found + reader.end()


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [("message", "a")]),
        (b"data:a\n\ndata: b\n\n", [("message", "a"), ("message", "b")]),
        (b"event: error\ndata: {}\n\n", [("error", "{}")]),
        (b"data: a\ndata: b\n\n", [("message", "a\nb")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c", [("message", "a"), ("message", "b"), ("message", "c")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("message", "a")]),
        (b": keep-alive\n\n\n\n: again\n\n", []),
        (b"id: 1\nretry: 5\nunknown\nevent: ping\n\n", []),
        ("data: ä€\U0001f600\n\n".encode(), [("message", "ä€\U0001f600")]),
        (b"data: \xff\n\n", [("message", "\ufffd")]),
        (b"data:\n\n", [("message", "")]),
    ],
)
@given(data=st.data())
def test_a_stream_gives_the_same_events_in_all_pieces(
    stream: bytes, expected: list[tuple[str, str]], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*pieces) == expected


def test_an_event_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 1_000)
    reader = EventReader()
    with pytest.raises(MessageTooLarge, match="1,000"):
        for _ in range(300):
            reader.feed(b"data: 0123456789\n")
    reader = EventReader()
    with pytest.raises(MessageTooLarge):
        for _ in range(300):
            reader.feed(b"0123456789")
