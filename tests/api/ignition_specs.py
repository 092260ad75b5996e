"""Specs of IgnitionSyncs: their parts, and those that an API server takes."""

from typing import Any

from tests.api.trial import Spec

from syncline.api.ignition_files import DEFAULT_EXCLUDES

REPO = "https://git.example.com/plant.git"
SSH = "git@git.example.com:plant.git"
API_KEY = {"name": "gw", "key": "apiKey"}
TOKEN = {"token": {"secretRef": {"name": "git", "key": "token"}}}
SSH_KEY = {"sshKey": {"secretRef": {"name": "git", "key": "ssh-privatekey"}}}
APP = {"githubApp": {"appId": 1, "installationId": 2, "privateKeySecretRef": {"name": "app", "key": "private-key.pem"}}}
MAPPING = {"source": "projects", "destination": "projects"}


def spec(**more: Any) -> Spec:
    return {"git": {"repo": REPO, "ref": "main"}, "gateway": {"apiKeySecretRef": API_KEY}, **more}


def git(**more: Any) -> Spec:
    return spec(git={"repo": REPO, "ref": "main", **more})


def profile(**more: Any) -> Spec:
    return spec(sync={"profiles": {"default": {"mappings": [MAPPING], **more}}})


def mapping(**more: Any) -> Spec:
    return profile(mappings=[{**MAPPING, **more}])


def apply(**given: Any) -> Spec:
    return {"git": {"repo": REPO, "ref": "main"}, "apply": given}


def request(**given: Any) -> Spec:
    return apply(type="HTTP", http={"port": 9090, **given})


def deployment(**given: Any) -> Spec:
    return spec(deployment=given)


def back(**given: Any) -> Spec:
    usual = {"enabled": True, "watchPaths": ["projects/**"], "targetBranch": "changes/{{ gateway.name }}"}
    return git(auth=TOKEN) | {"bidirectional": {key: value for key, value in {**usual, **given}.items() if value}}


CONTRACT: Spec = {
    "git": {"repo": REPO, "ref": "main", "auth": TOKEN},
    "polling": {"enabled": True, "interval": "60s"},
    "webhook": {"enabled": True, "secretRef": {"name": "hook", "key": "token"}},
    "gateway": {"port": 8043, "tls": True, "apiKeySecretRef": API_KEY},
    "normalize": {"systemName": True},
    "ignition": {"designerSessionPolicy": "wait"},
    "sync": {
        "defaults": {"vars": {"site": "7"}},
        "profiles": {
            "default": {
                "mappings": [
                    {**MAPPING, "type": "dir"},
                    {
                        "source": "gateways/{{ gateway.name }}/config",
                        "destination": "config/resources/external",
                        "required": False,
                    },
                ]
            }
        },
    },
}
FIRST_BUILD: Spec = {
    "git": {"repo": SSH, "ref": "2.0.0", "auth": SSH_KEY},
    "storage": {"storageClassName": "", "size": "1Gi", "accessMode": "ReadWriteMany"},
    "webhook": {"enabled": True, "port": 8443, "secretRef": {"name": "hook", "key": "hmac-key"}},
    "polling": {"enabled": True, "interval": "60s"},
    "gateway": {"port": 8043, "tls": True, "apiKeySecretRef": API_KEY},
    "siteNumber": "1",
    "shared": {
        "externalResources": {"enabled": True, "source": "shared/external", "createFallback": True},
        "scripts": {"enabled": True, "source": "shared/scripts", "destPath": "ignition/script-python/exchange"},
        "udts": {"enabled": True, "source": "shared/udts"},
    },
    "additionalFiles": [{"source": "shared/config/factory.json", "dest": "factory.json", "type": "file"}],
    "excludePatterns": [*DEFAULT_EXCLUDES],
    "normalize": {
        "systemName": True,
        "fields": [{"jsonPath": ".someField", "valueTemplate": "{{.GatewayName}}-custom"}],
    },
    "bidirectional": {
        "enabled": False,
        "watchPaths": ["projects/**/com.inductiveautomation.perspective/views/**"],
        "targetBranch": "gateway-changes/{{.Namespace}}",
        "debounce": "30s",
        "createPR": True,
        "prLabels": ["gateway-change"],
        "conflictStrategy": "gitWins",
        "guardrails": {"maxFileSize": "10Mi", "maxFilesPerPR": 100, "excludePatterns": ["**/*.jar"]},
    },
    "validation": {"dryRunBefore": False, "webhook": {"url": "", "timeout": "10s"}},
    "snapshots": {
        "enabled": False,
        "retentionCount": 5,
        "storage": {"type": "pvc", "s3": {"bucket": "", "keyPrefix": ""}},
    },
    "deployment": {
        "strategy": "all-at-once",
        "stages": [],
        "syncOrder": [],
        "autoRollback": {"enabled": False, "triggers": ["scanFailure"]},
    },
    "paused": False,
    "ignition": {
        "designerSessionPolicy": "wait",
        "perspectiveSessionPolicy": "graceful",
        "redundancyRole": "",
        "peerGatewayName": "",
    },
    "agent": {
        "image": {
            "repository": "registry.example.com/agent",
            "tag": "1.0.0",
            "pullPolicy": "IfNotPresent",
            "digest": "",
        },
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "256Mi"}},
    },
}

