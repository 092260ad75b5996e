"""Decryption with the `sops` program, without network: for PGP keys, key groups, and other formats."""

import base64
import binascii
import posixpath
from collections.abc import Mapping

from syncline.render import tool_process, tools
from syncline.render.errors import BuildError
from syncline.render.sops import AGE_KEY_SUFFIX, PGP_KEY_SUFFIX, file_format
from syncline.render.temp_folders import TempFolders, write_private

_MAC_MISMATCH = 51
_NO_KEY = 128


async def decrypt(
    path: str,
    content: bytes,
    keys: Mapping[str, bytes],
    *,
    seconds: float,
    folders: TempFolders,
    unconfined: bool = False,
) -> bytes:
    """Return the decrypted file. Raises BuildError, and Overrun if it exceeds a limit.

    Keys are in files of a private folder, never in arguments. Key services are not used here: the program would follow
    the addresses, files and commands in their credentials.
    """
    program = tools.find("sops")
    async with folders.folder() as folder:
        kind = file_format(path)
        file = folder / f"file{posixpath.splitext(path)[1] if kind != 'binary' else ''}"
        await write_private(file, content)
        environment = {
            "SOPS_AGE_KEY_FILE": str(folder / "age"),
            "GNUPGHOME": str(folder / "gnupg"),
            # The program reads the keyring itself; it cannot ask for a passphrase.
            "SOPS_GPG_EXEC": str(folder / "none"),
        }
        age = b"\n".join(value for name, value in keys.items() if name.endswith(AGE_KEY_SUFFIX))
        await write_private(folder / "age", age)
        await write_private(folder / "gnupg" / "secring.gpg", _ring(keys))
        done = await tool_process.run(
            program,
            ["--disable-version-check", "decrypt", "--input-type", kind, "--output-type", kind, str(file)],
            folder,
            seconds=seconds,
            environment=environment,
            unconfined=unconfined,
        )
    if done.code == 0:
        return done.output
    raise BuildError(_cause(done.code), file=path)


def _cause(code: int) -> str:
    # The output of the program is not shown: it may quote the file.
    if code == _MAC_MISMATCH:
        return "was changed after it was encrypted; encrypt it again"
    if code == _NO_KEY:
        return (
            "no key of the decryption Secret decrypts it: names of age keys end in .agekey, names of PGP keys without"
            " a passphrase in .asc"
        )
    return f"sops cannot decrypt it (code {code}); try `sops decrypt` on it"


def _ring(keys: Mapping[str, bytes]) -> bytes:
    """Return the PGP keys as one keyring, without their armour."""
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
        raise BuildError(f"the key {name} of the decryption Secret is not a PGP key") from None
