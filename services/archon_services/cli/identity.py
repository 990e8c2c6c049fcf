"""The identity and the tokens with which commands call a mesh."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from archon_services.cli.contexts import active_context, find_home
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.target.mesh import target_or_none


@contextmanager
def calling_as(identity: str, orchestrator: str) -> Iterator[None]:
    """Has calls within the block made as another identity, for which the token of the caller must allow it; empty
    changes nothing. `orchestrator` is the option of the command. Raises CliError if there is no token."""
    if not identity:
        yield
        return
    from archon import context
    from archon.security.credentials import IDENTITY_KEY, credentials_for

    target = target_or_none(orchestrator, find_home())
    with context.serving(replace(context.current(), identity=identity)):
        presented = credentials_for(target.orchestrator, "services").metadata() if target is not None else ()
        if target is not None and IDENTITY_KEY not in dict(presented):
            raise CliError(
                "--as needs a token of the mesh that may act for others: one of kind admin",
                hint="Set ARCHON_TOKEN to what `archon token` prints in the folder of the mesh.",
                code=USAGE,
            )
        yield


def present_tokens_of_contexts() -> None:
    """Has calls present the token of the context in use, to its services alone. Idempotent."""
    from archon.security import credentials, mesh_folder

    if _folder_of_context not in mesh_folder.chosen:
        mesh_folder.chosen.append(_folder_of_context)
        credentials.chosen.append(_token_file_of_context)


def _folder_of_context() -> Path | None:
    active = active_context()
    return Path(active[1].home) if active is not None and active[1].home else None


def _token_file_of_context(target: str) -> Path | None:
    active = active_context()
    if active is None or not active[1].token_file or target not in asdict(active[1]).values():
        return None
    return Path(active[1].token_file)
