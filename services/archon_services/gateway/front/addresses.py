"""The addresses by which browsers reach the gateway: its own URL, and the hosts and origins that it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from archon.errors import CrossSiteRequest, InvalidArgument, PermissionDenied
from archon.loopback import is_loopback
from archon_services.gateway.settings import GatewaySettings

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Addresses:
    """The names of hosts that a request may have, and the pages that may send it.

    A page elsewhere can have a browser send requests to a server on the user's machine, also under a name of its own
    that resolves to it (DNS rebinding). Raises InvalidArgument for an invalid origin.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self._public = settings.public_url.rstrip("/")
        self._public_host = urlsplit(self._public).netloc.lower()
        self._listens_on_loopback = is_loopback(settings.host)
        self._own_host = settings.host.strip("[]").lower()
        self._scheme = "https" if settings.http_tls else "http"
        self.origins = tuple(_origin(each) for each in settings.origins.split(",") if each.strip())
        self.secure = (self._public or f"{self._scheme}://").startswith("https://")
        """Whether browsers reach the gateway by https."""

        self.strict = self.secure and not (self._listens_on_loopback and not self._public)
        """Whether browsers have to use https alone: not for `localhost`, which other servers have as well."""

    def own_url(self, host: str, scheme: str = "") -> str:
        """Returns the URL of the gateway, for a request with the header Host `host`. `scheme` is the one by which the
        client, or its proxy, was reached."""
        return self._public or f"{scheme or self._scheme}://{host}"

    def check_host(self, host: str) -> None:
        """Raises PermissionDenied if the gateway does not serve under the name in the header Host."""
        host = host.lower()
        name = _name(host)
        if self._public_host and host == self._public_host:
            return
        if self._listens_on_loopback and is_loopback(name):
            return
        if not self._listens_on_loopback and (not self._public or name == self._own_host):
            return
        raise PermissionDenied(f"the HTTP gateway is not served under the host {host[:100]!r}")

    def check_source(self, method: str, headers: Mapping[str, str], *, has_session: bool, scheme: str = "") -> None:
        """Raises CrossSiteRequest if a page elsewhere has caused a request that no token of its own goes with."""
        if "authorization" in headers:
            return  # no page has a browser add this header without an answer to a preflight request
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and origin in self.origins and not has_session:
            return
        navigates = method in _SAFE and headers.get("sec-fetch-mode") == "navigate"
        if site is not None:
            allowed = site == "same-origin" or navigates or (site == "none" and method in _SAFE)
        elif origin is not None:
            allowed = origin == self.own_url(headers.get("host", ""), scheme)
        else:
            allowed = method in _SAFE or not has_session  # a program, which has no cookie of a browser
        if not allowed:
            raise CrossSiteRequest(
                "a page of another site has sent this request: call with a token, or add its origin to ARCHON_ORIGINS",
                metadata={"origin": (origin or "")[:200]},
            )


def _name(host: str) -> str:
    """Returns the name or the address in a header Host, without its port; empty if it has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # half of an address of IPv6
        return ""


def _origin(text: str) -> str:
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.query:
        raise InvalidArgument(f"{text.strip()!r} is not an origin such as https://app.example.com")
    return f"{parts.scheme}://{parts.netloc}".lower()


def local_path(text: str) -> str:
    """Returns a path of this gateway to which a browser may be sent, `/` unless the text is one: a text of a request
    leads to no other site."""
    usable = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() and "\\" not in text
    return text if usable and len(text) <= 2_000 else "/"
