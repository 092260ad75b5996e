"""The values of Secrets, which are base64 on the wire."""

import base64
import binascii


def decoded(value: str) -> str | None:
    """Return the text that a value holds, or None where it holds none."""
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def encoded(text: str) -> str:
    """Return a text as the value of a Secret."""
    return base64.b64encode(text.encode()).decode()
