"""gRPC channels and all gRPC options: message sizes, keepalive, reconnect, retry.

Between services of the mesh keepalive detects a frozen peer within seconds. Channels to agents ping at most once a
minute, because a Go or Java server with default settings closes connections that are pinged more often; there the
session's heartbeat detects a frozen peer.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from typing import Final

import grpc
import grpc.aio

from archon.interceptors.client import GuardedChannel, StreamStream
from archon.local_sockets import nearest
from archon.security.certificates import CertificateFolder, own_folder
from archon.security.credentials import Certified, Credentials, Relayed, credentials_for
from archon.security.peer import ORCHESTRATOR, Peer
from archon.security.secure_channel import RenewedChannel, secure_channel
from archon.security.transport import folder_for

MAX_RECEIVE_BYTES: Final = 16 * 1024 * 1024
"""The largest message that gRPC takes. Above it gRPC answers a bare RESOURCE_EXHAUSTED, so that it stands well above
`archon.wire.MAX_CHECKED_BYTES`, which is refused with a typed error."""

MAX_AGENT_BYTES: Final = 64 * 1024 * 1024
"""The largest message that is taken from an agent: one above the limit of a frame fails its task alone."""

MAX_RELAYED_BYTES: Final = MAX_RECEIVE_BYTES - 64 * 1024
"""The largest request or response of a call that an orchestrator relays to an attached agent: with its envelope it is
one message."""

MAX_METADATA_BYTES: Final = 16 * 1024
"""The largest metadata of a call. Above gRPC's default of 8 KiB calls with a large token would fail at random."""

Option = tuple[str, int | str]

_RETRIES: Final = {
    "name": [{}],
    "retryPolicy": {
        "maxAttempts": 4,
        "initialBackoff": "0.1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    },
}

# Calls alternate between the replicas behind a name. gRPC's default, pick_first, stays with the first replica that
# accepts a connection, and returns again and again to one that can send but not receive.
_REPLICAS: Final = json.dumps({"loadBalancingConfig": [{"round_robin": {}}], "methodConfig": [_RETRIES]})

# With round_robin, a channel goes on connecting to an address where nothing listens any more, also after it was closed,
# until the last of its streams is collected as garbage.
_ONE_ADDRESS: Final = json.dumps({"loadBalancingConfig": [{"pick_first": {}}], "methodConfig": [_RETRIES]})

_ONE_REPLICA: Final = json.dumps({"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": True}}]})

DIRECT: Final[Option] = ("grpc.enable_http_proxy", 0)
"""gRPC would connect through the proxy of http_proxy, also to this machine; a mesh is never behind one."""

_COMMON: Final[list[Option]] = [
    DIRECT,
    ("grpc.max_send_message_length", MAX_RECEIVE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # How long one attempt to connect may take, in spite of its name: on a starved machine 100 ms are too short.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    # Resolve the name of a headless Service again soon after its pod gets another address.
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
]

_KEEPALIVE: Final[list[Option]] = [
    ("grpc.keepalive_time_ms", 2_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.http2.ping_timeout_ms", 2_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
]


def service_options(target: str = "") -> list[Option]:
    """Options of channels to a service of the mesh: full keepalive, and retries while it is unavailable. Calls
    alternate between replicas unless `target` is one IP address and port."""
    limits: list[Option] = [("grpc.max_receive_message_length", MAX_RECEIVE_BYTES)]
    config = _ONE_ADDRESS if _is_ip_address(target.rpartition(":")[0].strip("[]")) else _REPLICAS
    return [*_COMMON, *limits, *_KEEPALIVE, ("grpc.enable_retries", 1), ("grpc.service_config", config)]


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def attach_options() -> list[Option]:
    """Options of the channel of an attached agent: full keepalive, on a connection of its own to one replica of the
    orchestrator, which is chosen at random."""
    limits: list[Option] = [("grpc.max_receive_message_length", MAX_RECEIVE_BYTES)]
    own: list[Option] = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
    return [*_COMMON, *limits, *_KEEPALIVE, *own, ("grpc.service_config", _ONE_REPLICA)]


def agent_options(*, fresh: bool = False) -> list[Option]:
    """Options of channels to an agent. `fresh` forces a new TCP connection: channels with equal options share one."""
    options = [*_COMMON, ("grpc.keepalive_time_ms", 60_000), ("grpc.enable_retries", 0)]
    options.append(("grpc.max_receive_message_length", MAX_AGENT_BYTES))
    return [*options, ("grpc.use_local_subchannel_pool", 1)] if fresh else options


def server_options() -> list[Option]:
    """Options of servers. so_reuseport is off: a second server on the port must fail, not take half of the calls."""
    return [
        ("grpc.so_reuseport", 0),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", 2 * MAX_METADATA_BYTES),
        ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
        ("grpc.max_send_message_length", MAX_RECEIVE_BYTES),
        ("grpc.http2.min_ping_interval_without_data_ms", 500),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def bare_channel(target: str, options: Sequence[Option], peer: Peer) -> grpc.aio.Channel:
    """A channel to `peer` at `host:port` with the certificate of this process as it is now, if it has one; calls carry
    nothing of themselves. Raises FailedPrecondition if the certificate cannot be used."""
    if (folder := own_folder()) is None:
        return grpc.aio.insecure_channel(nearest(target), options=list(options))

    def make(own: grpc.ChannelCredentials, more: Sequence[Option]) -> grpc.aio.Channel:
        return grpc.aio.secure_channel(target, own, options=[*options, *more])

    return secure_channel(folder.read(), peer, make)


def connect(
    target: str,
    options: Sequence[Option] | None = None,
    *,
    peer: Peer = ORCHESTRATOR,
    credentials: Credentials | None = None,
    certificate: CertificateFolder | None = None,
    instance_id: str = "",
) -> grpc.aio.Channel:
    """A channel to `peer` at `host:port`, which connects at the first call; the caller closes it. Calls carry
    `credentials`, by default the own ones for its mesh, and the deadline and the identity of the call being
    served; unary calls raise ArchonErrors. With an `instance_id`, the peer is an orchestrator that relays the calls to
    this attached agent.

    With a `certificate`, by default the one in ARCHON_TLS or in the mesh on this machine, the connection is encrypted,
    and the certificate of the other side must name the peer. Raises FailedPrecondition if the own certificate cannot
    be used."""
    credentials = credentials_for(target, peer.audience) if credentials is None else credentials
    options = service_options(target) if options is None else options
    if (folder := certificate or folder_for(target)) is not None:
        credentials = Certified(folder, credentials)
    if instance_id:
        credentials = Relayed(credentials, instance_id)
    interceptors = [StreamStream(credentials)]
    if folder is not None:

        def make(own: grpc.ChannelCredentials, more: Sequence[Option]) -> grpc.aio.Channel:
            return grpc.aio.secure_channel(target, own, options=[*options, *more], interceptors=interceptors)

        return GuardedChannel(RenewedChannel(folder.read, lambda own: secure_channel(own, peer, make)), credentials)
    return GuardedChannel(
        grpc.aio.insecure_channel(nearest(target), options=list(options), interceptors=interceptors), credentials
    )
