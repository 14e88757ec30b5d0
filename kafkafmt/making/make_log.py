"""Create test data: write the rows of a file or table to a new log directory.

Each row becomes a record. The partition of a record is chosen as in Kafka's producer:

- A row with a partition number is written to that partition.
- A row with a key is written to the partition of its key
  (``BuiltInPartitioner.partitionForKey``).
- Rows without a key fill one batch in a partition, and then one batch in the next partition.
  Producers since Kafka 3.3 (KIP-794) choose the next partition randomly.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..constants import Codec
from ..log import LogDirectory, StrayPartitionWarning
from ..log.formats import MAX_PARTITION, is_topic_name
from ..log.repairing import Output, OutputPlaceError
from ..log.writing import strays
from ..records import BatchBuilder
from ..records.build import DEFAULT_BATCH_BYTES
from ..support.arguments import integer, one_of
from ..support.hints import batches_have_codecs
from ..support.notebook import html_table
from ..support.paths import output_path
from ..support.report import Report
from ..support.times import now_millis
from .row_writer import ENCODINGS, RowWriter, wrong_topic

TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


@dataclass(frozen=True)
class MadePartition:
    """A partition that `kafkafmt.make` has written.

    Attributes
    ----------
    topic : str
        Name of the topic.
    partition : int
        Number of the partition.
    records : int
        Number of records.
    bytes : int
        Size of the `.log` files in bytes.
    """

    topic: str
    partition: int
    records: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the object that describes this partition in the output of ``kafkafmt make --format json``."""
        return {"topic": self.topic, "partition": self.partition, "records": self.records, "bytes": self.bytes}


