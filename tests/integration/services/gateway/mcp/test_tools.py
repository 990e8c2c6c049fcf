"""Roles, shared tools and runs as tools of one MCP server, for the protocol's own client, of its newest and of an earlier
revision."""

from __future__ import annotations

import base64

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.fixtures.http_gateway import OPERATOR, STRANGER, VIEWER
from tests.fixtures.mcp_mesh import ERAS, LEGACY, MODERN, Person, mcp_client, text_of
from tests.integration.services.gateway.mcp.conftest import PIXEL, Office


@pytest.mark.parametrize("era", ERAS)
async def test_each_role_is_a_tool_whose_call_is_a_run(office: Office, era: str) -> None:
    async with mcp_client(office.mesh, OPERATOR, era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"clerk", "echo", "finder", "finder__halve", "mesh_run", "run_get"}
        assert tools["clerk"].input_schema["required"] == ["goal"]
        assert "painting" in (tools["clerk"].description or "")
        lines: list[str] = []

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            lines.append(message or "")

        result = await client.call_tool("clerk", {"goal": "paint the fence"}, progress_callback=progress)
        assert (text_of(result), result.is_error) == ("did: paint the fence", False)
        assert "clerk works" in lines
        run_id = (result.meta or {})["dev.archon/run-id"]
        again = await client.call_tool("run_get", {"run_id": run_id})
        assert text_of(again) == "did: paint the fence"
    async with office.mesh.http(OPERATOR) as http:
        answer = await http.post("/archon.api.orchestrator.v1.OrchestratorService/GetRun", json={"runId": run_id})
    run = answer.json()["run"]
    assert (run["identity"], run["metadata"]["dev.archon/mcp-tool"]) == ("olga", "clerk")


@pytest.mark.parametrize("era", ERAS)
async def test_answers_come_as_text_images_files_and_structured_content(office: Office, era: str) -> None:
    async with mcp_client(office.mesh, OPERATOR, era) as client:
        picture = await client.call_tool("finder", {"goal": "a picture"})
        text, image, file = picture.content
        assert isinstance(text, types.TextContent) and text.text == "here"
        assert isinstance(image, types.ImageContent) and base64.b64decode(image.data) == PIXEL
        assert isinstance(file, types.EmbeddedResource) and isinstance(file.resource, types.TextResourceContents)
        assert file.resource.text == "a,b\n"
        data = await client.call_tool("clerk", {"goal": "data"})
        assert data.structured_content == {"count": 42}
        failed = await client.call_tool("clerk", {"goal": "fail"})
        assert failed.is_error and "there is no paint" in text_of(failed)


async def test_a_template_gives_arguments_and_a_prompt(office: Office) -> None:
    async with mcp_client(office.mesh, OPERATOR) as client:
        values = {"topic": "rivers", "language": "German"}
        assert text_of(await client.call_tool("finder", values)) == "found books about rivers in German"
        missing = await client.call_tool("finder", {"topic": "rivers"})
        assert missing.is_error and "all of: language" in text_of(missing)
        unknown = await client.call_tool("finder", {"goal": "x", "colour": "red"})
        assert unknown.is_error and "colour" in text_of(unknown)
        (prompt,) = (await client.list_prompts()).prompts
        assert [argument.name for argument in prompt.arguments or []] == ["topic", "language"]
        message = (await client.get_prompt("finder", values)).messages[0]
        assert "books about rivers in German" in message.content.text  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["finder__halve", "halve"])
async def test_a_shared_tool_is_called_at_its_owner(office: Office, name: str) -> None:
    async with mcp_client(office.mesh, OPERATOR) as client:
        result = await client.call_tool(name, {"number": 5})
        assert result.structured_content == {"half": 2.5}
        wrong = await client.call_tool(name, {"number": "five"})
        assert wrong.is_error and "number" in text_of(wrong)


async def test_policy_and_tenant_are_the_callers(office: Office) -> None:
    async with mcp_client(office.mesh, VIEWER) as client:
        assert len((await client.list_tools()).tools) == 6
        for name, arguments in (("clerk", {"goal": "x"}), ("halve", {"number": 1})):
            with pytest.raises(MCPError, match="may not call"):
                await client.call_tool(name, arguments)
    async with mcp_client(office.mesh, OPERATOR) as client:
        run_id = ((await client.call_tool("clerk", {"goal": "x"})).meta or {})["dev.archon/run-id"]
    async with mcp_client(office.mesh, STRANGER) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["run_get"]
        assert (await client.call_tool("run_get", {"run_id": run_id})).is_error
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource(f"archon://runs/{run_id}")


@pytest.mark.parametrize("era", ERAS)
async def test_a_question_is_an_elicitation_by_the_answers_schema(office: Office, era: str) -> None:
    person = Person({"answer": "blue"})
    async with mcp_client(office.mesh, OPERATOR, era, person=person) as client:
        result = await client.call_tool("clerk", {"goal": "ask for the colour"})
    assert text_of(result) == "painted blue"
    assert isinstance(person.asked[0], types.ElicitRequestFormParams)
    assert "Which colour?" in person.asked[0].message


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"decision": "approve"}, "decided: approve"),
        ("decline", "decided: reject"),
        ("cancel", "the run was cancelled"),
    ],
)
async def test_an_approval_is_an_elicitation(office: Office, era: str, answer: dict[str, str] | str, text: str) -> None:
    async with mcp_client(office.mesh, OPERATOR, era, person=Person(answer)) as client:
        assert text_of(await client.call_tool("clerk", {"goal": "approve"})) == text


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_without_elicitation_is_told_who_waits(office: Office, era: str) -> None:
    async with mcp_client(office.mesh, OPERATOR, era) as client:
        result = await client.call_tool("clerk", {"goal": "ask for the colour"})
        assert result.is_error and "Which colour?" in text_of(result)
        run_id = (result.meta or {})["dev.archon/run-id"]
        assert "waits for a person" in text_of(await client.call_tool("run_get", {"run_id": run_id}))
    await office.cancel(run_id)


async def test_an_unknown_tool_is_an_error_of_the_protocol(office: Office) -> None:
    for era in (MODERN, LEGACY):
        async with mcp_client(office.mesh, OPERATOR, era) as client:
            with pytest.raises(MCPError, match="unknown tool"):
                await client.call_tool("no_role", {})
