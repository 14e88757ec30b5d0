"""Change directories at random while clients use fetch sessions (KIP-227), and compare each response with a model."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from changing_log import Model
from serving import Client, fetch_request

import kafkafmt
from kafkafmt import protocol
from kafkafmt.protocol import ErrorCode
from kafkafmt.server.settings import ServerLimits

Start = Callable[..., kafkafmt.server.Server]
Key = tuple[str | UUID, int]
"""Name or id of a topic, and number of a partition."""
STEPS = 120
MOST_SESSIONS = 3
FIRST_VERSION_WITH_IDS = 13


class Topic:
    """A topic with several partitions, which can be deleted and created again with another topic id."""

    def __init__(self, root: Path, name: str, chance: Random) -> None:
        self.root, self.name, self.chance = root, name, chance
        self.partitions: dict[int, Model] = {}
        self.create()

    def create(self) -> None:
        self.id = UUID(int=self.chance.getrandbits(128), version=4)
        for number in range(self.chance.randint(1, 3)):
            self.add(number)

    def add(self, number: int) -> None:
        model = self.partitions[number] = Model(self.root / f"{self.name}-{number}", self.chance)
        text = urlsafe_b64encode(self.id.bytes).decode().rstrip("=")
        (model.folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {text}\n")

    def grow(self) -> None:
        """Create one more partition."""
        if self.partitions:
            self.add(len(self.partitions))

    def delete(self) -> None:
        for model in self.partitions.values():
            model.delete_folder()
        self.partitions.clear()

    def replace(self) -> None:
        self.delete()
        self.create()


@dataclass
class Session:
    """The state of a fetch session at its client.

    `partitions` contains the requested offset and the largest number of bytes, by partition. `sent`
    contains the high watermark and the log start offset of the latest response. `unknown` contains the
    partitions that do not exist, after a response has contained their errors.
    """

    id: int
    version: int
    epoch: int = 1
    partitions: OrderedDict[Key, tuple[int, int]] = field(default_factory=OrderedDict)
    sent: dict[Key, tuple[int, int]] = field(default_factory=dict)
    unknown: OrderedDict[Key, tuple[int, int]] = field(default_factory=OrderedDict)


Expected = dict[Key, tuple[int, int, int, bytes]]
"""Error code, high watermark, log start offset and batches of each partition."""


class Driver:
    """Sends requests of several fetch sessions, and compares the responses with the models of the partitions."""

    def __init__(self, client: Client, topics: list[Topic], chance: Random) -> None:
        self.client, self.topics, self.chance = client, topics, chance
        self.sessions: OrderedDict[int, Session] = OrderedDict()
        """The sessions that the server keeps. The least recently used one is the first."""
        self.ended: list[Session] = []
        self.checked = 0
        self.advanced: dict[tuple[int, Key], int] = {}
        """The offsets after the received batches, by session and partition."""

    def model_of(self, key: Key) -> Model | None:
        topic = next((t for t in self.topics if key[0] in (t.name, t.id)), None)
        return None if topic is None else topic.partitions.get(key[1])

    def keys(self, version: int) -> list[Key]:
        """Return keys of partitions that exist, and of partitions that do not exist."""
        by_id = version >= FIRST_VERSION_WITH_IDS
        found: list[Key] = [(t.id if by_id else t.name, n) for t in self.topics for n in range(4)]
        return [*found, (UUID(int=7) if by_id else "missing", 0)]

    def offset_for(self, key: Key) -> int:
        model = self.model_of(key)
        if model is None or self.chance.random() < 0.1:
            return self.chance.randrange(200)
        return self.chance.randint(model.start, model.end)

    def wanted(self, version: int, most: int) -> dict[Key, tuple[int, int]]:
        keys = self.chance.sample(self.keys(version), self.chance.randint(0, most))
        return {key: (self.offset_for(key), self.chance.choice([1 << 20, 1 << 20, 3000, 1])) for key in keys}

    def expected(self, partitions: OrderedDict[Key, tuple[int, int]], version: int, max_bytes: int) -> Expected:
        """Return what a full response contains for each partition, in the order of the session."""
        found: Expected = {}
        left, filled = max_bytes, False
        for key, (offset, most) in partitions.items():
            model = self.model_of(key)
            if model is None:
                known = isinstance(key[0], str) or any(t.id == key[0] and t.partitions for t in self.topics)
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.UNKNOWN_TOPIC_ID
                found[key] = error, -1, -1, b""
            elif not model.start <= offset <= model.end:
                found[key] = ErrorCode.OFFSET_OUT_OF_RANGE, model.end, model.start, b""
            else:
                data = b""
                for batch in model.batches() if left or not filled else []:
                    if batch.first + len(batch.values) > offset:
                        if len(data) + len(batch.data) > min(most, left) and (data or filled):
                            break
                        data += batch.data
                filled = filled or bool(data)
                left = max(left - len(data), 0)
                found[key] = 0, model.end, model.start, data
        return found

    def check(self, response: Any, session: Session, max_bytes: int, incremental: bool) -> None:
        """Compare a response with the models, and update the session as the server does."""
        assert response.error_code == 0
        for key in [key for key in session.unknown if self.model_of(key) is not None]:
            session.partitions[key] = session.unknown.pop(key)
        everything = OrderedDict(session.partitions | session.unknown)
        expected = self.expected(everything, session.version, max_bytes)
        found: Expected = {}
        for topic in response.responses:
            name = topic.topic_id if session.version >= FIRST_VERSION_WITH_IDS else topic.topic
            for p in topic.partitions:
                assert (name, p.partition_index) not in found
                data = b"".join(map(bytes, p.records)) if isinstance(p.records, list) else bytes(p.records or b"")
                found[name, p.partition_index] = p.error_code, p.high_watermark, p.log_start_offset, data
        unchanged = {
            key
            for key, (error, end, start, data) in expected.items()
            if incremental and not error and not data and session.sent.get(key) == (end, start)
        }
        for key, answer in found.items():
            if answer[0]:
                assert answer[0] == expected[key][0], (key, answer, expected[key][:3])
            else:
                assert answer == expected[key], (key, answer[:3], expected[key][:3])
        missing = expected.keys() - found.keys()
        assert unchanged <= missing <= unchanged | session.unknown.keys(), (expected, session.sent)
        self.checked += len(found)
        for key in expected:
            if key in found:
                error, end, start, data = found[key]
                session.sent.pop(key, None)
                if error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID) and session.id:
                    session.partitions.pop(key, None)
                    session.unknown.pop(key, None)
                    session.unknown[key] = everything[key]
                if not error:
                    session.sent[key] = end, start
                if data and key in session.partitions:
                    session.partitions.move_to_end(key)
                    last = list(kafkafmt.iter_batches(data))[-1]
                    if self.chance.random() < 0.8:
                        self.advanced[session.id, key] = last.last_offset + 1

    def ask(self, partitions: dict[Key, tuple[int, int]], version: int, max_bytes: int, **fields: Any) -> Any:
        body = fetch_request({}, version, max_bytes=max_bytes, **fields)
        make = protocol.FetchRequest
        topics: dict[str | UUID, list[Any]] = {}
        for (topic, number), (offset, most) in partitions.items():
            wanted = make.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=most)
            topics.setdefault(topic, []).append(wanted)
        body.topics = [make.FetchTopic(**named(topic), partitions=wanted) for topic, wanted in topics.items()]
        return self.client.ask(body, version)

    def open(self) -> None:
        version = self.chance.randint(7, 17)
        wanted = self.wanted(version, 6)
        ordered = OrderedDict(grouped(wanted))
        max_bytes = self.chance.choice([50 << 20, 5000, 1])
        replaced = self.chance.choice([0, *self.sessions])
        epoch = self.chance.choice([0, 0, 0, -1])
        response = self.ask(wanted, version, max_bytes, session_id=replaced, session_epoch=epoch)
        if replaced:
            self.ended.append(self.sessions.pop(replaced))
        session = Session(response.session_id, version, 1, ordered)
        assert bool(session.id) == (epoch == 0 and bool(wanted))
        self.check(response, session, max_bytes, False)
        if session.id:
            self.sessions[session.id] = session
        while len(self.sessions) > MOST_SESSIONS:
            self.ended.append(self.sessions.popitem(last=False)[1])

    def proceed(self) -> None:
        """Send the next request of a session."""
        if not self.sessions:
            return
        session = self.chance.choice(list(self.sessions.values()))
        changes = self.wanted(session.version, 2)
        for key in [*session.partitions, *session.unknown]:
            if (offset := self.advanced.pop((session.id, key), None)) is not None and key not in changes:
                changes[key] = offset, 1 << 20
        forgotten = self.chance.sample(self.keys(session.version), self.chance.choice([0, 0, 0, 1, 3]))
        max_bytes = self.chance.choice([50 << 20, 50 << 20, 5000, 1])
        make = protocol.FetchRequest.ForgottenTopic
        fields = {
            "session_id": session.id,
            "session_epoch": session.epoch,
            "forgotten": [make(**named(topic), partitions=[number]) for topic, number in forgotten],
        }
        if self.chance.random() < 0.1:
            wrong = {**fields, "session_epoch": session.epoch + self.chance.choice([1, 5])}
            assert self.ask(changes, session.version, 1, **wrong).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if self.chance.random() < 0.1:
            other = 12 if session.version >= FIRST_VERSION_WITH_IDS else 13
            error = self.ask({}, other, 1, session_id=session.id, session_epoch=session.epoch).error_code
            assert error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        for key, wanted in grouped(changes):
            session.partitions[key] = wanted
            session.unknown.pop(key, None)
        for key in forgotten:
            session.partitions.pop(key, None)
            session.unknown.pop(key, None)
            session.sent.pop(key, None)
        response = self.ask(changes, session.version, max_bytes, **fields)
        session.epoch += 1
        if not session.partitions and not session.unknown:
            self.ended.append(self.sessions.pop(session.id))
            assert (response.session_id, response.responses) == (0, [])
            return
        self.sessions.move_to_end(session.id)
        assert response.session_id == session.id
        self.check(response, session, max_bytes, True)

    def use_ended_session(self) -> None:
        for session in self.ended[-2:]:
            fields = {"session_id": session.id, "session_epoch": session.epoch}
            error = self.ask({}, session.version, 1, **fields).error_code
            assert error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def named(topic: str | UUID) -> dict[str, Any]:
    return {"topic_id": topic} if isinstance(topic, UUID) else {"topic": topic}


def grouped(partitions: dict[Key, tuple[int, int]]) -> Iterable[tuple[Key, tuple[int, int]]]:
    """Yield the partitions in the order in which a request contains them: topic by topic."""
    topics = list(dict.fromkeys(topic for topic, _ in partitions))
    for topic in topics:
        yield from ((key, wanted) for key, wanted in partitions.items() if key[0] == topic)


def change_one_partition(root: Path, topics: list[Topic], chance: Random) -> None:
    models = [model for topic in topics for model in topic.partitions.values()]
    if not models:
        return
    model = chance.choice(models)
    before = [m.log_start for m in models]
    if chance.random() < 0.1:
        model.log_start = chance.randint(model.start, model.end)
    else:
        changes = [model.append] * 4 + [model.roll, model.retain, model.truncate, model.start_later]
        chance.choice(changes)()
    if before != [m.log_start for m in models]:
        write_log_starts(root, models)


def write_log_starts(root: Path, models: list[Model]) -> None:
    lines = [f"{m.folder.name.replace('-', ' ')} {m.log_start}\n" for m in models]
    (root / "new").write_text(f"0\n{len(lines)}\n{''.join(lines)}")
    (root / "new").rename(root / "log-start-offset-checkpoint")


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(n, marks=pytest.mark.full) for n in range(4, 100))])
def test_incremental_responses_contain_what_full_responses_contain(
    started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("kafkafmt.server.growing_partition.CHECK_INTERVAL", 0.0)
    monkeypatch.setattr("kafkafmt.server.growing_partition.FULL_CHECK_INTERVAL", 0.0)
    monkeypatch.setattr("kafkafmt.server.catalog.RESCAN", 0.0)
    monkeypatch.setattr("kafkafmt.server.log_starts.CHECK_SECONDS", 0.0)
    chance = Random(seed)
    topics = [Topic(tmp_path, name, chance) for name in ("a", "b")]
    server = started(tmp_path, limits=ServerLimits(max_sessions=MOST_SESSIONS))
    with Client(server.port) as client:
        driver = Driver(client, topics, chance)
        for _ in range(STEPS):
            for _ in range(chance.randint(0, 3)):
                change_one_partition(tmp_path, topics, chance)
            if chance.random() < 0.1:
                topic = chance.choice(topics)
                change = chance.choice([topic.replace, topic.delete if topic.partitions else topic.create, topic.grow])
                kept = [t for t in topics if t is not topic or change == topic.grow]
                write_log_starts(tmp_path, [model for t in kept for model in t.partitions.values()])
                change()
                client.ask(protocol.MetadataRequest(topics=None), 12)
            action = chance.choice([driver.open] + [driver.proceed] * 5 + [driver.use_ended_session])
            action()
        assert driver.checked > STEPS // 2
