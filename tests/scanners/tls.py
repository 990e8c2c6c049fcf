"""`python -m tests.scanners.tls HOST:PORT` scans a server of TLS with sslyze and prints what Mozilla's recommendation
"intermediate" objects to, as JSON. It runs in an environment of its own: `make scanners`."""

from __future__ import annotations

import json
import sys
from typing import Final

from sslyze import (  # type: ignore[import-not-found]  # in an environment of its own
    ScanCommand,
    Scanner,
    ServerNetworkLocation,
    ServerScanRequest,
    ServerScanStatusEnum,
)

CIPHERS: Final = (
    ScanCommand.SSL_2_0_CIPHER_SUITES,
    ScanCommand.SSL_3_0_CIPHER_SUITES,
    ScanCommand.TLS_1_0_CIPHER_SUITES,
    ScanCommand.TLS_1_1_CIPHER_SUITES,
    ScanCommand.TLS_1_2_CIPHER_SUITES,
    ScanCommand.TLS_1_3_CIPHER_SUITES,
)
ATTACKS: Final = (
    ScanCommand.HEARTBLEED,
    ScanCommand.OPENSSL_CCS_INJECTION,
    ScanCommand.ROBOT,
    ScanCommand.SESSION_RENEGOTIATION,
    ScanCommand.TLS_COMPRESSION,
    ScanCommand.TLS_FALLBACK_SCSV,
)


def main(address: str) -> None:
    """Prints the versions that are accepted, their ciphers, and the attacks that work."""
    host, _, port = address.rpartition(":")
    location = ServerNetworkLocation(host, int(port))
    scanner = Scanner()
    scanner.queue_scans([ServerScanRequest(location, scan_commands={*CIPHERS, *ATTACKS})])
    [result] = scanner.get_results()
    if result.scan_status is not ServerScanStatusEnum.COMPLETED:
        sys.exit(f"{address} cannot be scanned: {result.connectivity_error_trace}")
    found = result.scan_result
    assert found is not None
    versions: dict[str, list[str]] = {}
    for command in CIPHERS:
        ciphers = getattr(found, command.value).result
        accepted = [each.cipher_suite.name for each in ciphers.accepted_cipher_suites]
        if accepted:
            versions[command.value.removesuffix("_cipher_suites")] = accepted
    renegotiation = found.session_renegotiation.result
    attacks = {
        "heartbleed": found.heartbleed.result.is_vulnerable_to_heartbleed,
        "ccs_injection": found.openssl_ccs_injection.result.is_vulnerable_to_ccs_injection,
        "robot": found.robot.result.robot_result.value.startswith("VULNERABLE"),
        "renegotiation_dos": renegotiation.is_vulnerable_to_client_renegotiation_dos,
        "insecure_renegotiation": not renegotiation.supports_secure_renegotiation,
        "compression": found.tls_compression.result.supports_compression,
        "no_fallback_scsv": not found.tls_fallback_scsv.result.supports_fallback_scsv,
    }
    print(json.dumps({"versions": versions, "attacks": [name for name, works in attacks.items() if works]}))


if __name__ == "__main__":
    main(sys.argv[1])
