"""The framing of messages between the operator and its workers: msgpack with a length prefix."""

import msgspec

LENGTH_BYTES = 4

_encoder = msgspec.msgpack.Encoder()


def frame(message: msgspec.Struct) -> bytes:
    """Encode a message, with its length in front."""
    body = _encoder.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body
