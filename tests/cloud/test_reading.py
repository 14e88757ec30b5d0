"""Read logs from a real S3 server, and compare the results with those of the same local files."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path

import obstore
import pytest
from building import batch, record
from command import inside
from golden_cases import CASES
from object_server import BUCKET, Proxy, upload
from obstore.store import S3Store
from serving import Client

import kafkafmt
from kafkafmt.constants import ISOLATION_LEVELS, NO_END
from kafkafmt.log import NoLogError, PartitionLog, discover
from kafkafmt.log.reading import segments_ahead, single_pass
from kafkafmt.log.storage import remote
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.storage.object_store import ObjectStore
from kafkafmt.support.paths import UrlPath
from kafkafmt.types import Buffer

NAMES = ("transactions", "internal", "epochs")
CHOSEN = [c for c in CASES if c.name in NAMES and c.folder.parent.name.startswith("kafka-4")]
SEGMENT = f"{0:020}.log"


@pytest.fixture(scope="module")
def golden(bucket: S3Store) -> list[tuple[Path, str]]:
    """Return the local path and the URL of some golden log directories, and of a damaged copy."""
    pairs = []
    for case in CHOSEN:
        upload(bucket, case.folder / "log", f"golden/{case.name}")
        pairs.append((case.folder / "log", f"s3://{BUCKET}/golden/{case.name}"))
    return pairs


@pytest.fixture(scope="module")
def damaged(bucket: S3Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the local path and the URL of a log with damage in the middle and a truncated last batch."""
    folder: Path = tmp_path_factory.mktemp("damaged") / "t-0"
    folder.mkdir()
    batches = [batch([record(i, value=b"v" * 300) for i in range(10)], base_offset=o) for o in range(0, 1000, 10)]
    data = bytearray(b"".join(batches))
    data[len(data) // 2] ^= 1
    (folder / SEGMENT).write_bytes(data[:-7])
    upload(bucket, folder, "damaged/t-0")
    return folder.parent, f"s3://{BUCKET}/damaged"


def test_logs_in_a_bucket_are_served(golden: list[tuple[Path, str]], damaged: tuple[Path, str]) -> None:
    for folder, url in (golden[0], damaged):
        with kafkafmt.serve(url) as server, Client(server.port) as client:
            for p in kafkafmt.open(folder):
                for level, isolation in enumerate(ISOLATION_LEVELS):
                    expected = [(r.offset, r.value) for r in p.records(on_error="skip", isolation=isolation)]
                    got = client.read_all(p.topic, p.partition, level)
                    assert [(r.offset, r.value) for r in got] == expected


def test_golden_logs_are_read_as_from_disk(golden: list[tuple[Path, str]]) -> None:
    compared = 0
    for folder, url in golden:
        local, remote_log = kafkafmt.open(folder), kafkafmt.open(url)
        assert [(p.topic, p.partition) for p in remote_log] == [(p.topic, p.partition) for p in local]
        for p in local:
            found = remote_log[p.topic, p.partition]
            for isolation in ("read_uncommitted", "read_committed"):
                assert found.to_arrow(isolation=isolation).equals(p.to_arrow(isolation=isolation))
            compared += 1
    assert compared > 5


@pytest.mark.parametrize("command", ["ls", "verify", "cat --internal", "groups"])
def test_commands_print_the_same_as_for_local_files(golden: list[tuple[Path, str]], command: str) -> None:
    for folder, url in golden:
        if command == "groups" and "internal" not in url:
            continue
        local = inside(*command.split(), "--format", "json", folder)
        distant = inside(*command.split(), "--format", "json", url)
        assert (distant.returncode, distant.stdout.replace(url, str(folder))) == (local.returncode, local.stdout)
        assert distant.stderr.replace(url, str(folder)) == local.stderr


@pytest.mark.parametrize("command", ["verify", "verify --shallow", "cat --on-error skip", "cat"])
def test_damage_is_reported_as_for_local_files(damaged: tuple[Path, str], command: str) -> None:
    folder, url = damaged
    local = inside(*command.split(), "--format", "json", folder)
    distant = inside(*command.split(), "--format", "json", url)
    assert local.returncode == 1
    assert (distant.returncode, distant.stdout.replace(url, str(folder))) == (1, local.stdout)


def test_salvage_reads_a_bucket(damaged: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = damaged
    for name, source in (("local", folder), ("distant", url)):
        done = inside("salvage", source, "--output", tmp_path / name)
        assert done.returncode == 1, done.stderr
    copies = [(tmp_path / name / "t-0" / SEGMENT).read_bytes() for name in ("local", "distant")]
    assert copies[0] == copies[1]
    assert inside("verify", tmp_path / "distant").returncode == 0


def test_every_kind_of_path_is_found(bucket: S3Store) -> None:
    data = batch([record(i) for i in range(5)])
    for name in ("kinds/a/t-0", "kinds/a/u-1", "kinds/b/v-0"):
        obstore.put(bucket, f"{name}/{SEGMENT}", data)
    obstore.put(bucket, "kinds/notes.txt", b"x")

    def found(*urls: str) -> list[tuple[str, int]]:
        return [(p.topic, p.partition) for p in kafkafmt.open(*(f"s3://{BUCKET}/kinds{u}" for u in urls))]

    assert found("/a") == found("/a/") == found("//a") == [("t", 0), ("u", 1)]
    assert found("/a/t-0") == found(f"/a/t-0/{SEGMENT}") == found("/a/t-0", f"/a/t-0/{SEGMENT}") == [("t", 0)]
    assert found("/[a-m]") == found("/[ab]") == [("t", 0), ("u", 1), ("v", 0)]
    assert found("/*/t-0", "/?/v-0") == [("t", 0), ("v", 0)]
    assert kafkafmt.open(f"s3a://{BUCKET}/kinds/b")["v", 0].to_arrow().num_rows == 5
    for missing in ("/c", "/c/t-0", "/a/t-9", f"/a/t-0/{7:020}.log", "/c*", "/*/w-0"):
        with pytest.raises(FileNotFoundError, match="kinds"):
            found(missing)
    with pytest.raises(NoLogError, match=r"notes.txt: not a \.log file"):
        found("/notes.txt")
    with pytest.raises(NoLogError, match="no Kafka log found"):
        found("")


def test_listing_of_more_than_a_page_is_complete(bucket: S3Store, proxy: Proxy) -> None:
    from moto.s3.models import s3_backends

    for base in range(1005):  # requests would take most of the time, so create the objects directly
        s3_backends["123456789012"]["aws"].put_object(BUCKET, f"pages/t-0/{base:020}.log", b"")
    (directory,) = discover([f"s3://{BUCKET}/pages"]).partitions
    assert [s.base_offset for s in directory.segments] == list(range(1005))
    assert all(s.size == 0 for s in directory.segments)
    assert sum("continuation-token" in path for _, path, _ in proxy.requests) == 1


@pytest.fixture(scope="module")
def indexed(bucket: S3Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the local path and the URL of a log of one segment of 40 MB, with indexes."""
    folder: Path = tmp_path_factory.mktemp("indexed") / "log"
    with kafkafmt.LogDirectory(folder, segment_bytes=64 << 20) as directory:
        writer = directory.writer("t", 0)
        for _ in range(100):
            writer.append([(None, bytes(1000))] * 400)
    upload(bucket, folder, "indexed")
    return folder, f"s3://{BUCKET}/indexed"


def test_lookups_send_few_requests(indexed: tuple[Path, str], proxy: Proxy) -> None:
    log = kafkafmt.open(indexed[1])
    proxy.requests.clear()
    table = log["t", 0].to_arrow(start=9000, end=9010)
    assert table["offset"].to_pylist() == list(range(9000, 9010))
    assert len(proxy.requests) <= 6, proxy.requests
    proxy.requests.clear()
    assert inside("seek", indexed[1], "-t", "t", "-p", "0", "--offset", "12345").returncode == 0
    assert len(proxy.requests) <= 14, proxy.requests


def test_scan_requests_each_byte_once(indexed: tuple[Path, str], proxy: Proxy) -> None:
    size = (indexed[0] / "t-0" / SEGMENT).stat().st_size
    log = kafkafmt.open(indexed[1])["t", 0]
    proxy.requests.clear()
    assert log.to_arrow(columns=["offset"]).num_rows == 40_000
    ranges = [r.removeprefix("bytes=").split("-") for _, path, r in proxy.requests if path.endswith(".log")]
    asked = sum(int(last) + 1 - int(first) for first, last in ranges)
    assert size <= asked <= 1.01 * size
    assert len(proxy.requests) <= size // remote.REQUEST_BYTES + 3, proxy.requests


def test_index_that_is_opened_ahead_takes_one_request(bucket: S3Store, proxy: Proxy) -> None:
    content = bytes(range(256)) * 1000  # more than FIRST_BYTES, the default size of a first request
    obstore.put(bucket, "large.index", content)
    proxy.requests.clear()
    path = UrlPath(f"s3://{BUCKET}/large.index")
    remote.open_ahead(path, remote.WHOLE_BYTES)
    file, data = remote.open_file(path), bytearray(len(content))
    assert file.read_into(memoryview(data), 0) == len(content) > remote.FIRST_BYTES
    assert data == content
    assert len(proxy.requests) == file.requests == 1


def test_scan_has_several_requests_open(indexed: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The store waits until four requests are open, which would block if they came one after the other."""
    meeting, real = threading.Barrier(4, timeout=30), ObjectStore.read
    monkeypatch.setattr(remote, "REQUEST_BYTES", 1 << 20)

    def read(self: ObjectStore, path: UrlPath, start: int, end: int, version: str) -> Buffer:
        if path.suffix == ".log" and start < 36 << 20:
            meeting.wait()
        return real(self, path, start, end, version)

    monkeypatch.setattr(ObjectStore, "read", read)
    assert kafkafmt.open(indexed[1])["t", 0].to_arrow(columns=["offset"]).num_rows == 40_000


@pytest.fixture(scope="module")
def divided(bucket: S3Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the local path and the URL of a log of five segments of 1 MB, with indexes but without checkpoints."""
    folder: Path = tmp_path_factory.mktemp("divided") / "log"
    with kafkafmt.LogDirectory(folder, segment_bytes=1 << 20) as directory:
        writer = directory.writer("t", 0)
        for _ in range(100):
            writer.append([(None, bytes(1000))] * 50)
        assert len(writer.segments) == 5
    for checkpoint in folder.glob("*checkpoint"):
        checkpoint.unlink()
    upload(bucket, folder, "divided")
    return folder, f"s3://{BUCKET}/divided"


@pytest.fixture
def small_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the sizes of requests, so that a log of a few MB needs as many requests as a large one."""
    monkeypatch.setattr(remote, "REQUEST_BYTES", 64 << 10)
    monkeypatch.setattr(remote, "WHOLE_BYTES", 64 << 10)
    for module in (remote, segments_ahead):
        monkeypatch.setattr(module, "AHEAD_BYTES", 512 << 10)
    monkeypatch.setattr(single_pass, "RANGE_BYTES", 128 << 10)
    while remote._pools:  # wait for requests of earlier tests
        remote._pools.popitem()[1].shutdown()


def requested(proxy: Proxy) -> dict[int, int]:
    """Return the number of requested bytes of each segment, by base offset."""
    found: dict[int, int] = {}
    for _, path, span in proxy.requests:
        if path.endswith(".log") and span:
            first, last = span.removeprefix("bytes=").split("-")
            base = int(path[-24:-4])
            found[base] = found.get(base, 0) + int(last) + 1 - int(first)
    return found


@pytest.mark.usefixtures("small_requests")
def test_next_segment_is_requested_at_the_end_of_the_current_one(
    divided: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PartitionLog(discover([divided[1]]).partitions[0])
    first, second = log.segments[:2]
    real, asked, seen = remote.fetch_ahead, list[int](), list[tuple[int, int]]()

    def fetch_ahead(path: UrlPath, size: int) -> None:
        assert path == second.path
        asked.append(size)
        real(path, size)

    monkeypatch.setattr(remote, "fetch_ahead", fetch_ahead)
    for part in log.parts(0, NO_END, None):
        if part.plan.segment != first:
            break
        seen.append((first.size - part.run.end, len(asked)))
    assert {calls for left, calls in seen if left >= remote.AHEAD_BYTES} == {0}
    assert seen[-1] == (0, len(asked) - 1)
    assert len(asked) >= 4
    assert asked == sorted(asked)
    assert asked[-1] == remote.AHEAD_BYTES


@pytest.mark.usefixtures("small_requests")
def test_scan_of_several_segments_requests_each_byte_once(divided: tuple[Path, str], proxy: Proxy) -> None:
    proxy.requests.clear()
    assert kafkafmt.open(divided[1])["t", 0].to_arrow(columns=["offset"]).num_rows == 5_000
    sizes = {int(p.stem): p.stat().st_size for p in (divided[0] / "t-0").glob("*.log")}
    assert requested(proxy) == sizes
    assert not [path for _, path, _ in proxy.requests if path.endswith("checkpoint")]


@pytest.mark.usefixtures("small_requests")
def test_end_offset_limits_the_requests_of_the_last_segment(divided: tuple[Path, str], proxy: Proxy) -> None:
    bases = sorted(int(p.stem) for p in (divided[0] / "t-0").glob("*.log"))
    proxy.requests.clear()
    table = kafkafmt.open(divided[1])["t", 0].to_arrow(end=bases[1] + 1)
    assert table.num_rows == bases[1] + 1
    assert requested(proxy)[bases[1]] < 512 << 10  # half of the segment
    assert not requested(proxy).keys() & set(bases[2:])


def test_failing_requests_are_repeated(damaged: tuple[Path, str], proxy: Proxy) -> None:
    folder, url = damaged
    expected = kafkafmt.open(folder)["t", 0].to_arrow(on_error="skip")
    proxy.failing = 0.2
    for _ in range(3):
        assert kafkafmt.open(url)["t", 0].to_arrow(on_error="skip").equals(expected)
    assert len(proxy.requests) > 12


def test_object_that_is_replaced_while_it_is_read_is_an_error(bucket: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "WHOLE_BYTES", 0)
    obstore.put(bucket, f"replaced/t-0/{SEGMENT}", bytes(2 << 20))
    url = f"s3://{BUCKET}/replaced/t-0/{SEGMENT}"
    with FileView(UrlPath(url)) as view:
        obstore.put(bucket, f"replaced/t-0/{SEGMENT}", b"x" * (2 << 20))
        with pytest.raises(OSError, match="was replaced while it was read"):
            view.read(1 << 20, 100)


def test_segments_of_a_url_pickle_with_their_sizes(damaged: tuple[Path, str], proxy: Proxy) -> None:
    folder, url = damaged
    (directory,) = pickle.loads(pickle.dumps(discover([url]).partitions))
    proxy.requests.clear()
    (segment,) = directory.segments
    assert str(segment.path) == f"{url}/t-0/{SEGMENT}"
    assert segment.size == (folder / "t-0" / SEGMENT).stat().st_size
    assert not proxy.requests


def test_what_needs_local_files_is_refused(damaged: tuple[Path, str], tmp_path: Path) -> None:
    _, url = damaged
    done = inside("cat", "-f", url)
    assert (done.returncode, done.stdout) == (2, "")
    assert "only local files can be followed" in done.stderr
    with pytest.raises(ValueError, match="only local files can be followed"):
        kafkafmt.open(url)["t", 0].follow()
    assert inside("salvage", folder := damaged[0], "--output", url).returncode == 2, folder


def test_requests_of_a_command_are_json(damaged: tuple[Path, str]) -> None:
    (line,) = inside("seek", damaged[1], "-t", "t", "-p", "0", "--offset", "5", "--format", "json").stdout.splitlines()
    assert json.loads(line)["segment"] == SEGMENT
