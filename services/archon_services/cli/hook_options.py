"""Options of commands about hooks: the deliveries that a hook takes, and its secret."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.when import seconds_of


class SchemeName(StrEnum):
    """The schemes of signatures."""

    STANDARD = "standard"
    GITHUB = "github"
    STRIPE = "stripe"
    SLACK = "slack"


HookArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of a hook.")]
HookGoalArgument = Annotated[
    str, typer.Argument(metavar="[GOAL]", help="The goal, such as 'Review {{ body.url }}'; - reads standard input.")
]
SchemeOption = Annotated[SchemeName, typer.Option(help="How the sender signs.")]
SecretOption = Annotated[
    str, typer.Option("--secret-file", metavar="FILE", help="The secret that the sender gives; - for standard input.")
]
HookParameterOption = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="KEY=VALUE", help="Of the workflow, such as city='{{ body.city }}'."),
]
EventOption = Annotated[
    list[str] | None,
    typer.Option(
        "--event", metavar="NAME", help="An event that submits a run, such as push; by default all. Repeatable."
    ),
]
AttachOption = Annotated[bool, typer.Option("--attach-body", help="Make the body a part of the goal.")]
RateOption = Annotated[
    int | None,
    typer.Option("--max-per-minute", min=0, max=60_000, metavar="N", help="Deliveries an orchestrator takes; 0: 600."),
]
ReplayOption = Annotated[
    str,
    typer.Option(
        "--replay-window",
        metavar="TIME",
        help="GitHub: for how long the same body is the same delivery; by default 1d.",
    ),
]
HookSessionOption = Annotated[
    str | None,
    typer.Option(
        "--session", metavar="ID", help="The session whose shared memory the runs use, such as pr-{{ body.id }}."
    ),
]


def replay_window(text: str, scheme: SchemeName) -> float | None:
    """Returns the seconds of --replay-window, None without one. Raises CliError."""
    if text and scheme is not SchemeName.GITHUB:
        raise CliError("--replay-window is for --scheme github, which signs no id", code=USAGE)
    return seconds_of(text, "--replay-window") if text else None
