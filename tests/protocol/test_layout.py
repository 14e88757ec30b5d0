"""Check the bytes of each kind of field, and errors for invalid bytes and values, on both cores."""

from __future__ import annotations

import dataclasses
import struct
import uuid
from types import ModuleType
from typing import Any

import pytest

from kafkafmt.constants import MAX_STRING, WIRE_TYPES
from kafkafmt.errors import KafkaFormatError, StructureError, TruncatedError

ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@dataclasses.dataclass(slots=True)
class One:
    x: Any = None
    unknown_tagged_fields: Any = ()


@dataclasses.dataclass(slots=True)
class Two:
    a: Any = 1
    b: Any = dataclasses.field(default_factory=list)
    unknown_tagged_fields: Any = ()


def layout(
    core: ModuleType,
    kind: str,
    array: bool = False,
    nullable: bool = False,
    compact: bool = False,
    inner: Any = None,
) -> Any:
    return core.Layout(One, 1, (("x", WIRE_TYPES.index(kind), array, nullable, compact, inner, None),))


def written(core: ModuleType, form: Any, message: One | Two) -> bytes:
    return b"".join(core.write_messages([form], [message]))


H = bytes.fromhex
CASES = [
    # kind, array, nullable, compact, value, bytes
    ("bool", 0, 0, 0, True, H("01")),
    ("bool", 0, 0, 0, False, H("00")),
    ("int8", 0, 0, 0, -128, H("80")),
    ("int16", 0, 0, 0, -2, H("fffe")),
    ("uint16", 0, 0, 0, 65535, H("ffff")),
    ("int32", 0, 0, 0, -(2**31), H("80000000")),
    ("uint32", 0, 0, 0, 2**32 - 1, H("ffffffff")),
    ("int64", 0, 0, 0, -(2**63), H("8000000000000000")),
    ("int64", 0, 0, 0, 2**63 - 1, H("7fffffffffffffff")),
    ("float64", 0, 0, 0, -0.5, struct.pack(">d", -0.5)),
    ("uuid", 0, 0, 0, ID, ID.bytes),
    ("uuid", 0, 0, 0, uuid.UUID(int=0), bytes(16)),
    ("string", 0, 0, 0, "ö", H("0002c3b6")),
    ("string", 0, 1, 0, None, H("ffff")),
    ("string", 0, 0, 1, "ö", H("03c3b6")),
    ("string", 0, 1, 1, None, H("00")),
    ("string", 0, 0, 1, "x" * 200, H("c901") + b"x" * 200),
    ("string", 0, 0, 0, "x" * MAX_STRING, H("7fff") + b"x" * MAX_STRING),
    ("bytes", 0, 0, 0, b"\0\xff", H("0000000200ff")),
    ("bytes", 0, 1, 0, None, H("ffffffff")),
    ("bytes", 0, 0, 1, b"", H("01")),
    ("bytes", 0, 1, 1, None, H("00")),
    ("bytes", 0, 0, 1, b"z" * 70000, H("f1a204") + b"z" * 70000),
    ("records", 0, 0, 0, b"abc", H("00000003616263")),
    ("records", 0, 1, 1, None, H("00")),
    ("records", 0, 0, 1, b"abc", H("04616263")),
    ("int32", 1, 0, 0, [1, -1], H("00000002 00000001 ffffffff")),
    ("int32", 1, 0, 1, [1, -1], H("03 00000001 ffffffff")),
    ("int32", 1, 1, 0, None, H("ffffffff")),
    ("int32", 1, 1, 1, None, H("00")),
    ("bool", 1, 0, 0, [True, False], H("00000002 01 00")),
    ("uuid", 1, 0, 1, [ID], H("02") + ID.bytes),
    ("string", 1, 0, 0, ["a", ""], H("00000002 0001 61 0000")),
    ("string", 1, 0, 1, ["a", ""], H("03 02 61 01")),
    ("string", 1, 0, 0, [], H("00000000")),
]


@pytest.mark.parametrize(("kind", "array", "nullable", "compact", "value", "wire"), CASES)
def test_value_is_written_as_bytes_and_read_back(
    core: ModuleType, kind: str, array: int, nullable: int, compact: int, value: Any, wire: bytes
) -> None:
    form = layout(core, kind, bool(array), bool(nullable), bool(compact))
    assert written(core, form, One(value)) == wire
    message, end = form.read(b"--" + wire + b"--", 2)
    assert (message.x, end) == (value, 2 + len(wire))
    assert type(message) is One
    assert type(message.x) is (memoryview if kind == "records" and value is not None else type(value))
    for cut in range(len(wire)) if len(wire) < 100 else (0, 1, len(wire) - 1):
        with pytest.raises(TruncatedError) as error:
            form.read(wire, 0, cut)
        assert 0 <= error.value.position <= cut
        assert "One.x" in str(error.value)


