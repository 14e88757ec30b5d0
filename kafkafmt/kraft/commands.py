"""Write a shell script that recreates topics, configs, quotas and ACLs on another cluster.

The script calls Kafka's tools `kafka-topics`, `kafka-configs` and `kafka-acls`. Names and values
come from a file and can contain any character. Therefore, they are quoted for the shell. In
addition, each of them is part of an argument `--option=VALUE`, so that no value can be parsed as an
option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from shlex import quote

from ..support.text import plain
from .models import MetadataAcl, MetadataConfig, MetadataQuota, MetadataTables, MetadataTopic, acl_order

OWN_TOPICS = frozenset(
    {
        "__cluster_metadata",
        "__consumer_offsets",
        "__remote_log_metadata",
        "__share_group_state",
        "__transaction_state",
    }
)
"""Topics that brokers create by themselves."""
ACL_OPTIONS = {
    "TOPIC": "--topic",
    "GROUP": "--group",
    "TRANSACTIONAL_ID": "--transactional-id",
    "DELEGATION_TOKEN": "--delegation-token",
    "USER": "--user-principal",
}
"""Options of `kafka-acls` that name a resource, by the type of the resource."""
ENTITIES = {"broker": "brokers", "client_metrics": "client-metrics", "group": "groups"}
"""Entity types of `kafka-configs`, by the type of the resource."""
_IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")
_CONFIG_NAME = re.compile(r"[\w.-]+\Z", re.ASCII)
HEAD = """\
#!/bin/sh
# Recreates the topics, configs, quotas and ACLs of {origin}.
# Usage: sh SCRIPT --bootstrap-server HOST:PORT [--command-config FILE]
set -eu
if [ "$#" -eq 0 ]; then echo "usage: $0 --bootstrap-server HOST:PORT [--command-config FILE]" >&2; exit 2; fi
suffix=; if command -v kafka-topics.sh >/dev/null 2>&1; then suffix=.sh; fi
"""


def write_commands(state: MetadataTables) -> str:
    origin = f"cluster {state.info.cluster_id or 'of unknown id'} at offset {state.info.end_offset}"
    lines = [HEAD.format(origin=plain(origin))]
    for title, made in (
        ("Topics", _topics(state)),
        ("ACLs", _acls(state)),
        ("Quotas", _quotas(state)),
        ("Configs of brokers, groups and client metrics", _configs(state)),
        ("Not included", _not_included(state)),
    ):
        if section := list(made):
            lines += [f"# {title}", *section, ""]
    return "\n".join(lines)


def _call(tool: str, *arguments: str) -> str:
    return " ".join([f'kafka-{tool}$suffix "$@"', *arguments])


def _note(text: str) -> str:
    """Return a shell comment of one line. Control characters are escaped."""
    return f"# {plain(text)}"


def _option(name: str, value: str) -> str:
    return f"{name}={quote(value)}"


def _exact(*texts: str) -> bool:
    """Return whether Kafka's command-line tools can receive all given texts unchanged as arguments."""
    # Kafka's tools remove blanks at the start and the end of a text. No argument of a command can
    # contain NUL, or text that cannot be encoded as UTF-8.
    return not any(text != text.strip() or _IMPOSSIBLE.search(text) for text in texts)


def _config_text(name: str, value: str) -> str | None:
    """Write a config in the syntax of `kafka-configs`, or return None if this is not possible."""
    # Kafka's ``ConfigCommand`` splits the text at each comma and `=` that is not inside brackets,
    # and removes all brackets from values.
    if not _CONFIG_NAME.match(name) or not _exact(value) or "[" in value or "]" in value:
        return None
    return f"{name}=[{value}]" if "," in value or "=" in value else f"{name}={value}"


def _topics(state: MetadataTables) -> Iterator[str]:
    configs: dict[str, list[MetadataConfig]] = {}
    for config in state.configs:
        if config.resource_type == "topic":
            configs.setdefault(config.resource_name, []).append(config)
    for topic in state.topics:
        if topic.name in OWN_TOPICS or not topic.partitions:
            continue
        yield from _topic(topic, configs.get(topic.name, []))


def _topic(topic: MetadataTopic, configs: list[MetadataConfig]) -> Iterator[str]:
    if not _exact(topic.name):
        yield _note(f"topic {topic.name}: kafka-topics cannot represent its name")
        return
    arguments = [
        "--create",
        "--if-not-exists",
        _option("--topic", topic.name),
        f"--partitions={len(topic.partitions)}",
        f"--replication-factor={max(len(p.replicas) for p in topic.partitions)}",
    ]
    later = []
    for config in configs:
        value = config.value
        if value and _CONFIG_NAME.match(config.name) and _exact(value) and "=" not in value:
            arguments.append(_option("--config", f"{config.name}={value}"))
        else:  # kafka-topics rejects empty values, and values that contain "="
            later.append(config)
    yield _call("topics", *arguments)
    for config in later:
        yield _config(config, "topics")


