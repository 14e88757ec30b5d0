"""Start a Spark session that uses a suitable Java and the current Python. The session logs only errors.

This module is optional. The data source, the data sink and the functions of kafkafmt work in any
Spark session.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ..support.extras import install_line
from ..support.java import SparkMissingError, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Log4j reads these settings when the JVM starts. They also hide the warnings that Spark logs while it starts.
# Failures of tasks are not logged, because the driver raises them as exceptions.
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


def prepare_environment() -> None:
    """Set environment variables so that pyspark finds Java and its workers use the current Python."""
    # JAVA_HOME is set only if Spark would not find a suitable Java. Spark would use the first
    # python3 on the PATH if PYSPARK_PYTHON had no value.
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
    """Return the active Spark session. If there is none, start a new session.

    Parameters
    ----------
    master : str or None, default "local[*]"
        Master URL of Spark. If it is None, spark-submit or Spark's configuration sets the master.
    app_name : str, default "kafkafmt"
        Name of the Spark application.
    **conf
        Spark settings, such as ``**{"spark.driver.memory": "2g"}``. They override the defaults of
        this function, which disable the web UI and the progress bar.

    Returns
    -------
    pyspark.sql.SparkSession
        The session.

    Raises
    ------
    SparkMissingError
        pyspark or Java 17 or newer is missing. `SparkMissingError` is a subclass of ImportError.

    Notes
    -----
    The function searches for Java in JAVA_HOME, on the PATH and in the current Python environment.
    If Spark would not find this Java by itself, the function sets JAVA_HOME. The workers use the
    current Python unless PYSPARK_PYTHON is set.
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
        # pyspark warns about the version of pandas. Ignore the warning, because kafkafmt does not use pandas.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
            return builder.getOrCreate()


def uses_connect() -> bool:
    from pyspark import SparkContext

    if "SPARK_CONNECT_MODE_ENABLED" in os.environ:  # set by pyspark when it starts a Spark Connect session
        return True
    return "SPARK_REMOTE" in os.environ and SparkContext._active_spark_context is None


def active_session() -> SparkSession | None:
    """Return the active Spark session of this process. If there is none, return None."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return None if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


def stop_quietly(spark: SparkSession) -> None:
    """Stop a Spark session without log messages: tasks of a cancelled job would log that they cannot connect."""
    spark.sparkContext.setLogLevel("OFF")
    spark.stop()
