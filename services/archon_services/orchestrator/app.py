"""Wiring of an orchestrator; resources are closed in reverse order."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from archon.history import AuditKey
from archon.security.authenticator import Authenticator, own_authenticator
from archon.telemetry import export, logs, metrics
from archon_services.common.quotas import Quotas, load_quotas
from archon_services.common.startup import when_available
from archon_services.orchestrator import gauges
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.api.rules import load_mesh_rules
from archon_services.orchestrator.audit import AuditLinker
from archon_services.orchestrator.channels import Notifier, notices_of
from archon_services.orchestrator.channels.create import create_channels
from archon_services.orchestrator.hooks import DeliveryLog
from archon_services.orchestrator.journal import Journal, OwnerRow
from archon_services.orchestrator.journal.choose import open_journal
from archon_services.orchestrator.learning.learner import Learner
from archon_services.orchestrator.observability.exporter import RunSpanExporter
from archon_services.orchestrator.ownership import Ownership, OwnershipLimits
from archon_services.orchestrator.ports import DispatchGate
from archon_services.orchestrator.quotas import DailyCountsUpkeep
from archon_services.orchestrator.retention import Retention, RetentionRules, load_retention
from archon_services.orchestrator.roles.registry_watch import RegistryWatch
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.clock.run_ids import RunIds
from archon_services.orchestrator.runs.limits import RunLimits
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.runs.states.load import load_events
from archon_services.orchestrator.schedules import ScheduleFiring
from archon_services.orchestrator.serving import (
    audit_service,
    hook_service,
    make_server,
    orchestrator_service,
    schedule_service,
)
from archon_services.orchestrator.sessions import SessionPool
from archon_services.orchestrator.sessions.heartbeat import Limits
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.orchestrator.shared_memory.outbox import OutboxPublisher
from archon_services.orchestrator.shared_memory.recall import SessionRecall
from archon_services.orchestrator.track_records.factor import best_role
from archon_services.orchestrator.track_records.upkeep import TrackRecordUpkeep
from archon_services.orchestrator.watch.forward import WatchForwarder

_log = logging.getLogger(__name__)


@asynccontextmanager
async def orchestrator_app(
    settings: OrchestratorSettings,
    *,
    journal: Journal | None = None,
    clock: JournalClock | None = None,
    callers: Authenticator | None = None,
    gate: DispatchGate | None = None,
) -> AsyncIterator[str]:
    """Serves until the block ends; yields host:port. Takes over the runs that an earlier process left. `journal`,
    `clock` and `callers` stand in for the journal of the settings, its clock, and the authenticator of the environment;
    `gate` holds back dispatches.

    At the end of the block it gives up its runs, so that others can claim them at once. If the block ends with an
    error it gives up nothing, like a process that was killed: its lease has to expire.
    """
    rules, quotas = load_mesh_rules(settings.rules), load_quotas(settings.quotas)
    retention_rules = load_retention(settings.retention, settings.compact_after, settings.delete_after)
    key = AuditKey.read(Path(settings.audit_key)) if settings.audit_key else None
    async with AsyncExitStack() as stack:
        journal, clock = await _open_storage(settings, journal, clock, stack)
        spans = _start_spans(journal, stack)
        died = [] if journal.shared else await journal.live_owners()
        runs = await _make_runs(settings, journal, clock, spans, key, quotas, gate)
        linker = AuditLinker(journal, lambda: runs.owner, clock.now, key=key, keep=settings.audit_keep)
        runs.on_audit = linker.wake
        limits = OwnershipLimits.of_lease(settings.lease)
        ownership = Ownership(journal, runs, new_owner=_new_owner, monotonic=clock.monotonic, limits=limits)
        pool = _make_pool(settings, runs, ownership, stack)
        roles = RegistryWatch(settings.registry, pool.update, pool.alive)
        stack.push_async_callback(roles.close)
        learner = _start_learner(settings, journal, runs, clock, stack)
        roles.best_role = partial(best_role, runs.track_records)
        roles.start()
        publisher = _start_outbox(settings, journal, runs, stack) if settings.memory else None
        recall = _start_recall(settings, journal, stack) if settings.memory else None
        _observe(runs, pool, roles, ownership, publisher, clock, stack)
        _start_retention(settings, journal, clock, retention_rules, stack)
        forwarder = WatchForwarder(journal, runs, ownership)
        stack.push_async_callback(forwarder.close)
        _start_channels(settings, runs, clock, stack)
        commands = Commands(
            runs, journal, roles, forwarder, clock.steady(), recall, pool.standing, rules, learner=learner
        )
        callers = own_authenticator() if callers is None else callers
        firing, schedules = schedule_service(runs, journal, clock, commands, callers)
        deliveries, hooks = hook_service(settings, runs, journal, clock, commands, callers)
        services = [orchestrator_service(commands, journal, runs), schedules, hooks, audit_service(journal)]
        server, relay = make_server(settings, services, roles, callers, stack)
        runs.start(pool)
        departure = _Departure(ownership)
        stack.push_async_callback(departure.leave)
        await _start_driving(runs, journal, pool, ownership, linker, firing, deliveries, died, stack)
        address = await server.start()
        ownership.address = relay.address = settings.advertised(address)
        try:
            yield address
        except BaseException:
            departure.gives_up = False
            raise


class _Departure:
    """The end of an incarnation, which gives up its runs unless `gives_up` is false."""

    def __init__(self, ownership: Ownership) -> None:
        self.gives_up = True
        self._ownership = ownership

    async def leave(self) -> None:
        if self.gives_up:
            await self._ownership.leave()


async def _start_driving(
    runs: Runs,
    journal: Journal,
    pool: SessionPool,
    ownership: Ownership,
    linker: AuditLinker,
    firing: ScheduleFiring,
    deliveries: DeliveryLog,
    died: Sequence[OwnerRow],
    stack: AsyncExitStack,
) -> None:
    """Takes over the runs of earlier processes, among them the ones that `died`, and starts the loops that need a live
    incarnation."""
    upkeep = TrackRecordUpkeep(runs.track_records, journal, lambda: runs.owner, lambda: pool.weigh(runs.track_records))
    stack.push_async_callback(upkeep.close)  # while the incarnation is still live
    counts = DailyCountsUpkeep(runs.quotas.daily, journal, lambda: runs.owner) if runs.quotas is not None else None
    if counts is not None:
        stack.push_async_callback(counts.close)
    stack.push_async_callback(linker.close)
    stack.push_async_callback(runs.stop)  # before the server stops: it answers the callers that wait
    stack.push_async_callback(ownership.stop)
    stack.push_async_callback(firing.close)
    stack.push_async_callback(deliveries.close)
    if claimed := await ownership.start():
        _log.info("took over %d runs of earlier processes", claimed)
    for earlier in died:
        runs.expired(earlier.owner)
    runs.claimed()
    await upkeep.start()
    if counts is not None:
        await counts.start()
    linker.start()
    firing.start()
    deliveries.start()


async def _open_storage(
    settings: OrchestratorSettings, journal: Journal | None, clock: JournalClock | None, stack: AsyncExitStack
) -> tuple[Journal, JournalClock]:
    """Opens the journal, by default the one of the settings, and starts its clock."""
    journal = journal or open_journal(settings.journal, settings.journal_sync, reset=settings.journal_reset)
    stack.push_async_callback(journal.close)
    await _open(journal)
    clock = clock or JournalClock(journal)
    await clock.read()
    stack.push_async_callback(clock.close)
    clock.start()
    return journal, clock


async def _make_runs(
    settings: OrchestratorSettings,
    journal: Journal,
    clock: JournalClock,
    spans: RunSpanExporter | None,
    key: AuditKey | None,
    quotas: Quotas | None,
    gate: DispatchGate | None,
) -> Runs:
    limits = RunLimits(
        settings.max_runs,
        settings.max_paused_runs,
        settings.pause_timeout,
        settings.max_failures,
        settings.max_run_bytes,
    )
    return Runs(
        owner=_new_owner(),
        clock=clock,
        journal=journal,
        new_id=RunIds(clock.now, after=await journal.last_run_id()).next,
        publishes=bool(settings.memory),
        limits=limits,
        spans=spans,
        key=key,
        quotas=quotas,
        gate=gate,
    )


def _make_pool(settings: OrchestratorSettings, runs: Runs, ownership: Ownership, stack: AsyncExitStack) -> SessionPool:
    limits = Limits.of_silence(settings.silence_limit)
    pool = SessionPool(orchestrator_id=runs.owner, inbox=runs, limits=limits, may_send=ownership.may_send)
    stack.push_async_callback(pool.close)
    return pool


def _observe(
    runs: Runs,
    pool: SessionPool,
    roles: RegistryWatch,
    ownership: Ownership,
    publisher: OutboxPublisher | None,
    clock: JournalClock,
    stack: AsyncExitStack,
) -> None:
    if (recorder := metrics.recorder()) is not None:
        observed = gauges.observe(
            recorder, runs=runs, pool=pool, watch=roles, ownership=ownership, outbox=publisher, clock=clock
        )
        stack.enter_context(observed)


def _start_retention(
    settings: OrchestratorSettings,
    journal: Journal,
    clock: JournalClock,
    rules: RetentionRules,
    stack: AsyncExitStack,
) -> None:
    retention = Retention(journal, clock, delete_after=settings.delete_after, rules=rules)
    stack.push_async_callback(retention.close)
    retention.start()


async def _open(journal: Journal) -> None:
    """Opens the journal; waits for a database that several orchestrators share."""
    if not journal.shared:
        await journal.open()
        return

    async def attempt() -> None:
        try:
            await journal.open()
        except BaseException:
            await journal.close()
            raise

    await when_available(attempt, "the journal's database")


def _start_spans(journal: Journal, stack: AsyncExitStack) -> RunSpanExporter | None:
    """Returns None if this process exports no spans."""
    active = export.current()
    if active is None:
        return None
    spans = RunSpanExporter(journal, partial(load_events, journal), active)
    stack.push_async_callback(spans.close)
    spans.start()
    return spans


def _start_learner(
    settings: OrchestratorSettings, journal: Journal, runs: Runs, clock: JournalClock, stack: AsyncExitStack
) -> Learner | None:
    if settings.learning == "off":
        return None
    learner = Learner(journal, clock.now, approve_above=settings.learning_approve_above)
    runs.track_records.weight = learner.weight
    stack.push_async_callback(learner.close)
    learner.start()
    return learner


def _start_channels(settings: OrchestratorSettings, runs: Runs, clock: JournalClock, stack: AsyncExitStack) -> None:
    channels = create_channels(settings, clock.now)
    if not channels:
        return
    notifier = Notifier(channels, runs.asks)
    stack.push_async_callback(notifier.close)
    runs.on_questions = lambda run: notifier.notify(notices_of(run))
    notifier.start()


def _start_recall(settings: OrchestratorSettings, journal: Journal, stack: AsyncExitStack) -> SessionRecall:
    recall = SessionRecall(journal, settings.memory)
    stack.push_async_callback(recall.close)
    return recall


def _start_outbox(
    settings: OrchestratorSettings, journal: Journal, runs: Runs, stack: AsyncExitStack
) -> OutboxPublisher:
    publisher = OutboxPublisher(journal, runs, settings.memory, keep=settings.delete_after)
    stack.push_async_callback(publisher.close)
    runs.on_publications = publisher.wake
    publisher.start()
    return publisher


def _new_owner() -> str:
    owner = f"orchestrator-{uuid.uuid4().hex[:12]}"
    logs.identify(owner)
    return owner