def _configs(state: MetadataTables) -> Iterator[str]:
    """Yield a command for each config of a broker, a group or client metrics."""
    for config in state.configs:
        if config.resource_type in ENTITIES:
            yield _config(config, ENTITIES[config.resource_type])


def _config(config: MetadataConfig, entity: str) -> str:
    """Return the command that sets a config. If no command can set it, return a comment."""
    what = f"{config.resource_type} {config.resource_name or '(default)'}: set {config.name} yourself;"
    if config.value is None:
        return _note(f"{what} its value is hidden")
    added = _config_text(config.name, config.value)
    if added is None or not _exact(config.resource_name):
        return _note(f"{what} kafka-configs cannot represent its name or value")
    whom = _option("--entity-name", config.resource_name) if config.resource_name else "--entity-default"
    return _call("configs", "--alter", f"--entity-type={entity}", whom, _option("--add-config", added))


def _quotas(state: MetadataTables) -> Iterator[str]:
    for quota in state.quotas:
        parts = (("users", quota.user), ("clients", quota.client_id), ("ips", quota.ip))
        if not _exact(*(name for _, name in parts if name)):
            yield _note(f"quota {quota.key} of {_entity(quota)}: kafka-configs cannot represent the name")
            continue
        arguments = []
        for kind, name in parts:
            if name is not None:
                arguments += [f"--entity-type={kind}", _option("--entity-name", name) if name else "--entity-default"]
        yield _call("configs", "--alter", *arguments, _option("--add-config", f"{quota.key}={number(quota.value)}"))


def _entity(quota: MetadataQuota) -> str:
    parts = (("user", quota.user), ("client-id", quota.client_id), ("ip", quota.ip))
    return ", ".join(f"{kind} {name or '(default)'}" for kind, name in parts if name is not None)


def number(value: float) -> str:
    """Format a float. Omit the fraction if the value is a whole number."""
    return str(int(value)) if value.is_integer() else repr(value)


def _acls(state: MetadataTables) -> Iterator[str]:
    """Yield the commands that add ACLs. ACLs that differ only in the operation are added by one command."""
    groups: dict[tuple[str, ...], list[MetadataAcl]] = {}
    for acl in sorted(state.acls, key=acl_order):
        key = (acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.permission)
        groups.setdefault(key, []).append(acl)
    for acls in groups.values():
        yield _acl(acls[0], sorted({acl.operation for acl in acls}))


def _acl(acl: MetadataAcl, operations: Iterable[str]) -> str:
    cluster = acl.resource_type == "CLUSTER" and acl.resource_name == "kafka-cluster"
    known = cluster or (acl.resource_type in ACL_OPTIONS and bool(acl.resource_name))
    patterned = acl.pattern_type in ("LITERAL", "PREFIXED") and acl.permission in ("ALLOW", "DENY")
    if not (known and patterned and _exact(acl.resource_name, acl.principal, acl.host) and ":" in acl.principal):
        what = f"{acl.permission} {acl.principal} {', '.join(operations)} on {acl.resource_type} {acl.resource_name}"
        return _note(f"{what}: kafka-acls cannot represent this ACL")
    word = acl.permission.lower()
    resource = "--cluster" if cluster else _option(ACL_OPTIONS[acl.resource_type], acl.resource_name)
    return _call(
        "acls",
        "--add",
        _option(f"--{word}-principal", acl.principal),
        _option(f"--{word}-host", acl.host),
        *(_option("--operation", operation_name(operation)) for operation in operations),
        resource,
        f"--resource-pattern-type={acl.pattern_type.lower()}",
    )


def operation_name(operation: str) -> str:
    """Convert the name of an ACL operation to the form of `kafka-acls`, such as DescribeConfigs."""
    return "".join(part.capitalize() for part in operation.split("_"))


def _not_included(state: MetadataTables) -> Iterator[str]:
    own = [t.name for t in state.topics if t.name in OWN_TOPICS]
    if own:
        yield _note(f"topics that brokers create: {', '.join(own)}")
    if state.scram:
        yield _note(f"SCRAM users, whose passwords are not stored: {', '.join(sorted({s.user for s in state.scram}))}")
    if state.delegation_tokens:
        yield _note(f"{len(state.delegation_tokens)} delegation tokens")
    if loggers := sorted({c.resource_name for c in state.configs if c.resource_type == "broker_logger"}):
        yield _note(f"log levels of the brokers {', '.join(loggers)}")
    other = sorted({c.resource_type for c in state.configs} - {"topic", "broker_logger", *ENTITIES})
    if other:
        yield _note(f"configs of resources of the types {', '.join(other)}")
