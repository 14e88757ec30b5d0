"""Define the interface of both cores: `_core` (Cython and C) and `_pure` (Python).

A *buffer* is any object with a C-contiguous buffer: bytes, bytearray, memoryview, mmap, a NumPy
array or an Arrow buffer. A call uses the buffer without copying it, so that a bytearray cannot be
resized during the call. Only `write_offsets`, `number_batches`, `number_buffer` and
`validate_buffer` write to a buffer.

The arguments `start` and `end` are positions in the buffer, in bytes. `end` is exclusive, and None
means the end of the buffer. Returned positions are relative to the start of the buffer, not to
`start`.

A *span* is a position in a buffer and a length in bytes. The length -1 means null. Arrays are
C-contiguous and aligned, have the documented dtypes, and belong to the caller. No other thread may
write to an array or resize it during a call.

If data is corrupted, `KafkaFormatError` is raised or returned, as documented for each function.
Wrong arguments raise TypeError or ValueError. An integer that does not fit into its C type raises
OverflowError. If the native core runs a function without the GIL, other threads can run during the
call.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime as Datetime
from typing import Any, Generic

import numpy as np
import numpy.typing as npt
from typing_extensions import TypeVar

from .errors import KafkaFormatError
from .types import (
    BatchSummary,
    BatchTable,
    Buffer,
    ByteArray,
    HeaderSpans,
    IndexState,
    IntArray,
    LengthArray,
    MarkerT,
    ProducerBatch,
    RecordColumns,
    Scan,
    Spans,
)

BytesT = TypeVar("BytesT", bound=bytes | memoryview, default=bytes, covariant=True)
"""Type of keys, values and header values: bytes by default, memoryview if views were requested."""

class ValueProgram:
    """A program that decodes values of one schema.

    Parameters
    ----------
    format : int
        Index of the format in VALUE_FORMATS.
    code : array
        Instructions, which the module `program` of the format describes.
    tables : array of int32
        Branches of unions, symbols of enums and hash tables, to which instructions refer.
    constants : array of uint8
        Encoded defaults, names and tables for numbers, to which instructions refer.
    """

    def __init__(self, format: int, code: Any, tables: LengthArray, constants: ByteArray) -> None: ...

class ColumnBuilder:
    """Builds Arrow columns from values. The columns are the nodes of a tree in depth-first order.

    One more column can follow the tree, for the members of JSON objects that have no column. It can
    have fewer rows than the first column: the missing ones are null.

    Parameters
    ----------
    kinds, widths, lasts, precisions : sequence of int
        For each column: the index of its kind in VALUE_COLUMNS, the size of an item in bytes, the
        index after the last column below it, and the largest number of digits of a decimal.
    limits : array of uint8
        Powers of ten as little-endian numbers of 256 bits.
    take : callable
        Returns an array of uint8 with at least the given number of bytes.
    """

    def __init__(
        self,
        kinds: Sequence[int],
        widths: Sequence[int],
        lasts: Sequence[int],
        precisions: Sequence[int],
        limits: ByteArray,
        take: Callable[[int], ByteArray],
    ) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def unknown_fields(self) -> int:
        """Number of fields in the decoded Protobuf values that their schemas do not contain."""

    def decode(
        self,
        programs: list[ValueProgram],
        which: LengthArray,
        source: Buffer,
        positions: IntArray,
        lengths: LengthArray,
        faults: IntArray,
    ) -> int:
        """Append a row for each span. `which` has the index of its program, or -1 for null.

        If a value cannot be decoded, its row is null, and `faults` (shape (rows, 3)) gets the index
        of the span, the index of the reason in VALUE_FAULTS and the position in the value. Returns
        the number of these rows.

        Raises
        ------
        RuntimeError
            Another thread is using this object.
        """

    def finish(self) -> list[tuple[int, int, ByteArray | None, ByteArray | None, ByteArray | None, int]]:
        """Return the columns, and begin with empty ones.

        Returns
        -------
        list of tuple
            For each column: rows, nulls, validity bits, int32 offsets and data (each an array of
            bytes that can be too large, or None), and the size of the data in bytes.
        """

def choose_programs(
    source: Buffer,
    positions: IntArray,
    lengths: LengthArray,
    known: LengthArray,
    which: LengthArray,
    bodies: IntArray,
    sizes: LengthArray,
) -> int:
    """Choose the program of each span by the schema id at its start, as Confluent's serializers write it.

    `known` has the index of the program for each id, or -2. `which`, `bodies` and `sizes` get the
    index of the program, and the position and size of the bytes after the id. The index is -1 for
    null, and -2 if the span does not begin with an id that is in `known`. Returns the number of
    spans with -2.
    """

def read_varint(buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """Read a zigzag varint of 32 bits, which has at most 5 bytes.

    Bits above the 32nd are dropped, as in Kafka's ``ByteUtils``.

    Returns
    -------
    value : int
        From -2**31 to 2**31 - 1.
    position : int
        The position after the varint.

    Raises
    ------
    TruncatedError
        The input ends inside the varint. The error's position is `start`.
    StructureError
        The varint is longer than 5 bytes. The error's position is `start`.
    """

def read_varlong(buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """Read a zigzag varint of 64 bits, which has at most 10 bytes.

    Bits above the 64th are dropped, as in Kafka's ``ByteUtils``.

    Returns
    -------
    value : int
        From -2**63 to 2**63 - 1.
    position : int
        The position after the varint.

    Raises
    ------
    TruncatedError
        The input ends inside the varint. The error's position is `start`.
    StructureError
        The varint is longer than 10 bytes. The error's position is `start`.
    """

def read_unsigned_varint(buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """Read an unsigned varint of 32 bits, without zigzag, which has at most 5 bytes.

    Bits above the 32nd are dropped, as in Kafka's ``ByteUtils``.

    Returns
    -------
    value : int
        From 0 to 2**32 - 1.
    position : int
        The position after the varint.

    Raises
    ------
    TruncatedError
        The input ends inside the varint. The error's position is `start`.
    StructureError
        The varint is longer than 5 bytes. The error's position is `start`.
    """

def crc32c(buffer: Buffer, value: int = 0, start: int = 0, end: int | None = None) -> int:
    """Return the CRC-32C (Castagnoli) of bytes in a buffer. Batches of magic 2 contain a CRC-32C.

    Parameters
    ----------
    value : int, default 0
        CRC-32C of the bytes before the range, to continue a computation. Only the low 32 bits are
        used.
    """

def crc32(buffer: Buffer, value: int = 0, start: int = 0, end: int | None = None) -> int:
    """Return the CRC-32 of bytes in a buffer. gzip and messages of magic 0 and 1 contain a CRC-32.

    Parameters
    ----------
    value : int, default 0
        CRC-32 of the bytes before the range, to continue a computation. Only the low 32 bits are
        used.
    """

def crc32c_of_rest(whole: int, prefix: int, size: int) -> int:
    """Return the CRC-32C of the last `size` bytes of some data.

    The result is computed from the CRC of all of the data and the CRC of the bytes before the last
    `size` bytes, as in zlib's ``crc32_combine``. The function is its own inverse: if `whole` is the
    CRC of the last `size` bytes, the result is the CRC of all of the data.

    Parameters
    ----------
    whole : int
        CRC-32C of all of the data.
    prefix : int
        CRC-32C of the bytes before the last `size` bytes.
    size : int
        Number of bytes, 0 or more.
    """

def crc32_of_rest(whole: int, prefix: int, size: int) -> int:
    """Return the CRC-32 of the last `size` bytes of some data.

    The result is computed from the CRC of all of the data and the CRC of the bytes before the last
    `size` bytes, as in zlib's ``crc32_combine``. The function is its own inverse: if `whole` is the
    CRC of the last `size` bytes, the result is the CRC of all of the data.

    Parameters
    ----------
    whole : int
        CRC-32 of all of the data.
    prefix : int
        CRC-32 of the bytes before the last `size` bytes.
    size : int
        Number of bytes, 0 or more.
    """

def append_crcs(castagnoli: bool, buffer: Buffer, value: int, appended: int, ends: IntArray, crcs: IntArray) -> None:
    """Update the CRCs of several byte strings that are continued by the same bytes, but with different lengths.

    These bytes consist of `appended` bytes with the CRC `value`, and of the bytes in `buffer`. A byte
    string is continued by all of the former bytes, and by the first bytes in `buffer`.

    Parameters
    ----------
    castagnoli : bool
        True for CRC-32C, False for CRC-32.
    buffer : bytes-like
        The last bytes.
    value : int
        CRC of the bytes before `buffer`.
    appended : int
        Number of bytes before `buffer`.
    ends : array of int64
        The number of bytes in `buffer` by which each byte string is continued, in ascending order.
    crcs : array of int64
        The CRC of each byte string. It is replaced by the CRC of the continued byte string.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def crc32c_way(way: int | None = None) -> str:
    """Return the name of the method that computes CRC-32C. Optionally, choose another method first.

    Tests use this function to cover every method.

    Parameters
    ----------
    way : {0, 1, 2}, optional
        Method to use in the whole process, from the slowest (0) to the fastest (2). A method that
        this processor does not support is ignored. The pure-Python core has only one method, and
        ignores `way`.
    """

