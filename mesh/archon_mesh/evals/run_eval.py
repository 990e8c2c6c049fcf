"""Evaluates cases: repeated, in parallel, within a budget."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from archon.client import Client
from archon.errors import ArchonError, InvalidArgument, Unavailable
from archon_mesh.evals.budget import Budget
from archon_mesh.evals.case import Case
from archon_mesh.evals.expectation import Question, Score
from archon_mesh.evals.report import MAX_ANSWER, CaseResult, EvalReport, Trial
from archon_mesh.evals.targets import CaseFunction, FunctionTarget, MeshTarget, Target, fetch_trajectory
from archon_mesh.evals.trajectory import Trajectory
from archon_mesh.llm import ModelClient

PARALLEL: Final = 4
MAX_PARALLEL: Final = 256
MAX_TRIALS: Final = 100_000
"""Runs at a time by default and at most, and trials of an eval at most."""

BUDGET_SPENT: Final = "the budget of the eval is used up"

OnTrial = Callable[[Case, Trial], object]
"""Is called after each trial, in the order of their ends."""


async def evaluate(
    cases: Sequence[Case],
    target: Client | CaseFunction,
    *,
    repeat: int = 1,
    parallel: int = PARALLEL,
    budget_usd: float | None = None,
    judge: ModelClient | None = None,
    versions: Mapping[str, str] | None = None,
    name: str = "",
    on_trial: OnTrial | None = None,
) -> EvalReport:
    """Executes each case `repeat` times, at most `parallel` at a time, and scores the answers and trajectories.

    `target` is the client of a mesh, in which each trial is a run, or an async function that executes a case and
    returns the answer or a Trajectory. `budget_usd` limits the cost of all runs and judgements together, in US dollars:
    each run gets a part of the rest as its own budget, and trials that it does not allow are skipped. `judge` is
    the model that judges where an expectation names none. `versions` requires versions of roles, as `Client.submit`
    does.

    A run that fails is a failed trial. Raises Unavailable if the mesh is unreachable, InvalidArgument for an argument
    out of range and if two cases have one id; if the caller is cancelled, so are the runs.
    """
    _check(cases, repeat, parallel)
    executes: Target = MeshTarget(target, versions=versions, name=name) if isinstance(target, Client) else _of(target)
    evaluation = _Evaluation(executes, Budget(budget_usd), judge, on_trial)
    started, clock = time.time(), asyncio.get_running_loop().time
    began = clock()
    results = await evaluation.run(cases, repeat, min(parallel, len(cases) * repeat))
    return EvalReport(
        tuple(
            CaseResult(case.id, tuple(trials), case.threshold, tuple(case.tags))
            for case, trials in zip(cases, results, strict=True)
        ),
        name,
        repeat,
        evaluation.budget.spent,
        clock() - began,
        budget_usd,
        started,
    )


async def score_runs(
    cases: Sequence[Case],
    client: Client,
    run_ids: Mapping[str, Sequence[str]],
    *,
    judge: ModelClient | None = None,
    name: str = "",
) -> EvalReport:
    """Scores runs that have ended, by the id of their case, without executing anything: a baseline of recorded runs, or
    an eval whose runs people have rated since. Cases without runs are left out. Raises UnknownRun, and InvalidArgument
    if no case has a run."""
    began, spent = time.time(), 0.0
    results = []
    for case in cases:
        trials = []
        for run_id in run_ids.get(case.id, ()):
            trial, cost = await _scored(case, await fetch_trajectory(client, run_id, case), judge)
            spent += cost
            trials.append(trial)
        if trials:
            results.append(CaseResult(case.id, tuple(trials), case.threshold, tuple(case.tags)))
    if not results:
        raise InvalidArgument("no case has a run to score")
    repeat = max(len(result.trials) for result in results)
    return EvalReport(tuple(results), name, repeat, spent, time.time() - began, None, began)


def _of(function: CaseFunction) -> FunctionTarget:
    if not callable(function):
        raise InvalidArgument(f"cannot evaluate {function!r}: expected a Client or an async function of a case")
    return FunctionTarget(function)


def _check(cases: Sequence[Case], repeat: int, parallel: int) -> None:
    if not cases:
        raise InvalidArgument("there is no case to evaluate")
    if repeat < 1 or len(cases) * repeat > MAX_TRIALS:
        raise InvalidArgument(
            f"an eval has 1 to {MAX_TRIALS:,} trials: {len(cases):,} cases, repeated {repeat:,} times"
        )
    if not 1 <= parallel <= MAX_PARALLEL:
        raise InvalidArgument(f"`parallel` must be 1 to {MAX_PARALLEL}, not {parallel}")
    if len({case.id for case in cases}) < len(cases):
        raise InvalidArgument("two cases have the same id")


class _Evaluation:
    """The trials of one eval, taken by workers in the order of the cases: all first trials, then all second ones."""

    def __init__(self, target: Target, budget: Budget, judge: ModelClient | None, on_trial: OnTrial | None) -> None:
        self.budget = budget
        self._target = target
        self._judge = judge
        self._on_trial = on_trial
        self._waiting: deque[tuple[int, int, Case]] = deque()
        self._results: list[list[Trial]] = []

    async def run(self, cases: Sequence[Case], repeat: int, workers: int) -> list[list[Trial]]:
        """Returns `repeat` trials of each case, in the order of the cases; skipped ones once the budget is spent."""
        unfinished = Trial(None, skipped=BUDGET_SPENT)
        self._results = [[unfinished] * repeat for _ in cases]
        self._waiting.extend((index, number, case) for number in range(repeat) for index, case in enumerate(cases))
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(workers):
                    group.create_task(self._work(workers), name=f"eval worker {number}")
        except BaseExceptionGroup as group_error:
            raise _first(group_error) from None
        return self._results

    async def _work(self, workers: int) -> None:
        while self._waiting:
            index, number, case = self._waiting.popleft()
            trial = await self._trial(case, workers)
            self._results[index][number] = trial
            if self._on_trial is not None:
                self._on_trial(case, trial)

    async def _trial(self, case: Case, workers: int) -> Trial:
        share = await self.budget.reserve(min(workers, len(self._waiting) + 1))
        if share == 0.0:
            return Trial(None, skipped=BUDGET_SPENT)
        spent = 0.0
        try:
            trajectory = await self._target.execute(case, share)
            spent = trajectory.cost_usd
            if share is not None and _stopped_by_budget(trajectory):
                return Trial(None, run_id=trajectory.run_id, cost_usd=spent, skipped=BUDGET_SPENT)
            trial, cost = await _scored(case, trajectory, self._judge)
            spent += cost
        except Unavailable:
            raise
        except ArchonError as error:
            return Trial(False, error=str(error))
        finally:
            self.budget.settle(share, spent)
        return trial


def _stopped_by_budget(trajectory: Trajectory) -> bool:
    return not trajectory.completed and trajectory.failure_reason == "BUDGET_EXHAUSTED"


async def _scored(case: Case, trajectory: Trajectory, judge: ModelClient | None) -> tuple[Trial, float]:
    """Returns the scored trial, and the cost of scoring it in US dollars."""
    question = Question(case.goal_text(), trajectory, case.answer, judge)
    scores = tuple([await expectation.score(question) for expectation in case.expectations])
    trial = Trial(
        _passed(trajectory, scores),
        scores,
        trajectory.run_id,
        trajectory.state,
        trajectory.failure,
        trajectory.answer[:MAX_ANSWER],
        trajectory.roles,
        trajectory.cost_usd,
        trajectory.tokens,
        trajectory.seconds,
    )
    return trial, sum(score.spent_usd for score in scores)


def _passed(trajectory: Trajectory, scores: Sequence[Score]) -> bool | None:
    """A run passes if it has completed and no expectation fails; one whose expectations are all unknown is not
    scored."""
    if not trajectory.completed or any(score.passed is False for score in scores):
        return False
    return True if any(score.passed for score in scores) else None


def _first(error: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = error.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
