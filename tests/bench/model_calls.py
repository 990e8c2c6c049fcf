"""What a streamed call of a model costs with Archon's client of chat completions, against the package openai: processor
time of the client's process per call. The server is a process of its own. `python -m tests.bench.model_calls`"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import openai

from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelRequest, deadline
from archon_mesh.llm.openai import OpenAIModel
from tests.fixtures.openai_server import USAGE, Answer, OpenAIServer, chunk

TOKENS = 100
TEXT = " ".join(["word"] * TOKENS)
WARM_UP = 20


async def serve() -> None:
    """Answers each request with a stream of TOKENS chunks, until the input ends."""
    events = [*(chunk({"content": "word "}) for _ in range(TOKENS)), chunk(finish="stop"), chunk(usage=USAGE)]
    async with OpenAIServer(answer=lambda body: Answer(events=events)) as server:
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def measure(url: str, calls: int, rounds: int) -> dict[str, list[float]]:
    """Returns the milliseconds of processor time per call of each client, one number per round."""
    package = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
    model = OpenAIModel("m", base_url=url)
    request = ModelRequest([ChatMessage("user", TEXT)])
    messages: Any = [{"role": "user", "content": TEXT}]

    async def with_package() -> str:
        stream = await package.chat.completions.create(
            model="m", messages=messages, stream=True, stream_options={"include_usage": True}
        )
        return "".join([part.choices[0].delta.content or "" async for part in stream if part.choices])

    async def with_client() -> str:
        return "".join([part.text_delta async for part in model.stream(request)])

    async def with_deadline() -> str:
        return (await deadline.generate(model, request)).text

    ways: dict[str, Callable[[], Awaitable[str]]] = {
        "openai": with_package,
        "archon": with_client,
        "archon, with its limits": with_deadline,
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(-1, rounds):
        for name, call in ways.items() if round_ % 2 else reversed(ways.items()):
            began = time.process_time()
            for _ in range(calls if round_ >= 0 else WARM_UP):
                assert len((await call()).split()) == TOKENS
            if round_ >= 0:
                times[name].append((time.process_time() - began) * 1000 / calls)
    await package.close()
    await model.close()
    return times


def main() -> None:
    """Prints the median of each client and its ratio to the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", action="store_true")
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
        return
    command = [sys.executable, "-m", "tests.bench.model_calls", "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        times = asyncio.run(measure(server.stdout.readline().strip(), arguments.calls, arguments.rounds))
        server.stdin.close()
    floor = statistics.median(times["openai"])
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:<26} {median:6.2f} ms CPU per call   x{median / floor:.2f}")


if __name__ == "__main__":
    main()
