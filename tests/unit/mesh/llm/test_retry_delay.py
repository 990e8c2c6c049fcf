"""How long a provider asks its callers to wait, in the forms that providers say it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.llm.retry_delay import LONGEST, retry_delay

GEMINI = [
    {
        "error": {
            "code": 429,
            "message": "You exceeded your current quota.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.074s"},
            ],
        }
    }
]


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "20"}, None, 20.0),
        ({"retry-after": "20", "retry-after-ms": "1500"}, None, 1.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0.5s"}, None, 360.5),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120ms"}, None, 0.12),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "2s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "7s",
            },
            None,
            7.0,
        ),
        ({"x-ratelimit-remaining-requests": "12", "x-ratelimit-reset-requests": "8h"}, None, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "9"}, None, 9.0),
        ({}, GEMINI, 34.074),
        ({}, {"error": {"message": "Rate limit reached. Please try again in 1m2.5s. Visit our page."}}, 62.5),
        ({}, {"error": {"message": "Please retry in 850ms."}}, 0.85),
        ({}, {"error": {"message": "Please try again later."}}, None),
        ({"retry-after": "soon"}, "busy", None),
        ({"retry-after": "1e300"}, None, None),
        ({"retry-after": "nan"}, None, None),
        ({}, None, None),
    ],
)
def test_the_pause_that_a_provider_asks_for(headers: dict[str, str], body: object, seconds: float | None) -> None:
    assert retry_delay(headers, body) == pytest.approx(seconds)


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "reset",
    [
        lambda: soon(60).isoformat(timespec="seconds").replace("+00:00", "Z"),
        lambda: str(int(soon(60).timestamp())),
        lambda: str(int(soon(60).timestamp() * 1000)),
    ],
)
@pytest.mark.parametrize("names", [("x-ratelimit-{}", "x-ratelimit-{}"), ("anthropic-ratelimit-tokens-{}",) * 2])
def test_the_reset_may_be_a_date(reset: Any, names: tuple[str, str]) -> None:
    headers = {names[0].format("remaining"): "0", names[1].format("reset"): reset()}
    delay = retry_delay(headers, None)
    assert delay is not None
    assert 50 < delay < 70


@given(st.text(max_size=20), st.recursive(st.none() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_anything_is_no_pause_or_one_of_a_day_at_most(value: str, body: object) -> None:
    for headers in ({"retry-after": value}, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": value}, {}):
        delay = retry_delay(headers, body)
        assert delay is None or 0 <= delay <= LONGEST
