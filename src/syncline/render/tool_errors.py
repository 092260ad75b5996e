"""The errors of helm and kustomize as messages: the place and the cause, without secrets."""

import re

from syncline.render.errors import BuildError

_LONGEST_CAUSE = 300
_CHART_FILE = re.compile(
    r"[\w.-]+/((?:charts/[\w.-]+/)*(?:templates|crds)/[^\s:()\"<>]+|values\.yaml|Chart\.yaml)(?::(\d+))?"
)
_TRIED_AS_FOLDER = re.compile(r"': must build at directory: .*$")
_MISSING_CHARTS = re.compile(r"missing in charts/ directory: ([\w., /-]{1,200})")
_NOISE = re.compile(
    r"^(?:Error: |level=\w+ |WARNING: .*$|walk\.go.*$)|\s*Use --debug flag to render out invalid YAML\s*$", re.MULTILINE
)

# Parts of messages that quote only names of charts, never values.
_HARMLESS = (
    re.compile(r"nil pointer evaluating [\w .{}*]{1,100}"),
    re.compile(r'function "\w{1,60}" not defined'),
    re.compile(r"can't evaluate field \w{1,60} in type [\w.*{} ]{1,60}"),
    re.compile(r"map has no entry for key \"\w{1,60}\""),
    re.compile(r"YAML parse error"),
    re.compile(r"cycle detected"),
    re.compile(r"chart requires kubeVersion: [\w.<>=~^ |-]{1,60}"),
    re.compile(r"Chart\.yaml file is missing"),
    re.compile(r"validation: chart\.metadata\.\w{1,40} is (?:required|invalid)"),
    re.compile(r"values don't meet the specifications of the schema"),
    re.compile(r"may not add resource with an already registered id"),
    re.compile(r"no matches for Id|no resource matches strategic merge patch|unable to find one of"),
    re.compile(r"invalid Kustomization"),
    re.compile(r"is not in or below"),
)
_UNTOLD = "the details are hidden, because the build contains secrets; build it locally to see them"


def chart_error(said: str, chart: str, folder: str, *, sensitive: bool) -> BuildError:
    """Return why helm failed to render the chart at a path of the tree."""
    text = _clean(said, folder)
    if missing := _MISSING_CHARTS.search(text):
        return BuildError(
            f"needs the charts {missing[1].strip()} in its charts folder; charts are not fetched: run `helm dependency"
            " build` and commit the result",
            file=_join(chart, "Chart.yaml"),
        )
    # The last place with a line has the error; the places before it are callers.
    places = sorted(_CHART_FILE.findall(text), key=lambda place: bool(place[1]))
    file, line = (_join(chart, places[-1][0]), int(places[-1][1] or 0)) if places else (chart, 0)
    return BuildError(f"helm: {_told(text, sensitive=sensitive)}", file=file, line=line)


def kustomize_error(said: str, file: str, folder: str, *, sensitive: bool) -> BuildError:
    """Return why kustomize failed to build a kustomization."""
    text = _clean(said, folder)
    # The chain of bases is before the cause; and a file that is not a resource is tried as a folder.
    for before in ("accumulation err='", "recursed accumulation of path "):
        text = text.rpartition(before)[2]
    text = _TRIED_AS_FOLDER.sub("", text)
    return BuildError(f"kustomize: {_told(text, sensitive=sensitive)}", file=file)


def _told(text: str, *, sensitive: bool) -> str:
    if not sensitive:
        # The cause is at the end, after the chain of bases.
        return text if len(text) <= _LONGEST_CAUSE else "..." + text[-_LONGEST_CAUSE:]
    found = next((match[0] for pattern in _HARMLESS if (match := pattern.search(text))), "it failed")
    return f"{found}; {_UNTOLD}"


def _clean(said: str, folder: str) -> str:
    for place in (f"{folder}/tree/", f"{folder}/", "../tree/", "tree/"):
        said = said.replace(place, "")
    return " ".join(_NOISE.sub("", said.replace(folder, ".")).split())


def _join(folder: str, path: str) -> str:
    return path if folder == "." else f"{folder}/{path}"
