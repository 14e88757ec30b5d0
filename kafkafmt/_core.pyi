"""The contract of both cores: `_core` in Cython and C, and `_pure` in Python.

A *buffer* is any object with a C-contiguous buffer: bytes, bytearray, memoryview, mmap, a NumPy
array or an Arrow buffer. A call holds it without copying it, so a bytearray cannot be resized
meanwhile. Only `write_offsets`, `number_batches`, `number_buffer` and `validate_buffer` write to a
buffer.

`start` and `end` are positions in the buffer, in bytes. `end` is exclusive; None is the end of the
buffer. Returned positions also count from the start of the buffer, not from `start`.

A *span* is a position in a buffer and a length in bytes; length -1 is null. Arrays are C-contiguous
and aligned, have the dtypes given here, and belong to the caller. No other thread may write to them
or resize them during a call.

Corrupted data raises `KafkaFormatError` or returns it, as documented. Wrong arguments raise
TypeError or ValueError; an integer that does not fit its C type raises OverflowError. "Without the
GIL" says that other threads run during the call, in the native core.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Generic

from typing_extensions import TypeVar

from .errors import KafkaFormatError
from .types import BatchTable, Buffer, ByteArray, HeaderSpans, IntArray, LengthArray, RecordColumns, Scan, Spans

BytesT = TypeVar("BytesT", bound=bytes | memoryview, default=bytes, covariant=True)
"""Type of a record's key, value and header values: bytes, unless memoryviews were asked for."""

