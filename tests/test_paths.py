"""Check which paths with a scheme each entry point accepts: inputs can be URLs, and outputs are local."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from building import batch, record
from command import inside
from fsspec.implementations.local import LocalFileSystem

import kafkafmt
from kafkafmt.log import discover
from kafkafmt.support.paths import UrlPath, input_path, local_path, without_secrets

REJECTED = [
    "s3://bucket/x",
    "S3A://bucket/x",
    "s3:/bucket/x",
    "s3:bucket/x",
    "hdfs://nn:8020/x",
    "gs://bucket",
    "abfss://c@account.dfs.core.windows.net/x",
    "dbfs:/mnt/x",
    "https://host/x",
    "jdbc:mysql://host/x",
    "my_scheme://x",
    "://x",
    "C:\\kafka\\logs",
    "c:/kafka/logs",
    "C:\\x",
    "file://host/x",
    "file:relative",
    "file:",
    "file://",
    "file:///",
    "file:///a%00b",
]
LOCAL = [
    "/var/x",
    "x",
    ".",
    "..",
    "./s3:/x",
    "../s3:/x",
    "/tmp/s3://x",
    "a:b",
    "backup-2026-01-01T12:00/t-0",
    "t-0/s3:/x",
    "~x",
    "-",
]


@pytest.mark.parametrize("path", REJECTED)
def test_path_with_a_scheme_is_rejected_in_one_line(path: str) -> None:
    with pytest.raises(ValueError, match="local") as caught:
        local_path(path)
    assert str(caught.value).startswith(path.partition("\0")[0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", LOCAL)
def test_local_path_means_the_same_file(path: str) -> None:
    got = local_path(path)
    assert os.path.abspath(got) == os.path.abspath(path)
    assert local_path(Path(got)) == str(Path(got))  # also if pathlib drops the "./"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("FILE:///a/b", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("file:////a/b", "/a/b"),
        ("file:///a%20b/%C3%A4", "/a b/ä"),
        ("file:///a%FFb", "/a\udcffb"),
        ("file:///a?b#c;d", "/a?b#c;d"),
        ("file:///100%", "/100%"),
    ],
)
def test_file_url_is_percent_decoded(url: str, path: str) -> None:
    assert local_path(url) == path


def test_file_url_with_a_percent_sign_is_read_as_in_spark(tmp_path: Path) -> None:
    (tmp_path / "a%20b").mkdir()
    assert local_path(f"file://{tmp_path}/a%20b") == f"{tmp_path}/a%20b"
    assert local_path(f"file://{tmp_path}/a%2520b") == f"{tmp_path}/a%20b"
    (tmp_path / "a b").mkdir()
    assert local_path(f"file://{tmp_path}/a%20b") == f"{tmp_path}/a b"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a log directory in the working directory. Its name contains a space."""
    folder = tmp_path / "a log" / "t-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(batch([record(i) for i in range(5)]))
    monkeypatch.chdir(tmp_path)
    return folder.parent


