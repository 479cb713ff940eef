from __future__ import annotations

import base64
import json
import ssl
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from umbel.identity import alone
from umbel.kube import kubeconfig
from umbel.kube.kubeconfig import KubeconfigInsecure, KubeconfigUnusable, LoginFailed, find


@pytest.fixture
def pems(tmp_path: Path) -> dict[str, Path]:
    """A certificate that stands for everything: CA, client, key."""
    made = alone.ensure(tmp_path / "tls", "one", ["localhost"], now=datetime.now(UTC))
    return {"ca": made.ca, "certificate": made.certificate, "key": made.key}


def coded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def written(
    folder: Path, cluster: dict[str, Any], user: dict[str, Any] | None = None, **context: Any
) -> Path:
    """Write a kubeconfig with one cluster and one user."""
    said = {
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "hub", "user": "me", **context}}],
        "clusters": [{"name": "hub", "cluster": {"server": "https://hub:6443/", **cluster}}],
        "users": [{"name": "me", "user": user or {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(said))
    return path


def test_certificates_may_be_in_the_file(tmp_path: Path, pems: dict[str, Path]) -> None:
    cluster = {"certificate-authority-data": coded(pems["ca"])}
    user = {
        "client-certificate-data": coded(pems["certificate"]),
        "client-key-data": coded(pems["key"]),
    }
    reach = find(written(tmp_path, cluster, user, namespace="fl"))
    assert (reach.server, reach.namespace, reach.token()) == ("https://hub:6443", "fl", "")
    assert len(reach.trust.get_ca_certs()) == 1
    assert reach.trust.verify_mode is ssl.CERT_REQUIRED
    assert reach.trust.check_hostname


def test_certificates_may_be_files_beside_it(tmp_path: Path, pems: dict[str, Path]) -> None:
    cluster = {"certificate-authority": str(pems["ca"].relative_to(tmp_path))}
    user = {"client-certificate": str(pems["certificate"]), "client-key": str(pems["key"])}
    reach = find(written(tmp_path, cluster, user))
    assert len(reach.trust.get_ca_certs()) == 1
    assert reach.namespace == "default"


def test_a_token_may_be_in_the_file(tmp_path: Path) -> None:
    reach = find(written(tmp_path, {}, {"token": "secret"}))
    assert reach.token() == "secret"
    assert "secret" not in repr(reach)


def test_a_token_file_is_read_each_time(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    reach = find(written(tmp_path, {}, {"tokenFile": "token"}))
    assert reach.token() == "first"
    (tmp_path / "token").write_text("second\n")
    assert reach.token() == "second"


def program(folder: Path, answer: str, code: int = 0) -> Path:
    """Write a program that notes that it was called, what it was told, and answers."""
    path = folder / "login"
    path.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        f"with open({str(folder / 'calls')!r}, 'a') as calls:\n"
        "    print(sys.argv[1:], os.environ['KUBERNETES_EXEC_INFO'], os.environ.get('MORE'), file=calls)\n"
        f"print({answer!r})\nprint('not logged in', file=sys.stderr)\nsys.exit({code})\n"
    )
    path.chmod(stat.S_IRWXU)
    return path


def by_program(folder: Path, path: Path) -> kubeconfig.Reach:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(path),
        "args": ["get-token"],
        "env": [{"name": "MORE", "value": "this"}],
    }
    return find(written(folder, {}, {"exec": plugin}))


def credential(**status: str) -> str:
    return json.dumps({"kind": "ExecCredential", "status": {"token": "given", **status}})


def test_a_program_gives_the_token_and_is_asked_once(tmp_path: Path) -> None:
    reach = by_program(tmp_path, program(tmp_path, credential()))
    assert [reach.token(), reach.token()] == ["given", "given"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 1
    assert "['get-token']" in calls[0]
    assert "client.authentication.k8s.io/v1" in calls[0]
    assert calls[0].endswith(" this")


def test_a_token_that_ends_soon_is_asked_for_again(tmp_path: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    reach = by_program(tmp_path, program(tmp_path, credential(expirationTimestamp=soon)))
    assert [reach.token(), reach.token()] == ["given", "given"]
    assert len((tmp_path / "calls").read_text().splitlines()) == 2


def test_a_token_that_lasts_is_kept(tmp_path: Path) -> None:
    late = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    reach = by_program(tmp_path, program(tmp_path, credential(expirationTimestamp=late)))
    assert [reach.token(), reach.token()] == ["given", "given"]
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_a_program_that_fails_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(LoginFailed, match="not logged in"):
        by_program(tmp_path, program(tmp_path, "", code=1)).token()


@pytest.mark.parametrize(
    "answer",
    ["no JSON", "{}", '{"status": {}}', "[]", '{"status": null}',
     '{"status": {"token": "t", "expirationTimestamp": "tomorrow"}}'],
)  # fmt: skip
def test_a_program_that_answers_oddly_is_a_failed_login(tmp_path: Path, answer: str) -> None:
    with pytest.raises(LoginFailed):
        by_program(tmp_path, program(tmp_path, answer)).token()


def test_a_program_that_is_not_there_is_a_failed_login(tmp_path: Path) -> None:
    with pytest.raises(LoginFailed, match="missing"):
        by_program(tmp_path, tmp_path / "missing").token()


@pytest.mark.parametrize(
    "cluster", [{"insecure-skip-tls-verify": True}, {"server": "http://hub:8080"}]
)
def test_an_unchecked_server_is_refused(tmp_path: Path, cluster: dict[str, Any]) -> None:
    with pytest.raises(KubeconfigInsecure, match="hub"):
        find(written(tmp_path, cluster, {"token": "secret"}))


def test_another_context_is_chosen_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, {}, {"token": "secret"})
    said = yaml.safe_load(path.read_text())
    context = {"cluster": "hub", "user": "me", "namespace": "other"}
    said["contexts"].append({"name": "second", "context": context})
    path.write_text(yaml.safe_dump(said))
    assert find(path, "second").namespace == "other"
    with pytest.raises(KubeconfigUnusable, match="third"):
        find(path, "third")


@pytest.mark.parametrize("text", ["", "[]", "a: [", "current-context: lab", "just words"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(KubeconfigUnusable, match=str(path)):
        find(path)


@pytest.mark.parametrize("lacking", ["clusters", "users", "server"])
def test_what_a_kubeconfig_lacks_is_named(tmp_path: Path, lacking: str) -> None:
    path = written(tmp_path, {}, {"token": "secret"})
    said = yaml.safe_load(path.read_text())
    if lacking == "server":
        del said["clusters"][0]["cluster"]["server"]
    else:
        said[lacking] = []
    path.write_text(yaml.safe_dump(said))
    with pytest.raises(KubeconfigUnusable):
        find(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigUnusable, match="No such file"):
        find(tmp_path / "missing")


@pytest.mark.parametrize(
    "cluster",
    [{"certificate-authority-data": "!!"}, {"certificate-authority-data": "aGFsbG8="},
     {"certificate-authority": "missing.crt"}],
)  # fmt: skip
def test_a_certificate_that_is_none_is_named(tmp_path: Path, cluster: dict[str, Any]) -> None:
    with pytest.raises(KubeconfigUnusable, match="certificates"):
        find(written(tmp_path, cluster))


def test_a_certificate_without_its_key_is_named(tmp_path: Path, pems: dict[str, Path]) -> None:
    other = alone.ensure(tmp_path / "other", "two", ["localhost"], now=datetime.now(UTC))
    user = {"client-certificate": str(pems["certificate"]), "client-key": str(other.key)}
    with pytest.raises(KubeconfigUnusable, match="certificates"):
        find(written(tmp_path, {}, user))


def test_the_first_file_of_the_environment_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, {}, {"token": "secret"})
    monkeypatch.setenv("KUBECONFIG", f"{path}:/nowhere")
    assert find().token() == "secret"


def test_a_pod_finds_its_own_account(
    tmp_path: Path, pems: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(kubeconfig, "ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("mine")
    (tmp_path / "namespace").write_text("umbel-system\n")
    (tmp_path / "ca.crt").write_bytes(pems["ca"].read_bytes())
    reach = find()
    assert (reach.server, reach.namespace) == ("https://[fd00::1]:443", "umbel-system")
    assert reach.token() == "mine"


def test_without_anything_the_usual_place_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(kubeconfig, "ACCOUNT", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(KubeconfigUnusable, match=r"\.kube/config"):
        find()


def test_a_context_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigUnusable, match="it has no context 'prod'") as caught:
        find(written(tmp_path, {}, {"token": "secret"}), "prod")
    assert "contexts: lab; choose with --context NAME" in caught.value.hint


def test_without_a_current_context_those_that_are_there_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, {}, {"token": "secret"})
    path.write_text(path.read_text().replace("current-context: lab", "current-context: ''"))
    with pytest.raises(KubeconfigUnusable, match="no current context") as caught:
        find(path)
    assert "contexts: lab" in caught.value.hint
    assert find(path, "lab").token() == "secret"


def test_files_of_the_environment_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pems: dict[str, Path]
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    (two / "ca.crt").write_bytes(pems["ca"].read_bytes())
    first = written(one, {}, {"token": "secret"})
    second = written(two, {"certificate-authority": "ca.crt"}, {"token": "other"}, namespace="far")
    said = yaml.safe_load(second.read_text())
    said["contexts"][0]["name"] = "far"
    said["contexts"][0]["context"] |= {"cluster": "away", "user": "them"}
    said["clusters"][0]["name"], said["users"][0]["name"] = "away", "them"
    second.write_text(yaml.safe_dump(said))
    monkeypatch.setenv("KUBECONFIG", f"/nowhere:{first}:{second}")
    assert find().token() == "secret"
    reach = find(context="far")
    assert (reach.token(), reach.namespace) == ("other", "far")
    assert len(reach.trust.get_ca_certs()) == 1  # beside its own file


def test_a_file_that_is_named_counts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(written(tmp_path, {}, {"token": "secret"})))
    with pytest.raises(KubeconfigUnusable, match="No such file"):
        find(tmp_path / "missing")
