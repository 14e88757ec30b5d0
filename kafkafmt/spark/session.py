"""Start a Spark session that uses a suitable Java and this Python, and that prints only errors.

The data source and the functions do not need this module. They work in any Spark session.
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

# Log4j reads these settings when the JVM starts, so they also apply to warnings that Spark logs
# before it reads its own configuration. A failed task raises an exception in the caller. Therefore,
# the executor and the task set manager do not log the failure.
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
    """Raised if pyspark or a suitable Java is missing.

    The message is one line that says what to install.
    """


@functools.cache
def java_version(java: str) -> int:
    """Return the feature release of a `java` executable, or 0 if the executable does not run.

    The feature release of version "17.0.2" is 17.
    """
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr) if answer.returncode == 0 else None
    return int(found[1]) if found else 0


def find_java() -> Path:
    """Return the path of the first `java` executable that is new enough for Spark.

    The function first tries the executable in JAVA_HOME, then the executable on the PATH, and then
    the executable that `make setup` installs into this Python environment. Raise SparkMissingError
    if no executable is new enough.
    """
    tried = []
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    for java in (home and str(Path(home, "bin", "java")), on_path, str(Path(sys.prefix, "jdk", "bin", "java"))):
        if not java or not os.path.exists(java):
            continue
        if (release := java_version(java)) >= OLDEST_JAVA:
            return Path(java)
        tried.append(f"{java} is Java {release}" if release else f"{java} does not run")
    found = "; ".join(tried) or "no Java was found"
    raise SparkMissingError(f"Spark needs Java {OLDEST_JAVA} or newer, but {found}: {JAVA_REMEDY}")


def prepare_environment() -> None:
    """Set environment variables so that pyspark finds Java and its workers run this Python.

    JAVA_HOME is set only if Spark would not find a suitable Java by itself. PYSPARK_PYTHON is set
    unless it already has a value, because the workers would otherwise run the first python3 on the
    PATH. Raise SparkMissingError if pyspark or Java is missing.
    """
    try:
        import pyspark  # noqa: F401
    except ImportError as missing:
        raise SparkMissingError(f"kafkafmt.spark needs pyspark: {install_line('spark')}") from missing
    java = find_java()
    home = os.environ.get("JAVA_HOME")
    expected = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if str(java) != expected:
        wrapper = java.is_relative_to(sys.prefix)
        os.environ["JAVA_HOME"] = str((java if wrapper else java.resolve()).parents[1])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def make_session(
    master: str | None = "local[*]", app_name: str = "kafkafmt", **conf: str | float | bool
) -> SparkSession:
    """Start a Spark session, or return the active one.

    Parameters
    ----------
    master : str or None, default "local[*]"
        Master URL. If it is None, spark-submit and its configuration choose the master.
    app_name : str, default "kafkafmt"
        Name of the Spark application.
    **conf
        Spark settings, such as ``**{"spark.driver.memory": "2g"}``. They override the defaults of
        this function, which disable the web UI and the progress bar and log only errors.

    Returns
    -------
    pyspark.sql.SparkSession
        The session.

    Raises
    ------
    SparkMissingError
        pyspark is missing, or Java 17 or newer is missing. The error is an ImportError.

    Notes
    -----
    The function looks for Java in JAVA_HOME, on the PATH and in the current Python environment. It
    sets JAVA_HOME if Spark would not find Java otherwise. The workers run the current Python unless
    PYSPARK_PYTHON is set.
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
        with warnings.catch_warnings():  # pandas is not used, but pyspark warns about its version
            warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
            return builder.getOrCreate()


def active_session() -> SparkSession | None:
    """Return the Spark session of this process, or None if there is none."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return None if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


def stop_quietly(spark: SparkSession) -> None:
    """Stop a Spark session without printing log messages.

    Tasks of a cancelled job may still be running and would otherwise log errors, because they can
    no longer reach Spark.
    """
    spark.sparkContext.setLogLevel("OFF")
    spark.stop()