@dataclass(frozen=True)
class MakeReport(Report):
    """A log directory that `kafkafmt.make` has written.

    Attributes
    ----------
    output : Path
        The log directory that was written.
    partitions : tuple of MadePartition
        The partitions, ordered by topic and partition number.
    messages : tuple of str
        Messages for the user about the rows and the directory. They are not part of the JSON
        output.
    """

    command = "make"

    output: Path
    partitions: tuple[MadePartition, ...]
    messages: tuple[str, ...] = ()

    @property
    def topic(self) -> str | None:
        """The topic of all partitions, or None if there are several topics."""
        topics = {p.topic for p in self.partitions}
        return topics.pop() if len(topics) == 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt make --format json`` prints."""
        return {"topic": self.topic, "partitions": [p.to_dict() for p in self.partitions]}

    def _repr_html_(self) -> str:
        rows = [(f"{p.topic}-{p.partition}", f"{p.records:,}", f"{p.bytes:,}") for p in self.partitions]
        return html_table(f"Log directory {self.output}", ("partition", "records", "bytes"), rows)


@batches_have_codecs
def make(
    source: Any,
    output: str | os.PathLike[str],
    *,
    topic: str | None = None,
    partitions: int = 1,
    input_format: str | None = None,
    codec: Codec | int = "none",
    level: int | None = None,
    timestamp_type: str = "CreateTime",
    encoding: str | None = None,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    segment_bytes: int = 1 << 30,
    on_message: Callable[[str], None] | None = None,
) -> MakeReport:
    """Create test data: write the rows of a file or table to a new log directory.

    Parameters
    ----------
    source : str, os.PathLike, table or list of dict
        A Parquet file, a CSV file, a file with JSON lines, "-" for JSON lines on stdin, or a table
        with the method ``__arrow_c_stream__``, such as a pyarrow Table or a Polars DataFrame, or a
        list with a dict for each row. The source can have the columns of Spark's Kafka sink, and the column `timestamp`:

        - `value`: text or binary. Text is encoded as UTF-8. This column is required.
        - `key`: text or binary. By default, all keys are null.
        - `headers`: a list of structs with the fields `key` and `value`, or a list of pairs of
          strings.
        - `timestamp`: milliseconds since 1970-01-01 UTC, an Arrow timestamp, or text in ISO format.
          Rows without a timestamp get the current time, as in Kafka's producer.
        - `partition`: integer. If a row has no partition number, its key determines the partition.
        - `topic`: text. It is required if the argument `topic` is not given.
    output : str or os.PathLike
        The log directory to write. It must be new or empty.
    topic : str, optional
        Topic of all rows. By default, each row has its topic in the column `topic`.
    partitions : int, default 1
        Number of partitions of each topic.
    input_format : {"parquet", "csv", "json"}, optional
        Format of the file. By default, the format follows from the suffix of the file name.
    codec : str or int, default "none"
        Codec of the batches: none, gzip, snappy, lz4 or zstd.
    level : int, optional
        Compression level. By default, the default level of the codec is used.
    timestamp_type : {"CreateTime", "LogAppendTime"}, default "CreateTime"
        With "LogAppendTime", all records get the current time, and the column `timestamp` is
        ignored.
    encoding : {"utf8", "base64", "hex"}, optional
        Meaning of keys, values and header values that are text. "base64" and "hex" restore the bytes that
        ``kafkafmt cat --bytes base64`` and ``--bytes hex`` print. With "utf8", all text is written
        unchanged. By default, text is written unchanged too, but text that cat may have printed in place of
        bytes that are not UTF-8 is rejected.
    batch_bytes : int, default 16384
        Largest size of a batch in bytes, like the setting ``batch.size`` of Kafka's producer.
    segment_bytes : int, default 1073741824 (1 GiB)
        Largest size of a segment in bytes, like the topic setting ``segment.bytes``.
    on_message : callable, optional
        Function that is called with each message for the user, as soon as the message is created.
        `MakeReport.messages` also contains these messages.

    Returns
    -------
    MakeReport
        `MakeReport.to_dict` returns the object that ``kafkafmt make --format json`` prints.

    Raises
    ------
    FileExistsError
        `output` is not empty.
    OSError
        The source cannot be read, or `output` cannot be written.
    ImportError
        pyarrow is not installed.
    TypeError, ValueError
        An argument is wrong. If a column or a value is wrong, `RowsError` is raised, a subclass of
        ValueError.

    Notes
    -----
    A row with a key is written to the partition that Kafka's default partitioner chooses. Rows with
    null keys fill one batch in a partition, and then one batch in the next partition. If an error
    is raised, no files are left in `output`.

    Examples
    --------
    >>> table = pyarrow.table({"key": ["a", "b", None], "value": ["1", "2", "3"]})
    >>> report = kafkafmt.make(table, "made", topic="orders", partitions=2)
    >>> sum(p.records for p in report.partitions)
    3
    """
    if topic is not None and not is_topic_name(topic):
        raise ValueError(wrong_topic("topic", topic))
    if integer("partitions", partitions, 1) > MAX_PARTITION:
        raise ValueError(f"partitions is {partitions}; it must be at most {MAX_PARTITION}")
    integer("batch_bytes", batch_bytes, 1)
    if encoding is not None:
        one_of("encoding", encoding, ENCODINGS)
    append_time = now_millis() if one_of("timestamp_type", timestamp_type, TIMESTAMP_TYPES) == "LogAppendTime" else None
    from .table_files import read_rows

    target = output_path(output)
    if target.exists() and not target.is_dir():
        raise OutputPlaceError(os.fspath(output), "exists and is not a directory")
    messages: list[str] = []

    def say(message: str) -> None:
        messages.append(message)
        if on_message is not None:
            on_message(message)

    def new_builder() -> BatchBuilder:
        return BatchBuilder(
            codec=codec, level=level, max_bytes=batch_bytes, base_offset=0, log_append_time=append_time, leader_epoch=0
        )

    # Create one builder only to check the arguments before any file is written.
    new_builder()
    filled = Output(target)
    with filled.opened():
        with warnings.catch_warnings():
            # Suppress StrayPartitionWarning here. Its message would contain the path of the temporary directory.
            # strays() reports stray partitions later, with their final paths.
            warnings.simplefilter("ignore", StrayPartitionWarning)
            with LogDirectory(filled.work, segment_bytes=segment_bytes) as directory:
                row_writer = RowWriter(directory, topic, partitions, batch_bytes, new_builder, say, encoding)
                for rows in read_rows(source, input_format):
                    row_writer.add(rows)
                made = [MadePartition(*written) for written in row_writer.finish()]
        (filled.work / ".lock").unlink()
        filled.publish([])
    for message in strays(target, [(p.topic, p.partition) for p in made]):
        say(message)
    return MakeReport(target, tuple(made), tuple(messages))
