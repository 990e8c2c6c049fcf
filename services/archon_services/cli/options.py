"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

LAST: Final = "last"
"""The name of the newest run wherever a run id is expected."""

RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help=f"A run id, a unique prefix of a recent one, or `{LAST}` for the newest run."),
]
RunOrFileArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN|FILE",
        help=f"A run id, a unique prefix of a recent one, `{LAST}` for the newest run, or a file of `archon export`.",
    ),
]
OrchestratorOption = Annotated[
    str,
    typer.Option(
        "--orchestrator",
        envvar="ARCHON_ORCHESTRATOR",
        metavar="HOST:PORT",
        help="The orchestrator; by default the one of the context in use, or of the mesh in ARCHON_HOME.",
    ),
]
RegistryOption = Annotated[
    str,
    typer.Option(
        "--registry",
        envvar="ARCHON_REGISTRY",
        metavar="HOST:PORT",
        help="The registry; by default the one of the context in use, or of the mesh in ARCHON_HOME.",
    ),
]
AgentModelOption = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="`offline`, `openai/NAME` or `anthropic/NAME`, instead of the model of the file and of ARCHON_MODEL.",
    ),
]
UserOption = Annotated[
    str,
    typer.Option(
        "--user", metavar="NAME", help="The user whom agents remember: whose long-term memory they read and write."
    ),
]
MetadataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata", metavar="KEY=VALUE", help="A pair that the run carries, and that its agents can read. Repeatable."
    ),
]
IdentityOption = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="NAME",
        help="The identity that answers, for questions with approvers, or rates; "
        "needs a token that may act for others.",
    ),
]
BreakOption = Annotated[
    list[str] | None,
    typer.Option(
        "--break-before",
        metavar="POINT",
        help="Hold the run before this point, until `archon debug` lets it go on: tool:NAME, model, model:ROLE, "
        "task:ROLE or step:NAME; names are patterns. Repeatable.",
    ),
]
TaskOption = Annotated[
    str,
    typer.Option(
        "--task", metavar="TASK", help="The task of the call: a role, a step, or the beginning of the id of a task."
    ),
]
CallOption = Annotated[
    int | None,
    typer.Option("--call", min=1, metavar="N", help="The model call with this number in its task, from 1."),
]
WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Show the current state every 2 seconds, until Ctrl-C.")
]
SaveOption = Annotated[
    Path | None, typer.Option("--save", metavar="FILE", help="Write to this file instead of printing.")
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key", metavar="FILE", help="The public keys (PEM); default: `audit.pub.pem` of the mesh in ARCHON_HOME."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonEventsOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per event and nothing else.")]
