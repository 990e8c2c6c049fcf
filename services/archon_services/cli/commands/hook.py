"""`archon hook`: runs that signed webhooks submit at the HTTP gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon_services.cli.errors import UNREACHABLE, USAGE, CliError
from archon_services.cli.hook_options import (
    AttachOption,
    EventOption,
    HookArgument,
    HookGoalArgument,
    HookParameterOption,
    HookSessionOption,
    RateOption,
    ReplayOption,
    SchemeName,
    SchemeOption,
    SecretOption,
    replay_window,
)
from archon_services.cli.hook_request import base_url, hook_request, read_secret
from archon_services.cli.options import JsonOption, MetadataOption, OrchestratorOption, UserOption
from archon_services.cli.render.hook_text import (
    delivery_values,
    print_hook,
    print_hooks,
    print_secret,
    values,
)
from archon_services.cli.render.output import print_json
from archon_services.cli.run_states import run_states
from archon_services.cli.schedule_options import NoteOption
from archon_services.cli.trigger_options import (
    CostOption,
    EtagOption,
    RoleOption,
    StrategyOption,
    TimeoutOption,
    TokensOption,
    WorkflowOption,
    call_for,
    check_goal,
    run_changes,
    run_request,
    workflow_changes,
)
from archon_services.cli.when import seconds_of
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    from archon.client import Client
    from archon.types import Hook, HookDelivery

hook = typer.Typer(no_args_is_help=True)

SHOWN: Final = 10
"""Deliveries that `archon hook show` prints."""

SECONDS: Final = 15.0
"""The time of a test delivery."""


@hook.callback()
def _group() -> None:
    """Submit runs for signed webhooks: POST /hooks/NAME at the HTTP gateway."""


@hook.command()
def add(
    name: HookArgument,
    goal: HookGoalArgument = "",
    scheme: SchemeOption = SchemeName.STANDARD,
    secret_file: SecretOption = "",
    workflow: WorkflowOption = "",
    parameter: HookParameterOption = None,
    event: EventOption = None,
    attach_body: AttachOption = False,
    max_per_minute: RateOption = None,
    replay: ReplayOption = "",
    note: NoteOption = None,
    role: RoleOption = None,
    strategy: StrategyOption = None,
    session: HookSessionOption = None,
    timeout: TimeoutOption = None,
    budget_tokens: TokensOption = None,
    budget_cost: CostOption = None,
    user: UserOption = "",
    metadata: MetadataOption = None,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Add a hook, and print its URL and its secret.

    Its runs have the rights that you have at each delivery.
    """
    from archon_services.cli.commands.workflow import load_template

    window = replay_window(replay, scheme)
    options = run_request(
        role=role, strategy=strategy, session=session or "", timeout=timeout, tokens=budget_tokens, cost=budget_cost,
        user=user, metadata=metadata,
    )  # fmt: skip
    if goal == "-" and secret_file == "-":
        raise CliError("standard input has the goal or the secret, not both", code=USAGE)
    request = hook_request(options, goal, workflow, parameter or [], orchestrator, load=load_template)
    given = read_secret(secret_file, needed=scheme in (SchemeName.STRIPE, SchemeName.SLACK))
    run: Any = request.options()
    added, secret = call_for(
        "hook",
        orchestrator,
        lambda client: client.hooks.create(
            name, request.goal, scheme=scheme.value, secret=given, run=run, attach_body=attach_body,
            events=event or (), max_per_minute=max_per_minute or 0, replay_window=window, note=note or "",
        ),
    )  # fmt: skip
    _print_added(added, "" if given else secret, as_json=as_json)


def _print_added(added: Hook, secret: str, *, as_json: bool) -> None:
    """Prints a hook with its secret, unless the caller has given it."""
    if as_json:
        print_json({**values(added), **({"secret": secret} if secret else {})})
        return
    print_hook(added, base_url(), [], {})
    if secret:
        print_secret(added.name, secret)


