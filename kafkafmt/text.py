"""Decode header keys as Java does, and escape text for terminals and for JSON.

Text that comes from files, the network or arguments is escaped before it is printed. `plain`
escapes text for people, and `json_encoder` escapes JSON for programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_LONE_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_header_key(raw: bytes) -> str:
    """Decode UTF-8 as Java's ``new String(bytes, UTF_8)`` does. Malformed bytes become U+FFFD.

    Python and Java differ in one case: for the bytes of a lone surrogate, Python produces several
    U+FFFD, but Java produces only one.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _LONE_SURROGATE.sub("\ufffd".encode(), raw).decode(errors="replace")


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
    r"""Replace invisible characters, line ends, terminal controls and text direction marks with escape sequences.

    The escape sequences are those of Python string literals, such as `\x1b` or `\u202e`.
    """
    return text if text.isprintable() else _UNSAFE.sub(lambda m: m[0].encode("unicode_escape").decode(), text)


def json_encoder(*, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> Callable[[Any], str]:
    r"""Return a function that encodes a value as JSON. The arguments are those of `json.JSONEncoder`.

    The characters that `plain` escapes are written as `\uXXXX`. Other non-ASCII characters are not
    escaped. A JSON parser returns the original value.
    """
    encode = json.JSONEncoder(ensure_ascii=False, indent=indent, default=default).encode

    def encode_safely(value: Any) -> str:
        text = encode(value)
        if text.isascii() and "\x7f" not in text:  # isascii() is much faster than the regular expression.
            return text
        return _UNSAFE_IN_JSON.sub(_json_escape, text)

    return encode_safely


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


encode_json: Callable[[Any], str] = json_encoder()
"""Encode a value as one line of JSON."""


def offset_range(first: int | str, last: int | str) -> str:
    """Return a range of offsets in words, such as `offset 5` or `offsets 5 to 7`."""
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def counted(n: int, thing: str) -> str:
    """Return a number with a noun in the singular or plural, such as `1 record` or `2,000 records`."""
    return f"{n:,} {_noun(n, thing)}"


def quantity(n: int, thing: str) -> str:
    """Return a number without separators with a noun, such as `1 byte` or `2000 bytes`.

    Errors and reports of damage contain numbers in this form, because users compare them with
    positions and sizes in other output.
    """
    return f"{n} {_noun(n, thing)}"


def _noun(n: int, thing: str) -> str:
    if n == 1:
        return thing
    return thing[:-1] + "ies" if thing.endswith("y") else thing + ("es" if thing.endswith("ch") else "s")


def size(n: float) -> str:
    """Return a number of bytes as text with a unit, such as "1.5 MB". The units are powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"
