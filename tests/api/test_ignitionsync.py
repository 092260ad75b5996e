"""IgnitionSync on a real API server: what it takes, what it refuses, and with which words."""

import msgspec
import pytest
from tests.api.ignition_specs import (
    API_KEY,
    APP,
    GOOD,
    MAPPING,
    REPO,
    SSH,
    SSH_KEY,
    TOKEN,
    apply,
    back,
    deployment,
    git,
    mapping,
    profile,
    request,
    spec,
)
from tests.api.trial import Bad, Spec, create

from syncline.api.ignitionsync import IgnitionSync
from syncline.api.kinds import IGNITION_SYNC
from syncline.sandbox import RequestError, Sandbox

pytestmark = pytest.mark.usefixtures("crds")


DASH = "a name of a variable has letters, digits and _ only, because {{.Vars.KEY}} cannot name others: write site_"
CODES = "write a timeout from 1s to 5m, such as 10s"

RULES: dict[str, Bad] = {
    "no API key": (
        {"git": {"repo": REPO, "ref": "main"}},
        "spec.gateway",
        "Ignition gateways need an API key: write gateway.apiKeySecretRef; for other applications, write apply.type:",
    ),
    "no API key for Ignition": (
        {"git": {"repo": REPO, "ref": "main"}, "apply": {"type": "Ignition"}, "gateway": {"port": 8088}},
        "spec.gateway",
        "Ignition gateways need an API key: write gateway.apiKeySecretRef; for other applications, write apply.type:",
    ),
    "profiles and shared folders": (
        {**profile(), "shared": {"udts": {"enabled": True, "source": "udts"}}},
        "spec.sync.profiles",
        "sync.profiles has the files of all gateways: move shared and additionalFiles to mappings of a profile",
    ),
    "profiles and more files": (
        {**profile(), "additionalFiles": [{"source": "a", "dest": "b"}]},
        "spec.sync.profiles",
        "sync.profiles has the files of all gateways: move shared and additionalFiles to mappings of a profile",
    ),
    "a pull request without a token": (
        {**back(createPR=True), "git": {"repo": SSH, "ref": "main", "auth": SSH_KEY}},
        "spec.bidirectional.createPR",
        "a pull request needs git.auth.token or git.auth.githubApp: write one of them, or createPR: false",
    ),
    "edits to the followed branch": (
        back(targetBranch="main"),
        "spec.bidirectional.targetBranch",
        "edits of gateways never go to the ref that gateways follow: write another targetBranch",
    ),
    "edits to the followed branch in full": (
        {**back(targetBranch="dev"), "git": {"repo": REPO, "ref": "refs/heads/dev", "auth": TOKEN}},
        "spec.bidirectional.targetBranch",
        "edits of gateways never go to the ref that gateways follow: write another targetBranch",
    ),
    "ssh without a key": (
        git(repo=SSH),
        "spec.git.auth",
        "a repository at ssh:// or git@host:path needs a private key: write auth.sshKey",
    ),
    "ssh with a token": (
        git(repo=SSH, auth=TOKEN),
        "spec.git.auth",
        "a repository at ssh:// or git@host:path needs a private key: write auth.sshKey",
    ),
    "a key for https": (
        git(auth=SSH_KEY),
        "spec.git.auth",
        "auth.sshKey needs a repository at ssh:// or git@host:path: write such a URL, or write auth.token or",
    ),
    "an authority for ssh": (
        git(repo=SSH, auth=SSH_KEY, caSecretRef={"name": "ca"}),
        "spec.git.caSecretRef",
        "caSecretRef needs a repository at https://: remove it",
    ),
    "two credentials": (
        git(auth={**TOKEN, **APP}),
        "spec.git.auth",
        "a repository has one credential: write at most one of sshKey, githubApp and token",
    ),
    "three credentials": (
        git(auth={**TOKEN, **APP, **SSH_KEY}),
        "spec.git.auth",
        "a repository has one credential: write at most one of sshKey, githubApp and token",
    ),
    "an API without https": (
        git(auth={"githubApp": {**APP["githubApp"], "apiBaseURL": "http://github.example.com"}}),
        "spec.git.auth.githubApp.apiBaseURL",
        "write the address of the API, such as https://github.example.com/api/v3",
    ),
    "a password in the URL": (
        git(repo="https://me:secret@git.example.com/plant.git"),
        "spec.git.repo",
        "the URL contains credentials: move them to a Secret",
    ),
    "a folder as repository": (git(repo="/srv/plant.git"), "spec.git.repo", "write the URL of a repository"),
    "a ref that is an option": (git(ref="--upload-pack=x"), "spec.git.ref", "write a branch, a tag, a full ref"),
    "polls without a pause": (
        spec(polling={"interval": "0s"}),
        "spec.polling.interval",
        "write an interval from 1s to 24h, such as 60s; enabled: false stops the checks",
    ),
    "polls at any time": (spec(polling={"interval": "soon"}), "spec.polling.interval", "write a duration"),
    "a request for an option": (
        spec(webhook={"allowedRefs": ["main", "-x"]}),
        "spec.webhook.allowedRefs[1]",
        'write a branch, a tag or a commit, or a glob with "*" and "?", such as release/*',
    ),
    "a profile in capitals": (
        spec(sync={"profiles": {"Site": {"mappings": [MAPPING]}}}),
        "spec.sync.profiles",
        'write the names of profiles in lowercase letters, digits and "-", such as site',
    ),
    "a profile with a long name": (
        spec(sync={"profiles": {"p" * 64: {"mappings": [MAPPING]}}}),
        "spec.sync.profiles",
        "keys have at most 63 characters",
    ),
    "a variable with a dash": (
        profile(vars={"site-name": "a"}),
        "spec.sync.profiles[default].vars",
        DASH,
    ),
    "a variable with a dash for all": (
        spec(sync={"defaults": {"vars": {"a.b": "c"}}}),
        "spec.sync.defaults.vars",
        DASH,
    ),
    "a long path of a value": (
        mapping(patches=[{"set": {"p" * 257: "v"}}]),
        "patches[0].set",
        "keys have at most 256 characters",
    ),
    "external resources of nowhere": (
        spec(shared={"externalResources": {"enabled": True}}),
        "spec.shared.externalResources",
        "externalResources with enabled: true needs a folder: write source, or enabled: false",
    ),
    "scripts of nowhere": (
        spec(shared={"scripts": {"enabled": True, "destPath": "a"}}),
        "spec.shared.scripts",
        "scripts with enabled: true needs a folder: write source, or enabled: false",
    ),
    "scripts to nowhere": (
        spec(shared={"scripts": {"enabled": True, "source": "a"}}),
        "spec.shared.scripts",
        "scripts with enabled: true need a folder within the project: write destPath, such as ignition/script-python",
    ),
    "types of nowhere": (
        spec(shared={"udts": {"enabled": True}}),
        "spec.shared.udts",
        "udts with enabled: true needs a folder: write source, or enabled: false",
    ),
    "a request that never ends": (request(timeout="1h"), "spec.apply.http.timeout", CODES),
    "a check that never ends": (
        spec(validation={"webhook": {"url": "https://a.example.com", "timeout": "1h"}}),
        "spec.validation.webhook.timeout",
        CODES,
    ),
    "a check by file": (
        spec(validation={"webhook": {"url": "file:///etc/passwd"}}),
        "spec.validation.webhook.url",
        "write an address with http or https and without credentials, such as https://checks.example.com/files",
    ),
    "a bucket behind a password": (
        spec(snapshots={"storage": {"type": "s3", "s3": {"bucket": "b", "endpoint": "https://a:b@s3.example.com"}}}),
        "spec.snapshots.storage.s3.endpoint",
        "write an address with http or https and without credentials, such as https://checks.example.com/ignition",
    ),
    "HTTP without a request": (apply(type="HTTP"), "spec.apply.http", "http belongs to type: HTTP: write both"),
    "a request of Ignition": (
        spec(apply={"type": "Ignition", "http": {"port": 1}}),
        "spec.apply.http",
        "http belongs to type: HTTP: write both, or neither",
    ),
    "Signal without a signal": (
        apply(type="Signal"),
        "spec.apply.signal",
        "signal belongs to type: Signal: write both, or neither",
    ),
    "a command of nothing": (
        apply(type="None", command={"command": ["a"]}),
        "spec.apply.command",
        "command belongs to type: Command: write both, or neither",
    ),
    "a request to another server": (
        request(path="http://example.com/"),
        "spec.apply.http.path",
        "write the path of the request, such as /-/reload",
    ),
    "a header with a line break": (
        request(headers=[{"name": "A:\n", "secretRef": API_KEY}]),
        "spec.apply.http.headers[0].name",
        'write the name of a header: letters, digits and "-"',
    ),
    "a canary without stages": (
        deployment(strategy="canary"),
        "spec.deployment.stages",
        "stages belong to strategy: canary: write both, or neither",
    ),
    "stages all at once": (
        deployment(stages=[{"name": "a"}]),
        "spec.deployment.stages",
        "stages belong to strategy: canary: write both, or neither",
    ),
    "two orders": (
        deployment(strategy="canary", stages=[{"name": "a"}], syncOrder=["b"]),
        "spec.deployment.syncOrder",
        "stages have the order of a canary: write either stages or syncOrder",
    ),
    "a stage twice": (
        deployment(strategy="canary", stages=[{"name": "a"}, {"name": "a"}]),
        "spec.deployment.stages",
        "two stages have the same name: write a different name for each",
    ),
    "a stage in capitals": (
        deployment(strategy="canary", stages=[{"name": "First"}]),
        "spec.deployment.stages[0].name",
        'write the name of a stage: lowercase letters, digits and "-"',
    ),
    "a rollout that never ends": (
        deployment(autoRollback={"timeout": "48h"}),
        "spec.deployment.autoRollback.timeout",
        "write a timeout from 10s to 24h, such as 10m",
    ),
    "s3 without a bucket": (
        spec(snapshots={"storage": {"type": "s3"}}),
        "spec.snapshots.storage.s3",
        "type: s3 needs a bucket: write s3.bucket",
    ),
    "edits of nothing": (
        back(watchPaths=None),
        "spec.bidirectional.watchPaths",
        "enabled: true needs the paths whose edits are sent: write watchPaths, such as projects/**",
    ),
    "edits to nowhere": (
        back(targetBranch=None),
        "spec.bidirectional.targetBranch",
        "enabled: true needs a branch for the edits: write targetBranch, such as gateway-changes/{{ gateway.name }}",
    ),
    "edits at once": (
        back(debounce="1ms"),
        "spec.bidirectional.debounce",
        "write a debounce from 1s to 1h, such as 30s",
    ),
    "edits to an option": (
        back(targetBranch="-f"),
        "spec.bidirectional.targetBranch",
        "write a branch, such as gateway-changes/{{ gateway.name }}",
    ),
    "a size without a number": (
        back(guardrails={"maxFileSize": "big"}),
        "spec.bidirectional.guardrails.maxFileSize",
        "write a quantity, such as 10Mi, 500m or 1",
    ),
    "a rollback to a branch": (spec(rollback={"to": "main"}), "spec.rollback.to", "write Previous, or a commit"),
    "a long key of a label": (
        deployment(strategy="canary", stages=[{"name": "a", "gatewaySelector": {"k" * 317: "v"}}]),
        "gatewaySelector",
        "keys have at most 316 characters",
    ),
}
SCHEMA: dict[str, Bad] = {
    "no repository": ({"git": {"ref": "main"}, "gateway": {"apiKeySecretRef": API_KEY}}, "spec.git.repo", "Required"),
    "no ref": ({"git": {"repo": REPO}, "gateway": {"apiKeySecretRef": API_KEY}}, "spec.git.ref", "Required"),
    "a Secret without a key": (
        spec(gateway={"apiKeySecretRef": {"name": "gw"}}),
        "spec.gateway.apiKeySecretRef.key",
        "Required",
    ),
    "a Secret of another namespace": (
        spec(gateway={"apiKeySecretRef": {"name": "gw", "key": "a", "namespace": "b"}}),
        "namespace",
        "unknown field",
    ),
    "an absolute source": (mapping(source="/etc"), "mappings[0].source", "should match"),
    "an absolute destination": (mapping(destination="/etc"), "mappings[0].destination", "should match"),
    "no mapping": (profile(mappings=[]), "mappings", "should have at least 1 items"),
    "a patch of nothing": (mapping(patches=[{"set": {}}]), "patches[0].set", "should have at least 1 properties"),
    "an unknown type": (mapping(type="link"), "mappings[0].type", 'supported values: "dir", "file"'),
    "an unknown policy for sessions": (
        spec(ignition={"designerSessionPolicy": "kill"}),
        "spec.ignition.designerSessionPolicy",
        'supported values: "fail", "proceed", "wait"',
    ),
    "an unknown strategy": (deployment(strategy="AllAtOnce"), "spec.deployment.strategy", '"all-at-once", "canary"'),
    "an unknown answer to a conflict": (
        back(conflictStrategy="GitWins"),
        "spec.bidirectional.conflictStrategy",
        'supported values: "gatewayWins", "gitWins", "manual"',
    ),
    "an unknown trigger": (
        deployment(autoRollback={"triggers": ["fire"]}),
        "spec.deployment.autoRollback.triggers[0]",
        "supported values",
    ),
    "the cache of the gateway": (spec(unprotected=[".resources"]), "spec.unprotected[0]", "supported values"),
    "a port of nowhere": (spec(gateway={"port": 0, "apiKeySecretRef": API_KEY}), "spec.gateway.port", "1"),
    "an image that is a sentence": (
        spec(agent={"image": {"repository": "a b"}}),
        "spec.agent.image.repository",
        "should match",
    ),
    "a policy of other kinds": (spec(deletionPolicy="Orphan"), "deletionPolicy", "unknown field"),
}
BAD = RULES | SCHEMA


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_a_good_spec_is_taken_and_means_the_same_to_the_operator(sandbox: Sandbox, spec: Spec) -> None:
    taken = create(sandbox, IGNITION_SYNC, spec)
    given = {name: value for name, value in spec.items() if value is not None}
    local = msgspec.convert({"metadata": taken["metadata"], "spec": given}, IgnitionSync)
    assert msgspec.convert(taken, IgnitionSync).spec == local.spec


