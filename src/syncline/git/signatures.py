"""Whether a commit, or the tag that led to it, is signed by a key that a sync trusts.

Keys are the values of a Secret: ssh public keys, lines of `allowed_signers`, or armoured PGP keys. Signatures are
checked by `ssh-keygen` and `gpg`, which get nothing but these keys.
"""

import datetime as dt
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from syncline.confinement.programs import Unconfined
from syncline.git.errors import CacheFailure, CredentialError, Refused, Unverified
from syncline.git.process import ProcessLimits, ProcessResult, run
from syncline.git.refs import Commit

_PGP = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
_KEY_TYPE = re.compile(rb"(?:ssh-(?:ed25519|rsa)|ecdsa-sha2-\S+|sk-\S+)(?:@openssh\.com)?")
_SSH_SIGNATURE = b"-----BEGIN SSH SIGNATURE-----"
_PGP_SIGNATURE = b"-----BEGIN PGP SIGNATURE-----"
_TIME = re.compile(rb"^(?:committer|tagger) .*> (\d{1,12}) [+-]\d{4}$", re.MULTILINE)
_VALID = re.compile(r"^\[GNUPG:\] VALIDSIG ([0-9A-F]+)(?: .* ([0-9A-F]+))?$", re.MULTILINE)
_GOOD = re.compile(r"^\[GNUPG:\] GOODSIG \S+ (.*)$", re.MULTILINE)
_LAST_SECOND = 253_402_300_799
_UNSAFE = re.compile(r"[^A-Za-z0-9._@+-]")


class Signed(Struct, frozen=True):
    """An object of git, taken apart."""

    payload: bytes
    signature: bytes

    @classmethod
    def commit(cls, raw: bytes) -> "Signed":
        """Take a commit apart: the signature is a header whose lines are continued by a space."""
        head, separator, body = raw.partition(b"\n\n")
        kept: list[bytes] = []
        signature: list[bytes] = []
        inside = b""
        for line in head.split(b"\n"):
            name = inside if line.startswith(b" ") else line.split(b" ", 1)[0]
            inside = name
            if name in (b"gpgsig", b"gpgsig-sha256"):
                if name == b"gpgsig":
                    signature.append(line[1:] if line.startswith(b" ") else line.split(b" ", 1)[1])
            else:
                kept.append(line)
        return cls(b"\n".join(kept) + separator + body, b"\n".join(signature) + b"\n" if signature else b"")

    @classmethod
    def tag(cls, raw: bytes) -> "Signed":
        """Take a tag apart: the signature is at its end."""
        starts = [raw.find(b"\n" + mark) for mark in (_SSH_SIGNATURE, _PGP_SIGNATURE)]
        start = min((each for each in starts if each >= 0), default=-1)
        return cls(raw[: start + 1], raw[start + 1 :]) if start >= 0 else cls(raw, b"")


async def signer(
    commit: Commit, raw_commit: bytes, raw_tag: bytes, keys: Mapping[str, bytes], folder: Path, *, caps: ProcessLimits
) -> str:
    """Return who signed; raise `Unverified` where nobody did whom the keys name.

    What checks that sees a folder of its own, below `folder`, and has no network.

    A signed tag counts if it is about this commit and has the name under which it was found: an old tag under a new
    name would be a way back to an old state.
    """
    if not keys:
        raise CredentialError("the Secret of verify.secretRef has no keys")
    candidates = [Signed.commit(raw_commit)]
    if raw_tag and _is_about(raw_tag, commit):
        candidates.append(Signed.tag(raw_tag))
    signed = [each for each in candidates if each.signature]
    if not signed:
        raise Unverified(f"the commit {commit.sha} is not signed; sign it with a key of verify.secretRef")
    reasons: list[str] = []
    for each in signed:
        try:
            home = Path(tempfile.mkdtemp(dir=folder))
        except OSError as error:
            raise CacheFailure(f"the folder for mirrors cannot be written: {error.strerror}") from None
        try:
            return await (_by_ssh if _SSH_SIGNATURE in each.signature else _by_pgp)(
                each, keys, home, replace(caps, write=(home,))
            )
        except Unverified as error:
            reasons.append(str(error))
        finally:
            shutil.rmtree(home, ignore_errors=True)
    raise Unverified(f"the commit {commit.sha}: {'; '.join(dict.fromkeys(reasons))}")


