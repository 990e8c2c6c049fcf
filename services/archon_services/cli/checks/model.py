"""The model that agents would use. Its API key is never printed, and sent to its own endpoint only."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from typing_extensions import override

from archon.loopback import is_loopback
from archon_services.cli.checks.finding import Finding, ok, problem, warning

if TYPE_CHECKING:
    from archon_services.local_mesh import MeshState

_TIMEOUT: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Provider:
    """The prefix of a provider's variables, its own address, the path from it to the list of its models, headers of the
    request for it, and the header with the key."""

    variables: str
    endpoint: str
    models: str
    headers: Mapping[str, str] = field(default_factory=dict)
    key_header: str = "Authorization"
    needs_key: bool = False

    @property
    def key_hint(self) -> str:
        if self.needs_key:
            return f"Set {self.variables}_API_KEY."
        return f"Set {self.variables}_API_KEY, or {self.variables}_BASE_URL to a server that needs no key."


_OPENAI: Final = _Provider("OPENAI", "https://api.openai.com/v1", "/models")
_PROVIDERS: Final = {
    "anthropic": _Provider("ANTHROPIC", "https://api.anthropic.com", "/v1/models", {"anthropic-version": "2023-06-01"}),
    "google": _Provider(
        "GOOGLE",
        "https://generativelanguage.googleapis.com",
        "/v1beta/models?pageSize=1000",
        key_header="x-goog-api-key",
        needs_key=True,
    ),
    "mistral": _Provider("MISTRAL", "https://api.mistral.ai", "/v1/models", needs_key=True),
}


async def check_models(state: MeshState | None, environment: Mapping[str, str], *, online: bool) -> list[Finding]:
    """Checks the models of the agents of a running mesh; without one, the environment's model."""
    specs = state.models if state is not None and state.models else (environment.get("ARCHON_MODEL") or "offline",)
    return [finding for spec in specs for finding in await check_model(spec, environment, online=online)]


async def check_model(spec: str, environment: Mapping[str, str], *, online: bool) -> list[Finding]:
    """Checks that each model of `spec` exists and has the key it needs; with `online`, that its endpoint answers."""
    names = [name.strip() for name in spec.split(",")]
    return [finding for name in names for finding in await _check_name(name, environment, online=online)]


async def _check_name(spec: str, environment: Mapping[str, str], *, online: bool) -> list[Finding]:
    from archon.errors import FailedPrecondition, InvalidArgument, NotFound, Unauthenticated
    from archon_mesh.llm import create_model

    kind = spec.removeprefix("text/").partition("/")[0]
    provider = _PROVIDERS.get(kind, _OPENAI)
    try:
        model = create_model(spec)
    except (InvalidArgument, NotFound) as error:
        if "unknown model" in str(error):
            hint = "Set ARCHON_MODEL to `offline`, `openai/NAME`, `anthropic/NAME` or `google/NAME`."
            return [problem("model", f"unknown model {spec!r}", hint)]
        if (prices := environment.get("ARCHON_PRICES")) and prices in str(error):
            return [problem("model", f"{spec} has no usable prices: {error}", "Correct the file of ARCHON_PRICES.")]
        if kind == "bedrock":
            return [problem("model", f"{spec}: {error}", "Set AWS_REGION, and the credentials of AWS.")]
        variables = f"{provider.variables}_BASE_URL" + (", OPENAI_SERVER, OPENAI_MEDIA" if provider is _OPENAI else "")
        hint = f"Correct {variables} or the proxy that the message names."
        return [problem("model", f"{spec}: {error}", hint)]
    except Unauthenticated as error:
        hint = str(error) if environment.get(f"{provider.variables}_API_KEY") else provider.key_hint
        return [problem("model", f"{spec} has no usable key", hint)]
    except FailedPrecondition as error:
        extra = error.metadata.get("extra", "")
        hint = f"Run `pip install 'archon-mesh[{extra}]'`."
        return [problem("model", f"{spec} needs a package that is not installed", hint)]
    await model.close()
    if spec == "offline":
        unused = "; OPENAI_API_KEY is set, but not used" if environment.get("OPENAI_API_KEY") else ""
        return [ok("model", f"offline{unused}")]
    if kind == "bedrock":
        return [ok("model", f"{spec}, with what the tools of AWS find; not contacted")]
    endpoint = environment.get(f"{provider.variables}_BASE_URL") or provider.endpoint
    names = [f"{provider.variables}_API_KEY", *(["GEMINI_API_KEY"] if kind == "google" else [])]
    key = next((value for name in names if (value := (environment.get(name) or "").strip())), "")
    summary = f"{spec} at {_host(endpoint)}, {'with' if key else 'without'} a key"
    if not online:
        return [ok("model", f"{summary}; not contacted without --online")]
    return [_query_endpoint(model.model, provider, endpoint, key, summary)]


def _query_endpoint(name: str, provider: _Provider, endpoint: str, key: str, summary: str) -> Finding:
    try:
        request = urllib.request.Request(endpoint.rstrip("/") + provider.models)
        for header, value in provider.headers.items():
            request.add_header(header, value)
        if key:
            is_bearer = provider.key_header == "Authorization"
            request.add_unredirected_header(provider.key_header, f"Bearer {key}" if is_bearer else key)
        direct = [urllib.request.ProxyHandler({})] if is_loopback(urlsplit(endpoint).hostname or "") else []
        with urllib.request.build_opener(_NoRedirects, *direct).open(request, timeout=_TIMEOUT) as response:
            names = _model_names(response.read(4 * 1024**2))
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            return problem("model", f"{summary}: the key is rejected (status {error.code})", provider.key_hint)
        hint = "The model may work nevertheless: try `archon run`."
        return warning("model", f"{summary}: the endpoint does not list its models (status {error.code})", hint)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        hint = f"Check {provider.variables}_BASE_URL and the network."
        return problem("model", f"{summary}: the endpoint is unreachable ({reason})", hint)
    if names and name not in names:
        hint = "Set ARCHON_MODEL to a model of this endpoint."
        return warning("model", f"{summary}: the endpoint answers, but has no model {name}", hint)
    return ok("model", f"{summary}: the endpoint answers")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: the key is for the configured endpoint only."""

    @override
    def redirect_request(self, *_: Any) -> None:
        return


def _model_names(content: bytes) -> set[str]:
    try:
        data = json.loads(content)
        if "models" in data:  # Google's
            return {str(model["name"]).removeprefix("models/") for model in data["models"]}
        return {str(model["id"]) for model in data["data"]}
    except (ValueError, KeyError, TypeError):
        return set()


def _host(endpoint: str) -> str:
    """Returns host and port without the credentials that the URL may contain."""
    try:
        parts = urlsplit(endpoint)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{host}:{parts.port}" if parts.port else str(host)
    except ValueError:
        return "an invalid address"
