"""The faults of chaos: how each round picks them, and how they are applied and healed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.targets import Target

KINDS: Final = ("agent", "attached agent", "orchestrator", "registry", "memory", "PostgreSQL", "etcd member")
WAYS: Final = {"partition up": ("up",), "partition down": ("down",), "partition both": ("up", "down")}
HOW: Final = ("kill", "freeze", "restart", *WAYS)
QUORUM: Final = "two of three killed"

LASTS: Final = (0.2, 0.8, 2.3, 3.2, 4.5)
"""Durations of faults in seconds, below and above the limits at which the mesh notices them: 2 s for a session, 3 s for
a lease, 4 s for a connection between services."""

ALONE: Final = 0.08
"""Share of the rounds with a single fault; the others have two faults that overlap."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault on a kind of target."""

    how: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.how}"

    def fits(self, target: Target) -> bool:
        """Returns whether the fault can hit this target."""
        return target.kind == self.kind


ALL: Final = (*(Fault(how, kind) for kind in KINDS for how in HOW), Fault(QUORUM, "etcd member"))


@dataclass(frozen=True, slots=True)
class Blow:
    """A fault on these targets: it begins `after` seconds into the round and lasts `lasts` seconds."""

    fault: Fault
    targets: tuple[Target, ...]
    after: float
    lasts: float

    def __str__(self) -> str:
        names = " and ".join(target.name for target in self.targets)
        return f"{self.fault.how} {names} {self.lasts:.1f} s"


class Dealer:
    """Deals the faults in random order, each of them once before any is repeated."""

    def __init__(self, dice: random.Random, targets: Sequence[Target]) -> None:
        self._dice = dice
        self._targets = targets
        self._deck: list[Fault] = []

    def round(self) -> list[Blow]:
        """Returns one blow, or two that overlap and have no target in common. Two members of etcd are down together
        only if that is the fault."""
        first = self._blow(self._targets, 0.0)
        if self._dice.random() < ALONE:
            return [first]
        struck = {target.kind for target in first.targets} & {"etcd member"}
        free = [target for target in self._targets if target not in first.targets and target.kind not in struck]
        return [first, self._blow(free, self._dice.uniform(0.0, first.lasts))]

    def _blow(self, free: Sequence[Target], after: float) -> Blow:
        fault = self._draw(free)
        fitting = [target for target in free if fault.fits(target)]
        targets = self._dice.sample(fitting, 2 if fault.how == QUORUM else 1)
        return Blow(fault, tuple(targets), after, self._dice.choice(LASTS))

    def _draw(self, free: Sequence[Target]) -> Fault:
        """Takes the next fault that fits a free target; a fault that does not fit stays for a later round."""
        while True:
            for fault in self._deck:
                if any(fault.fits(target) for target in free):
                    self._deck.remove(fault)
                    return fault
            more = list(ALL)
            self._dice.shuffle(more)
            self._deck += more


async def strike(blow: Blow, dice: random.Random) -> None:
    """Applies the fault and returns when it is healed, which includes the restart of processes that it ended."""
    await asyncio.sleep(blow.after)
    if blow.fault.how in WAYS:
        await _cut_off(blow, dice)
        return
    for target in blow.targets:
        target.down = blow.fault.how != "freeze"
    match blow.fault.how:
        case "freeze":
            for target in blow.targets:
                target.freeze()
            await asyncio.sleep(blow.lasts)
            for target in blow.targets:
                target.thaw()
            return
        case "restart":
            await asyncio.gather(*(target.stop() for target in blow.targets))
        case _:
            await asyncio.gather(*(target.kill() for target in blow.targets))
            await asyncio.sleep(blow.lasts)
    await asyncio.gather(*(target.start() for target in blow.targets))
    for target in blow.targets:
        target.down = False


async def _cut_off(blow: Blow, dice: random.Random) -> None:
    """Shuts one of the valves before each target, or all of them."""
    for target in blow.targets:
        valves = dice.choice([target.valves, *([valve] for valve in target.valves)])
        for valve in valves:
            valve.shut(*WAYS[blow.fault.how])
        await asyncio.sleep(blow.lasts)
        for valve in valves:
            valve.open()