def read_varint(buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """Read a zigzag varint of 32 bits, which has at most 5 bytes.

    Bits above the 32nd are dropped, as Kafka's ``ByteUtils`` does.

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

    Bits above the 64th are dropped, as Kafka's ``ByteUtils`` does.

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

    Bits above the 32nd are dropped, as Kafka's ``ByteUtils`` does.

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
    """Return the CRC-32C (Castagnoli) of the bytes, as in batches of magic 2.

    Parameters
    ----------
    value : int, default 0
        CRC-32C of the bytes before them, to continue a computation. Only the low 32 bits are used.
    """

def crc32(buffer: Buffer, value: int = 0, start: int = 0, end: int | None = None) -> int:
    """Return the CRC-32 (that of gzip) of the bytes, as in messages of magic 0 and 1.

    Parameters
    ----------
    value : int, default 0
        CRC-32 of the bytes before them, to continue a computation. Only the low 32 bits are used.
    """

def crc32c_of_rest(whole: int, prefix: int, size: int) -> int:
    """Return the CRC-32C of the last `size` bytes of some data.

    It is derived from the CRCs of the data and of the bytes before them, as by zlib's
    ``crc32_combine``. The formula is its own inverse: with the CRC of the last bytes in place of
    `whole`, the result is the CRC of all of the data.

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

    It is derived from the CRCs of the data and of the bytes before them, as by zlib's
    ``crc32_combine``. The formula is its own inverse: with the CRC of the last bytes in place of
    `whole`, the result is the CRC of all of the data.

    Parameters
    ----------
    whole : int
        CRC-32 of all of the data.
    prefix : int
        CRC-32 of the bytes before the last `size` bytes.
    size : int
        Number of bytes, 0 or more.
    """

def crc32c_way(way: int | None = None) -> str:
    """Return the name of the method that computes CRC-32C, and optionally choose another one.

    Tests use it to reach every method.

    Parameters
    ----------
    way : {0, 1, 2}, optional
        Method for the whole process, from the slowest (0) to the fastest (2). A method that this
        processor does not have is ignored. The pure-Python core has one method and ignores `way`.
    """

def scan_batches(
    buffer: Buffer, table: BatchTable, start: int = 0, end: int | None = None, check_crc: bool = True
) -> Scan:
    """Read the headers of successive batches and messages into a table.

    This is Kafka's shallow iteration: nothing is decompressed or decoded. Only length, magic and
    CRC are checked; `decode_records` checks counts and deltas.

    Parameters
    ----------
    table : array of BATCH_DTYPE
        Filled from row 0 on, one row per batch or message.
    start, end : int, optional
        Range of the buffer to scan. By default all of it.
    check_crc : bool, default True
        Compare the CRC of each batch with its crc field.

    Returns
    -------
    Scan
        `count` rows of `table` are filled, and `position` is where the scan ended. Rows before an
        error are valid.

    Notes
    -----
    The scan ends at the first of these:

    - The end of the range, or a batch that continues after it. This is no error: ``end - position``
      bytes are incomplete.
    - A batch for which `table` has no row. This is no error: ``count == len(table)``.
    - A length field that no batch can have (StructureError), an unknown magic (UnsupportedError)
      or, with `check_crc`, a CRC that does not match (ChecksumError). `Scan.error` is the error; it
      is not raised. Its position is that of the batch. Its `resume` is the end of the batch
      according to the length field, or None if that length is impossible or ends after the range.

    A length or magic is checked even if `table` has no row for the batch. A CRC is not.

    Runs without the GIL.
    """

def find_batch(buffer: Buffer, start: int = 0, end: int | None = None, check_crc: bool = True) -> int | None:
    """Return the first position at which a batch or message begins, or None.

    Parameters
    ----------
    check_crc : bool, default True
        Require that the whole batch is before `end` and that its CRC matches. If False, only the
        header is checked, and the batch may end after `end`.

    Notes
    -----
    These parts of the header are checked: magic, base offset, length, codec and attribute bits. In
    magic 2, last offset delta and count must not be negative. In magic 0 and 1, key and value must
    fill the message.

    Takes time linear in the number of bytes, whatever lengths the headers claim. Runs without the
    GIL.
    """

def find_batches(
    buffer: Buffer, found: IntArray, beyond: IntArray, start: int = 0, end: int | None = None, lowest_offset: int = 0
) -> tuple[int, int, int]:
    """Find every valid batch or message that begins in a range, even inside another one.

    Parameters
    ----------
    found : int64 array
        Gets the positions of batches that are complete in the buffer and whose CRC matches.
    beyond : int64 array of shape (n, 2)
        Gets, for each plausible header whose batch ends after the buffer, its position, and the CRC
        of the bytes that the crc field covers up to the end of the buffer.
    start, end : int, optional
        Range in which the batches begin. They may end after `end`, up to the end of the buffer.
    lowest_offset : int, default 0
        A header goes into `beyond` only if its offset is from `lowest_offset` to `lowest_offset` +
        2**31 - 1. In ordinary data, many positions look like a header with another offset.

    Returns
    -------
    found_count, beyond_count : int
        Number of rows filled in `found` and in `beyond`.
    position : int
        `end`, or the position of the first batch for which an array had no row left.

    Notes
    -----
    Headers are checked as by `find_batch`. Takes time linear in the number of bytes, whatever
    lengths the headers claim. Runs without the GIL.
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
) -> tuple[int, int, int, int, int | None, KafkaFormatError | None]:
    """Scan valid batches, and skip batches whose CRC does not match, by their length fields.

    Parameters
    ----------
    table : array of BATCH_DTYPE
        Gets one row per valid batch.
    spans : int64 array of shape (n, 7)
        Gets one row per skipped batch: its position and end, the number of valid batches before it,
        its magic, the CRC of its bytes, its crc field, and 1 if a plausible header in it claims a
        batch that ends after the file, else 0.
    start, end : int, optional
        Range of the buffer to scan. By default all of it.
    file_end : int, optional
        Position at which the file ends, counted from the start of the buffer. By default the end of
        the buffer.
    expected : int, default 0
        Lowest offset that the first batch can have. It increases with each valid batch, unless that
        does not continue the one before.
    last : int, optional
        Last offset of the valid batch directly before `start`. None if there is damage before
        `start`.

    Returns
    -------
    valid_count, skipped_count : int
        Number of rows filled in `table` and in `spans`.
    position : int
        Position of the first batch that is neither valid nor skipped.
    expected : int
        The value of `expected` at `position`.
    last : int or None
        The value of `last` at `position`.
    error : KafkaFormatError or None
        The error that `scan_batches` reports at `position`.

    Notes
    -----
    A batch whose CRC does not match is skipped if both of these hold:

    - Its header and the header after it have offsets from `expected` to `expected` + 2**31 - 1, a
      known magic and a possible length.
    - No valid batch begins between the two headers, and no plausible header with an offset in this
      range whose batch ends after the second header. A batch that would end after `file_end` is not
      valid, and its header does not count.

    The scan ends before the first of these:

    - a batch that continues after `end`, or another batch that is neither valid nor skipped
    - a wrapper message, a batch with a negative last offset delta, or a batch whose next offset
      would exceed 2**63 - 1
    - a batch for which `table` or `spans` has no row

    Runs without the GIL.
    """

