"""Compare the batches that kafkafmt builds with those of Kafka's Java classes.

Uncompressed batches must have equal bytes. Compressed batches must contain equal records.
"""

import gzip
import random
from collections.abc import Iterator
from types import ModuleType

import building
import java_records
import java_tools
import numpy as np
import pytest
from decoding import fields
from odd_batches import batches_that_java_refuses, batches_with_odd_ends

import kafkafmt
from kafkafmt import InvalidError, KafkaFormatError, build_batch, iter_batches
from kafkafmt.records import KAFKA_ERRORS, Partitioner, build_marker, convert, iter_tables, validate_and_assign_offsets
from kafkafmt.records.java_reads import refused_by_java
from kafkafmt.records.signatures import BatchOptions, ValidatorOptions
from kafkafmt.typing import Codec

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in (CODECS if magic == 2 else CODECS[:4])]


RecordTuple = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]], int]
Case = tuple[BatchOptions, list[RecordTuple]]
Request = tuple[bytes, int, ValidatorOptions]
"""Record data, the next offset and the settings of a topic."""


def cases(seed: int = 7, each: int = 12) -> Iterator[Case]:
    """Yield options and records for each format and codec."""
    rng = random.Random(seed)

    def some() -> bytes | None:
        return rng.choice([None, b"", b"k", rng.randbytes(rng.randrange(300)), b"words and words " * rng.randrange(9)])

    for magic, codec in FORMATS:
        for _ in range(each):
            options: BatchOptions = {"magic": magic, "codec": codec}
            if magic and rng.random() < 0.3:
                options["log_append_time"] = rng.randrange(10**13)
            if magic == 2:
                options["leader_epoch"] = rng.randrange(-1, 5)
                if rng.random() < 0.5:
                    options["producer_id"], options["producer_epoch"] = rng.randrange(2**60), rng.randrange(99)
                    options["base_sequence"] = rng.randrange(2**31)
                    options["transactional"] = rng.random() < 0.5
                if rng.random() < 0.3:
                    options["delete_horizon"] = rng.randrange(10**13)
            offset = rng.choice([0, 7, 2**40])
            options["base_offset"] = offset
            records: list[RecordTuple] = []
            for _ in range(rng.randrange(1, 9)):
                headers = [("h" * rng.randrange(3), some()) for _ in range(rng.randrange(3))] if magic == 2 else []
                time = rng.choice([-1, 0, 10**12 + rng.randrange(10**6), 2**63 - 1]) if magic else -1
                records.append((some(), some(), time, headers, offset))
                offset += rng.choice([1, 1, 2, 500])
            yield options, records


def expected_records(options: BatchOptions, records: list[RecordTuple]) -> list[tuple[object, ...]]:
    stamp, magic = options.get("log_append_time"), options["magic"]
    kind = -1 if magic == 0 else 0 if stamp is None else 1
    return [(o, t if stamp is None else stamp, kind, k, v, tuple(h)) for k, v, t, h, o in records]


def test_uncompressed_batches_equal_those_of_java(package: ModuleType) -> None:
    plain = [(options, records) for options, records in cases() if options["codec"] == "none"]
    answers = java_records.ask(java_records.build(*case) for case in plain)
    for (options, records), answer in zip(plain, answers, strict=True):
        assert build_batch(records, **options).hex() == answer, (options, records)


def test_java_reads_the_records_of_built_batches(package: ModuleType) -> None:
    all_cases = list(cases())
    answers = java_records.ask(f"read {build_batch(records, **options).hex()}" for options, records in all_cases)
    for (options, records), answer in zip(all_cases, answers, strict=True):
        assert java_records.records_of(answer) == expected_records(options, records), options


def test_java_reads_the_same_odd_ends(package: ModuleType) -> None:
    batches = {**batches_with_odd_ends(), **batches_with_odd_ends(size=20_000)}
    answers = java_records.ask(f"consume {batch.hex()}" for batch, _ in batches.values())
    for (name, (_, java_reads)), answer in zip(batches.items(), answers, strict=True):
        assert answer == ("40" if java_reads else "error"), name


