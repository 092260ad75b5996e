"""An OCI image of one layer: written to an archive, and unpacked from it. Nothing here needs a container engine."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any, BinaryIO

_CHUNK = 1 << 20
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def write_archive(
    archive: Path, root: Path, *, tag: str, architecture: str, created: str, config: dict[str, Any]
) -> str:
    """Write an archive with the content of a tar file as its only layer, and return the digest of the image.

    `tag`: the name of the image and its tag, `syncline:1.0`. The same content and the same arguments result in the same
    archive.
    """
    layer = archive.with_suffix(".layer")
    with root.open("rb") as content:
        diff_id = _digest(content)
    with root.open("rb") as content, layer.open("wb") as raw, _gzip(raw) as packed:
        shutil.copyfileobj(content, packed, _CHUNK)
    image = {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created": created, "created_by": "make image"}],
    }
    blobs: dict[str, bytes | Path] = {}
    with layer.open("rb") as content:
        described = {"mediaType": _LAYER, "digest": _digest(content), "size": layer.stat().st_size}
    blobs[described["digest"]] = layer
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _blob(blobs, image, _CONFIG),
        "layers": [described],
    }
    entry = _blob(blobs, manifest, _MANIFEST)
    # The first is the standard's; containerd, docker and kind take the second for the name of what they load.
    names = {
        "org.opencontainers.image.ref.name": tag.rpartition(":")[2],
        "io.containerd.image.name": f"docker.io/library/{tag}",
    }
    index = {"schemaVersion": 2, "manifests": [{**entry, "annotations": names}]}
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        for digest, blob in sorted(blobs.items()):
            _add(tar, "blobs/" + digest.replace(":", "/"), blob)
        _add(tar, "index.json", _json(index))
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
    layer.unlink()
    return str(entry["digest"])


def read_config(archive: Path) -> dict[str, Any]:
    """Return the configuration of the image in an archive."""
    with tarfile.open(archive) as tar:
        config = _read(tar, _manifest(tar)["config"]["digest"])
    return dict(json.loads(config))


def unpack(archive: Path, folder: Path) -> dict[str, Any]:
    """Unpack the image of an archive into a folder, with owners and modes, which needs root; return its configuration.

    Raises ValueError if a digest does not fit.
    """
    with tarfile.open(archive) as tar:
        manifest = _manifest(tar)
        config = json.loads(_read(tar, manifest["config"]["digest"]))
        for layer, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            with _open(tar, layer["digest"]) as packed, gzip.open(packed) as unpacked:
                content = _Digested(unpacked)
                with tarfile.open(fileobj=content, mode="r|") as content_tar:  # type: ignore[call-overload]
                    content_tar.extractall(folder, numeric_owner=True, filter="fully_trusted")  # noqa: S202 - ours
                while content.read(_CHUNK):
                    pass
            if content.digest != diff_id:
                raise ValueError(f"{archive}: the content of layer {layer['digest']} is not {diff_id}")
    return dict(config)


class _Digested:
    """A stream, and the digest of what was read from it."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._found = hashlib.sha256()

    def read(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        self._found.update(chunk)
        return chunk

    @property
    def digest(self) -> str:
        return f"sha256:{self._found.hexdigest()}"


def _manifest(tar: tarfile.TarFile) -> dict[str, Any]:
    opened = tar.extractfile("index.json")
    if opened is None:
        raise ValueError("the archive has no index")
    (entry,) = json.loads(opened.read())["manifests"]
    return dict(json.loads(_read(tar, entry["digest"])))


def _open(tar: tarfile.TarFile, digest: str) -> BinaryIO:
    opened = tar.extractfile("blobs/" + digest.replace(":", "/"))
    if opened is None:
        raise ValueError(f"the archive has no blob {digest}")
    return opened  # type: ignore[return-value]


def _read(tar: tarfile.TarFile, digest: str) -> bytes:
    with _open(tar, digest) as opened:
        content = opened.read()
    if _digest(io.BytesIO(content)) != digest:
        raise ValueError(f"the content of blob {digest} does not fit its digest")
    return content


def _blob(blobs: dict[str, bytes | Path], content: dict[str, Any], media_type: str) -> dict[str, Any]:
    text = _json(content)
    digest = _digest(io.BytesIO(text))
    blobs[digest] = text
    return {"mediaType": media_type, "digest": digest, "size": len(text)}


def _add(tar: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    member = tarfile.TarInfo(name)
    member.mode = 0o644
    if isinstance(content, Path):
        member.size = content.stat().st_size
        with content.open("rb") as opened:
            tar.addfile(member, opened)
    else:
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))


def _gzip(raw: BinaryIO) -> gzip.GzipFile:
    return gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6)


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()


def _digest(content: Any) -> str:
    found = hashlib.sha256()
    while chunk := content.read(_CHUNK):
        found.update(chunk)
    return f"sha256:{found.hexdigest()}"
