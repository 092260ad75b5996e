"""Decryption by the `sops` program, for keys that are not age's: PGP, shares of keys, and key services."""

import base64
import binascii
import posixpath
from collections.abc import Mapping, Sequence

from syncline.render import toolrun, tools
from syncline.render.errors import BuildError
from syncline.render.sops import AGE_KEY_SUFFIX, PGP_KEY_SUFFIX, file_format
from syncline.render.workspace import Workshop, write_private

# What SOPS calls a service, which key of the Secret holds its credential, and which variable tells the program of it.
# Not those whose address is whatever the file says: a credential would go there.
_SERVICES = {
    "kms": ("aws-kms", "AWS_SHARED_CREDENTIALS_FILE"),
    "gcp_kms": ("gcp-kms", "GOOGLE_APPLICATION_CREDENTIALS"),
}
_MAC_MISMATCH = 51
_NO_KEY = 128


async def decrypt(
    path: str,
    content: bytes,
    keys: Mapping[str, bytes],
    *,
    services: Sequence[str],
    seconds: float,
    workshop: Workshop,
) -> bytes:
    """Return a file as it was before it was encrypted; raises BuildError, and Overrun where it takes too much.

    Keys go into files of a folder that only this user can look into, never into arguments. A key service is asked only
    with a credential of the Secret: without one the program would go by the identity of the machine.
    """
    for service in services:
        _check(service, keys, path)
    program = tools.find("sops")
    async with workshop.folder() as folder:
        kind = file_format(path)
        file = folder / f"file{posixpath.splitext(path)[1] if kind != 'binary' else ''}"
        await write_private(file, content)
        environment = {
            "SOPS_AGE_KEY_FILE": str(folder / "age"),
            "GNUPGHOME": str(folder / "gnupg"),
            # The program reads the ring of keys itself; there is nobody to ask for a passphrase.
            "SOPS_GPG_EXEC": str(folder / "none"),
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        age = b"\n".join(value for name, value in keys.items() if name.endswith(AGE_KEY_SUFFIX))
        await write_private(folder / "age", age)
        await write_private(folder / "gnupg" / "secring.gpg", _ring(keys))
        for service in services:
            name, variable = _SERVICES[service]
            await write_private(folder / name, keys[name])
            environment[variable] = str(folder / name)
        done = await toolrun.run(
            program,
            ["--disable-version-check", "decrypt", "--input-type", kind, "--output-type", kind, str(file)],
            folder,
            seconds=seconds,
            environment=environment,
            network=bool(services),
        )
    if done.code == 0:
        return done.output
    raise BuildError(_cause(done.code), file=path)


def _cause(code: int) -> str:
    # What the program says is not told: it may quote the file.
    if code == _MAC_MISMATCH:
        return "was changed after it was encrypted; encrypt it anew"
    if code == _NO_KEY:
        return (
            "no key of the decryption Secret opens it: age keys are under names that end in .agekey, "
            "PGP keys without a passphrase under names that end in .asc"
        )
    return f"sops cannot decrypt it (code {code}); try `sops decrypt` on it"


def _check(service: str, keys: Mapping[str, bytes], path: str) -> None:
    if service not in _SERVICES:
        raise BuildError(
            f"is encrypted with the key service {service}, which is not asked: its address is what the file says;"
            " encrypt the file for an age key too",
            file=path,
        )
    name, _ = _SERVICES[service]
    if name not in keys:
        raise BuildError(
            f"a key service opens it ({service}): put its credential into the decryption Secret, as {name}", file=path
        )


def _ring(keys: Mapping[str, bytes]) -> bytes:
    """Give the PGP keys as one ring, out of their armour."""
    ring = b""
    for name in sorted(keys):
        if name.endswith(PGP_KEY_SUFFIX):
            ring += _without_armour(name, keys[name])
    return ring


def _without_armour(name: str, content: bytes) -> bytes:
    if not content.lstrip().startswith(b"-----BEGIN PGP"):
        return content
    lines = content.decode("ascii", "replace").strip().splitlines()
    # Headers end with an empty line; the line that begins with = is a checksum.
    body = lines[lines.index("") + 1 : -1] if "" in lines else lines[1:-1]
    try:
        return base64.b64decode("".join(line.strip() for line in body if not line.startswith("=")), validate=True)
    except binascii.Error:
        raise BuildError(f"the key {name} of the decryption Secret is no PGP key") from None
