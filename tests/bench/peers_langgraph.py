"""The pipeline on LangGraph with its SQLite saver, as a user would write it: three nodes in a row in one process, the
state of each run saved after every step with the durability that is the default. Runs in an environment with langgraph
and langgraph-checkpoint-sqlite and without Archon. `python -m tests.bench.peers_langgraph FILE` makes runs on request
until SIGTERM and writes its address to the file BENCH_READY."""

from __future__ import annotations

import asyncio
import operator
import sys
import uuid
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from tests.bench.drive import ANSWER, GOAL, ROLES, serve_load


class State(TypedDict):
    """The goal and the answers so far; each node sees both."""

    goal: str
    answers: Annotated[list[str], operator.add]


async def answer(state: State) -> dict[str, Any]:
    """Answers 1 KB."""
    return {"answers": [ANSWER]}


async def load(file: str) -> None:
    """Makes runs on request, each under a thread id of its own."""
    builder = StateGraph(State)
    for role in ROLES:
        builder.add_node(role, answer)
    for upstream, downstream in zip((START, *ROLES), (*ROLES, END), strict=True):
        builder.add_edge(upstream, downstream)
    async with AsyncSqliteSaver.from_conn_string(file) as saver:
        graph = builder.compile(checkpointer=saver)

        async def run() -> None:
            state = await graph.ainvoke(
                {"goal": GOAL, "answers": []}, {"configurable": {"thread_id": uuid.uuid4().hex}}
            )
            assert len(state["answers"]) == len(ROLES)

        await run()
        await serve_load(run)


if __name__ == "__main__":
    asyncio.run(load(sys.argv[1]))
