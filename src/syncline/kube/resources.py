"""The resource of a kind: its API path on an API server."""

from functools import lru_cache
from urllib.parse import quote

from msgspec import Struct

from syncline.core.group_kind import GroupKind, GroupResource


class Resource(Struct, frozen=True):
    """A kind and its address. Built-in ones that we use are constants below; make others as needed."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> GroupKind:
        """The kind, whatever the version."""
        return GroupKind(self.group, self.kind)

    @property
    def group_resource(self) -> GroupResource:
        """The resource, whatever the version."""
        return GroupResource(self.group, self.plural)

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path of one object, or of all (in one namespace or everywhere).

        Raises `ValueError` for arguments that would reach another object: an empty or dotted segment, a namespace for a
        kind that has none, a namespaced object without its namespace.
        """
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.plural} are not in namespaces, yet {namespace!r} was given")
        if name is not None and namespace is None and self.namespaced:
            raise ValueError(f"{self.plural} {name!r}: which namespace?")
        if subresource is not None and name is None:
            raise ValueError(f"{self.plural}/{subresource}: of which object?")
        segments = ["apis", self.group] if self.group else ["api"]
        segments.append(self.version)
        if namespace is not None:
            segments += ["namespaces", namespace]
        segments.append(self.plural)
        segments += [part for part in (name, subresource) if part is not None]
        return "/" + "/".join(map(_segment, segments))


@lru_cache(maxsize=4096)
def _segment(text: str) -> str:
    if text in {"", ".", ".."}:
        raise ValueError(f"{text!r} cannot be part of an address")
    return quote(text, safe=":")


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
PODS = Resource("", "v1", "pods", "Pod")
SERVICEACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
