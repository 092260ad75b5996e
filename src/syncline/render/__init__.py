"""User transforms of ConfigMap data, carried out as untrusted work in capped child processes.

`Renderer` is the way in: it hands the transforms of a sync to a child that has no network, no files, little memory and
little time, and gives back the data for each target. What the transforms mean is in `transforms`, which only the child
loads, with the engines; what it is denied is in `confinement`. Nothing here reads or writes a cluster, and nothing here
decides what is copied where.
"""

from syncline.render.errors import RenderError, RenderFailed, TransformError
from syncline.render.jobs import Source, Target
from syncline.render.pool import Renderer, Result

__all__ = [
    "RenderError",
    "RenderFailed",
    "Renderer",
    "Result",
    "Source",
    "Target",
    "TransformError",
]
