"""Define `kafkafmt.export`, the Python API for exporting logs to Parquet.

pyspark and pyarrow are imported only when `export` is called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from ..constants import DEFAULT_MAX_BATCH_BYTES, READ_UNCOMMITTED, Isolation
from ..log import Damage, Discovery, PartitionDir, PartitionLog, discover
from ..log.catalog import Sources, choose_partitions, resolve
from ..log.groups import choose_from_group
from ..log.reading import Selection, Time, offset_bound
from ..support import arguments
from ..support.extras import install_line
from ..support.hints import refuse_argument
from ..values.sides import Decode, side_formats, side_of
from .errors import SparkError
from .options import (
    COLUMN_NAMES,
    DEFAULT_FILE_SIZE,
    DEFAULT_MASTER,
    DEFAULT_ZSTD_LEVEL,
    ExportOptions,
    Progress,
)
from .report import ExportReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..log.catalog import Source
    from ..registry import SchemaRegistry
    from .engine import Engine

Path = str | PathLike[str]
APP_NAME = "kafkafmt export"
NO_CONNECT = (
    "an export needs a classic Spark session, but this process uses Spark Connect; run the export on the cluster, in a process without"
    ' SPARK_REMOTE, or read with spark.read.format("kafkafmt") and write with DataFrame.write'
)


@refuse_argument("codec", "the compression of Parquet files is the argument 'compression'")
def export(
    paths: Sources,
    output: Path,
    *,
    topics: str | Iterable[str] | None = None,
    partitions: int | Iterable[int] | None = None,
    start: int | None = None,
    end: int | None = None,
    start_time: Time | None = None,
    end_time: Time | None = None,
    group: str | None = None,
    isolation: Isolation = READ_UNCOMMITTED,
    below_log_start: bool = False,
    internal: bool = False,
    on_error: Literal["quarantine", "fail"] = "quarantine",
    compression: str = "zstd",
    compression_level: int = DEFAULT_ZSTD_LEVEL,
    columns: Iterable[str] | None = None,
    decode: Decode = False,
    registry: SchemaRegistry | Source | None = None,
    schema: str | int = "union",
    framing: str = "auto",
    layout: Literal["nested", "flat"] = "nested",
    file_size: int = DEFAULT_FILE_SIZE,
    partition_by: Literal["day", "hour"] | None = None,
    join_small: bool = False,
    overwrite: bool = False,
    resume: bool = False,
    engine: Literal["spark", "local"] | None = None,
    master: str = DEFAULT_MASTER,
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    spark_conf: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    on_message: Callable[[str], None] | None = None,
) -> ExportReport:
    """Export log directories to Parquet files, with Spark or in threads of this process.

    Parameters
    ----------
    paths : str, os.PathLike, Log, Topic, Partition, or an iterable of these
        Log directories, partition directories or `.log` files. An open log, topic or partition
        is read from its paths, which are listed again.
    output : str or os.PathLike
        One of three kinds of output:

        - A local directory to create, with its parents. It is not visible until the export is
          complete.
        - A directory in a bucket, given as a URL, such as ``s3://bucket/out``. When the export is
          complete, the directory contains the file ``_SUCCESS``.
        - A single local file, if the name ends with ``.parquet``. The records are ordered by topic,
          partition and offset, and have the columns topic and partition. The report is the file
          ``FILE.parquet.report.json``. Damaged bytes are not stored.

        The name must not end with the suffix of another data format, such as ``.csv`` or ``.json``.
    topics : str or iterable of str, optional
        Glob patterns for the names of the topics to export, such as "orders*". By default, all
        topics except Kafka's internal topics are exported.
    partitions : int or iterable of int, optional
        Numbers of the partitions to export. By default, all partitions are exported.
    start, end : int, optional
        Range of offsets to export; `end` is exclusive. A negative value counts back from the end of
        each log. By default, the whole log is exported.
    start_time, end_time : int, timezone-aware datetime or str, optional
        Times to use instead of `start` and `end`. An int is in milliseconds since 1970-01-01 UTC.
        In each partition, a time stands for the offset of the first record with this timestamp or a
        later one. If there is no such record, it stands for the end of the log.
    group : str, optional
        Name of a consumer group. The export contains only topics for which the group has committed
        offsets. In each partition, the export starts at the committed offset. `paths` must contain
        ``__consumer_offsets``.
    isolation : {"read_uncommitted", "read_committed"}, default "read_uncommitted"
        "read_committed" omits aborted records and ends at the last stable offset.
    below_log_start : bool, default False
        Include records below the log start offset. A broker does not return such records.
    internal : bool, default False
        Include Kafka's internal topics, whose names start with "__". An internal topic is always
        included if a pattern in `topics` starts with "__" and matches it. It is also included if
        `paths` contains one of its partition directories.
    on_error : {"quarantine", "fail"}, default "quarantine"
        "quarantine" exports all intact records, and writes the damaged bytes of the logs to the
        directory `output`/quarantine. "fail" raises an error if any data is damaged, and creates no
        output.
    compression : {"zstd", "snappy", "lz4", "none"}, default "zstd"
        Compression codec of the Parquet files.
    compression_level : int, default 1
        Compression level for zstd, from -7 to 22. The other codecs have no level.
    columns : iterable of str, optional
        Names and order of the columns in the files. By default, the columns are those of Spark's
        Kafka source. The column ``timestampMillis``, which contains the timestamp as stored, is
        also available. In a directory, the topic and the partition are always exported, because the
        directory names contain them. With `join_small`, the files always contain the column partition.
        With `decode`, a name such as "value.id" selects a field.
    decode : bool, str, collection of str or mapping, default False
        Decode the keys, the values or both (True) by the schemas of a schema registry, or in the
        formats that a mapping has, as in `Partition.to_arrow`. The column
        ``value`` then has the type of the schemas. The column ``value_error`` has the reason if a
        value cannot be decoded, and ``value_raw`` has its bytes; the same applies to keys. Each
        topic has its own columns. A topic without schemas keeps its bytes, which `on_message`
        reports.
    registry : SchemaRegistry, str, os.PathLike or Log, optional
        The schemas to decode with, or what `schemas` reads them from. By default, they are those of
        the topic ``_schemas`` in the same log directory.
    schema : str or int, default "union"
        The schemas that decide the columns: all versions ("union"), the "latest" one, a version, or
        an id ("id:7").
    framing : {"auto", "confluent", "apicurio", "single-object", "none"}, default "auto"
        What precedes the keys and values, as in `Partition.to_arrow`.
    layout : {"nested", "flat"}, default "nested"
        The arrangement of decoded columns, as in `Partition.to_arrow`.
    file_size : int, default 268435456 (256 MiB)
        Target size of a Parquet file, in bytes. It must be at least 1 MiB. A file ends after the
        row group with which it reaches this size. The files of a small export are smaller, so that
        every core can write several files.
    partition_by : {"day", "hour"}, optional
        Write the records of each day or hour to a separate directory. "day" adds the directory
        level ``date=YYYY-MM-DD``, and "hour" adds ``date=YYYY-MM-DD/hour=HH``. The date and the
        hour are those of the record's timestamp in UTC. Readers see them as the columns date and
        hour. If a record has no timestamp, the directory name contains
        ``__HIVE_DEFAULT_PARTITION__`` instead of a date or an hour, which readers see as null.
    join_small : bool, default False
        Write several small partitions of a topic to the same file. The files are then in
        ``output/data/topic=…/``, without a directory for the partition. They contain the column
        partition. In each file, the records are sorted by partition and offset.
    overwrite : bool, default False
        Replace an existing output. The old output remains intact until the new output is complete.
        In a bucket, the ``_SUCCESS`` of the old output is deleted first, and created again if the
        export fails.
    resume : bool, default False
        Add the records that have been written since the last export to `output`. If an earlier run
        has exported a partition, the export continues at the offset at which that run ended, and
        ignores `start`. No record is exported twice. If `output` does not exist, it is created. An
        output in a bucket cannot be resumed.
    engine : {"spark", "local"}, optional
        Engine that runs the tasks. Both engines write the same output.

        - "spark" uses a Spark session.
        - "local" uses one thread of this process per CPU. It needs neither pyspark nor Java, and
          starts at once.

        By default, "spark" is used if pyspark and Java are installed. Otherwise, "local" is used,
        and `on_message` is called with a message that names the missing package.
    master : str, default "local[*]"
        Master URL of the Spark session to start. Every executor must be able to access `paths` and
        `output`. If the process already has an active Spark session, the export uses that session
        and does not stop it.
    replicas : "longest", optional
        If two paths contain the same partition, "longest" exports the copy with the higher end
        offset. By default, such a partition is an error.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is reported as
        damage, with the error "too_large".
    spark_conf : mapping of str to str, optional
        Settings of the Spark session to start, such as ``{"spark.driver.memory": "4g"}``. They are
        ignored if the process already has an active Spark session.
    progress : callable, optional
        Function to call several times per second with three arguments: the name of the current
        step, the number of processed bytes, and the total number of bytes. The steps are "starting
        Spark" (both numbers are 0), "planning" and "exporting".
    on_message : callable, optional
        Function to call with each message about the input, for example if retention has removed a
        file. The report contains all messages.

    Returns
    -------
    ExportReport
        Counts of the data that was read, written, quarantined and skipped. The file
        `output`/report.json has the same content. The attribute `ok` is False if data is damaged,
        if the outcome of a transaction is not known, or if a key or value could not be decoded.

    Raises
    ------
    DamagedLogError
        `on_error` is "fail" and data is damaged.
    KafkaFormatError
        `on_error` is "fail" and the outcome of a transaction is not known.
    PartitionNotFoundError
        `topics` or `partitions` is given, but no partition matches. The error is a LookupError.
    GroupNotFoundError
        The group has not committed an offset for any selected topic. The error is a LookupError.
    OutputExistsError
        The output exists, and `overwrite` and `resume` are False.
    ResumeError
        The output cannot be resumed. It is not a complete export, its columns, isolation or decoding differ,
        a log is shorter than before, or another export is adding files to it. The error is a
        ValueError.
    OutputPlaceError
        `output` is inside an input path or contains one, or it contains the current directory or
        the home directory.
    OSError
        A path does not exist or cannot be read, or `output` cannot be written. The subclass
        `NoLogError` is raised if a path contains no log. The subclass `TaskOSError` is raised if
        the error occurred in a Spark task.
    ImportError
        pyarrow is missing, or `engine` is "spark" and pyspark or Java is missing.
    SparkError
        Spark or one of its Python workers failed, or the process uses Spark Connect.
    TypeError, ValueError
        An argument is wrong, or no topic has schemas to decode with. `DuplicatePartitionError`, a
        ValueError, is raised if two paths contain the same partition and `replicas` is not given.

    Notes
    -----
    The paths of the files are ``output/data/topic=…/partition=…/<first offset>.parquet``. The
    directory names are the same as those of Spark's ``partitionBy("topic", "partition")``. If a
    task fails and is repeated, the output contains no partial file and no duplicate record.

    Examples
    --------
    >>> report = kafkafmt.export("/var/lib/kafka/data", "/archive/orders", topics="orders*")  # doctest: +SKIP
    >>> report.ok, report.written.records  # doctest: +SKIP
    (True, 12345678)
    """
    given, replicas = resolve(paths, replicas)
    globs = () if topics is None else (topics,) if isinstance(topics, str) else tuple(topics)
    sides = side_formats(decode)
    names = _column_names(columns, sides)
    numbers = () if partitions is None else (partitions,) if isinstance(partitions, int) else tuple(partitions)
    level: int | None = arguments.integer("compression_level", compression_level)
    if compression != "zstd" and level == DEFAULT_ZSTD_LEVEL:
        level = None
    if engine == "local" and (spark_conf or master != DEFAULT_MASTER):
        raise ValueError("master and spark_conf are settings of Spark; with engine='local', omit them")
    options = ExportOptions(
        paths=tuple(given),
        output=output,
        topics=globs,
        partitions=tuple(arguments.integer("partitions", n, 0) for n in numbers),
        internal=internal,
        selection=Selection(
            offset_bound("start", start, start_time),
            offset_bound("end", end, end_time),
            isolation=isolation,
            below_log_start=below_log_start,
        ),
        on_error=on_error,
        compression=compression,
        compression_level=level,
        columns=None if names is None else tuple(names),
        decode=sides,
        registry=registry,
        schema=schema,
        framing=framing,
        layout=layout,
        file_size=arguments.integer("file_size", file_size),
        partition_by=partition_by,
        join_small=join_small,
        overwrite=overwrite,
        resume=resume,
        engine=engine or "spark",
        master=master,
        replicas=replicas,
        max_batch_bytes=arguments.integer("max_batch_bytes", max_batch_bytes, 1),
    )
    found = discover(given, replicas)
    chosen = choose_partitions(found, globs, options.partitions, internal, on_message=found.messages.append)
    if group is not None:
        options, chosen = _from_group(group, options, found, chosen)
    if on_message is not None:
        for message in found.messages:
            on_message(message)
    with needed_packages(engine):
        from .job import Export

        if engine is None:
            options = with_default_engine(options, found.messages.append if on_message is None else on_message)
        job = Export(found, chosen, options, on_message)
        with open_engine(options, progress, spark_conf) as tasks:
            return job.run(tasks, progress)


def _column_names(columns: Iterable[str] | None, sides: Collection[str]) -> list[str] | None:
    """Return the names of columns, and of fields of decoded sides. TypeError, ValueError: a name is wrong."""
    if not sides or isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        return arguments.names("columns", columns, COLUMN_NAMES)
    given = list(columns)
    arguments.names("columns", [side_of(n) if isinstance(n, str) else n for n in given], COLUMN_NAMES)
    return given


def with_default_engine(options: ExportOptions, on_message: Callable[[str], None]) -> ExportOptions:
    """Set the default engine: "spark", or "local" with a message if pyspark or Java is missing."""
    from ..spark.session import prepare_environment
    from ..support.java import SparkMissingError

    try:
        prepare_environment()
    except SparkMissingError as missing:
        on_message(f"the export runs in threads of this process, without Spark: {missing}")
        return replace(options, engine="local")
    return replace(options, engine="spark")


@contextlib.contextmanager
def open_engine(
    options: ExportOptions, progress: Progress | None = None, conf: Mapping[str, Any] | None = None
) -> Iterator[Engine]:
    """Return a context manager for the engine that `options.engine` selects."""
    if options.engine == "local":
        from .local_engine import LocalEngine

        yield LocalEngine()
        return
    with spark_session(options.master, progress, conf) as spark:
        from .spark_jobs import SparkEngine

        yield SparkEngine(spark)


def _from_group(
    group: str, options: ExportOptions, found: Discovery, chosen: list[PartitionDir]
) -> tuple[ExportOptions, list[PartitionDir]]:
    """Return options and partitions for an export that starts at the committed offsets of a consumer group."""
    # If ``__consumer_offsets`` is damaged, the result depends on `on_error`: "fail" raises an
    # error, and "quarantine" adds a message about the damage to the report.
    if options.selection.start is not None:
        raise ValueError("group cannot be given together with start or start_time")

    def skip(log: PartitionLog, damage: Damage) -> None:
        path = log.directory.path / damage.file
        found.messages.append(f"{path}: {damage.message}; a committed offset may not be the latest one")

    partitions, selection = choose_from_group(
        found, chosen, group, options.selection, None if options.on_error == "fail" else skip, found.messages.append
    )
    return replace(options, selection=selection, group=group), partitions


@contextlib.contextmanager
def spark_session(
    master: str, progress: Progress | None = None, conf: Mapping[str, Any] | None = None
) -> Iterator[SparkSession]:
    """Return a context manager that provides the active Spark session. If there is none, it starts a session."""
    # A session that the context manager has started is stopped when the context ends. While the
    # context is active, Ctrl-C does not interrupt calls to Java. If Spark fails to start, a
    # SparkError is raised.
    from ..spark.quiet import quiet_start
    from ..spark.session import active_session, make_session, stop_quietly, uses_connect
    from .spark_jobs import in_thread, interruptible, spark_errors

    if uses_connect():
        raise SparkError(NO_CONNECT)
    with interruptible():
        spark = active_session()
        if spark is not None:
            yield spark
            return
        if progress is not None:
            progress("starting Spark", 0, 0)
        with spark_errors(), quiet_start():
            started = in_thread(lambda: make_session(master, APP_NAME, **(conf or {})))
        try:
            yield started
        finally:
            with contextlib.suppress(Exception):
                in_thread(lambda: stop_quietly(started))


@contextlib.contextmanager
def needed_packages(engine: str | None) -> Iterator[None]:
    """Convert errors about missing packages to an ImportError that contains the command to install them."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("pyspark", "py4j", "pyarrow"):
            raise
        extra = "arrow" if package == "pyarrow" and engine != "spark" else "spark"
        raise ImportError(f"export needs {package}: {install_line(extra)}", name=package) from error
