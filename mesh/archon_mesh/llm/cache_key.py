"""The key under which OpenAI keeps the beginning of a request for the next one."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from archon_mesh.llm.base import ModelRequest

FIELD: Final = "prompt_cache_key"
"""The field of a request (https://platform.openai.com/docs/guides/prompt-caching)."""

DIGITS: Final = 32


def cache_key(request: ModelRequest) -> str:
    """Returns the same key for all requests that begin with the same prompt and tools: all requests of an agent, in all
    its runs."""
    prompt = request.messages[0].content if request.messages and request.messages[0].role == "system" else ""
    parts = [prompt, *(tool.name for tool in request.tools)]
    return sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:DIGITS]