def nothing_made(folder: Path) -> bool:
    return sorted(p.name for p in folder.iterdir()) == ["a log"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("dbfs:/x", "two slashes after its scheme, as in dbfs://NAME/PATH"),
        ("s3:bucket/x", "two slashes"),
        ("C:\\x", "drive letter"),
        ("file://host/x", "only local files"),
        ("s3://", "names no host or bucket; write s3://NAME/PATH"),
        ("s3:///x", "names no host or bucket"),
        ("s3://b/../x", "must not contain '..'"),
        ("nothing://x/y", "Protocol not known: nothing; the known schemes are s3, gs, az"),
        ("zip://x", "the URL names no archive; write zip://DIRECTORY::URL"),
        ("tar://", "the URL names no archive; write tar://DIRECTORY::URL"),
        ("dbfs://x/y", "set FSSPEC_DBFS_INSTANCE and FSSPEC_DBFS_TOKEN in the environment"),
        ("my_scheme://x", "only local files"),
    ],
)
def test_library_rejects_a_wrong_url(log: Path, tmp_path: Path, path: str, message: str) -> None:
    for call in (kafkafmt.open, lambda p: discover([p]), lambda p: kafkafmt.open([log, p]), kafkafmt.verify):
        with pytest.raises(ValueError, match=message) as caught:
            call(path)
        assert "\n" not in str(caught.value)
    done = inside("ls", path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert message in done.stderr
    with pytest.raises(ValueError, match="local"):
        kafkafmt.LogDirectory(path)
    assert nothing_made(tmp_path)


def test_error_of_a_file_system_names_the_url() -> None:
    url = "ftp://127.0.0.1:1/logs"  # nothing listens on this port
    with pytest.raises(ConnectionRefusedError) as caught:
        kafkafmt.open(url)
    assert caught.value.filename == url


def test_other_errors_of_a_file_system_are_not_reported_as_missing_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(url: str, **options: bool) -> None:
        raise TypeError("'int' object is not iterable")

    monkeypatch.setattr("fsspec.core.url_to_fs", fail)
    with pytest.raises(OSError, match="'int' object is not iterable") as caught:
        kafkafmt.open("ftp://host/logs")
    assert caught.value.filename == "ftp://host/logs"


def test_missing_package_is_reported_with_the_command_that_installs_it(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("obstore", "obstore.store", "fsspec"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "kafkafmt.log.storage.object_store", raising=False)
    for url, package in (("s3://b/x", "obstore"), ("abfss://c@a/x", "obstore"), ("hdfs://n/x", "fsspec")):
        with pytest.raises(ValueError, match=f"need {package}; pip install .*'{package}>="):
            kafkafmt.open(url)
        done = inside("verify", url)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert f"need {package}; pip install" in done.stderr


def test_urls_have_the_parts_of_paths() -> None:
    url = UrlPath("S3://bucket//a/./b-0/00.log/")
    assert str(url) == "s3://bucket/a/b-0/00.log"
    assert (url.scheme, url.name, url.suffix, str(url.parent)) == ("s3", "00.log", ".log", "s3://bucket/a/b-0")
    assert str(url.with_suffix(".index")) == "s3://bucket/a/b-0/00.index"
    assert url.with_name("x") == url.parent / "x" == UrlPath("s3://bucket/a/b-0/x")
    assert pickle.loads(pickle.dumps(url)) == url
    root = UrlPath("s3://bucket")
    assert (str(root), root.name, root.parent, str(root / "a")) == ("s3://bucket", "bucket", root, "s3://bucket/a")
    packed = UrlPath("zip://a/b.log::s3://bucket/x.zip")
    assert str(packed.parent / "c") == "zip://a/c::s3://bucket/x.zip"
    assert str(UrlPath("memory://a/b").parent.parent / "c") == "memory://c"
    with pytest.raises(ValueError, match="two slashes"):
        input_path(Path("s3://bucket/x"))  # pathlib drops a slash


def test_wildcards_in_local_paths_are_expanded(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log / "t-0", tmp_path / "b log" / "u-0")
    shutil.copytree(log / "t-0", tmp_path / "b [log]" / "v-0")
    assert [p.topic for p in kafkafmt.open("[ab] lo?")] == ["t", "u"]
    assert [p.topic for p in kafkafmt.open(tmp_path / "*" / "u-*")] == ["u"]
    assert [p.topic for p in kafkafmt.open("b [log]")] == ["v"]
    assert len(inside("cat", "* log/[t]-0").stdout.splitlines()) == 5
    with pytest.raises(FileNotFoundError, match="nothing matches the pattern"):
        kafkafmt.open("c*")
    assert inside("ls", "c*").returncode == 3


def test_library_accepts_file_urls(log: Path, tmp_path: Path) -> None:
    assert len(list(kafkafmt.open(log.as_uri())["t", 0])) == 5
    assert [str(p.log.directory.path) for p in kafkafmt.open([log.as_uri(), str(log)])] == [str(log / "t-0")]
    with kafkafmt.LogDirectory((tmp_path / "new log").as_uri()) as made:
        assert made.path == tmp_path / "new log"


COMMANDS: list[list[Any]] = [
    ["salvage", "a log", "--output", "{}"],
    ["dump", "--files", "{}"],
    ["dump", "--files", "a log,{}"],
    ["decode", "--requests", "{}"],
    ["decode", "--responses", "{}"],
]


@pytest.mark.parametrize("path", ["s3://bucket/x", "hdfs:/x", "C:\\x", "file://host/x"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_rejects_a_url_where_only_local_files_can_be_used(
    log: Path, tmp_path: Path, command: list[str], path: str
) -> None:
    done = inside(*(word.format(path) for word in command))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f"{path}: only local files can be used" in line
    assert nothing_made(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        ["ls", "{}"],
        ["cat", "{}"],
        ["verify", "{}"],
        ["seek", "{}", "-t", "t", "-p", "0", "--offset", "1"],
        ["dump", "--files", "{}"],
        ["salvage", "{}", "--output", "{}/../new%20copy"],
    ],
    ids=" ".join,
)
def test_command_accepts_file_urls(log: Path, tmp_path: Path, command: list[str]) -> None:
    done = inside(*(word.format(log.as_uri()) for word in command))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new copy").exists() == ("salvage" in command)


def test_command_reads_a_directory_named_like_a_scheme(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log, tmp_path / "s3:" / "bucket")
    for path in ("./s3:/bucket", tmp_path / "s3:" / "bucket"):
        assert len(inside("cat", path).stdout.splitlines()) == 5
        assert len(list(kafkafmt.open(path)["t", 0])) == 5
    assert inside("cat", "s3:/bucket").returncode == 2
    assert inside("salvage", "a log", "--output", "./gs:/x").returncode == 0
    assert (tmp_path / "gs:" / "x" / "t-0").is_dir()


OUTPUTS: dict[str, Callable[[Path, Any], Any]] = {
    "salvage": lambda log, path: kafkafmt.salvage(log, path),
    "rewrite": lambda log, path: kafkafmt.rewrite(log, path),
    "make": lambda log, path: kafkafmt.make(pa.table({"value": ["v"]}), path, topic="t"),
    "export": lambda log, path: kafkafmt.export(log, path, engine="local"),
    "LogDirectory": lambda log, path: kafkafmt.LogDirectory(path),
    "restore": lambda log, path: kafkafmt.restore(log, into=path),
    "plot": lambda log, path: kafkafmt.stats(log).plot(path),
}


@pytest.mark.parametrize("path", ["dbfs:/x.svg", "C:\\x.svg", "file://host/x.svg", "file:x.svg", Path("s3://b/x.svg")])
@pytest.mark.parametrize("call", OUTPUTS.values(), ids=OUTPUTS)
def test_library_rejects_the_url_of_an_output(
    log: Path, tmp_path: Path, call: Callable[[Path, Any], Any], path: str | Path
) -> None:
    with pytest.raises(ValueError, match=r"local|two slashes") as caught:
        call(log, path)
    assert "\n" not in str(caught.value)
    assert nothing_made(tmp_path)


@pytest.mark.parametrize("call", OUTPUTS.values(), ids=OUTPUTS)
def test_library_rejects_an_empty_output_path(log: Path, tmp_path: Path, call: Callable[[Path, Any], Any]) -> None:
    with pytest.raises(FileNotFoundError):
        call(log, "")
    assert nothing_made(tmp_path)


def test_library_writes_to_file_urls(log: Path, tmp_path: Path) -> None:
    for name, call in OUTPUTS.items():
        if name not in ("LogDirectory", "restore"):
            call(log, f"{tmp_path.as_uri()}/new%20{name}.svg")
            assert (tmp_path / f"new {name}.svg").exists()
    assert not (tmp_path / "file:").exists()


def test_make_reads_file_urls_and_rejects_other_urls(log: Path, tmp_path: Path) -> None:
    (tmp_path / "a b.json").write_text('{"value": "v"}\n')
    assert kafkafmt.make(f"{tmp_path.as_uri()}/a%20b.json", "made", topic="t").partitions[0].records == 1
    for path in ("s3://bucket/rows.json", "s3://bucket/rows", "C:\\rows.csv"):
        with pytest.raises(ValueError, match="only local files can be used"):
            kafkafmt.make(path, "other", topic="t")
        done = inside("make", "--from", path, "-t", "t", "-O", "other")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert not (tmp_path / "other").exists()


def test_serve_rejects_the_url_of_a_file(log: Path) -> None:
    url = "s3://bucket/x"
    files: list[dict[str, Any]] = [{"users": url}, {"groups_file": url}, {"tls_cert": url}, {"tls_key": url}]
    for options in files:
        with pytest.raises(ValueError, match="only local files can be used"):
            kafkafmt.serve(log, **options)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:PW@h/x: not found", "http://(hidden)@h/x: not found"),
        ("sftp://user:p@PW@h:22/x", "sftp://(hidden)@h:22/x"),
        ("https://PW@h/x", "https://(hidden)@h/x"),
        ("'ftp://u:PW@h/x'", "'ftp://(hidden)@h/x'"),
        ("zip://x::http://u:PW@h/a.zip?token=PW&x=1", "zip://x::http://(hidden)@h/a.zip?token=(hidden)&x=1"),
        ("zip://x::http://h/a.zip?sig=PW", "zip://x::http://h/a.zip?sig=(hidden)"),
        ("az://c/x?sv=1&sig=PW%2F/PW==&sp=r", "az://c/x?sv=1&sig=(hidden)&sp=r"),
        (
            "http://h/x?X-Amz-Credential=PW&X-Amz-Signature=PW: bad",
            "http://h/x?X-Amz-Credential=(hidden)&X-Amz-Signature=(hidden): bad",
        ),
        ("http://h/x?access_token=PW, then http://u:PW@i", "http://h/x?access_token=(hidden), then http://(hidden)@i"),
        ("s3:user:PW@bucket/x", "s3:(hidden)@bucket/x"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
        ("abfss://user:PW@account/x", "abfss://(hidden)@account/x"),
        ("s3://bucket/day=1/topic-0", "s3://bucket/day=1/topic-0"),
        ("/data/a@b=c: user@example.com, sig=1", "/data/a@b=c: user@example.com, sig=1"),
    ],
)
def test_secrets_in_urls_are_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert without_secrets(shown) == shown


@pytest.mark.parametrize("url", ["s3://u:PW@b/x", "http://h/x?sig=PW", "zip://x::http://u:PW@h/a.zip", "s3://u:PW@b"])
def test_text_of_a_url_contains_no_secret(url: str) -> None:
    path = UrlPath(url)
    for place in (path, path / "orders-0", path.parent, path.with_name("y")):
        assert "PW" not in f"{place} {place!r} {place.name}"
        assert pickle.loads(pickle.dumps(place)) == place
        assert "PW" in place.url or "?" in url
    assert path.url == url
    assert path != UrlPath(url.replace("PW", "other"))


@pytest.mark.parametrize("url", ["s3://u:PW@b/../y", "s3:u:PW@b", "file://u:PW@h/x", "zip://../x::http://u:PW@h/a.zip"])
def test_errors_about_wrong_urls_contain_no_secret(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        input_path(url)
    assert "PW" not in str(caught.value)


class OtherFiles(LocalFileSystem):  # type: ignore[misc]
    """A file system whose URLs contain a user and a password."""

    protocol = "otherfiles"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        text = str(path)
        if text.startswith("otherfiles://"):
            text = "/" + text.removeprefix("otherfiles://").partition("/")[2]
        return LocalFileSystem._strip_protocol(text)


def test_reports_and_errors_contain_no_secrets_of_urls(tmp_path: Path) -> None:
    fsspec.register_implementation("otherfiles", OtherFiles, clobber=True)
    log = tmp_path / "log"
    (log / "orders-0").mkdir(parents=True)
    (log / "orders-0" / f"{0:020}.log").write_bytes(batch([record(value=b"v")]) + b"damaged")
    url = f"otherfiles://user:SECRET@host{log}"
    opened = kafkafmt.open(url)
    results: list[Any] = [
        kafkafmt.verify(url),
        kafkafmt.salvage(url, output=tmp_path / "salvaged"),
        kafkafmt.export(url, output=tmp_path / "exported", engine="local"),
        kafkafmt.stats(url),
        kafkafmt.diff(url, log),
    ]
    shown = [json.dumps(result.to_dict()) for result in results]
    shown += map(repr, (*results, opened, opened["orders"], opened["orders", 0]))
    shown.append((tmp_path / "exported" / "report.json").read_text())
    for wrong in (f"{url}/missing", f"{url}-missing", [url, str(log)]):
        with pytest.raises((OSError, ValueError)) as caught:
            kafkafmt.open(wrong)
        shown.append(str(caught.value))
    assert any("(hidden)@host" in text for text in shown)
    assert not [text for text in shown if "SECRET" in text]
