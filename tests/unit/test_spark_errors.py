"""What Spark says, in words that help whoever reads them."""

from __future__ import annotations

import sys

from pyspark.errors import PythonException

from headrace.engine.spark import translate_error
from headrace.errors import DataError, EnvironmentProblem


def test_executors_with_another_python():
    error = PythonException("Traceback …\nModuleNotFoundError: No module named 'pyarrow'\n")
    told = translate_error(error, "writing an epoch")
    assert isinstance(told, EnvironmentProblem)
    assert "No module named 'pyarrow'" in told.message
    assert "PYSPARK_PYTHON" in told.hint and sys.executable in told.hint


def test_arithmetic_of_java_is_an_error_of_the_data():
    told = translate_error(Exception("Job aborted: java.lang.ArithmeticException: long overflow"), "writing an epoch")
    assert isinstance(told, DataError)
    assert told.sqlstate == "22003"


def test_a_cast_that_overflows_is_told_in_sql():
    said = 'The value 40000 of the type "INT" cannot be cast to "SMALLINT" due to an overflow. Use `try_cast` to …'
    told = translate_error(Exception(f"[CAST_OVERFLOW] {said} SQLSTATE: 22003"), "the query")
    assert (told.message, told.sqlstate) == ("smallint out of range", "22003")
