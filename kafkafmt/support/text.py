"""Decode header keys as Java does, and escape text for terminals and for JSON.

Text that comes from files, the network or arguments is escaped before it is printed. `plain`
escapes text for people, and `json_encoder` escapes JSON for programs.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable
from functools import cache
from typing import Any

_LONE_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_header_key(raw: bytes) -> str:
    """Decode UTF-8 as Java's ``new String(bytes, UTF_8)`` does. Malformed bytes become U+FFFD."""
    # Python and Java differ in one case: for the bytes of a lone surrogate, Python produces several
    # U+FFFD, but Java produces only one.
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _LONE_SURROGATE.sub("\ufffd".encode(), raw).decode(errors="replace")


MAX_SHOWN = 160
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = MAX_SHOWN


def shown(value: object) -> str:
    """Return the repr of a value for an error message. A long repr is shortened in its middle."""
    try:
        text = _SHORT.repr(value)
    except Exception:  # An error in a repr must not replace the error that contains the value.
        return object.__repr__(value)
    return shortened(text)


def shortened(text: str) -> str:
    """Return a text for an error message. A long text is shortened in its middle."""
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN // 2 - 3]}...{text[-MAX_SHOWN // 2 :]}"


# _UNSEEN contains the characters to escape, in addition to the C0 control characters.
# DEL and C1 characters are escaped, because they control a terminal.
# Separators of lines and paragraphs are escaped.
# Characters that change the direction of text are escaped.
# Invisible characters are escaped, because they hide text or make two names look alike.
# Lone surrogates are escaped, because UTF-8 cannot encode them.
# The joiners U+200C and U+200D are not escaped, because scripts and emoji need them.
_UNSEEN = (
    "\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff"
    "\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0000-\\U000e007f"
)
_UNSAFE = re.compile(f"[\\x00-\\x1f{_UNSEEN}]")
_UNSAFE_IN_JSON = re.compile(f"[{_UNSEEN}]")  # JSON encoders already escape the C0 characters.


def plain(text: str) -> str:
    """Replace invisible characters, line ends, terminal controls and text direction marks with Python's escapes."""
    return text if text.isprintable() else _UNSAFE.sub(lambda m: m[0].encode("unicode_escape").decode(), text)


def json_encoder(*, default: Callable[[Any], Any] | None = None) -> Callable[[Any], str]:
    """Return a function that encodes a value as JSON. `default` is the argument of `json.JSONEncoder`."""
    # The characters that `plain` escapes are written as Unicode escapes. Other non-ASCII characters
    # are not escaped. A JSON parser returns the original value.
    encode = json.JSONEncoder(ensure_ascii=False, default=default).encode
    return lambda value: _escaped(encode(value))


def _escaped(text: str) -> str:
    if text.isascii() and "\x7f" not in text:  # isascii() is much faster than the regular expression.
        return text
    return _UNSAFE_IN_JSON.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


encode_json: Callable[[Any], str] = json_encoder()
"""Encode a value as one line of JSON."""
_SCALARS = frozenset((str, int, float, bool, type(None)))


def encode_indented_json(value: Any) -> str:
    """Encode a value as ``json.dumps(value, indent=1)`` does, with the escapes of `json_encoder`."""
    return _escaped(_indented(value, 0))


def _indented(value: Any, level: int) -> str:
    if not isinstance(value, dict | list) or not value:
        return _indenting(level)(value)
    items = value.values() if isinstance(value, dict) else value
    if _SCALARS.issuperset(map(type, items)):
        text = _indenting(level)(value)
        content, ends = text[1:-1], text[0] + text[-1]
    elif isinstance(value, dict):
        content = _separator(level).join(
            f"{_indenting(level)(str(k))}: {_indented(v, level + 1)}" for k, v in value.items()
        )
        ends = "{}"
    else:
        content, ends = _separator(level).join(_indented(item, level + 1) for item in value), "[]"
    return f"{ends[0]}{_separator(level)[1:]}{content}\n{' ' * level}{ends[1]}"


def _separator(level: int) -> str:
    """Return the text between two members or items of a container that is nested in `level` other containers."""
    return ",\n" + " " * (level + 1)


@cache
def _indenting(level: int) -> Callable[[Any], str]:
    """Return an encoder for containers without other containers in them, and for scalars."""
    # Indentation turns off the C encoder of the module json, and the Python encoder takes ten times
    # as long. Therefore, the separators contain a line end instead.
    return json.JSONEncoder(ensure_ascii=False, separators=(_separator(level), ": ")).encode


def offset_range(first: int | str, last: int | str) -> str:
    """Return a range of offsets in words, such as `offset 5` or `offsets 5 to 7`."""
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def counted(n: int, thing: str) -> str:
    """Return a number with a noun in the singular or plural, such as `1 record` or `2,000 records`."""
    return f"{n:,} {_noun(n, thing)}"


def quantity(n: int, thing: str) -> str:
    """Return a number without separators with a noun, such as `1 byte` or `2000 bytes`."""
    # Users compare these numbers with positions and sizes in other output.
    return f"{n} {_noun(n, thing)}"


def _noun(n: int, thing: str) -> str:
    if n == 1:
        return thing
    if thing.endswith("y") and not thing.endswith("ey"):
        return thing[:-1] + "ies"
    return thing + ("es" if thing.endswith("ch") else "s")


def size(n: float) -> str:
    """Return a number of bytes as text with a unit, such as "1.5 MB". The units are powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"
