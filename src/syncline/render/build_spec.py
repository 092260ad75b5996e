"""The specification of a build, and its result."""

from collections.abc import Mapping
from typing import Any

import msgspec

from syncline.api.build import Build


class SourceFile(msgspec.Struct, frozen=True):
    """A file of the tree. With a `link`, it is a symbolic link, and its content is ignored."""

    content: bytes = b""
    executable: bool = False
    link: str | None = None


Files = Mapping[str, SourceFile]
"""Files by their paths from the root of the tree, such as `apps/web/deployment.yaml`."""


_TEMPLATE_MARKS = (b"{{", b"{%", b"{#")


def has_marks(content: bytes) -> bool:
    """Whether the file contains marks of templates."""
    return any(mark in content for mark in _TEMPLATE_MARKS)


class BuildSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How files become manifests. The same files and spec give the same result, unless a chart uses random values."""

    namespace: str
    """The namespace for a chart. Manifests without a namespace stay without one."""
    release: str
    """The name of the release, if `build.helm` has none."""
    tenant: str = ""
    """The tenant of the work: tenants share the workers fairly."""
    path: str = "."
    """A file, a folder or a glob in the tree."""
    build: Build = Build()
    """The type of the build and its settings. The values in `build.helm` are not used: see `helm_values`."""
    template: bool = False
    """Whether files are templates."""
    values: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The values for templates: as `values.NAME`, and as `NAME` if it is an unused identifier."""
    variables: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    """Other variables for templates, such as `source`, `target` and `environment`."""
    helm_values: tuple[Mapping[str, Any], ...] = ()
    """Values that override those of the chart; later ones win."""
    keys: Mapping[str, bytes] | None = None
    """The decryption Secret; None if the sync has no decryption."""
    sensitive: bool = False
    """Whether a value is from a Secret: then no message quotes the output of a tool."""
    kube_version: str = ""
    """The version of the cluster for charts, such as `v1.37.1`; empty: the default of `helm`."""
    api_versions: tuple[str, ...] = ()
    """The APIs of the cluster for charts, such as `apps/v1/Deployment`, in addition to the built-in APIs."""


class Document(msgspec.Struct, frozen=True):
    """A manifest, its file, and its line there after templates; 0 if a tool does not report it."""

    manifest: dict[str, Any]
    file: str
    line: int


class DataFile(msgspec.Struct, frozen=True):
    """A file that is not a manifest. `secret`: it was encrypted, so its content belongs in a Secret."""

    path: str
    name: str
    content: bytes
    secret: bool


class Built(msgspec.Struct, frozen=True):
    """The result of a build. `notes` are for the user: the parts that were left out, and why."""

    documents: tuple[Document, ...]
    data: tuple[DataFile, ...] = ()
    notes: tuple[str, ...] = ()
