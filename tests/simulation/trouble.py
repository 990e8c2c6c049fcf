"""The faults of the mesh during a course: in sequence, at times several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.world import World

DISASTERS = 0.1
"""Share of the seeds in which the database is gone for 30 seconds."""


class Trouble:
    """Applies random faults to a mesh with `replicas` slots."""

    def __init__(self, world: World, replicas: int) -> None:
        self._world = world
        self._slots = replicas
        self._busy: set[int] = set()
        self._under_way: set[asyncio.Task[None]] = set()
        self._chances: list[tuple[str, float, Callable[[], Coroutine[Any, Any, None] | None]]] = [
            ("agent killed", 0.08, lambda: self._kill_agent(silently=False)),
            ("agent's machine gone", 0.04, lambda: self._kill_agent(silently=True)),
            ("agent frozen", 0.08, self._freeze_agent),
            ("replica killed", 0.08, lambda: self._with_slot(world.kill_replica)),
            ("replica frozen", 0.10, lambda: self._with_slot(world.freeze_replica)),
            ("replica restarted", 0.04, lambda: self._with_slot(world.restart_replica)),
            ("rolling restart", 0.03, self._rolling),
            ("partition both ways", 0.06, lambda: self._partition(down=True, up=True)),
            ("partition to the agent", 0.05, lambda: self._partition(down=True, up=False)),
            ("partition to the replica", 0.05, lambda: self._partition(down=False, up=True)),
            ("journal out of a replica's reach", 0.06, self._cut_off),
            ("journal slow for a while", 0.04, self._slow),
            ("disk full for a while", 0.03, self._full),
            ("clock jumps", 0.06, self._jump),
            ("living owner expired", 0.05, self._expire),
        ]

    async def last(self, until: float) -> None:
        """Applies faults until that time, and returns when the last of them is healed."""
        world, dice = self._world, self._world.dice
        if dice.fault("journal gone for 30 s", DISASTERS):
            world.loop.call_later(dice.random.uniform(1.0, until), self._gone)
        while world.loop.now < until:
            await asyncio.sleep(dice.random.uniform(0.1, 1.4))
            at = dice.random.random()
            for name, chance, what in self._chances:
                at -= chance
                if at < 0:
                    begun = what()
                    if begun is not None:
                        dice.fired[name] += 1
                        task = asyncio.create_task(begun)
                        self._under_way.add(task)
                    break
        if self._under_way:
            await asyncio.gather(*self._under_way)
        store = world.store
        await asyncio.sleep(max(0.0, max(store.gone_until, store.full_until, store.slow_until) - world.loop.now))
        dice.calm = True
        world.troubled_at = world.loop.now

    def _kill_agent(self, *, silently: bool) -> Coroutine[Any, Any, None] | None:
        agents = list(self._world.agents.values())
        if not agents:
            return None
        self._world.kill_agent(self._world.dice.random.choice(agents), silently=silently)
        return asyncio.sleep(0)

    def _freeze_agent(self) -> Coroutine[Any, Any, None] | None:
        agents = [agent for agent in self._world.agents.values() if not agent.process.halted]
        if not agents:
            return None
        self._world.dice.random.choice(agents).freeze()
        return asyncio.sleep(7.0)

    def _with_slot(self, what: Callable[[int], Coroutine[Any, Any, Any]]) -> Coroutine[Any, Any, None] | None:
        free = [slot for slot in range(self._slots) if slot not in self._busy]
        return self._occupied(self._world.dice.random.choice(free), what) if free else None

    async def _occupied(self, slot: int, what: Callable[[int], Coroutine[Any, Any, Any]]) -> None:
        self._busy.add(slot)
        try:
            await what(slot)
        finally:
            self._busy.discard(slot)

    def _rolling(self) -> Coroutine[Any, Any, None] | None:
        return None if self._busy else self._restart_all()

    async def _restart_all(self) -> None:
        for slot in range(self._slots):
            if slot not in self._busy:
                await self._occupied(slot, self._world.restart_replica)
                await asyncio.sleep(self._world.dice.random.random())

    async def _partition(self, *, down: bool, up: bool) -> None:
        world = self._world
        if not world.agents or not world.serving:
            return
        pair = world.dice.random.choice(world.serving).name, world.dice.random.choice(sorted(world.agents))
        world.network.cut(pair, down=down, up=up)
        await asyncio.sleep(world.dice.random.choice([0.3, 1.5, 3.0, 6.0]) * (0.5 + world.dice.random.random()))
        world.network.heal(pair)

    async def _cut_off(self) -> None:
        if self._world.serving:
            view = self._world.dice.random.choice(self._world.serving).view
            view.gone_until = self._world.loop.now + self._world.dice.random.choice([1.0, 4.0, 8.0])
            await asyncio.sleep(view.gone_until - self._world.loop.now)
            self._world.troubled_at = self._world.loop.now

    def _gone(self) -> None:
        self._world.store.gone_until = self._world.loop.now + 30.0

    async def _slow(self) -> None:
        self._world.store.slow_until = self._world.loop.now + self._world.dice.random.uniform(0.5, 3.0)

    async def _full(self) -> None:
        self._world.store.full_until = self._world.loop.now + self._world.dice.random.uniform(0.5, 3.0)

    async def _jump(self) -> None:
        serving = self._world.serving
        if serving:
            self._world.jump(self._world.dice.random.choice(serving), self._world.dice.random.choice([-3600.0, 3600.0]))

    async def _expire(self) -> None:
        """Expires a living incarnation, as a mistaken replica would."""
        living = self._world.store._living
        if living:
            del living[self._world.dice.random.choice(sorted(living))]
            self._world.troubled_at = self._world.loop.now