def scan_batches(
    buffer: Buffer, table: BatchTable, start: int = 0, end: int | None = None, check_crc: bool = True
) -> Scan:
    """Read the headers of successive batches and messages into a table.

    As in Kafka's shallow iteration, records are neither decompressed nor decoded. Only the length,
    the magic and the CRC of a batch are checked. `decode_records` checks counts and deltas.

    Parameters
    ----------
    table : array of BATCH_DTYPE
        Receives one row per batch or message, beginning with row 0.
    start, end : int, optional
        Range of the buffer to scan. By default, the whole buffer.
    check_crc : bool, default True
        Compare the CRC of each batch with its crc field.

    Returns
    -------
    Scan
        `Scan.count` is the number of rows of `table` that were filled, and `Scan.position` is the
        position at which the scan ended. Rows before an error are valid.

    Notes
    -----
    The scan ends in these cases:

    - The end of the range is reached, or the next batch extends past the end of the range. No error
      is returned. The last ``end - position`` bytes are an incomplete batch.
    - `table` has no row left for the next batch. No error is returned, and ``count == len(table)``.
    - The next batch has an impossible length field (StructureError), an unknown magic
      (UnsupportedError) or, if `check_crc` is True, a CRC that does not match (ChecksumError). The
      error is not raised, but returned as `Scan.error`. `error.position` is the position of the
      batch. `error.resume` is the end of the batch, computed from the length field. If the length
      is impossible, or if the batch ends after the range, `error.resume` is None.

    If `table` has no row left for a batch, the length and the magic of the batch are still checked,
    but the CRC is not.

    The function runs without the GIL.
    """

def scan_file(descriptor: int, buffer: ByteArray, table: BatchTable, start: int, end: int) -> Scan:
    """Read the headers of successive batches and messages of a file into a table, and check the CRCs.

    The file is read in pieces, so the memory use does not depend on ``end - start``.

    Parameters
    ----------
    descriptor : int
        Descriptor of an open regular file.
    buffer : array of uint8
        Memory for the pieces. Its content after the call is undefined.
    table : array of BATCH_DTYPE
        Receives one row per batch or message, beginning with row 0. The positions in the rows are
        positions in the file.
    start, end : int
        Range of the file to scan.

    Returns
    -------
    Scan
        `Scan.count` is the number of rows of `table` that were filled, and `Scan.position` is the
        position at which the scan ended. `Scan.error` is always None.

    Raises
    ------
    ValueError
        The range is not valid.

    Notes
    -----
    The scan ends at the first batch that is not valid, that does not fit into `buffer`, that extends
    past `end` or the end of the file, that has no row in `table`, or that cannot be read. The cause is
    not reported. To find it, the caller reads the bytes from `Scan.position` on, and calls
    `scan_batches`.

    The function runs without the GIL.
    """

def find_batch(buffer: Buffer, start: int = 0, end: int | None = None, check_crc: bool = True) -> int | None:
    """Return the first position at which a batch or message begins, or None.

    Parameters
    ----------
    check_crc : bool, default True
        Accept a batch only if it ends at or before `end`, and if its CRC matches. If False, only
        the header is checked, and the batch may end after `end`.

    Notes
    -----
    The following parts of a header are checked: the magic, the base offset, the length, the codec
    and the attribute bits. In magic 2, the last offset delta and the count must not be negative. In
    magic 0 and 1, the key and the value must exactly fill the message.

    The function takes time linear in the number of bytes, regardless of the lengths stated in the
    headers. The function runs without the GIL.
    """

def find_batches(
    buffer: Buffer, found: IntArray, beyond: IntArray, start: int = 0, end: int | None = None, lowest_offset: int = 0
) -> tuple[int, int, int]:
    """Find every valid batch or message that begins in a range of bytes, even inside another batch.

    Parameters
    ----------
    found : int64 array
        Receives the positions of the batches that are complete in the buffer and whose CRC matches.
    beyond : int64 array of shape (n, 2)
        Receives one row for each plausible header whose batch would end after the buffer. The row
        contains the position of the header, and a CRC. The CRC is computed from the first byte that
        the crc field covers up to the end of the buffer.
    start, end : int, optional
        Range in which batches must begin. A batch may end after `end`, but not after the end of the
        buffer.
    lowest_offset : int, default 0
        Lowest offset of a header in `beyond`. The highest offset is `lowest_offset` + 2**31 - 1.
        Headers with other offsets are ignored, because many positions in ordinary data look like
        such headers.

    Returns
    -------
    found_count, beyond_count : int
        Number of rows filled in `found` and in `beyond`.
    position : int
        Position of the first batch that was not stored because an array had no row left. If all
        batches were stored, `end`.

    Notes
    -----
    Headers are checked as in `find_batch`. The function takes time linear in the number of bytes,
    regardless of the lengths stated in the headers. The function runs without the GIL.
    """

def scan_damaged(
    buffer: Buffer,
    table: BatchTable,
    spans: IntArray,
    start: int = 0,
    end: int | None = None,
    file_end: int | None = None,
    expected: int = 0,
    last: int | None = None,
    wrappers: IntArray | None = None,
    prefetch: bool = False,
) -> tuple[int, int, int, int, int | None, KafkaFormatError | None]:
    """Scan valid batches, and skip damaged batches.

    Parameters
    ----------
    table : array of BATCH_DTYPE
        Receives one row per valid batch.
    spans : int64 array of shape (n, 8)
        Receives one row per skipped byte range. The columns are:

        - position and end of the byte range
        - problem: the magic of a batch whose CRC does not match, or a negative number
        - actual: the computed CRC of the batch
        - stored: the stored CRC of the batch
        - number of inner messages of a wrapper message; otherwise -1
        - number of valid batches before the byte range
        - 1 if the CRC is not the problem, or if the byte range contains a plausible header whose
          batch would end after the end of the file; otherwise 0

        If the CRC is not the problem, the column `problem` has one of these values:

        - The value is -6 if the offset of a wrapper message contradicts its inner messages. Then
          `actual` is the offset, and `stored` is the highest inner offset in `wrappers`.
        - The value is -8 if the last offset delta is negative. Then `actual` is the base offset, and
          `stored` is the last offset delta.
    start, end : int, optional
        Range of the buffer to scan. By default, the whole buffer.
    file_end : int, optional
        Position of the end of the file, relative to the start of the buffer. By default, the end of
        the buffer.
    expected : int, default 0
        Lowest offset that the first batch can have.
    last : int, optional
        Last offset of the valid batch directly before `start`. None if the bytes before `start` are
        damaged.
    wrappers : int64 array of shape (n, 4), optional
        Position of each wrapper message in the buffer, first and highest offset of its inner
        messages, and number of inner messages, in ascending order of the positions. By default, the
        scan ends before the first wrapper message.
    prefetch : bool, default False
        Continue after wrapper messages that `wrappers` does not contain. The result is then only an
        estimate of the wrapper messages in the buffer. By default, the scan ends before such a
        message.

    Returns
    -------
    valid_count, skipped_count : int
        Number of rows filled in `table` and in `spans`.
    position : int
        Position of the first batch that is neither valid nor skipped.
    expected : int
        The lowest offset that the batch at `position` can have. If offsets are missing directly
        before the last valid batch, its base offset may be corrupted. In this case, the value is one
        more than the lower one of two offsets: the last offset of this batch, and the last offset
        before it.
    last : int or None
        The value of `last` at `position`.
    error : KafkaFormatError or None
        The error that `scan_batches` reports at `position`.

    Notes
    -----
    A batch whose CRC does not match is skipped if both of these conditions are met:

    - The header of the batch and the next header have a known magic, a possible length, and an
      offset between `expected` and `expected` + 2**31 - 1.
    - Between the two headers, there is no valid batch. There is also no plausible header with an
      offset in this range whose batch ends after the second header. Batches that would end after
      `file_end` are ignored.

    The scan ends before the first of these batches:

    - a batch that extends past `end`, or a damaged batch that is not skipped
    - a wrapper message that `wrappers` does not contain, or a batch whose next offset would exceed
      2**63 - 1
    - a batch that cannot be stored, because `table` or `spans` has no row left

    The function runs without the GIL.
    """