def test_java_refuses_the_batches_that_are_reported(package: ModuleType) -> None:
    plain = {codec: bytes(build_batch([(None, b"v" * 9000)] * 40, codec=codec)) for codec in CODECS}
    refused = batches_that_java_refuses()
    assert java_records.ask(f"consume {batch.hex()}" for batch in refused.values()) == ["error"] * len(refused)
    for name, batch in refused.items():
        (table,) = iter_tables(batch)
        assert [odd.java_reads for odd in refused_by_java(batch, table)] == [False], name
    for batch in [*plain.values(), *(batch for batch, _ in batches_with_odd_ends().values())]:
        (table,) = iter_tables(batch)
        assert refused_by_java(batch, table) == []


def inner_magic_requests() -> list[bytes]:
    """Return wrapper messages whose inner messages have the same magic, another magic, or an incomplete end."""
    found = []
    for magic in (0, 1):
        for magics in ((magic, magic), (magic, 1 - magic), (1 - magic, 1 - magic)):
            parts = [building.message(m, b"k", b"v", offset=i, timestamp=5) for i, m in enumerate(magics)]
            for inner in (b"".join(parts), parts[0] + parts[1][:-1]):
                found.append(building.message(magic, None, gzip.compress(inner), offset=1, timestamp=5, attributes=1))
    return found


def test_odd_compressed_data_is_validated_like_by_the_broker(package: ModuleType) -> None:
    settings: ValidatorOptions = {
        "compacted": False,
        "now_ms": 1_700_000_000_000,
        "before_max_ms": 2**63 - 1,
        "after_max_ms": 2**63 - 1,
        "leader_epoch": 3,
        "origin": "client",
        "timestamp_type": "CreateTime",
        "magic": 2,
    }
    batches = [batch for batch, _ in batches_with_odd_ends(base_offset=0).values()]
    batches += [*batches_that_java_refuses().values(), *inner_magic_requests()]
    requests: list[Request] = []
    for batch in batches:
        for codec in ("producer", "none", "gzip"):
            magic = min(batch[16], 2) if batch[16] < 2 else 2
            requests.append((batch, 100, {**settings, "codec": codec, "magic": magic}))
    answers = java_records.ask(question(*request) for request in requests)
    accepted = 0
    for (data, next_offset, given), answer in zip(requests, answers, strict=True):
        words = answer.split()
        try:
            ours = validate_and_assign_offsets(data, next_offset, **given)
        except KafkaFormatError:
            ours = None
        assert words[0] == ("error" if ours is None else "ok"), (given, answer)
        if ours is None:
            continue
        accepted += 1
        kafkas = kafkafmt.read_records(bytes.fromhex(words[4]))
        assert list(map(fields, kafkas)) == list(map(fields, kafkafmt.read_records(ours.records)))
    assert 20 < accepted < len(requests) - 20


def produce_requests(seed: int = 11, count: int = 1500) -> Iterator[Request]:
    """Yield valid and invalid record data of clients, with the settings of the topic."""
    rng = random.Random(seed)
    now = 1_700_000_000_000
    for _ in range(count):
        magic, codec = rng.choice(FORMATS)
        options: BatchOptions = {"magic": magic, "codec": codec, "base_offset": 0}
        if magic == 2 and rng.random() < 0.4:
            options["producer_id"], options["producer_epoch"] = 7, 1
            options["base_sequence"], options["transactional"] = rng.randrange(99), rng.random() < 0.5
        if magic and rng.random() < 0.1:
            options["log_append_time"] = now
        step = rng.choice([1, 1, 1, 2]) if magic < 2 and codec != "none" else 1
        records: list[RecordTuple] = []
        for i in range(rng.randrange(1, 6)):
            time = -1 if magic == 0 or rng.random() < 0.3 else now + rng.randrange(-2000, 2000)
            key = None if rng.random() < 0.3 else b"k%d" % i
            headers: list[tuple[str, bytes | None]] = [("h", b"x")] if magic == 2 and rng.random() < 0.2 else []
            records.append((key, rng.choice([None, b"", b"value" * 9]), time, headers, i * step))
        data = build_batch(records, **options)
        if rng.random() < 0.1:
            data += build_batch(records, **options)
        if magic < 2 and codec != "none" and rng.random() < 0.3:  # some clients send it like this
            data = bytes(8) + data[8:]
        settings: ValidatorOptions = {
            "codec": rng.choice(["producer", *CODECS]),
            "compacted": rng.random() < 0.2,
            "magic": magic if rng.random() < 0.7 else rng.randrange(3),
            "timestamp_type": rng.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
            "now_ms": now,
            "before_max_ms": rng.choice([1500, 10**15]),
            "after_max_ms": rng.choice([1500, 10**15]),
            "leader_epoch": rng.randrange(9),
            "origin": rng.choice(["client", "client", "coordinator"]),
        }
        if settings["magic"] < 2 and settings["codec"] == "zstd":
            settings["codec"] = "lz4"
        yield data, rng.choice([0, 1000, 2**40]), settings


