"""SOPS files: the same content as the `sops` program gives, without it where an age key opens them."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pyrage
import pytest

from syncline.render import sops, tools
from syncline.render.manifests import read_documents
from syncline.render.sops import NeedsKeyService, NeedsProgram, SopsError

SECRET = """\
apiVersion: v1
kind: Secret
metadata:
    name: database
    labels: {tier: backend}
# who may know this
stringData:
    password: "p:\\n{{ q }}é"
    port: 5432
    ratio: 1.50
    tls: true
    nothing: null
    empty: ""
    list: [a, 2, {deep: x}]
    certificate: |
        -----BEGIN-----
        abc
---
apiVersion: v1
kind: ConfigMap
metadata: {name: second}
"""
FILES: dict[str, tuple[bytes, list[str]]] = {
    "secret.yaml": (SECRET.encode(), ["--encrypted-regex", "^(data|stringData)$"]),
    "all.yaml": (b"a: 1\nb: [1.5, true, {q: w}]\nmode_unencrypted: 0755\nswitch_unencrypted: 'on'\n", []),
    "suffix.yml": (b"a: x\nb_secret: {c: z, d: 2}\n", ["--encrypted-suffix", "_secret"]),
    "prefix.yaml": (b"open: {a: x}\nb: z\n", ["--unencrypted-regex", "^open$"]),
    "config.json": (b'{"a": "b", "n": 5, "f": 1.25, "l": [1, "x", null, true], "o_unencrypted": 2}', []),
    "app.env": (b"A=b\nB=two\\nlines\n# a comment\nEMPTY=\n", []),
    "logo.bin": (b"\x00\xff\xfe \x80 binary\n", []),
    "notes.txt": (b"hello {{ name }}\n", []),
}


class Key:
    """An age key, and what the `sops` program makes with it."""

    def __init__(self, folder: Path) -> None:
        self._identity = pyrage.x25519.Identity.generate()
        self.recipient = str(self._identity.to_public())
        self.secret = {"main.agekey": f"# created\n{self._identity}\n".encode()}
        self._folder = folder
        (folder / "key").write_bytes(self.secret["main.agekey"])

    def encrypt(self, name: str, content: bytes, *options: str) -> bytes:
        (self._folder / name).write_bytes(content)
        return self._sops("encrypt", "--age", self.recipient, *options, name)

    def decrypt(self, name: str, content: bytes) -> bytes:
        (self._folder / name).write_bytes(content)
        return self._sops("decrypt", name)

    def _sops(self, *arguments: str) -> bytes:
        command = [str(tools.find("sops")), "--disable-version-check", *arguments]
        environment = {"SOPS_AGE_KEY_FILE": str(self._folder / "key"), "HOME": str(self._folder)}
        return subprocess.run(command, cwd=self._folder, env=environment, check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return Key(tmp_path_factory.mktemp("sops"))


@pytest.fixture(scope="module")
def sealed(key: Key) -> bytes:
    return key.encrypt("sealed.yaml", SECRET.encode(), "--encrypted-regex", "^(data|stringData)$")


def values(name: str, content: bytes) -> Any:
    if name.endswith((".yaml", ".yml", ".json")):
        return [document.value for document in read_documents(content.decode())]
    return [line for line in content.splitlines() if not line.startswith(b"#")] if name.endswith(".env") else content


@pytest.mark.parametrize("name", FILES)
def test_a_file_opens_as_it_does_with_sops(key: Key, name: str) -> None:
    content, options = FILES[name]
    encrypted = key.encrypt(name, content, *options)
    assert sops.is_encrypted(name, encrypted)
    assert not sops.is_encrypted(name, content)
    opened = sops.decrypt(name, encrypted, key.secret)
    assert values(name, opened) == values(name, key.decrypt(name, encrypted))
    assert values(name, opened) == values(name, content)


def test_the_text_around_the_values_stays(key: Key, sealed: bytes) -> None:
    lines = sops.decrypt("secret.yaml", sealed, key.secret).decode().splitlines()
    assert lines[0] == "apiVersion: v1"
    assert "# who may know this" in lines
    assert not any("sops" in line or "ENC[" in line for line in lines)


def test_only_encrypted_values_may_be_sealed(key: Key, tmp_path: Path) -> None:
    rules = {
        "creation_rules": [
            {"path_regex": ".*", "age": key.recipient, "encrypted_regex": "^data$", "mac_only_encrypted": True}
        ]
    }
    config = tmp_path / "rules.yaml"
    config.write_text(json.dumps(rules))
    (tmp_path / "a.yaml").write_text("open: 1\ndata: {a: b}\n")
    command = [str(tools.find("sops")), "--disable-version-check", "--config", str(config), "encrypt", "a.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env={"HOME": str(tmp_path)}, check=True, capture_output=True)
    changed = done.stdout.replace(b"open: 1", b"open: 2")
    assert b"mac_only_encrypted: true" in changed
    assert values("a.yaml", sops.decrypt("a.yaml", changed, key.secret)) == [{"open": 2, "data": {"a": "b"}}]


def test_another_age_key_does_not_open_it_and_the_error_names_whose_does(key: Key, sealed: bytes) -> None:
    other = str(pyrage.x25519.Identity.generate()).encode()
    with pytest.raises(
        SopsError, match=f"encrypted for {key.recipient}: add that key to the Secret, with a name that ends in .agekey"
    ):
        sops.decrypt("secret.yaml", sealed, {"other.agekey": other})


def test_a_key_that_is_none_is_named_and_not_shown(sealed: bytes) -> None:
    with pytest.raises(SopsError, match=r"the key bad\.agekey of the decryption Secret is not an age key") as caught:
        sops.decrypt("secret.yaml", sealed, {"bad.agekey": b"AGE-SECRET-KEY-1HUNTER2"})
    assert "HUNTER2" not in str(caught.value)


def test_keys_under_other_names_are_not_tried(key: Key, sealed: bytes) -> None:
    with pytest.raises(SopsError, match="no age key of the decryption Secret decrypts it"):
        sops.decrypt("secret.yaml", sealed, {"main.txt": key.secret["main.agekey"]})


def test_a_value_that_was_moved_is_refused(key: Key, sealed: bytes) -> None:
    with pytest.raises(SopsError, match="changed or moved"):
        sops.decrypt("secret.yaml", sealed.replace(b"password:", b"passphrase:"), key.secret)


def test_a_value_that_was_tampered_with_is_refused(key: Key, sealed: bytes) -> None:
    start = sealed.index(b"data:", sealed.index(b"password:")) + len(b"data:")
    flipped = b"B" if sealed[start : start + 1] == b"A" else b"A"
    with pytest.raises(SopsError, match="changed or moved"):
        sops.decrypt("secret.yaml", sealed[:start] + flipped + sealed[start + 1 :], key.secret)


def test_an_open_value_that_was_changed_breaks_the_seal(key: Key, sealed: bytes) -> None:
    with pytest.raises(NeedsProgram):  # which says the same, with the last word
        sops.decrypt("secret.yaml", sealed.replace(b"name: database", b"name: other"), key.secret)


def test_a_secret_in_the_clear_among_encrypted_ones_is_refused(key: Key, sealed: bytes) -> None:
    with pytest.raises(SopsError, match="must be encrypted is not"):
        sops.decrypt("secret.yaml", sealed.replace(b"stringData:\n", b"stringData:\n    new: plain\n"), key.secret)


@pytest.mark.parametrize("damage", ["sops:\n", "sops: 3\n", "sops:\n    mac: ENC[AES256_GCM,\n", 'sops: {age: "x"}\n'])
def test_damaged_metadata_is_an_error_and_no_crash(key: Key, damage: str) -> None:
    with pytest.raises(SopsError):
        sops.decrypt("a.yaml", f"a: ENC[AES256_GCM,data:eA==,iv:eA==,tag:eA==,type:str]\n{damage}".encode(), key.secret)


@pytest.mark.parametrize(
    "damage", ["sops_age__x=1\n", "sops_age=1\nsops_age__list_0__map_enc=x\n", "sops_age__a__b=1\n"]
)
def test_damaged_metadata_of_variables_is_an_error_too(key: Key, damage: str) -> None:
    with pytest.raises(SopsError):
        sops.decrypt("a.env", f"A=ENC[AES256_GCM,x]\nsops_mac=x\n{damage}".encode(), key.secret)


def test_a_pattern_in_a_file_cannot_take_long(key: Key, sealed: bytes) -> None:
    hostile = sealed.replace(b"encrypted_regex: ^(data|stringData)$", b"encrypted_regex: ^(a+)+$")
    assert hostile != sealed
    with pytest.raises((SopsError, NeedsProgram)):
        sops.decrypt("secret.yaml", hostile.replace(b"password", b"a" * 5000 + b"!"), key.secret)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.ini", b"[a]\nb = ENC[AES256_GCM,data:eA==]\n[sops]\nmac = x\n"),
        ("a.yaml", b"a: ENC[AES256_GCM,x]\nsops:\n    pgp: [{fp: AB}]\n    mac: x\n"),
        ("a.yaml", b"a: ENC[AES256_GCM,x]\nsops:\n    shamir_threshold: 2\n    key_groups: [{}, {}]\n"),
    ],
)
def test_what_takes_the_program_says_so(key: Key, name: str, content: bytes) -> None:
    assert sops.is_encrypted(name, content)
    with pytest.raises(NeedsProgram):
        sops.decrypt(name, content, key.secret)


def test_key_services_that_must_be_asked_are_named(key: Key) -> None:
    content = b"a: ENC[AES256_GCM,x]\nsops:\n    hc_vault: [{vault_address: x}]\n    gcp_kms: [{enc: x}]\n    mac: x\n"
    with pytest.raises(NeedsKeyService) as caught:
        sops.decrypt("a.yaml", content, key.secret)
    assert caught.value.entries == (("gcp_kms", {"enc": "x"}), ("hc_vault", {"vault_address": "x"}))


def test_a_file_about_sops_is_not_taken_for_one_of_its_own() -> None:
    text = base64.b64encode(b"x").decode()
    assert not sops.is_encrypted("readme.yaml", f"how: ENC[AES256_GCM,data:{text}]\nabout: sops\n".encode())
