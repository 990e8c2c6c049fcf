"""What spans and metrics read alike of OpenTelemetry's standard variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

OTLP: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""The entry points of the exporters over OTLP, by protocol."""


def is_disabled() -> bool:
    """Returns whether OTEL_SDK_DISABLED turns everything off."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def otlp_entry_point(signal: str) -> str:
    """Returns the entry point of the exporter over OTLP for a signal such as `TRACES`: over HTTP unless a variable says
    otherwise."""
    given = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    return OTLP.get((given or "http/protobuf").strip().lower(), f"otlp over {given}")


def resource_of(service: str, instance_id: str) -> Resource:
    """Returns the resource of this process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence."""
    from importlib import metadata

    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    given = OTELResourceDetector().detect().attributes
    own = {
        "service.namespace": "archon",
        "service.version": metadata.version("archon-mesh"),
        "service.name": service,
        "service.instance.id": instance_id,
    }
    return Resource.create({key: value for key, value in own.items() if value and key not in given})
