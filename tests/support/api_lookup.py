"""Look up APIs that must exist."""

from __future__ import annotations

from kafkafmt.protocol import apis


def api_of(key: int) -> apis.Api:
    """Return the API with this key."""
    api = apis.api(key)
    assert api is not None
    return api
