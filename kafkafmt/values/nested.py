"""Convert the types of decoded columns to those that a file format or another program can store."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

EMPTY_MEMBER = "_"
"""Field that is added to a record without fields, where structs need one. It is null in each record."""


def convert(array: pa.Array, type_: pa.DataType, leaf: Callable[[pa.Array, pa.DataType], pa.Array]) -> pa.Array:
    """Return an array of another type with the same nesting. `leaf` converts arrays that are not nested.

    The fields of a struct are found by their names, so the other type can have fewer, in another order.
    """
    if array.type == type_:
        return array
    if pa.types.is_struct(type_):
        fields = [type_.field(i) for i in range(type_.num_fields)]
        if not array.type.num_fields:
            members = [pa.nulls(len(array), f.type) for f in fields]  # EMPTY_MEMBER
        else:
            members = [convert(array.field(f.name), f.type, leaf) for f in fields]
        return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null())
    if pa.types.is_map(type_):
        entries = pa.StructArray.from_arrays(
            [convert(array.keys, type_.key_type, leaf), convert(array.items, type_.item_type, leaf)],
            fields=[type_.key_field, type_.item_field],
        )
        return _list_array(array, type_, entries)
    if pa.types.is_list(type_):
        return _list_array(array, type_, convert(array.values, type_.value_type, leaf))
    return leaf(array, type_)


def _list_array(array: pa.Array, type_: pa.DataType, values: pa.Array) -> pa.Array:
    """Return a list or a map with the offsets of another one, which can be a slice."""
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(type_, len(array), buffers, array.null_count, array.offset, children=[values])
