"""Creates the channels that the settings name."""

from __future__ import annotations

from collections.abc import Callable

from archon.errors import InvalidArgument
from archon_services.orchestrator.channels.mail import Mail, MailServer
from archon_services.orchestrator.channels.notice import Channel
from archon_services.orchestrator.channels.webhook import Webhook
from archon_services.orchestrator.settings import OrchestratorSettings


def create_channels(settings: OrchestratorSettings, now: Callable[[], float]) -> list[Channel]:
    """Returns the channels, none if no setting names one; `now` returns wall seconds. Raises InvalidArgument."""
    channels: list[Channel] = []
    if settings.webhook_url:
        if not settings.webhook_secret:
            raise InvalidArgument("webhook_secret: is missing: requests are signed with it")
        secret, insecure = settings.webhook_secret, settings.webhook_insecure
        channels.append(Webhook(settings.webhook_url, secret, now, insecure=insecure))
    if settings.smtp:
        server = MailServer.of(settings.smtp, settings.smtp_tls, settings.smtp_user, settings.smtp_password)
        recipients = tuple(address.strip() for address in settings.smtp_to.split(",") if address.strip())
        channels.append(Mail(server, settings.smtp_from, recipients))
    return channels
