"""Manifests as YAML for people: in block style, in the order of the fields, with texts of several lines unchanged."""

from collections.abc import Iterable
from typing import Any

import yaml

Manifest = dict[str, Any]


def to_yaml(manifests: Iterable[Manifest]) -> str:
    """Return one YAML stream. The same manifests always result in the same text."""
    return yaml.dump_all(
        manifests, Dumper=_ManifestDumper, sort_keys=False, width=120, allow_unicode=True, explicit_start=True
    )


class _ManifestDumper(yaml.SafeDumper):
    """Writes a shared value twice, not as an alias: nobody expects an alias in a manifest."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _string(dumper: _ManifestDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_ManifestDumper.add_representer(str, _string)
