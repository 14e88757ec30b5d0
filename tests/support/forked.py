"""Call a function in a forked process."""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any


def in_child(action: Callable[[], Any]) -> Any:
    """Call `action` in a forked process. Return ["returned", result], or the type and the message of the error.

    The forked process is killed after 30 seconds. Then an EOFError is raised.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        os.close(read)
        try:
            try:
                result = ["returned", action()]
            except BaseException as error:
                result = [type(error).__name__, str(error)]
            os.write(write, json.dumps(result).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    if not answer:
        raise EOFError("the forked process ended without a result")
    return json.loads(answer)
