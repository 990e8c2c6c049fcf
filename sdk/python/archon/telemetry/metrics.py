"""The metrics of all processes: names, units, labels, and how they are counted.

Names and labels of GenAI and RPC are OpenTelemetry's semantic conventions, the others are Archon's own:
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/, https://opentelemetry.io/docs/specs/semconv/rpc/

A process that exports no metrics (`metrics_export`) has no recorder: `recorder` returns None, and that check is all
that measuring costs it. Otherwise a counter is an integer in a dictionary, and a gauge a function; both are read by the
thread that collects, once for each export or scrape. Only histograms call OpenTelemetry for each value.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from archon.telemetry import names

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

_log = logging.getLogger(__name__)

MAX_SERIES: Final = 1_000
"""Combinations of labels that a counter has; further ones are counted together, with OTHER as each label."""

OTHER: Final = "_OTHER"

Labels = tuple[str, ...]
"""Values of a metric's labels, in their order; an empty value is left out."""

Source = Callable[[], Iterable[tuple[Labels, float]]]
"""Returns the current values of a metric. It is called by another thread than the event loop's."""


class Kind(StrEnum):
    """The type of a metric, as Prometheus names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric. `unit` is a UCUM unit, `buckets` are the upper bounds of a histogram."""

    name: str
    kind: Kind
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


# Labels ---------------------------------------------------------------------------------------------------------

ROLE: Final = "archon.role"
STATE: Final = "archon.state"
REASON: Final = "archon.reason"
OUTCOME: Final = "archon.outcome"
TENANT: Final = "archon.tenant"
QUOTA: Final = "archon.quota"
TOKEN_TYPE: Final = "gen_ai.token.type"

# Buckets --------------------------------------------------------------------------------------------------------

_TOKENS: Final = tuple(float(4**exponent) for exponent in range(14))
_MODEL_SECONDS: Final = tuple(round(0.01 * 2**exponent, 2) for exponent in range(14))
_RPC_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_COMMIT_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_RUN_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
_TOOL_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_CYCLE_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
_SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)

# Agents ---------------------------------------------------------------------------------------------------------

_CALL: Final = (names.OPERATION_NAME, names.provider_name(), names.REQUEST_MODEL, names.AGENT_NAME)

TOKEN_USAGE: Final = Metric(
    "gen_ai.client.token.usage",
    Kind.HISTOGRAM,
    "{token}",
    "Tokens that a model call read (input) or wrote (output)",
    (*_CALL, TOKEN_TYPE),
    _TOKENS,
)
MODEL_DURATION: Final = Metric(
    "gen_ai.client.operation.duration",
    Kind.HISTOGRAM,
    "s",
    "Duration of a model call; a retry is a call of its own",
    (*_CALL, names.ERROR_TYPE),
    _MODEL_SECONDS,
)
FIRST_CHUNK: Final = Metric(
    "gen_ai.client.operation.time_to_first_chunk",
    Kind.HISTOGRAM,
    "s",
    "Time until the first chunk of a streamed reply",
    _CALL,
    _MODEL_SECONDS,
)
CONTEXT_USAGE: Final = Metric(
    "archon.agent.context.usage",
    Kind.HISTOGRAM,
    "1",
    "Share of the context window that a request fills, if compaction sets max_context_tokens",
    (names.AGENT_NAME, names.REQUEST_MODEL),
    _SHARES,
)
CACHE_HITS: Final = Metric(
    "archon.agent.cache.hit_rate",
    Kind.HISTOGRAM,
    "1",
    "Share of a model call's input tokens that the provider had in its cache",
    (names.AGENT_NAME, names.REQUEST_MODEL),
    _SHARES,
)
CYCLE_DURATION: Final = Metric(
    "archon.agent.cycle.duration",
    Kind.HISTOGRAM,
    "s",
    "Duration of an iteration of an agent's loop: a model call and its tool calls",
    (names.AGENT_NAME,),
    _CYCLE_SECONDS,
)
AGENT_TASKS: Final = Metric(
    "archon.agent.tasks",
    Kind.GAUGE,
    "{task}",
    "Tasks of an instance: running, waiting for delegations, or parked (result not acknowledged)",
    (ROLE, STATE),
)
AGENT_SLOTS: Final = Metric(
    "archon.agent.slots", Kind.GAUGE, "{slot}", "Tasks that an instance runs at once, at most", (ROLE,)
)
TOOL_CALLS: Final = Metric(
    "archon.tool.calls",
    Kind.COUNTER,
    "{call}",
    "Tool calls by outcome: success, error, timeout, refused (the tool was not called), or cached",
    (names.TOOL_NAME, OUTCOME),
)
TOOL_DURATION: Final = Metric(
    "archon.tool.duration",
    Kind.HISTOGRAM,
    "s",
    "Duration of a tool call with its retries, without the pauses between them",
    (names.TOOL_NAME,),
    _TOOL_SECONDS,
)
TOOL_BREAKERS: Final = Metric(
    "archon.tool.breakers",
    Kind.GAUGE,
    "{breaker}",
    "Circuit breakers of a tool by state: closed, open, or half_open",
    (names.TOOL_NAME, STATE),
)

