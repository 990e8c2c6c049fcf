"""Calls of RPCs by a script of the page, as a reader with the tools of a browser makes them."""

from __future__ import annotations

import base64
from typing import Any, Final

from google.rpc import error_details_pb2
from playwright.async_api import Page

ORCHESTRATOR: Final = "archon.api.orchestrator.v1.OrchestratorService"
REGISTRY: Final = "archon.api.registry.v1.RegistryService"
AUDIT: Final = "archon.api.audit.v1.AuditService"
LONG_TERM: Final = "archon.api.memory.v1.LongTermMemoryService"

_SCRIPT: Final = """async ([path, body]) => {
  const headers = {"content-type": "application/json"};
  const answer = await fetch(path, {method: "POST", headers, body: JSON.stringify(body)});
  return {status: answer.status, ...(await answer.json())};
}"""


async def call(page: Page, service: str, method: str, **body: Any) -> dict[str, Any]:
    """Returns the answer to a call with the session of the page: its status, and its fields or those of the error."""
    answer: dict[str, Any] = await page.evaluate(_SCRIPT, [f"/{service}/{method}", body])
    return answer


def reason(answer: dict[str, Any]) -> str:
    """Returns the reason of the ErrorInfo of an answer; empty if it has none."""
    for detail in answer.get("details", []):
        if detail["type"] == error_details_pb2.ErrorInfo.DESCRIPTOR.full_name:
            value = detail["value"]
            info = error_details_pb2.ErrorInfo.FromString(base64.b64decode(value + "=" * (-len(value) % 4)))
            return str(info.reason)
    return ""