def _is_about(raw_tag: bytes, commit: Commit) -> bool:
    head = raw_tag.partition(b"\n\n")[0].split(b"\n")
    return f"object {commit.sha}".encode() in head and f"tag {commit.tag_name}".encode() in head


async def _by_ssh(signed: Signed, keys: Mapping[str, bytes], folder: Path, caps: ProcessLimits) -> str:
    allowed = allowed_signers(keys)
    if not allowed:
        raise Unverified("it is signed with ssh, and the Secret of verify.secretRef has no ssh keys")
    signers, signature = folder / "signers", folder / "signature"
    signers.write_bytes(allowed)
    signature.write_bytes(signed.signature)
    when = _TIME.search(signed.payload)
    timing = [] if when is None else [f"-Overify-time={_stamp(int(when[1]))}"]
    found = await _run(["ssh-keygen", "-Y", "find-principals", *timing, "-f", str(signers), "-s", str(signature)], caps)
    for principal in dict.fromkeys(found.out.decode(errors="replace").split("\n")):
        if found.code or not principal or principal.startswith("-"):
            continue
        arguments = ["ssh-keygen", "-Y", "verify", *timing, "-n", "git", "-f", str(signers), "-I", principal]
        verified = await _run([*arguments, "-s", str(signature)], caps, signed.payload)
        if verified.code == 0:
            return principal
    raise Unverified("its ssh signature is of no key in the Secret of verify.secretRef, or does not fit")


def allowed_signers(keys: Mapping[str, bytes]) -> bytes:
    """Return the ssh keys among those of a Secret as `ssh-keygen` wants them; a bare key is known by its name there."""
    lines: list[bytes] = []
    for name, value in sorted(keys.items()):
        if _PGP in value:
            continue
        for line in value.splitlines():
            words = line.strip().split()
            if not words or words[0].startswith(b"#"):
                continue
            if _KEY_TYPE.fullmatch(words[0]):
                lines.append(_UNSAFE.sub("-", name).encode() + b" " + b" ".join(words[:2]))
            elif any(map(_KEY_TYPE.fullmatch, words)):
                lines.append(line.strip())
    return b"".join(line + b"\n" for line in lines)


def _stamp(seconds: int) -> str:
    return dt.datetime.fromtimestamp(min(seconds, _LAST_SECOND), dt.UTC).strftime("%Y%m%d%H%M%SZ")


async def _by_pgp(signed: Signed, keys: Mapping[str, bytes], folder: Path, caps: ProcessLimits) -> str:
    armoured = [value for _, value in sorted(keys.items()) if _PGP in value]
    if not armoured:
        raise Unverified("it is signed with PGP, and the Secret of verify.secretRef has no PGP keys")
    gpg = ["gpg", "--homedir", str(folder), "--batch", "--no-tty", "--no-options", "--no-autostart"]
    gpg += ["--disable-dirmngr", "--no-auto-key-retrieve", "--trust-model", "always"]
    try:
        await _run([*gpg, "--import"], caps, b"\n".join(armoured))
        signature = folder / "signature"
        signature.write_bytes(signed.signature)
        verified = await _run([*gpg, "--status-fd", "1", "--verify", str(signature), "-"], caps, signed.payload)
    except FileNotFoundError:
        raise Unverified("it is signed with PGP, and this operator has no gpg; sign with an ssh key") from None
    said = verified.out.decode(errors="replace")
    good, valid = _GOOD.search(said), _VALID.search(said)
    if verified.code or good is None or valid is None:
        raise Unverified("its PGP signature is of no valid key in the Secret of verify.secretRef, or does not fit")
    return f"{good[1][:200]} ({valid[2] or valid[1]})"


async def _run(arguments: list[str], caps: ProcessLimits, given: bytes | None = None) -> ProcessResult:
    try:
        return await run(arguments, caps, given=given)
    except TimeoutError:
        raise Unverified(f"{arguments[0]} took too long") from None
    except Unconfined as refused:
        raise Refused(str(refused)) from None