# The orchestrator -----------------------------------------------------------------------------------------------

RUNS: Final = Metric(
    "archon.runs",
    Kind.GAUGE,
    "{run}",
    "Runs of this replica: running, or paused (by a command, or waiting for a person)",
    (STATE,),
)
RUNS_SUBMITTED: Final = Metric("archon.runs.submitted", Kind.COUNTER, "{run}", "Runs that this replica created")
RUNS_TAKEN_OVER: Final = Metric("archon.runs.taken_over", Kind.COUNTER, "{run}", "Runs that this replica took over")
RUNS_ENDED: Final = Metric(
    "archon.runs.ended", Kind.COUNTER, "{run}", "Runs that ended: completed, failed, or canceled", (STATE,)
)
RUN_DURATION: Final = Metric(
    "archon.run.duration",
    Kind.HISTOGRAM,
    "s",
    "Duration of a run, pauses included",
    (STATE,),
    _RUN_SECONDS,
)
SCHEDULER_READY: Final = Metric("archon.scheduler.ready", Kind.GAUGE, "{run}", "Ready runs that wait for the scheduler")
SCHEDULER_INPUTS: Final = Metric(
    "archon.scheduler.inputs", Kind.GAUGE, "{input}", "Inputs of runs that wait to be decided"
)
ROLE_INSTANCES: Final = Metric(
    "archon.role.instances",
    Kind.GAUGE,
    "{instance}",
    "Instances with a session: connected, draining, or unreachable",
    (ROLE, STATE),
)
ROLE_SLOTS: Final = Metric(
    "archon.role.slots",
    Kind.GAUGE,
    "{slot}",
    "Credit of a role's connected instances for this replica: used, or free",
    (ROLE, STATE),
)
TASKS_WAITING: Final = Metric(
    "archon.tasks.waiting",
    Kind.GAUGE,
    "{task}",
    "Ready tasks that wait for an instance with a free slot",
    (ROLE,),
)
TASKS_ENDED: Final = Metric(
    "archon.tasks.ended",
    Kind.COUNTER,
    "{task}",
    "Tasks that ended: completed, failed, canceled, or rejected",
    (ROLE, STATE),
)
ATTEMPTS_DISPATCHED: Final = Metric(
    "archon.attempts.dispatched", Kind.COUNTER, "{attempt}", "Attempts that were dispatched to an instance", (ROLE,)
)
ATTEMPTS_REPEATED: Final = Metric(
    "archon.attempts.repeated",
    Kind.COUNTER,
    "{attempt}",
    "Attempts that another one follows: lost (with the instance), rejected (by it), or retried (failed)",
    (ROLE, REASON),
)
COMMIT_DURATION: Final = Metric(
    "archon.journal.commit.duration",
    Kind.HISTOGRAM,
    "s",
    "Duration of a commit of a group of steps",
    (),
    _COMMIT_SECONDS,
)
JOURNAL_STEPS: Final = Metric(
    "archon.journal.steps",
    Kind.COUNTER,
    "{step}",
    "Steps of commits: stored, refused (the condition did not hold), or failed",
    (OUTCOME,),
)
OUTBOX_ROWS: Final = Metric(
    "archon.outbox.rows",
    Kind.GAUGE,
    "{row}",
    "Publications in the outbox, at most 100 of an earlier process",
)
OUTBOX_AGE: Final = Metric(
    "archon.outbox.age", Kind.GAUGE, "s", "Age of the oldest publication in the outbox; 0 if it is empty"
)
WATCH_LAG: Final = Metric(
    "archon.registry.watch.lag",
    Kind.GAUGE,
    "s",
    "Time since the watch of the registry was lost; 0 while it is open",
)
OWNER: Final = Metric(
    "archon.orchestrator.owner",
    Kind.GAUGE,
    "{replica}",
    "1 if this replica may drive runs (valid lease, or a journal of its own), else 0",
)
LEASE: Final = Metric(
    "archon.orchestrator.lease",
    Kind.GAUGE,
    "s",
    "Time left of this replica's lease, if its journal is shared",
)
NEWER_RUNS: Final = Metric(
    "archon.runs.newer",
    Kind.GAUGE,
    "{run}",
    "Runs without an owner that a newer release wrote, which this replica cannot take over; 1,000 at most",
)
SCHEDULE_FIRES: Final = Metric(
    "archon.schedule.fires",
    Kind.COUNTER,
    "{fire}",
    "Changes of fires of schedules, by their new state: starting, waiting, running, completed, failed, cancelled, "
    "skipped, missed or refused",
    (STATE,),
)
HOOK_DELIVERIES: Final = Metric(
    "archon.hook.deliveries",
    Kind.COUNTER,
    "{delivery}",
    "Deliveries to hooks, by their state: accepted, repeated, ignored, challenged, refused, or unverified if the hook "
    "is unknown or the signature does not match",
    (STATE,),
)
QUOTA_USE: Final = Metric(
    "archon.quota.use",
    Kind.GAUGE,
    "1",
    "Part of each quota of a tenant that is used, as this replica knows it: from 1 on, new runs or streams are refused",
    (TENANT, QUOTA),
)
FRAMES_REFUSED: Final = Metric(
    "archon.frames.refused", Kind.COUNTER, "{frame}", "Frames of agents that were refused, by the reason", (REASON,)
)

