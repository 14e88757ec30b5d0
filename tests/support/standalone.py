"""Start a standalone Spark cluster on this machine: a master, and one worker with one core per host.

with standalone_cluster(folder, ["127.0.0.1", "127.0.0.2"]) as master: …      # spark://127.0.0.1:…
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

SECONDS = 90
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
}
"""Settings with which Spark soon starts a second attempt of a slow task, on another host."""


@contextlib.contextmanager
def standalone_cluster(folder: Path, hosts: list[str], wrappers: Sequence[list[str]] = ()) -> Iterator[str]:
    """Start a cluster, and yield the URL of the master.

    `wrappers` contains commands for the first workers. Such a command gets the worker's command as
    its arguments, and runs it.
    """
    from kafkafmt.spark.session import prepare_environment

    prepare_environment()
    folder.mkdir()
    port, page = _free_port(), _free_port()
    master = f"spark://127.0.0.1:{port}"
    running = []
    try:
        running.append(
            _start(folder, [], "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page))
        )
        for i, host in enumerate(hosts):
            work = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / f"work-{i}")]
            wrapper = wrappers[i] if i < len(wrappers) else []
            running.append(_start(folder, wrapper, "worker.Worker", "--host", host, *work, master))
        _wait_for(f"http://127.0.0.1:{page}/json/", len(hosts), folder)
        yield master
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def without(folder: Path) -> list[str]:
    """Return a command that runs its arguments in a mount namespace in which `folder` is empty."""
    hide = f'mount --make-rprivate / && mount -t tmpfs none {folder} && exec "$@"'
    return ["unshare", "-m", "sh", "-c", hide, "sh"]


def can_unshare() -> bool:
    """Return whether this process may create mount namespaces."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


def _start(folder: Path, wrapper: list[str], name: str, *arguments: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    with open(folder / f"{name}.log", "ab") as log:
        command = [*wrapper, str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, cwd=folder)


def _wait_for(page: str, workers: int, folder: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(page, timeout=5) as answer:
                if answer.read().count(b'"ALIVE"') >= workers + 1:  # the page lists the master too
                    return
        except OSError:
            pass
        time.sleep(0.3)
    raise TimeoutError(
        "the cluster did not come up: " + "".join(log.read_text()[-1000:] for log in folder.glob("*.log"))
    )


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port
