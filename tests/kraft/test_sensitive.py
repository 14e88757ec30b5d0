"""Test that no output of the metadata contains a secret."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from command import inside
from metadata_logs import MetadataLog, record

import kafkafmt as k
from kafkafmt.kraft.sensitive import NOT_SENSITIVE, SENSITIVE, is_sensitive

SECRETS = [f"hidden-{n}" for n in range(9)]


@pytest.mark.parametrize(
    "name",
    [
        *sorted(SENSITIVE),
        "listener.name.client.ssl.keystore.password",
        "listener.name.client.scram-sha-256.sasl.jaas.config",
        "listener.name.client.ssl.keystore.certificate.chain",
        "my.plugin.password",
        "my.plugin.PASSWD",
        "remote.log.storage.manager.impl.s3.access.key",
        "rsm.config.secret",
        "x.bearer.token",
        "azure.account.key",
        "schema.registry.basic.auth.credentials",
        "custom.api_key",
    ],
)
def test_config_with_a_secret_is_sensitive(name: str) -> None:
    assert is_sensitive(name)


@pytest.mark.parametrize(
    "name",
    [
        *sorted(NOT_SENSITIVE),
        "retention.ms",
        "sasl.enabled.mechanisms",
        "ssl.keystore.location",
        "ssl.keymanager.algorithm",
        "log.cleaner.threads",
        "listener.name.client.ssl.keystore.type",
        "message.timestamp.type",
    ],
)
def test_config_without_a_secret_is_shown(name: str) -> None:
    assert not is_sensitive(name)


def secretive_log(folder: Path, iterations: int = 4096, password: str = SECRETS[0]) -> None:
    log = MetadataLog(folder)
    keys = {"salt": SECRETS[1].encode(), "stored_key": SECRETS[2].encode(), "server_key": SECRETS[3].encode()}
    log.append(
        record("UserScramCredentialRecord", name="u", mechanism=1, iterations=iterations, **keys),
        *(
            record("ConfigRecord", resource_type=4, resource_name="1", name=name, value=value)
            for name, value in (
                ("ssl.keystore.password", password),
                ("listener.name.a.plain.sasl.jaas.config", f"x required password={SECRETS[4]};"),
                ("vendor.secret", SECRETS[5]),
                ("log.cleaner.threads", "2"),
            )
        ),
    )


def test_no_secret_is_printed_or_kept(tmp_path: Path) -> None:
    secretive_log(tmp_path / "a")
    secretive_log(tmp_path / "b", password=SECRETS[6])
    state = k.metadata(tmp_path / "a")
    other = k.metadata(tmp_path / "b")
    diff = state.diff(other)
    texts = [repr(state), repr(diff), json.dumps(state.to_dict()), state.commands(), repr(vars(state))]
    texts += [pickle.dumps(state).decode("latin-1"), state._repr_html_(), diff._repr_html_()]
    for arguments in (
        ["metadata", tmp_path / "a"],
        ["metadata", tmp_path / "a", "--format", "json"],
        ["metadata", tmp_path / "a", "--as", "commands"],
        ["metadata", "diff", tmp_path / "a", tmp_path / "b"],
        ["metadata", "diff", tmp_path / "a", tmp_path / "b", "--format", "json"],
    ):
        done = inside(*arguments)
        texts += [done.stdout, done.stderr]
    assert all(len(text) > 0 for text in texts[:10])
    for secret in SECRETS:
        assert [text for text in texts if secret in text] == []


def test_changed_secret_is_a_difference(tmp_path: Path) -> None:
    secretive_log(tmp_path / "a")
    secretive_log(tmp_path / "b", password=SECRETS[6])
    states = [k.metadata(tmp_path / name) for name in "ab"]
    (difference,) = states[0].diff(states[1]).differences
    assert difference.to_dict() == {
        "view": "configs",
        "key": {"resource_type": "broker", "resource_name": "1", "name": "ssl.keystore.password"},
        "change": "changed",
        "fields": {"value": ["(hidden)", "(hidden)"]},
    }
    assert states[0].diff(k.metadata(tmp_path / "a")).equal
