"""User transforms of data and templates of texts, carried out as untrusted work in capped child processes.

`Renderer` is the way in: it hands the transforms of a sync, or the template of a patch or name, to a child that has no
network, no files, little memory and little time, and gives back the data or the text for each target. What the
transforms mean is in `transforms`, which only the child loads, with the engines; what it is denied is in `confinement`.
Nothing here reads or writes a cluster, and nothing here decides what is copied where.
"""

from syncline.render.errors import RenderError, RenderFailed, TransformError
from syncline.render.jobs import Source, Target
from syncline.render.pool import Renderer, Result, is_template

__all__ = [
    "RenderError",
    "RenderFailed",
    "Renderer",
    "Result",
    "Source",
    "Target",
    "TransformError",
    "is_template",
]
