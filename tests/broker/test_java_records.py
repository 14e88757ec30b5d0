"""What we build beside what Kafka's Java builds: the same bytes where nothing is compressed, read alike where something is."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import java_records
import java_tools

from kafkafmt import build_batch

pytestmark = [pytest.mark.broker, pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there")]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in (CODECS if magic == 2 else CODECS[:4])]


def cases(seed=7, each=12):
    """Options and records, for every format and codec."""
    rng = random.Random(seed)

    def some():
        return rng.choice([None, b"", b"k", rng.randbytes(rng.randrange(300)), b"words and words " * rng.randrange(9)])

    for magic, codec in FORMATS:
        for _ in range(each):
            options = {"magic": magic, "codec": codec}
            if magic and rng.random() < 0.3:
                options["log_append_time"] = rng.randrange(10**13)
            if magic == 2:
                options["leader_epoch"] = rng.randrange(-1, 5)
                if rng.random() < 0.5:
                    options |= {"producer_id": rng.randrange(2**60), "producer_epoch": rng.randrange(99)}
                    options |= {"base_sequence": rng.randrange(2**31), "transactional": rng.random() < 0.5}
                if rng.random() < 0.3:
                    options["delete_horizon"] = rng.randrange(10**13)
            offset = rng.choice([0, 7, 2**40])
            options["base_offset"] = offset
            records = []
            for _ in range(rng.randrange(1, 9)):
                headers = [("h" * rng.randrange(3), some()) for _ in range(rng.randrange(3))] if magic == 2 else []
                time = rng.choice([-1, 0, 10**12 + rng.randrange(10**6), 2**63 - 1]) if magic else -1
                records.append((some(), some(), time, headers, offset))
                offset += rng.choice([1, 1, 2, 500])
            yield options, records


def seen(options, records):
    stamp, magic = options.get("log_append_time"), options["magic"]
    kind = -1 if magic == 0 else 0 if stamp is None else 1
    return [(o, t if stamp is None else stamp, kind, k, v, tuple(h)) for k, v, t, h, o in records]


def test_the_bytes_are_javas_where_nothing_is_compressed(package):
    plain = [(options, records) for options, records in cases() if options["codec"] == "none"]
    answers = java_records.ask(java_records.build(*case) for case in plain)
    for (options, records), answer in zip(plain, answers, strict=True):
        assert build_batch(records, **options).hex() == answer, (options, records)


def test_java_reads_what_we_build(package):
    every = list(cases())
    answers = java_records.ask(f"read {build_batch(records, **options).hex()}" for options, records in every)
    for (options, records), answer in zip(every, answers, strict=True):
        assert java_records.records_of(answer) == seen(options, records), options
