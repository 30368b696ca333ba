"""Errors of sockets and TLS → ours, with a reason that can be grouped: never a host or an address.

Foreign errors enter here and go no further.
"""

import errno
import ssl

from manyhands.worker.net.fetcher import (
    FetchError,
    ForbiddenAddress,
    PermanentFetchError,
    TemporaryFetchError,
)

# OpenSSL's numbers of what is wrong with a certificate.
_CERTIFICATE_FAULTS = {
    9: "not valid yet",
    10: "expired",
    18: "self-signed",
    19: "self-signed",
    20: "unknown issuer",
    21: "unknown issuer",
    23: "revoked",
    62: "of another host",
    64: "of another host",
}
_OS_REASONS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection closed",
    errno.EPIPE: "connection closed",
    errno.ECONNABORTED: "connection closed",
    errno.ETIMEDOUT: "time-out: connect",
    errno.EHOSTUNREACH: "host unreachable",
    errno.ENETUNREACH: "host unreachable",
    errno.EMFILE: "no free descriptors",
    errno.ENFILE: "no free descriptors",
}


def time_out(stage: str, seconds: float) -> TemporaryFetchError:
    reason = f"time-out: {stage}"
    return TemporaryFetchError(f"{reason}: not done in {seconds:g} s", reason=reason)


def bad_answer(what: str) -> TemporaryFetchError:
    """`what` is our own wording, never text from the server."""
    reason = f"bad answer: {what}"
    return TemporaryFetchError(reason, reason=reason)


def headers_too_large() -> TemporaryFetchError:
    return TemporaryFetchError("headers too large")


def too_little_body() -> TemporaryFetchError:
    """Of what came after the head: sizes of chunks and trailers without end."""
    return bad_answer("too much that is no body")


def connection_closed() -> TemporaryFetchError:
    return TemporaryFetchError(
        "the server closed the connection without an answer", reason="connection closed"
    )


def of_certificate(error: ssl.SSLCertVerificationError) -> PermanentFetchError:
    fault = _CERTIFICATE_FAULTS.get(error.verify_code, "not trusted")
    return PermanentFetchError(
        f"the certificate is not accepted: {error.verify_message or fault}",
        reason=f"tls: certificate not accepted: {fault}",
    )


def of_os_error(error: OSError) -> FetchError:
    """Whatever a socket, a connection or a TLS handshake can raise."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return of_certificate(error)
    if isinstance(error, ssl.SSLError):
        return TemporaryFetchError(f"TLS: {error}", reason="tls: handshake failed")
    if error.errno == errno.EPERM:
        # By the socket factory, or by a firewall.
        return ForbiddenAddress(f"not permitted: {error}")
    reason = _OS_REASONS.get(error.errno or 0, "connection failed")
    return TemporaryFetchError(f"Connection: {error}", reason=reason)
