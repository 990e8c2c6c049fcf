"""Whether connections are encrypted, and with which certificate."""

from __future__ import annotations

import os
from typing import Final

from archon.errors import FailedPrecondition
from archon.loopback import is_loopback
from archon.security.certificates import VARIABLE, CertificateFolder, own_folder
from archon.security.mesh_folder import candidates

INSECURE: Final = "ARCHON_INSECURE"
"""The variable with which a server listens off loopback without TLS."""


def folder_for(target: str) -> CertificateFolder | None:
    """Returns the certificate for connections to `target` (host:port): the one in ARCHON_TLS, else the user's of the
    mesh on this machine that has a service there; None if they are not encrypted. Raises FailedPrecondition if it
    cannot be used."""
    if (folder := own_folder()) is not None:
        return folder
    if not is_loopback(target.rpartition(":")[0]):
        return None
    found = next((folder for folder in candidates() if folder.encrypts(target)), None)
    return CertificateFolder(found.user_certificate) if found is not None else None


def check_listening(host: str, *, encrypted: bool, variable: str = VARIABLE) -> str:
    """Returns a warning about a server that listens on `host`, empty if there is nothing to warn of. `variable` is the
    one with its certificate. Raises FailedPrecondition if others could read its traffic and that is not allowed."""
    if encrypted or is_loopback(host):
        return ""
    if not os.environ.get(INSECURE, ""):
        raise FailedPrecondition(
            f"{host} can be reached from other machines, and traffic would be in clear text: set {variable} to the "
            "folder of a certificate, or ARCHON_INSECURE=1 if the network is closed to others"
        )
    return f"listening on {host} without TLS: every host of the network can read and change all traffic"
