"""Errors of providers, which may repeat the key of a call in another form."""

from __future__ import annotations

import base64
import json
import socket
from urllib.parse import quote

import httpx2
import pytest

from archon.errors import Unavailable
from archon_mesh.llm.provider_errors import status_error, to_archon_error

KEY = "key+of/one=provider-1"


@pytest.mark.parametrize("status", [400, 429, 500])
@pytest.mark.parametrize("form", [KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode()])
def test_no_form_of_the_key_is_in_the_message(status: int, form: str) -> None:
    content = json.dumps({"error": {"message": f"wrong key {form}."}}).encode()
    message = str(status_error(status, {}, content, KEY))
    assert message.startswith(f"the model endpoint answered {status}: wrong key [key]")
    assert form.rstrip("=") not in message


def test_a_key_with_a_line_break_is_not_in_the_error_of_its_header() -> None:
    key = "a2b4c6d8-e0f1-4a5b-9c7d\n"  # as read from a file; an endpoint with a header of its own has no `Bearer`
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(httpx2.HTTPError) as caught:
        httpx2.get(f"http://127.0.0.1:{server.getsockname()[1]}/v1", headers={"api-key": key}, timeout=10)
    assert key.strip() in str(caught.value), "the client quotes the value"
    error = to_archon_error(caught.value, key)
    assert isinstance(error, Unavailable)
    assert key.strip() not in error.message
    assert "[key]" in error.message
