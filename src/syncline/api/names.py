"""The formats of the names of objects, namespaces and kinds."""

from typing import Annotated

from syncline.api.rules import text

NAMESPACE = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_OBJECT = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

NamespaceName = Annotated[
    str,
    text(
        NAMESPACE,
        'write the name of one namespace: lowercase letters, digits and "-", such as team-a',
        max_length=63,
    ),
]
NamespacePattern = Annotated[
    str,
    text(
        r"^[-a-z0-9*?]+$",
        'write names or globs of namespaces: lowercase letters, digits, "-", "*" and "?", such as team-*',
        max_length=63,
    ),
]
ObjectName = Annotated[
    str,
    text(
        _OBJECT,
        'write the name of one object: lowercase letters, digits, "-" and "."',
        max_length=253,
    ),
]
AnyName = Annotated[
    str,
    text(
        # Some kinds, such as those of RBAC, allow more characters than DNS. No character is allowed that changes the
        # URL.
        r"^[-._:@a-zA-Z0-9]*[a-zA-Z0-9][-._:@a-zA-Z0-9]*$",
        'write the name of one object: letters, digits, "-", "_", ".", ":" and "@"',
        max_length=253,
    ),
]
ApiVersion = Annotated[
    str,
    text(
        r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z]([-a-z0-9]*[a-z0-9])?$",
        "write an apiVersion, such as v1 or apps/v1",
        max_length=316,
    ),
]
KindName = Annotated[
    str,
    text(
        r"^[A-Z][a-zA-Z0-9]*$",
        "write a kind as in manifests, such as ConfigMap",
        max_length=63,
    ),
]
MetadataKeyPattern = Annotated[
    str,
    text(
        r"^[-._/a-zA-Z0-9*?]+$",
        'write keys or globs of keys: letters, digits, "-", "_", ".", "/", "*" and "?", such as example.com/*',
        max_length=316,
    ),
]
Group = Annotated[
    str,
    text(
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$",
        'write an API group, such as apps or example.com; write "" for the core group',
        min_length=0,
        max_length=253,
    ),
]
VersionName = Annotated[
    str,
    text(
        r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "write one version of the API group, such as v1 or v1beta1",
        max_length=63,
    ),
]
PluralName = Annotated[
    str,
    text(
        r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "write a resource as `kubectl api-resources` shows it, in lower case and plural, such as deployments; write"
        " its group in group",
        max_length=63,
    ),
]
ResourceName = Annotated[
    str,
    text(
        r"^[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "write a resource with its group, in lower case and plural, such as deployments.apps; without a group for the"
        " core group, such as configmaps",
        max_length=317,
    ),
]
WorkspacePath = Annotated[
    str,
    text(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        'write the path of one workspace, such as root:team: names of lowercase letters, digits and "-", with ":"'
        " between them",
        max_length=512,
    ),
]