def scan_extents(buffer: Buffer, table: BatchTable, extents: IntArray) -> tuple[int, int]:
    """Scan the batches of planned extents, and check that they are as planned.

    Parameters
    ----------
    table : array of BATCH_DTYPE
        Gets one row per batch.
    extents : int64 array of shape (n, 4)
        Position, end, number of batches and last offset of each extent.

    Returns
    -------
    extent_count : int
        Number of extents before the first one whose batches are not all valid, do not end with it,
        have another number or another last offset, or do not fit `table`.
    row_count : int
        Number of rows filled in `table`, for these extents.

    Notes
    -----
    Runs without the GIL.
    """

def resume_after(
    buffer: Buffer,
    found: IntArray,
    position: int,
    origin: int,
    scanned_to: int,
    file_end: int,
    zero_tail: int,
    expected: int,
) -> tuple[int, bool] | None:
    """Find where reading resumes after a damaged batch, in common cases.

    The rules are those of `kafkafmt.log.reading.search`, which decides the other cases.

    Parameters
    ----------
    buffer : bytes-like
        Bytes of the file from `origin` on. All other positions are those of the file.
    found : int64 array
        Positions of the valid batches that begin between `position` and `scanned_to`, in order.
        Lower positions are ignored.
    position : int
        Position of the damaged batch.
    origin : int
        Position of the buffer in the file.
    scanned_to : int
        Position up to which the file was searched for valid batches.
    file_end, zero_tail : int
        The end of the file, and the position at which the zeros at its end begin.
    expected : int
        Lowest offset that the damaged batch can have.

    Returns
    -------
    position : int
        Where reading resumes.
    own : bool
        Whether the damaged batch's own CRC matches up to that position, so that only its length
        field is corrupted.

    None is returned instead if the case is not a common one, or if more of the file has to be
    searched. This is so if the damaged batch's length field leads to a possible header or to the
    end of the file, if a batch of magic 0 or 1 is involved, if a batch that was found may be inside
    another one, or if the bytes that decide are not in the buffer.

    Notes
    -----
    Runs without the GIL.
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
    """Compute the heaviest chain that ends with each extent.

    A chain is a sequence of extents (runs of batches) whose offsets increase. Used to decide which
    extents to trust if their offsets contradict each other.

    Parameters
    ----------
    first, last : int64 array of n items
        First and last offset of each extent, in the order of their positions.
    weight : int64 array of n items
        Score that an extent adds to its chain.
    left_out : int64 array of n + 1 items
        Number of offsets that were left out before each extent, and in total.
    damage : int64 array of n items
        Number of damaged spans before each extent.
    start_bonus : int64 array of n items
        Score that an extent adds if its chain begins with it.
    parent : int64 array of n items
        Gets the index of the predecessor, or -1 for the first extent of a chain.
    score : int64 array of n items
        Gets the score of the heaviest chain that ends with the extent.
    reach : int
        Each extent is compared with this number of extents before it.

    Notes
    -----
    For each extent after the first, the score of a chain changes by 1 if the extent continues the
    one before without a gap. It does not change if the gap equals the number of offsets left out
    between the two, or if there is damage between them. Otherwise it changes by -1. Of predecessors
    with equal scores, the earliest is chosen. Runs without the GIL.
    """

def decode_records(
    buffer: Buffer,
    batches: BatchTable,
    columns: RecordColumns,
    first_offset: int = -9223372036854775808,
    end_offset: int | None = None,
) -> KafkaFormatError | None:
    """Decode the records of a table of uncompressed batches into columns.

    This is Kafka's deep iteration.

    Parameters
    ----------
    buffer : bytes-like
        Contains the payloads, uncompressed.
    batches : array of BATCH_DTYPE
        These fields are used: base_offset, base_timestamp, max_timestamp, last_offset_delta, count,
        attributes (only the timestamp type, and in messages the codec), magic, payload_position and
        payload_size. `position` is used in error messages only.
    columns : RecordColumns
        Rows are appended at `columns.rows`, headers at `columns.headers`. `columns.cursor` is where
        decoding starts and ends.
    first_offset, end_offset : int, optional
        Only records with ``first_offset <= offset < end_offset`` are stored; the others are
        checked. If `end_offset` is None, there is no end: an exclusive end could not include the
        offset 2**63 - 1.

    Returns
    -------
    KafkaFormatError or None
        None if all batches are decoded (``cursor[0] == len(batches)``), or if the columns are full.
        In the second case, empty the columns (``columns.clear()``) and call again with the same
        arguments to continue. An error is returned, not raised:

        - StructureError: a batch or record is corrupted. The error's position is that of the
          record; for a wrong record count, that of the payload; for bytes after the last record,
          that of the first such byte.
        - TooLargeError: a record has more than `columns.max_headers` headers, and headers are
          decoded.
        - UnsupportedError: the magic of a batch is unknown. The error's position is that of the
          batch.

        Rows stored before the error are valid and belong to earlier batches. ``cursor[0]`` is the
        index of the faulty batch; to continue after it, add 1 (``cursor[1]`` is 0 then).

    Raises
    ------
    ValueError
        A payload is outside the buffer, the cursor is outside its batch, or an array is too small.
    TypeError
        Some of the arrays of a column are None and others are not, or only one of key and value is
        copied.

    Notes
    -----
    A batch is stored completely or not at all, so records of a corrupted batch are never delivered.
    A batch that is larger than the empty columns is checked completely first, and then stored in
    parts.

    With LogAppendTime, every record gets the batch's maximum timestamp. Timestamps that int64
    microseconds cannot hold become MICROS_BEYOND, missing ones (magic 0) MICROS_NONE; either sets
    `columns.odd_times`. Control batches are decoded like any others. Fields of a record after the
    last one that the columns need are not decoded, and corruption there is not reported.

    ``columns.cursor`` is an int64 array of 4 items: [0] index of the batch, [1] number of its
    records already decoded, [2] position of the next record, [3] offset delta of the record before
    it. [2] and [3] have no meaning if [1] is 0.

    If the headers of one record do not fit the empty header arrays, `columns.grow_headers` replaces
    these. `CopiedColumns` get copies of keys and values in Arrow's layout instead of spans. They
    are also full if the bytes of a batch do not fit; if a single record does not fit the empty data
    arrays, `columns.grow_data` replaces these.

    Runs without the GIL.
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
    """Decode plain batches directly into columns: the fast path of a scan and a decode.

    A batch is plain if it has magic 2, no codec and no control bit, its CRC matches, all its
    records are valid, and all its offsets are in ``first_offset <= offset < end_offset``. The
    native core also requires, if keys or values are copied, that enough bytes of the buffer follow
    the batch. The pure-Python core decodes no batch and returns `start`.

    Parameters
    ----------
    columns : RecordColumns
        Rows are appended at `columns.rows`. The cursor is neither used nor changed.
    start, end : int, optional
        Range of the buffer to decode. By default all of it.
    first_offset, end_offset : int, optional
        Offsets that are wanted. By default all; None is no end.
    check_crc : bool, default True
        Compare the CRC of each batch with its crc field.

    Returns
    -------
    int
        The position after the last decoded batch. Decoding stops there, without an error, at the
        first batch that is not plain, or that might not fit the columns. In the second case
        `columns.full` is True, otherwise False.

    Notes
    -----
    `scan_batches` and `decode_records` read the batch at the returned position, or report its
    error. Runs without the GIL.
    """

