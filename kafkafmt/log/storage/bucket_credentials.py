"""Check that credentials for an object store exist, before obstore asks a metadata service for them.

Outside of the cloud, no metadata service answers, and obstore repeats the request for minutes.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from ...support.paths import UrlPath

_VARIABLES = {
    "s3": r"AWS_(ACCESS_KEY_ID|WEB_IDENTITY_TOKEN_FILE|CONTAINER_CREDENTIALS_\w+|SKIP_SIGNATURE|METADATA_ENDPOINT)",
    "gs": r"(GOOGLE_)?SERVICE_ACCOUNT\w*|GOOGLE_(APPLICATION_CREDENTIALS|SKIP_SIGNATURE)|\w*METADATA_(HOST|ROOT)",
    "az": r"AZURE_\w*(KEY|SAS\w*|TOKEN|TOKEN_FILE|SECRET|AZURE_CLI|ENDPOINT|EMULATOR|SKIP_SIGNATURE)|(IDENTITY|MSI)_ENDPOINT",
}
"""Patterns of the environment variables from which obstore gets credentials, or the address of a service with them."""
_EXAMPLES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SKIP_SIGNATURE=true for a public bucket",
    "az": "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_SKIP_SIGNATURE=true for a public container",
}
_VENDORS = {"s3": "Amazon", "gs": "Google", "az": "Microsoft"}
"""Words in the vendor name of a virtual machine whose cloud has a metadata service."""
_MACHINE = Path("/sys/class/dmi/id")
_GOOGLE_FILE = Path(".config/gcloud/application_default_credentials.json")


def check_credentials(path: UrlPath, kind: str) -> None:
    """Raise PermissionError if there are no credentials for a URL of the store `kind` ("s3", "gs" or "az")."""
    kind = kind if kind in _VARIABLES else "az"
    pattern = re.compile(_VARIABLES[kind])
    if any(value and pattern.fullmatch(name.upper()) for name, value in os.environ.items()):
        return
    if (kind == "gs" and (Path.home() / _GOOGLE_FILE).exists()) or _is_in_cloud(_VENDORS[kind]):
        return
    why = f"there are no credentials for {path.scheme}://; set {_EXAMPLES[kind]}"
    raise PermissionError(errno.EACCES, why, str(path))


def _is_in_cloud(vendor: str) -> bool:
    """Return whether this machine is a virtual machine of a cloud, whose metadata service can have credentials."""
    for name in ("sys_vendor", "bios_vendor", "product_name"):
        try:
            if vendor in (_MACHINE / name).read_text(errors="replace"):
                return True
        except OSError:
            continue
    return False
