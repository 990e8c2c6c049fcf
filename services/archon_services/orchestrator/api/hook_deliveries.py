"""Takes deliveries to hooks: verifies each, and submits its run with the rights that the owner of the hook has now.

The request id of the run follows from the hook and the delivery, and its payload is the body: whichever replica takes a
delivery, and however often, there is one run; and another body under its id is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from archon import context
from archon.api.orchestrator.v1 import hook_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as run_pb
from archon.errors import (
    ArchonError,
    DeliveryIdReused,
    DeliveryUnverified,
    FailedPrecondition,
    HookPaused,
    PermissionDenied,
    RequestIdReused,
    TokenRevoked,
    Unavailable,
)
from archon.hooks import DELIVERY_KEY, HOOK_KEY
from archon.security.authenticator import Authenticator
from archon.status import to_failure
from archon_services.common.rates import Rates
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.api.hook_validation import check_body
from archon_services.orchestrator.api.trigger_owner import calls_of, check_owner
from archon_services.orchestrator.hooks import DeliveryLog, HookStore, SecretSealer
from archon_services.orchestrator.hooks.content import Content, content_of
from archon_services.orchestrator.hooks.delivery_log import count
from archon_services.orchestrator.hooks.filling import filled_run
from archon_services.orchestrator.hooks.hook import PER_MINUTE, Delivery, DeliveryState, Hook, Scheme
from archon_services.orchestrator.hooks.secrets import key_of
from archon_services.orchestrator.hooks.signatures import Proof, Received, verified

_log = logging.getLogger(__name__)

TIMEOUT: Final = 8.0
"""Seconds for a delivery: senders wait for 3 to 30 s."""

PAUSED_FOR: Final = 60.0
"""Seconds after which a delivery to a paused hook is sent again."""

_MINUTE: Final = 60.0


class HookDeliveries:
    """Raises Archon's errors. `callers` knows who may submit runs."""

    def __init__(
        self,
        store: HookStore,
        secrets: SecretSealer,
        log: DeliveryLog,
        commands: Commands,
        callers: Authenticator,
        monotonic: Callable[[], float],
    ) -> None:
        self._store, self._secrets, self._deliveries = store, secrets, log
        self._commands, self._callers = commands, callers
        # One event can bring several deliveries, and not every sender tries again: those of a minute may come at once.
        self._rates = Rates(
            PER_MINUTE / _MINUTE, now=monotonic, subject="deliveries a minute of one hook", per=_MINUTE, burst=_MINUTE
        )

    async def take(self, request: pb.DeliverRequest) -> pb.DeliverResponse:
        """Takes a delivery. Raises DeliveryUnverified if there is no such hook or the signature does not match,
        DeliveryStale, DeliveryIdReused, HookPaused, TooManyRequests, InvalidArgument if the body cannot be read, and
        the errors of a submit."""
        check_body(request.body)
        received = Received({header.name: header.value for header in request.headers}, request.body)
        with context.deadline(TIMEOUT):
            hook, proof = await self._verified(request.name, received)
            proof.check_time(self._store.now())
            if hook.paused:
                raise HookPaused(f"the hook {hook.name} is paused", retry_delay=PAUSED_FOR)
            with context.serving(calls_of(hook.owner, hook.tenant)), context.deadline(TIMEOUT):
                return await self._taken(hook, received, content_of(hook.scheme, received, proof))

    async def _verified(self, name: str, received: Received) -> tuple[Hook, Proof]:
        """Returns the hook, and the proof of a delivery. An unknown hook takes the same steps as a wrong signature."""
        now = self._store.now()
        hook = await self._store.find(context.current().tenant, name)
        try:
            secrets = self._secrets.valid(hook, now) if hook is not None else []
        except FailedPrecondition as error:
            _log.error("hook %s: %s", name, error)
            raise Unavailable("the delivery cannot be verified now", retry_delay=PAUSED_FOR) from None
        scheme = hook.scheme if hook is not None else _scheme_of(received)
        proof = verified(scheme, [key_of(scheme, secret) for secret in secrets], received)
        if hook is None or proof is None:
            count("unverified")
            raise DeliveryUnverified("there is no such hook, or the signature of the delivery does not match")
        return hook, proof

    async def _taken(self, hook: Hook, received: Received, content: Content) -> pb.DeliverResponse:
        if content.challenge:
            count("challenged")
            return pb.DeliverResponse(state=pb.DELIVERY_STATE_CHALLENGED, challenge=content.challenge)
        request_id = hook.run_request_id(content.delivery_id)
        if (run_id := await self._accepted(hook, content, request_id)) is not None:
            return self._answer(hook, content, DeliveryState.REPEATED, run_id)
        self._rates.admit((hook.tenant, hook.uid), hook.per_minute / _MINUTE)
        if not hook.takes(content.event):
            return self._answer(hook, content, DeliveryState.IGNORED)
        try:
            run_id, created = await self._submit(hook, received, content)
        except ArchonError as error:
            self._note(hook, content, DeliveryState.REFUSED, failure=to_failure(error).SerializeToString())
            _log.warning("hook %s: the delivery %s is refused: %s", hook.name, content.delivery_id, error)
            raise
        _log.info("hook %s: run %s is the one of %s", hook.name, run_id, content.delivery_id, extra={"run_id": run_id})
        return self._answer(hook, content, DeliveryState.ACCEPTED if created else DeliveryState.REPEATED, run_id)

    async def _submit(self, hook: Hook, received: Received, content: Content) -> tuple[str, bool]:
        """Returns (the run of a delivery, True), or (the run that it has already, False)."""
        self._check(hook)
        first = content.delivery_id
        if not hook.scheme.signs_id and hook.replay_window:
            claim = Delivery(_key(hook, content), first, DeliveryState.STARTING, self._store.now(), content.event)
            first = (await self._store.claim(hook, claim)).delivery_id
            if first != content.delivery_id:
                _log.info("hook %s: %s has the body of %s", hook.name, content.delivery_id, first)
                if (run_id := await self._accepted(hook, content, hook.run_request_id(first))) is not None:
                    return run_id, False
        stored = run_pb.SubmitRunRequest.FromString(hook.run)
        run = await filled_run(stored, content.values(hook.name), attach_body=hook.attach_body)
        run.request_id = hook.run_request_id(first)
        run.metadata[HOOK_KEY], run.metadata[DELIVERY_KEY] = hook.name, first
        return await self._commands.submit(run, payload=content.digest)

    def _check(self, hook: Hook) -> None:
        """Raises PermissionDenied if the owner of a hook may submit no runs any more. The sender is not told why."""
        try:
            check_owner(self._callers, hook.owner, hook.tenant, "hook")
        except (PermissionDenied, TokenRevoked) as error:
            _log.warning("hook %s: %s", hook.name, error)
            raise PermissionDenied("the owner of the hook may not submit runs any more") from None

    async def _accepted(self, hook: Hook, content: Content, request_id: str) -> str | None:
        try:
            return await self._commands.accepted(request_id, content.digest)
        except RequestIdReused:
            error = DeliveryIdReused(
                f"the delivery {content.delivery_id} came before with another body",
                metadata={"hook": hook.name, "delivery": content.delivery_id},
            )
            raise error from None

    def _answer(self, hook: Hook, content: Content, state: DeliveryState, run_id: str = "") -> pb.DeliverResponse:
        self._note(hook, content, state, run_id)
        number = pb.DeliveryState.ValueType(int(state))
        return pb.DeliverResponse(state=number, run_id=run_id, delivery_id=content.delivery_id)

    def _note(self, hook: Hook, content: Content, state: DeliveryState, run_id: str = "", failure: bytes = b"") -> None:
        key, now = _key(hook, content), self._store.now()
        delivery = Delivery(key, content.delivery_id, state, now, content.event, run_id, failure=failure)
        self._deliveries.note(hook, delivery)


def _key(hook: Hook, content: Content) -> str:
    """Returns the key of a delivery in the list: its id if that, or its time, is signed, else its body."""
    return content.delivery_id if hook.scheme.signs_id else f"body/{content.digest.hex()}"


def _scheme_of(received: Received) -> Scheme:
    """Returns the scheme that the headers of a delivery to an unknown hook seem to have."""
    names = {
        "stripe-signature": Scheme.STRIPE,
        "x-slack-signature": Scheme.SLACK,
        "x-hub-signature-256": Scheme.GITHUB,
    }
    return next((scheme for name, scheme in names.items() if received.header(name)), Scheme.STANDARD)
