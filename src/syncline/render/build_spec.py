"""What is built of a tree of files, and how; and what comes out of it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from syncline.api.build import Build


class SourceFile(msgspec.Struct, frozen=True):
    """A file of the tree. One with a `link` is a symbolic link, and its content is not looked at."""

    content: bytes = b""
    executable: bool = False
    link: str | None = None


Files = Mapping[str, SourceFile]
"""Files by their paths from the root of the tree, such as `apps/web/deployment.yaml`."""


_TEMPLATE_MARKS = (b"{{", b"{%", b"{#")


def has_marks(content: bytes) -> bool:
    """Whether a file is anything but itself when it is rendered as a template."""
    return any(mark in content for mark in _TEMPLATE_MARKS)


class BuildSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How files become manifests. The same files and spec give the same result, unless a chart asks for chance."""

    namespace: str
    """What a chart is told its namespace is. Manifests that name none are left so."""
    release: str
    """The release's name, where `build.helm` names none."""
    tenant: str = ""
    """Whom the work is for: tenants share the builder's places fairly."""
    path: str = "."
    """A file, a folder or a glob in the tree."""
    build: Build = Build()
    """The kind of build, and what it takes. Of `build.helm` the values are not used: see `helm_values`."""
    template: bool = False
    """Whether files are templates."""
    values: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """What templates can name: as `values.NAME`, and as `NAME` where it is a word and not taken."""
    variables: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    """What else templates can name, such as `source`, `target` and `environment`."""
    helm_values: tuple[Mapping[str, Any], ...] = ()
    """Values over those of the chart; later ones win."""
    keys: Mapping[str, bytes] | None = None
    """The decryption Secret; None where the sync asks for no decryption."""
    sensitive: bool = False
    """Whether any of the values is from a Secret: then no message quotes what a tool says."""
    kube_version: str = ""
    """What charts take for the version of the cluster, such as `v1.37.1`; empty: what `helm` was built with."""
    api_versions: tuple[str, ...] = ()
    """What charts take for the cluster's APIs, such as `apps/v1/Deployment`, beside those that every cluster has."""


class Document(msgspec.Struct, frozen=True):
    """A manifest, the file that it is from, and its line there after templates; 0 where a tool does not tell."""

    manifest: dict[str, Any]
    file: str
    line: int


class DataFile(msgspec.Struct, frozen=True):
    """A file that is no manifest. `secret`: it was encrypted, so that its content belongs in a Secret."""

    path: str
    name: str
    content: bytes
    secret: bool


class Built(msgspec.Struct, frozen=True):
    """What a build gives. `notes` are worth telling the user: what was left out, and why."""

    documents: tuple[Document, ...]
    data: tuple[DataFile, ...] = ()
    notes: tuple[str, ...] = ()
