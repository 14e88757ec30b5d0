"""Test the APIs of committed offsets in all versions, and the groups file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from handler_calls import Caller, internal_catalog, run

from kafkafmt import protocol
from kafkafmt.log.groups.groups import CommittedOffset, Group
from kafkafmt.protocol import ErrorCode
from kafkafmt.server.catalog import Catalog
from kafkafmt.server.groups import GroupApis, GroupLimits, GroupsFileError
from kafkafmt.server.groups.consumer_state import ConsumerGroup
from kafkafmt.server.groups.coordinator import Coordinator
from kafkafmt.server.groups.offsets import Commit, CommittedOffsets, GroupFacts
from kafkafmt.server.groups.offsets_file import Entry, GroupsFile
from kafkafmt.server.groups.state import ClassicGroup
from kafkafmt.server.internal_topics import read_groups

UNKNOWN_ID = UUID(int=99)
HEADER = b'{"kafkafmt_groups": 1}\n'
COMMIT = {
    "group": "g", "topic": "t", "partition": 0, "offset": 5, "leader_epoch": -1, "metadata": "", "timestamp": 7,
}  # fmt: skip
SEEDED = "classic-static"
"""A group in the golden directory. Its committed offset is 20 in all three partitions of "source"."""


def versions(key: int) -> range:
    known = protocol.message_class(key, "request").API.versions
    return range(known.first, known.last + 1)


class Server:
    """The group APIs of a server for the golden directory, and methods that call them."""

    def __init__(self, groups_file: Path | None = None, limits: GroupLimits | None = None) -> None:
        self.messages: list[str] = []
        self.catalog: Catalog = internal_catalog(self.messages)
        self.apis = GroupApis(self.catalog, partial(read_groups, self.catalog.settings), groups_file, limits)
        self.call = Caller(self.apis.handlers())

    def topic_id(self, topic: str) -> UUID:
        found = self.catalog.topic(topic)
        return UNKNOWN_ID if found is None else found.topic_id

    async def commit(
        self,
        offsets: dict[tuple[str, int], int],
        group: str = "g",
        version: int = 9,
        metadata: str = "m",
        **fields: Any,
    ) -> dict[tuple[str, int], ErrorCode]:
        """Commit offsets, and return the error code of each partition."""
        request = protocol.OffsetCommitRequest(group_id=group, **fields)
        for topic, partition in offsets:
            p = protocol.OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offsets[topic, partition], committed_metadata=metadata
            )
            topic_id = self.topic_id(topic) if version >= 10 else UUID(int=0)
            request.topics.append(
                protocol.OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[p])
            )
        response = await self.call(request, version)
        assert [t.topic_id for t in response.topics] == [t.topic_id for t in request.topics]
        return {
            key: ErrorCode(topic.partitions[0].error_code) for key, topic in zip(offsets, response.topics, strict=True)
        }

    async def fetch(
        self, wanted: dict[str, list[int]] | None, group: str = "g", version: int = 9
    ) -> dict[tuple[str, int], tuple[int, str, ErrorCode]]:
        """Fetch the committed offset, the metadata and the error code of each partition."""
        if version >= 8:
            kind = protocol.OffsetFetchRequest.OffsetFetchRequestTopics
            by_id = version >= 10
            topics: Any = wanted and [
                kind(name=t, topic_id=self.topic_id(t) if by_id else UUID(int=0), partition_indexes=p)
                for t, p in wanted.items()
            ]
            asked = protocol.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=topics)
            response = await self.call(protocol.OffsetFetchRequest(groups=[asked]), version)
            [found] = response.groups
            names = {self.topic_id(name): name for name in ["missing", *(t.name for t in self.catalog.topics)]}
            topics = [(names[t.topic_id] if by_id else t.name, t) for t in found.topics]
        else:
            old = protocol.OffsetFetchRequest.OffsetFetchRequestTopic
            topics = wanted and [old(name=t, partition_indexes=p) for t, p in wanted.items()]
            found = await self.call(protocol.OffsetFetchRequest(group_id=group, topics=topics), version)
            topics = [(t.name, t) for t in found.topics]
        assert found.error_code == ErrorCode.NONE
        return {
            (name, p.partition_index): (p.committed_offset, p.metadata or "", ErrorCode(p.error_code))
            for name, topic in topics
            for p in topic.partitions
        }

    def load(self) -> None:
        """Wait until the groups are loaded."""
        run(self.call(protocol.ListGroupsRequest()))

    def close(self) -> None:
        self.apis.close()
        self.catalog.close()


@contextmanager
def serving(groups_file: Path | None = None, limits: GroupLimits | None = None) -> Iterator[Server]:
    server = Server(groups_file, limits)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.mark.parametrize("version", versions(8))
def test_commit_is_returned_by_fetch(server: Server, version: int) -> None:
    async def main() -> None:
        offsets = {("source", 0): 7, ("sink", 0): 0, ("source", 9): 1, ("missing", 0): 1}
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert list((await server.commit(offsets, version=version)).values()) == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            unknown,
        ]
        assert await server.fetch(None) == {
            ("sink", 0): (0, "m", ErrorCode.NONE),
            ("source", 0): (7, "m", ErrorCode.NONE),
        }

    run(main())


@pytest.mark.parametrize("version", versions(9))
def test_fetch_returns_the_offsets_of_the_directory(server: Server, version: int) -> None:
    async def main() -> None:
        found = await server.fetch({"source": [0, 2, 5]}, SEEDED, version)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == 0 else ErrorCode.NONE
        assert found == {
            ("source", 0): (20, "note of classic-static", ErrorCode.NONE),
            ("source", 2): (20, "note of classic-static", ErrorCode.NONE),
            ("source", 5): (-1, "", missing),
        }
        if version >= 2:
            assert list(await server.fetch(None, SEEDED, version)) == [("source", i) for i in range(3)]
        if version >= 10:
            [code] = [e for _, _, e in (await server.fetch({"missing": [0]}, SEEDED, version)).values()]
            assert code == ErrorCode.UNKNOWN_TOPIC_ID

    run(main())


def test_fetch_returns_the_offsets_of_several_groups(server: Server) -> None:
    async def main() -> None:
        kind = protocol.OffsetFetchRequest.OffsetFetchRequestGroup
        response = await server.call(
            protocol.OffsetFetchRequest(groups=[kind(group_id=SEEDED, topics=None), kind(group_id="no", topics=None)]),
            8,
        )
        assert [(g.group_id, len(g.topics), g.error_code) for g in response.groups] == [(SEEDED, 1, 0), ("no", 0, 0)]

    run(main())


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_commit_with_a_generation_requires_an_existing_group(server: Server, version: int, code: ErrorCode) -> None:
    async def main() -> None:
        fields: dict[str, Any] = {"generation_id_or_member_epoch": 3, "member_id": "m"}
        codes = await server.commit({("source", 0): 7}, version=version, **fields)
        assert codes == {("source", 0): code}
        assert "g" not in server.apis.coordinator.groups
        codes = await server.commit({("source", 0): 7}, SEEDED, **fields)
        assert codes == {("source", 0): ErrorCode.UNKNOWN_MEMBER_ID}

    run(main())


@pytest.mark.parametrize("character", ["a", "ä", "😀"])
def test_commit_refuses_long_metadata(server: Server, character: str) -> None:
    async def main() -> None:
        most = 4096 // (len(character.encode("utf-16-le")) // 2)
        codes = await server.commit({("source", 0): 7}, metadata=character * (most + 1))
        assert codes == {("source", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
        codes = await server.commit({("source", 0): 7}, metadata=character * most)
        assert codes == {("source", 0): ErrorCode.NONE}

    run(main())


def test_commit_of_unknown_partitions_creates_no_group(server: Server) -> None:
    async def main() -> None:
        codes = await server.commit({("missing", 0): 7, ("source", 99): 7})
        assert set(codes.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert "g" not in server.apis.coordinator.groups

    run(main())


def test_commits_beyond_the_memory_limit_are_refused() -> None:
    with serving(limits=GroupLimits(bytes=50_000)) as server:

        async def main() -> None:
            codes = set()
            for number in range(100):
                codes.add((await server.commit({("source", 0): 7}, group=f"g{number}"))["source", 0])
            assert codes == {ErrorCode.NONE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
            coordinator = server.apis.coordinator
            assert coordinator._size + coordinator.offsets.size <= 50_000
            for _ in range(100):
                assert set((await server.commit({("source", 1): 7}, group=SEEDED)).values()) <= codes

        run(main())


def test_replaced_and_deleted_commits_release_their_memory(server: Server) -> None:
    async def main() -> None:
        offsets = server.apis.coordinator.offsets
        assert offsets.size == 0
        for number in range(5):
            await server.commit({("source", 0): number}, SEEDED)
        one = offsets.size
        assert 0 < one < 1000
        await server.call(protocol.DeleteGroupsRequest(groups_names=[SEEDED]))
        assert offsets.size == 0

    run(main())


def delete_request(group: str, partitions: list[tuple[str, int]]) -> Any:
    topic, partition = (
        protocol.OffsetDeleteRequest.OffsetDeleteRequestTopic,
        protocol.OffsetDeleteRequest.OffsetDeleteRequestPartition,
    )
    return protocol.OffsetDeleteRequest(
        group_id=group, topics=[topic(name=t, partitions=[partition(partition_index=p)]) for t, p in partitions]
    )


def test_offset_delete_deletes_single_partitions(server: Server) -> None:
    async def main() -> None:
        response = await server.call(delete_request(SEEDED, [("source", 1), ("sink", 0), ("missing", 0)]))
        codes = [t.partitions[0].error_code for t in response.topics]
        assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert list(await server.fetch(None, SEEDED)) == [("source", 0), ("source", 2)]

    run(main())


@pytest.mark.parametrize(("group", "code"), [("", ErrorCode.INVALID_GROUP_ID), ("no", ErrorCode.GROUP_ID_NOT_FOUND)])
def test_offset_delete_refuses_unknown_groups(server: Server, group: str, code: ErrorCode) -> None:
    async def main() -> None:
        assert (await server.call(delete_request(group, [("source", 1)]))).error_code == code

    run(main())


async def join(server: Server, protocol_type: str, metadata: bytes) -> None:
    protocols = [protocol.JoinGroupRequest.JoinGroupRequestProtocol(name="p", metadata=metadata)]
    request = protocol.JoinGroupRequest(
        group_id="g", session_timeout_ms=6000, protocol_type=protocol_type, protocols=protocols
    )
    assert (await server.call(request, 3)).error_code == ErrorCode.NONE


def test_offset_delete_refuses_topics_to_which_members_subscribe(server: Server) -> None:
    async def main() -> None:
        await server.commit({("source", 1): 3, ("sink", 0): 3})
        await join(server, "consumer", b"\0\0" + b"\0\0\0\1" + b"\0\6source" + b"\xff\xff\xff\xff")
        response = await server.call(delete_request("g", [("source", 1), ("sink", 0)]))
        codes = [t.partitions[0].error_code for t in response.topics]
        assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]

    run(main())


@pytest.mark.parametrize("metadata", [b"", b"m", b"\0\0\0\0\0\1\0\6sou"])
def test_offset_delete_refuses_all_topics_if_a_subscription_is_unreadable(server: Server, metadata: bytes) -> None:
    async def main() -> None:
        await server.commit({("source", 1): 3})
        await join(server, "consumer", metadata)
        response = await server.call(delete_request("g", [("source", 1)]))
        assert response.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

    run(main())


def test_offset_delete_refuses_active_groups_of_other_protocol_types(server: Server) -> None:
    async def main() -> None:
        await join(server, "connect", b"")
        assert (await server.call(delete_request("g", [("source", 1)]))).error_code == ErrorCode.NON_EMPTY_GROUP

    run(main())


# The groups file


def test_groups_file_keeps_changes_across_restarts(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    with serving(path) as server:

        async def change() -> None:
            await server.commit({("source", 0): 7}, metadata="größe \n")
            await server.commit({("source", 0): 8, ("sink", 0): 1}, metadata="größe \n")
            await server.commit({("source", 0): 21}, SEEDED)
            await server.call(delete_request(SEEDED, [("source", 1)]))

        run(change())
        state = {g: dict(server.apis.coordinator.offsets.of_group(g)) for g in (SEEDED, "g")}
    for _ in range(3):
        with serving(path) as server:
            server.load()
            assert {g: dict(server.apis.coordinator.offsets.of_group(g)) for g in (SEEDED, "g")} == state
    assert {k: c.offset for k, c in state[SEEDED].items()} == {("source", 0): 21, ("source", 2): 20}
    assert {k: c.offset for k, c in state["g"].items()} == {("source", 0): 8, ("sink", 0): 1}
    assert state["g"]["sink", 0].metadata == "größe \n"
    assert os.listdir(tmp_path) == ["groups.json"]


def test_groups_file_keeps_deletions_across_restarts(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    with serving(path) as server:
        run(server.call(protocol.DeleteGroupsRequest(groups_names=[SEEDED])))
    for _ in range(2):
        with serving(path) as server:
            server.load()
            assert SEEDED not in server.apis.coordinator.groups
    with serving(path) as server:
        run(server.commit({("source", 0): 1}, SEEDED))
    with serving(path) as server:
        server.load()
        assert list(server.apis.coordinator.offsets.of_group(SEEDED)) == [("source", 0)]


def test_groups_file_keeps_the_generation(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    with serving(path) as server:

        async def commit_as_member() -> None:
            await join(server, "connect", b"")
            group = server.apis.coordinator.find_classic("g")
            assert group is not None
            [member] = group.members
            group.sync(member.member_id, None, 1, None, None, {}, lambda _: None)
            fields: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": member.member_id}
            assert await server.commit({("source", 0): 7}, **fields) == {("source", 0): ErrorCode.NONE}

        run(commit_as_member())
    with serving(path) as server:
        server.load()
        group = server.apis.coordinator.groups["g"]
        assert (group.generation, group.protocol_type, group.state) == (1, "connect", "Empty")


def test_groups_file_keeps_the_group_protocol(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"

    async def listed(server: Server) -> tuple[str, str]:
        groups = {g.group_id: g for g in (await server.call(protocol.ListGroupsRequest())).groups}
        return groups["g"].group_type, groups["g"].group_state

    def heartbeat(epoch: int, **fields: Any) -> Any:
        return protocol.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, **fields)

    async def use(server: Server) -> None:
        joins: dict[str, Any] = {"rebalance_timeout_ms": 9000, "subscribed_topic_names": ["source"]}
        joined = await server.call(heartbeat(0, topic_partitions=[], **joins))
        epoch = {"generation_id_or_member_epoch": joined.member_epoch, "member_id": "m"}
        assert await server.commit({("source", 0): 7}, **epoch) == {("source", 0): ErrorCode.NONE}
        await server.call(heartbeat(-1))

    with serving(path) as server:
        run(use(server))
        assert run(listed(server)) == ("consumer", "Empty")
    for _ in range(2):
        with serving(path) as server:
            assert run(listed(server)) == ("consumer", "Empty")
            [group] = run(server.call(protocol.ConsumerGroupDescribeRequest(group_ids=["g"]))).groups
            assert (group.error_code, group.group_state, group.group_epoch) == (ErrorCode.NONE, "Empty", 1)
            codes = run(server.commit({("source", 1): 7}))
            assert codes == {("source", 1): ErrorCode.NONE}
    with serving(path) as server:
        run(join(server, "consumer", b""))
        assert run(listed(server))[0] == "classic"


def test_groups_of_the_directory_keep_their_group_protocol() -> None:
    offsets = CommittedOffsets()
    offsets.start(groups=[Group("new", "consumer", 7), Group("old", "classic", 3, "consumer"), Group("no", "share", 1)])
    coordinator = Coordinator(offsets, GroupLimits(), lambda: 0.0)
    coordinator.add_known_groups()
    found = {name: (type(group), group.generation) for name, group in coordinator.groups.items()}
    assert found == {"new": (ConsumerGroup, 7), "old": (ClassicGroup, 3)}


def test_commit_is_in_the_file_before_the_response(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    with serving(path) as server:
        run(server.commit({("source", 0): 7}))
        assert json.loads(path.read_text().splitlines()[-1])["offset"] == 7


def test_incomplete_last_line_is_ignored_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    with serving(path) as server:
        run(server.commit({("source", 0): 7}))
        run(server.commit({("source", 0): 8}))
        assert not server.messages
    data = path.read_bytes()
    with open(path, "ab") as file:
        file.write(data.splitlines()[-1].replace(b'"offset":8', b'"offset":9')[:-1])
    with serving(path) as server:
        server.load()
        assert server.apis.coordinator.offsets.of_group("g")["source", 0].offset == 8
        (message,) = server.messages
        assert message.startswith(f"{path}: the last line is incomplete and is ignored: ")
        assert '"offset":9' in message
    assert path.read_bytes().endswith(b"}\n")


def test_last_line_without_its_line_break_is_read(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    with serving(path) as server:
        run(server.commit({("source", 0): 7}))
        run(server.commit({("source", 0): 8}))
    path.write_bytes(path.read_bytes()[:-1])
    with serving(path) as server:
        server.load()
        assert server.apis.coordinator.offsets.of_group("g")["source", 0].offset == 8
        assert not server.messages


@pytest.mark.parametrize(
    "end", [b'}\n{"group":"g","topic":"sou', b"}", b"}\n", None], ids=["cut", "no-break", "whole", "empty"]
)
def test_groups_file_stays_readable_if_the_first_rewrite_fails(
    end: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the server starts, and has space again when a client commits."""
    path = tmp_path / "groups.json"
    if end is not None:
        with serving(path) as server:
            run(server.commit({("source", 0): 7}))
        path.write_bytes(path.read_bytes()[:-2] + end)
    with serving(path) as server:
        with monkeypatch.context() as patch:
            patch.setattr("os.replace", partial(_fail, OSError(28, "No space left on device")))
            server.load()
        assert "No space left" in server.messages[-1]
        run(server.commit({("source", 1): 8}))
    with serving(path) as server:
        server.load()
        offsets = server.apis.coordinator.offsets.of_group("g")
        assert offsets["source", 1].offset == 8
        assert end is None or offsets["source", 0].offset == 7