def summarize_batches(rows: BatchTable) -> BatchSummary:
    """Return a summary of a table of batch headers.

    Parameters
    ----------
    rows : array of BATCH_DTYPE
        The batches.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def combine_batches(
    rows: BatchTable,
    firsts: IntArray | None,
    cut_gaps: bool,
    cut_at: IntArray,
    cut_before: IntArray,
    runs: IntArray,
    before: IntArray,
) -> int:
    """Combine adjacent valid batches into ranges (runs), and return the number of runs.

    A run is a range of adjacent batches whose offsets increase.

    Parameters
    ----------
    rows : array of BATCH_DTYPE, n items
        The batches.
    firsts : int64 array of n items, or None
        The first offset of each batch. None if the first offsets are the base offsets.
    cut_gaps : bool
        If True, a run also begins at each gap in the offsets.
    cut_at : int64 array
        Offsets in ascending order. A run begins at each batch whose first offset is in this
        array.
    cut_before : int64 array of m items
        Rows in ascending order, from 0 to n. A run begins at each of these rows. A row can
        occur several times.
    runs : int64 array of shape (9, n)
        Receives the runs, one per column:

        - row of the first batch of the run
        - positions of the start and the end of the run in the buffer, in bytes
        - the first and the last offset
        - number of batches
        - number of data records, or -1 if the run contains a wrapper message
        - 1 if the counts of all batches add up to the number of offsets, otherwise 0. A count that
          exceeds the number of offsets of its batch counts as this number
        - number of preceding runs, plus number of items of `cut_before` that are less than or equal
          to the index of the first row
    before : int64 array of m items
        Receives one number per item of `cut_before`: the number of preceding items, plus the number of
        runs that begin before this row.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def transactional_batches(rows: BatchTable) -> list[ProducerBatch]:
    """Return the transactional batches and the control batches of an array of BATCH_DTYPE, in order.

    Raises
    ------
    TypeError, ValueError
        The argument is wrong.
    """

def read_markers(buffer: Buffer, rows: BatchTable, marker_type: type[MarkerT]) -> dict[int, MarkerT] | None:
    """Read the transaction markers in plain control batches. Return a dict that maps offsets to markers.

    A plain control batch is uncompressed, and has no records or exactly one valid record without
    headers. The result is None if any control batch is not plain. `RecordReader` can read all control
    batches.

    Parameters
    ----------
    buffer : bytes-like
        The batches.
    rows : array of BATCH_DTYPE
        The batch headers. Data batches are ignored.
    marker_type : type
        A named tuple with three fields: kind, timestamp in ms, and coordinator epoch. If a marker
        contains no coordinator epoch, the field is -1.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def end_transactions(
    rows: BatchTable,
    markers: dict[int, MarkerT],
    spans: dict[int, tuple[int, int]],
) -> list[tuple[int, int, int, int, int]]:
    """Return the transactions that the next batches of a log complete.

    Parameters
    ----------
    rows : array of BATCH_DTYPE
        The batch headers, in offset order.
    markers : dict of int to tuple
        The markers in the control batches, from `read_markers`.
    spans : dict of int to (int, int)
        The first and the last offset of each open transaction, by producer id. It is updated.

    Returns
    -------
    list of (int, int, int, int, int)
        Producer id, first and last offset of the batches, kind of the marker, and offset of the
        marker. If neither `spans` nor `rows` contains a batch of the transaction, the first and the
        last offset are -1.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def walk_transactions(
    rows: BatchTable,
    start: int,
    places: IntArray,
    markers: dict[int, MarkerT],
    opened: dict[int, int],
    next_markers: dict[int, int],
    aborted: Mapping[int, list[tuple[int, int]]],
    hidden: IntArray,
) -> tuple[int, int]:
    """Follow transactions from the row `start` on. Stop at the first batch that the caller must process.

    The caller processes a batch in these cases:

    - Its offset is above the offset in `next_markers` for its producer.
    - It is a transactional control batch without a readable marker.

    Damaged bytes between the batches may contain markers. At such a place, the outcomes of all open
    transactions become unknown.

    Parameters
    ----------
    rows : array of BATCH_DTYPE
        The batch headers, in offset order.
    start : int
        The row to begin with.
    places : array of int64, shape (n, 2)
        For each place at which damage may contain markers, the row of the batch after the damage,
        and the first offset that may be missing. The array is sorted by row. Rows before `start` are
        ignored.
    markers : dict of int to tuple
        The markers in the control batches, from `read_markers`.
    opened : dict of int to int
        The first offset of each open transaction, by producer id. It is updated.
    next_markers : dict of int to int
        The offset of the next marker of each producer, according to the transaction indexes.
    aborted : defaultdict of int to list of (int, int)
        Receives the first offset and the offset of the marker of each aborted transaction.
    hidden : array of int64, shape (n, 3)
        Receives a row for each transaction whose outcome has become unknown: the producer id, the first
        offset, and the last offset before the damage. It needs a row for each item of `opened` and for
        each batch.

    Returns
    -------
    (int, int)
        The row of the batch that the caller must process, or the number of rows if there is none.
        The second number is the number of rows in `hidden`.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def keep_committed(
    rows: BatchTable,
    aborted: Mapping[int, list[tuple[int, int]]],
    opened: dict[int, int],
    keep: npt.NDArray[np.bool_],
) -> int:
    """Mark the batches that are not data of an aborted or open transaction.

    Parameters
    ----------
    rows : array of BATCH_DTYPE
        The batch headers, in offset order.
    aborted : mapping of int to list of (int, int)
        Maps a producer id to the first and last offset of each of its aborted transactions, in
        ascending order. The transactions of a producer do not overlap.
    opened : dict of int to int
        The first offset of each open transaction, by producer id.
    keep : array of bool
        Receives False for each data batch of an aborted or open transaction, and True for each other
        batch.

    Returns
    -------
    int
        Number of batches for which `keep` is True.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def offsets_around(
    run_at: IntArray, firsts: IntArray, lasts: IntArray, lower: int, upper: int | None, at: IntArray, found: IntArray
) -> None:
    """Find the offsets that can be missing in each damaged byte range.

    These are the offsets between the valid batches before and after the damaged byte range.

    Parameters
    ----------
    run_at : int64 array of n items
        Indexes of the ranges of valid batches in the list of all byte ranges, in ascending order.
    firsts, lasts : int64 arrays of n items
        First and last offset of each range of valid batches.
    lower : int
        First offset that can be missing before the first range of valid batches.
    upper : int or None
        Last offset that can be missing after the last range of valid batches. None if it is not
        known.
    at : int64 array of m items
        Indexes of the damaged byte ranges in the same list.
    found : int64 array of shape (3, m)
        Receives for each damaged byte range:

        - the first offset that can be missing
        - the last offset that can be missing, or 2**63 - 1 if it is not known
        - 1 if the last offset is known, otherwise 0

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def describe_damage(
    spans: IntArray,
    count: int,
    firsts: IntArray,
    lasts: IntArray,
    lengths: IntArray,
    whole: npt.NDArray[np.bool_],
    misplaced: npt.NDArray[np.bool_],
) -> None:
    """Compute the length of each damaged byte range, whether it is exactly one batch, and whether it can have overwritten others.

    Parameters
    ----------
    spans : int64 array of shape (8, m)
        The damaged byte ranges. Each column contains the fields that `scan_damaged` writes to one row. For batches
        with contradicting offsets (problem -5) and for copies (problem -10), the fields `actual` and `stored` are the
        first and the last offset of the batches.
    count : int
        The number n of columns that are used.
    firsts, lasts : int64 arrays of n items
        First and last offset that may be missing because of the damage.
    lengths : int64 array of n items
        Receives the length of each byte range.
    whole : array of bool, n items
        Receives whether each byte range is known to be exactly one batch.
    misplaced : array of bool, n items
        Receives whether each byte range consists of valid batches that can have overwritten other batches:
        copies, and batches whose number of offsets is not the number of missing offsets.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def spans_outside(holes: IntArray, spans: IntArray, found: IntArray) -> int:
    """Store the parts of the byte ranges `spans` that are outside the byte ranges `holes`. Return the number of parts.

    Parameters
    ----------
    holes : int64 array of shape (m, 2)
        Start and end position of each hole, in ascending order of the start. A hole that begins
        before a byte range does not affect the byte range.
    spans : int64 array of shape (n, 2)
        Start and end position of each byte range.
    found : int64 array of shape (k, 2)
        Receives start and end position of each part, in the order of `spans`. Empty parts are
        omitted. If the byte ranges do not overlap, n + m rows are sufficient.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def next_spans(
    spans: IntArray, first: int, largest: int, most: int, window: int, positions: IntArray, lengths: LengthArray
) -> tuple[int, int, int, int]:
    """Select the next byte ranges of a file that can be read together.

    Successive byte ranges are merged if the second one starts at the end of the first one.

    Parameters
    ----------
    spans : int64 array of shape (n, 2)
        Start and end position of each byte range.
    first : int
        Index of the first byte range to select, which is less than n.
    largest : int
        Largest size of a merged byte range that is read together with others.
    most : int
        Largest total size of the selected byte ranges.
    window : int
        Largest distance from the start of the first to the end of the last selected byte range in the file.
    positions : int64 array
        Receives the positions of the merged byte ranges, relative to `start`.
    lengths : int32 array
        Receives the lengths of the merged byte ranges.

    Returns
    -------
    taken : int
        Number of selected rows of `spans`.
    count : int
        Number of merged byte ranges that were stored. 0 if the first merged byte range is larger than
        `largest`, `most` or `window`. In this case, only this byte range is selected, and it is not stored.
    start, size : int
        File position and size of the smallest byte range that contains all selected byte ranges.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def index_batches(
    table: BatchTable, position: int, interval: int, state: IndexState
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], IndexState]:
    """Return the index entries that a broker writes for batches which it appends to a segment one by one.

    Parameters
    ----------
    table : array of BATCH_DTYPE
        The batches.
    position : int
        Position of the buffer in the file. The positions in `table` are relative to the buffer.
    interval : int
        A batch gets an entry if it starts more than `interval` bytes after the previous batch with
        an entry.
    state : tuple of four int
        The state before the batches. See `types.IndexState`.

    Returns
    -------
    offset_entries : list of (int, int)
        Entries of the offset index: last offset and file position of a batch.
    time_entries : list of (int, int)
        Entries of the time index: the largest timestamp, and the last offset of its batch. An entry
        is written together with an entry of the offset index, if its timestamp is larger than that of
        the previous entry of the time index.
    state : tuple of four int
        The state after the batches.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

def read_index_entries(data: Buffer, entry_size: int, base_offset: int, entries: IntArray) -> int:
    """Parse all entries of an index file, and return the number of valid entries at its start.

    In valid entries, the first field increases from entry to entry, and the second field never
    decreases. Both fields of a valid entry are not negative. If the first entry is the only valid one,
    and both of its fields are 0, it is preallocated space and is not counted.

    Parameters
    ----------
    data : bytes-like
        Content of the file. An incomplete entry at its end is ignored.
    entry_size : {8, 12}
        8 for an offset index, 12 for a time index.
    base_offset : int
        Base offset of the segment. It is added to the relative offsets.
    entries : int64 array of shape (2, n)
        Receives the fields of all n complete entries: offsets and positions, or timestamps and
        offsets.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

