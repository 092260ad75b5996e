"""A PGP key of this run's own, and a file that it opens."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SECRET = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: sealed\nstringData:\n  password: open-sesame\n"


class Sealed(NamedTuple):
    """A private key, armoured, and what was encrypted for it."""

    key: bytes
    file: bytes


@contextmanager
def sealed() -> Iterator[Sealed]:
    """Make a key and encrypt a Secret for it with `sops`."""
    home = Path(tempfile.mkdtemp(prefix="pgp-"))  # its path is short: sockets are in it
    environment = {"PATH": os.environ["PATH"], "GNUPGHOME": str(home), "HOME": str(home)}

    def run(*command: str | Path) -> bytes:
        return subprocess.run(list(command), check=True, capture_output=True, env=environment).stdout

    gpg = ("gpg", "--batch", "--quiet", "--passphrase", "", "--pinentry-mode", "loopback")
    try:
        run(*gpg, "--quick-gen-key", "Alice <alice@example.com>", "rsa2048", "encr,sign", "never")
        listed = run(*gpg, "--with-colons", "--list-keys").decode().splitlines()
        name = next(line.split(":")[9] for line in listed if line.startswith("fpr:"))
        plain = home / "plain.yaml"
        plain.write_text(SECRET)
        sops = Path(sys.executable).with_name("sops")
        file = run(sops, "encrypt", "--pgp", name, "--encrypted-regex", "^stringData$", plain)
        yield Sealed(run(*gpg, "--armor", "--export-secret-keys", name), file)
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True, env=environment)
        shutil.rmtree(home)