def question(data: bytes, next_offset: int, settings: ValidatorOptions) -> str:
    names = ("codec", "compacted", "magic", "timestamp_type", "now_ms", "before_max_ms", "after_max_ms", "leader_epoch")
    words = [str(dict(settings)[name]) for name in names]
    return " ".join(["validate", data.hex(), str(next_offset), *words, settings["origin"].upper()])


EXCEPTIONS = {
    "InvalidRecordException": "INVALID_RECORD",
    "InvalidTimestampException": "INVALID_TIMESTAMP",
    "UnsupportedForMessageFormatException": "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "IllegalArgumentException": "UNKNOWN_SERVER_ERROR",
}


def test_validation_equals_that_of_the_broker(package: ModuleType) -> None:
    """LogValidator accepts and rejects the same requests, for the same reasons.

    The results must have equal bytes, or equal records if data is compressed again.
    """
    requests = list(produce_requests())
    answers = java_records.ask(question(*request) for request in requests)
    outcomes = {"in place": 0, "rebuilt": 0, "refused": 0}
    differences: list[tuple[object, ...]] = []
    for (data, next_offset, settings), answer in zip(requests, answers, strict=True):
        words = answer.split()
        several = len(next(iter_tables(data))) > 1 and (data[16] == 2 or data[17] & 7)
        if (
            settings["origin"] == "coordinator" and several
        ):  # kafkafmt accepts requests that never reach Kafka's LogValidator
            continue
        try:
            ours = validate_and_assign_offsets(data, next_offset, **settings)
        except InvalidError as error:
            outcomes["refused"] += 1
            allowed = {KAFKA_ERRORS[error.code]}
            if error.code.endswith("_in_format"):  # Kafka finds some of these errors only while it builds the batch
                allowed.add("UNKNOWN_SERVER_ERROR")
            if words[0] != "error" or EXCEPTIONS[words[1]] not in allowed:
                differences.append((settings, answer[:80], str(error)))
            elif (
                len(words) > 2
                and data[16] == 2
                and [int(w) for w in words[2:]] != [e.batch_index for e in error.records]
            ):
                differences.append((settings, answer[:80], error.records))
            continue
        records = bytes(ours.records)
        outcomes["in place" if ours.in_place else "rebuilt"] += 1
        if words[0] != "ok" or (int(words[1]), int(words[3])) != (ours.max_timestamp, ours.next_offset):
            differences.append((settings, answer[:80], ours))
        elif (words[2] == "true") == ours.in_place:
            differences.append((settings, answer[:80], ours))
        elif ours.in_place or not records[22 if records[16] == 2 else 17] & 7:
            if words[4] != records.hex():
                differences.append((settings, answer, records.hex()))
        else:
            kafkas = list(map(fields, kafkafmt.read_records(bytes.fromhex(words[4]))))
            if kafkas != list(map(fields, kafkafmt.read_records(ours.records))):
                differences.append((settings, kafkas, "records differ"))
    assert not differences, (len(differences), differences[:4])
    assert min(outcomes.values()) > 100, outcomes


def unusual_requests() -> Iterator[Request]:
    """Yield batches that a correct client never sends.

    In these batches, offset deltas do not increase, timestamps have extreme values, or the target
    format cannot represent a field.
    """
    now, far = 1_700_000_000_000, 2**63 - 1
    settings: ValidatorOptions = {
        "compacted": False,
        "now_ms": now,
        "before_max_ms": far,
        "after_max_ms": far,
        "leader_epoch": 3,
        "origin": "client",
    }
    targets: list[ValidatorOptions] = [
        {"codec": codec, "magic": magic, "timestamp_type": kind}
        for codec in ("producer", "none", "gzip", "lz4")
        for magic in (2, 1, 0)
        for kind in ("CreateTime", "LogAppendTime")
    ]
    for codec in (building.NONE, building.GZIP):
        for deltas in ([0, 1, 2], [0, 0, 0], [2, 1, 0], [0, 5, 9], [1, 2, 3], [-1, 0, 1], [0, 2, 2]):
            records = [building.record(d, 0, b"k", b"v") for d in deltas]
            data = building.batch(records, codec=codec, base_timestamp=now, max_timestamp=now, last_offset_delta=2)
            for target in targets:
                yield data, 100, settings | target
        for base, times in (
            (0, [-5, -7]), (0, [-1, -7]), (-(10**6), [0, -7]), (5, [-1, -3]), (now, [9, 9]),
            (far, [0, 0]), (far, [0, 1]), (-far - 1, [0, 0]),
        ):  # fmt: skip
            records = [building.record(i, time, b"k", b"v") for i, time in enumerate(times)]
            data = building.batch(
                records, codec=codec, base_timestamp=base, max_timestamp=base + times[0] - (base == now)
            )
            for target in targets:
                for before, after in ((10**15, 10**15), (far, far), (far, 3_600_000), (0, 0)):
                    yield data, 100, {**settings, **target, "before_max_ms": before, "after_max_ms": after}


