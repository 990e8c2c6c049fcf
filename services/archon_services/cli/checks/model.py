"""The model that agents started from here would use. Its key is never shown, and sent nowhere but to its endpoint."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from archon_services.cli.checks.finding import Finding, ok, problem, warning

_USUAL: Final = "https://api.openai.com/v1"
_TIMEOUT: Final = 10.0
_KEY_HINT: Final = "Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of yours that needs none."


async def check_model(environment: Mapping[str, str], *, online: bool) -> list[Finding]:
    """Whether ARCHON_MODEL names a model and has the key it needs; `online` asks its endpoint."""
    from archon.errors import InvalidArgument, Unauthenticated
    from archon_mesh.llm import create_model

    spec = environment.get("ARCHON_MODEL") or "offline"
    try:
        model = create_model(spec)
    except InvalidArgument:
        return [problem("model", f"there is no model {spec!r}", "ARCHON_MODEL is `offline`, or `openai/NAME`.")]
    except Unauthenticated as error:
        hint = str(error) if environment.get("OPENAI_API_KEY") else _KEY_HINT
        return [problem("model", f"{spec} has no key that can be used", hint)]
    except ImportError:
        return [problem("model", f"{spec} needs a package that isn't installed", "`pip install openai`")]
    await model.close()
    if spec == "offline":
        unused = "; a key alone leads to no model that costs" if environment.get("OPENAI_API_KEY") else ""
        return [ok("model", f"offline{unused}")]
    endpoint = environment.get("OPENAI_BASE_URL") or _USUAL
    key = (environment.get("OPENAI_API_KEY") or "").strip()
    said = f"{spec} at {_shown(endpoint)}, {'with' if key else 'without'} a key"
    if not online:
        return [ok("model", f"{said}; not asked without --online")]
    return [_ask(spec.partition("/")[2].strip(), endpoint, key, said)]


def _ask(name: str, endpoint: str, key: str, said: str) -> Finding:
    try:
        request = urllib.request.Request(endpoint.rstrip("/") + "/models")
        if key:
            request.add_unredirected_header("Authorization", f"Bearer {key}")
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_TIMEOUT) as answer:
            listed = _names(answer.read(4 * 1024**2))
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            return problem("model", f"{said}: it refuses the key (status {error.code})", _KEY_HINT)
        hint = "It may serve all the same: `archon run` tells."
        return warning("model", f"{said}: it doesn't list its models (status {error.code})", hint)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        return problem("model", f"{said}: it can't be reached ({reason})", "Is OPENAI_BASE_URL right, and is it up?")
    if listed and name not in listed:
        return warning("model", f"{said}: it answers, but lists no model {name}", "ARCHON_MODEL names another.")
    return ok("model", f"{said}: it answers")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """What moved is said, not followed: the key is for this endpoint."""

    def redirect_request(self, *_: Any) -> None:
        """Refused."""
        return


def _names(content: bytes) -> set[str]:
    try:
        return {str(one["id"]) for one in json.loads(content)["data"]}
    except (ValueError, KeyError, TypeError):
        return set()


def _shown(endpoint: str) -> str:
    """Without what may stand before the host: a name and a password."""
    try:
        parts = urlsplit(endpoint)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{host}:{parts.port}" if parts.port else str(host)
    except ValueError:
        return "an address that is none"
