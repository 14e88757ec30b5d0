"""A Spark session that works where kafkafmt does: finds a Java, hands this Python to the workers, keeps the terminal quiet.

Nothing here is needed by the data source or the functions: they work in any session that Spark's users already have.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ..extras import install_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
JAVA_REMEDY = f"install a JDK {OLDEST_JAVA} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or set JAVA_HOME to one"

# In force from the JVM's first line on, so that what Spark warns of before its own settings are read is quiet too. A task
# that fails is told to the caller, as an exception, not twice more in pages of Java.
LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
"""


class SparkMissingError(ImportError):
    """pyspark, or a Java for it, is not there; the message is one line with the remedy."""


@functools.cache
def java_version(java: str) -> int:
    """The feature release of a `java` (17 of "17.0.2"), 0 where it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr) if answer.returncode == 0 else None
    return int(found[1]) if found else 0


def find_java() -> Path:
    """The `java` to run Spark on: of JAVA_HOME, on the PATH, or the one that `make setup` put into this environment.

    The first that is new enough; SparkMissingError where there is none.
    """
    tried = []
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    for java in (home and str(Path(home, "bin", "java")), on_path, str(Path(sys.prefix, "jdk", "bin", "java"))):
        if not java or not os.path.exists(java):
            continue
        if (release := java_version(java)) >= OLDEST_JAVA:
            return Path(java)
        tried.append(f"{java} is Java {release}" if release else f"{java} does not run")
    found = "; ".join(tried) or "there is no Java"
    raise SparkMissingError(f"Spark needs Java {OLDEST_JAVA} or newer, but {found}: {JAVA_REMEDY}")


def prepare_environment() -> None:
    """See to it that pyspark finds a Java and that its workers run this Python. SparkMissingError where it cannot work.

    Sets JAVA_HOME only where Spark would not find that Java by itself, and PYSPARK_PYTHON only where it is not set:
    without it the workers would take the first python3 on the path.
    """
    try:
        import pyspark  # noqa: F401
    except ImportError as missing:
        raise SparkMissingError(f"this needs pyspark: {install_line('spark')}") from missing
    java = find_java()
    home = os.environ.get("JAVA_HOME")
    expected = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if str(java) != expected:
        wrapper = java.is_relative_to(sys.prefix)
        os.environ["JAVA_HOME"] = str((java if wrapper else java.resolve()).parents[1])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def make_session(master: str | None = "local[*]", app_name: str = "kafkafmt", **conf: str | float | bool) -> SparkSession:
    """A Spark session, or the one that runs already.

    master: None leaves it to spark-submit and its configuration. conf: Spark's settings, `**{"spark.driver.memory": "2g"}`;
    they win over the ones made here: no UI, no progress bar, only errors on the terminal.
    """
    prepare_environment()
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    settings |= {key: str(value) for key, value in conf.items()}
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    with tempfile.NamedTemporaryFile("w", prefix="kafkafmt-log4j2-", suffix=".properties") as file:
        file.write(LOG4J)
        file.flush()
        quiet = f"-Dlog4j2.configurationFile={Path(file.name).as_uri()}"
        settings["spark.driver.extraJavaOptions"] = (
            f"{quiet} {settings.get('spark.driver.extraJavaOptions', '')}".strip()
        )
        for key, value in settings.items():
            builder = builder.config(key, value)
        with warnings.catch_warnings():  # of pyspark's own, about versions of pandas; nothing here uses pandas
            warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
            return builder.getOrCreate()


def stop_quietly(spark: SparkSession) -> None:
    """Stop a session without a log line: tasks of a cancelled job may still be running, and log that Spark is gone."""
    spark.sparkContext.setLogLevel("OFF")
    spark.stop()
