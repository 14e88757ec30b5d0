"""Text as Java decodes it: what a header key that is not UTF-8 becomes."""

from __future__ import annotations

import re

_LONE_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_header_key(raw: bytes) -> str:
    """UTF-8 with U+FFFD for what is malformed, as `new String(bytes, UTF_8)` gives it.

    Python's own replacement differs in one case only: the bytes of a lone surrogate, for which Java gives one U+FFFD.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _LONE_SURROGATE.sub("\ufffd".encode(), raw).decode(errors="replace")
