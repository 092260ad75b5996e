"""Adoption: takes over the fields of the tool that managed an object before.

A server-side apply removes a field that it no longer sends only if no other manager owns it. A tool that is no longer
used owns its fields forever, so a field that is later removed from Git would stay on the object. An adoption transfers
the fields of such tools to us once, as client-go's `csaupgrade` does from client-side to server-side apply. Fields of
controllers and webhooks stay theirs, and so do all fields that were written through `status` or `scale`.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any

from syncline.core.fields import APPLY, MANAGER, UPDATE, Json, Tree, join
from syncline.core.strip import is_allocated

FORMER_MANAGERS = frozenset(
    {
        # Flux
        "kustomize-controller",
        "helm-controller",
        "flux",
        # Argo CD
        "argocd-controller",
        "argocd-application-controller",
        # Helm
        "helm",
        "Helm",
        # kubectl, if it writes whole manifests or edits them; not label, annotate, rollout, scale and autoscale
        "kubectl",
        "kubectl-client-side-apply",
        "kubectl-create",
        "kubectl-edit",
        "kubectl-expose",
        "kubectl-last-applied",
        "kubectl-patch",
        "kubectl-replace",
        "kubectl-run",
        "kubectl-set",
    }
)
"""Field managers that write the manifests of a user or a repository, and stop when Syncline does."""

_LAST_APPLIED = "f:kubectl.kubernetes.io/last-applied-configuration"
_SCALED = "spec.replicas"


def hand_over(
    managed: Sequence[Mapping[str, Any]], sent: Mapping[str, Any], kind: str, manager: str = MANAGER
) -> list[Json] | None:
    """Return `metadata.managedFields` with the fields of former managers as ours by apply; None: there are none.

    `managed` is the list of the live object, `sent` the object to apply, `kind` such as `Deployment.apps`. Some fields
    that are not sent stay: labels, annotations and other metadata, the number of replicas, which an autoscaler may use,
    and values that the server has allocated.

    Sets of fields of different API versions cannot be merged: only the version of our own entry, or else the newest
    one, is handed over.
    """
    former = [entry for entry in managed if _is_former(entry)]
    mine = [entry for entry in managed if entry.get("manager") == manager and not entry.get("subresource")]
    if not former:
        return None
    version = (mine or sorted(former, key=_time))[-1].get("apiVersion")
    former = [entry for entry in former if entry.get("apiVersion") == version]
    mine = [entry for entry in mine if entry.get("apiVersion") == version]
    ours: Tree = {}
    result = [deepcopy(dict(entry)) for entry in managed if entry not in former and entry not in mine]
    for entry in mine:
        join(ours, deepcopy(entry.get("fieldsV1") or {}))
    for entry in former:
        taken, left = _split(entry.get("fieldsV1") or {}, sent, kind)
        join(ours, taken)
        if left:
            result.append({**deepcopy(dict(entry)), "fieldsV1": left})
    newest = max((*former, *mine), key=_time)
    result.append(
        {
            "manager": manager,
            "operation": APPLY,
            "apiVersion": version,
            **({"time": newest["time"]} if newest.get("time") else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": ours,
        }
    )
    return result


def hand_over_patch(managed: Sequence[Mapping[str, Any]], uid: str, version: str) -> list[Json]:
    """Return the JSON patch that writes the result of `hand_over`, unless the object has changed since."""
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/metadata/managedFields", "value": list(managed)},
    ]


def _is_former(entry: Mapping[str, Any]) -> bool:
    """Whether an entry is of a former tool. A manager that wrote kubectl's annotation counts as kubectl."""
    if entry.get("subresource"):
        return False
    if entry.get("manager") in FORMER_MANAGERS:
        return True
    annotations = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {}
    return entry.get("operation") == UPDATE and _LAST_APPLIED in annotations


def _time(entry: Mapping[str, Any]) -> str:
    return str(entry.get("time") or "")


def _split(tree: Mapping[str, Any], sent: Mapping[str, Any], kind: str) -> tuple[Tree, Tree]:
    """Split the fields of a former manager into those that are handed over and those that stay."""
    taken: Tree = {}
    left: Tree = {}
    for element, below in tree.items():
        if element == "f:metadata":
            mine, theirs = _split_metadata(below, sent.get("metadata") or {})
        elif element == "f:status":
            mine, theirs = {}, {element: below}
        else:
            mine, theirs = _split_field(element, below, sent, kind, "")
        taken |= mine
        left |= theirs
    return taken, left


def _split_metadata(tree: Mapping[str, Any], sent: Mapping[str, Any]) -> tuple[Tree, Tree]:
    taken: Tree = {}
    left: Tree = {}
    for element, below in tree.items():
        if element not in ("f:labels", "f:annotations"):
            left[element] = deepcopy(below)
            continue
        keys: Collection[str] = sent.get(element[2:]) or ()
        mine = {key: deepcopy(value) for key, value in below.items() if key[2:] in keys}
        theirs = {key: deepcopy(value) for key, value in below.items() if key != "." and key not in mine}
        taken |= {element: mine} if mine else {}
        left |= {element: theirs} if theirs else {}
    return ({"f:metadata": taken} if taken else {}), ({"f:metadata": left} if left else {})


def _split_field(element: str, below: Mapping[str, Any], sent: Any, kind: str, path: str) -> tuple[Tree, Tree]:
    """Split one field; `sent` is the map around it as it is sent."""
    name = element[2:]
    here = f"{path}.{name}" if path else name
    value = sent.get(name) if isinstance(sent, Mapping) and element[0] == "f" else None
    if value is None and (here == _SCALED or is_allocated(kind, here)):
        return {}, {element: deepcopy(dict(below))}
    taken: Tree = {}
    left: Tree = {}
    for one, deeper in below.items():
        mine, theirs = ({one: {}}, {}) if one == "." else _split_field(one, deeper, value, kind, here)
        taken |= mine
        left |= theirs
    # A map that contains only fields that stay is not handed over.
    whole = not left or bool(taken.keys() - {"."})
    return ({element: taken} if whole else {}), ({element: left} if left else {})
