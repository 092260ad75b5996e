"""The image that `make image` builds: operator and agent run from its root, as a pod of the chart's Deployment."""

import json
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.configmapsync.world import until
from tests.deploy.chart import ROOT
from tests.deploy.image import build, oci, shipped
from tests.ignitionsync.agents import Plant, PlantGateway, PodAgent
from tests.ignitionsync.world import PROJECT, PlantWorld

from syncline import __version__, deploy
from syncline.sandbox import Options, Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.image_pod import ImagePod
from syncline.testing.operator import OperatorProcess, StartedProgram

IMAGE_USER = 65532


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sandbox]:
    """A control plane with the chart, as `make demo SHIPPED=1` installs and removes it."""
    with Sandbox.create(Options(audit_log=True)) as running:
        shipped.install_chart(running)
        yield running
        shipped.remove_shipped(running)


@pytest.fixture(scope="module")
def pod(cluster: Sandbox, unpacked: Path, archive: Path, tmp_path_factory: pytest.TempPathFactory) -> ImagePod:
    folder = tmp_path_factory.mktemp("pod")
    return ImagePod(unpacked, oci.read_config(archive), cluster, deploy.NAMESPACE, folder)


def test_the_image_is_of_the_user_and_the_version_that_the_chart_asks_for(archive: Path, pod: ImagePod) -> None:
    config = oci.read_config(archive)
    user = pod.spec["securityContext"]
    assert config["config"]["User"] == f"{user['runAsUser']}:{user['runAsGroup']}"
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == __version__
    assert pod.container["image"] == f"syncline:{__version__}"
    assert config["config"]["Entrypoint"] == pod.container["command"]


def test_nothing_in_the_image_belongs_to_its_user_or_lets_it_become_root(unpacked: Path) -> None:
    found = {path: path.lstat() for path in unpacked.rglob("*") if not path.is_symlink()}
    files = {path: one.st_mode for path, one in found.items() if stat.S_ISREG(one.st_mode)}
    assert len(files) > 1000
    assert [path for path, one in found.items() if one.st_uid == IMAGE_USER] == []
    assert [path for path, mode in files.items() if mode & (stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID)] == []


def test_the_bill_of_materials_lists_debian_python_and_tools(archive: Path, unpacked: Path) -> None:
    text = (archive.parent / build.sbom_name()).read_text(encoding="utf-8")
    assert (unpacked / "usr/share/syncline/sbom.cdx.json").read_text(encoding="utf-8") == text
    listed = json.loads(text)
    names = {component["purl"].split("@")[0] for component in listed["components"]}
    assert listed["bomFormat"] == "CycloneDX"
    assert [name for name in names if "+" in name] == []
    assert {"pkg:deb/debian/git", "pkg:pypi/aiohttp", "pkg:golang/helm.sh/helm/v4"} <= names
    locked = (ROOT / "requirements/runtime.txt").read_text(encoding="utf-8")
    pinned = {line.split()[0] for line in locked.splitlines() if "==" in line and not line.startswith(("#", " "))}
    found = {component["purl"].removeprefix("pkg:pypi/").replace("@", "==") for component in listed["components"]}
    assert {name for name in pinned if name.lower() not in found} == set()


@pytest.mark.parametrize(
    "command",
    [
        ("git", "--version"),
        ("ssh", "-V"),
        ("ssh-keygen", "-l", "-f", "/dev/null"),
        ("gpg", "--version"),
        ("helm", "version"),
        ("kustomize", "version"),
        ("sops", "--version"),
        ("syncline", "agent", "--help"),
    ],
    ids=lambda command: command[0],
)
def test_the_tools_are_in_the_image(pod: ImagePod, command: tuple[str, ...]) -> None:
    try:
        output = pod.run(*command)
    except subprocess.CalledProcessError as error:
        # There is no key in an empty file, which the program has read.
        assert command[0] == "ssh-keygen"
        output = str(error.output)
    assert output


def test_the_root_is_read_only_and_the_user_is_nobody(pod: ImagePod) -> None:
    assert pod.run("id", "-u") == f"{IMAGE_USER}\n"
    with pytest.raises(subprocess.CalledProcessError, match="exit status"):
        pod.run("touch", "/usr/local/bin/own")
    assert pod.run("touch", "/tmp/own", "/var/cache/syncline/own") == ""


def test_operator_and_agent_run_from_the_image(
    pod: ImagePod, cluster: Sandbox, git_server: GitServer, tmp_path: Path
) -> None:
    with OperatorProcess(cluster.kubeconfig, *pod.flags, launch=pod.launch) as operator:
        world = PlantWorld(cluster, git_server)
        with Plant(world, tmp_path, operator) as plant:
            commit = world.push(PROJECT)
            plant.create()
            gateway = plant.gateway("line-0")
            agent = start_agent(pod, world, gateway, tmp_path)
            try:
                plant.until_synced(commit)
                assert gateway.files["projects/Plant/views/main.json"] == PROJECT["projects/Plant/views/main.json"]
                assert (gateway.agent.data / "projects").stat().st_uid == IMAGE_USER
            finally:
                agent.kill()
                agent.wait()
        world.end()
        assert f"system:serviceaccount:{deploy.NAMESPACE}:{deploy.SERVICE_ACCOUNT}" in operator.log()


def start_agent(pod: ImagePod, world: PlantWorld, gateway: PlantGateway, folder: Path) -> StartedProgram:
    """Start the agent in the image, with what it has in a pod: a token, the address of the depot, and a folder."""
    home = gateway.agent.folder
    told = dict(until(lambda: (world.metadata().look() or {}).get("data") or {}, lambda data: "depotURL" in data))
    agent = PodAgent(home, gateway.pod, told, gateway.double)
    for path in (home, *home.rglob("*")):
        shutil.chown(path, IMAGE_USER, IMAGE_USER)
    inside = {name: value.replace(str(home), "/run/agent") for name, value in agent.environment().items()}
    return pod.start(["syncline", "agent"], folder / "image-agent.log", binds={home: "agent"}, env=inside)
