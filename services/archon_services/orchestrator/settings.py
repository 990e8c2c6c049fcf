"""Settings of the orchestrator."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from archon.loopback import has_port, with_port
from archon_services.common.settings import ServiceSettings, in_home
from archon_services.orchestrator.runs.limits import MAX_JOURNAL_BYTES


class OrchestratorSettings(ServiceSettings):
    """The orchestrator: accepts runs, drives them and reports their progress."""

    section: ClassVar[str] = "orchestrator"

    registry: str = Field(default="127.0.0.1:7101", description="host:port of the registry")
    memory: str = Field(
        default="127.0.0.1:7102", description="host:port of the memory service; empty: no shared memory"
    )
    journal: str = Field(
        default_factory=lambda: in_home("journal.db"),
        description="a file, postgresql://..., or 'memory', which does not survive the process",
    )
    journal_sync: Literal["full", "normal"] = Field(
        default="full",
        description="durability of a file: full survives a power cut, normal only the death of the process",
    )
    journal_reset: bool = Field(
        default=False,
        description="go on with any journal file, even if it is not the one of the last start: missing, "
        "empty, another one, or an older copy",
    )
    advertise: str = Field(
        default="",
        description="host or host:port where other orchestrators reach this one; empty: the address it listens on",
    )
    hook_key: str = Field(
        default_factory=lambda: in_home("hooks.key"),
        description="file of the key that seals the secrets of hooks, made when the first hook is created if there is "
        "none; the same for all orchestrators of a journal",
    )
    lease: float = Field(
        default=3.0,
        gt=0,
        le=60,
        description="seconds without a heartbeat after which other orchestrators take over the runs of this one; "
        "the same for all orchestrators of a journal",
    )
    silence_limit: float = Field(
        default=2.0,
        ge=1,
        le=60,
        description="seconds without a sign of life after which an agent with tasks is lost and its tasks are given to "
        "others; heartbeats are sent four times as often",
    )
    max_runs: int = Field(
        default=5_000, ge=1, description="maximum number of runs under way; more are refused with RESOURCE_EXHAUSTED"
    )
    max_paused_runs: int = Field(
        default=5_000,
        ge=0,
        description="maximum number of runs that are paused, or wait for a person, and do not count as under way; "
        "above it PauseRun is refused with RESOURCE_EXHAUSTED",
    )
    pause_timeout: float = Field(
        default=7 * 86_400.0,
        ge=0,
        description="seconds after which a run fails that is paused, or waits for a person, at a stretch; 0: no limit",
    )
    max_run_bytes: int = Field(
        default=MAX_JOURNAL_BYTES,
        ge=1_000_000,
        description="bytes of a run's journal (events, inputs, recorded calls) above which the run fails",
    )
    rules: str = Field(
        default="",
        description="a YAML file with the rules by which people are asked for approval; empty: no rules",
    )
    quotas: str = Field(
        default="",
        description="a YAML file with the quotas of tenants and identities, and the weights of tenants; empty: none",
    )
    webhook_url: str = Field(
        default="", description="URL that is notified of each question to a person; https, or http on this machine"
    )
    webhook_secret: str = Field(
        default="",
        repr=False,
        description="secret that signs these requests: at least 24 bytes, or whsec_ and base64",
    )
    webhook_insecure: bool = Field(default=False, description="allow an http URL of another machine")
    smtp: str = Field(default="", description="host:port of a mail server by which people are notified of questions")
    smtp_tls: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="encryption of the connection; none is for a server on this machine"
    )
    smtp_user: str = Field(default="", description="user name for the mail server; empty: no login")
    smtp_password: str = Field(default="", repr=False, description="password for the mail server")
    smtp_from: str = Field(default="", description="sender of these mails")
    smtp_to: str = Field(default="", description="their recipients, separated by commas")
    max_failures: int = Field(
        default=1_000,
        ge=0,
        description="failures of one class in a minute above which new runs are refused while most attempts fail; "
        "0: no limit",
    )
    compact_after: float = Field(
        default=86_400.0, gt=0, description="seconds after the end of a run until only its answers are kept"
    )
    delete_after: float = Field(
        default=30 * 86_400.0, gt=0, description="seconds after the end of a run until it is deleted"
    )
    retention: str = Field(
        default="",
        description="a YAML file with rules that say how long the details of which runs are kept, and their summaries; "
        "empty: the two times above for all runs",
    )
    learning: Literal["off", "on"] = Field(
        default="off",
        description="whether outcomes and ratings move the weights of roles, instances, tools and prompt variants, "
        "within 0.5 to 2; the same for all orchestrators of a journal",
    )
    learning_approve_above: float = Field(
        default=0.3,
        ge=0,
        le=2,
        description="change of a learned weight since a person's last approval above which a person is asked; "
        "0: at each change",
    )

    audit_key: str = Field(
        default="",
        description="file with the private key (Ed25519, PEM, mode 0600) that seals the histories of runs and the "
        "audit log; empty: they have links, and no seals",
    )
    audit_keep: float = Field(
        default=400 * 86_400.0, gt=0, description="seconds until an entry of the audit log is removed"
    )

    def advertised(self, address: str) -> str:
        """Returns where other replicas reach this process, which listens on `address`."""
        if not self.advertise or has_port(self.advertise):
            return self.advertise or address
        return with_port(self.advertise, int(address.rpartition(":")[2]))
