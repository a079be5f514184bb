"""The files of deploy/ fit their schemas, each other, and the options that `parley serve` has."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from parley.server.run import GRACE_SECONDS
from parley.stores.postgres.schema import MIGRATION_SECONDS
from tests.deploy.deploy_files import DEPLOY, MANIFESTS, ROOT, documents, manifest, run, shown_config, tool

SECRETS = re.compile(r"PASSWORD|PGPASSWORD|_TOKEN|_KEY")


def compose() -> dict[str, Any]:
    (found,) = documents(DEPLOY / "compose.yaml")
    return found


def replicas() -> dict[str, Any]:
    return {name: service for name, service in compose()["services"].items() if name.startswith("replica-")}


# --- schemas ----------------------------------------------------------------------------------------------------------


def test_the_compose_file_fits_its_schema() -> None:
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_every_manifest_fits_the_schema_of_its_kind(path: Path) -> None:
    run(tool("kubernetes-validate"), "--strict", "--quiet", path)


def test_the_schemas_notice_a_mistake(tmp_path: Path) -> None:
    broken = tmp_path / "deployment.yaml"
    broken.write_text((DEPLOY / "kubernetes" / "deployment.yaml").read_text().replace("readinessProbe", "readyProbe"))
    with pytest.raises(AssertionError, match="readyProbe"):
        run(tool("kubernetes-validate"), "--strict", "--quiet", broken)


def test_the_settings_of_the_proxy_are_valid_and_formatted() -> None:
    run(tool("caddy"), "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")
    assert run(tool("caddy"), "fmt", DEPLOY / "Caddyfile") == (DEPLOY / "Caddyfile").read_text()


def test_the_settings_of_nats_are_valid() -> None:
    run(
        Path(sys.executable).with_name("nats-server"), "-t", "-c", DEPLOY / "nats.conf", env={"NATS_PASSWORD": "secret"}
    )


# --- options ----------------------------------------------------------------------------------------------------------


def interpolated(value: str) -> str:
    """A value as Compose makes it: `${NAME:-default}`, or `${NAME:?what to do}`, which .env must have."""
    return re.sub(r"\$\{\w+:([-?])([^}]*)\}", lambda found: found[2] if found[1] == "-" else "secret1", value)


@pytest.mark.parametrize("name", ["replica-a", "replica-b", "replica-c"])
def test_every_setting_of_the_compose_file_exists(name: str) -> None:
    service = replicas()[name]
    variables = {name: interpolated(value) for name, value in service["environment"].items()}
    taken = shown_config(variables, *service["command"], cwd=ROOT / "examples")
    assert taken["PARLEY_REPLICA"] == name.removeprefix("replica-")


def test_every_setting_of_the_manifests_exists() -> None:
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: "x" for each in container["env"]} | {"PARLEY_CLUSTER": "nats://nats:4222"}
    variables |= manifest("ConfigMap")["data"]
    taken = shown_config(variables, *container["args"], cwd=DEPLOY / "kubernetes")
    assert float(taken["PARLEY_DRAIN_DELAY"]) == 5


# --- what must fit together -------------------------------------------------------------------------------------------


def seconds(text: str) -> float:
    units = {"s": 1, "m": 60}
    return float(text[:-1]) * units[text[-1]]


def drain_seconds(variables: dict[str, str]) -> float:
    return float(variables["PARLEY_DRAIN_DELAY"]) + float(variables["PARLEY_DRAIN_SECONDS"]) + GRACE_SECONDS


def test_a_replica_is_killed_only_after_the_time_that_it_has_for_draining() -> None:
    for service in replicas().values():
        assert seconds(service["stop_grace_period"]) > drain_seconds(service["environment"])
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > drain_seconds(manifest("ConfigMap")["data"])


def test_a_pod_that_drains_is_not_ready_before_it_stops_serving() -> None:
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    probe = container["readinessProbe"]
    noticed = probe["periodSeconds"] * probe["failureThreshold"]
    assert noticed < float(manifest("ConfigMap")["data"]["PARLEY_DRAIN_DELAY"])


def test_a_pod_may_wait_for_a_migration_as_long_as_a_replica_does() -> None:
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > MIGRATION_SECONDS


def test_probes_restart_what_does_not_answer_and_spare_what_cannot_write() -> None:
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    paths = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
    assert paths == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}


def test_pods_are_restricted_as_the_strictest_standard_of_kubernetes_asks() -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted"""
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= {
        "configMap",
        "secret",
        "emptyDir",
    }


def test_image_and_manifests_have_the_same_user_and_ports() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    assert f"\nUSER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}\n" in dockerfile
    ports = [port["containerPort"] for port in pod["containers"][0]["ports"]]
    assert f"\nEXPOSE {' '.join(map(str, ports))}\n" in dockerfile


def test_every_object_selects_the_pods_of_the_deployment() -> None:
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    selected = [
        manifest("Deployment")["spec"]["selector"]["matchLabels"],
        manifest("Service")["spec"]["selector"],
        manifest("Service", "parley-headless")["spec"]["selector"],
        manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    assert selected == [labels] * len(selected)
    assert manifest("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == "parley"


def test_the_kustomization_names_files_that_exist_and_no_secret() -> None:
    (kustomization,) = documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    text = (DEPLOY / "kubernetes" / "kustomization.yaml").read_text()
    optional = re.findall(r"# - (\S+\.yaml)", text)
    agents = [name for each in kustomization["configMapGenerator"] for name in each["files"]]
    for name in (*kustomization["resources"], *optional, *agents):
        assert (DEPLOY / "kubernetes" / name).is_file(), name
    left_out = {path.name for path in MANIFESTS} - {*kustomization["resources"], *optional}
    assert left_out == {"secret.example.yaml"}


def test_no_file_holds_a_secret() -> None:
    assert [line for line in (DEPLOY / "example.env").read_text().splitlines() if re.match(r"\w+=.", line)] == []
    for service in compose()["services"].values():
        for name, value in service.get("environment", {}).items():
            assert not SECRETS.search(name) or str(value).startswith(("${", "env:")), name
    for name, value in manifest("Secret")["stringData"].items():
        assert "replace-me" in value, name


def test_every_replica_encrypts_the_secrets_in_its_store_with_one_key() -> None:
    for service in replicas().values():
        assert service["environment"]["PARLEY_STORE_KEY"] == "env:STORE_KEYS"
        assert service["environment"]["STORE_KEYS"].startswith("${STORE_KEYS:?")
    assert "\nSTORE_KEYS=\n" in (DEPLOY / "example.env").read_text()
    assert manifest("ConfigMap")["data"]["PARLEY_STORE_KEY"] == "env:STORE_KEYS"
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("valueFrom") for each in container["env"]}
    assert variables["STORE_KEYS"] == {"secretKeyRef": {"name": "parley", "key": "STORE_KEYS"}}
    assert "STORE_KEYS" in manifest("Secret")["stringData"]


def test_the_proxy_knows_every_replica_of_the_compose_file() -> None:
    text = (DEPLOY / "Caddyfile").read_text()
    assert all(f"{name}:8080" in text and f"h2c://{name}:50051" in text for name in replicas())


def test_what_the_compose_file_mounts_exists() -> None:
    named = [volume for service in compose()["services"].values() for volume in service.get("volumes", [])]
    paths = [volume.split(":")[0] for volume in named if volume.startswith(".")]
    assert len(paths) >= 4
    assert [path for path in paths if not (DEPLOY / path).exists()] == []
