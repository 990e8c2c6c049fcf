"""Webhook, mail, and the notifier, against real local servers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import resource
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace

import pytest

from archon.errors import InvalidArgument, Unavailable
from archon_services.orchestrator.channels import Notice, Notifier, notifier
from archon_services.orchestrator.channels.create import create_channels
from archon_services.orchestrator.channels.mail import Mail, MailServer
from archon_services.orchestrator.channels.webhook import Webhook, key_of
from archon_services.orchestrator.settings import OrchestratorSettings
from tests.fixtures.hook_server import HookServer
from tests.fixtures.smtp_server import SmtpServer
from tests.fixtures.waiting import eventually

SECRET = "a secret of this test only"
NOTICE = Notice(
    "r.1/t1#0", "r", "r.1/t1", "clerk", "Pay \N{EURO SIGN} 5?\nNow.", ("ann",), 1_800_000_000.0, "archon respond r"
)


def no_sleep(slept: list[float]) -> object:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    return sleep


async def until(condition: object, within: float = 10.0) -> None:
    async def look() -> bool:
        return bool(condition())  # type: ignore[operator]

    await eventually(look, within)


async def test_a_webhook_is_signed_and_sent_until_it_is_accepted() -> None:
    slept: list[float] = []
    async with HookServer([500, 503]) as server:
        webhook = Webhook(server.url, SECRET, lambda: 1_700_000_000.9)
        line = Notifier([webhook], lambda run, question: True, sleep=no_sleep(slept), uniform=max)  # type: ignore[arg-type]
        line.start()
        line.notify([NOTICE, NOTICE])
        await until(lambda: len(server.requests) == 3)
        await line.close()
    headers, body = server.requests[-1]
    assert [request[0]["webhook-id"] for request in server.requests] == [NOTICE.id] * 3
    signed = f"{NOTICE.id}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.digest(SECRET.encode(), signed, hashlib.sha256)).decode()
    assert (headers["webhook-timestamp"], headers["webhook-signature"]) == ("1700000000", f"v1,{expected}")
    data = json.loads(body)["data"]
    assert (data["text"], data["approvers"], data["command"]) == (NOTICE.text, ["ann"], NOTICE.command)
    assert slept == [0.5, 1.0], "the bound of the jitter doubles"


async def endless(head: bytes, line: bytes) -> AsyncGenerator[tuple[int, list[int]]]:
    """Yields the port of a server that never stops answering, and the bytes that it has sent to each client."""
    sent: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent.append(0)
        client = len(sent) - 1
        with suppress(ConnectionError):
            writer.write(head)
            while not writer.is_closing():
                writer.write(line)
                await writer.drain()
                sent[client] += len(line)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], sent


@pytest.mark.parametrize("status", [200, 500])
async def test_the_body_of_an_answer_is_not_read(status: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with aclosing(endless(f"HTTP/1.1 {status} X\r\n\r\n".encode(), b"x" * 1_000_000)) as servers:
        port, sent = await anext(servers)
        webhook = Webhook(f"http://127.0.0.1:{port}/", SECRET, lambda: 0.0)
        async with asyncio.timeout(10):
            with suppress(Unavailable):
                await webhook.notify(NOTICE)
        await webhook.close()
    assert sum(sent) < 64_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


@pytest.mark.parametrize("head", [b"220-", b"220 ready\r\n250-here\r\n", b""])
async def test_what_a_mail_server_sends_is_bounded(head: bytes) -> None:
    async with aclosing(endless(head, b"250-" + b"x" * 4_000 + b"\r\n")) as servers:
        port, sent = await anext(servers)
        mail = Mail(MailServer.of(f"127.0.0.1:{port}", "none", "", ""), "mesh@here", ("ann@here",))
        async with asyncio.timeout(10):
            with pytest.raises(Unavailable, match="sends more than 65,536 bytes"):
                await mail.notify(NOTICE)
        await until(lambda: len(sent) == 1)
        assert sum(sent) < 64_000_000


@pytest.mark.parametrize("verb", ["EHLO", "AUTH", "MAIL", "RCPT", "DATA"])
async def test_words_of_a_mail_server_are_in_no_log(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    password = "the password of this test"
    words = {"HELO": f"550 5.7.1 {password}", verb: f"550 5.7.1 you said {password}"}
    async with SmtpServer(login=("ann", password), words=words) as server:
        mail = Mail(MailServer.of(server.address, "none", "ann", password), "mesh@here", ("ann@here",))
        line = Notifier([mail], lambda run, question: True, sleep=no_sleep([]))  # type: ignore[arg-type]
        line.start()
        line.notify([NOTICE])
        await until(lambda: "is given up" in caplog.text)
        await line.close()
    assert password not in caplog.text
    assert "550 5.7.1" in caplog.text


async def test_a_redirect_is_not_followed() -> None:
    async with HookServer([302]) as server:
        webhook = Webhook(server.url, SECRET, lambda: 0.0)
        with pytest.raises(Unavailable, match="302"):
            await webhook.notify(NOTICE)
        await webhook.close()
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("http://example.org/hook", SECRET),
        ("ftp://127.0.0.1/hook", SECRET),
        ("https:///hook", SECRET),
        ("https://example.org/hook", "short"),
        ("https://example.org/hook", "whsec_no base64"),
    ],
)
async def test_an_unsafe_webhook_is_refused(url: str, secret: str) -> None:
    with pytest.raises(InvalidArgument):
        Webhook(url, secret, lambda: 0.0)


def test_a_secret_may_be_base64() -> None:
    assert key_of("whsec_" + base64.b64encode(b"x" * 24).decode()) == b"x" * 24


async def test_a_mail_says_how_to_answer() -> None:
    async with SmtpServer(login=("ann", "pw")) as server:
        mail = Mail(MailServer.of(server.address, "none", "ann", "pw"), "mesh@here", ("ann@here", "bob@here"))
        await mail.notify(NOTICE)
        with pytest.raises(Unavailable, match=r"refuses the user or the password \(535\)"):
            wrong = MailServer.of(server.address, "none", "ann", "other")
            assert "other" not in repr(wrong)
            await Mail(wrong, "mesh@here", ("ann@here",)).notify(NOTICE)
    (received,) = server.mails
    assert (received["To"], received["Message-ID"]) == ("ann@here, bob@here", "<r.1.t1.0@archon>")
    text = received.get_payload(decode=True).decode()  # type: ignore[union-attr]
    assert "Pay \N{EURO SIGN} 5?" in text
    assert "To answer: archon respond r" in text


async def test_a_mail_that_is_refused_is_sent_again() -> None:
    async with SmtpServer(failures=2) as server:
        mail = Mail(MailServer.of(server.address, "none", "", ""), "mesh@here", ("ann@here",))
        line = Notifier([mail], lambda run, question: True, sleep=no_sleep([]))  # type: ignore[arg-type]
        line.start()
        line.notify([NOTICE])
        await until(lambda: server.mails)
        await line.close()
    assert server.refused == 2


async def test_mail_without_encryption_stays_on_this_machine() -> None:
    for address, tls in (("mail.example.org:25", "none"), ("mail.example.org", "tls"), ("h:0", "tls")):
        with pytest.raises(InvalidArgument):
            MailServer.of(address, tls, "", "")
    async with SmtpServer() as server:  # which offers no STARTTLS: nothing is sent in the clear
        with pytest.raises(Unavailable, match="STARTTLS extension not supported"):
            await Mail(MailServer.of(server.address, "starttls", "", ""), "a@b", ("c@d",)).notify(NOTICE)
    assert server.mails == []


class Channel:
    """A channel that raises for some notices, and waits on demand."""

    name = "test"

    def __init__(self, *failing: str) -> None:
        self.sent: list[str] = []
        self.tried = 0
        self.go = asyncio.Event()
        self.go.set()
        self._failing = failing

    async def notify(self, notice: Notice) -> None:
        self.tried += 1
        await self.go.wait()
        if notice.id in self._failing:
            raise RuntimeError("broken")
        self.sent.append(notice.id)

    async def close(self) -> None:
        self.go.set()


async def test_a_notice_that_fails_is_given_up_and_harms_no_other() -> None:
    bad, good = Channel("a"), Channel()
    line = Notifier([bad, good], lambda run, question: True, sleep=no_sleep([]))  # type: ignore[arg-type]
    line.start()
    line.notify(replace(NOTICE, id=id_) for id_ in "ab")
    await until(lambda: bad.sent == ["b"] and good.sent == ["a", "b"])
    assert bad.tried == notifier.TRIES + 1
    await line.close()


async def test_an_answered_question_is_not_sent_any_more() -> None:
    channel = Channel()
    line = Notifier([channel], lambda run, question: question != "r.1/t1", sleep=no_sleep([]))  # type: ignore[arg-type]
    line.start()
    line.notify([NOTICE, replace(NOTICE, id="open", input_id="r.1/t2")])
    await until(lambda: channel.sent == ["open"])
    assert channel.tried == 1
    await line.close()


async def test_the_queue_of_a_channel_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "MAX_QUEUED", 3)
    channel = Channel()
    channel.go.clear()
    line = Notifier([channel], lambda run, question: True)
    line.start()
    line.notify([replace(NOTICE, id="first")])
    await until(lambda: channel.tried == 1)
    line.notify(replace(NOTICE, id=f"n{number}") for number in range(10))
    channel.go.set()
    await until(lambda: len(channel.sent) == 4)
    assert channel.sent == ["first", "n7", "n8", "n9"]
    await line.close()


async def test_closing_ends_a_delivery() -> None:
    channel = Channel()
    channel.go.clear()
    line = Notifier([channel], lambda run, question: True)
    line.start()
    line.notify([NOTICE])
    await until(lambda: channel.tried == 1)
    async with asyncio.timeout(60):
        await line.close()
    assert channel.sent == []


def test_settings_create_channels_and_are_checked() -> None:
    hook = {"webhook_url": "https://example.org/x", "webhook_secret": SECRET}
    mail = {"smtp": "localhost:25", "smtp_tls": "none", "smtp_from": "a@b", "smtp_to": "c@d, e@f"}
    created = create_channels(OrchestratorSettings(**hook, **mail), lambda: 0.0)  # type: ignore[arg-type]
    assert [channel.name for channel in created] == ["webhook", "mail"]
    assert SECRET not in repr(OrchestratorSettings(**hook))  # type: ignore[arg-type]
    for wrong in ({"webhook_url": "https://example.org/x"}, {**mail, "smtp_to": ""}, {**mail, "smtp_to": "x y@z"}):
        with pytest.raises(InvalidArgument):
            create_channels(OrchestratorSettings(**wrong), lambda: 0.0)  # type: ignore[arg-type]
