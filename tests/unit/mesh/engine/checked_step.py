"""One step of a run, checked: what is decided, what follows from it, and what a restart would find."""

from __future__ import annotations

from archon_mesh.engine import Place, RunState, apply, effects_of, is_local, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.codec import decode_inputs, encode_inputs
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.effects import Timer


def checked_step(run: RunState, given: inp.Input, now: float) -> list[ev.Event]:
    """Decides an input and applies the events. The stored form of the input has to decide the same, and the effects
    that follow from the events have to be those that the states differ by."""
    (again,), at = decode_inputs(encode_inputs([given], now))
    assert at == now
    events = decide(run, given, now)
    assert [type(event) for event in decide(run, again, now)] == [type(event) for event in events]
    before, local = open_effects(run), is_local(run, events)
    for event in events:
        apply(run, event, now)
    if local:
        told = set(effects_of(run, events))
        opened = {effect for effect in open_effects(run) - before if not isinstance(effect, Place)}
        assert opened <= told
        assert {effect for effect in told - opened if not isinstance(effect, Timer)} == set()
    return events
