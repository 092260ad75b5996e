"""TenantPolicies over the namespaces of one test."""

from collections.abc import Callable, Iterator
from typing import Any

from tests.configmapsync.world import Json, Thing, World, conditions, until

from syncline.api.common import API_VERSION
from syncline.api.tenantpolicy import KIND, PLURAL

NAME_LABEL = "kubernetes.io/metadata.name"


class Policy(Thing):
    """A TenantPolicy over the namespace of the syncs, or over those with other labels."""

    def __init__(self, world: World, name: str = "", labels: dict[str, str] | None = None, **spec: Any) -> None:
        super().__init__(world.sandbox, f"/apis/{API_VERSION}/{PLURAL}", f"{world.name}{name}")
        selector = {"matchLabels": labels or {NAME_LABEL: world.home}}
        self.create(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": {"name": self.name},
                "spec": {"namespaceSelector": selector, **spec},
            }
        )

    def change(self, **spec: Any) -> None:
        """Edit the spec; None removes a field."""

        def apply(body: Json) -> None:
            body["spec"] = {key: value for key, value in {**body["spec"], **spec}.items() if value is not None}

        self.edit(apply)

    def becomes(self, reason: str, **wanted: int) -> Json:
        """Wait until Ready has this reason for the spec as it is now, and the counts are as wanted; return Ready."""

        def holds(body: Json) -> bool:
            status = body.get("status", {})
            ready = conditions(body).get("Ready", {})
            return (
                ready.get("reason") == reason
                and ready.get("observedGeneration") == body["metadata"]["generation"]
                and all(status.get(name, 0) == number for name, number in wanted.items())
            )

        return conditions(until(self.read, holds))["Ready"]

    def refusal(self, field: str, what: str) -> str:
        """Return how a message begins that names this policy."""
        return f"{what} is not allowed by TenantPolicy {self.name} (spec.{field}): "


Govern = Callable[..., Policy]
"""Writes a policy, for the time of a test."""


def governing(world: World) -> Iterator[Govern]:
    """Yield the function that writes policies over the namespace of the syncs, and delete them afterwards."""
    policies: list[Policy] = []

    def write(name: str = "", **spec: Any) -> Policy:
        policies.append(Policy(world, name, **spec))
        return policies[-1]

    yield write
    for policy in policies:
        policy.delete()