@pytest.mark.parametrize(("spec", "where", "words"), BAD.values(), ids=BAD)
def test_a_bad_spec_is_refused_with_what_to_write_instead(sandbox: Sandbox, spec: Spec, where: str, words: str) -> None:
    with pytest.raises(RequestError) as refusal:
        create(sandbox, IGNITION_SYNC, spec)
    assert where in str(refusal.value)
    assert words in str(refusal.value)


def test_the_server_fills_in_the_defaults_of_the_first_build(sandbox: Sandbox) -> None:
    given = spec(storage={}, webhook={}, polling={}, ignition={}, snapshots={"storage": {}}, agent={"image": {}})
    given |= {"deployment": {"autoRollback": {}}, "bidirectional": {"guardrails": {}}, "validation": {"webhook": {}}}
    given |= {"additionalFiles": [{"source": "a", "dest": "b"}], "apply": {}}
    taken = create(sandbox, IGNITION_SYNC, given)["spec"]
    assert taken["storage"] == {"storageClassName": "", "size": "1Gi", "accessMode": "ReadWriteMany"}
    assert taken["webhook"] == {"enabled": True, "port": 8443}
    assert taken["polling"] == {"enabled": True, "interval": "60s"}
    assert taken["gateway"] == {"port": 8043, "tls": True, "apiKeySecretRef": API_KEY}
    assert taken["ignition"]["designerSessionPolicy"] == "wait"
    assert taken["excludePatterns"] == ["**/.git/", "**/.gitkeep", "**/.resources/**"]
    assert taken["additionalFiles"][0]["type"] == "file"
    assert taken["validation"] == {"dryRunBefore": False, "webhook": {"url": "", "timeout": "10s"}}
    assert taken["snapshots"] == {"enabled": False, "retentionCount": 5, "storage": {"type": "pvc"}}
    assert taken["deployment"] == {"strategy": "all-at-once", "autoRollback": {"enabled": False, "timeout": "10m"}}
    assert taken["bidirectional"] == {
        "enabled": False,
        "createPR": False,
        "debounce": "30s",
        "provider": "Auto",
        "conflictStrategy": "gitWins",
        "guardrails": {"maxFileSize": "10Mi", "maxFilesPerPR": 100},
    }
    assert taken["agent"]["image"]["pullPolicy"] == "IfNotPresent"
    assert taken["apply"] == {"type": "Ignition"}
    assert (taken["paused"], taken["suspend"], taken["driftPolicy"]) == (False, False, "Correct")
