"""Client of the orchestrator: submit, watch and control runs."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast, overload

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc, run_pb2
from archon.channel import Option, connect
from archon.converse_stream import ConverseStream
from archon.errors import (
    Aborted,
    ArchonError,
    DeadlineExceeded,
    LearningOff,
    TokenExpired,
    Unavailable,
)
from archon.hooks import Hooks
from archon.interceptors import translated
from archon.output import OutputType
from archon.pages import listed
from archon.run_answers import answer_text, answer_value
from archon.run_control import CALL_TIMEOUT, RunControl
from archon.schedules import Schedules
from archon.security.certificates import CertificateFolder
from archon.security.credentials import Credentials
from archon.status import from_failure
from archon.strategy_choice import StrategyChoice
from archon.submission import Goal, RunOptions, fork_request, submit_request
from archon.types.budget import Budget
from archon.types.forked_task import ForkedTask, ForkPreview
from archon.types.instance_metrics import InstanceMetrics
from archon.types.learned_version import LearnedVersion
from archon.types.plan import Plan
from archon.types.quota_use import QuotaUse
from archon.types.run import Run
from archon.types.run_event import RunEvent
from archon.types.task_state import TaskState
from archon.wire import set_seconds

if TYPE_CHECKING:
    from archon.run_view import RunView

__all__ = ["Client", "RunHandle", "RunOptions", "answer_text", "answer_value"]

PLAN_TIMEOUT: Final = 60.0
CANCEL_TIMEOUT: Final = 2.0
WATCH_PATIENCE: Final = 60.0

Out = TypeVar("Out")


class RunHandle:
    """A run that was submitted."""

    def __init__(self, client: Client, run: Run) -> None:
        self._client = client
        self.run = run

    @property
    def run_id(self) -> str:
        """The id that the orchestrator gave the run."""
        return self.run.run_id

    def events(self, after_seq: int = 0) -> AsyncGenerator[RunEvent, None]:
        """The run's events, as from Client.watch."""
        return self._client.watch(self.run_id, after_seq)

    async def views(self) -> AsyncGenerator[RunView, None]:
        """Yields the run's view after each event, until the run has ended: one object, which the next event changes."""
        from archon.run_view import RunView as View  # only those who ask for views wait for its import

        view = View()
        async with aclosing(self.events()) as events:
            async for event in events:
                view.apply(event)
                yield view

    async def result(self, timeout: float | None = None) -> Run:
        """Waits until the run has ended, in whatever state. Raises DeadlineExceeded after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                async with aclosing(self._client.watch(self.run_id, durable_only=True)) as events:
                    async for _ in events:
                        pass
        except TimeoutError as error:
            if isinstance(error, DeadlineExceeded):
                raise
            raise DeadlineExceeded(f"run {self.run_id} has not ended within {timeout:g} s") from None
        self.run = await self._client.get(self.run_id)
        return self.run

    async def cancel(self, reason: str = "") -> Run:
        """Requests that the run be cancelled, as Client.cancel does."""
        return await self._client.cancel(self.run_id, reason)


class Client(RunControl):
    """A connection to an orchestrator at `host:port`, which is made at the first call. Close it, or use it as an async
    context manager. Calls raise the class of ArchonError that the server raised, or Unavailable or DeadlineExceeded if
    it is unreachable. They present `credentials`, by default the token of this process or of the mesh on this
    machine; with a `certificate`, by default the one in ARCHON_TLS, connections are encrypted."""

    def __init__(
        self,
        target: str,
        *,
        options: Sequence[Option] | None = None,
        credentials: Credentials | None = None,
        certificate: CertificateFolder | None = None,
    ) -> None:
        self._channel = connect(target, options, credentials=credentials, certificate=certificate)
        self._stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(self._channel)
        self.hooks = Hooks(self._channel)
        """The hooks of the tenant."""

        self.schedules = Schedules(self._channel)
        """The schedules of the tenant."""

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Idempotent."""
        await self._channel.close()

    async def submit(
        self,
        goal: Goal,
        *,
        roles: Sequence[str] = (),
        capabilities: Sequence[str] = (),
        versions: Mapping[str, str] | None = None,
        pin_versions: bool = False,
        strategy: str = "",
        planner: str = "",
        check_alignment: bool = False,
        budget: Budget | None = None,
        session_id: str = "",
        request_id: str = "",
        timeout: float | None = None,
        wait: float | None = None,
        metadata: Mapping[str, str] | None = None,
        plan: Plan | str = "",
        breakpoints: Sequence[str] = (),
    ) -> RunHandle:
        """Submits a run, which is durable when this returns.

        `strategy` is `pipeline`, `agent` or `plan`; by default a single role is run as an agent, none or several as a
        pipeline. With `plan` the role `planner` (by default `planner`) makes a plan, whose steps go to `roles`, or to
        all other roles with an instance. With `check_alignment` the planner is also asked, after steps have completed
        while others have not begun, whether the plan still leads to the goal; one that does not is made anew.
        With a `plan`, as `edit_plan` takes it, the run begins with that; without `planner` no role makes another one,
        and the run fails if the plan cannot be completed.
        `budget` limits the run's usage. `versions` requires versions of the roles' instances (`1.2` or `1.*`);
        with `pin_versions`, all tasks of a role go to the version that its newest instance has as the run is submitted,
        and wait for an instance of it: agents may be upgraded while the run goes on.
        `timeout` is the run's time in seconds (1 h by default); `wait` is how many seconds the call waits for the run's
        end. An empty `request_id` is replaced by a new one: two calls submit two runs, while gRPC's retries of one call
        submit one. The run is held before `breakpoints`, as in `set_breakpoints`.

        Raises MessageTooLarge, before anything is sent, if the goal exceeds 4 MiB; EmptyGoal, UnknownRole,
        UnknownCapability, RequestIdReused, ResourceExhausted, PermissionDenied if there are breakpoints and the caller
        may not pause runs.
        """
        request = submit_request(
            goal,
            roles=roles,
            capabilities=capabilities,
            versions=versions,
            pin_versions=pin_versions,
            strategy=strategy,
            planner=planner,
            check_alignment=check_alignment,
            budget=budget,
            session_id=session_id,
            request_id=request_id,
            timeout=timeout,
            metadata=metadata,
            plan=plan,
            breakpoints=breakpoints,
        )
        if wait is not None:
            set_seconds(request.wait, wait)
        response = await self._stub.SubmitRun(request, timeout=CALL_TIMEOUT + (wait or 0.0))
        return RunHandle(self, Run(response.run))

    @overload
    async def run(self, goal: Goal, *, output: None = None, **options: Unpack[RunOptions]) -> str: ...

    @overload
    async def run(self, goal: Goal, *, output: type[Out], **options: Unpack[RunOptions]) -> Out: ...

    @overload
    async def run(self, goal: Goal, *, output: object, **options: Unpack[RunOptions]) -> Any: ...

    async def run(self, goal: Goal, *, output: object = None, **options: Unpack[RunOptions]) -> Any:
        """Submits a run, waits for its end and returns its answer: the text, or with `output` the object that
        `answer_value` returns. A run that is not waited for to its end is cancelled.

        The options are as in `submit`. Raises the errors of `submit` and `answer_value`, the run's failure, and
        InvalidArgument if `output` is neither a type nor a JSON Schema.
        """
        expected = OutputType.of(output)
        run = await _ended(self.submit(goal, **options))
        return answer_text(run) if expected is None else answer_value(run, expected)

    async def fork(
        self,
        run_id: str,
        *,
        after_seq: int = 0,
        goal: Goal | None = None,
        rerun: Sequence[str] = (),
        answers: Mapping[str, Goal] | None = None,
        inputs: Mapping[str, str] | None = None,
        request_id: str = "",
    ) -> RunHandle:
        """Forks a run: submits a new one with its settings, which reuses the answers of the tasks that had completed in
        it, up to event `after_seq` (0: all) and executes the other tasks anew. The new run is durable when this
        returns.

        Tasks are named by role, step or id. Those in `rerun` are executed again. Each of `answers` stands in place of
        the recorded answer of its task, which is not executed; each of `inputs` in place of the goal, or of the
        description of the step, for its task, which is. Tasks whose answers used an answer of these are executed again,
        and no others: `plan_fork` tells which.

        Without a `goal` the new run has the forked run's goal, continues its plan if it has one, and people are not
        asked answered questions again. With another goal nothing is reused unless `after_seq` is above 0. An empty
        `request_id` is replaced by a new one: two calls fork twice, while gRPC's retries of one call fork once.

        Raises UnknownRun, RunExpired (the events of the run have been deleted), InvalidArgument (the run has no event
        `after_seq`, or no task of a name), MessageTooLarge, EmptyGoal, RequestIdReused, ResourceExhausted."""
        request = fork_request(run_id, after_seq, goal, rerun, answers, inputs)
        request.request_id = request_id or uuid.uuid4().hex
        return RunHandle(self, Run((await self._stub.ForkRun(request, timeout=CALL_TIMEOUT)).run))

    async def plan_fork(
        self,
        run_id: str,
        *,
        after_seq: int = 0,
        goal: Goal | None = None,
        rerun: Sequence[str] = (),
        answers: Mapping[str, Goal] | None = None,
        inputs: Mapping[str, str] | None = None,
    ) -> ForkPreview:
        """Returns which tasks `fork` would reuse and execute, and why, without a run. Raises the errors of `fork`."""
        request = fork_request(run_id, after_seq, goal, rerun, answers, inputs)
        request.dry_run = True
        response = await self._stub.ForkRun(request, timeout=CALL_TIMEOUT)
        return ForkPreview(tuple(map(ForkedTask.from_proto, response.tasks)), response.plan_revision)

    async def watch(
        self, run_id: str, after_seq: int = 0, *, durable_only: bool = False, patience: float = WATCH_PATIENCE
    ) -> AsyncGenerator[RunEvent, None]:
        """Yields every durable event once and in order, and transient events (seq 0) as they come; ends after the run's
        last event. If the orchestrator is unreachable it reconnects and resumes after the last event, for `patience`
        seconds in a row; and if the token of the stream has expired, with the one that the credentials have now."""
        loop = asyncio.get_running_loop()
        heard = loop.time()
        expired = False
        while True:
            request = pb.WatchRunRequest(run_id=run_id, after_seq=after_seq, durable_only=durable_only)
            try:
                messages = cast(AsyncGenerator[pb.WatchRunResponse, None], translated(self._stub.WatchRun(request)))
                async with aclosing(messages):
                    async for message in messages:
                        heard, expired = loop.time(), False
                        for event in message.events:
                            after_seq = event.seq or after_seq
                            yield RunEvent(event)
                return
            except TokenExpired:
                if expired:
                    raise
                expired = True
            except (Unavailable, Aborted):
                if loop.time() - heard > patience:
                    raise
            await asyncio.sleep(random.uniform(0.1, 0.4))

    def converse(self) -> ConverseStream:
        """Many runs on one stream; use it as an async context manager."""
        return ConverseStream(self._stub)

    async def choose_strategy(self, query: Goal, *, roles: Sequence[str] = (), planner: str = "") -> StrategyChoice:
        """Asks the mesh how it would answer a query, by rules of text: one role answers a query of one step; one of
        several steps is planned. `roles` are those that may take part, by default all with an instance.

        Raises EmptyGoal, UnknownRole, FailedPrecondition if no role has an instance.
        """
        request = submit_request(query, roles=roles)
        request.planner = planner
        asked = pb.PlanRunRequest(submit=request, choose_strategy=True)
        response = await self._stub.PlanRun(asked, timeout=CALL_TIMEOUT)
        strategy = run_pb2.Strategy.Name(response.strategy).removeprefix("STRATEGY_").lower()
        return StrategyChoice(strategy, tuple(response.roles), response.reason)

    async def run_task(
        self,
        query: Goal,
        *,
        roles: Sequence[str] = (),
        planner: str = "",
        check_alignment: bool = False,
        budget: Budget | None = None,
        session_id: str = "",
        timeout: float | None = None,
        on_choice: Callable[[StrategyChoice], object] | None = None,
    ) -> str:
        """Returns one answer to a query that may take several steps, by the strategy that `choose_strategy` says, with
        which `on_choice` is called. A run that is not waited for to its end is cancelled.

        The arguments are as in `submit`; `check_alignment` counts if the query is planned. Raises the errors of
        `choose_strategy` and `submit`, and the run's failure.
        """
        choice = await self.choose_strategy(query, roles=roles, planner=planner)
        if on_choice is not None:
            on_choice(choice)
        submit = self.submit(
            query,
            roles=choice.roles,
            strategy=choice.strategy,
            planner=planner if choice.strategy == "plan" else "",
            check_alignment=check_alignment and choice.strategy == "plan",
            budget=budget,
            session_id=session_id,
            timeout=timeout,
        )
        return answer_text(await _ended(submit))

    async def plan(
        self,
        goal: Goal,
        *,
        roles: Sequence[str] = (),
        capabilities: Sequence[str] = (),
        versions: Mapping[str, str] | None = None,
        planner: str = "",
        timeout: float = PLAN_TIMEOUT,
    ) -> Plan:
        """Returns the plan that a run with strategy `plan` would begin with. Nothing is stored or executed. The
        arguments are as in `submit`, but `timeout` is this call's, in seconds.

        Raises the errors of `submit`, PlanFailed if the planner's reply is no plan, DeadlineExceeded if it is silent,
        and Unavailable if no instance of it can be reached.
        """
        request = submit_request(
            goal, roles=roles, capabilities=capabilities, versions=versions, strategy="plan", planner=planner
        )
        return Plan.from_proto((await self._stub.PlanRun(pb.PlanRunRequest(submit=request), timeout=timeout)).plan)

    async def learned_versions(self, *, limit: int = 100) -> list[LearnedVersion]:
        """The versions of the tenant's learned weights, newest first, at most `limit`. Raises LearningOff if the
        orchestrator does not learn."""

        async def call(request: pb.ListLearnedVersionsRequest, timeout: float) -> pb.ListLearnedVersionsResponse:
            page: pb.ListLearnedVersionsResponse = await self._stub.ListLearnedVersions(request, timeout=timeout)
            if not page.learning:
                raise LearningOff("this orchestrator does not learn: ARCHON_LEARNING is off")
            return page

        request = pb.ListLearnedVersionsRequest()
        return await listed(call, request, "versions", LearnedVersion, timeout=CALL_TIMEOUT, limit=limit)

    async def decide_learned(self, version: int, *, approve: bool, comment: str = "") -> LearnedVersion:
        """Approves or rejects the proposed version of the learned weights. Returns the version that this stores.
        Raises UnknownLearnedVersion, LearnedVersionDecided, LearningOff, InvalidArgument."""
        request = pb.DecideLearnedVersionRequest(version=version, approve=approve, comment=comment)
        return LearnedVersion((await self._stub.DecideLearnedVersion(request, timeout=CALL_TIMEOUT)).version)

    async def revert_learned(self, version: int = 0, *, comment: str = "") -> LearnedVersion:
        """Goes back to the weights and the evidence of a version, 0 for the neutral ones of the beginning. Returns the
        version that this stores. Raises UnknownLearnedVersion, LearnedVersionDecided if another version was stored in
        the meantime, LearningOff, InvalidArgument."""
        request = pb.RevertLearnedVersionRequest(version=version, comment=comment)
        return LearnedVersion((await self._stub.RevertLearnedVersion(request, timeout=CALL_TIMEOUT)).version)

    async def instance_metrics(self, role: str = "", *, limit: int = 1000) -> list[InstanceMetrics]:
        """The records of roles, each followed by the records of its instances, at least `limit` of them if there are so
        many; of one role if it is named."""
        call, request = self._stub.ListInstanceMetrics, pb.ListInstanceMetricsRequest(role=role)
        return await listed(call, request, "metrics", InstanceMetrics, timeout=CALL_TIMEOUT, limit=limit)

    async def quotas(self, *, limit: int = 1000) -> list[QuotaUse]:
        """The use of the quotas of the caller's tenant, then of its identity, or of all identities of the tenant if the
        caller is an auditor or an admin; empty if the mesh has no quotas."""
        call, request = self._stub.GetQuotas, pb.GetQuotasRequest()
        return await listed(call, request, "uses", QuotaUse, timeout=CALL_TIMEOUT, limit=limit)


async def _ended(submit: Coroutine[Any, Any, RunHandle]) -> Run:
    """Submits a run and returns it once it has completed. Raises its failure. If the caller is cancelled, so is the
    run."""
    submitting = asyncio.create_task(submit, name="submit")
    try:
        run = await (await asyncio.shield(submitting)).result()
    except asyncio.CancelledError:
        cancelling = asyncio.create_task(_cancel_run(submitting), name="cancel run")
        await asyncio.wait([cancelling], timeout=CANCEL_TIMEOUT)
        cancelling.cancel()
        raise
    if run.state is not TaskState.COMPLETED:
        raise from_failure(run.proto.failure)
    return run


async def _cancel_run(submitting: asyncio.Task[RunHandle]) -> None:
    """Cancels the run that is being submitted. Failures are left to the run's own time limit."""
    try:
        await (await submitting).cancel("its caller was cancelled")
    except ArchonError:
        return
