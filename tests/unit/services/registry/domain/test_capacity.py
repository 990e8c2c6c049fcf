"""Bounds on the number of instances: which registration is refused, and when a place is free again."""

from __future__ import annotations

import pytest

from archon.api.registry.v1.registry_pb2 import Registration
from archon.errors import QuotaExceeded, ResourceExhausted
from archon_services.common.quotas import Quota, Quotas
from archon_services.registry.domain.capacity import Capacity
from archon_services.registry.domain.edges import plan_registration
from archon_services.registry.domain.state import State

CAPACITY = Capacity(instances=4, per_role=2, per_client=3)


def instance(instance_id: str, role: str = "r") -> Registration:
    return Registration(instance_id=instance_id, role=role, address="host:1")


def with_instances(*instances: tuple[str, str, str], state: State | None = None) -> State:
    """Registers (instance_id, role, host) within the bounds."""
    state = state or State()
    for instance_id, role, host in instances:
        registration = instance(instance_id, role)
        CAPACITY.check(state, registration, host)
        state = state.with_update(plan_registration(state, registration, host)[0], state.revision + 1)
    return state


def refused(state: State, registration: Registration, host: str) -> ResourceExhausted:
    with pytest.raises(ResourceExhausted) as caught:
        CAPACITY.check(state, registration, host)
    assert caught.value.retry_delay
    assert caught.value.metadata["setting"] in caught.value.message
    return caught.value


def test_an_instance_above_the_bound_of_its_role_is_refused() -> None:
    state = with_instances(("a", "r", "h1"), ("b", "r", "h2"))
    error = refused(state, instance("c"), "h3")
    assert error.metadata == {"limit": "2", "setting": "max_instances_per_role", "role": "r", "client": "h3"}
    CAPACITY.check(state, instance("c", "other"), "h3")


def test_an_instance_above_the_bound_of_its_client_is_refused() -> None:
    state = with_instances(("a", "r", "h1"), ("b", "r", "h1"), ("c", "s", "h1"))
    assert refused(state, instance("d", "t"), "h1").metadata["setting"] == "max_instances_per_client"
    CAPACITY.check(state, instance("d", "t"), "h2")


def test_an_instance_above_the_bound_of_the_registry_is_refused() -> None:
    state = with_instances(("a", "r", "h1"), ("b", "r", "h2"), ("c", "s", "h3"), ("d", "s", "h4"))
    assert refused(state, instance("e", "t"), "h5").metadata["setting"] == "max_instances"


def test_a_registered_instance_is_not_refused_at_the_bound() -> None:
    state = with_instances(("a", "r", "h1"), ("b", "r", "h1"))
    CAPACITY.check(state, instance("b"), "h1")
    CAPACITY.check(state, instance("b"), "h2")


def test_the_place_of_an_instance_that_is_gone_is_free() -> None:
    state = with_instances(("a", "r", "h1"), ("b", "r", "h1"), ("c", "s", "h1"))
    state = state.with_update({"instances/a": None}, 9)
    assert (state.roles["r"].instances, dict(state.clients), set(state.hosts)) == (1, {"h1": 2}, {"b", "c"})
    assert with_instances(("d", "r", "h1"), state=state).clients == {"h1": 3}


def test_an_instance_that_moves_counts_for_its_new_client() -> None:
    state = with_instances(("a", "r", "h1"))
    moved = instance("a")
    moved.address = "host:2"
    state = state.with_update(plan_registration(state, moved, "h2")[0], 9)
    assert (state.hosts, state.clients) == ({"a": "h2"}, {"h2": 1})


def test_counts_of_a_state_that_is_read_are_those_kept() -> None:
    kept = with_instances(("a", "r", "h1"), ("b", "r", "h2"), ("c", "s", "h1"))
    read = State(kept.revision, kept.instances, kept.edges, kept.pins, kept.hosts)
    assert (read.clients, read.roles) == (kept.clients, kept.roles)


def test_the_quota_of_a_tenant_counts_its_own_instances() -> None:
    quotas = Quotas({"acme": Quota(instances=1)})
    state = with_instances(("a", "r", "h1"), ("b", "s", "h2"))
    capacity = Capacity(quotas=quotas)
    first, second = instance("c"), instance("d")
    first.tenant = second.tenant = "acme"
    capacity.check(state, first, "h3")
    state = state.with_update(plan_registration(state, first, "h3")[0], state.revision + 1)
    with pytest.raises(QuotaExceeded) as caught:
        capacity.check(state, second, "h3")
    assert caught.value.metadata["used"] == "1"
    capacity.check(state, first, "h3")
    capacity.check(state, instance("e"), "h3")
