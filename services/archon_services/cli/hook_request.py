"""The run of a new hook, its secret, and the URL of hooks, as the command line gives them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from archon_services.cli.contexts import active_context, find_home
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.target.mesh import find_target
from archon_services.cli.text_input import read_goal

if TYPE_CHECKING:
    from archon_mesh.workflows import Workflow
    from archon_services.cli.follow_run import RunRequest

_GIVE_SECRET: Final = "--secret-file FILE reads it, and - reads standard input."


def hook_request(
    options: RunRequest,
    goal: str,
    workflow: str,
    parameters: Sequence[str],
    orchestrator: str,
    *,
    load: Callable[[str], Workflow],
) -> RunRequest:
    """Returns the run of a goal or a workflow, which `load` reads, with their templates. Raises CliError."""
    if not workflow:
        if parameters:
            raise CliError("-p is a parameter of --workflow", code=USAGE)
        return replace(options, goal=read_goal(goal, [], "goal", hint="Pass it as an argument after the name."))
    if goal or options.strategy:
        raise CliError("--workflow excludes a goal and --strategy", code=USAGE)
    from archon_services.cli.run_workflow import prepared_for, workflow_request

    find_target(orchestrator)
    template = load(workflow)
    request = workflow_request(template, _arguments(template, parameters), options)
    return asyncio.run(prepared_for(request, template, orchestrator))


def _arguments(template: Workflow, given: Sequence[str]) -> dict[str, Any]:
    """Returns the values of the parameters. Those with a template are checked at each delivery. Raises CliError."""
    from archon_mesh.workflows import checked_arguments
    from archon_mesh.workflows.parameters import from_text

    plain: dict[str, Any] = {}
    filled: dict[str, str] = {}
    for pair in given:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise CliError(f"invalid parameter {pair!r}: expected KEY=VALUE, such as city=Rome", code=USAGE)
        if key in plain or key in filled:
            raise CliError(f"-p has {key} twice", code=USAGE)
        parameter = template.parameters.get(key)
        if parameter is not None and ("{{" in text or "{%" in text):
            filled[key] = text
        else:
            plain[key] = text if parameter is None else from_text(parameter, text)
    others = {name: each for name, each in template.parameters.items() if name not in filled}
    return {**checked_arguments(template.reference, others, plain), **filled}


def read_secret(file: str, *, needed: bool) -> str:
    """Returns the secret in a file, in standard input if it is `-`; without a file the one that a person types if it is
    `needed`, else an empty text. It is no option itself: other users of the machine see those. Raises CliError."""
    if file == "-":
        return sys.stdin.read().strip()
    if file:
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(f"cannot read {file}: {error}", code=USAGE) from None
    if not needed:
        return ""
    if not sys.stdin.isatty():
        raise CliError("the sender makes the secret of such a hook", hint=_GIVE_SECRET, code=USAGE)
    from getpass import getpass

    return getpass("secret> ", stream=sys.stderr).strip()


def base_url() -> str:
    """Returns the URL of the HTTP gateway: ARCHON_PUBLIC_URL, or the one of the mesh of this machine; empty if it is
    not known."""
    from archon_services.local_mesh.browser_login import gateway_url
    from archon_services.local_mesh.state import live_state

    if public := os.environ.get("ARCHON_PUBLIC_URL", "").rstrip("/"):
        return public
    state = live_state(find_home()) if active_context() is None else None
    return gateway_url(state) if state is not None else ""
