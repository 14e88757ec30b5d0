"""Run an export with an injected fault in a separate process.

    scenario.py '{"paths": …, "output": …, "fault": …}'

Faults of the first attempt of a task:
- "crash": its process is killed halfway through the file.
- "error": it raises an error halfway.
- "slow": it takes so long that Spark starts a second attempt, and then writes another file.
- "kill executor": the executor, which is the JVM that started its process, is killed.
- "eio": reading the log fails with EIO.

Fault of every attempt:
- "drag": it takes half a second longer.

Faults of the driver:
- "die at planning", "die at exporting", "die at placing", "die at publishing": it kills itself with
  SIGKILL. "die at keeping" is the same as "die at placing", for an output in a bucket.
- "hang": it waits for a signal in the middle of the export.

The report is printed on stdout.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from unittest.mock import patch

from kafkafmt.exporting import ExportOptions
from kafkafmt.exporting.bucket_output import BucketOutput
from kafkafmt.exporting.bundles import Bundle
from kafkafmt.exporting.job import Export, WriteBundle
from kafkafmt.exporting.output import WrittenFile
from kafkafmt.exporting.spark_jobs import SparkEngine
from kafkafmt.exporting.staging import Staging
from kafkafmt.exporting.tasks import BundleResult, TaskSettings
from kafkafmt.log import discover
from kafkafmt.spark.session import make_session


def writer(fault: str, notes: str) -> WriteBundle:
    """Return a function that writes a bundle as an export does, and injects a fault into some tasks.

    The function is pickled by value, because executors cannot import this file.
    """

    def write(bundle: Bundle, settings: TaskSettings) -> BundleResult:
        from pyspark import TaskContext

        from kafkafmt.exporting.tasks import write_bundle

        number, context = bundle.number, TaskContext.get()
        assert context is not None
        attempt = context.attemptNumber()
        first = attempt == 0
        os.makedirs(notes, exist_ok=True)
        with open(os.path.join(notes, f"{number}-{attempt}-{os.getpid()}"), "w") as note:
            note.write(str(os.getppid()))
        if first and number % 3 == 1 and fault in ("crash", "error"):
            _, half = settings.attempts.create(PurePath(f"data/{number}-half.parquet"))
            half.write(b"PAR1 and no more")
            half.close()
            if fault == "crash":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("a fault")
        if first and number == 1 and fault == "kill executor":
            with open(
                f"/proc/{os.getppid()}/stat"
            ) as status:  # the parent is the daemon that starts the Python workers
                os.kill(int(status.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
            time.sleep(60)
        if fault == "drag":
            time.sleep(0.5)
        if first and number % 3 == 1 and fault == "eio":
            with patch.object(os, "preadv", failing_read):
                return write_bundle(bundle, settings)
        result = write_bundle(bundle, settings)
        if fault == "slow" and first and number == 1:
            time.sleep(120)
            _, late = settings.attempts.create(PurePath(f"data/{number}-late.parquet"))
            late.write(b"PAR1 too late")
            late.close()
        return result

    return write


def failing_read(handle: int, buffers: Any, position: int) -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def main(request: dict[str, Any]) -> None:
    fault, paths = request.get("fault", ""), request["paths"]
    spark = make_session(request.get("master", "local[2]"), "scenario", **request.get("conf", {}))
    found = discover(paths)
    options = ExportOptions(
        tuple(paths),
        request["output"],
        overwrite=request.get("overwrite", False),
        split_bytes=request.get("split_bytes"),
    )

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def progress(step: str, done: int, total: int) -> None:
        if fault == f"die at {step}":
            die()
        if fault == "hang" and step == "exporting":
            print("hanging", file=sys.stderr, flush=True)
            time.sleep(600)

    if fault == "die at planning":
        patch.object(Export, "_split_bytes", lambda *_: die()).start()
    place = Staging._place

    def place_once(staging: Staging, file: WrittenFile) -> None:
        place(staging, file)
        die()

    if fault == "die at placing":
        patch.object(Staging, "_place", place_once).start()
    keep = BucketOutput.keep

    def keep_and_die(output: BucketOutput, files: Iterable[WrittenFile]) -> None:
        keep(output, files)
        die()

    if fault == "die at keeping":
        patch.object(BucketOutput, "keep", keep_and_die).start()
    if fault == "die at publishing":
        patch.object(Staging, "publish", lambda *_: die()).start()
        patch.object(BucketOutput, "_put_success", lambda *_: die()).start()
    report = Export(found, found.partitions, options, lambda m: print(m, file=sys.stderr)).run(
        SparkEngine(spark), progress, writer(fault, request["notes"])
    )
    if fault == "slow":
        time.sleep(1)
    spark.stop()
    print(json.dumps(report.to_dict()))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