def write_offsets(buffer: Buffer, batches: BatchTable) -> None:
    """Write the offset and the leader epoch of each row of a table into its batch.

    The CRC of magic 2 covers neither.

    Parameters
    ----------
    buffer : writable bytes-like
        Changed in place.
    batches : array of BATCH_DTYPE
        `base_offset` is written at `position`; for a message of magic 0 or 1, it is the message's
        offset. In magic 2, `leader_epoch` is written too.

    Raises
    ------
    ValueError
        A batch is outside the buffer. Then nothing is written.

    Notes
    -----
    Runs without the GIL.
    """

def number_batches(buffer: Buffer, batches: BatchTable, next_offset: int, leader_epoch: int | None = None) -> int:
    """Assign consecutive offsets to the batches of a table, and write them into the buffer.

    A batch takes last offset delta + 1 offsets. A wrapper message, whose `count` is negative, gets
    the last of its offsets.

    Parameters
    ----------
    buffer : writable bytes-like
        Changed in place.
    batches : array of BATCH_DTYPE
        Of each row, `position`, `last_offset_delta`, `count` and `magic` are used.
    next_offset : int
        Offset of the first record, 0 or higher.
    leader_epoch : int, optional
        Written into batches of magic 2. By default, their leader epochs stay as they are.

    Returns
    -------
    int
        The offset after the last batch.

    Raises
    ------
    ValueError
        A batch is outside the buffer, a last offset delta is negative, or an offset would exceed
        2**63 - 1. Then nothing is written.
    OverflowError
        `next_offset` or `leader_epoch` does not fit its field.

    Notes
    -----
    Runs without the GIL.
    """

