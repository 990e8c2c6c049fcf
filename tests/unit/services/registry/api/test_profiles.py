"""The profile of a registration is bounded and plausible."""

from __future__ import annotations

import math

import pytest

from archon.api.common.v1.capability_pb2 import Profile
from archon.api.registry.v1.registry_pb2 import Registration
from archon.errors import InvalidArgument
from archon_services.registry.api.validation import MAX_EXPECTED, MAX_TEXT, registration


def registered(profile: Profile) -> Registration:
    request = Registration(role="cook", instance_id="cook-1", address="127.0.0.1:7000", profile=profile, planner=True)
    return registration(request, tenant="default", identity="ann")


def test_a_profile_is_stored_as_it_is() -> None:
    profile = Profile(
        instructions="Say what.",
        prompt_template="Cook {dish}.",
        expected_latency_ms=MAX_EXPECTED,
        expected_cost_micro_usd=1,
        expected_quality=1.0,
        message_types={"question": "waiter,guest"},
    )
    stored = registered(profile)
    assert stored.profile == profile
    assert stored.planner


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("instructions", "x" * (MAX_TEXT + 1)),
        ("prompt_template", "x" * (MAX_TEXT + 1)),
        ("expected_latency_ms", -1),
        ("expected_cost_micro_usd", MAX_EXPECTED + 1),
        ("expected_quality", -0.1),
        ("expected_quality", 1.1),
        ("expected_quality", math.nan),
        ("message_types", {"": "waiter"}),
        ("message_types", {f"type-{number}": "waiter" for number in range(65)}),
    ],
)
def test_an_implausible_profile_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        registered(Profile(**{field: value}))  # type: ignore[arg-type]
    assert [violation.field for violation in caught.value.field_violations] == [f"registration.profile.{field}"]