PLAN_STEPS: Final = Metric(
    "archon.plan.steps",
    Kind.COUNTER,
    "{step}",
    "Steps of plans: created, started, completed, failed, canceled, or rejected",
    (STATE,),
)

# Long-term memory: the memory service, and agents with a memory of their own -------------------------------------

MEMORY_QUERIES: Final = Metric(
    "archon.memory.queries",
    Kind.COUNTER,
    "{query}",
    "Queries of long-term memory: hit (an entry reached the threshold), fallback (none did), empty, or failed",
    (OUTCOME,),
)
MEMORY_HITS: Final = Metric(
    "archon.memory.hits", Kind.COUNTER, "{entry}", "Entries of long-term memory that reached the threshold of a query"
)

# All processes --------------------------------------------------------------------------------------------------

RPC_DURATION: Final = Metric(
    "rpc.server.call.duration",
    Kind.HISTOGRAM,
    "s",
    "Duration of a unary call that the process answered",
    (names.RPC_SYSTEM, names.RPC_METHOD, names.RPC_STATUS),
    _RPC_SECONDS,
)
LOOPS_FAILING: Final = Metric(
    "archon.loops.failing",
    Kind.GAUGE,
    "{loop}",
    "Background loops that keep failing with unexpected errors; the process is NOT_SERVING meanwhile",
)

METRICS: Final[Sequence[Metric]] = tuple(value for value in globals().copy().values() if isinstance(value, Metric))
"""All metrics, in the order of this file."""


class Recorder:
    """Records the metrics of a process.

    `add` is meant for one thread: two that count the same labels at the same moment may lose one of the counts.
    """

    def __init__(self, meter: Meter) -> None:
        self._histograms: dict[Metric, Histogram] = {}
        self._counts: dict[Metric, dict[Labels, int]] = {}
        self._sources: dict[Metric, list[Source]] = {}
        for metric in METRICS:
            self._create(meter, metric)

    def _create(self, meter: Meter, metric: Metric) -> None:
        if metric.kind is Kind.HISTOGRAM:
            self._histograms[metric] = meter.create_histogram(
                metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=metric.buckets
            )
            return
        self._sources[metric] = []

        def collect(_: CallbackOptions) -> list[Observation]:
            return self._observations(metric)

        if metric.kind is Kind.COUNTER:
            self._counts[metric] = {}
            meter.create_observable_counter(metric.name, [collect], metric.unit, metric.description)
        else:
            meter.create_observable_gauge(metric.name, [collect], metric.unit, metric.description)

    def add(self, metric: Metric, labels: Labels = (), amount: int = 1) -> None:
        """Adds to a counter. With `amount` 0 it is exported from then on, also before it counts anything."""
        counts = self._counts[metric]
        if labels not in counts and len(counts) >= MAX_SERIES:
            labels = (OTHER,) * len(metric.labels)
        counts[labels] = counts.get(labels, 0) + amount

    def record(self, metric: Metric, value: float, labels: Labels = ()) -> None:
        """Records a value of a histogram. The span that is current, if it is recorded, may become its exemplar."""
        self._histograms[metric].record(value, _attributes(metric, labels))

    def observe(self, metric: Metric, source: Source) -> Callable[[], None]:
        """Has a gauge read by `source` at each collection, until the returned function is called. Values of several
        sources are added up; of those in seconds the largest counts."""
        sources = self._sources[metric]
        sources.append(source)

        def end() -> None:
            if source in sources:
                sources.remove(source)

        return end

    def _observations(self, metric: Metric) -> list[Observation]:
        from opentelemetry.metrics import Observation

        values: dict[Labels, float] = dict(self._counts.get(metric, {}))  # copied at once: another thread counts
        combine: Callable[[float, float], float] = max if metric.unit == "s" else lambda one, other: one + other
        for source in self._sources[metric].copy():
            try:
                read = list(source())
            except Exception as error:  # noqa: BLE001 - one value that cannot be read is not to hide the others
                _log.warning("the metric %s cannot be read: %s", metric.name, error)
                continue
            for labels, value in read:
                values[labels] = combine(values[labels], value) if labels in values else value
        return [Observation(value, _attributes(metric, labels)) for labels, value in values.items()]


def _attributes(metric: Metric, labels: Labels) -> dict[str, Any]:
    return {name: value for name, value in zip(metric.labels, labels, strict=True) if value}


_recorder: Recorder | None = None


def recorder() -> Recorder | None:
    """Returns the recorder of this process, or None if it exports no metrics."""
    return _recorder


def use(recorder: Recorder | None) -> None:
    """Sets the recorder of the process; None ends measuring."""
    global _recorder
    _recorder = recorder