@pytest.mark.parametrize(
    ("kind", "array", "nullable", "compact", "wire", "error", "position"),
    [
        ("string", 0, 0, 0, H("ffff"), StructureError, 0),  # null in a field that is not nullable
        ("string", 0, 0, 1, H("00"), StructureError, 0),
        ("int32", 1, 0, 0, H("ffffffff"), StructureError, 0),
        ("records", 0, 0, 1, H("00"), StructureError, 0),
        ("string", 0, 0, 1, H("818002") + b"x" * 40000, StructureError, 0),  # 32768 bytes
        ("string", 0, 0, 1, H("ffffffffff01"), StructureError, 0),  # a varint of 6 bytes
        ("string", 0, 0, 1, H("ffffffff0f"), StructureError, 0),
        ("bytes", 0, 0, 0, H("7fffffff00"), TruncatedError, 4),
        ("bytes", 0, 0, 1, H("ffffffff0f00"), TruncatedError, 5),
        ("int32", 1, 0, 0, H("7fffffff") + bytes(16), TruncatedError, 0),
        ("string", 1, 0, 1, H("ffffffff0f") + bytes(16), TruncatedError, 0),
        ("string", 1, 0, 0, H("00000009") + bytes(16), TruncatedError, 0),
    ],
)
def test_invalid_bytes_are_an_error(
    core: ModuleType,
    kind: str,
    array: int,
    nullable: int,
    compact: int,
    wire: bytes,
    error: type[KafkaFormatError],
    position: int,
) -> None:
    with pytest.raises(KafkaFormatError) as raised:
        layout(core, kind, bool(array), bool(nullable), bool(compact)).read(wire)
    assert (type(raised.value), raised.value.position) == (error, position)


def test_any_negative_length_is_null(core: ModuleType) -> None:
    """Kafka also reads every negative length as null."""
    assert layout(core, "string", nullable=True).read(H("8000"))[0].x is None
    assert layout(core, "bytes", nullable=True).read(H("fffffff0"))[0].x is None
    assert layout(core, "int8", array=True, nullable=True).read(H("fffffff0"))[0].x is None


def test_invalid_utf8_is_replaced_as_in_java(core: ModuleType) -> None:
    assert layout(core, "string").read(H("0003 61ff62"))[0].x == "a\ufffdb"


def test_any_byte_except_zero_is_true(core: ModuleType) -> None:
    assert layout(core, "bool").read(H("c8"))[0].x is True


@pytest.mark.parametrize(
    ("kind", "array", "value", "error"),
    [
        ("int8", 0, 128, ValueError),
        ("int8", 0, -129, ValueError),
        ("int16", 0, 2**15, ValueError),
        ("uint16", 0, -1, ValueError),
        ("int32", 0, 2**31, ValueError),
        ("uint32", 0, 2**32, ValueError),
        ("int64", 0, 2**63, ValueError),
        ("int64", 0, 2**100, ValueError),
        ("int32", 0, None, TypeError),
        ("int32", 0, "1", TypeError),
        ("int32", 0, 1.5, TypeError),
        ("float64", 0, "x", TypeError),
        ("uuid", 0, ID.bytes, TypeError),
        ("uuid", 0, None, TypeError),
        ("string", 0, None, ValueError),
        ("string", 0, b"x", TypeError),
        ("string", 0, "x" * (MAX_STRING + 1), ValueError),
        ("string", 0, "\ud800", ValueError),
        ("bytes", 0, "x", TypeError),
        ("bytes", 0, None, ValueError),
        ("records", 0, None, ValueError),
        ("records", 0, ["x"], TypeError),
        ("int32", 1, None, ValueError),
        ("int32", 1, 5, TypeError),
        ("int32", 1, [1, "x"], TypeError),
        ("string", 1, [None], ValueError),
        ("struct", 0, object(), TypeError),
    ],
)
@pytest.mark.parametrize("compact", [False, True])
def test_value_that_does_not_fit_is_rejected(
    core: ModuleType, kind: str, array: int, value: Any, error: type[Exception], compact: bool
) -> None:
    inner = (
        core.Layout(One, 1, (("x", WIRE_TYPES.index("int8"), False, False, False, None, 0),))
        if kind == "struct"
        else None
    )
    with pytest.raises(error) as raised:
        written(core, layout(core, kind, bool(array), compact=compact, inner=inner), One(value))
    if kind not in ("struct",) and value != "\ud800":
        assert "One.x" in str(raised.value)