class IndexMatches:
    """The valid entries of an offset index and of a time index, and the batches to which they refer.

    Parameters
    ----------
    offset_data, time_data : bytes-like
        Content of the offset index and of the time index. Only the valid entries at the start of each
        file are used (see `read_index_entries`).
    base_offset : int
        Base offset of the segment.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.
    """

    def __init__(self, offset_data: Buffer, time_data: Buffer, base_offset: int) -> None: ...
    @property
    def offset_entries(self) -> int:
        """Number of valid entries of the offset index."""

    @property
    def time_entries(self) -> int:
        """Number of valid entries of the time index."""

    @property
    def next_offset(self) -> int:
        """The offset after the last batch, or 2**63 - 1 if this offset is larger. If there are no batches, the base offset."""

    def begin(self) -> None:
        """Remove all batches, so that `add` can start again with the first batch of the segment."""

    def add(self, table: BatchTable, position: int) -> None:
        """Add the next batches of the segment.

        Parameters
        ----------
        table : array of BATCH_DTYPE
            Batches in the order of their offsets. A batch can be out of place in the file.
        position : int
            Position of the buffer in the file. The positions in `table` are relative to the buffer.

        Raises
        ------
        TypeError, ValueError
            An argument is wrong.
        """

    def agree(self, end: int, firsts: IntArray, lasts: IntArray, starts: IntArray, lengths: IntArray) -> bool:
        """Return whether each index entry has its usual form or refers to damaged data.

        In the usual form, an entry of the offset index contains the last offset of a batch and the
        position of this batch. An entry of the time index contains the maximum timestamp of a batch, and
        no earlier batch has a larger timestamp. Entries of another form can still be valid. If there are
        more than 32 damaged byte ranges, the result is False if an entry refers to damaged data.

        Parameters
        ----------
        end : int
            Offset after the last offset of the segment.
        firsts, lasts, starts, lengths : int64 arrays of k items
            For each damaged byte range: the first and the last offset that may be missing, the position
            in the file, and the length.

        Raises
        ------
        TypeError, ValueError
            An argument is wrong.
        """

    def copy_to(self, offsets: IntArray, times: IntArray) -> None:
        """Copy the fields of the entries, and fields of the batches to which they refer.

        Parameters
        ----------
        offsets : int64 array of shape (5, offset_entries)
            Receives five rows, with one item for each entry of the offset index:

            1. the offset in the entry
            2. the position in the entry
            3. the lowest offset that the batch at this position can have, or 2**63 - 1 if there is no such batch
            4. the last offset of the batch at this position, or -1 if there is no such batch
            5. the position of the batch whose last offset is the offset in the entry, or -1 if there is no such batch
        times : int64 array of shape (5, time_entries)
            Receives five rows, with one item for each entry of the time index:

            1. the timestamp in the entry
            2. the offset in the entry
            3. the maximum timestamp of the batch with this offset, or -2 if there is no such batch
            4. the largest timestamp of all batches up to this batch, or -2 if there is no such batch
            5. 1 if this batch has magic 0, otherwise 0

        Raises
        ------
        TypeError, ValueError
            An argument is wrong.
        """

def heaviest_chain(
    first: IntArray,
    last: IntArray,
    weight: IntArray,
    left_out: IntArray,
    damage: IntArray,
    start_bonus: IntArray,
    parent: IntArray,
    score: IntArray,
    reach: int,
) -> None:
    """For each run, compute the chain with the highest score that ends with the run.

    A chain is a sequence of runs (ranges of adjacent batches) whose offsets increase. If the
    offsets of runs contradict each other, the runs in the heaviest chain are trusted.

    Parameters
    ----------
    first, last : int64 array of n items
        First and last offset of each run, ordered by the positions of the runs.
    weight : int64 array of n items
        Score that each run adds to its chain.
    left_out : int64 array of n + 1 items
        Number of omitted offsets before each run. The last item is the total number of omitted
        offsets.
    damage : int64 array of n items
        Number of damaged byte ranges before each run.
    start_bonus : int64 array of n items
        Additional score of each run if a chain begins with the run.
    parent : int64 array of n items
        Receives the index of each run's predecessor, or -1 if a chain begins with the run.
    score : int64 array of n items
        Receives the score of the heaviest chain that ends with each run.
    reach : int
        Number of preceding runs with which each run is compared.

    Notes
    -----
    For each run after the first one of a chain, the score of the chain changes as follows:

    - The score increases by 1 if the run continues its predecessor without a gap.
    - The score does not change if the gap equals the number of offsets omitted between the two
      runs, or if there is damage between the runs.
    - Otherwise, the score decreases by 1.

    If the score is the same for several predecessors, the first of them is chosen. The function
    runs without the GIL.
    """

def decode_records(
    buffer: Buffer,
    batches: BatchTable,
    columns: RecordColumns,
    first_offset: int = -9223372036854775808,
    end_offset: int | None = None,
) -> KafkaFormatError | None:
    """Decode the records of uncompressed batches into columns.

    In Kafka, decoding records is called deep iteration.

    Parameters
    ----------
    buffer : bytes-like
        Contains the uncompressed payloads.
    batches : array of BATCH_DTYPE
        These fields are used: base_offset, base_timestamp, max_timestamp, last_offset_delta, count,
        attributes (only the timestamp type, and in messages the codec), magic, payload_position and
        payload_size. `position` is used only in error messages.
    columns : RecordColumns
        Receives the records, beginning at row `columns.rows`, and the headers, beginning at row
        `columns.headers`. Decoding starts at `columns.cursor`, and updates this cursor.
    first_offset, end_offset : int, optional
        Store only records with ``first_offset <= offset < end_offset``. Other records are only
        checked. If `end_offset` is None, there is no upper limit. Only None includes the offset
        2**63 - 1, because `end_offset` is exclusive.

    Returns
    -------
    KafkaFormatError or None
        None if all batches were decoded (``cursor[0] == len(batches)``), or if the columns are
        full. To continue when the columns are full, call ``columns.clear()``, and repeat the call
        with the same arguments. The following errors are not raised, but returned:

        - StructureError: a batch or record is corrupted. The error's position is the position of
          the record. If the record count is wrong, it is the position of the payload. If bytes
          follow the last record, it is the position of the first of these bytes.
        - TooLargeError: a record has more than `columns.max_headers` headers.
        - UnsupportedError: the magic of a batch is unknown. The error's position is the position of
          the batch.

        After an error, all stored rows are valid and belong to earlier batches. ``cursor[0]`` is
        the index of the faulty batch, and ``cursor[1]`` is 0. To continue after the faulty batch,
        add 1 to ``cursor[0]``.

    Raises
    ------
    ValueError
        A payload is outside the buffer, the cursor is outside its batch, or an array is too small.
    TypeError
        Some arrays of a column are None and others are not, or only one of key and value is copied.

    Notes
    -----
    A batch is stored completely or not at all, so that no records of a corrupted batch are
    returned. If a batch does not fit into empty columns, the complete batch is checked first, and
    then stored in parts.

    With LogAppendTime, every record gets the maximum timestamp of its batch. Timestamps that do not
    fit into int64 microseconds are stored as MICROS_BEYOND. Missing timestamps (magic 0) are stored
    as MICROS_NONE. In both cases, `columns.odd_times` is set to True. If a stored timestamp in ms is
    after the maximum timestamp in the header of its batch, `columns.late_times` is set to True.

    The offset of a record is the base offset plus the record's offset delta, as a signed 64-bit sum.
    Kafka's reader does not check the delta, so any delta is accepted. If the delta is negative, above
    the last offset delta, or not above the delta of the previous record, `columns.odd_offsets` is set
    to True.

    Control batches are decoded like all other batches. All fields of a record are checked, also
    those that the columns do not store. Therefore, the columns do not affect which batches are
    corrupted.

    ``columns.cursor`` is an int64 array of 4 items: [0] the index of the batch, [1] the number of
    records of this batch that have been decoded, [2] the position of the next record, and [3] the
    offset delta of the last decoded record. Items [2] and [3] have no meaning if [1] is 0.

    If the headers of a single record do not fit into empty header arrays, `columns.grow_headers`
    replaces the arrays with larger arrays.

    `CopiedColumns` receive copies of keys and values in Arrow's layout instead of their positions
    and lengths. These columns are also full if the bytes of a batch do not fit into the data
    arrays. If a single record does not fit into empty data arrays, `columns.grow_data` replaces the
    arrays with larger arrays.

    The function runs without the GIL.
    """