def number_buffer(
    buffer: Buffer, next_offset: int, leader_epoch: int | None = None, check_crc: bool = True
) -> int | None:
    """Check all batches of a buffer and assign consecutive offsets to them, without a table.

    Parameters
    ----------
    buffer : writable bytes-like
        Changed in place, unless None is returned.
    next_offset : int
        Offset of the first record, 0 or higher.
    leader_epoch : int, optional
        Written into batches of magic 2. By default, their leader epochs stay as they are.
    check_crc : bool, default True
        Compare the CRC of each batch with its crc field.

    Returns
    -------
    int or None
        The offset after the last batch. None, with the buffer unchanged, if a batch is corrupted,
        incomplete or a wrapper message, has a negative count or last offset delta, or would get an
        offset above 2**63 - 1. `scan_batches` then says what is wrong.

    Notes
    -----
    The native core writes the fields of a batch while the batch is in the CPU cache, and restores
    them if a later batch fails. Other threads can see offsets that are restored afterwards. Runs
    without the GIL.
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

    Only batches that a broker would append without re-encoding are accepted.

    This is the fast path of ``records.LogValidator``.

    Parameters
    ----------
    buffer : writable bytes-like
        Batches of magic 2 with CreateTime. Changed in place, unless None is returned.
    next_offset : int
        Offset of the first record, 0 or higher.
    leader_epoch : int
        Written into every batch.
    client : bool
        Require exactly one batch, with base offset 0, a count of last offset delta + 1, no control
        bit, and a base sequence if it has a producer id.
    codec : int, optional
        Require this codec id. By default, any codec is accepted.
    max_size : int, optional
        Largest size of a batch in bytes, header included. By default, there is no limit.
    check_records : bool
        Check the records. Then every batch must be uncompressed and contain a record, every record
        must be valid, and the highest timestamp must be that of the header.
    compacted : bool
        With `check_records`, require that no key is null.
    earliest, latest : int
        With `check_records` and without `append_time`: range of the timestamps, in ms, both ends
        inclusive. A batch whose timestamps are all -1 is accepted too.
    append_time : int, optional
        Write this timestamp (ms) and LogAppendTime into every batch, and compute its CRC again.
        Timestamps of records are not checked then.

    Returns
    -------
    tuple of int, or None
        Number of records, offset after the last batch, maximum timestamp (ms), and offset of the
        first record that has it (-1 without `check_records`, or if there are no timestamps). With
        `append_time`, the last two are `append_time` and `next_offset`. None, with the buffer
        unchanged, if a rule is broken or this function cannot decide. The data can still be valid.

    Notes
    -----
    As in `number_buffer`, other threads can see fields that are restored afterwards. Runs without
    the GIL.
    """

def look_at_payload(payload: Buffer, count: int, last_offset_delta: int) -> tuple[int, int, int, bool] | None:
    """Check the records of one uncompressed payload and summarize them for `validate_buffer`.

    Parameters
    ----------
    payload : bytes-like
        The records of a batch of magic 2, uncompressed.
    count : int
        Number of records according to the header.
    last_offset_delta : int
        Highest offset delta according to the header.

    Returns
    -------
    tuple or None
        Lowest and highest timestamp delta (ms), the offset delta of the first record that has the
        highest, and whether a key is null. None if `payload` is not exactly `count` valid records
        with increasing offset deltas up to `last_offset_delta`, or if `count` is 0 or less.

    Notes
    -----
    Runs without the GIL.
    """

def total_length(lengths: LengthArray, count: int) -> int:
    """Return the sum of the first `count` lengths (int32, bytes); a null adds 0."""

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
    """Copy spans of a buffer into the arrays of an Arrow binary column.

    Several calls can fill one column.

    Parameters
    ----------
    positions, lengths : int64 array, int32 array
        The spans. The first `count` are copied.
    offsets : int32 array
        Gets `count` + 1 entries, from `row` on.
    data : uint8 array of at most 2**31 - 1 bytes
        Gets the bytes, from `filled` on. Bytes after the returned end are undefined.
    validity : uint8 array, optional
        Gets one bit per span, from bit `row` on, least significant bit first; 1 is not null. None
        if no bitmap is needed.
    row : int, default 0
        Index of the first row to fill.
    filled : int, default 0
        Bytes of `data` already in use.

    Returns
    -------
    filled : int
        Bytes of `data` now in use.
    nulls : int
        How many of the spans are null.

    Raises
    ------
    ValueError
        A span is outside the buffer, or an array is too small. The arrays can be partly filled
        then.

    Notes
    -----
    Runs without the GIL.
    """

