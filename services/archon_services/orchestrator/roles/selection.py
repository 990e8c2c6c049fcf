"""Who lives and who depends on whom, as the registry said last. While it can't be heard, that stands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from archon.errors import (
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    Unavailable,
    UnknownCapability,
    UnknownRole,
)
from archon.registry import Graph, PropagationPolicy, Registration, RegistryChange
from archon_mesh.core.run.types import Edge, Requirement, Target
from archon_services.common.versions import version_key
from archon_services.orchestrator.roles.membership import Membership

_POLICIES = {policy: number for number, policy in enumerate(PropagationPolicy, 1)}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a run is made of: the roles that it begins with in topological order, the edges among all that take part,
    what is wanted of instances beside the role, the roles that are handed the answers of all ancestors, those that can
    be delegated to, and those that depend on roles whose answers the run itself may not bring."""

    roles: tuple[str, ...]
    edges: tuple[Edge, ...]
    requirements: tuple[Requirement, ...]
    all_ancestors: tuple[str, ...]
    targets: tuple[Target, ...] = ()
    readers: tuple[str, ...] = ()


class RoleSelection:
    """Instances by id, and the graph. `alive`: see Membership."""

    def __init__(self, alive: Callable[[str], bool] = lambda instance_id: False) -> None:
        self._living = Membership(alive)
        self.heard = False

    def update(self, change: RegistryChange) -> None:
        """Applies one message of the registry's Watch."""
        self._living.update(change)
        self.heard = True

    @property
    def registered(self) -> Collection[Registration]:
        """Those that the registry names."""
        return self._living.registered.values()

    @property
    def instances(self) -> dict[str, Registration]:
        """See Membership."""
        return self._living.instances

    @property
    def graph(self) -> Graph:
        """See Membership."""
        return self._living.graph

    @property
    def roles(self) -> set[str]:
        """Every role that lives or stands on an edge."""
        edges = self.graph.edges
        return (
            {instance.role for instance in self.instances.values()}
            | {edge.upstream for edge in edges}
            | {edge.downstream for edge in edges}
        )

    def choose(self, roles: Iterable[str], capabilities: Iterable[str], versions: Mapping[str, str]) -> Chosen:
        """A pipeline of these roles, or of all that stand on an edge; where one of them coordinates, all that it may
        delegate to take part. Raises UnknownRole, UnknownCapability,
        InvalidArgument (a version for a role that takes no part), FailedPrecondition where no role stands on an edge,
        Unavailable where the registry was never heard."""
        wanted, wants = self._asked_for(roles, capabilities)
        edges = self.graph.edges
        if not wanted:
            wanted = {edge.upstream for edge in edges} | {edge.downstream for edge in edges}
            if not wanted:
                raise FailedPrecondition(
                    "there is no pipeline: no role depends on another; start roles with depends_on, or name roles"
                )
        coordinated = any(one.coordinator for one in self.instances.values() if one.role in wanted)
        targets = self._targets() if coordinated else ()
        return self._chosen(wanted, wanted | {target.role for target in targets}, wants, versions, targets)

    def choose_agent(self, roles: Iterable[str], capabilities: Iterable[str], versions: Mapping[str, str]) -> Chosen:
        """The one role, or the one that coordinates, and all that it may delegate to. Raises as `choose` does, and
        FailedPrecondition where none is named and not exactly one role coordinates."""
        wanted, wants = self._asked_for(roles, capabilities)
        if not wanted:
            wanted = {one.role for one in self.instances.values() if one.coordinator}
            if len(wanted) != 1:
                raise FailedPrecondition(
                    f"name the role that the goal goes to: {_named(wanted)} coordinate"
                    if wanted
                    else "no role coordinates: start one that does, or name the role that the goal goes to"
                )
        targets = self._targets()
        return self._chosen(wanted, wanted | {target.role for target in targets}, wants, versions, targets)

    def _asked_for(self, roles: Iterable[str], capabilities: Iterable[str]) -> tuple[set[str], dict[str, str]]:
        if not self.heard:
            raise Unavailable("the registry has not been heard yet", retry_delay=1.0)
        wanted = set(roles)
        for role in sorted(wanted - self.roles):
            raise UnknownRole(
                f"no instance and no edge names the role {role!r}; known are: {_named(self.roles)}",
                metadata={"role": role},
            )
        wants = {self._with_capability(capability): capability for capability in capabilities}
        return wanted | set(wants), wants

    def _chosen(
        self,
        first: set[str],
        taking_part: set[str],
        wants: dict[str, str],
        versions: Mapping[str, str],
        targets: tuple[Target, ...],
    ) -> Chosen:
        edges = tuple(
            Edge(edge.upstream, edge.downstream, _POLICIES[edge.policy])
            for edge in self.graph.edges
            if edge.upstream in taking_part and edge.downstream in taking_part
        )
        for role in sorted(set(versions) - taking_part):
            raise InvalidArgument(
                f"a version is wanted of {role!r}, which takes no part",
                field_violations=[FieldViolation("versions", f"{role!r} takes no part")],
            )
        named = sorted({*wants, *versions})
        extra = tuple(Requirement(role, wants.get(role, ""), versions.get(role, "")) for role in named)
        deep = {instance.role for instance in self.instances.values() if instance.all_ancestors}
        order = self._order(taking_part)
        ordered = tuple(role for role in order if role in deep)
        readers = tuple(role for role in order if self._upstream(role, all_of_it=role in deep) - first)
        return Chosen(self._order(first), edges, extra, ordered, targets, readers)

    def _upstream(self, role: str, *, all_of_it: bool) -> set[str]:
        """The roles that it depends on: directly, or through others."""
        found: set[str] = set()
        ahead = {role}
        while ahead := {edge.upstream for edge in self.graph.edges if edge.downstream in ahead} - found:
            found |= ahead
            if not all_of_it:
                break
        return found

    def _order(self, roles: set[str]) -> tuple[str, ...]:
        """Topological; roles without an edge come last."""
        order = [role for role in self.graph.roles if role in roles]
        return (*order, *sorted(roles - set(order)))

    def _targets(self) -> tuple[Target, ...]:
        """All roles that are played, in topological order."""
        newest: dict[str, Registration] = {}
        for instance in self.instances.values():
            known = newest.get(instance.role)
            if known is None or version_key(instance.version) > version_key(known.version):
                newest[instance.role] = instance
        return tuple(
            Target(role, newest[role].description, newest[role].coordinator) for role in self._order(set(newest))
        )

    def _with_capability(self, capability: str) -> str:
        offering = {
            instance.role
            for instance in self.instances.values()
            if any(one.id == capability for one in instance.capabilities)
        }
        if not offering:
            known = {one.id for instance in self.instances.values() for one in instance.capabilities}
            raise UnknownCapability(
                f"no instance offers {capability!r}; known are: {_named(known)}", metadata={"capability": capability}
            )
        return min(offering)


def _named(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:20]) or "none"