def two(core: ModuleType, version: int = 2) -> Any:
    """Return a flexible layout with two fields. The second field has tag 5."""
    number = ("a", WIRE_TYPES.index("int8"), False, False, True, None, 1)
    listed = ("b", WIRE_TYPES.index("string"), True, True, True, None, list)
    return core.Layout(Two, version, (number,), ((5, listed),), (), True)


def test_tagged_fields_are_written_and_read(core: ModuleType) -> None:
    form = two(core)
    for message, wire in (
        (Two(), H("01 00")),
        (Two(7, ["x"]), H("07 01 05 03 02 02 78")),
        (Two(7, None), H("07 01 05 01 00")),
        (Two(7, ["x"], ((2, b"ab"), (9, b""))), H("07 03 02 02 6162 05 03 02 02 78 09 00")),
        (Two(7, [], ((300, b"z" * 200),)), H("07 01 ac02 c801") + b"z" * 200),
    ):
        assert written(core, form, message) == wire
        assert form.read(wire) == (message, len(wire))
    assert written(core, form, Two(1, [], [(9, b"y"), (2, b"x")])) == H("01 02 02 01 78 09 01 79")


@pytest.mark.parametrize(
    ("wire", "error", "position"),
    [
        (H("01"), TruncatedError, 1),
        (H("01 01"), TruncatedError, 1),
        (H("01 01 05"), TruncatedError, 1),
        (H("01 01 05 09 02 02 78"), TruncatedError, 4),
        (H("01 01 05 02 02 02 78"), TruncatedError, 6),  # the field ends after its size
        (H("01 01 05 04 02 02 78 00"), StructureError, 7),  # the field ends before its size
        (H("01 02 05 01 00 05 01 00"), StructureError, 5),  # the same tag twice
        (H("01 02 06 00 05 01 00"), StructureError, 4),  # tags that do not increase
        (H("01 ffffffff0f") + bytes(30), TruncatedError, 1),
        (H("01 01 ffffffffff 00"), StructureError, 2),
        (H("01 01 02 ffffffff0f") + bytes(30), TruncatedError, 8),
        (H("01 01 8080808008 00"), StructureError, 2),  # the tag 2^31, which cannot be written
    ],
)
def test_invalid_tagged_fields_are_an_error(
    core: ModuleType, wire: bytes, error: type[KafkaFormatError], position: int
) -> None:
    with pytest.raises(KafkaFormatError) as raised:
        two(core).read(wire)
    assert (type(raised.value), raised.value.position) == (error, position)


def test_wrong_tagged_fields_are_rejected(core: ModuleType) -> None:
    with pytest.raises(ValueError, match="the same tag"):
        written(core, two(core), Two(1, [], ((4, b""), (4, b""))))
    with pytest.raises(ValueError, match="the same tag"):
        written(core, two(core), Two(1, ["x"], ((5, b""),)))
    for tag in (-1, 2**31):
        with pytest.raises(ValueError, match="is not a valid tag"):
            written(core, two(core), Two(1, [], ((tag, b""),)))
    for value in (5, "text", None):
        with pytest.raises(TypeError):
            written(core, two(core), Two(1, [], ((4, value),)))
    assert written(core, two(core), Two(1, [], ((4, bytearray(b"x")),))) == H("01 01 04 01 78")
    assert written(core, two(core), Two(1, [], None)) == H("01 00")
    plain = core.Layout(
        Two, 1, (("a", WIRE_TYPES.index("int8"), False, False, False, None, 1),), (), (("b", list, True),)
    )
    with pytest.raises(ValueError, match="version 1 has no tagged fields"):
        written(core, plain, Two(1, [], ((4, b""),)))


