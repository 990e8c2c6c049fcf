"""Address and headers of OpenAI's APIs, which other servers take too."""

from __future__ import annotations

import os
from typing import Final

from archon_mesh.llm.endpoint import Endpoint
from archon_mesh.llm.endpoint_http import EndpointHttp

ADDRESS: Final = "https://api.openai.com/v1"

_HEADERS: Final = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}


def openai_http(endpoint: Endpoint, path: str) -> EndpointHttp:
    """Returns the connections to one API of an endpoint. Raises InvalidArgument as EndpointHttp does."""
    headers = {header: value for name, header in _HEADERS.items() if (value := os.environ.get(name, "").strip())}
    if endpoint.key:
        headers["authorization"] = f"Bearer {endpoint.key}"
    return EndpointHttp(endpoint.base_url or ADDRESS, path, headers, endpoint.key)