def decode_valid_records(
    buffer: Buffer,
    batches: BatchTable,
    columns: RecordColumns,
    faults: IntArray,
    first_offset: int = -9223372036854775808,
    end_offset: int | None = None,
) -> tuple[int, KafkaFormatError | None]:
    """Decode the records of uncompressed batches into columns, and skip corrupted batches.

    Parameters
    ----------
    buffer, batches, columns, first_offset, end_offset
        See `decode_records`.
    faults : int64 array of shape (n, 3)
        Receives one row for each corrupted batch, in the order of `batches`. A row contains the index
        of the batch in `batches`, the index of the error message in `constants.FAULTS`, and the
        position of the error.

    Returns
    -------
    count : int
        Number of rows filled in `faults`.
    error : KafkaFormatError or None
        The result of `decode_records` for the remaining batches. The error is always None if `faults`
        has one row for each batch, and if no batch has an unknown magic or a record with more than
        `columns.max_headers` headers.

    Notes
    -----
    An array of faults is much faster than one error object for each corrupted batch. The function
    runs without the GIL.
    """

def decode_plain_batches(
    buffer: Buffer,
    columns: RecordColumns,
    start: int = 0,
    end: int | None = None,
    first_offset: int = -9223372036854775808,
    end_offset: int | None = None,
    check_crc: bool = True,
) -> int:
    """Scan plain batches, and decode them directly into columns in the same pass.

    A batch is plain if all these conditions are met:

    - The batch has magic 2, is uncompressed, and is not a control batch.
    - The CRC matches, the records are valid, and their offset deltas are not odd (see `decode_records`).
    - All offsets of the batch are in the range ``first_offset <= offset < end_offset``.
    - If the native core copies keys or values, enough bytes follow the batch in the buffer.

    The pure-Python core never decodes a batch here, and returns `start`.

    Parameters
    ----------
    columns : RecordColumns
        Receives the records, beginning at row `columns.rows`. The cursor is neither used nor
        changed.
    start, end : int, optional
        Range of the buffer to decode. By default, the whole buffer.
    first_offset, end_offset : int, optional
        Range of offsets to decode; `end_offset` is exclusive. By default, all offsets are decoded.
        None means that there is no upper limit.
    check_crc : bool, default True
        Compare the CRC of each batch with its crc field.

    Returns
    -------
    int
        The position after the last decoded batch. Decoding stops, without an error, at the first
        batch that is not plain or might not fit into the columns. If this batch is plain but might
        not fit, `columns.full` is True. Otherwise, `columns.full` is False.

    Notes
    -----
    To read the batch at the returned position, or to get its error, call `scan_batches` and
    `decode_records`. The function runs without the GIL.
    """

def write_offsets(buffer: Buffer, batches: BatchTable) -> None:
    """Write the offsets and leader epochs of the rows in `batches` into a buffer.

    The CRC of a batch of magic 2 covers neither of these fields.

    Parameters
    ----------
    buffer : writable bytes-like
        Changed in place.
    batches : array of BATCH_DTYPE
        The `base_offset` of each row is written into the batch at `position`. In magic 2,
        `leader_epoch` is also written.

    Raises
    ------
    ValueError
        A batch is outside the buffer. In this case, nothing is written.

    Notes
    -----
    The function runs without the GIL.
    """

def number_batches(buffer: Buffer, batches: BatchTable, next_offset: int, leader_epoch: int | None = None) -> int:
    """Assign consecutive offsets to the batches in `batches`, and write the offsets into the buffer.

    A batch uses ``last_offset_delta + 1`` offsets. A wrapper message, whose `count` in the table is
    negative, gets the last of the offsets that its inner messages use.

    Parameters
    ----------
    buffer : writable bytes-like
        Changed in place.
    batches : array of BATCH_DTYPE
        The function uses the fields `position`, `last_offset_delta`, `count` and `magic` of each
        row.
    next_offset : int
        Offset of the first record, 0 or higher.
    leader_epoch : int, optional
        Written into batches of magic 2. By default, leader epochs are not changed.

    Returns
    -------
    int
        The offset after the last batch.

    Raises
    ------
    ValueError
        A batch is outside the buffer, a last offset delta is negative, or an offset would exceed
        2**63 - 1. In this case, nothing is written.
    OverflowError
        `next_offset` or `leader_epoch` does not fit into its field.

    Notes
    -----
    The function runs without the GIL.
    """

def number_buffer(
    buffer: Buffer, next_offset: int, leader_epoch: int | None = None, check_crc: bool = True
) -> int | None:
    """Check all batches of a buffer and assign consecutive offsets to them, without building a table.

    Parameters
    ----------
    buffer : writable bytes-like
        Changed in place, unless None is returned.
    next_offset : int
        Offset of the first record, 0 or higher.
    leader_epoch : int, optional
        Written into batches of magic 2. By default, leader epochs are not changed.
    check_crc : bool, default True
        Compare the CRC of each batch with its crc field.

    Returns
    -------
    int or None
        The offset after the last batch. The result is None, and the buffer is unchanged, if a batch
        meets one of these conditions:

        - The batch is corrupted or incomplete. To get the error, call `scan_batches`.
        - The batch is a wrapper message.
        - The count or the last offset delta of the batch is negative.
        - An assigned offset would exceed 2**63 - 1.

    Notes
    -----
    The native core writes the fields of a batch while the batch is in the CPU cache, and restores
    the old values if a later batch is rejected. Other threads can therefore see new offsets
    temporarily, even if the function returns None. The function runs without the GIL.
    """

def validate_buffer(
    buffer: Buffer,
    next_offset: int,
    leader_epoch: int,
    client: bool,
    codec: int | None,
    max_size: int | None,
    check_records: bool,
    compacted: bool,
    earliest: int,
    latest: int,
    append_time: int | None = None,
) -> tuple[int, int, int, int] | None:
    """Validate all batches of a buffer as a broker does, and assign their offsets.

    The function accepts only batches that a broker would append without re-encoding them.

    ``records.LogValidator`` uses this function as its fast path.

    Parameters
    ----------
    buffer : writable bytes-like
        Batches of magic 2 with CreateTime. Changed in place, unless None is returned.
    next_offset : int
        Offset of the first record, 0 or higher.
    leader_epoch : int
        Written into every batch.
    client : bool
        Require exactly one batch. The base offset must be 0, the count must be one more than the
        last offset delta, and the control bit must not be set. A batch with a producer id must have
        a base sequence.
    codec : int, optional
        Require this codec id. By default, any codec is accepted.
    max_size : int, optional
        Largest size of a batch in bytes, header included. By default, there is no limit.
    check_records : bool
        Check the records. In this case, every batch must be uncompressed and must contain at least
        one record. Every record must be valid, and the maximum timestamp in the header must be
        correct.
    compacted : bool
        If `check_records` is True, require that no key is null.
    earliest, latest : int
        Lowest and highest accepted timestamp, in ms. Timestamps are checked only if `check_records`
        is True and `append_time` is None. A batch in which all timestamps are -1 is also accepted.
    append_time : int, optional
        Write this timestamp (ms) and LogAppendTime into every batch, and update its CRC. In this
        case, the timestamps of records are not checked.

    Returns
    -------
    tuple of int, or None
        The number of records, the offset after the last batch, the maximum timestamp (ms), and the
        offset of the first record with this timestamp. The last number is -1 if `check_records` is
        False, or if there are no timestamps. If `append_time` is given, the last two numbers are
        `append_time` and `next_offset`.

        The result is None, and the buffer is unchanged, if a rule is broken, or if the function
        cannot decide whether a rule is broken. Therefore, a result of None does not mean that the
        data is invalid.

    Notes
    -----
    As in `number_buffer`, other threads can see changed fields temporarily, even if the function
    returns None. The function runs without the GIL.
    """

def look_at_payload(payload: Buffer, count: int, last_offset_delta: int) -> tuple[int, int, int, bool] | None:
    """Check the uncompressed records of one batch, and summarize them for `validate_buffer`.

    Parameters
    ----------
    payload : bytes-like
        The records of a batch of magic 2, uncompressed.
    count : int
        Number of records, as stored in the header.
    last_offset_delta : int
        Highest offset delta, as stored in the header.

    Returns
    -------
    tuple or None
        The lowest timestamp delta (ms), the highest timestamp delta (ms), the offset delta of the
        first record with the highest timestamp delta, and a bool that is True if any key is null.

        The result is None unless `payload` consists of exactly `count` valid records, whose offset
        deltas increase up to `last_offset_delta`. The result is also None if `count` is 0 or less.

    Notes
    -----
    The function runs without the GIL.
    """