def murmur2(buffer: Buffer) -> int:
    """Return the murmur2 hash of a key, an int32, as Kafka's producers compute it.

    Kafka: ``org.apache.kafka.common.utils.Utils.murmur2``.
    """

def murmur2_spans(buffer: Buffer, positions: IntArray, lengths: LengthArray, count: int, hashes: LengthArray) -> None:
    """Compute the murmur2 hashes of spans of a buffer.

    Parameters
    ----------
    positions, lengths : int64 array, int32 array
        The spans. The first `count` are hashed.
    hashes : int32 array
        Gets the hashes; 0 for a null.

    Raises
    ------
    ValueError
        A span is outside the buffer, or an array is too small.

    Notes
    -----
    Runs without the GIL.
    """

class Record(Generic[BytesT]):
    """One record of a partition.

    Records are equal if all their fields are equal, and are hashable. Fields are read-only; the
    pure-Python core does not enforce this.

    Parameters
    ----------
    offset : int
    timestamp : int
        Milliseconds since 1970-01-01 UTC; -1 if there is none.
    timestamp_type : int
        0 CreateTime, 1 LogAppendTime, -1 none (magic 0).
    key, value : bytes, memoryview or None
        A read-only memoryview if views were requested; None if the field is null.
    headers : tuple of (str, bytes or memoryview or None)
        Keys and values of the headers, in the order in which they are stored.

    Notes
    -----
    If a field was not read, its value is -1, None or ().
    """

    @property
    def offset(self) -> int:
        """Offset of the record in its partition."""
    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970-01-01 UTC; -1 if there is none."""
    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime, -1 none (magic 0)."""
    @property
    def key(self) -> BytesT | None:
        """None if the key is null."""
    @property
    def value(self) -> BytesT | None:
        """None if the value is null."""
    @property
    def headers(self) -> tuple[tuple[str, BytesT | None], ...]:
        """Keys and values of the headers, in the order in which they are stored."""
    def __init__(
        self,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: BytesT | None = None,
        value: BytesT | None = None,
        headers: tuple[tuple[str, BytesT | None], ...] = (),
    ) -> None: ...
    def __reduce__(self) -> tuple[type[Record[BytesT]], tuple[Any, ...]]: ...

def message_offsets(buffer: Buffer, batches: BatchTable, first: IntArray, last: IntArray, count: IntArray) -> None:
    """Compute the first offset, the highest offset and the number of messages of each row.

    Parameters
    ----------
    buffer : bytes-like
        Contains the payloads, uncompressed.
    batches : array of BATCH_DTYPE
        One row per message or wrapper message.
    first, last, count : int64 array
        Get the results, one item per row. Offsets of magic 1 are absolute, computed as by
        `decode_records`.

    Notes
    -----
    If the messages of a row are corrupted, or the row has another magic, its count is -1 and both
    offsets are the row's `base_offset`. If the offsets of the messages do not increase, `first` is
    2**63 - 1 and `last` is -2**63.

    Runs without the GIL.
    """

def make_records(
    buffer: Buffer, columns: RecordColumns, start: int = 0, stop: int | None = None, views: bool = False
) -> list[Record[Any]]:
    """Return rows of decoded columns as `Record` objects.

    Parameters
    ----------
    buffer : bytes-like
        The buffer that was decoded.
    columns : RecordColumns
        Its spans refer to `buffer`. A field whose column is missing is -1, None or ().
    start, stop : int, optional
        Rows to return; `stop` is exclusive. By default all rows.
    views : bool, default False
        Return keys, values and header values as read-only memoryviews instead of bytes. They keep
        the buffer alive, and a bytearray from being resized.

    Raises
    ------
    ValueError
        A row or its headers are not in the columns, or a span is outside the buffer.

    Notes
    -----
    Header keys are decoded as Java decodes UTF-8: malformed bytes become U+FFFD.
    """

