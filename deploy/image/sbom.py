"""The bill of materials of an image, in the form of CycloneDX: Debian packages, Python packages and tools."""

import json
import uuid
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any
from urllib.parse import quote

Component = dict[str, Any]


def sbom(dpkg_status: str, packages: Path, tools: dict[str, str], *, name: str, version: str, suite: str) -> str:
    """Return the bill of materials: the same components result in the same text."""
    components = sorted(
        [*_debian(dpkg_status, suite), *_python(packages), *_tools(tools)], key=lambda each: str(each["purl"])
    )
    content = json.dumps(components, sort_keys=True)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name, "version": version}},
        "components": components,
    }
    return json.dumps(document, indent=1) + "\n"


def _debian(status: str, suite: str) -> Iterator[Component]:
    for paragraph in status.split("\n\n"):
        fields = Parser().parsestr(paragraph)
        if fields["Package"] and " installed" in str(fields["Status"]):
            name, version, architecture = fields["Package"], fields["Version"], fields["Architecture"]
            purl = (
                f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='~')}?arch={architecture}&distro={suite}"
            )
            yield {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}


def _python(packages: Path) -> Iterator[Component]:
    for path in packages.glob("*.dist-info/METADATA"):
        fields = Parser().parsestr(path.read_text(encoding="utf-8"), headersonly=True)
        name, version = str(fields["Name"]), str(fields["Version"])
        purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
        component = {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}
        licence = fields["License-Expression"]
        yield component | ({"licenses": [{"expression": licence}]} if licence else {})


def _tools(tools: dict[str, str]) -> Iterator[Component]:
    for module, version in tools.items():
        purl = f"pkg:golang/{module}@{version}"
        name = module.split("/")[-2] if module.split("/")[-1].startswith("v") else module.split("/")[-1]
        yield {"type": "application", "name": name, "version": version, "purl": purl, "bom-ref": purl}
