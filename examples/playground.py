"""The playground of prompts in a program: a recorded model call is changed, sent again, and compared."""

from __future__ import annotations

from archon.client import Client
from archon_mesh.playground import Variant, find_call, play, recorded_calls
from archon_mesh.recorded import fetch_run


async def tried(client: Client, run_id: str) -> list[str]:
    calls = recorded_calls((await fetch_run(client, run_id)).records)
    call = find_call(calls, task="designer")
    variant = Variant.of(call).with_system("Answer in one sentence.").with_model("offline")
    played = await play(variant, recorded=call, repeat=2, max_cost_usd=0.05)
    return [str(answer["difference"]) for answer in played.document()["answers"]]
