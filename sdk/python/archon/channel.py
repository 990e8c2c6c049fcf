"""All gRPC options in one place: message sizes, keepalive, reconnect, retry.

Between services of the mesh keepalive finds a frozen peer within seconds. Towards agents there is none below a
minute: a Go or Java server on its defaults closes connections that are pinged more often; a session's own
heartbeat decides there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import grpc
import grpc.aio

from archon.interceptors.client import client_interceptors

MAX_RECEIVE_BYTES: Final = 16 * 1024 * 1024
"""The largest message that gRPC takes. Above it gRPC answers a bare RESOURCE_EXHAUSTED, so that it stands well above
`archon.wire.MAX_CHECKED_BYTES`, which is refused with a typed error."""

Option = tuple[str, int | str]

_SERVICE_CONFIG: Final = json.dumps(
    {
        # Where there are several replicas calls alternate. gRPC's default stays with the first one that takes a
        # connection, and one that can speak and doesn't hear takes one again and again.
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [
            {
                "name": [{}],
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.1s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ],
    }
)

_COMMON: Final[list[Option]] = [
    ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
    ("grpc.max_send_message_length", MAX_RECEIVE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A headless Service's name is looked up again soon after its pod has got another address.
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
]

_KEEPALIVE: Final[list[Option]] = [
    ("grpc.keepalive_time_ms", 2_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.http2.ping_timeout_ms", 2_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
]


def service_options() -> list[Option]:
    """For channels to a service of the mesh: keepalive in full, calls retried while it is unavailable."""
    return [*_COMMON, *_KEEPALIVE, ("grpc.enable_retries", 1), ("grpc.service_config", _SERVICE_CONFIG)]


def agent_options(*, fresh: bool = False) -> list[Option]:
    """For channels to an agent. `fresh` forces a TCP connection of its own: equal channels would share one."""
    options = [*_COMMON, ("grpc.keepalive_time_ms", 60_000), ("grpc.enable_retries", 0)]
    return [*options, ("grpc.use_local_subchannel_pool", 1)] if fresh else options


def server_options() -> list[Option]:
    """For servers. so_reuseport is off: a second server on the port must fail, not take half of the calls."""
    return [
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
        ("grpc.max_send_message_length", MAX_RECEIVE_BYTES),
        ("grpc.http2.min_ping_interval_without_data_ms", 500),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def connect(target: str, options: Sequence[Option] | None = None) -> grpc.aio.Channel:
    """A channel to `host:port`; lazy, it dials at the first call. Calls on it pass on the deadline and the identity of
    the call being served, and unary ones raise Archon's own errors. The caller closes it."""
    return grpc.aio.insecure_channel(
        target,
        options=list(service_options() if options is None else options),
        interceptors=client_interceptors(),
    )