def _fail(error: OSError, *_: Any) -> None:
    raise error


def test_link_to_a_groups_file_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "volume" / "groups.json", tmp_path / "groups.json"
    path.parent.mkdir()
    link.symlink_to(path)
    with serving(link) as server:
        run(server.commit({("source", 0): 7}))
    assert link.is_symlink()
    with serving(path) as server:
        server.load()
        assert server.apis.coordinator.offsets.of_group("g")["source", 0].offset == 7


def test_groups_file_must_be_a_regular_file(tmp_path: Path) -> None:
    """The server replaces the file, so it would replace a device such as /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(GroupsFileError, match="not a regular file"):
            GroupsFile(path)


def test_outdated_lines_are_removed_while_the_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafmt.server.groups.offsets_file.SPARE_LINES", 20)
    path = tmp_path / "groups.json"
    with serving(path) as server:
        for number in range(200):
            run(server.commit({("source", 0): number}))
        assert len(path.read_text().splitlines()) < 60
    with serving(path) as server:
        server.load()
        assert server.apis.coordinator.offsets.of_group("g")["source", 0].offset == 199


def test_groups_file_with_long_names_stays_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name and the metadata of a commit can take six times as many bytes in JSON, in each line of the file."""
    monkeypatch.setattr("kafkafmt.server.groups.offsets_file.MAX_BYTES", 1 << 20)
    monkeypatch.setattr("kafkafmt.server.groups.offsets_file.SPARE_BYTES", 256 << 10)
    path, group = tmp_path / "groups.json", "\x01" * 10_000
    with serving(path) as server:
        for number in range(30):
            codes = run(server.commit({("source", 0): number}, group, metadata="\x02" * 4000))
            assert codes == {("source", 0): ErrorCode.NONE}
        assert path.stat().st_size < 512 << 10
    with serving(path) as server:
        server.load()
        assert server.apis.coordinator.offsets.of_group(group)["source", 0].offset == 29


