"""TLS for all connections of a process: one context, and the servers' sessions.

Resuming a session saves the certificates and the signature of the key exchange.
"""

import ssl
from collections import OrderedDict

# Some 5 KB each.
MAX_SESSIONS = 1000


class _Connection(ssl.SSLObject):
    def getpeercert(self, binary_form: bool = False) -> None:
        """Nothing: event loops ask after every handshake, and decoding the certificate of a large
        provider takes long. OpenSSL has checked it and its host by then."""


class ResumingContext(ssl.SSLContext):
    """State: the first session of each host, the oldest ones dropped."""

    sslobject_class = _Connection
    _sessions: OrderedDict[str, ssl.SSLSession]

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Event loops call this; they know nothing of sessions."""
        if isinstance(server_hostname, str):
            session = self._sessions.get(server_hostname, session)
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def remember(self, host: str, connection: ssl.SSLObject) -> None:
        """Call after an answer: TLS 1.3 sends the session after the handshake. Copying a session is
        not cheap, so a resumed one stays as it is."""
        if connection.session_reused:
            return
        session = connection.session
        if session is not None and session.has_ticket:
            self._sessions[host] = session
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)


def make_context() -> ResumingContext:
    """Made when it is needed, so that SSL_CERT_FILE is honoured."""
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    context._sessions = OrderedDict()
    context.load_default_certs()
    context.set_alpn_protocols(["http/1.1"])
    return context
