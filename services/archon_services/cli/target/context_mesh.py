"""Resolves the mesh of a named context, which is another one than the mesh of the command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from archon.errors import Unavailable
from archon.security.credentials import Credentials, TokenFile, Tokens
from archon.security.mesh_folder import MeshFolder
from archon_services.cli.contexts import Context, find_home, read_contexts
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.login.credentials import login_tokens
from archon_services.cli.login.stored import login_file
from archon_services.cli.target.mesh import checked_address, orchestrator_beside
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.state import live_state


@dataclass(frozen=True, slots=True)
class ContextMesh:
    """The mesh of a context."""

    name: str
    context: Context

    def orchestrator(self) -> str:
        """Returns the present address of its orchestrator, host:port. Raises Unavailable if it has none now."""
        if self.context.orchestrator:
            return self.context.orchestrator
        state = live_state(Home(Path(self.context.home)))
        address = state.address("orchestrator") if state is not None else ""
        if not address:
            raise Unavailable(f"no mesh is running in {self.context.home}")
        return address

    def credentials(self, token: str) -> Credentials | None:
        """Returns the credentials of calls to it: the given token, else the login or the token of the context; None
        without any. Raises CliError if the login has expired."""
        if token:
            return Tokens(token)
        if login_file(self.name).exists() and self.context.orchestrator:
            login = login_tokens(self.name, self.context.orchestrator, "services", for_others=False)
            if login is not None:
                return login
        if self.context.token_file:
            return Tokens(TokenFile(Path(self.context.token_file)))
        return Tokens(TokenFile(MeshFolder(Path(self.context.home)).token_file)) if self.context.home else None

    def registry(self) -> str:
        """Returns the present address of its registry; empty if that is unknown."""
        if self.context.registry or not self.context.home:
            return self.context.registry
        state = live_state(Home(Path(self.context.home)))
        return state.registry if state is not None else ""


def context_mesh(name: str, own_registry: str) -> ContextMesh:
    """Returns the mesh of a context. Raises CliError if there is no such context, it does not say where its
    orchestrator is, or it is the mesh whose registry is at `own_registry`."""
    contexts = read_contexts().contexts
    if name not in contexts:
        known = f"The contexts are {', '.join(sorted(contexts))}." if contexts else "There are no contexts."
        hint = f"{known} archon context set {name} --orchestrator HOST:PORT"
        raise CliError(f"unknown context {name!r}", hint=hint, code=USAGE)
    context = contexts[name]
    if not context.orchestrator and not context.home:
        hint = f"archon context set {name} --orchestrator HOST:PORT"
        raise CliError(f"the context {name} has no address of the orchestrator", hint=hint, code=USAGE)
    if context.orchestrator:
        checked_address(context.orchestrator)
    mesh = ContextMesh(name, context)
    if _is_own(mesh, own_registry):
        hint = "A mesh has no role for its own runs; name the context of another mesh."
        raise CliError(f"the context {name} is this mesh itself", hint=hint, code=USAGE)
    return mesh


def _is_own(mesh: ContextMesh, own_registry: str) -> bool:
    if mesh.registry() == own_registry:
        return True
    if (own := orchestrator_beside(own_registry)) and mesh.context.orchestrator == own:
        return True
    state = live_state(home := find_home())
    is_at_home = state is not None and state.registry == own_registry
    return is_at_home and bool(mesh.context.home) and Path(mesh.context.home).resolve() == home.root.resolve()
