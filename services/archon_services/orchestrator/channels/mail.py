"""Sends notices by SMTP."""

from __future__ import annotations

import io
import re
import smtplib
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any, Final

from typing_extensions import override

from archon.errors import ArchonError, InvalidArgument, Unavailable
from archon.threads import on_thread
from archon_services.orchestrator.channels.notice import Notice
from archon_services.orchestrator.channels.webhook import is_loopback

SECONDS: Final = 10.0
"""The time of one step of the protocol."""

MAX_RECEIVED: Final = 64 * 1024
"""Bytes that a server may send for one mail. Its replies may have any number of lines."""

TLS: Final = ("starttls", "tls", "none")

_ENHANCED: Final = re.compile(rb"[245]\.\d{1,3}\.\d{1,3}(?![\d.])")
"""A status code of RFC 3463, with which a reply may begin."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where and how mail is sent. `tls` is `starttls`, `tls` from the first byte, or `none`, which is for this machine
    only."""

    host: str
    port: int
    tls: str = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, address: str, tls: str, user: str, password: str) -> MailServer:
        """Returns the server at host:port. Raises InvalidArgument."""
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise InvalidArgument("smtp: not host:port")
        if tls == "none" and not is_loopback(host):
            raise InvalidArgument("smtp_tls: none is for a server on this machine only")
        return cls(host, int(port), tls, user, password)


class Mail:
    """Sends a mail for each notice, with its id as Message-ID."""

    name = "mail"

    def __init__(self, server: MailServer, sender: str, recipients: tuple[str, ...]) -> None:
        """Raises InvalidArgument if there is no sender or no recipient, or one has a line break."""
        if not sender or not recipients:
            raise InvalidArgument("smtp_from and smtp_to: both are needed")
        for address in (sender, *recipients):
            if "@" not in address or any(character.isspace() for character in address):
                raise InvalidArgument("smtp_from and smtp_to: not mail addresses")
        self._server = server
        self._sender = sender
        self._recipients = recipients

    async def notify(self, notice: Notice) -> None:
        message = message_of(notice, self._sender, self._recipients)
        _, error = await on_thread(lambda: self._send(message), "mail")
        if error is not None:
            raise _error_of(error) from None

    async def close(self) -> None:
        """There is nothing to close: a connection lasts for one mail."""

    def _send(self, message: EmailMessage) -> None:
        server = self._server
        if server.tls == "tls":
            context = ssl.create_default_context()
            connection: smtplib.SMTP = _TlsConnection(server.host, server.port, timeout=SECONDS, context=context)
        else:
            connection = _Connection(server.host, server.port, timeout=SECONDS)
        with connection:
            if server.tls == "starttls":
                connection.starttls(context=ssl.create_default_context())
            if server.user:
                connection.login(server.user, server.password)
            connection.send_message(message)


class _Bounded:
    """The replies of a server, up to MAX_RECEIVED bytes."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._left = MAX_RECEIVED

    def readline(self, size: int) -> bytes:
        """Returns the next line of the reply. Raises ConnectionError if the server has sent more than MAX_RECEIVED
        bytes."""
        line = self._file.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise ConnectionError(f"the mail server sends more than {MAX_RECEIVED:,} bytes")
        return line

    def close(self) -> None:
        self._file.close()


class _Connection(smtplib.SMTP):
    file: Any

    @override
    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = _Bounded(self.sock.makefile("rb"))
        return super().getreply()


class _TlsConnection(_Connection, smtplib.SMTP_SSL):
    pass


def _error_of(error: BaseException) -> BaseException:
    """Returns an error without the words of the server, which may repeat the password."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        refused = "; ".join(f"{recipient}: {_code(*reply)}" for recipient, reply in error.recipients.items())
        return Unavailable(f"the mail server refuses the recipients ({refused})")
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return Unavailable(f"the mail server refuses the user or the password ({_code(*error.args)})")
    if isinstance(error, smtplib.SMTPResponseException):
        return Unavailable(f"the mail server answered {_code(error.smtp_code, error.smtp_error)}")
    if isinstance(error, OSError) and not isinstance(error, ArchonError):  # every other one of smtplib, too
        return Unavailable(f"the mail server cannot be used: {error.strerror or error}")
    return error


def _code(number: int, text: bytes | str) -> str:
    enhanced = _ENHANCED.match(text if isinstance(text, bytes) else text.encode(errors="replace"))
    return f"{number} {enhanced[0].decode()}" if enhanced else str(number)


def message_of(notice: Notice, sender: str, recipients: tuple[str, ...]) -> EmailMessage:
    """Returns the mail for a notice."""
    message = EmailMessage()
    message["Subject"] = f"{notice.role} asks: {' '.join(notice.text.split())[:80]}"
    message["From"], message["To"] = sender, ", ".join(recipients)
    message["Date"] = formatdate()
    message["Message-ID"] = f"<{notice.id.replace('/', '.').replace('#', '.')}@archon>"
    expires = datetime.fromtimestamp(notice.expires, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if notice.expires else ""
    lines = [
        notice.text,
        "",
        f"Run: {notice.run_id}",
        f"Approvers: {', '.join(notice.approvers) or 'anyone'}",
        *([f"Expires: {expires}"] if expires else []),
        f"To answer: {notice.command}",
    ]
    message.set_content("\n".join(lines))
    return message
