"""Test the APIs that describe topics, log directories, configs and transactions, in all versions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_cases import GOLDEN
from handler_calls import INTERNAL, Caller, internal_catalog, run

import kafkafmt
from kafkafmt import protocol
from kafkafmt.constants import DEFAULT_MAX_BATCH_BYTES
from kafkafmt.protocol import ErrorCode
from kafkafmt.server.catalog import Catalog
from kafkafmt.server.configs import KnownConfigs
from kafkafmt.server.describe import DescribeApis
from kafkafmt.server.internal_topics import read_groups, read_topic_configs
from kafkafmt.server.producer_states import read_producers
from kafkafmt.server.settings import ServerSettings

TRANSACTIONS = GOLDEN / "kafka-4.3.1" / "transactions" / "log"
CONFIGS: KnownConfigs = {"source": {"retention.ms": "-1", "my.config": "x"}}


def versions(key: int) -> range:
    known = protocol.message_class(key, "request").API.versions
    return range(known.first, known.last + 1)


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    made = internal_catalog()
    yield made
    made.close()


@pytest.fixture
def call(catalog: Catalog) -> Caller:
    return Caller(DescribeApis(catalog, catalog.settings, lambda: CONFIGS).handlers())


def test_handlers_support_all_versions_except_regular_expressions(call: Caller) -> None:
    for key, (low, high, _) in call.handlers.items():
        assert range(low, high + 1) == (range(2) if key == 66 else versions(key))


# Configs


def describe_configs(kind: int, name: str, keys: list[str] | None = None, **fields: Any) -> Any:
    resource = protocol.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return protocol.DescribeConfigsRequest(resources=[resource], **fields)


@pytest.mark.parametrize("version", versions(32))
def test_describe_configs_distinguishes_explicit_configs_from_defaults(call: Caller, version: int) -> None:
    async def main() -> None:
        fields: dict[str, Any] = {"include_synonyms": True} if version >= 1 else {}
        fields |= {"include_documentation": True} if version >= 3 else {}
        response = await call(describe_configs(2, "source", **fields), version)
        [result] = response.results
        assert (result.error_code, result.resource_type, result.resource_name) == (0, 2, "source")
        configs = {c.name: c for c in result.configs}
        retention, policy = configs["retention.ms"], configs["cleanup.policy"]
        assert (retention.value, policy.value, configs["my.config"].value) == ("-1", "delete", "x")
        if version == 0:
            assert (retention.is_default, policy.is_default) == (False, True)
        else:
            assert (retention.config_source, policy.config_source) == (1, 5)
            assert [(s.name, s.value, s.source) for s in retention.synonyms] == [
                ("retention.ms", "-1", 1),
                ("log.retention.ms", "604800000", 5),
            ]
        if version >= 3:
            assert (retention.config_type, policy.config_type) == (5, 7)
            assert policy.documentation.startswith("Whether old segments")

    run(main())


def test_describe_configs_returns_only_the_requested_keys(call: Caller) -> None:
    async def main() -> None:
        response = await call(describe_configs(2, "sink", ["cleanup.policy", "missing"]))
        [config] = response.results[0].configs
        assert (config.name, config.synonyms, config.documentation) == ("cleanup.policy", [], None)

    run(main())


def test_describe_configs_returns_all_configs_for_an_empty_list_of_keys(call: Caller) -> None:
    async def main() -> None:
        every, none = await call(describe_configs(2, "sink")), await call(describe_configs(2, "sink", []))
        assert none.results == every.results
        assert len(none.results[0].configs) > 20

    run(main())


def test_describe_configs_returns_no_defaults_without_the_metadata_log(catalog: Catalog) -> None:
    async def main() -> None:
        response = await Caller(DescribeApis(catalog, catalog.settings).handlers())(describe_configs(2, "source"))
        assert (response.results[0].error_code, response.results[0].configs) == (0, [])

    run(main())


def test_describe_configs_of_the_broker_shows_that_it_is_read_only(call: Caller) -> None:
    async def main() -> None:
        response = await call(describe_configs(4, "1"))
        configs = {c.name: (c.value, c.read_only, c.config_source) for c in response.results[0].configs}
        assert configs["delete.topic.enable"] == ("false", True, 4)
        assert configs["log.dirs"] == (str(INTERNAL), True, 4)
        assert configs["group.min.session.timeout.ms"] == ("6000", True, 4)
        assert (await call(describe_configs(4, ""))).results[0].configs == []

    run(main())


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (2, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (4, "7", ErrorCode.INVALID_REQUEST),
        (4, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.NONE),
        (16, "x", ErrorCode.NONE),
        (32, "group", ErrorCode.NONE),
    ],
)
def test_describe_configs_of_other_resources_returns_an_error(
    call: Caller, kind: int, name: str, code: ErrorCode
) -> None:
    async def main() -> None:
        [result] = (await call(describe_configs(kind, name))).results
        assert (result.error_code, result.configs) == (code, [])
        assert bool(result.error_message) == bool(code)

    run(main())


def test_list_config_resources_lists_topics_and_the_broker(call: Caller) -> None:
    async def listed(version: int, types: list[int]) -> list[tuple[int, str]]:
        fields: dict[str, Any] = {"resource_types": types} if version else {}
        response = await call(protocol.ListConfigResourcesRequest(**fields), version)
        assert response.error_code == ErrorCode.NONE
        return [(c.resource_type, c.resource_name) for c in response.config_resources]

    async def main() -> None:
        topics = [(2, "sink"), (2, "source")]
        assert await listed(1, []) == [*topics, (4, "1"), (8, "1")]
        assert await listed(1, [2]) == topics
        assert await listed(0, []) == []
        response = await call(protocol.ListConfigResourcesRequest(resource_types=[77]))
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION

    run(main())


def test_configs_of_topics_come_from_the_metadata_log(tmp_path: Path) -> None:
    log, expected = GOLDEN / "kafka-4.3.1" / "internal" / "log", dict[str, dict[str, str]]()
    for config in kafkafmt.metadata(log).configs:
        if config.resource_type == "topic" and config.value is not None:
            expected.setdefault(config.resource_name, {})[config.name] = config.value
    assert expected
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").touch()
    found = read_topic_configs(ServerSettings(paths=(tmp_path, log)))
    assert found is not None
    assert {topic: configs for topic, configs in found.items() if configs} == expected
    assert read_topic_configs(ServerSettings(paths=(tmp_path,))) is None


def test_unreadable_configs_are_reported() -> None:
    messages: list[str] = []
    catalog = internal_catalog(messages)

    def fail() -> KnownConfigs:
        raise PermissionError(13, "Permission denied")

    async def main() -> None:
        call = Caller(DescribeApis(catalog, catalog.settings, fail).handlers())
        for _ in range(2):
            assert (await call(describe_configs(2, "source"))).results[0].configs == []

    run(main())
    catalog.close()
    assert messages == ["the configs of the topics cannot be read: [Errno 13] Permission denied"]


# Log directories and topics


@pytest.mark.parametrize("version", versions(35))
def test_describe_log_dirs_returns_the_size_of_each_partition(call: Caller, version: int) -> None:
    async def main() -> None:
        response = await call(protocol.DescribeLogDirsRequest(topics=None), version)
        [result] = response.results
        assert result.log_dir == str(INTERNAL)
        sizes = {(t.name, p.partition_index): p.partition_size for t in result.topics for p in t.partitions}
        assert sizes == {
            key: sum(f.stat().st_size for f in (INTERNAL / f"{key[0]}-{key[1]}").glob("*.log"))
            for key in [("sink", 0), ("source", 0), ("source", 1), ("source", 2)]
        }
        if version >= 4:
            assert result.total_bytes == shutil.disk_usage(INTERNAL).total
        topic = protocol.DescribeLogDirsRequest.DescribableLogDirTopic(topic="source", partitions=[1, 7])
        response = await call(protocol.DescribeLogDirsRequest(topics=[topic]), version)
        assert [[p.partition_index for p in t.partitions] for t in response.results[0].topics] == [[1]]

    run(main())


def test_describe_log_dirs_lists_each_directory() -> None:
    roots = [GOLDEN / "kafka-4.3.1" / "jbod" / "log" / name for name in ("data-1", "data-2")]
    catalog = internal_catalog(paths=roots)

    async def main() -> None:
        response = await Caller(DescribeApis(catalog, catalog.settings).handlers())(
            protocol.DescribeLogDirsRequest(topics=None)
        )
        assert sorted(r.log_dir for r in response.results) == [str(root) for root in roots]
        found = {(t.name, p.partition_index) for r in response.results for t in r.topics for p in t.partitions}
        assert found == {(s.topic, s.number) for s in catalog.partitions}

    run(main())
    catalog.close()


def topic_partitions(names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    make = protocol.DescribeTopicPartitionsRequest
    return make(
        topics=[make.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor and make.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def test_describe_topic_partitions_reports_this_server_as_leader(call: Caller, catalog: Catalog) -> None:
    async def main() -> None:
        response = await call(topic_partitions(["source", "missing"]))
        missing, source = response.topics
        assert (missing.name, missing.error_code) == ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert (source.error_code, source.topic_id) == (0, catalog.topic("source").topic_id)  # type: ignore[union-attr]
        assert [p.partition_index for p in source.partitions] == [0, 1, 2]
        assert {(p.leader_id, tuple(p.replica_nodes), tuple(p.isr_nodes)) for p in source.partitions} == {
            (1, (1,), (1,))
        }
        assert response.next_cursor is None

    run(main())


@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 3, 4, 5])
def test_describe_topic_partitions_continues_at_the_cursor(call: Caller, limit: int) -> None:
    async def main() -> None:
        found: list[tuple[str, int]] = []
        cursor = None
        for _ in range(10):
            response = await call(topic_partitions([], limit, cursor))
            page = [(t.name, p.partition_index) for t in response.topics for p in t.partitions]
            assert len(page) <= max(limit, 1)
            found += page
            if response.next_cursor is None:
                break
            cursor = response.next_cursor.topic_name, response.next_cursor.partition_index
        assert found == [("sink", 0), ("source", 0), ("source", 1), ("source", 2)]

    run(main())


def test_describe_topic_partitions_accepts_a_cursor_of_a_deleted_topic(call: Caller) -> None:
    async def main() -> None:
        response = await call(topic_partitions([], cursor=("sink-deleted", 5)))
        assert [(t.name, len(t.partitions)) for t in response.topics] == [("source", 3)]

    run(main())


def test_describe_topic_partitions_reports_invalid_topic_names(call: Caller) -> None:
    async def main() -> None:
        response = await call(topic_partitions(["a b", "missing"]))
        assert [(t.name, t.error_code) for t in response.topics] == [
            ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]

    run(main())


# Transactions


def test_list_transactions_filters_by_state_and_producer(call: Caller) -> None:
    async def listed(version: int = 1, **fields: Any) -> list[tuple[str, int, str]]:
        response = await call(protocol.ListTransactionsRequest(**fields), version)
        return [(t.transactional_id, t.producer_id, t.transaction_state) for t in response.transaction_states]

    async def main() -> None:
        everything = [
            ("state-aborted", 2, "CompleteAbort"),
            ("state-committed", 1, "CompleteCommit"),
            ("state-empty", 3, "Empty"),
            ("state-open", 4, "Ongoing"),
        ]
        assert await listed() == await listed(0) == everything
        assert await listed(state_filters=["Ongoing", "Empty"]) == everything[2:]
        assert await listed(producer_id_filters=[1]) == everything[1:2]
        # Without transactions, the start time is -1. For most durations, a broker lists such a transactional id.
        assert await listed(duration_filter=0) == everything
        assert await listed(duration_filter=2**62) == []
        response = await call(protocol.ListTransactionsRequest(state_filters=["Odd"]))
        assert (response.unknown_state_filters, response.transaction_states) == (["Odd"], [])

    run(main())


def test_describe_transactions_returns_the_latest_state(call: Caller) -> None:
    async def main() -> None:
        response = await call(protocol.DescribeTransactionsRequest(transactional_ids=["state-open", "missing"]))
        found, missing = response.transaction_states
        assert (found.transaction_state, found.producer_id, found.transaction_timeout_ms) == ("Ongoing", 4, 900000)
        assert found.transaction_start_time_ms == 1795246101164
        assert [(t.topic, t.partitions) for t in found.topics] == [("sink", [0]), ("__consumer_offsets", [1])]
        assert (missing.transactional_id, missing.error_code) == ("missing", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    run(main())


def test_directories_without_transaction_state_have_no_transactions() -> None:
    catalog = internal_catalog(paths=[TRANSACTIONS])

    async def main() -> None:
        call = Caller(DescribeApis(catalog, catalog.settings).handlers())
        assert (await call(protocol.ListTransactionsRequest())).transaction_states == []

    run(main())
    assert read_groups(catalog.settings).groups == []
    catalog.close()


def test_describe_producers_returns_open_transactions() -> None:
    catalog = internal_catalog(paths=[TRANSACTIONS])

    async def main() -> None:
        call = Caller(DescribeApis(catalog, catalog.settings).handlers())
        make = protocol.DescribeProducersRequest
        response = await call(make(topics=[make.TopicRequest(name="tx", partition_indexes=[0, 9])]))
        found, missing = response.topics[0].partitions
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        served = catalog.partition("tx", 0)
        assert served is not None
        open_producers = {p.producer_id: p.current_txn_start_offset for p in found.active_producers}
        assert {k: v for k, v in open_producers.items() if v >= 0} == served.log.open_transactions.open
        assert len(open_producers) == 4

    run(main())
    catalog.close()


@pytest.mark.parametrize("number", range(3))
def test_producers_are_the_same_without_valid_snapshots(tmp_path: Path, number: int) -> None:
    name = f"tx-{number}"
    shutil.copytree(TRANSACTIONS / name, tmp_path / name, ignore=shutil.ignore_patterns("*.snapshot"))
    expected = read_producers(kafkafmt.open(TRANSACTIONS)["tx", number].log, DEFAULT_MAX_BATCH_BYTES)
    assert read_producers(kafkafmt.open(tmp_path)["tx", number].log, DEFAULT_MAX_BATCH_BYTES) == expected
    for snapshot in (TRANSACTIONS / name).glob("*.snapshot"):
        (tmp_path / name / snapshot.name).write_bytes(b"damaged")
    assert read_producers(kafkafmt.open(tmp_path)["tx", number].log, DEFAULT_MAX_BATCH_BYTES) == expected


# Features that the server does not support


@pytest.mark.parametrize("version", versions(29))
def test_describe_acls_reports_that_security_is_disabled(call: Caller, version: int) -> None:
    async def main() -> None:
        response = await call(protocol.DescribeAclsRequest(), version)
        assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, [])

    run(main())


def test_quotas_reassignments_and_credentials_are_empty(call: Caller) -> None:
    async def main() -> None:
        for version in versions(48):
            response = await call(protocol.DescribeClientQuotasRequest(), version)
            assert (response.error_code, response.entries) == (0, [])
        assert (await call(protocol.ListPartitionReassignmentsRequest())).topics == []
        credentials = protocol.DescribeUserScramCredentialsRequest
        assert (await call(credentials(users=None))).results == []
        [result] = (await call(credentials(users=[credentials.UserName(name="alice")]))).results
        assert (result.user, result.error_code) == ("alice", ErrorCode.RESOURCE_NOT_FOUND)

    run(main())


def test_read_groups_accepts_partition_directories() -> None:
    state = read_groups(ServerSettings((INTERNAL / "__consumer_offsets-0", INTERNAL / "__consumer_offsets-1")))
    assert state.committed("classic-static") == {("source", i): 20 for i in range(3)}
