"""Who signed a commit."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from syncline.git import Commit, CredentialError, Mirrors, Remote, Unverified
from syncline.git.signatures import Signed, allowed_signers
from syncline.testing.gitserver import Repository, environment


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, bytes]]:
    """Ssh keys: their files, and their public parts."""
    folder = tmp_path_factory.mktemp("keys")
    made = {}
    for name in ("alice", "mallory"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        path = folder / name
        path.touch(0o600)
        path.write_bytes(key.export_private_key("openssh"))
        public = key.export_public_key("openssh")
        path.with_suffix(".pub").write_bytes(public)
        made[name] = (path, public)
    return made


def signing(key: Path) -> dict[str, str]:
    return {"gpg.format": "ssh", "user.signingkey": str(key)}


def sign(repository: Repository, settings: dict[str, str]) -> str:
    """Replace the last commit by one that is signed."""
    tree = repository.git("rev-parse", "main^{tree}")
    commit = repository.git("commit-tree", "-S", "-m", "signed", tree, settings=settings)
    repository.git("update-ref", "refs/heads/main", commit)
    return commit


async def test_a_commit_of_a_known_ssh_key_is_verified(
    mirrors: Mirrors, remote: Remote, repository: Repository, keys: dict[str, tuple[Path, bytes]]
) -> None:
    sign(repository, signing(keys["alice"][0]))
    commit = await mirrors.resolve(remote, "main")
    assert await mirrors.verify(remote, commit, {"alice.pub": keys["alice"][1]}) == "alice.pub"
    signers = b'# ours\nalice@example.com,a@example.com namespaces="git" ' + keys["alice"][1]
    assert "alice@example.com" in await mirrors.verify(remote, commit, {"allowed_signers": signers})
    for others in (
        {"mallory.pub": keys["mallory"][1]},
        {"a": b'a@example.com namespaces="file" ' + keys["alice"][1]},
        {"a": b'a@example.com valid-before="20250101" ' + keys["alice"][1]},
        {"a": b"nonsense"},
    ):
        with pytest.raises(Unverified, match=commit.sha):
            await mirrors.verify(remote, commit, others)
    with pytest.raises(CredentialError, match="no keys"):
        await mirrors.verify(remote, commit, {})


async def test_a_commit_that_is_not_signed_is_not_verified(
    mirrors: Mirrors, remote: Remote, keys: dict[str, tuple[Path, bytes]]
) -> None:
    with pytest.raises(Unverified, match="is not signed"):
        await mirrors.verify(remote, await mirrors.resolve(remote, "main"), {"alice.pub": keys["alice"][1]})


async def test_a_commit_with_the_signature_of_another_is_not_verified(
    mirrors: Mirrors, remote: Remote, repository: Repository, keys: dict[str, tuple[Path, bytes]]
) -> None:
    signed = sign(repository, signing(keys["alice"][0]))
    raw = repository.git("cat-file", "commit", signed).replace("signed", "forged") + "\n"
    forged = repository.git("hash-object", "-t", "commit", "-w", "--stdin", given=raw.encode())
    repository.git("update-ref", "refs/heads/main", forged)
    with pytest.raises(Unverified, match="is not valid, or not made with"):
        await mirrors.verify(remote, await mirrors.resolve(remote, "main"), {"alice.pub": keys["alice"][1]})


async def test_a_signed_tag_stands_for_its_commit_under_its_own_name_only(
    mirrors: Mirrors, remote: Remote, repository: Repository, keys: dict[str, tuple[Path, bytes]]
) -> None:
    repository.git("tag", "-s", "-m", "release", "v1.0.0", "main", settings=signing(keys["alice"][0]))
    trusted = {"alice.pub": keys["alice"][1]}
    commit = await mirrors.resolve(remote, "v1.0.0")
    assert commit.tag
    assert await mirrors.verify(remote, commit, trusted) == "alice.pub"
    # The commit itself is not signed, and an old tag under a new name is no new release.
    with pytest.raises(Unverified):
        await mirrors.verify(remote, Commit(commit.sha), trusted)
    repository.git("update-ref", "refs/tags/v2.0.0", commit.tag)
    await mirrors.refresh(remote)
    replayed = await mirrors.resolve(remote, ">=2")
    assert replayed.tag == commit.tag
    with pytest.raises(Unverified):
        await mirrors.verify(remote, replayed, trusted)


@pytest.fixture(scope="module")
def pgp() -> Iterator[Path]:
    """A home of gpg with a key. Its path is short: sockets are in it."""
    home = Path(tempfile.mkdtemp(prefix="pgp-"))
    try:
        run(home, "--quick-gen-key", "Alice <alice@example.com>", "ed25519", "sign", "never")
        yield home
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True, env=environment())
        shutil.rmtree(home)


def run(home: Path, *arguments: str) -> bytes:
    command = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", "", "--pinentry-mode", "loopback"]
    return subprocess.run([*command, *arguments], check=True, capture_output=True, env=environment()).stdout


async def test_a_commit_of_a_known_pgp_key_is_verified(
    mirrors: Mirrors, remote: Remote, repository: Repository, pgp: Path, keys: dict[str, tuple[Path, bytes]]
) -> None:
    program = pgp / "program"
    program.write_text(f'#!/bin/sh\nexec gpg --homedir {pgp} "$@"\n')
    program.chmod(0o700)
    sign(repository, {"gpg.program": str(program), "user.signingkey": "alice@example.com"})
    commit = await mirrors.resolve(remote, "main")
    public = run(pgp, "--armor", "--export", "alice@example.com")
    assert "Alice <alice@example.com>" in await mirrors.verify(remote, commit, {"alice.asc": public})
    with pytest.raises(Unverified, match="has no PGP keys"):
        await mirrors.verify(remote, commit, {"alice.pub": keys["alice"][1]})
    with pytest.raises(Unverified, match="is not valid, or not made with"):
        await mirrors.verify(remote, commit, {"x.asc": b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n"})


def test_bare_keys_are_known_by_their_names_in_the_secret(keys: dict[str, tuple[Path, bytes]]) -> None:
    public = keys["alice"][1]
    text = allowed_signers(
        {"a b*": public, "list": b"# x\n\nbob@example.com " + public, "pgp": b"-----BEGIN PGP PUBLIC KEY BLOCK-----"}
    )
    names = [line.split()[0] for line in text.splitlines()]
    assert names == [b"a-b-", b"bob@example.com"]


def test_a_signature_is_taken_from_among_the_headers() -> None:
    raw = b"tree x\ngpgsig -----BEGIN\n line\n -----END\nencoding y\n\nmessage\ngpgsig not this\n"
    assert Signed.commit(raw) == Signed(
        b"tree x\nencoding y\n\nmessage\ngpgsig not this\n", b"-----BEGIN\nline\n-----END\n"
    )
    assert Signed.commit(b"tree x\n\nm").signature == b""
