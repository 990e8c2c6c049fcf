"""An agent as a process that shares storage: the role ECHO_ROLE appends its name to `seen`, calls the role CALLS if
that is set, and answers with the contents of its storage."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator

from archon_mesh.agent import Agent, HookContext, Middleware, Outcome, go_on
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, Usage
from archon_mesh.node import Role, serve

ROLE = os.environ["ECHO_ROLE"]
CALLS = os.environ.get("CALLS", "")


class Calling:
    """A model that calls the other role once and then ends."""

    model = "calling"

    async def generate(self, request: ModelRequest) -> ModelReply:
        if CALLS and request.messages[-1].role == "user":
            return ModelReply("", (ToolCall("1", CALLS, '{"task": "go"}'),), Usage(1, 1), self.model, "tool_calls")
        return ModelReply("done", (), Usage(1, 1), self.model, "stop")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        yield ModelChunk(reply=await self.generate(request))

    async def close(self) -> None:
        pass


class Sharing(Middleware):
    """Writes to the storage before the agent runs, and answers with its contents."""

    def before_agent(self, hook: HookContext) -> None:
        """Stores the role's name, and a value that cannot leave the process."""
        hook.state.global_storage.compute("seen", lambda seen: [*seen, ROLE], [])
        hook.state.global_storage.set("mine", object())

    def query_end(self, hook: HookContext) -> Outcome:
        """Answers with the contents of the storage."""
        contents = hook.state.global_storage.to_dict()
        return go_on(json.dumps(contents, default=lambda _: ROLE))


if __name__ == "__main__":
    agent = Agent(ROLE, system_prompt="You share.", model=Calling(), middlewares=[Sharing()])
    sys.exit(serve(Role(ROLE, "You share.", "shares", coordinator=bool(CALLS)), agent))
