"""Test the command `metadata`, with its subcommand `diff`."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from command import inside, kafkafmt
from golden_cases import GOLDEN
from metadata_logs import START, MetadataLog, leader_change, record, uuid

import kafkafmt as k
from kafkafmt.kraft.models import VIEWS

GOLDEN_LOG = GOLDEN / "kafka-4.3.1" / "internal" / "log"
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2066\u200e\u2028\ufeff]")
HOSTILE = "t\x1b]0;x\x07\x9b31m\u202e\u2066\u200e\u2028\ufeff\r\n\x7f[bold]"


def sample(folder: Path, *, name: str = "orders") -> MetadataLog:
    """Write a log with a row in each table, and the text `name` in each of them."""
    log = MetadataLog(folder)
    log.append_control(leader_change(1, [1]))
    listeners = [{"name": name, "host": "::1", "port": 9092, "security_protocol": 9}]
    features = [{"name": name, "min_supported_version": 0, "max_supported_version": 1}]
    entity = [{"entity_type": "user", "entity_name": None}, {"entity_type": "client-id", "entity_name": name}]
    log.append(
        record("TopicRecord", name=name, topic_id=uuid(1)),
        record(
            "PartitionRecord", topic_id=uuid(1), partition_id=0, replicas=[1, 2], isr=[1], leader=-1, leader_epoch=4,
            partition_epoch=5, adding_replicas=[2],
        ),
        record("ConfigRecord", resource_type=2, resource_name=name, name="retention.ms", value=name),
        record("ConfigRecord", resource_type=99, resource_name="", name=name, value="1"),
        record("ConfigRecord", resource_type=4, resource_name="1", name="ssl.key.password", value="hidden-1"),
        record(
            "AccessControlEntryRecord", id=uuid(2), resource_type=2, resource_name=name, pattern_type=3,
            principal=f"User:{name}", host=name, operation=99, permission_type=3,
        ),
        record("RegisterBrokerRecord", broker_id=1, broker_epoch=2, end_points=listeners, features=features, rack=name),
        record("RegisterControllerRecord", controller_id=1, end_points=listeners, features=features),
        record("ClientQuotaRecord", entity=entity, key=name, value=0.5),
        record("UserScramCredentialRecord", name=name, mechanism=1, iterations=4096),
        record("FeatureLevelRecord", name=name, feature_level=1),
        record("DelegationTokenRecord", owner=name, requester=name, renewers=[name], token_id=name, expiration_timestamp=2**62),
    )  # fmt: skip
    return log


def test_json_has_all_tables_or_the_chosen_one(tmp_path: Path) -> None:
    sample(tmp_path)
    everything = json.loads(inside("metadata", tmp_path, "--format", "json").stdout)
    assert list(everything) == list(VIEWS)
    assert everything == k.metadata(tmp_path).to_dict()
    for view in VIEWS:
        done = inside("metadata", tmp_path, view, "--format", "json")
        assert (done.returncode, json.loads(done.stdout)) == (0, {view: everything[view]})
        assert len(everything[view]) >= 1


def test_text_shows_one_table_or_all_that_are_not_empty(tmp_path: Path) -> None:
    sample(tmp_path)
    everything = inside("metadata", tmp_path).stdout
    assert re.findall(r"^\[(\w+)\]$", everything, re.M) == ["cluster", *VIEWS[:-1]]
    assert inside("metadata", tmp_path, "partitions").stdout.splitlines() == [
        "partition  leader  epoch  replicas  isr  adding",
        "orders-0     none      4  1,2       1    2",
    ]
    assert inside("metadata", tmp_path, "configs").stdout.splitlines()[1:] == [
        "99      (default)  orders            1",
        "broker  1          ssl.key.password  (hidden)",
        "topic   orders     retention.ms      orders",
    ]
    assert "orders://[::1]:9092" in inside("metadata", tmp_path, "brokers").stdout


@pytest.mark.parametrize("arguments", [(), *((view,) for view in VIEWS), ("--as", "commands"), ("--format", "json")])
def test_hostile_names_are_escaped(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    sample(tmp_path, name=HOSTILE)
    done = inside("metadata", tmp_path, *arguments)
    assert done.returncode == 0
    if "--as" not in arguments:
        assert UNSAFE.search(done.stdout + done.stderr) is None


def test_hostile_names_are_escaped_in_differences(tmp_path: Path) -> None:
    sample(tmp_path / "a", name=HOSTILE)
    sample(tmp_path / "b")
    for form in ("text", "json"):
        done = inside("metadata", "diff", tmp_path / "a", tmp_path / "b", "--format", form)
        assert done.returncode == 1
        assert UNSAFE.search(done.stdout + done.stderr) is None


def test_empty_table_is_reported(tmp_path: Path) -> None:
    MetadataLog(tmp_path).append(record("NoOpRecord"))
    done = inside("metadata", tmp_path, "topics")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith("kafkafmt: the table topics is empty\n")


def test_at_selects_an_offset_or_a_time(tmp_path: Path) -> None:
    sample(tmp_path)
    for at in ("2", f"@{START + 1000}", "@2023-11-14T22:13:21Z"):
        state = json.loads(inside("metadata", tmp_path, "--at", at, "--format", "json").stdout)
        assert ([t["partitions"] for t in state["topics"]], state["cluster"][0]["end_offset"]) == ([[]], 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at", "-3"], "'-3' is neither an offset nor @TIME"),
        (
            ["--at", "@yesterday"],
            "'yesterday' is not a time; valid forms are a number of milliseconds, an ISO date or time, and -N",
        ),
        (["--at", "9" * 30], "is neither an offset nor @TIME"),
        (["--at", "99"], "offset 99 is after the end of the metadata log, 13"),
        (["topic"], "'topic' is not one of"),
        (["topics", "--as", "commands"], "--as cannot be combined with VIEW"),
        (["--format", "json", "--as", "commands"], "--as cannot be combined with VIEW"),
    ],
)
def test_wrong_usage_exits_with_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    sample(tmp_path)
    done = inside("metadata", tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_log_exits_with_3(tmp_path: Path) -> None:
    for arguments in (["metadata", tmp_path], ["metadata", tmp_path / "x"], ["metadata", "diff", tmp_path, tmp_path]):
        done = inside(*arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)


def test_damage_exits_with_1_and_shows_the_state_before_it(tmp_path: Path) -> None:
    log = sample(tmp_path)
    data = bytearray(log.log.read_bytes())
    data[-3] ^= 1
    log.log.write_bytes(data + bytes(data[:80]))
    done = inside("metadata", tmp_path)
    assert done.returncode == 1
    assert "[scram]" in done.stdout
    assert "only records before offset 12 were applied" in done.stderr
    done = inside("metadata", tmp_path, "--at", "12")
    assert (done.returncode, done.stderr) == (0, "")


def test_diff_lists_changes_and_exits_with_1(tmp_path: Path) -> None:
    sample(tmp_path / "a")
    log = sample(tmp_path / "b")
    log.append(
        record("PartitionChangeRecord", topic_id=uuid(1), partition_id=0, leader=2, isr=[1, 2]),
        record("FeatureLevelRecord", name="orders", feature_level=0),
    )
    done = inside("metadata", "diff", tmp_path / "a", tmp_path / "b")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "changed  partitions orders 0  leader: -1 -> 2; isr: 1 -> 1,2",
        "removed  features   orders",
    ]
    equal = inside("metadata", "diff", tmp_path / "a", tmp_path / "b", "--view", "acls", "--view", "topics")
    assert (equal.returncode, equal.stdout, equal.stderr) == (0, "", "kafkafmt: no difference\n")
    found = json.loads(inside("metadata", "diff", tmp_path / "a", tmp_path / "b", "--format", "json").stdout)
    assert found == k.metadata(tmp_path / "a").diff(k.metadata(tmp_path / "b")).to_dict()
    assert found["differences"][1]["fields"] == {}


def test_diff_of_golden_logs_finds_their_differences() -> None:
    done = inside("metadata", "diff", GOLDEN / "kafka-3.9.2" / "internal" / "log", GOLDEN_LOG, "--view", "features")
    assert done.returncode == 1
    assert "changed  features   metadata.version  level: 21 -> 30" in done.stdout.splitlines()


def test_script_of_a_golden_log_is_valid_shell(tmp_path: Path) -> None:
    done = inside("metadata", GOLDEN_LOG, "--as", "commands")
    assert done.stdout == k.metadata(GOLDEN_LOG).commands()
    assert "--topic=source --partitions=3" in done.stdout
    subprocess.run(["sh", "-n"], input=done.stdout, text=True, check=True)


def test_command_works_in_a_separate_process() -> None:
    done = kafkafmt("metadata", GOLDEN_LOG, "voters")
    assert (done.returncode, done.stdout) == (0, "voter  source\n    1  quorum-state\n")
