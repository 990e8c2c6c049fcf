"""Page tokens: opaque, bound to their filter; anything else is refused."""

from __future__ import annotations

import base64

import pytest

from archon.errors import InvalidArgument
from archon_services.common.paging import make_token, read_token


def test_token_is_read_back_only_with_its_own_filter() -> None:
    assert read_token("", "list", "a", like=["", 0]) is None
    token = make_token(["x", 1], "list", "a")
    assert read_token(token, "list", "a", like=["", 0]) == ["x", 1]
    with pytest.raises(InvalidArgument) as refused:
        read_token(token, "list", "b", like=["", 0])
    assert refused.value.reason == "INVALID_PAGE_TOKEN"


@pytest.mark.parametrize("content", [b"null", b"1", b"{}", b'"ab"', b"[1]", b"[1,2,3]", b"\xff", b"[" * 50_000, b""])
def test_malformed_token_is_refused(content: bytes) -> None:
    for token in (base64.urlsafe_b64encode(content).decode() or "=", "é", "a"):
        with pytest.raises(InvalidArgument) as refused:
            read_token(token, "list", like=["", 0])
        assert refused.value.reason == "INVALID_PAGE_TOKEN"
