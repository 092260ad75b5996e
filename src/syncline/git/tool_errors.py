"""The causes of failures of `git` and `ssh`, from their output, as messages for people."""

# ruff: noqa: N818  # states, as in `errors`

import base64
import re
from collections.abc import Iterable

from syncline.git.errors import (
    AuthenticationFailed,
    CacheFailure,
    CertificateUntrusted,
    GitError,
    HostKeyUnknown,
    NeedsMore,
    PushRejected,
    Refused,
    RepositoryNotFound,
    RepositoryUnreachable,
    RevisionNotFound,
    TooLarge,
)
from syncline.git.url import GitUrl

_QUOTED = 240
_SHORTEST = 4
_REDACTED = "[redacted]"


class Redirected(GitError):
    """The server redirects. Raised only until the destination is known."""


class NotOffered(RevisionNotFound):
    """The server has no such object, or does not allow requests by id."""


class Damaged(GitError):
    """The mirror on disk is damaged, or the cause is unknown. Raised only until the mirror is fetched again."""


class PushOutdated(PushRejected):
    """Somebody else has pushed to the branch. Raised only until the last attempt."""


# The order matters: if several patterns match, the first is the most precise.
_SIGNS: tuple[tuple[str, type[GitError], str], ...] = (
    ((r"! \[rejected\]|\(fetch first\)|\(non-fast-forward\)|cannot lock ref|failed to update ref|"
     r"reference already exists|\(stale info\)"), PushOutdated, "somebody else has changed the branch"),
    (r"! \[remote rejected\]|! \[remote failure\]", PushRejected, "the server does not take the commit"),
    (r"No space left on device|Disk quota exceeded", CacheFailure, "the disk with the mirrors is full"),
    (r"File too large|signal 25|File size limit", TooLarge, "the repository is larger than allowed"),
    ((r"[Oo]ut of memory|Cannot allocate memory|[mc]alloc failed|Memory allocation|cannot create async thread|"
     r"unable to create thread|mmap failed|failed to map"), NeedsMore, "the repository takes more memory than allowed"),
    (r"Permission denied \((?!publickey|password|keyboard|gssapi|hostbased)|Read-only file system", CacheFailure,
     "the folder with the mirrors cannot be written"),
    (r"(?:git|ssh): (?:command )?not found|cannot run (?:git|ssh)", CacheFailure, "git or ssh is not installed"),
    (r"No user exists for uid", CacheFailure,
     "ssh needs a user with this id in /etc/passwd; run the operator as a user of the image"),
    (r"Host key verification failed|HOST IDENTIFICATION HAS CHANGED|No \S+ host key is known", HostKeyUnknown,
     "the key of the ssh server is not in 'known_hosts'; add the line that ssh-keyscan prints, after checking it"),
    (r"Permission denied \((?:publickey|password|keyboard|gssapi|hostbased)|Too many authentication failures",
     AuthenticationFailed, "the ssh server does not accept the key; add its public key to the deploy keys"),
    (r"Load key .*(?:invalid format|error in libcrypto)", AuthenticationFailed,
     "ssh cannot read the key under 'identity'; give a private key in PEM or OpenSSH format"),
    (r"CONNECT tunnel failed, response 407|returned error: 407|HTTP code 407 from proxy", AuthenticationFailed,
     "the proxy does not accept the credential; check 'username' and 'password' of the proxy's Secret"),
    (r"resolve proxy|CONNECT tunnel failed|from proxy after CONNECT|Proxy CONNECT aborted", RepositoryUnreachable,
     "the proxy is unreachable, or refuses the connection"),
    ((r"alert (?:certificate required|bad certificate|unknown ca|handshake failure|certificate unknown)|"
     r"alert number (?:116|42|48)|SSL routines::sslv3 alert"), AuthenticationFailed,
     "the server does not accept the client certificate; check 'tls.crt' and 'tls.key'"),
    ((r"(?:problem with the local|unable to (?:use|set|load)).*(?:certificate|private key|client cert)|"
     r"could not load PEM client certificate|unable to set private key file"), AuthenticationFailed,
     "the client certificate cannot be used; check 'tls.crt' and 'tls.key'"),
    (r"error setting certificate (?:verify locations|file)", CertificateUntrusted,
     "'ca.crt' cannot be read; give certificates in PEM"),
    ((r"SSL certificate problem|certificate verif|no alternative certificate subject|subject name .*match|"
     r"unable to get local issuer|self.signed certificate"), CertificateUntrusted,
     "the server's certificate is not trusted; write its certificate authority to 'ca.crt' in caSecretRef"),
    ((r"Authentication failed|could not read (?:Username|Password)|unable to read askpass|Access denied|"
     r"returned error: 40[13]\b|HTTP 40[13] "), AuthenticationFailed,
     "the server does not accept the credential, or needs one; check auth and its Secret"),
    (r"returned error: 30\d|unable to update url base", Redirected, "the server redirects to another address"),
    (r"unadvertised object|not our ref|couldn't find remote ref|remote did not send all necessary", NotOffered,
     "the server has no such commit"),
    ((r"returned error: 4(?:04|10)\b|HTTP 404|Repository not found|repository '.*' not found|"
     r"does not appear to be a git repository|project you were looking for|remote: Not Found"), RepositoryNotFound,
     "the server has no such repository, or does not show it to this credential"),
    (r"not valid: is this a git repository|info/refs not|dumb http transport", RepositoryNotFound,
     "there is no Git repository at this URL, or the server speaks only the dumb protocol"),
    (r"transport '.*' not allowed", Refused, "the transport is refused"),
    (r"fsck error|index-pack failed: .*object|[Oo]bject .*: \w+: |bad tree|malformed", Refused,
     "the repository holds objects that break Git's rules; look at it with 'git fsck'"),
    (r"Could not resolve host|Name or service not known|Temporary failure in name resolution", RepositoryUnreachable,
     "the host has no address"),
    ((r"Failed to connect|Connection refused|timed out|Timeout|No route to host|Network is unreachable|"
     r"Operation too slow|Couldn't connect"), RepositoryUnreachable, "the server cannot be reached"),
    (r"returned error: (?:429|5\d\d)|HTTP (?:429|5\d\d) ", RepositoryUnreachable, "the server cannot answer now"),
    ((r"Connection reset|Empty reply|early EOF|RPC failed|unexpected disconnect|hung up|transfer closed|"
     r"curl \d+|SSL_read|SSL_ERROR|unexpected eof|Connection closed|bad line length|invalid index-pack output|"
     r"protocol error|expected flush|Broken pipe|gnutls_handshake|Recv failure|getpeername|"
     r"Send failure|bad pack header"), RepositoryUnreachable,
     "the connection broke off"),
    (r"Could not read from remote repository", RepositoryNotFound,
     "the server has no such repository, or does not show it to this key"),
)  # fmt: skip
_COMPILED = tuple((re.compile(sign), kind, meaning) for sign, kind, meaning in _SIGNS)