class RecordIterator(Generic[BytesT]):
    """Iterate over the records of successive lists, as ``itertools.chain.from_iterable`` does.

    Safe for several threads.

    Each record is returned to one thread. A thread that needs the next list waits while another
    thread gets it. An exception ends the iteration.

    Parameters
    ----------
    lists : iterable of lists of Record

    Notes
    -----
    CPython's chain drops a generator that is running in another thread, and crashes.
    """

    def __init__(self, lists: Iterable[list[Record[BytesT]]]) -> None: ...
    def __iter__(self) -> RecordIterator[BytesT]: ...
    def __next__(self) -> Record[BytesT]: ...

def make_values(
    buffer: Buffer, positions: IntArray, lengths: LengthArray, count: int, views: bool = False
) -> list[bytes | memoryview | None]:
    """Return spans of a buffer as Python objects.

    Parameters
    ----------
    positions, lengths : int64 array, int32 array
        The spans. The first `count` are returned; a null is None.
    views : bool, default False
        Return read-only memoryviews instead of bytes.

    Raises
    ------
    ValueError
        A span is outside the buffer, or an array is too small.
    """

class RecordBuffer:
    """Build batches in a growing buffer: closed batches, and after them one open batch.

    In magic 0 and 1 without a codec, a batch is a sequence of messages, and closing it only begins
    the next one.

    Parameters
    ----------
    magic : {0, 1, 2}, default 2
    attributes : int, default 0
        Attributes of every batch; in magic 0 and 1, of the wrapper or of every message. They are
        not checked.
    max_size : int, optional
        Largest size of the open batch in bytes, header included, before compression. Its first
        record is accepted whatever its size. By default the largest possible size, 2**31 - 1.
    base_offset : int, optional
        Base offset of the first batch. By default, and in every later batch, that of its first
        record.
    leader_epoch, producer_id, producer_epoch, base_sequence : int, default -1
        Header fields of magic 2; -1 is none. The base sequence of a later batch follows from the
        offsets of the batch before.
    append_time : int, default -1
        Timestamp (ms) of the batch if `attributes` have the bit of LogAppendTime.
    delete_horizon : int, default -1
        Base timestamp (ms) if `attributes` have the delete horizon bit.

    Raises
    ------
    ValueError
        `magic` is unknown, or `base_offset` or `max_size` is negative.
    """

    base_offset: int
    """Base offset of the open batch."""
    next_offset: int
    """Offset that a record without one gets."""
    count: int
    """Number of records in the open batch."""
    max_timestamp: int
    """Highest timestamp (ms) in the open batch, -1 before the first record."""
    producer_id: int
    """Producer id of every batch, -1 if there is none."""
    base_sequence: int
    """Base sequence of the open batch, -1 if there is none."""

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
        """Size of the open batch in bytes, uncompressed, header included."""
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
            By default `next_offset`.

        Returns
        -------
        bool
            False if the record does not fit the open batch; then it is not added.

        Raises
        ------
        InvalidError
            The offset is lower than `next_offset` or more than 2**31 - 1 above the base offset, the
            timestamp is below -1, magic 0 or 1 has headers, or magic 0 has a timestamp.
            `InvalidError.rule` says which. Nothing is added. The error's position is the size of
            the open batch.
        TooLargeError
            The record is larger than any batch can be. Nothing is added.
        """
    def has_room_for(
        self,
        key: Buffer | None,
        value: Buffer | None,
        timestamp: int = -1,
        headers: Iterable[tuple[str | Buffer, Buffer | None]] | dict[str, Any] | dict[bytes, Any] | None = (),
        offset: int | None = None,
    ) -> bool:
        """Return what `append` would return, or raise its error, without adding the record."""
    def extend(self, records: Sequence[Any], start: int = 0) -> int:
        """Append records of a list or tuple until one does not fit.

        Parameters
        ----------
        records : list or tuple
            Each record is a tuple of the arguments of `append`, in their order, or a `Record`. A
            `Record` keeps its offset, unless that is -1; its timestamp type is not used.
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
            As by `append`. The records before the faulty one are added.
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
        """Append rows of columns until one does not fit.

        Parameters
        ----------
        keys, values : Spans, optional
            None if all keys or values are null.
        timestamps : int64 array, optional
            Milliseconds. None if all are -1.
        offsets : int64 array, optional
            None if each record gets the next offset.
        headers : HeaderSpans, optional
            None if no record has headers.
        start, stop : int
            Rows to append; `stop` is exclusive.
        many : bool, default False
            Close a full batch and begin the next one, so that all rows are appended. Not possible
            with a codec.

        Returns
        -------
        int
            The first row that was not appended.

        Raises
        ------
        ValueError
            A span is outside its buffer, or `many` is given with a codec. The rows before the
            faulty one are added.
        InvalidError, TooLargeError
            As by `append`. The rows before the faulty one are added.

        Notes
        -----
        Runs without the GIL. In the native core, other calls on this buffer raise RuntimeError
        meanwhile.
        """
    def records(self) -> bytes:
        """Return the records of the open batch without a header, as they are compressed."""
    def close(self, compressed: Buffer | None = None, last_offset: int | None = None, count: int | None = None) -> int:
        """Close the open batch and begin the next one.

        Parameters
        ----------
        compressed : bytes-like, optional
            Replaces the records. Required if the attributes contain a codec, and not allowed
            otherwise.
        last_offset : int, optional
            Last offset of the batch, if that is higher than the offset of its last record. Offsets
            and sequence numbers of the next batch follow it.
        count : int, optional
            Number of records that `compressed` contains.

        Returns
        -------
        int
            Size of the closed batch in bytes; 0 if the open batch has no record, and then nothing
            is closed.

        Raises
        ------
        RuntimeError
            The number of records is not `count`: another thread has appended records since they
            were compressed.
        ValueError
            `last_offset` is too low or too high, or `compressed` is missing or not allowed.
        TooLargeError
            The compressed records do not fit a batch.
        """
    def take_closed(self) -> bytes:
        """Return the bytes of all closed batches and remove these; the open batch remains."""
    def take_batches(self) -> list[bytes]:
        """Return the bytes of each closed batch and remove these; the open batch remains."""

