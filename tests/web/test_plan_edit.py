"""The edit of a plan in the page: its steps that have not begun, beside those that have and beside other editors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Locator, Page, expect

from archon import TaskContext
from archon.client import Client, RunHandle
from archon.principal import Kind
from tests.web.agents import serving
from tests.web.by_hand import ORCHESTRATOR, call, reason
from tests.web.page_mesh import WebMesh
from tests.web.stepping import Steps, plan, step, stepping

pytestmark = pytest.mark.slow

ROLE = "editing"
TRIP = plan(step("flight", ROLE), step("hotel", ROLE, "flight"), step("tour", ROLE, "hotel"))


@asynccontextmanager
async def edited(web: WebMesh) -> AsyncIterator[tuple[Page, Client, RunHandle, Steps]]:
    """A page with the edit of a plan whose first step has begun."""
    async with stepping(web, ROLE) as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("a trip", strategy="plan", plan=TRIP, roles=[ROLE])
        await steps.until_begun("flight")
        page = await opened.go(f"/runs/{run.run_id}?tab=plan")
        await expect(node(page, "flight")).to_contain_text("working")
        await page.get_by_role("button", name="Edit the plan").click()
        yield page, client, run, steps


def node(page: Page, name: str) -> Locator:
    """Returns the step of this name in the graph."""
    return page.get_by_role("group", name="Steps of the plan").locator(f"g[role=button][aria-label^='{name}:']")


async def test_waiting_steps_are_changed_added_and_removed(web: WebMesh) -> None:
    async with edited(web) as (page, _, run, steps):
        await node(page, "hotel").click()
        await page.get_by_label("Description").fill("A room with a view.")
        await page.get_by_role("button", name="Add a step").click()
        await page.get_by_label("Name", exact=True).fill("museum")
        await page.get_by_role("textbox", name="Role").fill(ROLE)
        await page.get_by_label("Description").fill("Two tickets.")
        await node(page, "tour").click()
        await page.get_by_role("button", name="Remove").click()
        changes = page.get_by_role("group", name="Changes of the plan")
        await expect(changes).to_contain_text("added:     A room with a view.")
        await expect(changes).to_contain_text(f"added: museum ({ROLE}) after hotel")
        await expect(changes).to_contain_text(f"removed: tour ({ROLE}) after hotel")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("The plan was changed.")).to_be_visible()
        await expect(page.get_by_role("table", name="Steps").get_by_role("cell", name="Two tickets.")).to_be_visible()
        steps.go_on.set()
        ended = await run.result(timeout=30)
        assert ended.plan is not None
        assert [each.step_id for each in ended.plan.steps] == ["flight", "hotel", "museum"]
        assert steps.begun == ["flight", "hotel", "museum"]


async def test_a_step_that_has_begun_stays_as_it_is(web: WebMesh) -> None:
    async with edited(web) as (page, client, run, _):
        await node(page, "flight").click()
        form = page.get_by_role("group", name="flight, which has begun")
        assert await form.get_attribute("disabled") is not None
        await expect(form.get_by_label("Description")).to_be_disabled()
        await expect(form.get_by_role("button", name="Remove")).to_be_disabled()
        seq = (await client.get(run.run_id)).proto.plan.change_seq
        without = plan(step("hotel", ROLE), step("tour", ROLE, "hotel"))
        answer = await call(page, ORCHESTRATOR, "EditPlan", runId=run.run_id, planJson=without, expectedSeq=str(seq))
        assert (answer["status"], answer["code"]) == (400, "failed_precondition"), answer
        assert reason(answer) and "flight" in answer["message"]


async def test_an_edit_beside_another_one_is_refused(web: WebMesh) -> None:
    async with edited(web) as (page, client, run, _):
        await node(page, "tour").click()
        await page.get_by_label("Description").fill("By boat.")
        before = (await client.get(run.run_id)).plan
        assert before is not None
        theirs = plan(step("flight", ROLE), step("hotel", ROLE, "flight"), step("tour", ROLE, "hotel", critical=True))
        await client.edit_plan(run.run_id, theirs, expected_seq=before.change_seq)
        await expect(page.get_by_role("alert")).to_contain_text("The plan has changed meanwhile")
        await expect(page.get_by_role("button", name="Save")).to_be_disabled()
        await expect(page.get_by_label("Description")).to_have_value("By boat.")
        answer = await call(
            page, ORCHESTRATOR, "EditPlan", runId=run.run_id, planJson=TRIP, expectedSeq=str(before.change_seq)
        )
        assert (answer["status"], answer["code"]) == (409, "aborted") and reason(answer)
        await page.get_by_role("button", name="Discard").click()
        await page.get_by_role("button", name="Edit the plan").click()
        await node(page, "tour").click()
        await expect(page.get_by_label("Description")).to_have_value("Do tour.")


async def test_a_step_that_begins_during_an_edit_is_refused(web: WebMesh) -> None:
    async with edited(web) as (page, _, run, steps):
        await node(page, "hotel").click()
        await page.get_by_label("Description").fill("Too late.")
        steps.free.add("tour")
        steps.go_on.set()
        await run.result(timeout=30)
        await expect(page.get_by_role("button", name="Save")).to_be_enabled()
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator(".notice.problem")).to_be_visible()
        await expect(page.get_by_label("Description")).to_have_value("Too late.")


async def test_a_plan_with_faults_cannot_be_saved(web: WebMesh) -> None:
    async with edited(web) as (page, _, __, ___):
        save = page.get_by_role("button", name="Save")
        await expect(save).to_be_disabled()
        await node(page, "hotel").click()
        await page.get_by_role("checkbox", name="tour").check()
        await expect(page.get_by_text("These steps wait for each other: hotel, tour.")).to_be_visible()
        await page.get_by_role("checkbox", name="tour").uncheck()
        await page.get_by_label("Description").fill(" ")
        await expect(page.get_by_text("A step has no description.")).to_be_visible()
        await page.get_by_label("Description").fill("A room.")
        await page.get_by_label("Name", exact=True).fill("tour")
        await expect(page.get_by_text("Two steps are named tour.")).to_be_visible()
        await expect(save).to_be_disabled()
        await page.get_by_label("Name", exact=True).fill("tourist")
        await expect(page.get_by_role("group", name="Changes of the plan")).to_contain_text("after tourist")
        await expect(save).to_be_enabled()


async def test_a_plan_that_waits_is_changed_and_approved(web: WebMesh) -> None:
    costly = plan(step("flight", "travelling", estimated_cost_micro_usd=9_000_000))

    async def make(task: TaskContext) -> str:
        return costly

    async with (
        stepping(web, "travelling", "flight", "train") as steps,
        serving(web, "plotting", make),
        web.client() as client,
    ):
        run = await client.submit("a trip", strategy="plan", planner="plotting", roles=["travelling"])
        async with web.logged_in(Kind.OPERATOR) as opened:
            page = await opened.go(f"/runs/{run.run_id}")
            card = page.get_by_role("article")
            await expect(card).to_contain_text("before a plan begins, rule costly plans")
            await card.get_by_role("button", name="Modify ...").click()
            field = card.get_by_label("In its place, as JSON")
            text = await field.input_value()
            await field.fill("{")
            await card.get_by_role("button", name="Approve with this change").click()
            await expect(card.get_by_role("alert")).to_contain_text("This is not JSON.")
            await field.fill(text.replace('"flight"', '"train"').replace("Do flight.", "Do train."))
            change = card.get_by_role("group", name="The change")
            await expect(change).to_contain_text('removed:       "description": "Do flight."')
            await expect(change).to_contain_text('added:       "description": "Do train."')
            await card.get_by_role("button", name="Approve with this change").click()
            await expect(page.get_by_text("Changed and approved.")).to_be_visible()
            await run.result(timeout=30)
            assert steps.begun == ["train"]