def to_git_error(said: str, location: GitUrl, secrets: Iterable[str] = ()) -> GitError:
    """Return the error for the output of a failed `git`; `Damaged` if the output is unknown."""
    quoted = _quote(said, secrets)
    for sign, kind, meaning in _COMPILED:
        if sign.search(said):
            return kind(f"{location.host}: {meaning}{quoted}")
    return Damaged(f"{location.host}: git failed{quoted}")


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return the text without these values, plain or encoded."""
    for secret in sorted({each for each in secrets if each}, key=len, reverse=True):
        for form in (secret, base64.b64encode(secret.encode()).decode()):
            text = text.replace(form, _REDACTED)
    return re.sub(r"(?<=://)[^\s/@]{1,512}(?=@)", _REDACTED, text)


def _quote(said: str, secrets: Iterable[str]) -> str:
    hidden = [each for each in secrets if each]
    if any(len(each) < _SHORTEST for each in hidden):
        return ""  # a replacement would show where the value is
    lines = [line.strip() for line in scrub(said, hidden).splitlines()]
    # The last lines have the cause. Hints and progress are for terminals.
    telling = [line for line in lines if re.match(r"(?:fatal|error|remote: .*\w|ssh|Load key|.*[Hh]ost key)", line)]
    words = "; ".join(telling[-3:] or lines[-1:])
    words = "".join(character if character.isprintable() else " " for character in words)
    return f" ({words[:_QUOTED]})" if words else ""
