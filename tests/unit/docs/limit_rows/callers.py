"""Limits of callers."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "Metadata of a call; characters of a token",
        "{archon.channel:MAX_METADATA_BYTES|bytes}; {archon.security.tokens:MAX_TOKEN}",
        "The call fails with `RESOURCE_EXHAUSTED`; the token is refused.",
        ["test_a_token_of_the_largest_size_passes_each_time", "test_a_token_with_too_many_groups_is_told_so"],
    ),
    Limit(
        "An answer of an OpenID provider; its time; keys of it that are used",
        "{archon.security.openid.http:MAX_BYTES|bytes}; {archon.security.openid.http:SECONDS|seconds}; "
        "{archon.security.openid.key_set:MAX_KEYS}",
        "The keys stay as they are; further keys are left out.",
        ["test_a_faulty_provider_costs_its_own_tokens_alone", "test_further_keys_of_a_set_are_left_out"],
    ),
    Limit(
        "Time between two looks for keys that calls ask for; unknown keys that are remembered; time for which keys are "
        "used while the provider is down",
        "{archon.security.openid.provider:ASK_AGAIN|seconds}; {archon.security.openid.provider:MAX_ASKED}; "
        "{archon.security.openid.provider:KEPT|seconds}",
        "`UNAVAILABLE` with a delay; the oldest is forgotten.",
        [
            "test_an_unknown_key_is_asked_for_and_then_refused",
            "test_unknown_keys_are_remembered_in_a_bounded_number",
            "test_keys_stay_in_use_while_the_provider_is_down",
        ],
    ),
]