GOOD: dict[str, Spec] = {
    "the least": spec(),
    "the contract": CONTRACT,
    "all fields of the first build": FIRST_BUILD,
    "no credential": git(auth={}),
    "a token": git(auth=TOKEN),
    "a GitHub App": git(auth=APP),
    "a GitHub App of a server": git(
        auth={"githubApp": {**APP["githubApp"], "apiBaseURL": "https://github.example.com/api/v3"}}
    ),
    "ssh with its known hosts": git(
        repo=f"ssh://git@git.example.com/{'p' * 20}.git",
        auth={"sshKey": {**SSH_KEY["sshKey"], "knownHosts": {"secretRef": {"name": "hosts", "key": "known_hosts"}}}},
    ),
    "an own authority": git(caSecretRef={"name": "ca"}),
    "a tag": git(ref="refs/tags/v1"),
    "a range of versions": git(ref=">=1.2 <2"),
    "refs that webhooks can request": spec(webhook={"allowedRefs": ["main", "release/*", "v?.*"]}),
    "no polling": spec(polling={"enabled": False}),
    "the names of the successor": profile(
        vars={"site_name": "a", "_x": ""},
        excludePatterns=["**/*.bak"],
        syncPeriod=30,
        designerSessionPolicy="proceed",
        dryRun=True,
        paused=False,
        mappings=[
            {
                "source": "services/{{.GatewayName}}/projects/",
                "destination": "projects/",
                "type": "dir",
                "required": True,
                "template": True,
                "patches": [{"file": "**/config.json", "set": {"systemName": "{{.GatewayName}}", "a.b": "8043"}}],
            },
            {"source": "file.json", "destination": "."},
        ],
    ),
    "an application that notices changes itself": apply(type="None"),
    "any application": request(
        path="/-/reload?x=1",
        method="PUT",
        tls=True,
        headers=[{"name": "Authorization", "secretRef": {"name": "reload", "key": "header"}}],
        expectedCodes=[200, 204],
        timeout="30s",
    ),
    "a signal": apply(type="Signal", signal={"process": "nginx"}),
    "a command": apply(type="Command", command={"command": ["nginx", "-s", "reload"]}),
    "all triggers": deployment(
        strategy="canary",
        stages=[{"name": "first", "gatewaySelector": {"example.com/canary": "yes"}}, {"name": "rest"}],
        autoRollback={"enabled": True, "triggers": ["scanFailure", "verifyFailure", "timeout"], "timeout": "5m"},
    ),
    "one after another": deployment(syncOrder=["site", "area1"]),
    "a way back": back(createPR=True, prLabels=["edit"], conflictStrategy="manual", provider="Gitea"),
    "s3": spec(
        snapshots={
            "enabled": True,
            "storage": {
                "type": "s3",
                "s3": {
                    "bucket": "b",
                    "endpoint": "https://s3.example.com",
                    "region": "eu",
                    "accessKeySecretRef": {"name": "s3", "key": "id"},
                    "secretKeySecretRef": {"name": "s3", "key": "secret"},
                },
            },
        }
    ),
    "a pinned agent": spec(agent={"image": {"digest": f"sha256:{'0' * 64}"}}),
    "files of the gateway": spec(unprotected=["db", "config/ignition/keys"]),
    "all policies": spec(driftPolicy="Report", suspend=True, paused=True, serviceAccountName="robot"),
    "a rollback": spec(rollback={"to": "Previous"}),
    "a service that judges files": spec(validation={"webhook": {"url": "http://127.0.0.1:9000/check"}}),
    "null for what is not meant": spec(shared=None, deployment=None, additionalFiles=None),
    "as much as can be": spec(
        sync={
            "profiles": {
                f"p{number}": {
                    "mappings": [
                        {
                            "source": "s" * 512,
                            "destination": "d" * 512,
                            "patches": [{"file": "f" * 256, "set": {"p" * 256: "v" * 100}}],
                        }
                    ]
                    * 20,
                    "vars": {f"{'k' * 60}{key}": "v" * 100 for key in range(50)},
                    "excludePatterns": ["e" * 256] * 50,
                }
                for number in range(20)
            }
        }
    ),
}
