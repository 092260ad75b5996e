"""TLS to servers that are not trusted with the time of the operator."""

import ssl

# Those of Python, without DHE: there the server chooses numbers whose computation takes a second, in the event loop.
_CIPHERS = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"


def client_context(authority: str | None = None) -> ssl.SSLContext:
    """Return the settings for a connection to a server that this authority (PEM) proves; None: those of the system.

    Raises `ssl.SSLError` and `ValueError` for an authority that cannot be read.
    """
    context = ssl.create_default_context(cadata=authority)
    context.set_ciphers(_CIPHERS)
    # With TLS 1.2, a server could have a connection negotiate again and again, and each takes milliseconds.
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context
