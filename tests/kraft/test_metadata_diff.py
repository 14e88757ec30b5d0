"""Test the comparison of two states."""

from __future__ import annotations

from pathlib import Path

import pytest
from metadata_logs import MetadataLog, record, uuid

import kafkafmt as k
from kafkafmt.kraft.diff import DIFF_VIEWS


def topic(name: str, number: int, partitions: int = 1) -> list[bytes]:
    made = [record("TopicRecord", name=name, topic_id=uuid(number))]
    for n in range(partitions):
        made.append(
            record(
                "PartitionRecord", topic_id=uuid(number), partition_id=n, replicas=[1], isr=[1], leader=1, leader_epoch=number,
                partition_epoch=0, directories=[uuid(50 + number)],
            )
        )  # fmt: skip
    return made


def state(folder: Path, *records: bytes, cluster: str | None = "one") -> k.reports.ClusterMetadata:
    MetadataLog(folder).append(*records)
    if cluster is not None:
        (folder / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=1\n")
    return k.metadata(folder)


def changes(first: k.reports.ClusterMetadata, second: k.reports.ClusterMetadata) -> list[tuple[str, str, list[object]]]:
    found = first.diff(second).to_dict()["differences"]
    return [(d["change"], d["view"], list(d["key"].values())) for d in found]


def test_rows_are_added_removed_and_changed(tmp_path: Path) -> None:
    def config(value: str) -> bytes:
        return record("ConfigRecord", resource_type=2, resource_name="a", name="retention.ms", value=value)

    first = state(tmp_path / "1", *topic("a", 1), *topic("b", 2), config("1"))
    second = state(tmp_path / "2", *topic("a", 1, partitions=2), *topic("c", 3), config("2"))
    assert changes(first, second) == [
        ("changed", "topics", ["a"]),
        ("removed", "topics", ["b"]),
        ("added", "topics", ["c"]),
        ("added", "partitions", ["a", 1]),
        ("removed", "partitions", ["b", 0]),
        ("added", "partitions", ["c", 0]),
        ("changed", "configs", ["topic", "a", "retention.ms"]),
    ]
    found = first.diff(second, views="topics").differences
    assert [d.fields for d in found] == [{"partitions": (1, 2)}, {}, {}]


@pytest.mark.parametrize(("clusters", "equal"), [(("one", "one"), False), (("one", "two"), True), ((None, None), True)])
def test_ids_and_epochs_are_compared_only_within_a_cluster(
    tmp_path: Path, clusters: tuple[str | None, str | None], equal: bool
) -> None:
    first = state(tmp_path / "1", *topic("a", 1), cluster=clusters[0])
    second = state(tmp_path / "2", *topic("a", 2), cluster=clusters[1])
    found = first.diff(second)
    assert (found.equal, found.same_cluster, found.exit_code) == (equal, clusters == ("one", "one"), 0 if equal else 1)
    if not equal:
        assert [set(d.fields) for d in found.differences] == [{"topic_id"}, {"topic_id", "leader_epoch", "directories"}]


def test_acls_are_compared_without_their_ids(tmp_path: Path) -> None:
    def acl(number: int, operation: int) -> bytes:
        return record(
            "AccessControlEntryRecord", id=uuid(number), resource_type=2, resource_name="t", pattern_type=3,
            principal="User:a", host="*", operation=operation, permission_type=3,
        )  # fmt: skip

    first = state(tmp_path / "1", acl(1, 3), acl(2, 4))
    second = state(tmp_path / "2", acl(3, 3), acl(4, 8))
    assert [(d.change, d.key["operation"]) for d in first.diff(second).differences] == [
        ("added", "DESCRIBE"),
        ("removed", "WRITE"),
    ]


def test_every_table_can_be_compared(tmp_path: Path) -> None:
    values = [
        record("RegisterBrokerRecord", broker_id=1, broker_epoch=1, rack="a"),
        record("RegisterControllerRecord", controller_id=1),
        record("ClientQuotaRecord", entity=[{"entity_type": "user", "entity_name": None}], key="k", value=1.0),
        record("UserScramCredentialRecord", name="u", mechanism=1, iterations=1),
        record("FeatureLevelRecord", name="f", feature_level=1),
        record("DelegationTokenRecord", token_id="t"),
    ]
    found = changes(state(tmp_path / "1", *values), state(tmp_path / "2"))
    assert {change for change, _, _ in found} == {"removed"}
    assert {view for _, view, _ in found} == set(DIFF_VIEWS) - {"topics", "partitions", "configs", "acls", "voters"}


def test_unknown_table_is_refused(tmp_path: Path) -> None:
    first = state(tmp_path / "1")
    with pytest.raises(ValueError, match="views is 'cluster'"):
        first.diff(first, views=["cluster"])
