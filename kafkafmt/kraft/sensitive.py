"""Determine which configs can contain a secret. The values of these configs are never shown.

Kafka treats a config as sensitive if its type is PASSWORD or if it is unknown
(``KafkaConfigSchema.isSensitive``). In contrast, this module treats an unknown config as sensitive
only if its name contains a word such as "password".
"""

from __future__ import annotations

import hashlib
import re
import secrets

SENSITIVE = frozenset(
    {
        "delegation.token.master.key",
        "delegation.token.secret.key",
        "password.encoder.old.secret",
        "password.encoder.secret",
        "sasl.jaas.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.certificates",
        "ssl.truststore.password",
    }
)
"""Broker configs with the type PASSWORD, from ``KafkaConfig`` of Kafka 3.9 to 4.4."""
NOT_SENSITIVE = frozenset(
    {
        "delegation.token.expiry.check.interval.ms",
        "delegation.token.expiry.time.ms",
        "delegation.token.max.lifetime.ms",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
"""Configs of Kafka whose names match `_WORDS` although their type is not PASSWORD. They are not sensitive."""
_LISTENER = re.compile(r"listener\.name\.[^.]+\.(?:(?:plain|gssapi|oauthbearer|scram-sha-[0-9]+)\.)?")
"""Prefix in the names of configs that apply to one listener, or to one SASL mechanism of a listener."""
_WORDS = re.compile(
    r"passw(?:or)?d|passphrase|pwd|secret|token|credential|jaas|private[._-]?key|(?:access|api|account|sas|shared)[._-]?key"
    r"|(?:^|[._-])(?:key|auth|basic[._-]auth)$",
    re.IGNORECASE,
)
_KEY = secrets.token_bytes(32)


def is_sensitive(name: str) -> bool:
    """Return whether a config with this name can contain a secret."""
    plain_name = _LISTENER.sub("", name, count=1)
    if plain_name in SENSITIVE:
        return True
    return plain_name not in NOT_SENSITIVE and bool(_WORDS.search(plain_name))


def digest(*parts: bytes) -> bytes:
    """Return a keyed hash of a secret. Hashes can be compared, but do not reveal the secret."""
    # The key of the hash is random, and exists only in this process.
    made = hashlib.blake2b(key=_KEY, digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "big") + part)
    return made.digest()