def total_length(lengths: LengthArray, count: int) -> int:
    """Return the sum of the first `count` lengths in an int32 array. The length of a null counts as 0."""

class PayloadDecoder:
    """Decompresses the payloads of many batches in one call, without the GIL.

    The codecs' contexts are reused. The pure-Python core, and a codec without functions, leave the
    payloads to the caller.

    Parameters
    ----------
    addresses : mapping of str to int
        Address of each C function, by its name in CODEC_FUNCTIONS. Functions can be missing.
    """

    def __init__(self, addresses: Mapping[str, int]) -> None: ...
    def append(
        self,
        buffer: Buffer,
        table: BatchTable,
        moved: BatchTable,
        begin: int,
        arena: Buffer,
        filled: int,
        enough: int,
        limit: int,
    ) -> tuple[int, int, int]:
        """Decompress payloads into an arena, one after another. Uncompressed payloads are copied.

        Parameters
        ----------
        buffer : bytes-like
            The buffer to which the positions in `table` refer.
        table : array of BATCH_DTYPE, n items
            The batches.
        moved : array of BATCH_DTYPE, n items
            Receives the rows of the batches, with the position and size of the payload in the arena.
        begin : int
            Index of the first batch.
        arena : writable bytes-like
            Receives the payloads from the position `filled` on.
        filled, enough : int
            The call ends when the arena contains `enough` bytes.
        limit : int
            Largest size of one payload after decompression, in bytes.

        Returns
        -------
        end : int
            Index of the first payload that was not decompressed.
        filled : int
            Number of bytes in the arena.
        needed : int
            Number of bytes that the arena needs for the next payload. 0 if `enough` was reached, if
            no payload is left, or if the next payload is refused: it is invalid, too large, or must be
            decompressed in another way.

        Raises
        ------
        RuntimeError
            Another thread is using this object.
        """

def check_snappy(
    buffer: Buffer,
    positions: IntArray,
    lengths: LengthArray,
    count: int,
    limit: int,
    faults: npt.NDArray[np.int8],
) -> None:
    """Find snappy data that cannot be decompressed, without decompressing it.

    Parameters
    ----------
    positions, lengths : int64 array, int32 array
        Positions and lengths of compressed data. The first `count` items are checked. Each item is a
        raw snappy block, or consists of xerial streams.
    limit : int
        Largest total size of the blocks of an item, in bytes after decompression.
    faults : int8 array of at least `count` items
        Receives an index of SNAPPY_FAULTS for each item, or 0 if the item is valid.

    Raises
    ------
    ValueError
        An item is outside the buffer, or an array is too small.

    Notes
    -----
    The function checks the headers, the stated sizes, and the elements of all blocks. A library may
    reject an item without a fault. For example, the Rust library rejects a literal with a long length if
    fewer than 4 bytes follow its tag. Up to 3 bytes after the last block of a xerial stream are ignored, as in
    Kafka's Java client. The function runs without the GIL.
    """

def find_spans(
    buffer: Buffer,
    positions: IntArray,
    lengths: LengthArray,
    count: int,
    needle: Buffer,
    whole: bool,
    found: IntArray,
) -> int:
    """Find the keys or values that contain a byte string or are equal to it.

    Parameters
    ----------
    positions, lengths : int64 array, int32 array
        Positions and lengths of the values. The first `count` values are searched. A null never
        matches.
    needle : bytes-like
        The byte string. If it is empty, every value that is not null contains it.
    whole : bool
        If True, a value must be equal to `needle`. If False, it must contain `needle`.
    found : int64 array of at least `count` items
        Receives the indexes of the matching values, in ascending order.

    Returns
    -------
    int
        Number of indexes in `found`.

    Raises
    ------
    ValueError
        A value is outside the buffer, or an array is too small.

    Notes
    -----
    The function runs without the GIL.
    """

def format_records(
    buffer: Buffer,
    columns: RecordColumns,
    template: Sequence[bytes | str],
    style: str,
    encoding: str,
    separator: bytes = b"",
    start: int = 0,
    stop: int | None = None,
) -> bytes:
    r"""Format rows of decoded columns as UTF-8 text.

    Parameters
    ----------
    buffer : bytes-like
        The buffer that was decoded.
    columns : RecordColumns
        The columns. Their positions refer to `buffer`. If a column is missing, the value of its
        field is -1 or null, or there are no headers.
    template : sequence of bytes and str
        Literals and names of fields, which are written for each record. A bytes object is written
        unchanged. A str is the name of a field, from `constants.RECORD_FIELDS`:

        - offset, timestamp (in milliseconds), timestampType: numbers
        - time: the timestamp in ISO format; "-" if there is none
        - key, value, headers
        - keyLength, valueLength: sizes in bytes as numbers; -1 for null
        - valueSize: the size of the value as a big-endian int32
    style : str
        Style in which fields are written, from `constants.TEXT_STYLES`:

        - "json": Fields are written as by `text.encode_json`.
        - "text": Fields have the escapes of `text.plain`. Null is ``null``. A text that could be
          confused with a null or an empty field is quoted.
        - "csv": Fields are quoted if necessary. Null is an empty field, and an empty text is ``""``.
          Headers are written as JSON.
        - "escaped_csv": Like "csv", but with the escapes of `text.plain`.
        - "tsv": Fields have the escapes of `text.plain`, and backslashes are doubled. Null is
          ``\N``. Headers are written as JSON.
        - "raw": Fields are written unchanged, even if bytes are not UTF-8. Null is empty.
        - "escaped_raw": Like "raw", but with the escapes of `text.plain`.

        If a record has no timestamp, the timestamp is -1 in "json", a null in "csv" and "tsv", and
        ``-`` in other styles.
    encoding : str
        Encoding in which bytes are converted to text, from `constants.BYTE_ENCODINGS`. With "utf8",
        bytes that are not UTF-8 are written as ``\xNN``.
    separator : bytes, default b""
        Written before each header in the style "text", and between headers in the styles "raw" and
        "escaped_raw".
    start, stop : int, optional
        Rows to format; `stop` is exclusive. By default, all rows are formatted.

    Raises
    ------
    ValueError
        A name is unknown, a row or its headers are not in the columns, or a value is outside the
        buffer.

    Notes
    -----
    The function runs without the GIL.
    """

def gather(
    buffer: Buffer,
    positions: IntArray,
    lengths: LengthArray,
    count: int,
    offsets: LengthArray,
    data: ByteArray,
    validity: ByteArray | None,
    row: int = 0,
    filled: int = 0,
) -> tuple[int, int]:
    """Copy values from a buffer into the arrays of an Arrow binary column.

    Several calls can fill one column.

    Parameters
    ----------
    positions, lengths : int64 array, int32 array
        Positions and lengths of the values. The first `count` values are copied.
    offsets : int32 array
        Receives `count` + 1 offsets, beginning at index `row`.
    data : uint8 array of at most 2**31 - 1 bytes
        Receives the bytes, beginning at index `filled`. Bytes after the returned number `filled`
        are undefined.
    validity : uint8 array, optional
        Receives one bit per value, beginning at bit `row`, least significant bit first. The bit is
        0 if the value is null, and 1 otherwise. None if no bitmap is needed.
    row : int, default 0
        Index of the first row to fill.
    filled : int, default 0
        Number of bytes of `data` that are already in use.

    Returns
    -------
    filled : int
        Number of bytes of `data` that are in use after the call.
    nulls : int
        Number of copied values that are null.

    Raises
    ------
    ValueError
        A value is outside the buffer, or an array is too small. In this case, the arrays can be
        partly filled.

    Notes
    -----
    The function runs without the GIL.
    """

def murmur2(buffer: Buffer) -> int:
    """Return the murmur2 hash of a key as an int32, computed as in Kafka's producers.

    Kafka's counterpart is ``org.apache.kafka.common.utils.Utils.murmur2``.
    """

def murmur2_spans(buffer: Buffer, positions: IntArray, lengths: LengthArray, count: int, hashes: LengthArray) -> None:
    """Compute the murmur2 hashes of keys in a buffer.

    Parameters
    ----------
    positions, lengths : int64 array, int32 array
        Positions and lengths of the keys. The first `count` keys are hashed.
    hashes : int32 array
        Receives the hash of each key, or 0 if the key is null.

    Raises
    ------
    ValueError
        A key is outside the buffer, or an array is too small.

    Notes
    -----
    The function runs without the GIL.
    """

