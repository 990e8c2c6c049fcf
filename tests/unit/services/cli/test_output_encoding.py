"""Output in an encoding that lacks characters has them as escapes, and JSON stays JSON."""

from __future__ import annotations

import io
import json
import sys

import pytest

from archon_services.cli.output_encoding import escape_what_streams_lack, is_unicode

TEXT = "Größe “x” → 你好 😀"


@pytest.mark.parametrize(
    ("encoding", "kept"), [("ascii", ""), ("cp1252", "öß“”"), ("latin-1", "öß"), ("utf-8", TEXT), ("utf-16-le", TEXT)]
)
def test_every_text_is_written(encoding: str, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    escape_what_streams_lack()
    escape_what_streams_lack()
    print(json.dumps({"text": TEXT}, ensure_ascii=False), end="")
    sys.stdout.flush()
    written = raw.getvalue().decode(encoding)
    assert json.loads(written) == {"text": TEXT}
    assert all(character in written for character in kept)
    assert ("\\u4f60" in written) is not is_unicode(encoding)


def test_a_stream_that_is_none_of_python_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    escape_what_streams_lack()
    print(TEXT)
    assert TEXT in stream.getvalue()
