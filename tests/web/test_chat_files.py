"""Files and images in the chat: attached, sent, shown and saved."""

from __future__ import annotations

import base64

import pytest
from playwright.async_api import FilePayload, expect

from archon import Answer, TaskContext
from archon.principal import Kind
from archon.types import Part
from tests.web.agents import serving
from tests.web.page_mesh import WebMesh

pytestmark = pytest.mark.slow

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_files_and_images_reach_the_agent_and_come_back(web: WebMesh) -> None:
    async def mirror(task: TaskContext) -> Answer:
        return Answer(parts=[Part(text="Here they are."), *(part for part in task.parts if part.raw)])

    async with serving(web, "mirror", mirror), web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/chat/mirror")
        message = page.get_by_label("Message", exact=True)
        await expect(message).to_be_visible()
        files = [
            FilePayload(name="dot.png", mimeType="image/png", buffer=PIXEL),
            FilePayload(name="broken.png", mimeType="image/png", buffer=b"not an image"),
            FilePayload(name="notes.csv", mimeType="text/csv", buffer="naïve;1\n".encode()),
        ]
        await page.set_input_files("input[type=file]", files)
        attached = page.get_by_role("list", name="Attached files").get_by_role("listitem")
        await expect(attached).to_have_count(3)
        await page.get_by_role("button", name="Send").click()
        answer = page.get_by_role("region", name="Message and answer").locator(".answer")
        await expect(answer.get_by_text("Here they are.")).to_be_visible()
        image = answer.get_by_role("img", name="dot.png")
        await expect(image).to_be_visible()
        assert await image.evaluate("(image) => image.naturalWidth") == 1
        await expect(answer.get_by_role("img", name="broken.png")).to_have_count(0)
        for name, content in (("notes.csv", "naïve;1\n".encode()), ("dot.png", PIXEL), ("broken.png", b"not an image")):
            async with page.expect_download() as download:
                await answer.get_by_role("link", name=name).click()
            saved = await download.value
            assert saved.suggested_filename == name
            assert (await saved.path()).read_bytes() == content
        await expect(attached).to_have_count(0)


@pytest.mark.search
async def test_a_file_that_is_too_large_is_not_attached(web: WebMesh) -> None:
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/chat/designer")
        await expect(page.get_by_label("Message", exact=True)).to_be_visible()
        large = FilePayload(name="large.bin", mimeType="", buffer=b"x" * 3_900_001)
        small = FilePayload(name="small.txt", mimeType="text/plain", buffer=b"x")
        await page.set_input_files("input[type=file]", [large, small])
        await expect(page.locator(".notice.problem")).to_contain_text("large.bin does not fit")
        await expect(page.get_by_role("list", name="Attached files").get_by_role("listitem")).to_have_count(1)
        await page.get_by_role("button", name="Remove small.txt").click()
        await expect(page.get_by_role("button", name="Send")).to_be_disabled()


async def test_pasted_and_dropped_files_are_attached(web: WebMesh) -> None:
    transfer = """([element, kind]) => {
      const data = new DataTransfer();
      data.items.add(new File(["x"], `${kind}.txt`, {type: "text/plain"}));
      const made = kind === "paste" ? new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true})
        : new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true});
      element.dispatchEvent(made);
    }"""
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/chat/designer")
        field = await page.get_by_label("Message", exact=True).element_handle()
        for kind in ("paste", "drop"):
            await page.evaluate(transfer, [field, kind])
            await expect(page.get_by_role("list", name="Attached files")).to_contain_text(f"{kind}.txt")
