"""The playground: a recorded prompt is changed, sent again, and its answers are compared with the recorded one.

    calls = recorded_calls((await fetch_run(client, run_id)).records)
    call = find_call(calls, task="designer")
    variant = Variant.of(call).with_system("Answer in one sentence.")
    played = await play(variant, recorded=call, repeat=3, max_cost_usd=0.05)
    print(played.document())

Nothing of it changes the run. docs/playground.md describes it. Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from archon.lazy_names import lazy_names

if TYPE_CHECKING:
    from archon_mesh.playground.eval_target import variant_target
    from archon_mesh.playground.played import Played, Trial, estimate_cost, play
    from archon_mesh.playground.recorded_call import RecordedCall, find_call, recorded_calls
    from archon_mesh.playground.sent_request import curl_command, sent_bytes
    from archon_mesh.playground.variant import Change, Origin, Variant
    from archon_mesh.playground.variant_file import parse_variant, read_variant, variant_text, write_variant

_MODULES: Final = {
    name: f"archon_mesh.playground.{module}"
    for module, names in {
        "eval_target": ("variant_target",),
        "played": ("Played", "Trial", "estimate_cost", "play"),
        "recorded_call": ("RecordedCall", "find_call", "recorded_calls"),
        "sent_request": ("curl_command", "sent_bytes"),
        "variant": ("Change", "Origin", "Variant"),
        "variant_file": ("parse_variant", "read_variant", "variant_text", "write_variant"),
    }.items()
    for name in names
}

__all__ = [
    "Change",
    "Origin",
    "Played",
    "RecordedCall",
    "Trial",
    "Variant",
    "curl_command",
    "estimate_cost",
    "find_call",
    "parse_variant",
    "play",
    "read_variant",
    "recorded_calls",
    "sent_bytes",
    "variant_target",
    "variant_text",
    "write_variant",
]

__getattr__ = lazy_names(__name__, _MODULES)
