"""The container of the agent in the pods of gateways, and the volume that earlier configurations ask for."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from syncline.api.quantity import Quantity


class SharedVolume(Struct, frozen=True, kw_only=True, rename="camel"):
    """A volume with the files of the repository. Reported as unsupported if set: agents get files from the operator."""

    storage_class_name: Annotated[
        str, Meta(max_length=253, description="The storage class. Empty: the default of the cluster.")
    ] = ""
    size: Annotated[Quantity, Meta(description="The size of the volume.")] = "1Gi"
    access_mode: Annotated[
        Literal["ReadWriteOnce", "ReadWriteMany"], Meta(description="The access mode of the volume.")
    ] = "ReadWriteMany"


class AgentImage(Struct, frozen=True, kw_only=True, rename="camel"):
    """The image of the agent. Absent fields have the values of the operator's own image."""

    repository: Annotated[
        str,
        Meta(
            max_length=512,
            pattern=r"^([a-zA-Z0-9][-a-zA-Z0-9._:/]*)?$",
            description="The repository of the image. Default: that of the operator.",
        ),
    ] = ""
    tag: Annotated[
        str,
        Meta(
            max_length=128,
            pattern=r"^([a-zA-Z0-9_][-a-zA-Z0-9_.]*)?$",
            description="The tag of the image. Default: that of the operator.",
        ),
    ] = ""
    digest: Annotated[
        str,
        Meta(
            max_length=135,
            pattern=r"^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})?$",
            description="The digest of the image, instead of the tag.",
        ),
    ] = ""
    pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"], Meta(description="When the image is pulled.")
    ] = "IfNotPresent"


ResourceQuantities = Annotated[
    dict[Annotated[str, Meta(max_length=63)], Quantity],
    Meta(max_length=10, description="Quantities by resource, such as `cpu: 50m` and `memory: 64Mi`."),
]


class AgentResources(Struct, frozen=True, kw_only=True, rename="camel"):
    """The resources of the container of the agent."""

    requests: ResourceQuantities = field(default_factory=dict)
    limits: ResourceQuantities = field(default_factory=dict)


class AgentOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """The container of the agent, in pods that are created from now on."""

    image: Annotated[AgentImage, Meta(description="The image of the agent.")] = field(default_factory=AgentImage)
    resources: Annotated[
        AgentResources,
        Meta(
            description="The resources of the container. Default: requests of 50m and 64Mi, limits of 200m and 256Mi."
        ),
    ] = field(default_factory=AgentResources)
