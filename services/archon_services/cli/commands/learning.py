"""`archon learning`: the learned weights of the tenant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from archon_services.cli.errors import NOT_FOUND, CliError
from archon_services.cli.identity import calling_as
from archon_services.cli.options import IdentityOption, JsonOption, OrchestratorOption
from archon_services.cli.render.output import print_json, print_table
from archon_services.cli.target.mesh import call_orchestrator
from archon_services.reports.texts import one_line, strip_controls

if TYPE_CHECKING:
    from archon.types import LearnedVersion

learning = typer.Typer(no_args_is_help=True)

LISTED: Final = 200
"""Versions that are listed."""

COMMENT_SHOWN: Final = 40
"""Characters of a comment in the list."""

_HISTORY: Final = ("version", "origin", "time", "changed", "by", "comment")
_WEIGHTS: Final = ("kind", "role", "name", "weight", "before", "outcomes", "score")

_HINT: Final = "`archon learning history` lists the versions."

VersionArgument = Annotated[
    int, typer.Argument(metavar="VERSION", min=1, help="A number of `archon learning history`.")
]
CommentOption = Annotated[str, typer.Option(metavar="TEXT", help="A comment, at most 4,096 characters.")]


@learning.callback()
def _group() -> None:
    """Show, approve and revert the weights that the mesh has learned of outcomes."""


@learning.command()
def show(
    version: Annotated[
        int, typer.Argument(metavar="[VERSION]", min=0, help="A number of `archon learning history`.")
    ] = 0,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Show the weights in use, or of a version.

    Prints the outcomes that each weight follows from.
    """
    versions = _versions(orchestrator)
    waiting = next((each for each in versions if each.origin == "proposed" and each is versions[0]), None)
    shown = next((each for each in versions if (each.version == version if version else each.in_use)), None)
    if shown is None:
        if version:
            raise CliError(f"there is no version {version} of the learned weights", hint=_HINT, code=NOT_FOUND)
        if as_json:
            print_json(None)
        else:
            print("All weights are 1: nothing has been learned.")
    elif as_json:
        print_json(_values(shown))
    else:
        use = "in use" if shown.in_use else "not in use"
        print(f"Version {shown.version}, {_origin(shown)} at {_time(shown)}, {use}\n")
        print_table(_WEIGHTS, [_weight_row(each) for each in shown.weights], right=range(3, 7), folded=(1, 2))
    if waiting is not None and not as_json and shown is not waiting:
        print(f"\nVersion {waiting.version} waits for a person.\n{decision_commands(waiting.version)}")


@learning.command()
def history(as_json: JsonOption = False, orchestrator: OrchestratorOption = "") -> None:
    """List the versions, the newest first.

    The version in use has a star.
    """
    versions = _versions(orchestrator)
    if as_json:
        print_json([_values(version) for version in versions])
    elif not versions:
        print("All weights are 1: nothing has been learned.")
    else:
        print_table(_HISTORY, [_history_row(version) for version in versions], right=(3,), folded=(5,))


@learning.command()
def approve(
    version: VersionArgument,
    comment: CommentOption = "",
    identity: IdentityOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Approve the proposed version.

    New runs use its weights from then on.
    """
    _decide(version, comment, identity, orchestrator, approve=True)


@learning.command()
def reject(
    version: VersionArgument,
    comment: CommentOption = "",
    identity: IdentityOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Reject the proposed version.

    The weights stay, and the outcomes behind the proposal are dropped.
    """
    _decide(version, comment, identity, orchestrator, approve=False)


@learning.command()
def revert(
    version: Annotated[
        int,
        typer.Argument(metavar="VERSION", min=0, help="A number of `archon learning history`; 0: all weights are 1."),
    ],
    comment: CommentOption = "",
    identity: IdentityOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Go back to the weights of a version.

    Weights and evidence are exactly as of that version; a proposed version is rejected.
    """
    with calling_as(identity, orchestrator), _version_hint():
        stored = call_orchestrator(orchestrator, lambda client: client.revert_learned(version, comment=comment))
    print(f"Version {stored.version} has the weights of version {version}, and is in use.")


def _decide(version: int, comment: str, identity: str, orchestrator: str, *, approve: bool) -> None:
    with calling_as(identity, orchestrator), _version_hint():
        stored = call_orchestrator(
            orchestrator, lambda client: client.decide_learned(version, approve=approve, comment=comment)
        )
    done = "Approved" if approve else "Rejected"
    print(f"{done} version {version}; version {stored.version} is in use.")


@contextmanager
def _version_hint() -> Iterator[None]:
    """Adds a hint to the errors about the number of a version."""
    from archon.errors import LearnedVersionDecided, LearningOff, UnknownLearnedVersion

    try:
        yield
    except UnknownLearnedVersion as error:
        raise CliError(error.message, hint=_HINT, code=NOT_FOUND) from None
    except LearnedVersionDecided as error:
        raise CliError(error.message, hint=_HINT) from None
    except LearningOff as error:
        raise CliError(error.message, hint="Start the orchestrators with ARCHON_LEARNING=on.") from None


def decision_commands(version: int) -> str:
    """Returns the commands that decide about a proposed version."""
    return f"`archon learning show {version}` shows it, `approve {version}` and `reject {version}` decide."


def _versions(orchestrator: str) -> list[LearnedVersion]:
    return call_orchestrator(orchestrator, lambda client: client.learned_versions(limit=LISTED))


def _origin(version: LearnedVersion) -> str:
    if not version.identity:
        return version.origin
    return f"{version.origin} {'to' if version.origin == 'reverted' else 'version'} {version.of_version}"


def _time(version: LearnedVersion) -> str:
    from archon_services.reports.texts import local_time

    return local_time(version.create_time)


def _history_row(version: LearnedVersion) -> tuple[str, ...]:
    changed = sum(1 for each in version.weights if each.weight != each.before)
    return (
        f"{version.version}{'*' if version.in_use else ''}",
        _origin(version),
        _time(version),
        str(changed),
        strip_controls(version.identity),
        one_line(version.comment, COMMENT_SHOWN),
    )


def _weight_row(each: Any) -> tuple[str, ...]:
    # The id of an instance begins with its role, which has a column.
    name = each.name.removeprefix(f"{each.role}-") if each.kind == "instance" else each.name
    names = (each.kind, strip_controls(each.role), strip_controls(name))
    return (
        *names,
        f"{each.weight:.2f}",
        f"{each.before:.2f}",
        f"{each.outcomes:.1f}",
        f"{each.score:.2f}" if each.outcomes else "-",
    )


def _values(version: LearnedVersion) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "version": version.version,
        "origin": version.origin,
        "create_time": version.create_time,
        "of_version": version.of_version,
        "identity": version.identity,
        "comment": version.comment,
        "in_use": version.in_use,
        "weights": [asdict(each) for each in version.weights],
    }