class Record(Generic[BytesT]):
    """One record of a partition.

    Records are hashable. Two records are equal if all their fields except topic and partition are
    equal. Fields are read-only, but the pure-Python core does not enforce this.

    Parameters
    ----------
    offset : int, default 0
    timestamp : int, default -1
        Timestamp in milliseconds since 1970-01-01 UTC; -1 if there is none.
    timestamp_type : int, default 0
        0 for CreateTime, 1 for LogAppendTime, -1 for none (magic 0).
    key, value : bytes, memoryview or None
        The key and value are read-only memoryviews if views were requested, and None if they are
        null.
    headers : tuple of (str, bytes or memoryview or None)
        Keys and values of the headers, in the order in which they are stored.
    topic, partition : str and int, or None
        Where the record was read; None if it was read from a buffer.

    Notes
    -----
    If a field was not read, its value is -1, None or ().
    """

    @property
    def offset(self) -> int:
        """Offset of the record in its partition."""
    @property
    def timestamp(self) -> int:
        """Timestamp in milliseconds since 1970-01-01 UTC; -1 if there is none."""
    @property
    def timestamp_type(self) -> int:
        """Timestamp type: 0 for CreateTime, 1 for LogAppendTime, -1 for none (magic 0)."""
    @property
    def key(self) -> BytesT | None:
        """Key of the record; None if the key is null."""
    @property
    def value(self) -> BytesT | None:
        """Value of the record; None if the value is null."""
    @property
    def headers(self) -> tuple[tuple[str, BytesT | None], ...]:
        """Keys and values of the headers, in the order in which they are stored."""
    @property
    def topic(self) -> str | None:
        """Name of the topic; None if the record was not read from a log."""
    @property
    def partition(self) -> int | None:
        """Number of the partition; None if the record was not read from a log."""
    @property
    def datetime(self) -> Datetime | None:
        """Timestamp as a datetime in UTC; None if the timestamp is -1 or outside the years 1 to 9999."""
    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name. ``Record(**fields)`` creates an equal record."""
    def __init__(
        self,
        offset: int = 0,
        timestamp: int = -1,
        timestamp_type: int = 0,
        key: BytesT | None = None,
        value: BytesT | None = None,
        headers: tuple[tuple[str, BytesT | None], ...] = (),
        topic: str | None = None,
        partition: int | None = None,
    ) -> None: ...
    def __reduce__(self) -> tuple[type[Record[BytesT]], tuple[Any, ...]]: ...

def message_offsets(
    buffer: Buffer, batches: BatchTable, first: IntArray, last: IntArray, count: IntArray, latest: IntArray
) -> None:
    """For each message or wrapper message, compute its offsets, its number of messages and its highest timestamp.

    Parameters
    ----------
    buffer : bytes-like
        Contains the uncompressed payloads.
    batches : array of BATCH_DTYPE
        One row per message or wrapper message.
    first, last, count, latest : int64 array
        Receive the first and the highest offset, the number of messages, and the highest timestamp.
        There is one item per row. Offsets of magic 1 are absolute, and timestamps take the
        timestamp type into account, as in `decode_records`.

    Notes
    -----
    If the messages of a row are corrupted, or if the row's magic is not 0 or 1, its count and its
    timestamp are -1, and both offsets are the row's `base_offset`. If the offsets of the messages do not increase,
    `first` is 2**63 - 1 and `last` is -2**63.

    The function runs without the GIL.
    """

def make_records(
    buffer: Buffer,
    columns: RecordColumns,
    start: int = 0,
    stop: int | None = None,
    views: bool = False,
    topic: str | None = None,
    partition: int | None = None,
) -> list[Record[Any]]:
    """Return rows of decoded columns as `Record` objects.

    Parameters
    ----------
    buffer : bytes-like
        The buffer that was decoded.
    columns : RecordColumns
        The columns. Their positions refer to `buffer`. If a column is missing, the value of its
        field is -1, None or ().
    start, stop : int, optional
        Rows to return; `stop` is exclusive. By default, all rows are returned.
    views : bool, default False
        Return keys, values and header values as read-only memoryviews instead of bytes. Memoryviews
        keep the buffer alive, and prevent a bytearray from being resized.
    topic, partition : str and int, optional
        The fields `topic` and `partition` of all records.

    Raises
    ------
    ValueError
        A row or its headers are not in the columns, or a value is outside the buffer.

    Notes
    -----
    Header keys are decoded from UTF-8 as in Java: malformed bytes become U+FFFD.
    """

class RecordIterator(Generic[BytesT]):
    """Iterates over the records in several lists, like ``itertools.chain.from_iterable``.

    Several threads can share the iterator.

    Each record is returned to exactly one thread. While one thread gets the next list, other
    threads that need this list wait. An exception ends the iteration.

    Parameters
    ----------
    lists : iterable of lists of Record

    Notes
    -----
    ``itertools.chain`` is not used, because CPython's implementation can crash if several threads
    share it: it can release a generator that is still running in another thread.
    """

    def __init__(self, lists: Iterable[list[Record[BytesT]]]) -> None: ...
    def __iter__(self) -> RecordIterator[BytesT]: ...
    def __next__(self) -> Record[BytesT]: ...

def make_values(
    buffer: Buffer, positions: IntArray, lengths: LengthArray, count: int, views: bool = False
) -> list[bytes | memoryview | None]:
    """Return values of a buffer as Python objects.

    Parameters
    ----------
    positions, lengths : int64 array, int32 array
        Positions and lengths of the values. The first `count` values are returned. A null is
        returned as None.
    views : bool, default False
        Return read-only memoryviews instead of bytes.

    Raises
    ------
    ValueError
        A value is outside the buffer, or an array is too small.
    """

class RecordBuffer:
    """Builds batches in a growing buffer, which contains closed batches and then one open batch.

    In magic 0 and 1 without a codec, a batch is a sequence of messages without a batch header.
    Closing such a batch writes nothing, and only begins the next batch.

    Parameters
    ----------
    magic : {0, 1, 2}, default 2
    attributes : int, default 0
        Attributes of every batch. In magic 0 and 1, these are the attributes of the wrapper message
        or of every message. The attributes are not checked.
    max_size : int, optional
        Largest size of the open batch in bytes, including the header, before compression. The first
        record is accepted even if the batch becomes larger. By default, the largest possible size,
        2**31 - 1.
    base_offset : int, optional
        Base offset of the first batch. By default, it is the offset of the first record. The base
        offset of every later batch is the offset of its first record.
    leader_epoch, producer_id, producer_epoch, base_sequence : int, default -1
        Header fields of magic 2; -1 means none. `base_sequence` applies to the first batch. The
        base sequence of a later batch is computed from the offsets of the previous batch.
    append_time : int, default -1
        Timestamp (ms) of every batch if `attributes` has the LogAppendTime bit set.
    delete_horizon : int, default -1
        Base timestamp (ms) of every batch if `attributes` has the delete horizon bit set.

    Raises
    ------
    ValueError
        `magic` is unknown, or `base_offset` or `max_size` is negative.
    """

    base_offset: int
    """Base offset of the open batch."""
    next_offset: int
    """Offset of the next record that is appended without an offset."""
    count: int
    """Number of records in the open batch."""
    max_timestamp: int
    """Highest timestamp in the open batch in ms; -1 if the batch has no records."""
    producer_id: int
    """Producer id of every batch; -1 if there is none."""
    base_sequence: int
    """Base sequence of the open batch; -1 if there is none."""
    stored: bool
    """Whether the records are copied from stored batches, which can contain any timestamp. By default False: a
    timestamp below -1 is rejected.
    """

    def __init__(
        self,
        magic: int = 2,
        attributes: int = 0,
        max_size: int | None = None,
        base_offset: int | None = None,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        append_time: int = -1,
        delete_horizon: int = -1,
    ) -> None: ...
    @property
    def size(self) -> int:
        """Size of the open batch in bytes, including the header, before compression."""
    @property
    def closed_size(self) -> int:
        """Size of all closed batches in bytes."""
    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        timestamp: int = -1,
        headers: Iterable[tuple[str | Buffer, Buffer | None]] | dict[str, Any] | dict[bytes, Any] | None = (),
        offset: int | None = None,
    ) -> bool:
        """Append a record to the open batch.

        Parameters
        ----------
        key, value : bytes-like or None
        timestamp : int, default -1 (none)
            Milliseconds since 1970-01-01 UTC.
        headers : iterable of (str or bytes-like, bytes-like or None), or dict, optional
        offset : int, optional
            Offset of the record. By default, `next_offset`.

        Returns
        -------
        bool
            True if the record was added, False if it does not fit into the open batch.

        Raises
        ------
        InvalidError
            The record breaks a rule and is not added. `InvalidError.code` is the name of the rule.
            The error's position is the size of the open batch. The rules are:

            - The offset must not be lower than `next_offset`, or more than 2**31 - 1 above the base
              offset.
            - The timestamp must not be below -1.
            - In magic 0 and 1, a record must not have headers.
            - In magic 0, a record must not have a timestamp.
        TooLargeError
            The record is larger than any batch can be. The record is not added.
        """
    def has_room_for(
        self,
        key: Buffer | None,
        value: Buffer | None,
        timestamp: int = -1,
        headers: Iterable[tuple[str | Buffer, Buffer | None]] | dict[str, Any] | dict[bytes, Any] | None = (),
        offset: int | None = None,
    ) -> bool:
        """Check a record without appending it. The result or error is the same as that of `append`."""
    def extend(self, records: Sequence[Any], start: int = 0) -> int:
        """Append records of a list or tuple until a record does not fit.

        Parameters
        ----------
        records : list or tuple
            Each record is a tuple of the arguments of `append`, in their order, or a `Record`. A
            `Record` keeps its offset, unless the offset is -1. The timestamp type of a `Record` is
            not used.
        start : int, default 0
            Index of the first record to append.

        Returns
        -------
        int
            Index of the first record that was not appended.

        Raises
        ------
        ValueError
            Some records are `Record` objects that keep their offsets, and others have no offset.
        InvalidError, TooLargeError
            Raised in the same cases as by `append`. The records before the faulty record are added.
        """
    def append_columns(
        self,
        keys: Spans | None,
        values: Spans | None,
        timestamps: IntArray | None,
        offsets: IntArray | None,
        headers: HeaderSpans | None,
        start: int,
        stop: int,
        many: bool = False,
    ) -> int:
        """Append rows of columns until a row does not fit.

        Parameters
        ----------
        keys, values : Spans, optional
            None if all keys or values are null.
        timestamps : int64 array, optional
            Timestamps in ms. None if all timestamps are -1.
        offsets : int64 array, optional
            None if each record gets the next offset.
        headers : HeaderSpans, optional
            None if no record has headers.
        start, stop : int
            Rows to append; `stop` is exclusive.
        many : bool, default False
            When a batch is full, close it and begin the next batch, so that all rows are appended.
            This is not possible with a codec.

        Returns
        -------
        int
            Index of the first row that was not appended.

        Raises
        ------
        ValueError
            A key or value is outside its buffer, or `many` is True and there is a codec. The rows
            before the faulty row are added.
        InvalidError, TooLargeError
            Raised in the same cases as by `append`. The rows before the faulty row are added.

        Notes
        -----
        The function runs without the GIL. In the native core, all other method calls on this buffer
        raise RuntimeError while this call is running.
        """
    def records(self) -> bytes:
        """Return the uncompressed records of the open batch, without the batch header."""
    def close(self, compressed: Buffer | None = None, last_offset: int | None = None, count: int | None = None) -> int:
        """Close the open batch and begin the next batch.

        Parameters
        ----------
        compressed : bytes-like, optional
            Compressed records, which replace the records of the batch. Required if the attributes
            contain a codec, and not allowed otherwise.
        last_offset : int, optional
            Last offset of the batch, if it is higher than the offset of the last record. The
            offsets and sequence numbers of the next batch continue after `last_offset`.
        count : int, optional
            Number of records that `compressed` contains.

        Returns
        -------
        int
            Size of the closed batch in bytes. If the open batch has no records, nothing is closed,
            and the result is 0.

        Raises
        ------
        RuntimeError
            The batch does not have `count` records, because another thread has appended records
            after the records were compressed.
        ValueError
            `last_offset` is too low or too high, or `compressed` is missing or not allowed.
        TooLargeError
            The compressed records do not fit into a batch.
        """
    def take_closed(self) -> bytes:
        """Return all closed batches as bytes, and remove them. Keep the open batch."""
    def take_batches(self) -> list[bytes]:
        """Return a list of the closed batches, and remove them. Keep the open batch."""

class Layout:
    """Reads and writes one version of a structure of the wire protocol.

    A layout describes the encoding of the structure's fields, and the slots of a message object in
    which the values of the fields are stored.

    Parameters
    ----------
    message_type : type
        Class with `__slots__`. Every slot must be named in `fields`, `tagged` or `absent`, except
        `unknown_tagged_fields`.
    version : int
        Version of the message, for error messages.
    fields : sequence of tuples
        The fields in the order in which they are encoded. Each field is a tuple (name, kind, array,
        nullable, compact, layout, default):

        - name: str, name of the slot
        - kind: int, index of WIRE_TYPES
        - array: bool, whether the field is an array of this kind
        - nullable: bool, whether the field can be null. Elements of an array cannot be null.
        - compact: bool, whether lengths are encoded as varints
        - layout: Layout of the structure if the field is a structure, else None
        - default: value of the field in a new message. If the default is a type, this type is
          called to create the value.
    tagged : sequence of (tag, field), optional
        Tagged fields. Record data cannot be tagged.
    absent : sequence of (name, default, ignorable), optional
        Fields that this version does not have. If such a field has a value other than the default,
        the message cannot be written, unless `ignorable` is True.
    flexible : bool, default False
        Whether tagged fields follow the other fields (KIP-482).
    """

    def __init__(
        self,
        message_type: type,
        version: int,
        fields: Sequence[tuple[Any, ...]],
        tagged: Sequence[tuple[int, tuple[Any, ...]]] = (),
        absent: Sequence[tuple[str, Any, bool]] = (),
        flexible: bool = False,
    ) -> None: ...
    def read(
        self, buffer: Buffer, start: int = 0, end: int | None = None, max_objects: int | None = None
    ) -> tuple[Any, int]:
        """Read the message that begins at `start`.

        Parameters
        ----------
        buffer : bytes-like
            The buffer that contains the message.
        start, end : int
            The range of the buffer to read. By default, the whole buffer.
        max_objects : int, default MAX_OBJECTS
            Largest number of objects in the message. Arrays, array elements other than numbers, and
            unknown tagged fields count as objects.

        Returns
        -------
        message : instance of `message_type`
            The message, which is created without calling `__init__`. Fields that the version does
            not have get their default values. Unknown tagged fields are stored in
            `unknown_tagged_fields`, a tuple of (tag, bytes) pairs. Record data is a memoryview of
            the buffer. All other values are copied.
        position : int
            The position after the message.

        Raises
        ------
        TruncatedError
            A field ends after `end`.
        StructureError
            A field that is not nullable is null, a string has more than MAX_STRING bytes, or tags
            do not increase.
        TooLargeError
            The message contains more than `max_objects` objects.

        Notes
        -----
        Error messages name the field. Strings that are not valid UTF-8 are decoded as in Java:
        malformed bytes become U+FFFD.
        """

def write_messages(
    layouts: Sequence[Layout], messages: Sequence[Any], framed: bool = False
) -> list[bytes | memoryview]:
    """Encode messages back to back, for example a header and a body.

    Parameters
    ----------
    layouts : sequence of Layout
        One layout for each message.
    messages : sequence of message objects
    framed : bool, default False
        Write the total size of the messages in bytes, as an int32, before the first message.

    Returns
    -------
    list of bytes and memoryview
        The encoded messages, in order. Record data is not copied: each buffer of record
        data is a separate memoryview in the list.

    Raises
    ------
    ValueError
        A value cannot be represented in this version. Examples are None in a field that is not
        nullable, and a number or string that is out of range. An absent field must be ignorable or
        have its default value.
    TypeError
        A value has the wrong type.

    Notes
    -----
    A tagged field is written only if its value differs from the default.
    """

class ProducerTable:
    """The states of a partition's producers.

    States are passed as bytes, in the layout of the entries of a producer snapshot: 46 bytes for each
    producer, with producer id (int64), producer epoch (int16), last sequence number (int32), last offset
    (int64), last offset delta (int32), timestamp (int64), coordinator epoch (int32), and first offset of
    the open transaction (int64, negative if no transaction is open).

    Parameters
    ----------
    states : bytes-like, default b""
        The initial states. If a producer occurs several times, its last state is used.

    Raises
    ------
    ValueError
        The size of `states` is not a multiple of 46.
    """

    def __init__(self, states: Buffer = b"") -> None: ...
    def __len__(self) -> int: ...
    def update(self, rows: BatchTable, markers: dict[int, MarkerT]) -> list[tuple[int, int, int, int]]:
        """Update the states with the next batches of a log.

        Parameters
        ----------
        rows : array of BATCH_DTYPE
            The batch headers, in offset order.
        markers : dict of int to tuple
            The markers in the control batches, from `read_markers`.

        Returns
        -------
        list of (int, int, int, int)
            The transactions that the markers abort: producer id, first offset, offset of the marker, and
            last stable offset after the marker.

        Raises
        ------
        TypeError, ValueError
            An argument is wrong.
        """

    def forget(self, before: int) -> None:
        """Remove each producer that has no open transaction and whose timestamp is below `before` (in ms)."""

    def first_open(self) -> int | None:
        """Return the first offset of the oldest open transaction, or None if no transaction is open."""

    def state_of(self, producer_id: int) -> bytes | None:
        """Return the state of a producer, or None if there is none."""

    def all_states(self) -> bytes:
        """Return all states, ordered by producer id."""

    def open_states(self) -> bytes:
        """Return the states with an open transaction, ordered by the first offset of the transaction."""

    def contains(self, states: Buffer) -> bool:
        """Return whether all given states are equal to states in the table."""

    def differing(self, states: Buffer, offset: int) -> bytes:
        """Return those of the given states that must be checked, because they differ from the states in the table.

        A state is also returned if the table has no state of its producer, or if it contains an offset that is
        at least `offset`. Timestamps and coordinator epochs are not compared.
        """

    def open_besides(self, states: Buffer) -> tuple[int, bytes | None]:
        """Count the producers that have an open transaction and are not in `states`.

        Return their number, and the state of the one whose transaction was opened first. If the number is
        0, return None instead of the state.
        """
