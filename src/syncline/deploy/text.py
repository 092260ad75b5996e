"""Manifests as YAML that people read: block style, in the order written, rules of several lines as they are."""

from collections.abc import Iterable
from typing import Any

import yaml

Manifest = dict[str, Any]


def to_yaml(manifests: Iterable[Manifest]) -> str:
    """Return one YAML stream; the same manifests always give the same text."""
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True, explicit_start=True)


class _Dumper(yaml.SafeDumper):
    """Writes what is shared twice instead of as an alias, which no reader expects in a manifest."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _string(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _string)
