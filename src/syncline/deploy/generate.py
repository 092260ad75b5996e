"""Writes what is generated from the types: `deploy/` and `docs/reference/`. Run it as `make generate`."""

import sys
from pathlib import Path

from syncline.deploy import reference
from syncline.deploy.manifests import crds, everything
from syncline.deploy.text import to_yaml

_GENERATED = "# Written by `make generate` from the types in src/syncline; edit those.\n"


def files() -> dict[str, str]:
    """Return all generated files: path in the tree to text."""
    return {
        "deploy/crds.yaml": _GENERATED + to_yaml(crds()),
        "deploy/syncline.yaml": _GENERATED + to_yaml(everything()),
        **{f"docs/reference/{name}": text for name, text in reference.pages().items()},
    }


def main(root: Path) -> None:
    """Write all generated files below `root`."""
    for name, text in files().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]))
