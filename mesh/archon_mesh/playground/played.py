"""Sends a variant to its model, once or several times, and compares the answers with the recorded one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, Final

from archon.clock import monotonic
from archon.errors import ArchonError, BudgetExhausted, InvalidArgument
from archon_mesh.llm import ModelClient, ModelReply, ModelSpec, Usage, create_model, deadline
from archon_mesh.llm.prices import estimate_call, price_of
from archon_mesh.llm.wrappers import BudgetModel, RetryModel
from archon_mesh.playground.recorded_call import RecordedCall, readable_reply
from archon_mesh.playground.variant import Change, Variant, text_difference
from archon_mesh.run_diff import Piece, PieceKind

MAX_REPEAT: Final = 100
PARALLEL: Final = 4
"""Calls at a time."""

MIN_COST: Final = 1e-6
"""US dollars of the smallest budget, a millionth."""

_WITH_THINKING: Final = ("anthropic", "openai-responses")


@dataclass(frozen=True, slots=True)
class Trial:
    """One answer to a variant, or the error in its place. `seconds` is the time of the call, its retries included."""

    reply: ModelReply | None
    seconds: float
    error: ArchonError | None = None

    @property
    def text(self) -> str:
        """The answer: the text, then a line for each tool call."""
        return answer_text(self.reply) if self.reply is not None else ""

    @property
    def usage(self) -> Usage:
        """The usage of the call; none if it failed."""
        return self.reply.usage if self.reply is not None else Usage(0, 0)


@dataclass(frozen=True)
class Played:
    """The answers to a variant. `recorded` is the recorded call, None if there is none to compare with; `stopped` says
    why fewer answers were asked for than wanted, and is empty if all were."""

    variant: Variant
    trials: Sequence[Trial]
    recorded: RecordedCall | None = None
    stopped: str = ""
    has_price: bool = True
    """Whether the model has a price; without one its calls count as free of charge."""

    max_cost_usd: float | None = None
    """The budget of all calls in US dollars."""

    @cached_property
    def answered(self) -> Sequence[Trial]:
        """The trials that did not fail."""
        return [trial for trial in self.trials if trial.reply is not None]

    @cached_property
    def recorded_reply(self) -> ModelReply | None:
        """The recorded answer; None if there is none, or if its contents were not recorded."""
        return readable_reply(self.recorded) if self.recorded is not None else None

    @property
    def cost_usd(self) -> float:
        """The cost of all calls in US dollars."""
        return sum(trial.usage.cost_micro_usd for trial in self.trials) / 1e6

    def difference(self, trial: Trial) -> list[Piece] | None:
        """Returns an answer as the difference from the recorded one, by words; None if one of them is missing."""
        if self.recorded_reply is None or trial.reply is None:
            return None
        return text_difference(answer_text(self.recorded_reply), trial.text)

    def document(self) -> dict[str, Any]:
        """Returns the JSON form."""
        recorded, reply = self.recorded, self.recorded_reply
        return {
            "model": self.variant.model,
            "origin": {
                "run_id": self.variant.origin.run_id,
                "role": self.variant.origin.role,
                "task_id": self.variant.origin.task_id,
                "call": self.variant.origin.call,
            },
            "changes": [_change(change) for change in self.variant.changes()],
            "recorded": None
            if recorded is None
            else {"model": recorded.model, **_reply(reply, recorded.record.duration), "failure": recorded.failure},
            "answers": [self._answer(trial) for trial in self.trials],
            "mean": _mean(self.answered),
            "cost_usd": self.cost_usd,
            "has_price": self.has_price,
            "stopped": self.stopped,
        }

    def _answer(self, trial: Trial) -> dict[str, Any]:
        error, pieces = trial.error, self.difference(trial)
        return {
            **_reply(trial.reply, trial.seconds),
            "error": None if error is None else {"code": error.code, "reason": error.reason, "message": error.message},
            "same": None if pieces is None else all(piece.kind is PieceKind.SAME for piece in pieces),
            "difference": None if pieces is None else _pieces(pieces),
        }


async def play(
    variant: Variant,
    *,
    recorded: RecordedCall | None = None,
    repeat: int = 1,
    parallel: int = PARALLEL,
    max_cost_usd: float | None = None,
    timeout: float | None = None,
    model: ModelClient | None = None,
    on_trial: Callable[[Trial], object] | None = None,
) -> Played:
    """Sends a variant `repeat` times, at most `parallel` at a time, and compares the answers with the `recorded` one.

    `max_cost_usd` limits the cost of all calls in US dollars: a call is made only if its estimate is covered, and the
    first one that is not ends the rest. `timeout` is in seconds, for each call. `model` is the client to use, which is
    not closed; by default it is the one that the variant names, with addresses and keys of the environment. `on_trial`
    is called after each answer.

    A call that fails is a trial with an error. Raises InvalidArgument for an argument out of range or a model that is
    unknown, and Unauthenticated if the provider of the model needs a key.
    """
    if not 1 <= repeat <= MAX_REPEAT:
        raise InvalidArgument(f"repeat must be from 1 to {MAX_REPEAT}, not {repeat}")
    if not 1 <= parallel <= MAX_REPEAT:
        raise InvalidArgument(f"parallel must be from 1 to {MAX_REPEAT}, not {parallel}")
    if max_cost_usd is not None and not MIN_COST <= max_cost_usd <= 1e6:
        raise InvalidArgument(f"the budget must be from {MIN_COST:g} to 1,000,000 US dollars, not {max_cost_usd:g}")
    if timeout is not None and not 0 < timeout <= 86_400:
        raise InvalidArgument(f"the timeout must be above 0 and at most a day, not {timeout:g} s")
    client = model or model_of(variant, recorded)
    try:
        table = _Table(variant, client, max_cost_usd, timeout, on_trial)
        trials = await table.play(repeat, parallel)
        return Played(variant, trials, recorded, table.stopped, price_of(client) is not None, max_cost_usd)
    finally:
        if model is None:
            await client.close()


def estimate_cost(variant: Variant, model: ModelClient) -> tuple[int, int]:
    """Estimates one call of a variant: tokens of input and reply, and the cost in millionths of a US dollar."""
    return estimate_call(model, variant.request)


def model_of(variant: Variant, recorded: RecordedCall | None = None) -> ModelClient:
    """Returns the client of a variant's model; the settings of thinking are as recorded, if it is the same model.

    Raises as `create_model` does."""
    settings = recorded.settings if recorded is not None and recorded.model == variant.model else {}
    if settings and variant.model.startswith(_WITH_THINKING):
        return create_model(ModelSpec(variant.model, thinking=settings))
    return create_model(variant.model)


def answer_text(reply: ModelReply) -> str:
    """Returns an answer as a text: the text of the model, then a line for each tool call."""
    calls = [f"calls {call.name} {call.arguments_json}" for call in reply.tool_calls]
    return "\n".join([*([reply.text] if reply.text else []), *calls])


class _Table:
    """The calls of one variant."""

    def __init__(
        self,
        variant: Variant,
        client: ModelClient,
        max_cost_usd: float | None,
        timeout: float | None,
        on_trial: Callable[[Trial], object] | None,
    ) -> None:
        retrying: ModelClient = RetryModel(client)
        self._client = BudgetModel(retrying, cost=max_cost_usd) if max_cost_usd is not None else retrying
        self._request = variant.request if timeout is None else replace(variant.request, timeout=timeout)
        self._on_trial = on_trial
        self.stopped = ""

    async def play(self, repeat: int, parallel: int) -> list[Trial]:
        """Returns the trials in the order in which they began."""
        room = asyncio.Semaphore(parallel)
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(self._in(room), name=f"trial {number}") for number in range(1, repeat + 1)]
        return [trial for call in calls if (trial := call.result()) is not None]

    async def _in(self, room: asyncio.Semaphore) -> Trial | None:
        async with room:
            if self.stopped:
                return None
            began = monotonic()
            try:
                trial = Trial(await deadline.generate(self._client, self._request), monotonic() - began)
            except BudgetExhausted as error:
                self.stopped = error.message
                return None
            except ArchonError as error:
                trial = Trial(None, monotonic() - began, error)
            if self._on_trial is not None:
                self._on_trial(trial)
            return trial


def _change(change: Change) -> dict[str, Any]:
    return {"place": change.place, "difference": _pieces(change.pieces)}


def _pieces(pieces: Sequence[Piece]) -> list[dict[str, str]]:
    return [{"kind": str(piece.kind), "text": piece.text} for piece in pieces]


def _reply(reply: ModelReply | None, seconds: float) -> dict[str, Any]:
    if reply is None:
        return {"text": None, "seconds": seconds}
    usage = reply.usage
    return {
        "text": reply.text,
        "tool_calls": [{"name": call.name, "arguments": call.arguments_json} for call in reply.tool_calls],
        "finish_reason": reply.finish_reason,
        "answered_by": reply.model,
        "words": len(reply.text.split()),
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
        "estimated": usage.estimated,
        "cost_micro_usd": usage.cost_micro_usd,
        "seconds": seconds,
    }


def _mean(trials: Sequence[Trial]) -> dict[str, float] | None:
    if not trials:
        return None
    return {
        "words": fmean(len(trial.text.split()) for trial in trials),
        "input_tokens": fmean(trial.usage.input_tokens for trial in trials),
        "output_tokens": fmean(trial.usage.output_tokens for trial in trials),
        "cost_micro_usd": fmean(trial.usage.cost_micro_usd for trial in trials),
        "seconds": fmean(trial.seconds for trial in trials),
    }
