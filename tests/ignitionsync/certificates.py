"""The files of a depot: a certificate, its key, and what agents trust."""

from pathlib import Path

from syncline.sandbox.pki import Authority


def certificates(folder: Path, authority: Authority | None = None, *trusted: Authority) -> Path:
    """Write a folder with a certificate of an authority, and with what clients trust; return the folder."""
    by = authority or Authority.create()
    folder.mkdir(exist_ok=True)
    certificate, key = by.serving()
    (folder / "ca.crt").write_bytes(b"".join(one.certificate for one in (by, *trusted)))
    (folder / "tls.key").write_bytes(key)
    (folder / "tls.crt").write_bytes(certificate)
    return folder
