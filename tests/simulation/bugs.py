"""Bugs to plant in the real code, at least one for each line of the validator, which must catch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from archon.agent.attempt import Attempt
from archon.agent.attempt_table import AttemptTable
from archon_mesh.core.run import Event, RunState, Task, effects
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.codec import encode_inputs
from archon_mesh.core.run.decide import engine
from archon_mesh.core.run.decide.delegation import delegate
from archon_services.orchestrator.dispatch import assign_task as assignment
from archon_services.orchestrator.journal import MemoryJournal, RunRow
from archon_services.orchestrator.journal.memory.owners import MemoryOwners
from archon_services.orchestrator.ownership import Ownership
from archon_services.orchestrator.runs import driver, step
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.watch.hub import WatchHub

Plant = Callable[[pytest.MonkeyPatch], None]


def _request_ids_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = MemoryJournal._create

    def create(self: MemoryJournal, *arguments: Any) -> Any:
        self._requests.clear()
        return real(self, *arguments)

    patch.setattr(MemoryJournal, "_create", create)


def _claim_without_an_epoch(patch: pytest.MonkeyPatch) -> None:
    async def claim(self: MemoryOwners, run_id: str, owner: str) -> RunRow | None:
        row = self._rows.get(run_id)
        if row is None or row.ended_at or (row.owner != owner and row.owner in self._living):
            return None
        self._rows[run_id] = claimed = replace(row, owner=owner)
        return claimed

    patch.setattr(MemoryOwners, "claim", claim)


def _superseded_attempts_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunState, "current", lambda run, name, attempt: run.tasks.get(name))


def _ended_attempts_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttemptTable, "is_over", lambda table, ref: False)


def _effects_before_durability(patch: pytest.MonkeyPatch) -> None:
    real = driver.RunDriver.decide

    def hasty(self: driver.RunDriver) -> Any:
        step = real(self)
        if step is not None and self._decision is not None:
            self._execute(self._decision)
        return step

    patch.setattr(driver.RunDriver, "decide", hasty)


def _effects_left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(effects, "_answers", lambda run, parent, child, opened: None)


def _input_not_stored(patch: pytest.MonkeyPatch) -> None:
    def careless(inputs: list[inp.Input], now: float) -> bytes:
        return encode_inputs([decided for decided in inputs if not isinstance(decided, inp.LostIn)], now)

    patch.setattr(step, "encode_inputs", careless)


def _heartbeats_never_checked(patch: pytest.MonkeyPatch) -> None:
    async def expire(self: MemoryOwners, owner: str, beat: int) -> bool:
        return False

    patch.setattr(MemoryOwners, "expire", expire)


def _lower_epochs_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttemptTable, "check_epoch", lambda table, ref, held: None)


def _memo_keys_ignored(patch: pytest.MonkeyPatch) -> None:
    def careless(run: RunState, task: Task, delegation: inp.DelegateIn) -> list[Event]:
        return delegate(run, replace(task, children={}), delegation)

    patch.setattr(engine, "delegate", careless)


def _cancels_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attempt, "cancel", lambda attempt: None)


def _context_left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assignment, "write_context_item", lambda run, context, item: None)


def _seen_events_read_again(patch: pytest.MonkeyPatch) -> None:
    real = WatchHub._stored
    patch.setattr(WatchHub, "_stored", lambda self, run_id, after: real(self, run_id, max(0, after - 1)))


def _budget_given_out_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine, "grant", lambda run, task, amount: amount)


def _lease_never_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ownership, "may_send", lambda self: True)


def _results_of_other_replicas_discarded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Runs, "_ask", lambda self, run_id, receipt: receipt.discard("UNKNOWN_RUN"))


def _no_timer_after_a_question(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(effects, "_stops_asking", lambda run, task_id: False)


BUGS: dict[str, tuple[str, Plant]] = {
    "request ids are forgotten": ("V1", _request_ids_forgotten),
    "a claim takes no new epoch": ("V2", _claim_without_an_epoch),
    "a superseded attempt's result counts": ("V3", _superseded_attempts_count),
    "an agent forgets which attempts have ended": ("V4", _ended_attempts_forgotten),
    "effects leave before their event is durable": ("V5", _effects_before_durability),
    "an input is decided and not stored": ("V6", _input_not_stored),
    "effects of a step are left out": ("V6", _effects_left_out),
    "heartbeats are never checked": ("V7", _heartbeats_never_checked),
    "no timer is set when a question is left open": ("V7", _no_timer_after_a_question),
    "an agent accepts lower epochs": ("V8", _lower_epochs_accepted),
    "memo keys are ignored": ("V9", _memo_keys_ignored),
    "agents ignore cancels": ("V10", _cancels_ignored),
    "the context is left out": ("V11", _context_left_out),
    "a watcher reads again what it has seen": ("V12", _seen_events_read_again),
    "the budget is granted twice": ("V13", _budget_given_out_twice),
    "the lease is never checked": ("D11", _lease_never_checked),
    "a result of another replica's run is thrown away": ("V8", _results_of_other_replicas_discarded),
}
