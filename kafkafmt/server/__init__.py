"""Serve log directories to Kafka clients, without a broker and without writing anything."""

from .api import serve
from .service import Server, ServerAddressError
from .settings import ServerLimits
from .users import ScramCredential

__all__ = ["ScramCredential", "Server", "ServerAddressError", "ServerLimits", "serve"]
