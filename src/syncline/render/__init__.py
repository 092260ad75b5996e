"""Untrusted work in capped child processes: transforms of data, templates of texts, and builds of manifests from files.

`Renderer` hands the transforms of a sync, or the template of a patch or name, to a child that has no network, no files,
little memory and little time, and gives back the data or the text for each target. `Builder` does the same for a tree
of files: decrypted, templated, built by kustomize, helm or jsonnet, and read as manifests; `inputs` tells which paths
of the tree a build depends on. Manifests are checked there too, against the schemas of a cluster. What a child is
denied is in `confinement`, and what a program that is not ours is denied, in `syncline.confinement`. Nothing here reads
or writes a cluster, and nothing is fetched but the key of a SOPS file from a key service (`key_services`). Nothing here
decides what goes where.
"""

from syncline.render.builder import Builder
from syncline.render.errors import BuildError, RenderError, RenderFailed, TransformError
from syncline.render.inputs import Reader, inputs
from syncline.render.jobs import Source, Target
from syncline.render.key_services import KeyServices
from syncline.render.pool import Renderer, Result, is_template
from syncline.render.recipe import Built, DataFile, Document, File, Files, Recipe
from syncline.render.toolrun import missing_walls
from syncline.render.tools import tool_versions
from syncline.render.validation import Candidate, InvalidObject, Schema, Validation

__all__ = [
    "BuildError",
    "Builder",
    "Built",
    "Candidate",
    "DataFile",
    "Document",
    "File",
    "Files",
    "InvalidObject",
    "KeyServices",
    "Reader",
    "Recipe",
    "RenderError",
    "RenderFailed",
    "Renderer",
    "Result",
    "Schema",
    "Source",
    "Target",
    "TransformError",
    "Validation",
    "inputs",
    "is_template",
    "missing_walls",
    "tool_versions",
]
