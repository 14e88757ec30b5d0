"""Check that hostile frames raise only kafkafmt's errors, equally on both cores, without much memory."""

from __future__ import annotations

import random
import tracemalloc
from types import ModuleType
from typing import Any

import pytest
from api_lookup import api_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_messages import random_message
from wire_golden import VERSIONS, frames

from kafkafmt import protocol
from kafkafmt.errors import KafkaFormatError
from kafkafmt.messages import layout_of
from kafkafmt.protocol import apis
from kafkafmt.protocol.message_classes import Kind

KINDS: tuple[Kind, ...] = ("request", "response")
MESSAGES = [
    (protocol.message_class(key, kind), version)
    for key in apis.keys().values()
    for kind in KINDS
    for version in range(api_of(key).versions.last + 1)
]


def outcome(form: Any, data: bytes) -> tuple[Any, ...]:
    """Return a message and the position after it, or the type and position of an error."""
    try:
        result: tuple[Any, ...] = form.read(data)
        return result
    except KafkaFormatError as error:
        return type(error), error.position, 0 <= error.position <= len(data)


FILLS = [
    bytes(24),
    b"\xff" * 24,
    b"\x7f" * 24,
    b"\x80" * 24,
    b"\x7f\xff\xff\xff" * 6,
    b"\0\x7f\xff\xff\xff" * 5,
    b"\1\xff\xff\xff\xff\x0f" * 4,
]


@pytest.mark.parametrize("fill", FILLS, ids=bytes.hex)
def test_hostile_lengths_are_handled_at_every_position(native: ModuleType, pure: ModuleType, fill: bytes) -> None:
    """Every version of every message is tested."""
    for message, version in MESSAGES:
        ours, other = layout_of(message, version, native), layout_of(message, version, pure)
        for zeros in (0, 2, 4, 7):
            data = bytes(zeros) + fill
            found = outcome(ours, data)
            assert found == outcome(other, data), (message, version, zeros)
            assert found[-1] is True or found[1] <= len(data)


def test_hostile_lengths_allocate_no_memory(core: ModuleType) -> None:
    forms = [layout_of(message, version, core) for message, version in MESSAGES]
    for fill in FILLS:
        outcome(forms[0], fill)
    tracemalloc.start()
    for form in forms:
        for fill in FILLS:
            for zeros in (0, 2, 4, 7):
                outcome(form, bytes(zeros) + fill)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000


@pytest.mark.parametrize("version", VERSIONS)
def test_cores_agree_on_mutated_frames(native: ModuleType, pure: ModuleType, version: str) -> None:
    chance = random.Random(version)
    for golden in frames(version):
        entry = golden.entry
        message = protocol.message_class(entry["api_key"], entry["direction"])
        forms = [layout_of(message, entry["api_version"], core) for core in (native, pure)]
        at = 4 + (8 if entry["direction"] == "request" else 4)
        body = bytearray(golden.frame[at:])
        for _ in range(15):
            mutated = bytearray(body)
            for _ in range(chance.randrange(1, 4)):
                where = chance.randrange(len(mutated)) if len(mutated) < 200 else chance.randrange(200)
                mutated[where] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            native_outcome, pure_outcome = (outcome(form, bytes(mutated)) for form in forms)
            assert native_outcome == pure_outcome


def test_cores_agree_on_truncated_and_mutated_messages(native: ModuleType, pure: ModuleType) -> None:
    """Random messages of each class are written, truncated or changed, and read again."""
    chance = random.Random(11)
    for message, version in MESSAGES:
        forms = [layout_of(message, version, core) for core in (native, pure)]
        made = random_message(chance, message, version)
        data = b"".join(native.write_messages([forms[0]], [made]))
        assert data == b"".join(pure.write_messages([forms[1]], [made]))
        assert forms[0].read(data) == forms[1].read(data) == (made, len(data))
        for _ in range(4):
            cut = data[: chance.randrange(len(data) + 1)]
            assert outcome(forms[0], cut) == outcome(forms[1], cut)
            mutated = bytearray(data)
            if mutated:
                mutated[chance.randrange(len(mutated))] = chance.choice((0, 0x7F, 0x80, 0xFF))
            assert outcome(forms[0], bytes(mutated)) == outcome(forms[1], bytes(mutated))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(MESSAGES), st.integers(0, 2**32))
def test_random_messages_are_written_and_read_back(
    native: ModuleType, pure: ModuleType, which: tuple[Any, int], seed: int
) -> None:
    message, version = which
    made = random_message(random.Random(seed), message, version)
    forms = [layout_of(message, version, core) for core in (native, pure)]
    wires = [b"".join(core.write_messages([form], [made])) for core, form in zip((native, pure), forms, strict=True)]
    assert wires[0] == wires[1]
    assert forms[0].read(wires[0]) == forms[1].read(wires[1]) == (made, len(wires[0]))


def test_memory_of_a_frame_with_small_structures_is_bounded(core: ModuleType) -> None:
    """Each struct has two bytes in the frame. In memory, it needs an object and a list item."""
    n = 100_000
    data = bytes([n + 1 & 0x7F | 0x80, n + 1 >> 7 & 0x7F | 0x80, n + 1 >> 14]) + b"\1\0" * n + bytes(4) + b"\xff\0"
    form = layout_of(protocol.DescribeTopicPartitionsRequest, 0, core)
    tracemalloc.start()
    message, end = form.read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(message.topics), end) == (n, len(data))
    assert peak < 50 * len(data)


@pytest.mark.full
def test_cores_agree_on_randomly_changed_messages(native: ModuleType, pure: ModuleType) -> None:
    """Bytes are overwritten, inserted or removed. Both cores write a readable message, or both reject it."""
    chance = random.Random(5)
    for _ in range(20_000):
        message, version = chance.choice(MESSAGES)
        forms = [layout_of(message, version, core) for core in (native, pure)]
        data = b"".join(native.write_messages([forms[0]], [random_message(chance, message, version)]))
        for _ in range(10):
            changed = bytearray(data)
            for _ in range(chance.randrange(1, 5)):
                at = chance.randrange(len(changed) + 1)
                changed[at : at + chance.randrange(4)] = chance.randbytes(chance.randrange(4))
            found = outcome(forms[0], bytes(changed))
            assert repr(found) == repr(outcome(forms[1], bytes(changed)))
            if found[-1] is not True:
                rewritten = [
                    rejected_or_written(core, form, found[0]) for core, form in zip((native, pure), forms, strict=True)
                ]
                assert rewritten[0] == rewritten[1]


def rejected_or_written(core: ModuleType, form: Any, message: Any) -> Any:
    try:
        return b"".join(core.write_messages([form], [message]))
    except ValueError:
        return ValueError
