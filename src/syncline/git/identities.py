"""Private keys for ssh. A key without a passphrase is only looked at: ssh itself reads it, in its own process.

A key with a passphrase is decrypted here, because ssh gets no passphrase. The file says how many rounds that takes, so
only files with few rounds are decrypted, and only keys of usual types get to a library.
"""

from collections.abc import Callable

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, padding, serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

from syncline.core.private_keys import (
    INTEGER,
    OBJECT,
    OCTETS,
    SEQUENCE,
    KeyRefused,
    PemKey,
    elements,
    one,
    read_pem,
    rsa_of,
    type_of,
)
from syncline.git.errors import CredentialError

MOST_ROUNDS = 200_000
"""The most rounds of PBKDF2; ssh-keygen and openssl write 2,048 by default."""
_OPENSSH = b"openssh-key-v1\0"
_NO_CIPHER = b"\0\0\0\4none"
_MOST_TRADITIONAL = 8 * 1024
_PBES2 = bytes.fromhex("2a864886f70d01050d")
_PBKDF2 = bytes.fromhex("2a864886f70d01050c")
_SHA1 = bytes.fromhex("2a864886f70d0207")
_HASHES: dict[bytes, Callable[[], hashes.HashAlgorithm]] = {
    _SHA1: hashes.SHA1,
    bytes.fromhex("2a864886f70d0209"): hashes.SHA256,
    bytes.fromhex("2a864886f70d020a"): hashes.SHA384,
    bytes.fromhex("2a864886f70d020b"): hashes.SHA512,
}
_CIPHERS = {  # AES in CBC mode, by the size of its key
    bytes.fromhex("608648016503040102"): 16,
    bytes.fromhex("608648016503040116"): 24,
    bytes.fromhex("60864801650304012a"): 32,
}


def read_identity(identity: bytes, password: bytes | None) -> bytes:
    """Return a private key for ssh without a passphrase. Raises `CredentialError`."""
    try:
        key = read_pem(identity)
        encrypted = key.encrypted or _is_encrypted_openssh(key)
        if encrypted is (password is None):
            raise CredentialError(
                "the key 'identity' of the Secret is encrypted and needs its passphrase under 'password', "
                "or it is not and must have none"
            )
        return identity if password is None else _decrypted(key, password)
    except UnsupportedAlgorithm:
        raise CredentialError(
            "the key 'identity' of the Secret is encrypted in an unsupported way; write it without a passphrase, or as"
            " PKCS#8 (ssh-keygen -p -m PKCS8)"
        ) from None
    except (ValueError, TypeError) as error:
        cause = f": it {error}" if isinstance(error, KeyRefused) else ""
        raise CredentialError(
            f"the key 'identity' of the Secret is not a private ssh key, or 'password' is not its passphrase{cause}"
        ) from None


def _is_encrypted_openssh(key: PemKey) -> bool:
    if key.label != "OPENSSH PRIVATE KEY":
        return False
    if not key.content.startswith(_OPENSSH):
        raise KeyRefused("is not a key of OpenSSH")
    return not key.content.startswith(_NO_CIPHER, len(_OPENSSH))


def _decrypted(key: PemKey, password: bytes) -> bytes:
    """Return a key in the format of OpenSSH, without a passphrase."""
    private: PrivateKeyTypes
    match key.label:
        case "ENCRYPTED PRIVATE KEY":
            content = _open_pbes2(key.content, password)
            if type_of(content) == "RSA":
                private = rsa_of(PemKey("PRIVATE KEY", content, encrypted=False, text=b""))
            else:
                private = serialization.load_der_private_key(content, None)
        case "RSA PRIVATE KEY" | "EC PRIVATE KEY" if len(key.text) <= _MOST_TRADITIONAL:
            # One round of a hash decrypts it, and the label says its type.
            private = serialization.load_pem_private_key(key.text, password, unsafe_skip_rsa_key_validation=True)
        case _:
            raise UnsupportedAlgorithm("another format")
    return private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )


def _open_pbes2(content: bytes, password: bytes) -> bytes:
    """Decrypt a key in PKCS #8, and return it in PKCS #8."""
    (_, algorithm), (_, encrypted) = _pair(one(content, SEQUENCE), SEQUENCE, OCTETS)
    (_, scheme), (_, parameters) = _pair(algorithm, OBJECT, SEQUENCE)
    if scheme != _PBES2:
        raise UnsupportedAlgorithm("another scheme")
    (_, derivation), (_, encryption) = _pair(parameters, SEQUENCE, SEQUENCE)
    (_, cipher), (_, start) = _pair(encryption, OBJECT, OCTETS)
    if cipher not in _CIPHERS:
        raise UnsupportedAlgorithm("another cipher")
    secret = _derived(derivation, password, _CIPHERS[cipher])
    decryptor = Cipher(algorithms.AES(secret), modes.CBC(start)).decryptor()
    unpadder = padding.PKCS7(algorithms.AES.block_size).unpadder()
    padded = decryptor.update(encrypted) + decryptor.finalize()
    return unpadder.update(padded) + unpadder.finalize()


def _derived(derivation: bytes, password: bytes, size: int) -> bytes:
    (_, function), (_, parameters) = _pair(derivation, OBJECT, SEQUENCE)
    parts = elements(parameters)
    if function != _PBKDF2 or [tag for tag, _ in parts[:2]] != [OCTETS, INTEGER]:
        raise UnsupportedAlgorithm("another derivation")
    rounds = int.from_bytes(parts[1][1], signed=True)
    if not 0 < rounds <= MOST_ROUNDS:
        raise KeyRefused(f"is encrypted with more than {MOST_ROUNDS} rounds of PBKDF2, or with less than one")
    named = [inside for tag, inside in parts[2:] if tag == SEQUENCE]
    name = elements(named[0])[0][1] if named else _SHA1
    if name not in _HASHES:
        raise UnsupportedAlgorithm("another hash")
    return PBKDF2HMAC(_HASHES[name](), size, parts[0][1], rounds).derive(password)


def _pair(content: bytes, *tags: int) -> list[tuple[int, bytes]]:
    """Return the two elements with these tags that a content has."""
    found = elements(content)
    if [tag for tag, _ in found] != list(tags):
        raise UnsupportedAlgorithm("another form")
    return found
