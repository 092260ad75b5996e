"""Programs in the root of an unpacked image, as a kubelet would start them from the spec of a pod.

The root is read-only, the user is that of the spec, volumes are mounted, and the cluster is found as in a pod. The
network is that of this machine: ports are free ones of loopback. It needs root, to mount and to change the root.
"""

import base64
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from syncline.sandbox import Sandbox
from syncline.testing.operator import StartedProgram

ACCOUNT_FOLDER = "run/secrets/kubernetes.io/serviceaccount"
LOOPBACK = tuple(f"--{name}-bind=127.0.0.1:0" for name in ("metrics", "health", "webhook", "depot", "admission"))


class ImagePod:
    """A pod of a Deployment in the sandbox, whose container is an unpacked image."""

    def __init__(self, root: Path, config: Mapping[str, Any], sandbox: Sandbox, namespace: str, folder: Path) -> None:
        """`folder`: for the volumes of the pod; it is the caller's."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/syncline"
        self._root = root
        self._config = config
        self._sandbox = sandbox
        self._namespace = namespace
        self._folder = folder
        self.spec: dict[str, Any] = sandbox.request("GET", path)["spec"]["template"]["spec"]
        (self.container,) = self.spec["containers"]

    @property
    def flags(self) -> list[str]:
        """The arguments of the container after `run`, and ports of loopback in place of those of a pod."""
        command, *flags = self.container["args"]
        if self.container["command"] != ["syncline"] or command != "run":
            raise ValueError(f"the pod runs {self.container['command']} {command}")
        return [*flags, *LOOPBACK]

    def launch(self, arguments: Sequence[str], log: Path) -> StartedProgram:
        """Start the container with other arguments; it finds its cluster as in a pod, and needs no kubeconfig."""
        given = list(arguments)
        if "--kubeconfig" in given:
            at = given.index("--kubeconfig")
            del given[at : at + 2]
        return self.start([*self.container["command"], *given], log)

    def start(
        self,
        command: Sequence[str],
        log: Path,
        *,
        binds: Mapping[Path, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> StartedProgram:
        """Start a command in the root, as the user of the pod. `binds`: folders of this machine, in /run."""
        script = self._folder / f"{log.name}.sh"
        script.write_text(self._script(command, binds or {}, env or {}), encoding="utf-8")
        with log.open("ab") as output:
            return subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", "-eu", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )

    def run(self, *command: str) -> str:
        """Run a command to its end, and return its output. Raises CalledProcessError."""
        log = self._folder / "run.log"
        log.unlink(missing_ok=True)
        code = self.start(command, log).wait(120)
        output = log.read_text(encoding="utf-8")
        if code:
            raise subprocess.CalledProcessError(code, command, output)
        return output

    def _script(self, command: Sequence[str], binds: Mapping[Path, str], env: Mapping[str, str]) -> str:
        root = shlex.quote(str(self._root))
        user = self.spec["securityContext"]
        who = f"{user['runAsUser']}:{user['runAsGroup']}"
        lines = [
            f"mount --bind {root} {root}",
            f"mount -o remount,bind,ro {root}",
            f"mount --bind /proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            f"mount -t tmpfs -o mode=755 tmpfs {root}/run",
            f"mkdir -p {root}/{ACCOUNT_FOLDER}",
            f"mount --bind {shlex.quote(str(self._account()))} {root}/{ACCOUNT_FOLDER}",
            # For the folders of all Secrets.
            f"mount -t tmpfs -o mode=755 tmpfs {root}/etc/syncline",
        ]
        lines += [self._volume(mount, root, who) for mount in self.container["volumeMounts"]]
        lines += [
            f"mkdir -p {root}/run/{target}; mount --bind {shlex.quote(str(source))} {root}/run/{target}"
            for source, target in binds.items()
        ]
        variables = " ".join(shlex.quote(f"{name}={value}") for name, value in {**self._environment(), **env}.items())
        program = " ".join(shlex.quote(part) for part in command)
        # A change of the user ends what the kernel does at the end of the parent: it is asked for anew.
        confined = f"env -i {variables} setpriv --no-new-privs --pdeathsig KILL {program}"
        lines.append(f"exec chroot --userspec={who} --groups= {root} {confined}")
        return "\n".join(lines) + "\n"

    def _environment(self) -> dict[str, str]:
        server = urlsplit(self._sandbox.server)
        given = dict(each.split("=", 1) for each in self._config["config"]["Env"])
        plain = {each["name"]: each["value"] for each in self.container.get("env", ()) if "value" in each}
        address = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
        return {**given, **plain, **address, "POD_NAME": "syncline-0"}

    def _account(self) -> Path:
        """Write what a pod has of its ServiceAccount."""
        folder = self._folder / "serviceaccount"
        folder.mkdir(exist_ok=True)
        token = self._sandbox.service_account_token(self._namespace, self.spec["serviceAccountName"], seconds=86400)
        for name, content in (("token", token), ("ca.crt", self._sandbox.ca), ("namespace", self._namespace)):
            (folder / name).write_text(content, encoding="ascii")
        return self._given(folder)

    def _volume(self, mount: Mapping[str, Any], root: str, who: str) -> str:
        (volume,) = [each for each in self.spec["volumes"] if each["name"] == mount["name"]]
        target = f"{root}{mount['mountPath']}"
        if "emptyDir" in volume:
            uid, gid = who.split(":")
            size = volume["emptyDir"]["sizeLimit"].removesuffix("i")
            return f"mount -t tmpfs -o mode=755,uid={uid},gid={gid},size={size} tmpfs {target}"
        secret = volume["secret"]["secretName"]
        folder = self._folder / secret
        folder.mkdir(exist_ok=True)
        data = self._sandbox.request("GET", f"/api/v1/namespaces/{self._namespace}/secrets/{secret}")["data"]
        for name, value in data.items():
            (folder / name).write_bytes(base64.b64decode(value))
        return f"mkdir -p {target}; mount --bind {shlex.quote(str(self._given(folder)))} {target}"

    def _given(self, folder: Path) -> Path:
        """Give a folder to the user of the pod."""
        user = self.spec["securityContext"]
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, user["runAsUser"], user["runAsGroup"])
        return folder
