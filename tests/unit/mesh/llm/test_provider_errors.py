"""Errors of providers, which may repeat the key of a call in another form."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from archon_mesh.llm.provider_errors import status_error

KEY = "key+of/one=provider-1"


@pytest.mark.parametrize("status", [400, 429, 500])
@pytest.mark.parametrize("form", [KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode()])
def test_no_form_of_the_key_is_in_the_message(status: int, form: str) -> None:
    content = json.dumps({"error": {"message": f"wrong key {form}."}}).encode()
    message = str(status_error(status, {}, content, KEY))
    assert message.startswith(f"the model endpoint answered {status}: wrong key [key]")
    assert form.rstrip("=") not in message
