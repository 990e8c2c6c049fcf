"""A prompt that a real model server has answered: the command that repeats it, and the playground."""

from __future__ import annotations

import asyncio
import os

import pytest

from archon_mesh.agent import Agent
from archon_mesh.llm import create_model
from archon_mesh.playground import Variant, curl_command, play, recorded_calls, sent_bytes
from tests.fixtures.recorded_calls import record_calls
from tests.real_model.server import RealModel

pytestmark = pytest.mark.search


async def test_a_recorded_prompt_is_sent_again_by_curl_and_in_the_playground(
    real_model: RealModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", real_model.url)
    client = create_model("openai/smollm2")
    prompt = 'You\'re brief. Answer with `yes` or "no".'
    async with Agent("clerk", system_prompt=prompt, model=client, max_tokens=8, temperature=0.0) as agent:
        call, *_ = recorded_calls(await record_calls(agent, "It's noon: is the sun up? $HOME", role="clerk"))
    assert b"$HOME" in sent_bytes(call)
    process = await asyncio.create_subprocess_exec("bash", "-c", curl_command(call), stdout=-1, env=dict(os.environ))
    out, _ = await process.communicate()
    assert process.returncode == 0 and b'"choices"' in out and b"error" not in out, out
    same = await play(Variant.of(call), recorded=call, repeat=2, parallel=1)
    assert len(same.answered) == 2 and same.trials[0].usage.input_tokens == call.record.usage.input_tokens
    other = await play(Variant.of(call).with_system("Be long.").with_max_tokens(16), recorded=call, max_cost_usd=0.01)
    document = other.document()
    assert document["answers"][0]["error"] is None and document["changes"][0]["place"] == "message 1 (system)"
