"""The identity and the tokens with which commands call a mesh."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from archon.security.credentials import Credentials, TokenFile, Tokens
from archon.security.tokens import Audience
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
    """Has calls present the login or the token of the context in use, to its services alone. Idempotent."""
    from archon.security import credentials, mesh_folder

    if _folder_of_context not in mesh_folder.chosen:
        mesh_folder.chosen.append(_folder_of_context)
        credentials.chosen.append(_tokens_of_context)


def _folder_of_context() -> Path | None:
    active = active_context()
    return Path(active[1].home) if active is not None and active[1].home else None


def _tokens_of_context(target: str, audience: Audience) -> Credentials | None:
    active = active_context()
    if active is None or not active[1].serves(target):
        return None
    from archon_services.cli.login.stored import login_file

    name, values = active
    if login_file(name).exists():
        from archon_services.cli.login.credentials import login_tokens

        if (login := login_tokens(name, target, audience)) is not None:
            return login
    return Tokens(TokenFile(Path(values.token_file)), audience) if values.token_file else None
