"""A model that fails by name: what an agent makes of each fault, and that it goes on when the fault is healed."""

from __future__ import annotations

import pytest

from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.base import ModelRequest
from archon_mesh.testing import FaultyModel, ModelFault, ScriptedModel, VirtualTime

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.usefixtures("clock_put_back")]

CALLS = 4
"""Calls that an agent makes at most: the first one and its repetitions."""

REQUEST = ModelRequest([ChatMessage("user", "?")])

ERRORS = [
    (ModelFault.RATE_LIMITED, ResourceExhausted, "the model endpoint answered 429: too many requests", CALLS),
    (ModelFault.UNAVAILABLE, Unavailable, "answered 503: the server is overloaded", CALLS),
    (ModelFault.REFUSED, Unauthenticated, "answered 401", 1),
    (ModelFault.TOO_LONG, InvalidArgument, "maximum context length exceeded", 1),
    (ModelFault.HANGS, DeadlineExceeded, "sent no first token", 1),
    (ModelFault.BROKEN_STREAM, Unavailable, "ended before the reply was complete", CALLS),
    (ModelFault.INVALID_JSON, Unavailable, "sent invalid JSON", CALLS),
]


@pytest.mark.parametrize(("fault", "kind", "message", "calls"), ERRORS, ids=lambda value: str(value))
async def test_a_fault_of_a_model(fault: ModelFault, kind: type[ArchonError], message: str, calls: int) -> None:
    model = FaultyModel(ScriptedModel(["Yes."]))
    async with VirtualTime():
        async with model.fault(fault):
            with pytest.raises(kind, match=message):
                await Agent("a", model=model).run_async("?")
            assert model.failed == calls
        assert await Agent("a", model=model).run_async("?") == "Yes."
        assert model.failed == calls


@pytest.mark.parametrize("fault", [fault for fault, _, _, calls in ERRORS if calls == CALLS])
async def test_a_fault_that_passes_costs_time_only(fault: ModelFault) -> None:
    model = FaultyModel(ScriptedModel(["Yes."]))
    async with VirtualTime() as clock, model.fault(fault, times=2, retry_after=7):
        assert (await Agent("a", model=model).run_async("?")).endswith("Yes.")
        assert clock.now >= (14 if fault is ModelFault.RATE_LIMITED else 0)
    assert model.failed == 2


async def test_garbage_is_answered_and_the_model_goes_on() -> None:
    script = ScriptedModel(["Yes."])
    model = FaultyModel(script)
    async with model.fault(ModelFault.GARBAGE, times=1):
        assert await Agent("a", model=model).run_async("?") == "Yes."
    (request,) = script.requests
    assert "INVALID_ARGUMENT" in request.messages[-1].content


async def test_each_fault_of_a_model_is_tested() -> None:
    assert {fault for fault, *_ in ERRORS} | {ModelFault.GARBAGE} == set(ModelFault)


async def test_the_last_of_nested_faults_hits_until_it_is_healed() -> None:
    model = FaultyModel(ScriptedModel(["Yes."]))
    async with model.fault("refused"), model.fault("unavailable"):
        with pytest.raises(Unavailable):
            await model.generate(REQUEST)
        async with model.fault("rate_limited", times=1):
            with pytest.raises(ResourceExhausted):
                await model.generate(REQUEST)
            with pytest.raises(Unavailable):
                await model.generate(REQUEST)
    assert (await model.generate(REQUEST)).text == "Yes."


async def test_two_faults_of_one_name_end_one_by_one() -> None:
    model = FaultyModel(ScriptedModel(["Yes."]))
    first, second = model.fault("unavailable"), model.fault("unavailable")
    await first.start()
    await second.start()
    await first.heal()
    with pytest.raises(Unavailable):
        await model.generate(REQUEST)
    await second.heal()
    assert (await model.generate(REQUEST)).text == "Yes."


async def test_a_fault_begins_once_and_is_healed_if_its_block_raises() -> None:
    model = FaultyModel(ScriptedModel(["Yes."]))
    fault = model.fault("UNAVAILABLE")
    with pytest.raises(ZeroDivisionError):
        async with fault:
            assert fault.active
            with pytest.raises(FailedPrecondition, match="the fault unavailable has begun already"):
                await fault.start()
            raise ZeroDivisionError
    assert not fault.active
    await fault.heal()
    assert (await model.generate(REQUEST)).text == "Yes."


async def test_bad_inputs_of_faults_of_a_model() -> None:
    model = FaultyModel(ScriptedModel())
    with pytest.raises(InvalidArgument, match="unknown fault 'rate limited'; there are rate_limited, unavailable"):
        model.fault("rate limited")
    with pytest.raises(InvalidArgument, match="times must be at least 1, not 0"):
        model.fault("hangs", times=0)
    with pytest.raises(InvalidArgument, match="retry_after must be at least 0 s"):
        model.fault("rate_limited", retry_after=-1)
