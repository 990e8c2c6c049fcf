"""Properties of plans: whatever happens in any order, the engine keeps its promises about steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.types import Failure, TaskState
from tests.unit.mesh.engine.plan_run import BROKEN, BUSY, PlanRun, plan_of

IDS = ("a", "b", "c", "d", "e")
STEPS = st.builds(
    SubTask,
    st.sampled_from(IDS),
    st.sampled_from(["do it", "write it"]),
    dependencies=st.lists(st.sampled_from(IDS), max_size=2, unique=True).map(tuple),
    role=st.sampled_from(["writer", "booker", ""]),
    critical=st.booleans(),
    partial_input=st.booleans(),
    expand=st.sampled_from([False, False, True]),
    expand_on_failure=st.sampled_from([False, False, True]),
)
PLANS = st.lists(STEPS, min_size=0, max_size=5)
MOVES = st.one_of(
    st.tuples(st.just("begin"), st.integers(0, 9)),
    st.tuples(st.sampled_from(["complete", "fail", "busy", "lose", "reject", "missing"]), st.integers(0, 9)),
    st.tuples(st.sampled_from(["reply", "edit", "verdict"]), PLANS),
    st.tuples(st.sampled_from(["cancel", "tick"]), st.integers(0, 1)),
)


def play(run: PlanRun, move: str, argument: object) -> list[ev.Event]:
    """Applies a move to the n-th task that it suits."""
    plan = run.state.plan
    assert plan is not None
    run.now += 1.0
    if isinstance(argument, list):
        made = plan_of(*argument)
        if move == "edit":
            return run.feed(inp.EditPlan("me", "", plan.seq, made))
        task = run.state.tasks.get(plan.alignment if move == "verdict" else plan.planner)
        if task is None or not task.live:
            return []
        if move == "verdict" and not argument:
            return run.feed(inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None))
        return run.feed(inp.PlanIn(task.task_id, task.attempt, TaskState.COMPLETED, None, plan=made))
    if move == "cancel":
        return run.feed(inp.Cancel("me", "")) if argument else []
    if move == "tick":
        return run.feed(inp.Tick())
    assert isinstance(argument, int)
    ready = [task for task in run.state.tasks.values() if run.state.ready(task)]
    live = run.state.live_tasks()
    if move in ("begin", "missing"):
        if not ready:
            return []
        task = ready[argument % len(ready)]
        run.now = max(run.now, task.not_before)
        missing = inp.InputMissing(task.task_id, task.attempt + 1, BROKEN)
        return run.feed(missing if move == "missing" and task.step_id else inp.SlotFound(task.task_id, "i"))
    if not live:
        return []
    task = live[argument % len(live)]
    key = task.task_id, task.attempt
    if move == "lose":
        return run.feed(inp.LostIn(*key, Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")))
    if move == "reject":
        return run.feed(inp.RejectIn(*key, Failure("RESOURCE_EXHAUSTED", "NO_CAPACITY", "full")))
    if move == "complete":
        return run.feed(inp.ResultIn(*key, TaskState.COMPLETED, None))
    return run.feed(inp.ResultIn(*key, TaskState.FAILED, None, BUSY if move == "busy" else BROKEN))


@given(PLANS, st.lists(MOVES, max_size=30), st.booleans())
def test_a_plan_keeps_its_promises_in_any_course(
    first: list[SubTask],
    moves: list[tuple[str, object]],
    check_alignment: bool,
) -> None:
    run = PlanRun(check_alignment=check_alignment)
    run.begin("r.1")
    results: set[str] = set()
    began: set[str] = set()
    for move, argument in [("reply", first), *moves]:
        for event in play(run, move, argument):
            if isinstance(event, ev.Dispatched):
                assert event.task_id not in results, "a finished task is never started again"
                began.add(event.task_id)
            elif isinstance(event, ev.ResultReceived) and event.state is TaskState.COMPLETED:
                assert event.task_id not in results
                results.add(event.task_id)
            elif isinstance(event, ev.Planned) and (event.identity or event.expansion):
                touched = [e for e in play_back(run, event) if e in began]
                assert not touched, "an edit or an expansion never touches what has begun"
            if isinstance(event, ev.TaskCreated) and event.align:
                assert check_alignment, "no plan is checked unless the submit asked for it"
        at_once = run.state.plan
        assert at_once is not None
        assert not (at_once.alignment and at_once.planner), "the planner has one task at a time"
    _finish(run)
    assert run.state.ended, "no course leaves a run that cannot go on"


def play_back(run: PlanRun, planned: ev.Planned) -> list[str]:
    """The tasks that ended, or were ordered to stop, in the append of an edit."""
    position = next(number for number, (event, _) in enumerate(run.log) if event is planned)
    ended = []
    for event, _ in reversed(run.log[:position]):
        if not isinstance(event, (ev.TaskEnded, ev.TaskStopping)):
            break
        ended.append(event.task_id)
    return ended


def _finish(run: PlanRun) -> None:
    """Lets everything that can be done complete, and the planner reply as long as it is asked."""
    for _ in range(100):
        if run.state.ended:
            return
        plan = run.state.plan
        assert plan is not None
        for task in run.state.live_tasks():
            if task.task_id == plan.planner:
                run.reply(SubTask("last", "do it", role="writer"))
            else:
                run.feed(inp.ResultIn(task.task_id, task.attempt, TaskState.COMPLETED, None))
        for task in [task for task in run.state.tasks.values() if run.state.ready(task)]:
            run.now = max(run.now, task.not_before)
            run.feed(inp.SlotFound(task.task_id, "i"))