def test_fields_of_other_versions_are_not_written(core: ModuleType) -> None:
    number = ("a", WIRE_TYPES.index("int8"), False, False, False, None, 1)
    for ignorable in (False, True):
        form = core.Layout(Two, 3, (number,), (), (("b", list, ignorable),))
        assert written(core, form, Two(4)) == H("04")
        first, second = form.read(H("04"))[0], form.read(H("04"))[0]
        assert first == Two(4, [])
        assert first.b is not second.b
    assert written(core, form, Two(4, ["x"])) == H("04")
    with pytest.raises(ValueError, match=r"Two\.b does not exist in version 3"):
        written(core, core.Layout(Two, 3, (number,), (), (("b", list, False),)), Two(4, ["x"]))


def test_structures_are_written_and_read(core: ModuleType) -> None:
    inner = core.Layout(One, 1, (("x", WIRE_TYPES.index("int16"), False, False, False, None, 0),))
    for array, nullable, value, wire in (
        (False, False, One(5), H("0005")),
        (False, True, One(5), H("01 0005")),
        (False, True, None, H("ff")),
        (True, False, [One(5), One(6)], H("00000002 0005 0006")),
        (True, True, None, H("ffffffff")),
    ):
        form = layout(core, "struct", array, nullable, inner=inner)
        assert written(core, form, One(value)) == wire
        assert form.read(wire)[0].x == value
    with pytest.raises(TruncatedError):
        layout(core, "struct", True, inner=inner).read(H("00000003 0005 0006"))


def test_record_data_is_not_copied(core: ModuleType) -> None:
    form = layout(core, "records")
    frame = H("00000003616263")
    assert form.read(frame)[0].x.obj is frame
    first, second = bytearray(b"first"), memoryview(b"second")
    buffers = core.write_messages([form, form], [One([first, b"", second]), One(second)], framed=True)
    assert [bytes(b) for b in buffers] == [H("00000019 0000000b"), b"first", b"second", H("00000006"), b"second"]
    assert buffers[1].obj is first
    assert buffers[2].obj is second.obj


class ShortId(uuid.UUID):
    bytes = b"short"


def test_uuid_subclass_with_wrong_bytes_is_rejected(native: ModuleType) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        written(native, layout(native, "uuid"), One(ShortId(int=1)))


def test_list_that_shrinks_while_it_is_written_is_an_error(native: ModuleType) -> None:
    class Shrinking:
        def __index__(self) -> int:
            values.clear()
            return 1

    values = [Shrinking(), 2, 3]
    with pytest.raises(RuntimeError, match="changed"):
        written(native, layout(native, "int32", True), One(values))


def test_uninitialized_layout_is_rejected(native: ModuleType) -> None:
    with pytest.raises(TypeError):
        native.Layout.__new__(native.Layout).read(b"")
    with pytest.raises((TypeError, AttributeError)):
        native.write_messages([native.Layout.__new__(native.Layout)], [One()])


def test_layout_rejects_wrong_fields(core: ModuleType) -> None:
    data = ("a", WIRE_TYPES.index("records"), False, False, True, None, b"")
    inner = core.Layout(One, 1, (("x", *data[1:]),))
    for tagged in (data, ("a", WIRE_TYPES.index("struct"), True, False, True, inner, list)):
        with pytest.raises(ValueError, match="cannot be tagged"):
            core.Layout(Two, 1, (), ((0, tagged),), (("b", list, True),), True)
    with pytest.raises(TypeError):
        layout(core, "int8").read("text")
    with pytest.raises(ValueError):
        layout(core, "int8").read(b"abc", 2, 1)
    with pytest.raises(ValueError):
        layout(core, "int8").read(b"abc", 0, 9)
    with pytest.raises(TypeError):
        core.write_messages([layout(core, "int8")], [Two()])
    with pytest.raises(ValueError):
        core.write_messages([layout(core, "int8")], [])


def test_nullable_tagged_structure_has_a_marker_byte(core: ModuleType) -> None:
    """Before a tagged struct, there is a byte: 1, or 0 for null. Before other structs, the byte for null is -1."""
    inner = core.Layout(One, 0, (("x", WIRE_TYPES.index("int8"), False, False, True, None, 0),), (), (), True)
    form = core.Layout(
        Two, 0, (), ((3, ("a", WIRE_TYPES.index("struct"), False, True, True, inner, 1)),), (("b", list, True),), True
    )
    for value, raw in ((One(7), H("010303010700")), (None, H("01030100"))):
        data = written(core, form, Two(a=value))
        assert data == raw
        read, end = form.read(data)
        assert (read.a if value is None else read.a.x, end) == (None if value is None else 7, len(data))