def test_unusual_batches_are_validated_like_by_the_broker(package: ModuleType) -> None:
    requests = list(unusual_requests())
    answers = java_records.ask(question(*request) for request in requests)
    accepted = 0
    for (data, next_offset, settings), answer in zip(requests, answers, strict=True):
        words, buffer = answer.split(), bytearray(data)
        try:
            ours = validate_and_assign_offsets(buffer, next_offset, **settings)
        except KafkaFormatError:
            ours = None
        if ours is None:
            assert (words[0], bytes(buffer)) == ("error", data), (settings, answer)
            continue
        accepted += 1
        assert words[:4] == ["ok", str(ours.max_timestamp), str(not ours.in_place).lower(), str(ours.next_offset)], (
            settings
        )
        kafkas = bytes.fromhex(words[4])
        assert list(map(fields, kafkafmt.read_records(kafkas))) == list(
            map(fields, kafkafmt.read_records(ours.records))
        )
        if not next(iter_batches(kafkas)).is_compressed:
            assert kafkas == ours.records
    assert 300 < accepted < len(requests) - 300


def test_keys_have_the_same_hash_as_in_java(package: ModuleType) -> None:
    rng = random.Random(5)
    keys = [b"", *(rng.randbytes(rng.randrange(1, 40)) for _ in range(5000)), rng.randbytes(10_000)]
    (answer,) = java_records.ask(["murmur2 " + " ".join(map(java_records.encoded, keys))])
    hashes = np.array(answer.split(), np.int32)
    assert [package.murmur2(key) for key in keys] == hashes.tolist()
    assert Partitioner(12).column(keys).tolist() == ((hashes & 0x7FFFFFFF) % 12).tolist()


def test_down_conversion_equals_that_of_kafka_3_9(package: ModuleType) -> None:
    """Uncompressed batches must have equal bytes, compressed ones equal records."""
    rng = random.Random(3)
    all_cases = list(cases(seed=13, each=6))
    questions = []
    for _ in range(300):
        parts, offset = [], 0
        for options, records in rng.sample(all_cases, rng.randrange(1, 4)):
            moved = [(*record[:4], offset + i) for i, record in enumerate(records)]
            moved_options: BatchOptions = {**options, "base_offset": offset}
            parts.append(build_batch(moved, **moved_options))
            offset += len(records)
            if rng.random() < 0.3:
                parts.append(build_marker(5, 0, commit=True, base_offset=offset))
                offset += 1
        questions.append((rng.randrange(2), rng.randrange(offset), b"".join(parts)))
    answers = java_records.down_convert(questions)
    refused = []
    for (magic, first, data), answer in zip(questions, answers, strict=True):
        try:
            ours = convert(data, magic, up=False, start=first).records
        except InvalidError as error:
            refused.append((error.code, answer))
            continue
        kafkas = bytes.fromhex(answer)
        if not any(batch.is_compressed for batch in iter_batches(ours)):
            assert ours == kafkas
        properties = [
            [(b.magic, b.codec, b.timestamp_type, b.max_timestamp) for b in iter_batches(d)] for d in (ours, kafkas)
        ]
        assert properties[0] == properties[1]
        assert list(map(fields, kafkafmt.read_records(ours))) == list(map(fields, kafkafmt.read_records(kafkas)))
    assert set(refused) == {("codec_in_format", "UnsupportedCompressionTypeException")}
    assert 20 < len(refused) < 200
