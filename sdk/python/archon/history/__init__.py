"""Verifiable history: the chain of a run's steps, the seals of the orchestrator on it, and the audit log.

chain      the link of each step and of each entry, which follows from all before it
seal       a signature over a chain up to one of its links
keys       the key that seals, and the public keys that verify seals
verify     verifies the history of a run, without any service
audit      the entries of the audit log, and the verification of its chains
bundle     the history of a run as a file, which verifies elsewhere
run_file   a run as one file: its history, its recorded calls, its published memory
"""

from archon.history.audit import AuditEntry, AuditFault, AuditLink, ChainReport, verify_chain, verify_log
from archon.history.bundle import RunHistory, read_bundle, write_bundle
from archon.history.chain import RecordedStep, anchor_of, link_of
from archon.history.keys import AuditKey, PublicKeys
from archon.history.run_file import MemoryVersion, RunFile, RunManifest, open_run_file
from archon.history.seal import Seal, SealReason
from archon.history.verify import RunReport, verify_run

__all__ = [
    "AuditEntry",
    "AuditFault",
    "AuditKey",
    "AuditLink",
    "ChainReport",
    "MemoryVersion",
    "PublicKeys",
    "RecordedStep",
    "RunFile",
    "RunHistory",
    "RunManifest",
    "RunReport",
    "Seal",
    "SealReason",
    "anchor_of",
    "link_of",
    "open_run_file",
    "read_bundle",
    "verify_chain",
    "verify_log",
    "verify_run",
    "write_bundle",
]
