"""What each kind of person is shown, and the refusal of the rest: by the page, and by the server if the page is passed by."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from playwright.async_api import expect

from archon import Question, TaskContext
from archon.principal import Kind
from tests.web.agents import serving
from tests.web.by_hand import AUDIT, LONG_TERM, ORCHESTRATOR, REGISTRY, call, reason
from tests.web.page_mesh import WebMesh
from tests.web.stepping import plan, step, stepping

pytestmark = pytest.mark.slow

KINDS: Final = (Kind.VIEWER, Kind.AUDITOR, Kind.OPERATOR, Kind.ADMIN)
CHANGERS: Final = (Kind.OPERATOR, Kind.ADMIN)
ROLE: Final = "guarding"
COMMON: Final = ["Runs", "Inbox", "Chat", "Fleet", "Tools", "Memory", "Prompts", "Learning"]
VIEWS: Final = {kind: [*COMMON, *(["Audit"] if kind in (Kind.AUDITOR, Kind.ADMIN) else [])] for kind in KINDS}


@dataclass(frozen=True)
class Action:
    """An action of a view: its button, who is offered it, and its call with the id of an open run."""

    path: str
    button: str
    kinds: tuple[Kind, ...]
    service: str
    method: str
    body: dict[str, Any]


ACTIONS: Final = (
    Action("/runs", "New run", CHANGERS, ORCHESTRATOR, "SubmitRun", {"goal": [{"text": "x"}], "roles": [ROLE]}),
    Action("/runs/{run}", "Cancel", CHANGERS, ORCHESTRATOR, "CancelRun", {"runId": "{run}"}),
    Action("/runs/{run}", "Pause", CHANGERS, ORCHESTRATOR, "PauseRun", {"runId": "{run}"}),
    Action("/runs/{run}", "Fork ...", CHANGERS, ORCHESTRATOR, "ForkRun", {"runId": "{run}"}),
    Action("/runs/{run}", "Breakpoints", CHANGERS, ORCHESTRATOR, "SetBreakpoints", {"runId": "{run}"}),
    Action("/runs/{run}", "☆ Mark", CHANGERS, ORCHESTRATOR, "MarkRun", {"runId": "{run}"}),
    Action("/runs/{run}?tab=plan", "Edit the plan", CHANGERS, ORCHESTRATOR, "EditPlan", {"runId": "{run}"}),
    Action("/runs/{run}", "", CHANGERS, ORCHESTRATOR, "ResumeRun", {"runId": "{run}"}),
    Action("/runs/{run}", "", CHANGERS, ORCHESTRATOR, "RateRun", {"runId": "{run}", "stars": 1}),
    Action(
        "/inbox?question={question}",
        "Answer",
        CHANGERS,
        ORCHESTRATOR,
        "Respond",
        {"runId": "{asking}", "inputId": "{question}"},
    ),
    Action("/chat/guarding/s", "Send", CHANGERS, ORCHESTRATOR, "SubmitRun", {"goal": [{"text": "x"}], "roles": [ROLE]}),
    Action("/learning", "", CHANGERS, ORCHESTRATOR, "RevertLearnedVersion", {}),
    Action("/learning", "", CHANGERS, ORCHESTRATOR, "DecideLearnedVersion", {"version": "1", "approve": True}),
    Action(
        "/fleet", "Pin edge", (Kind.ADMIN,), REGISTRY, "PinEdges", {"edges": [{"upstream": "a", "downstream": "b"}]}
    ),
    Action("/fleet", "", (Kind.ADMIN,), REGISTRY, "UnpinEdges", {"edges": [{"upstream": "a", "downstream": "b"}]}),
    Action("/memory?part=long-term", "", CHANGERS, LONG_TERM, "RateEntry", {"entryId": "x"}),
    Action("/memory?part=long-term", "", (Kind.ADMIN,), LONG_TERM, "UpdateEntry", {"entryId": "x"}),
    Action("/memory?part=long-term", "", (Kind.ADMIN,), LONG_TERM, "DeleteEntry", {"entryId": "x"}),
    Action("/audit", "Filter", (Kind.AUDITOR, Kind.ADMIN), AUDIT, "ListEntries", {}),
)


@dataclass(frozen=True)
class Subjects:
    """An open run with a plan, and an open question."""

    run: str
    asking: str
    question: str

    def filled(self, text: str) -> str:
        """Returns a text with the ids in place of their names."""
        return text.replace("{run}", self.run).replace("{asking}", self.asking).replace("{question}", self.question)


@pytest.fixture(scope="module")
async def subjects(web: WebMesh) -> AsyncIterator[Subjects]:
    """A run that waits and a run that asks, for all tests of this module."""

    async def ask(task: TaskContext) -> str | Question:
        return Question("May I?")

    async with contextlib.AsyncExitStack() as stack:
        steps = await stack.enter_async_context(stepping(web, ROLE))
        await stack.enter_async_context(serving(web, "guard-asking", ask))
        client = await stack.enter_async_context(web.client())
        run = await client.submit(
            "a trip", strategy="plan", plan=plan(step("one", ROLE), step("two", ROLE, "one")), roles=[ROLE]
        )
        asking = await client.submit("ask", roles=["guard-asking"])
        await steps.until_begun("one")
        async for view in asking.views():
            if view.questions:
                break
        [question] = (await client.get(asking.run_id)).proto.questions
        yield Subjects(run.run_id, asking.run_id, question.input_id)
        for run_id in (run.run_id, asking.run_id):
            await client.cancel(run_id)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_view_offers_what_the_policy_allows(web: WebMesh, subjects: Subjects, kind: Kind) -> None:
    async with web.logged_in(kind) as opened:
        page = await opened.go("/runs")
        links = page.get_by_role("navigation", name="Views").get_by_role("link")
        await expect(links.first).to_be_visible()
        addresses = await links.evaluate_all("all => all.map((link) => link.getAttribute('href'))")
        assert addresses == [f"/{name.lower()}" for name in VIEWS[kind]]
        for path in dict.fromkeys(action.path for action in ACTIONS):
            await opened.go(subjects.filled(path))
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.get_by_text("Loading ...")).to_have_count(0)
            for action in ACTIONS:
                if action.path == path and action.button:
                    offered = page.get_by_role("button", name=action.button, exact=True)
                    await expect(offered).to_have_count(1 if kind in action.kinds else 0)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Kind.ADMIN])
async def test_the_server_refuses_an_action_sent_by_hand(web: WebMesh, subjects: Subjects, kind: Kind) -> None:
    async with web.logged_in(kind) as opened:
        page = await opened.go("/runs")
        for action in ACTIONS:
            if kind not in action.kinds:
                body = {
                    key: subjects.filled(value) if isinstance(value, str) else value
                    for key, value in action.body.items()
                }
                answer = await call(page, action.service, action.method, **body)
                assert (answer["status"], answer["code"]) == (403, "permission_denied"), (action, answer)
                assert reason(answer) == "PERMISSION_DENIED"
                assert action.method in answer["message"]


async def test_a_browser_without_a_login_is_shown_the_way_to_one(web: WebMesh, subjects: Subjects) -> None:
    context = await web.browser.new_context()
    try:
        page = await context.new_page()
        for path in ("/runs", f"/runs/{subjects.run}?tab=plan", "/audit"):
            await page.goto(web.url + path)
            await expect(page.get_by_text("This browser is not logged in")).to_be_visible()
            link = await page.get_by_role("link", name="Log in").get_attribute("href")
            assert link is not None and link.startswith("/login?next=%2F")
        for action in ACTIONS:
            answer = await call(page, action.service, action.method)
            assert (answer["status"], answer["code"]) == (401, "unauthenticated") and reason(answer), action
    finally:
        await context.close()
