"""Trials of prompts: a changed prompt goes to a model of the gateway, and its answers are compared with the recorded
one. The run is only read."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from archon.errors import DeadlineExceeded, FailedPrecondition, InvalidArgument, PermissionDenied, ResourceExhausted
from archon.security.authenticator import Caller
from archon_mesh.llm import ModelClient
from archon_mesh.playground import Played, RecordedCall, Variant, play
from archon_mesh.playground.played import model_of
from archon_services.gateway.reports.trial_ledger import TrialLedger
from archon_services.gateway.settings import GatewaySettings

_log = logging.getLogger("archon.audit.trials")

MAX_REPEAT: Final = 5
AT_A_TIME: Final = 8
"""Trials of all callers at a time."""

ABSENT: Final = (
    "The HTTP gateway has no model for trials: name models in ARCHON_TRIAL_MODELS of the gateway, such as "
    "openai/gpt-5-mini, and give it the key of their provider"
)


@dataclass(frozen=True, slots=True)
class Wish:
    """The trial that a caller asks for. `texts` are new texts of messages by their numbers, from 1; `model` is one of
    the gateway's, empty for the default. Requests with the same `id` are one trial."""

    id: str
    texts: dict[int, str] = field(default_factory=dict)
    model: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    repeat: int = 1


class Trials:
    """Makes trials within the bounds of the settings, one of each identity at a time. An async context manager that
    cancels trials in progress at its end."""

    def __init__(
        self,
        settings: GatewaySettings,
        ledger: TrialLedger,
        client_of: Callable[[Variant, RecordedCall], ModelClient] = model_of,
    ) -> None:
        self.models = [name.strip() for name in settings.trial_models.split(",") if name.strip()]
        self.usd, self.seconds = settings.trial_usd, settings.trial_seconds
        self._ledger, self._client_of = ledger, client_of
        self._running: dict[tuple[str, str], tuple[str, asyncio.Task[Played]]] = {}

    async def make(self, caller: Caller, call: RecordedCall, wish: Wish) -> Played:
        """Sends a prompt and returns the answers, failed ones included; a request that comes again while its trial is
        in progress gets the same. Raises FailedPrecondition without a model, InvalidArgument and NotFound for a wish
        that does not fit, PermissionDenied for another model, QuotaExceeded, ResourceExhausted, DeadlineExceeded."""
        key = caller.tenant, caller.identity
        running = self._running.get(key)
        if running is None:
            variant = self.variant(call, wish)
            if len(self._running) >= AT_A_TIME:
                raise ResourceExhausted("too many prompts are being tried", retry_delay=5.0)
            task = asyncio.create_task(self._make(caller, call, variant, wish), name=f"trial of {caller.identity}")
            self._running[key] = running = wish.id, task
            task.add_done_callback(lambda ended: self._ended(key, ended))
        if running[0] != wish.id:
            raise ResourceExhausted("another trial of yours is in progress", retry_delay=5.0)
        return await asyncio.shield(running[1])

    def variant(self, call: RecordedCall, wish: Wish) -> Variant:
        """Returns the prompt to send. Raises as `make` does."""
        if not self.models:
            raise FailedPrecondition(ABSENT)
        model = wish.model or self.default(call)
        if model not in self.models:
            raise PermissionDenied(f"prompts are tried with {', '.join(self.models)}, not with {model[:100]!r}")
        if not 1 <= wish.repeat <= MAX_REPEAT:
            raise InvalidArgument(f"a prompt is sent 1 to {MAX_REPEAT} times, not {wish.repeat}")
        variant = Variant.of(call).with_model(model)
        for number, text in wish.texts.items():
            variant = variant.with_message(number, text)
        if wish.temperature is not None:
            variant = variant.with_temperature(wish.temperature)
        if wish.max_tokens is not None:
            variant = variant.with_max_tokens(wish.max_tokens)
        return variant

    def default(self, call: RecordedCall) -> str:
        """Returns the model of a call, if trials may use it, else the first one; empty if there is none."""
        return call.model if call.model in self.models else next(iter(self.models), "")

    async def __aenter__(self) -> Trials:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: tuple[str, str], task: asyncio.Task[Played]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()  # perhaps the caller has gone

    async def _make(self, caller: Caller, call: RecordedCall, variant: Variant, wish: Wish) -> Played:
        client = self._client_of(variant, call)
        try:
            scope, reserved = await self._ledger.reserve(caller, self.usd, wish.repeat)
            began, entry = time.time(), _entry(call, variant, wish, reserved)
            used = 0.0
            try:
                await self._ledger.record(wish.id, caller, began, entry | {"state": "sent"})
                _log.info("%s tries a prompt: %s", caller.identity, entry)
                used = reserved  # unless it is known to be less
                played = await self._play(call, variant, wish, client, reserved)
                used = played.cost_usd
            finally:
                await asyncio.shield(self._ledger.settle(scope, caller, reserved, used))
            errors = [trial.error.reason or trial.error.code for trial in played.trials if trial.error is not None]
            outcome = {"state": "ended", "answers": len(played.answered), "errors": errors, "cost_usd": used}
            await self._ledger.record(wish.id, caller, began, entry | outcome)
            return played
        finally:
            await client.close()

    async def _play(self, call: RecordedCall, variant: Variant, wish: Wish, client: ModelClient, usd: float) -> Played:
        try:
            async with asyncio.timeout(self.seconds):
                return await play(
                    variant, recorded=call, repeat=wish.repeat, max_cost_usd=usd, timeout=self.seconds, model=client
                )
        except TimeoutError:
            raise DeadlineExceeded(f"the model has not answered within {self.seconds:g} s") from None


def _entry(call: RecordedCall, variant: Variant, wish: Wish, reserved: float) -> dict[str, Any]:
    """Returns the record of a trial: no texts, but a digest of the prompt that was sent."""
    prompt = "\0".join(f"{message.role}\0{message.content}" for message in variant.request.messages)
    return {
        "run_id": call.run_id,
        "task_id": call.task_id,
        "call": call.number,
        "model": variant.model,
        "changed": [change.place for change in variant.changes()],
        "repeat": wish.repeat,
        "prompt_sha256": hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest(),
        "reserved_usd": reserved,
    }