def test_full_groups_file_refuses_commits_until_a_group_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkafmt.server.groups.offsets_file.MAX_BYTES", 16_000)
    path = tmp_path / "groups.json"
    with serving(path) as server:
        codes = [run(server.commit({("source", 0): 7}, f"{n}", metadata="m" * 4000))["source", 0] for n in range(5)]
        assert codes == [ErrorCode.NONE] * 3 + [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * 2
        assert path.stat().st_size < 15_000
        assert "the file would be larger than 15000 bytes; delete unused groups" in server.messages[0]
        deleted = run(server.call(protocol.DeleteGroupsRequest(groups_names=["0", "1"])))
        assert [result.error_code for result in deleted.results] == [ErrorCode.NONE] * 2
        monkeypatch.setattr("kafkafmt.server.groups.offsets.FULL_INTERVAL", 0)
        assert run(server.commit({("source", 0): 8}, "3", metadata="m" * 4000)) == {("source", 0): ErrorCode.NONE}
    with serving(path) as server:
        server.load()
        offsets = server.apis.coordinator.offsets
        assert [[c.offset for c in offsets.of_group(f"{n}").values()] for n in range(5)] == [[], [], [7], [8], []]


def test_deleted_commits_of_the_directory_cause_few_rewrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file keeps a line for each deleted commit of the directory, and these lines are never outdated."""
    monkeypatch.setattr("kafkafmt.server.groups.offsets_file.SPARE_LINES", 20)
    seed = [CommittedOffset("g", "t", n, 5, None, "", 1, None) for n in range(100)]
    offsets = CommittedOffsets(GroupsFile(tmp_path / "groups.json"))
    offsets.start(seed)
    offsets.delete_offsets("g", [("t", number) for number in range(1, 100)])
    replaced: list[str] = []
    replace_file = os.replace

    def replace_and_count(old: str, new: str) -> None:
        replaced.append(new)
        replace_file(old, new)

    monkeypatch.setattr(os, "replace", replace_and_count)
    for number in range(40):
        offsets.commit("other", GroupFacts("consumer", 1), {("t", 0): Commit(number)})
    offsets.close()
    assert len(replaced) <= 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not json\n", "not a groups file"),
        (b"\x89PNG", "not a groups file"),
        (b'{"kafkafmt_groups": 2}\n', "not a groups file"),
        (b"[" * 100_000 + b"\n", "not a groups file"),
        (b'{"kafkafmt_groups": 1}\n{"grou', ""),
        (b'{"kafkafmt_groups": 1}\n{"grou\n', "line 2 does not describe a commit or a group"),
        (b'{"kafkafmt_groups": 1}\n{"group": "g", "topic": "t"}\n', "line 2 does not describe a commit or a group"),
        (b'{"kafkafmt_groups": 1}\n[]\n', "line 2 does not describe a commit or a group"),
        (b'{"kafkafmt_groups": 1}\n{"group": 5}\n', "line 2: group has the invalid value 5"),
        (
            b'{"kafkafmt_groups": 1}\n{"group": "g"}\n{"group": "g", "topic": "t", "partition": true}\n',
            "line 3: partition has the invalid value True",
        ),
        (
            b'{"kafkafmt_groups": 1}\n{"group": "g", "protocol_type": "", "generation": 1, "type": "share"}\n',
            "line 2: type has the invalid value 'share'",
        ),
        (
            b'{"kafkafmt_groups": 1}\n{"group": "g", "topic": "t", "partition": 99999999999999999999}\n',
            "line 2: partition has the invalid value 99999999999999999999",
        ),
        *(
            (HEADER + json.dumps(line).encode() + b"\n", f"line 2: {name} has the invalid value .{{1,100}}$")
            for name, line in (
                ("leader_epoch", {**COMMIT, "leader_epoch": 2**31}),
                ("leader_epoch", {**COMMIT, "leader_epoch": -2}),
                ("partition", {**COMMIT, "partition": 2**63 - 1}),
                ("partition", {**COMMIT, "partition": -1}),
                ("offset", {**COMMIT, "offset": -5}),
                ("offset", {**COMMIT, "offset": 2**63}),
                ("metadata", {**COMMIT, "metadata": "é" * 16_384}),
                ("topic", {**COMMIT, "topic": "\udc80"}),
                ("group", {"group": "\ud800"}),
                ("group", {"group": "g" * 40_000}),
                ("generation", {"group": "g", "protocol_type": "consumer", "generation": -1}),
                ("generation", {"group": "g", "protocol_type": "consumer", "generation": 2**31}),
                ("protocol_type", {"group": "g", "protocol_type": "x" * 32_768, "generation": 1}),
            )
        ),
    ],
)
def test_damaged_groups_file_is_refused_and_left_unchanged(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "groups.json"
    path.write_bytes(content)
    catalog = internal_catalog()
    if not message:
        GroupApis(catalog, groups_file=path).close()
    else:
        with pytest.raises(GroupsFileError, match=message):
            GroupApis(catalog, groups_file=path)
        assert path.read_bytes() == content
    catalog.close()


def test_largest_values_of_a_groups_file_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    largest = {**COMMIT, "group": "g" * 32_767, "partition": 2**31 - 1, "offset": 2**63 - 1, "leader_epoch": 2**31 - 1}
    path.write_bytes(HEADER + json.dumps(largest).encode() + b"\n")
    file = GroupsFile(path)
    assert [entry.to_dict() for entry in file.load()] == [largest]
    file.close()


def test_commit_of_a_negative_offset_is_refused(tmp_path: Path) -> None:
    async def check(server: Server) -> None:
        assert await server.commit({("source", 0): -5}) == {("source", 0): ErrorCode.INVALID_REQUEST}

    with serving(tmp_path / "groups.json") as server:
        run(check(server))


def test_groups_file_of_another_server_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    with serving(path), pytest.raises(GroupsFileError, match="used by another server"):
        GroupsFile(path)
    GroupsFile(path).close()


def test_commit_is_refused_if_the_file_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "groups.json"
    with serving(path) as server:
        run(server.commit({("source", 0): 7}))
        before = path.read_bytes()

        def fail(handle: Any, data: bytes) -> None:
            handle.write(data[:10])
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("kafkafmt.server.groups.offsets_file._write", fail)
            codes = run(server.commit({("source", 0): 8}))
            deleted = run(server.call(protocol.DeleteGroupsRequest(groups_names=["g"])))
        assert codes == {("source", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert deleted.results[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (
            server.messages == [f"the groups file cannot be written: [Errno 28] No space left on device: '{path}'"] * 2
        )
        assert path.read_bytes() == before
        assert server.apis.coordinator.offsets.of_group("g")["source", 0].offset == 7
        run(server.commit({("source", 0): 9}))
    with serving(path) as server:
        server.load()
        assert server.apis.coordinator.offsets.of_group("g")["source", 0].offset == 9


def test_entry_to_dict_has_only_the_fields_of_its_kind() -> None:
    assert Entry("g").to_dict() == {"group": "g"}
    assert Entry("g", "t", 1).to_dict() == {"group": "g", "topic": "t", "partition": 1}
    assert Entry("g", protocol_type="", generation=2).to_dict() == {"group": "g", "protocol_type": "", "generation": 2}


def test_commit_is_refused_at_the_limit_of_groups(server: Server) -> None:
    server.apis.coordinator.limits = replace(server.apis.coordinator.limits, groups=2)

    async def main() -> None:
        assert await server.commit({("source", 0): 1}, "a") == {("source", 0): ErrorCode.NONE}
        assert await server.commit({("source", 0): 1}, "b") == {("source", 0): ErrorCode.POLICY_VIOLATION}

    run(main())
