"""A judge of contradictions that asks a model."""

from __future__ import annotations

from typing import Final

from archon.memory.long_term.summary import Summarize
from archon_mesh.memory.long_term.contradictions import Judge

MAX_CHARS: Final = 2_000
"""Characters of each text that the model reads."""

PROMPT: Final = (
    "Two notes about the same user follow. Can both be true at the same time? Answer with YES or NO alone.\n\n"
    "First note: {one}\n\nSecond note: {other}"
)


def model_judge(ask: Summarize) -> Judge:
    """Returns a judge that asks a model by `ask`, which takes a prompt and returns the answer. An answer that does not
    begin with NO finds no contradiction. The judge raises the model's errors."""

    async def judge(one: str, other: str) -> bool:
        answer = await ask(PROMPT.format(one=one[:MAX_CHARS], other=other[:MAX_CHARS]))
        return answer.strip().upper().startswith("NO")

    return judge
