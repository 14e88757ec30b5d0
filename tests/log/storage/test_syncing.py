"""Test that one pass makes a whole directory durable, and that salvage moves nothing before this pass."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from building import mutate, simple_batch

import kafkafmt
from kafkafmt.log.repairing import salvage_output
from kafkafmt.log.storage import syncing
from kafkafmt.log.storage.syncing import file_system_type, sync_file_system, sync_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name in ("t-0/1.log", "t-0/1.index", "t-1/1.log", "meta.properties"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    return root


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the paths of descriptors that are synced, with "whole" in place of a whole file system."""
    paths: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: paths.append(os.readlink(f"/proc/self/fd/{handle}")))
    monkeypatch.setattr(syncing, "sync_file_system", lambda _: paths.append("whole"))
    return paths


@pytest.mark.parametrize("kind", ["ext4", "xfs", "tmpfs"])
def test_tree_on_a_local_file_system_is_synced_with_one_call(
    kind: str, tree: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "file_system_type", lambda _: kind)
    monkeypatch.setattr(syncing, "_linux_version", lambda: (5, 8))
    sync_tree(tree, 0)
    assert synced == ["whole"]


@pytest.mark.parametrize(("kind", "version"), [("nfs4", (6, 1)), ("fuse", (6, 1)), (None, (6, 1)), ("ext4", (5, 7))])
def test_each_file_is_synced_if_one_call_is_not_sufficient(
    kind: str | None, version: tuple[int, int], tree: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "file_system_type", lambda _: kind)
    monkeypatch.setattr(syncing, "_linux_version", lambda: version)
    sync_tree(tree, 0)
    assert sorted(synced) == sorted(map(str, [tree, *tree.rglob("*")]))


def test_failed_sync_of_a_file_system_raises_the_error_of_the_system() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        sync_file_system(-1)


def test_file_system_type_is_that_of_the_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = os.stat(tmp_path).st_dev
    mounts = tmp_path / "mountinfo"
    own = f"{os.major(device)}:{os.minor(device)}"
    other = "36 35 98:0 /a /b rw shared:1 - nfs server:/a rw\n"
    mounts.write_text(f"{other}40 35 {own} / / rw,noatime master:1 shared:2 - ext4 /dev/sda rw\n")
    monkeypatch.setattr(syncing, "MOUNTS", mounts)
    assert file_system_type(tmp_path) == "ext4"
    mounts.write_text(other)
    assert file_system_type(tmp_path) is None


def test_salvage_syncs_the_whole_copy_before_it_moves_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for partition in (0, 1):
        folder = tmp_path / "in" / f"t-{partition}"
        folder.mkdir(parents=True)
        parts = [simple_batch([b"v"], i) for i in range(6)]
        parts[3] = mutate(parts[3], 66, b"\xff")
        (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    steps: list[str] = []
    rename = os.rename

    def moved(source: Path, target: Path) -> None:
        steps.append(target.name)
        rename(source, target)

    def tree_synced(root: Path, opened: int) -> None:
        steps.append("synced")
        assert os.path.samestat(os.fstat(opened), root.stat())
        files = {str(p.relative_to(root)) for p in root.rglob("*")}
        assert {"t-0", "t-1", f"t-0/{0:020}.log", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"} <= files

    monkeypatch.setattr(os, "rename", moved)
    monkeypatch.setattr(salvage_output, "sync_tree", tree_synced)
    kafkafmt.salvage(tmp_path / "in", tmp_path / "out")
    assert steps[0] == "synced"
    assert steps.count("synced") == 1
    assert {"t-0", "t-1", ".kafka_cleanshutdown"} <= set(steps[1:])
