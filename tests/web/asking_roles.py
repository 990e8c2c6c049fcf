"""`python -m tests.web.asking_roles` serves until a signal the roles of the tests of the web page: each asks, or answers, in its own
way."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Final

from archon import AgentServer, Question, TaskContext
from archon.server import signalled
from archon.types import QuestionTerms

HOSTILE: Final = (
    "<img src=x onerror=window.hacked=1><script>window.hacked=1</script> [click](javascript:window.hacked=1) "
    "![x](https://evil.example/leak) <a href='javascript:window.hacked=1'>a</a> \u202egnp.exe\u202c "
)
SCHEMA: Final = {
    "type": "object",
    "title": "Trip",
    "properties": {
        "city": {"type": "string", "description": "Where to?", "minLength": 2},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30, "default": 2},
        "breakfast": {"type": "boolean", "default": True},
        "class": {"enum": ["economy", "business"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "guest": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "mail": {"type": "string", "format": "email"}},
            "required": ["name"],
        },
        "from": {"type": "string", "format": "date"},
        "extra": {"anyOf": [{"type": "string"}, {"type": "number"}], "description": "Anything else."},
    },
    "required": ["city", "class"],
}
MARKDOWN: Final = """# The plan

A **short** answer with `code`, a [page](https://example.com/page) and ~~nothing~~.

1. first
2. second
   - nested

| role | tasks |
|------|------:|
| designer | 12 |
| writer | 3 |

```python
def add(one: int, other: int) -> int:
    return one + other
```

> Quoted by the writer.
"""


async def ask_text(task: TaskContext) -> str | Question:
    """Asks for a text."""
    return f"You said: {task.input_text}" if task.inputs else Question("Which **colour** do you want?")


async def ask_form(task: TaskContext) -> str | Question:
    """Asks for an object."""
    return f"Booked: {task.input_text}" if task.inputs else Question("Where to?", json.dumps(SCHEMA))


async def ask_choice(task: TaskContext) -> str | Question:
    """Asks for one of three."""
    terms = QuestionTerms(approvers=("ann", "bob"), timeout=900.0, on_timeout="escalate", default_answer="red")
    schema = json.dumps({"enum": ["red", "green", "blue"]})
    return f"Chosen: {task.input_text}" if task.inputs else Question("Choose one.", schema, terms=terms)


async def ask_secret(task: TaskContext) -> str:
    """Asks for a secret, and tells its length."""
    return f"The secret has {len(await task.ask_secret('What is the password of the shop?'))} characters."


async def ask_approval(task: TaskContext) -> str | Question:
    """Asks whether it may act."""
    if task.inputs or task.answers:
        given = next(iter(task.answers.values()))
        return f"{given.decision}: {given.text or given.parts}"
    subject = {"tool": "pay", "arguments": {"to": "the shop", "euros": 120}}
    terms = QuestionTerms(timeout=600.0, on_timeout="default", default_answer="reject")
    return Question("Pay the shop?", is_approval=True, subject_json=json.dumps(subject), terms=terms)


async def talk(task: TaskContext) -> str:
    """Thinks, calls a tool, and streams Markdown."""
    for words in ("I look at the list ", "of roles first."):
        task.think(words)
    task.tell_tool_arguments("1", "list_roles", '{"of": "the m')
    task.tell_tool_call("1", "list_roles", '{"of": "the mesh"}')
    await asyncio.sleep(0.2)
    task.tell_tool_result("1", "list_roles", '{"roles": ["designer", "writer"]}')
    for start in range(0, len(MARKDOWN), 12):
        task.write(MARKDOWN[start : start + 12])
        await asyncio.sleep(0.02)
    return MARKDOWN


async def wait(task: TaskContext) -> str:
    """Streams for a minute."""
    for number in range(600):
        task.write(f"line {number}\n\n")
        await asyncio.sleep(0.1)
    return "done"


async def attack(task: TaskContext) -> str | Question:
    """Answers with markup, after a question with markup."""
    if not task.inputs:
        task.tell_tool_call("1", HOSTILE[:60], json.dumps({"x": HOSTILE}))
        task.tell_tool_result("1", HOSTILE[:60], json.dumps(HOSTILE))
        return Question(HOSTILE, json.dumps({"title": HOSTILE, "description": HOSTILE, "enum": [HOSTILE, "no"]}))
    task.write(HOSTILE)
    return HOSTILE + "\n\n" + "x" * 300_000


ROLES: Final = {
    "painter": ask_text,
    "traveller": ask_form,
    "chooser": ask_choice,
    "keeper": ask_secret,
    "payer": ask_approval,
    "talker": talk,
    "walker": wait,
    "attacker": attack,
}


async def main() -> None:
    """Serves until a signal."""
    stop = signalled()
    async with AsyncExitStack() as stack:
        for role, handler in ROLES.items():
            agent = AgentServer(role, description=f"{(handler.__doc__ or '').strip()}")
            agent.task(handler)
            await stack.enter_async_context(agent)
        await stop.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