class Layout:
    """Read and write one structure of the wire protocol, in one version.

    A layout describes how the fields of the structure are encoded, and in which slots of a message
    type their values are kept.

    Parameters
    ----------
    message_type : type
        Class with `__slots__`. Every slot must be named in `fields`, `tagged` or `absent`, except
        `unknown_tagged_fields`.
    version : int
        Version of the message, for error messages.
    fields : sequence of tuples
        The fields in the order of their encoding, as (name, kind, array, nullable, compact, layout,
        default):

        - name: str, name of the slot
        - kind: int, index of WIRE_TYPES
        - array: bool, whether the field is an array of this kind
        - nullable: bool, whether the field can be null; elements of an array cannot
        - compact: bool, whether lengths are varints
        - layout: Layout of a structure, else None
        - default: value of a new message; a type is called for each message
    tagged : sequence of (tag, field), optional
        Tagged fields. Record data cannot be tagged.
    absent : sequence of (name, default, ignorable), optional
        Slots that this version does not have. A message that has another value than the default
        there cannot be written, unless `ignorable` is True.
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
    def read(self, buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[Any, int]:
        """Read the message that begins at `start`.

        Returns
        -------
        message : instance of `message_type`
            Made without a call of `__init__`. Absent fields have their defaults. Unknown tagged
            fields are in `unknown_tagged_fields`, a tuple of (tag, bytes). Record data is a
            memoryview of the buffer; all else is copied.
        position : int
            The position after the message.

        Raises
        ------
        TruncatedError
            A field ends after `end`.
        StructureError
            A field is null and must not be, a string has more than MAX_STRING bytes, or tags do not
            increase.
        TooLargeError
            The message contains more than MAX_OBJECTS arrays, array elements other than numbers,
            and unknown tagged fields.

        Notes
        -----
        Errors name the field. Strings that are not UTF-8 are decoded as Java does: malformed bytes
        become U+FFFD.
        """

def write_messages(
    layouts: Sequence[Layout], messages: Sequence[Any], framed: bool = False
) -> list[bytes | memoryview]:
    """Encode messages back to back, for example a header and a body.

    Parameters
    ----------
    layouts : sequence of Layout
        One for each message.
    messages : sequence of message objects
    framed : bool, default False
        Put the size of all that follows, an int32, before the first message.

    Returns
    -------
    list of bytes and memoryview
        The encoded messages in pieces. Record data is not copied: the buffers that a message
        contains (one, or a list) are in the list as memoryviews.

    Raises
    ------
    ValueError
        The version cannot hold a value: None, a number or string out of range, or an absent field
        that is neither ignorable nor at its default.
    TypeError
        A value has the wrong type.

    Notes
    -----
    A tagged field is written only if it differs from its default.
    """
