"""A variant is sent, and its answers are compared with the recorded one."""

from __future__ import annotations

import asyncio

import pytest

from archon.errors import InvalidArgument, PermissionDenied
from archon_mesh.core.messages import ToolCall
from archon_mesh.evals import Case, Contains, evaluate
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel, Usage
from archon_mesh.llm.prices import Price
from archon_mesh.playground import Trial, Variant, play, recorded_calls, variant_target
from tests.fixtures.recorded_calls import model_record

(CALL,) = recorded_calls(
    [
        model_record(
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Draw a door."},
            origins=[{"kind": "system_prompt"}, {"kind": "input"}],
            reply={"model": "m", "text": "A blue door.", "usage": {"input_tokens": 5, "output_tokens": 3}},
        )
    ]
)
VARIANT = Variant.of(CALL)


class Priced(ScriptedModel):
    """A model whose tokens cost ten dollars per million."""

    price = Price(10.0, 10.0, 10.0, 10.0)


def priced(request: ModelRequest) -> ModelReply:
    return ModelReply("A red door.", (), Usage(100, 100, cost_micro_usd=2_000), "m", "stop")


async def test_answers_are_compared_by_words_with_the_recorded_one() -> None:
    model = ScriptedModel(["A red door.", "A blue door.", [ToolCall("1", "draw", "{}")]])
    seen: list[Trial] = []
    played = await play(
        VARIANT.with_system("Be colourful."), recorded=CALL, repeat=3, parallel=1, model=model, on_trial=seen.append
    )
    assert [request.messages[0].content for request in model.requests] == ["Be colourful."] * 3
    assert seen == list(played.trials)
    document = played.document()
    assert [answer["same"] for answer in document["answers"]] == [False, True, False]
    assert document["answers"][0]["difference"] == [
        {"kind": "same", "text": "A"},
        {"kind": "removed", "text": " blue"},
        {"kind": "added", "text": " red"},
        {"kind": "same", "text": " door."},
    ]
    assert document["answers"][2]["tool_calls"] == [{"name": "draw", "arguments": "{}"}]
    assert (document["recorded"]["words"], document["recorded"]["input_tokens"]) == (3, 5)
    assert document["origin"]["call"] == 1 and document["changes"][0]["place"] == "message 1 (system)"
    assert not document["has_price"] and document["stopped"] == ""


async def test_a_call_that_fails_is_a_trial_with_an_error() -> None:
    model = ScriptedModel([PermissionDenied("not you"), "A door."])
    played = await play(VARIANT, recorded=CALL, repeat=2, parallel=1, model=model)
    failed, answered = played.document()["answers"]
    assert (failed["error"]["code"], failed["text"], failed["same"]) == ("PERMISSION_DENIED", None, None)
    assert answered["error"] is None and len(played.answered) == 1


async def test_the_budget_ends_the_calls_that_it_does_not_cover() -> None:
    model = Priced(priced)
    played = await play(VARIANT.with_max_tokens(200), repeat=10, parallel=1, max_cost_usd=0.005, model=model)
    assert len(played.trials) == 2 and played.cost_usd == 0.004 and played.has_price
    assert "insufficient budget" in played.stopped
    assert len(model.requests) == 2


async def test_parallel_calls_share_the_budget() -> None:
    model = Priced(priced)
    played = await play(VARIANT.with_max_tokens(200), repeat=10, parallel=10, max_cost_usd=0.005, model=model)
    assert len(model.requests) <= 2 and played.stopped


async def test_no_more_calls_run_at_a_time_than_wanted() -> None:
    running, most = 0, 0

    class Counting(ScriptedModel):
        async def generate(self, request: ModelRequest) -> ModelReply:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return priced(request)

    await play(VARIANT, repeat=9, parallel=3, model=Counting())
    assert most == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"repeat": 0},
        {"repeat": 101},
        {"parallel": 0},
        {"max_cost_usd": 0},
        {"max_cost_usd": float("nan")},
        {"timeout": 0},
    ],
)
async def test_an_argument_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    model = ScriptedModel([])
    with pytest.raises(InvalidArgument):
        await play(VARIANT, model=model, **wrong)  # type: ignore[arg-type]


async def test_an_unknown_model_is_refused_before_a_call() -> None:
    with pytest.raises(InvalidArgument, match="unknown model 'm'"):
        await play(VARIANT)


async def test_a_variant_answers_the_cases_of_an_eval() -> None:
    model = Priced(lambda request: f"{request.messages[0].content} {request.messages[1].content}")
    cases = [
        Case(id=name, goal=f"Draw a {name}.", expect=[Contains(texts=["Be long.", name])]) for name in ("cat", "dog")
    ]
    target = variant_target(VARIANT.with_system("Be long."), model)
    report = await evaluate(cases, target)
    assert report.passed, report.failures
    assert sorted(request.messages[1].content for request in model.requests) == ["Draw a cat.", "Draw a dog."]
    worse = await evaluate(cases, variant_target(VARIANT, model))
    assert not worse.passed


def test_a_variant_without_an_input_is_no_target() -> None:
    with pytest.raises(InvalidArgument, match="has no `input`"):
        variant_target(Variant("m", CALL.request), ScriptedModel([]))
