"""A pattern of URLs stands for what a person takes it for, however a URL is written."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.core.url_patterns import matches, parse

TEAM = "https://git.example.com/team-a/**"


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.com/team-a/config",
        "https://git.example.com/team-a/config.git",
        "https://git.example.com/team-a/config.git/",
        "https://git.example.com:443/team-a/config",
        "https://GIT.Example.COM/team-a/config",
        "HTTPS://git.example.com/team-a/config",
        "https://git.example.com./team-a/config",
        "https://git.example.com/team-a/apps/web",
        "https://git.example.com/%74eam-a/config",
        "https://git.example.com/team-a/My%20Project/_git/x",
    ],
)
def test_one_repository_is_matched_in_all_its_spellings(url: str) -> None:
    assert matches(TEAM, url)


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.com/team-b/config",
        "https://git.example.com/team-a-evil/config",
        "https://git.example.com/TEAM-A/config",
        "https://git.example.com:8443/team-a/config",
        "http://git.example.com/team-a/config",
        "ssh://git.example.com/team-a/config",
        "https://git.example.com@evil.example.org/team-a/config",
        "https://git.example.com:443@evil.example.org/team-a/config",
        "https://evil.example.org/git.example.com/team-a/config",
        "https://git.example.com.evil.example.org/team-a/config",
        "https://user@git.example.com/team-a/config",
        "https://git.example.com/team-a/../team-b/config",
        "https://git.example.com/team-a/%2e%2e/team-b/config",
        "https://git.example.com/team-a/%2E./team-b/config",
        "https://git.example.com/team-a%2f..%2fteam-b/config",
        "https://git.example.com/team-a/%252e%252e/team-b",
        "https://git.example.com/team-a//config",
        "https://git.example.com//team-a/config",
        "https://git.example.com/./team-a/config",
        "https://git.example.com/team-a/%2e/config",
        "https://git.example.com/team-a\\..\\team-b/config",
        "https://git.example.com\\@evil.example.org/team-a/config",
        "https://git.example.com/team-a/config?x=/team-b",
        "https://git.example.com/team-a/config#x",
        "https://git.example.com/team-a/..;/team-b/config",
        "https://git.example.com/team-a/..;x=1/team-b/config",
        "https://git.example.com/team-a/..%3b/team-b/config",
        "https://git.example.com/team-a/%2e%2e;/team-b/config",
        "https://git.example.com/team-a;/config",
        "https://git.example.com/team-a/.. /team-b/config",
        "https://git.example.com/team-a/..%20/team-b/config",
        "https://git.example.com/team-a/.%20./team-b/config",
        "https://git.example.com/team-a/.../team-b/config",
        "https://git.example.com/team-a/%zz",
        "https://git.example.com/team-a/%ff",
        "https://git.example.com/team-a/\nx",
        "https:/git.example.com/team-a/config",
        "git.example.com/team-a/config",
        "",
    ],
)
def test_a_trick_in_a_url_is_matched_by_nothing(url: str) -> None:
    assert not matches(TEAM, url)


@pytest.mark.parametrize(
    ("pattern", "url", "is_matched"),
    [
        ("https://git.example.com/team-a/*", "https://git.example.com/team-a/x", True),
        ("https://git.example.com/team-a/*", "https://git.example.com/team-a/x/y", False),
        ("https://git.example.com/team-a/*.git", "https://git.example.com/team-a/x.git", True),
        ("https://git.example.com/**/config", "https://git.example.com/a/b/config", True),
        ("https://git.example.com/**/config", "https://git.example.com/config", True),
        ("https://*.example.com/x", "https://a.b.example.com/x", True),
        ("https://*.example.com/x", "https://example.com/x", False),
        ("https://*.example.com/x", "https://evil.org/.example.com/x", False),
        ("https://*/x", "https://any.host/x", True),
        ("https://git.example.com:8443/x", "https://git.example.com:8443/x", True),
        ("https://git.example.com:8443/x", "https://git.example.com/x", False),
        ("ssh://git@git.example.com/team-a/*", "ssh://git@git.example.com:22/team-a/x", True),
        ("ssh://git@git.example.com/team-a/*", "ssh://root@git.example.com/team-a/x", False),
        ("ssh://git@git.example.com/team-a/*", "git@git.example.com:/team-a/x", True),
        ("ssh://git@git.example.com/team-a/*", "git@git.example.com:team-a/x", False),
        ("git@git.example.com:team-a/*", "git@git.example.com:team-a/x.git", True),
        ("git@git.example.com:team-a/*", "git@git.example.com:~root/team-a/x", False),
        ("git@git.example.com:team-a/*", "git@git.example.com:team-a/../../x", False),
        ("git@git.example.com:team-a/*", "git@git.example.com:team-a%2fx", False),
        ("https://api.example.com:6443", "https://api.example.com:6443/", True),
        ("https://api.example.com:6443", "https://api.example.com:6443/clusters/root", False),
        ("https://[2001:db8::1]:6443", "https://[2001:DB8::1]:6443", True),
    ],
)
def test_a_star_stays_within_its_part(pattern: str, url: str, is_matched: bool) -> None:
    assert matches(pattern, url) is is_matched


@quick
@given(st.text(alphabet="/.%2eEfF@:*abhttps?#\\", max_size=40))
def test_whatever_is_matched_below_a_folder_is_below_that_folder(text: str) -> None:
    url = f"https://git.example.com{text}"
    if matches(TEAM, url):
        found = parse(url)
        assert found is not None
        assert (found.scheme, found.user, found.host, found.port) == ("https", "", "git.example.com", 443)
        assert found.folders[0] == "team-a"
        assert not {"", ".", ".."} & set(found.folders)


@quick
@given(st.lists(st.sampled_from(["a", "b", "**", "*"]), max_size=6), st.lists(st.sampled_from("ab"), max_size=6))
def test_folders_are_matched_as_a_regular_expression_would(pattern: list[str], folders: list[str]) -> None:
    expression = "".join("(?:[^/]+/)*" if part == "**" else f"{'[^/]+' if part == '*' else part}/" for part in pattern)
    expected = re.fullmatch(expression, "".join(f"{folder}/" for folder in folders)) is not None
    assert matches("/".join(["https://h", *pattern]), "/".join(["https://h", *folders])) is expected
