"""The profile of a server: the differences of its chat completions API from others."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from archon_mesh.llm.media.profile import MediaProfile


class ServerProfile(MediaProfile):
    """The fields and forms that a server of the chat completions API takes."""

    family: str = Field(description="the name of the family")
    system_messages: Literal["one", "first", "any"] = Field(
        description="one: a single one, at the beginning, and no two messages of a user in a row; first: several, at "
        "the beginning; any: several, anywhere"
    )
    last_role: Literal["user", "any"] = Field(
        description="user: the last message is a user's or a tool's result; any: an assistant's too"
    )
    stream_options: bool = Field(description="whether a stream may be asked for its usage")
    temperature: bool = Field(description="whether requests may have a temperature")
    cache_key: bool = Field(description="whether requests with tools name their beginning (`prompt_cache_key`)")
    length: Literal["max_tokens", "max_completion_tokens"] = Field(description="the field that limits a reply")
    json_replies: tuple[Literal["object", "schema"], ...] = Field(
        alias="json", description="the response formats that are enforced: any JSON object, a JSON Schema"
    )
    json_with_tools: bool = Field(
        description="whether a request with tools may have a response format; without, the answer is a tool, too"
    )
    reasoning: tuple[Literal["reasoning_content", "reasoning", "reasoning_details", "extra_content"], ...] = Field(
        description="the fields with thinking that go back with the tool calls of their reply"
    )
    needs_reasoning: bool = Field(
        description="whether messages with tool calls must have these fields: empty ones stand in for missing ones"
    )
    after_results: Literal["any", "reply"] = Field(
        description="reply: a user's message does not follow a tool's result directly"
    )
    tool_ids: Literal["any", "nine"] = Field(description="nine: ids of tool calls are nine letters and digits")
    schemas: Literal["full", "plain"] = Field(
        description="plain: schemas of tools without references and without the keys that few servers know"
    )
