"""Selects the roles of a new run from the instances that are alive and the graph of dependencies.

While the registry cannot be reached, its last message stays valid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from archon.errors import (
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    Unavailable,
    UnknownCapability,
    UnknownRole,
)
from archon.registry import Graph, PropagationPolicy, Registration, RegistryChange
from archon_mesh.engine.types import GIVEN_PLAN, Edge, Requirement, Target
from archon_services.common.versions import version_key
from archon_services.orchestrator.roles.membership import GRACE, Membership, Offer

MAX_CACHED: Final = 1_000
"""Selections kept per version of the membership."""

PLANNER: Final = "planner"
"""The role that plans, unless a submit names another one."""

_POLICIES = {policy: number for number, policy in enumerate(PropagationPolicy, 1)}


@dataclass(frozen=True, slots=True)
class Participants:
    """The roles of a run.

    `roles` are the ones that it starts with, in topological order; `edges` those among all participants; `requirements`
    the capabilities and versions needed; `all_ancestors` the roles that receive the answers of all their ancestors;
    `targets` the roles that can be delegated to; `readers` the roles with an upstream role that the run does not start
    with, whose answers may come from the session; `plan_targets` an instance of each role that steps may go to.
    """

    roles: tuple[str, ...]
    edges: tuple[Edge, ...]
    requirements: tuple[Requirement, ...]
    all_ancestors: tuple[str, ...]
    targets: tuple[Target, ...] = ()
    readers: tuple[str, ...] = ()
    plan_targets: tuple[Registration, ...] = ()


class RoleSelection:
    """Selects roles by the registry's messages, and remembers each selection until the membership changes.

    `alive` tells whether an instance's session is connected and accepts tasks; `grace` is how long (in seconds) a lost
    instance whose session continues counts as alive.
    """

    def __init__(self, alive: Callable[[str], bool] = lambda instance_id: False, *, grace: float = GRACE) -> None:
        self._membership = Membership(alive, grace=grace)
        self.best_role: Callable[[Collection[str]], str] = min
        """Chooses among the roles that offer a capability; by default the first one by name."""

        self._received = False
        self._cache: dict[tuple[object, ...], Participants] = {}
        self._cache_version = 0

    def update(self, change: RegistryChange) -> tuple[str, ...]:
        """Applies one message of the registry's Watch. Returns the ids of the instances that are no longer
        registered."""
        self._received = True
        return self._membership.update(change)

    @property
    def instances(self) -> Mapping[str, Registration]:
        """The instances that count as alive, by id."""
        return self._membership.instances

    @property
    def graph(self) -> Graph:
        """The graph of dependencies among roles."""
        return self._membership.graph

    @property
    def roles(self) -> set[str]:
        """Every role with an instance or an edge."""
        return {offer.role for offer in self._membership.offers} | self._roles_on_edges()

    def choose(self, roles: Iterable[str], capabilities: Iterable[str], versions: Mapping[str, str]) -> Participants:
        """A pipeline of these roles and of one role per capability, or, if none is named, of all roles on an edge.

        If one of them is a coordinator, all roles that it can delegate to take part. Raises UnknownRole,
        UnknownCapability, InvalidArgument if a version is given for a role that takes no part, FailedPrecondition if
        there is no edge, and Unavailable before the registry's first message.
        """
        return self._cached(self._pipeline, roles, capabilities, versions)

    def choose_agent(
        self, roles: Iterable[str], capabilities: Iterable[str], versions: Mapping[str, str]
    ) -> Participants:
        """The named role, or the only coordinator, and all roles that it can delegate to.

        Raises as `choose` does, and FailedPrecondition if no role is named and there is not exactly one coordinator.
        """
        return self._cached(self._agent, roles, capabilities, versions)

    def choose_plan(
        self,
        planner: str,
        roles: Iterable[str],
        capabilities: Iterable[str],
        versions: Mapping[str, str],
        *,
        has_planner: bool = True,
    ) -> Participants:
        """The planner, and the roles that steps may go to: those named, directly or by a capability, or all with an
        instance but the planners. Without a planner, GIVEN_PLAN takes its place.

        Raises as `choose` does, UnknownRole also if a role has no instance, and FailedPrecondition if there is no role
        for steps.
        """
        planner = (planner or PLANNER) if has_planner else GIVEN_PLAN
        named = (planner, *roles) if has_planner else tuple(roles)
        _, capability_of = self._named_roles(named, tuple(capabilities))
        newest = self.newest_instances()
        others = {role for role, instance in newest.items() if role != planner and not instance.planner}
        wanted = {*roles, *capability_of} or others
        for role in (*((planner,) if has_planner else ()), *sorted(wanted)):
            if role not in newest:
                available = _listed(newest)
                message = f"no instance of the role {role!r}; roles with an instance: {available}"
                raise UnknownRole(message, metadata={"role": role})
        if not wanted:
            raise FailedPrecondition(f"no role but {planner!r} has an instance: steps of a plan have nowhere to go")
        for role in sorted(set(versions) - {planner, *wanted}):
            raise InvalidArgument(
                f"a version is given for {role!r}, which takes no part in the run",
                field_violations=[FieldViolation("versions", f"{role!r} takes no part")],
            )
        requirements = tuple(
            Requirement(role, "" if role == planner else capability_of.get(role, ""), versions.get(role, ""))
            for role in sorted({*capability_of, *versions} & {planner, *wanted})
        )
        instances = tuple(newest[role] for role in sorted(wanted))
        return Participants((planner,), (), requirements, (), plan_targets=instances)

    def newest_instances(self) -> dict[str, Registration]:
        """Returns an instance of the newest version of each role; of those, the one with the first id. Raises
        Unavailable before the registry's first message."""
        if not self._received:
            raise Unavailable("the registry has not answered yet", retry_delay=1.0)
        newest: dict[str, Registration] = {}
        for instance in self._membership.instances.values():
            current = newest.get(instance.role)
            if current is None or _precedence(instance) > _precedence(current):
                newest[instance.role] = instance
        return newest

    def _cached(
        self,
        select: Callable[[set[str], dict[str, str], Mapping[str, str]], Participants],
        roles: Iterable[str],
        capabilities: Iterable[str],
        versions: Mapping[str, str],
    ) -> Participants:
        version = self._membership.version
        if version != self._cache_version or len(self._cache) >= MAX_CACHED:
            self._cache.clear()
            self._cache_version = version
        roles, capabilities = tuple(roles), tuple(capabilities)
        chosen = tuple(self._named_roles(roles, capabilities)[1]) if capabilities else ()  # may change with the records
        key = (select.__name__, roles, capabilities, frozenset(versions.items()), chosen)
        if (participants := self._cache.get(key)) is None:
            named, capability_of = self._named_roles(roles, capabilities)
            participants = self._cache[key] = select(named, capability_of, versions)
        return participants

    def _pipeline(self, roles: set[str], capability_of: dict[str, str], versions: Mapping[str, str]) -> Participants:
        roles = roles or self._roles_on_edges()
        if not roles:
            raise FailedPrecondition(
                "there is no pipeline: no role depends on another; start roles with depends_on, or name roles"
            )
        coordinated = any(offer.coordinator for offer in self._membership.offers if offer.role in roles)
        return self._participants(roles, self._targets() if coordinated else (), capability_of, versions)

    def _agent(self, roles: set[str], capability_of: dict[str, str], versions: Mapping[str, str]) -> Participants:
        roles = roles or self._only_coordinator()
        return self._participants(roles, self._targets(), capability_of, versions)

    def _only_coordinator(self) -> set[str]:
        coordinators = {offer.role for offer in self._membership.offers if offer.coordinator}
        if not coordinators:
            raise FailedPrecondition("no role coordinates: start one that does, or name the role that gets the goal")
        if len(coordinators) > 1:
            raise FailedPrecondition(
                f"name the role that gets the goal: there are several coordinators: {_listed(coordinators)}"
            )
        return coordinators

    def _roles_on_edges(self) -> set[str]:
        edges = self.graph.edges
        return {edge.upstream for edge in edges} | {edge.downstream for edge in edges}

    def _named_roles(self, roles: tuple[str, ...], capabilities: tuple[str, ...]) -> tuple[set[str], dict[str, str]]:
        """The roles that are named, directly or by a capability; and the capability of those named by one."""
        if not self._received:
            raise Unavailable("the registry has not answered yet", retry_delay=1.0)
        unknown = set(roles) - self.roles
        if unknown:
            role = min(unknown)
            raise UnknownRole(
                f"no instance and no edge of the role {role!r}; available roles: {_listed(self.roles)}",
                metadata={"role": role},
            )
        capability_of = {self._role_with(capability): capability for capability in capabilities}
        return {*roles, *capability_of}, capability_of

    def _participants(
        self,
        first: set[str],
        targets: tuple[Target, ...],
        capability_of: dict[str, str],
        versions: Mapping[str, str],
    ) -> Participants:
        """The selection for a run that starts with the roles `first`."""
        involved = first | {target.role for target in targets}
        for role in sorted(set(versions) - involved):
            raise InvalidArgument(
                f"a version is given for {role!r}, which takes no part in the run",
                field_violations=[FieldViolation("versions", f"{role!r} takes no part")],
            )
        edges = tuple(
            Edge(edge.upstream, edge.downstream, _POLICIES[edge.policy])
            for edge in self.graph.edges
            if edge.upstream in involved and edge.downstream in involved
        )
        requirements = tuple(
            Requirement(role, capability_of.get(role, ""), versions.get(role, ""))
            for role in sorted({*capability_of, *versions})
        )
        deep = {offer.role for offer in self._membership.offers if offer.all_ancestors}
        order = self._order(involved)
        all_ancestors = tuple(role for role in order if role in deep)
        readers = tuple(role for role in order if self._upstream(role, transitive=role in deep) - first)
        return Participants(self._order(first), edges, requirements, all_ancestors, targets, readers)

    def _upstream(self, role: str, *, transitive: bool) -> set[str]:
        """The roles that a role depends on: only directly, or also through others."""
        upstream: set[str] = set()
        frontier = {role}
        while frontier := {edge.upstream for edge in self.graph.edges if edge.downstream in frontier} - upstream:
            upstream |= frontier
            if not transitive:
                break
        return upstream

    def _order(self, roles: set[str]) -> tuple[str, ...]:
        """In topological order; roles without an edge come last."""
        order = [role for role in self.graph.roles if role in roles]
        return (*order, *sorted(roles - set(order)))

    def _targets(self) -> tuple[Target, ...]:
        """All roles with an instance but planners, in topological order, described by their newest version."""
        newest: dict[str, Offer] = {}
        for offer in self._membership.offers:
            if offer.planner:
                continue
            current = newest.get(offer.role)
            if current is None or version_key(offer.version) > version_key(current.version):
                newest[offer.role] = offer
        return tuple(
            Target(role, newest[role].description, newest[role].coordinator) for role in self._order(set(newest))
        )

    def _role_with(self, capability: str) -> str:
        """The role with an instance that offers the capability, of several the best one. Raises UnknownCapability."""
        offers = self._membership.offers
        roles = {offer.role for offer in offers if capability in offer.capability_ids}
        if not roles:
            available = _listed({capability_id for offer in offers for capability_id in offer.capability_ids})
            raise UnknownCapability(
                f"no instance offers {capability!r}; available capabilities: {available}",
                metadata={"capability": capability},
            )
        return self.best_role(roles) if len(roles) > 1 else min(roles)


def _precedence(instance: Registration) -> tuple[object, ...]:
    """The newer the version, the higher; of the same version, the same instance whatever the order."""
    return version_key(instance.version), instance.instance_id


def _listed(names: Iterable[str]) -> str:
    """Up to 20 names, sorted."""
    return ", ".join(sorted(names)[:20]) or "none"
