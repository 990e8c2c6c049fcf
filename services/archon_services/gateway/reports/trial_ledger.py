"""The ledger of trials of prompts: the spending of each identity on a day, and a record of each trial. It is in the
working memory of the mesh, so that all replicas count together."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from archon.errors import Aborted, QuotaExceeded
from archon.security.authenticator import Caller
from archon_services.gateway.own_values import OwnValues

MAX_TRIALS: Final = 500
"""Calls of models that an identity may try on a day: models without a price cost nothing."""

DAYS: Final = 30
"""Days whose records are read."""

MIN_USD: Final = 1e-6
_ATTEMPTS: Final = 20
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Spent:
    """The use of one identity on a day, reservations of trials in progress included."""

    usd: float = 0.0
    calls: int = 0


class TrialLedger:
    """Counts trials. `usd_per_day` is the most that an identity may spend on a day in UTC; `clock` returns wall
    seconds."""

    def __init__(self, values: OwnValues, usd_per_day: float, clock: Callable[[], float] = time.time) -> None:
        self._values, self._usd_per_day, self._clock = values, usd_per_day, clock

    async def left(self, caller: Caller) -> float:
        """Returns the US dollars that an identity may spend today. Raises Unavailable."""
        with self._values.scope(self._scope()) as values:
            spent = Spent(**await values.get(_key(caller), {}))
        return max(0.0, self._usd_per_day - spent.usd) if spent.calls < MAX_TRIALS else 0.0

    async def reserve(self, caller: Caller, usd: float, calls: int) -> tuple[str, float]:
        """Reserves up to some US dollars for calls of models. Returns the scope of the day, and the dollars. Raises
        QuotaExceeded if nothing is left today, and Unavailable."""
        scope, reserved = self._scope(), 0.0

        def added(spent: Spent) -> Spent:
            nonlocal reserved
            reserved = min(usd, self._usd_per_day - spent.usd)
            if reserved < MIN_USD or spent.calls + calls > MAX_TRIALS:
                raise self._exceeded(caller, spent, reserved < MIN_USD)
            return Spent(spent.usd + reserved, spent.calls + calls)

        await self._change(scope, caller, added)
        return scope, reserved

    async def settle(self, scope: str, caller: Caller, reserved: float, used: float) -> None:
        """Replaces a reservation by the cost of its calls. Raises Unavailable."""
        await self._change(scope, caller, lambda spent: Spent(max(0.0, spent.usd - reserved + used), spent.calls))

    async def record(self, trial_id: str, caller: Caller, began: float, entry: dict[str, Any]) -> None:
        """Stores the record of a trial that began at a time (wall seconds), in place of an earlier one with this id.
        Raises Unavailable."""
        actor = caller.principal.identity if caller.principal is not None else ""
        who = {"identity": caller.identity, "actor": actor if actor != caller.identity else ""}
        with self._values.scope(_log_scope(caller.tenant, began)) as values:
            await values.set(f"{caller.identity}/{trial_id}"[:256], {"id": trial_id, "time": began, **who, **entry})

    async def records(self, tenant: str) -> list[dict[str, Any]]:
        """Returns the records of a tenant's trials of the last DAYS days, the newest first. Raises Unavailable."""
        found: list[dict[str, Any]] = []
        for day in range(DAYS):
            with self._values.scope(_log_scope(tenant, self._clock() - day * _DAY)) as values:
                found += [value.value for value in await values.list_values()]
        return sorted(found, key=lambda entry: -entry["time"])

    async def _change(self, scope: str, caller: Caller, change: Callable[[Spent], Spent]) -> None:
        key = _key(caller)
        for attempt in range(_ATTEMPTS):
            with self._values.scope(scope) as values:
                current = await values.get_value(key)
                spent = Spent(**current.value) if current is not None else Spent()
                changed = change(spent)
                try:
                    await values.set(key, asdict(changed), current.version if current is not None else 0)
                    return
                except Aborted:
                    if attempt + 1 == _ATTEMPTS:
                        raise

    def _exceeded(self, caller: Caller, spent: Spent, of_money: bool) -> QuotaExceeded:
        name, limit = ("trial_usd_per_day", self._usd_per_day) if of_money else ("trials_per_day", MAX_TRIALS)
        used = spent.usd if of_money else spent.calls
        now = self._clock()
        metadata = {
            "quota": name,
            "limit": f"{limit:g}",
            "used": f"{used:g}",
            "tenant": caller.tenant,
            "identity": caller.identity,
        }
        return QuotaExceeded(
            f"{caller.identity} has tried enough prompts today: {name} is {limit:g}, and {used:g} are used",
            metadata=metadata,
            retry_delay=math.floor(now / _DAY) * _DAY + _DAY - now,
        )

    def _scope(self) -> str:
        return f"trials/{_day(self._clock())}"


def _key(caller: Caller) -> str:
    return f"{caller.tenant}/{caller.identity}"[:256]


def _log_scope(tenant: str, seconds: float) -> str:
    return f"trial-log/{tenant}/{_day(seconds)}"


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
