"""Detects files that are encrypted with SOPS, and decrypts them with age keys.

Every value of such a file is encrypted for its path of keys. An authentication code (MAC) covers all values, so that
none can be moved, added or removed; a file with a wrong code is refused. The text around the values is not changed,
including comments and lines. `NeedsProgram` means that only the `sops` program can decrypt it: PGP keys, shares of
keys, INI files, and YAML with aliases. `NeedsKeyService` means that a key service must decrypt the key. No message
contains a value.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyrage
import re2
import yaml
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from syncline.render.manifests import ManifestError, read_documents, whole

DATA_KEY = "\0data-key"
"""The name for the data key itself. No key of a Secret can have this name."""

AGE_KEY_SUFFIX = ".agekey"
PGP_KEY_SUFFIX = ".asc"

_MARK = b"ENC[AES256_GCM,"
_FORMATS = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".env": "dotenv", ".ini": "ini"}
_SEALS = {
    "yaml": re.compile(rb"^sops:", re.MULTILINE),
    "json": re.compile(rb'"sops"\s*:'),
    "dotenv": re.compile(rb"^sops_mac=", re.MULTILINE),
    "ini": re.compile(rb"^\[sops\]", re.MULTILINE),
    "binary": re.compile(rb'"sops"\s*:'),
}
_VALUE = re.compile(r"ENC\[AES256_GCM,data:([^,]+),iv:([^,]+),tag:([^,]+),type:([a-z]+)\]")
_COMMENT = re.compile(
    r"^[ \t]*#ENC\[AES256_GCM,[^\]\n]*\][ \t]*(?:\n|\Z)|[ \t]*#ENC\[AES256_GCM,[^\]\n]*\]", re.MULTILINE
)
# SOPS starts the code with these bytes if it covers only the encrypted values.
_ONLY_ENCRYPTED = bytes.fromhex("8a3fd2ad54ce66527b1034f3d147be0b0b975b3bf44f72c6fdadec8176f27d69")
_SERVICES = ("kms", "gcp_kms", "azure_kv", "hc_vault", "hckms")
_LISTS = ("age", *_SERVICES)
_TOLD_BY_COMMENTS = ("unencrypted_comment_regex", "encrypted_comment_regex")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?")
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_DATA_KEY_BYTES = 32
_SHOWN_RECIPIENTS = 3
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class SopsError(Exception):
    """An encrypted file cannot be decrypted. The message names the cause."""


class NeedsProgram(Exception):  # noqa: N818 - a request, not an error
    """Only the `sops` program can decrypt this file."""


class NeedsKeyService(Exception):  # noqa: N818 - as above
    """A key service must decrypt the data key; `entries` are the services and the fields of their keys."""

    def __init__(self, entries: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        super().__init__()
        self.entries = tuple(entries)


def may_be_encrypted(content: bytes) -> bool:
    """Whether a file may be encrypted. It is cheap, and False is always right."""
    return _MARK in content


def is_encrypted(path: str, content: bytes) -> bool:
    """Whether SOPS wrote this file."""
    return may_be_encrypted(content) and _SEALS[file_format(path)].search(content) is not None


def file_format(path: str) -> str:
    """Return the SOPS format of a file, from the end of its path."""
    return _FORMATS.get(PurePosixPath(path).suffix, "dotenv" if PurePosixPath(path).name == ".env" else "binary")


def decrypt(path: str, content: bytes, keys: Mapping[str, bytes]) -> bytes:
    """Return the decrypted file. Raises SopsError or NeedsProgram."""
    try:
        text = content.decode()
        match file_format(path):
            case "yaml":
                return _decrypt_yaml(text, keys)
            case "json":
                return _decrypt_json(text, keys)
            case "dotenv":
                return _decrypt_dotenv(text, keys)
            case "ini":
                raise NeedsProgram
            case _:
                return _decrypt_binary(text, keys)
    except (ManifestError, yaml.YAMLError, ValueError, RecursionError) as error:
        line = f"line {error.line}: " if isinstance(error, ManifestError) else ""
        raise SopsError(f"{line}it is damaged: not the {file_format(path)} that SOPS writes") from None


class Identities(NamedTuple):
    """The age keys of a decryption Secret."""

    all: Sequence[Any]

    @classmethod
    def read(cls, keys: Mapping[str, bytes]) -> "Identities":
        """Parse the keys with names that end in `.agekey`. Raises SopsError, with the name, for an invalid key."""
        found: list[Any] = []
        for name in sorted(keys):
            if name.endswith(AGE_KEY_SUFFIX):
                found += _identities(name, keys[name])
        return cls(found)


def _identities(name: str, content: bytes) -> list[Any]:
    wrong = SopsError(f"the key {name} of the decryption Secret is not an age key (AGE-SECRET-KEY-1...)")
    if content.lstrip().startswith(b"-----BEGIN OPENSSH"):
        try:
            return [pyrage.ssh.Identity.from_buffer(content)]
        except pyrage.IdentityError:
            raise wrong from None
    try:
        lines = [line.strip() for line in content.decode("ascii").splitlines()]
        found = [pyrage.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except (UnicodeDecodeError, pyrage.IdentityError):
        raise wrong from None
    if not found:
        raise wrong
    return found


class _Seal:
    """The metadata of one encrypted file: decrypts its values and verifies the code over all of them."""

    def __init__(self, metadata: Any, keys: Mapping[str, bytes]) -> None:
        if not isinstance(metadata, dict):
            raise ValueError  # noqa: TRY004 - any damage is one error to the caller
        if any(metadata.get(name) for name in _TOLD_BY_COMMENTS):
            raise NeedsProgram
        self._metadata = metadata
        self._cipher = AESGCM(_data_key(metadata, keys))
        self._only_encrypted = _truth(metadata.get("mac_only_encrypted"))
        self._hash = hashlib.sha512(_ONLY_ENCRYPTED if self._only_encrypted else b"")
        self._suffixes = [str(metadata.get(name) or "") for name in ("unencrypted_suffix", "encrypted_suffix")]
        self._patterns = [_pattern(metadata.get(name)) for name in ("unencrypted_regex", "encrypted_regex")]

    def open(self, path: Sequence[str], value: Any) -> Any:
        """Return the value at a path, decrypted if necessary, and add it to the code."""
        encrypted = self._is_encrypted(path)
        if encrypted:
            if not isinstance(value, str):
                raise SopsError("a value that must be encrypted is not; encrypt the file again")
            value = self._decrypt(value, ":".join(path) + ":") if value else value
        if encrypted or not self._only_encrypted:
            self._hash.update(_bytes(value))
        return value

    def check(self) -> None:
        """Raise if the values do not match the code."""
        sealed = str(self._metadata.get("mac") or "")
        expected = self._decrypt(sealed, str(self._metadata.get("lastmodified") or ""))
        if not hmac.compare_digest(_bytes(expected), self._hash.hexdigest().upper().encode()):
            # SOPS may read a number or a date in another way: the program decides.
            raise NeedsProgram

    def _is_encrypted(self, path: Sequence[str]) -> bool:
        without, within = self._suffixes
        not_matching, matching = self._patterns
        encrypted = not (without and any(key.endswith(without) for key in path))
        if within:
            encrypted = any(key.endswith(within) for key in path)
        if not_matching is not None and any(not_matching.search(key) for key in path):
            encrypted = False
        if matching is not None:
            encrypted = any(matching.search(key) for key in path)
        return encrypted

    def _decrypt(self, text: str, place: str) -> Any:
        found = _VALUE.match(text)
        if found is None:
            raise SopsError("a value that must be encrypted is not; encrypt the file again")
        try:
            content, nonce, tag = (base64.b64decode(found[number], validate=True) for number in (1, 2, 3))
            plain = self._cipher.decrypt(nonce, content + tag, place.encode())
        except (binascii.Error, InvalidTag, ValueError):
            raise SopsError("a value was changed or moved after it was encrypted; encrypt the file again") from None
        return _typed(plain, found[4])


def _typed(plain: bytes, kind: str) -> Any:
    match kind:
        case "int":
            return int(plain)
        case "float":
            return float(plain)
        case "bool":
            return plain.lower() == b"true"
        case "bytes":
            return plain
        case "str":
            try:
                return plain.decode()
            except UnicodeDecodeError:
                return plain
        case _:
            raise NeedsProgram


def _bytes(value: Any) -> bytes:
    """Return a value in the form for the code."""
    match value:
        case bool():
            return b"True" if value else b"False"
        case float():
            return format(Decimal(repr(value)), "f").removesuffix(".0").encode()
        case bytes():
            return value
        case _:
            return str(value).encode()


def _truth(value: Any) -> bool:
    return value is True or str(value).lower() == "true"


def _pattern(text: Any) -> Any:
    if not text:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(str(text), options)
    except re2.error:
        raise SopsError("the pattern of the encrypted keys is not a regular expression") from None


def _data_key(metadata: Mapping[str, Any], keys: Mapping[str, bytes]) -> bytes:
    if DATA_KEY in keys:
        return keys[DATA_KEY]
    groups = [group for group in metadata.get("key_groups") or [] if isinstance(group, dict)]
    if groups or metadata.get("shamir_threshold"):
        raise NeedsProgram
    entries = [entry for entry in metadata.get("age") or [] if isinstance(entry, dict)]
    identities = Identities.read(keys).all
    for entry in entries if identities else []:
        try:
            key: bytes = pyrage.decrypt(str(entry.get("enc")).encode(), list(identities))
        except pyrage.DecryptError:
            continue
        if len(key) == _DATA_KEY_BYTES:
            return key
    if metadata.get("pgp") and any(name.endswith(PGP_KEY_SUFFIX) for name in keys):
        # If a PGP key may decrypt it, no key service is called.
        raise NeedsProgram
    if asked := _service_entries(metadata):
        raise NeedsKeyService(asked)
    if metadata.get("pgp"):
        raise NeedsProgram
    recipients = [str(entry.get("recipient")) for entry in entries]
    shown = ", ".join(recipients[:_SHOWN_RECIPIENTS]) + (", ..." if len(recipients) > _SHOWN_RECIPIENTS else "")
    raise SopsError(
        f"no age key of the decryption Secret decrypts it; it is encrypted for {shown or 'nobody'}: add that key to the"
        f" Secret, with a name that ends in {AGE_KEY_SUFFIX}"
    )


def _service_entries(metadata: Mapping[str, Any]) -> list[tuple[str, dict[str, str]]]:
    """Return the fields about keys at key services; a map, such as an AWS encryption context, as JSON."""
    found: list[tuple[str, dict[str, str]]] = []
    for service in _SERVICES:
        for entry in metadata.get(service) or []:
            if isinstance(entry, dict):
                fields = {
                    str(name): json.dumps(value) if isinstance(value, dict) else str(value)
                    for name, value in entry.items()
                    if value is not None
                }
                found.append((service, fields))
    return found


def _decrypt_yaml(text: str, keys: Mapping[str, bytes]) -> bytes:
    text = text.removeprefix("\ufeff")
    first = next(read_documents(text), None)
    if first is None or not isinstance(first.value, dict):
        raise ValueError
    if text.lstrip().startswith("{"):
        return _decrypt_json(text, keys)
    seal = _Seal(first.value.get("sops"), keys)
    pieces: list[str] = []
    end = 0
    for start, after, replacement in _replacements(text, seal):
        pieces += [text[end:start], replacement]
        end = after
    seal.check()
    return _COMMENT.sub("", "".join([*pieces, text[end:]])).encode()


class _Level:
    """A map or list of the file, and the key of the next value."""

    def __init__(self, *, is_map: bool) -> None:
        self.is_map = is_map
        self.key: str | None = None
        self.awaits_key = is_map


def _replacements(text: str, seal: _Seal) -> Iterator[tuple[int, int, str]]:
    """Yield the changes of the text, in order: encrypted values, and the removed metadata."""
    levels: list[_Level] = []
    metadata_from: int | None = None
    events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise NeedsProgram
        if isinstance(event, yaml.CollectionStartEvent):
            _value_begins(levels)
            levels.append(_Level(is_map=isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            levels.pop()
            if len(levels) == 1 and metadata_from is not None:
                yield metadata_from, _at(event.end_mark), ""
                metadata_from = None
        elif isinstance(event, yaml.ScalarEvent):
            level = levels[-1] if levels else None
            if level is not None and level.awaits_key:
                level.key, level.awaits_key = event.value, False
                if len(levels) == 1 and event.value == "sops":
                    metadata_from = _at(event.start_mark)
                continue
            _value_begins(levels)
            if metadata_from is None and (changed := _leaf(event, levels, seal)) is not None:
                yield _at(event.start_mark), _at(event.end_mark), changed


def _at(mark: Any) -> int:
    index: int = mark.index
    return index


def _value_begins(levels: Sequence[_Level]) -> None:
    if levels and levels[-1].is_map:
        levels[-1].awaits_key = True


def _leaf(event: yaml.ScalarEvent, levels: Sequence[_Level], seal: _Seal) -> str | None:
    path = [level.key for level in levels if level.key is not None]
    value = _as_sops_reads(event)
    if value is None:
        return None
    opened = seal.open(path, value)
    if opened is value:
        return None
    match opened:
        case bytes():
            return f"!!binary {base64.b64encode(opened).decode()}"
        case bool():
            return "true" if opened else "false"
        case int() | float():
            return str(whole(opened))
        case _:
            quoted = json.dumps(opened, ensure_ascii=False)
            return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _as_sops_reads(event: yaml.ScalarEvent) -> Any:
    """Return a scalar as SOPS reads it: YAML 1.2 with the octals of 1.1, so `on` and `yes` are text."""
    if event.tag is not None or not event.implicit[0]:
        return event.value
    if event.value.lower() in {"yes", "no", "on", "off", "y", "n"}:
        return event.value
    if _DATE.match(event.value):
        raise NeedsProgram
    document = next(read_documents(event.value), None) if event.value else None
    return (
        document.value
        if document is not None and isinstance(document.value, bool | int | float)
        else (event.value if document is not None else None)
    )


def _decrypt_json(text: str, keys: Mapping[str, bytes]) -> bytes:
    tree = json.loads(text)
    seal = _Seal(tree.pop("sops", None) if isinstance(tree, dict) else None, keys)
    opened = _open_tree(tree, [], seal)
    seal.check()
    return json.dumps(opened, ensure_ascii=False, indent="\t").encode() + b"\n"


def _open_tree(value: Any, path: list[str], seal: _Seal) -> Any:
    if isinstance(value, dict):
        return {key: _open_tree(inside, [*path, key], seal) for key, inside in value.items()}
    if isinstance(value, list):
        return [_open_tree(inside, path, seal) for inside in value]
    if value is None:
        return None
    opened = seal.open(path, value)
    if isinstance(opened, bytes):
        raise NeedsProgram
    return whole(opened) if isinstance(opened, float) else opened


def _decrypt_binary(text: str, keys: Mapping[str, bytes]) -> bytes:
    tree = json.loads(text)
    if not isinstance(tree, dict) or "data" not in tree:
        raise ValueError
    seal = _Seal(tree.get("sops"), keys)
    content = _bytes(seal.open(["data"], tree["data"]))
    seal.check()
    return content


def _decrypt_dotenv(text: str, keys: Mapping[str, bytes]) -> bytes:
    pairs = [line.partition("=")[::2] for line in text.split("\n") if line and not line.startswith("#")]
    seal = _Seal(_nested({key: value for key, value in pairs if key.startswith("sops_")}), keys)
    lines: list[str] = []
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if line.startswith("#ENC[") or (equals and key.startswith("sops_")):
            continue
        if not line or line.startswith("#"):
            lines += [line] if line else []
            continue
        opened = seal.open([key], value.replace("\\n", "\n"))
        lines.append(f"{key}={str(opened).replace(chr(10), chr(92) + 'n')}")
    seal.check()
    return ("\n".join(lines) + "\n").encode()


def _nested(flat: Mapping[str, str]) -> dict[str, Any]:
    """Restore the structure of metadata: `sops_age__list_0__map_enc` is `enc` of the first entry of `age`."""
    metadata: dict[str, Any] = {}
    lists: dict[str, dict[str, dict[str, str]]] = {}
    for key, value in flat.items():
        name, *rest = key.removeprefix("sops_").split("__")
        text = value.replace("\\n", "\n")
        if name in _LISTS and len(rest) == 2:  # noqa: PLR2004 - list_N and map_KEY
            entry = lists.setdefault(name, {}).setdefault(rest[0], {})
            entry[rest[1].removeprefix("map_")] = text
        else:
            metadata[name] = text
    return {**metadata, **{name: list(entries.values()) for name, entries in lists.items()}}