@hook.command("list")
def list_(as_json: JsonOption = False, orchestrator: OrchestratorOption = "") -> None:
    """List the hooks."""
    hooks = call_for("hook", orchestrator, lambda client: client.hooks.list())
    if as_json:
        print_json([values(each) for each in hooks])
    else:
        print_hooks(hooks)


@hook.command()
def show(
    name: HookArgument,
    deliveries: Annotated[
        int, typer.Option(min=0, max=1_000, metavar="N", help="The number of deliveries to show.")
    ] = SHOWN,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Show a hook, its URL and its last deliveries with the states of their runs.

    A delivery is listed once its signature was verified, within a second.
    """

    async def read(client: Client) -> tuple[Hook, list[HookDelivery], dict[str, str]]:
        found = await client.hooks.get(name)
        last: list[HookDelivery] = []
        if deliveries:
            async for delivery in client.hooks.deliveries(name):
                last.append(delivery)
                if len(last) >= deliveries:
                    break
        return found, last, await run_states(client, [each.run_id for each in last])

    found, last, states = call_for("hook", orchestrator, read)
    if as_json:
        print_json({**values(found), "deliveries": [delivery_values(each, states) for each in last]})
    else:
        print_hook(found, base_url(), last, states)


@hook.command()
def edit(
    name: HookArgument,
    goal: Annotated[str, typer.Option(metavar="TEXT", help="Another goal.")] = "",
    workflow: WorkflowOption = "",
    parameter: HookParameterOption = None,
    event: EventOption = None,
    all_events: Annotated[bool, typer.Option("--all-events", help="All events submit runs again.")] = False,
    attach_body: Annotated[
        bool | None, typer.Option("--attach-body/--no-attach-body", help="Whether the body is a part of the goal.")
    ] = None,
    max_per_minute: RateOption = None,
    replay: ReplayOption = "",
    note: NoteOption = None,
    role: RoleOption = None,
    session: HookSessionOption = None,
    timeout: TimeoutOption = None,
    budget_tokens: TokensOption = None,
    budget_cost: CostOption = None,
    reseal: Annotated[
        bool,
        typer.Option("--reseal", help="Seal its secrets with the first key of ARCHON_HOOK_KEY; they stay the same."),
    ] = False,
    etag: EtagOption = "",
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Change the given options of a hook.

    Deliveries that came before keep their runs. If you change its goal, events or runs, the next runs have your rights.
    """
    from archon_services.cli.commands.workflow import load_template

    if event and all_events:
        raise CliError("--event and --all-events exclude each other", code=USAGE)
    run: Any = run_changes(role=role, session=session, timeout=timeout, tokens=budget_tokens, cost=budget_cost)
    planned = None
    if workflow or parameter:
        planned = hook_request(
            run_request(role=role), goal, workflow, parameter or [], orchestrator, load=load_template
        )
    given = {
        "goal": planned.goal if planned is not None else goal or None,
        "run": run or None,
        "events": () if all_events else event or None,
        "attach_body": attach_body,
        "max_per_minute": max_per_minute,
        "replay_window": seconds_of(replay, "--replay-window") if replay else None,
        "note": note,
    }
    changes: Any = {key: value for key, value in given.items() if value is not None}
    if not changes and not reseal:
        raise CliError("nothing to change: give an option", code=USAGE)

    async def change(client: Client) -> Hook:
        if planned is not None:
            before = await client.hooks.get(name)
            options = {**changes, "run": {**run, **workflow_changes(planned, before.proto.run)}}
            return await client.hooks.update(name, reseal=reseal, etag=etag or before.etag, **options)
        if goal:
            check_goal((await client.hooks.get(name)).proto.run)
        return await client.hooks.update(name, reseal=reseal, etag=etag, **changes)

    edited = call_for("hook", orchestrator, change)
    _print_added(edited, "", as_json=as_json)


@hook.command()
def rotate(
    name: HookArgument,
    secret_file: SecretOption = "",
    overlap: Annotated[
        str, typer.Option(metavar="TIME", help="How long the secret before stays valid; by default 1d, 0s ends it.")
    ] = "",
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Give a hook another secret.

    Of Stripe and Slack, give the one that they show: --secret-file.
    """
    given = read_secret(secret_file, needed=False)
    seconds = seconds_of(overlap, "--overlap") if overlap else None
    rotated, secret = call_for(
        "hook", orchestrator, lambda client: client.hooks.rotate(name, secret=given, overlap=seconds)
    )
    _print_added(rotated, "" if given else secret, as_json=as_json)


@hook.command()
def pause(
    name: HookArgument,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for people.")] = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Pause a hook.

    Senders have to try their deliveries again later; runs in progress continue.
    """
    call_for("hook", orchestrator, lambda client: client.hooks.pause(name, reason))
    print(f"Paused {name}.")


@hook.command()
def resume(name: HookArgument, orchestrator: OrchestratorOption = "") -> None:
    """Resume a hook."""
    call_for("hook", orchestrator, lambda client: client.hooks.resume(name))
    print(f"Resumed {name}.")


@hook.command("test")
def send_test(
    name: HookArgument,
    body: Annotated[str, typer.Option(metavar="JSON", help="The body; - reads standard input.")] = "{}",
    event: Annotated[str, typer.Option(metavar="NAME", help="The event of GitHub, such as push.")] = "",
    url: Annotated[
        str,
        typer.Option(metavar="URL", help="The HTTP gateway; by default ARCHON_PUBLIC_URL, or that of this machine."),
    ] = "",
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Send a hook a signed request, as its sender does.

    It submits a run. The orchestrator signs it: no secret is needed.
    """
    import sys

    content = sys.stdin.buffer.read() if body == "-" else body.encode()
    base = url.rstrip("/") or base_url()
    if not base:
        raise CliError("the URL of the HTTP gateway is not known", hint="--url gives it.", code=USAGE)
    path, headers = call_for("hook", orchestrator, lambda client: client.hooks.sign(name, content, event=event))
    code, answer = _call_gateway(f"{base}{path}", content, headers)
    if as_json:
        print_json({"status": code, "answer": answer})
    else:
        _print_answer(code, answer)
    if code >= 300:
        raise CliError(f"the HTTP gateway refused the delivery: {code}")


def _print_answer(code: int, answer: Any) -> None:
    if not isinstance(answer, dict):
        print(f"{code}: {strip_controls(str(answer)[:1_000])}")
    elif run := answer.get("run"):
        print(f"{code} {answer.get('state')}: `archon watch {strip_controls(str(run))}` follows its run.")
    else:
        print(f"{code} {answer.get('state') or strip_controls(str(answer.get('message', ''))[:1_000])}")


def _call_gateway(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    """Posts a delivery, and returns the status and the answer. Raises CliError if no gateway answers."""
    import json

    import httpx2

    try:
        with httpx2.Client(timeout=SECONDS, verify=_certificates()) as client:
            response = client.post(url, content=body, headers=headers)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise CliError(f"no answer of {url}: {error}", code=UNREACHABLE) from None
    try:
        return response.status_code, response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        return response.status_code, response.text


def _certificates() -> Any:
    """Returns the TLS context: with the authorities of the system and of the mesh of this machine."""
    import httpx2

    from archon_services.cli.contexts import find_home

    context = httpx2.create_ssl_context()
    authority = find_home().folder.user_certificate / "ca.crt"
    if authority.is_file():
        context.load_verify_locations(authority)
    return context


@hook.command()
def remove(name: HookArgument, orchestrator: OrchestratorOption = "") -> None:
    """Remove a hook and its list of deliveries.

    Its runs go on.
    """
    call_for("hook", orchestrator, lambda client: client.hooks.delete(name))
    print(f"Removed {name}.")
