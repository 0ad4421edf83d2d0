"""Asking Spark about its functions: the oracle that the binder is given.

Spark analyses ``SELECT f(…)`` over a relation of one row, with constants as they are and columns of the arguments'
types. Nothing runs. What the analysed plan looks like tells an aggregate from a generator from a plain function.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from headrace.engine.spark import translate_error
from headrace.errors import HeadraceError, UndefinedFunction, Unsupported
from headrace.sql.oracle import AGGREGATE, GENERATOR, SCALAR, Argument, Found
from headrace.types import SqlType, from_spark_json

KEPT = 1024
"""Answers that are remembered."""

REFUSED = frozenset(
    # code and files of the machine that the engine runs on
    "java_method reflect try_reflect input_file_name input_file_block_start input_file_block_length "
    "from_protobuf to_protobuf from_avro to_avro schema_of_avro read_files "
    # they would speak of Spark's session, not of the client's
    "current_catalog current_database current_schema current_path current_user session_user user version "
    "current_timezone spark_partition_id monotonically_increasing_id "
    # they take rows away, or need a stream
    "window session_window window_time "
    # casts, with Spark's rounding
    "boolean tinyint smallint int bigint float double decimal date timestamp time binary string "
    # PostgreSQL has them with another meaning
    "regexp_substr regexp_instr to_json json_object_keys mode date_add array_sample char nullifzero factorial".split()
)
"""Names that exist in Spark and must not be reached."""


class SparkFunctions:
    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._lock = threading.Lock()
        self._answers: OrderedDict[tuple, Found | HeadraceError | None] = OrderedDict()

    def find(self, name: str, arguments: Sequence[Argument]) -> Found | None:
        key = (name, tuple(arguments))
        with self._lock:
            known = key in self._answers
            answer = self._answers.get(key)
        if not known:
            answer = self._ask(name, arguments)
            with self._lock:
                self._answers[key] = answer
                while len(self._answers) > KEPT:
                    self._answers.popitem(last=False)
        if isinstance(answer, HeadraceError):
            raise type(answer)(answer.message, hint=answer.hint)
        return answer

    def _ask(self, name: str, arguments: Sequence[Argument]) -> Found | HeadraceError | None:
        if name in REFUSED:
            return Unsupported(f"function {name}() is not supported")
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", name) or not self._registered(name):
            return None
        columns = {f"c{number}": each for number, each in enumerate(arguments) if each.sql is None}
        calls = [f"c{number}" if each.sql is None else each.sql for number, each in enumerate(arguments)]
        nulls = ", ".join(f"CAST(NULL AS {each.spark})" for each in columns.values())
        source = f" FROM VALUES ({nulls}) AS v({', '.join(columns)})" if columns else ""
        try:
            frame = self._spark.sql(f"SELECT {name}({', '.join(calls)}){source}")
            fields = frame.schema.fields
            plan = frame._jdf.queryExecution().analyzed()
        except AnalysisException as error:
            return _wrong_arguments(name, arguments, error)
        except PySparkException as error:
            return translate_error(error, f"the function {name}()")
        kind = _kind(plan)
        if len(fields) != 1 and kind != GENERATOR:
            return Unsupported(f"function {name}(), which returns {len(fields)} columns, is not supported")
        types = []
        for field in fields:
            try:
                types.append(from_spark_json(field.dataType.jsonValue()))
            except Unsupported:
                return Unsupported(
                    f"function {name}(), which returns {field.dataType.simpleString()}, is not supported",
                    hint="Headrace has no such type",
                )
        if len(fields) > 1:
            columns = tuple((field.name, each) for field, each in zip(fields, types, strict=True))
            return Found(kind=kind, type=SqlType("struct", fields=columns), columns=columns)
        exact = fields[0].dataType.simpleString() == _simple(self._spark, types[0].spark)
        return Found(kind=kind, type=types[0], exact=exact)

    def _registered(self, name: str) -> bool:
        jvm = self._spark._jvm
        schema, catalog = jvm.scala.Option.apply("builtin"), jvm.scala.Option.apply("system")
        identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name, schema, catalog)
        return self._spark._jsparkSession.sessionState().functionRegistry().functionExists(identifier)


def _kind(plan) -> str:
    if plan.nodeName() == "Aggregate":
        return AGGREGATE
    children = plan.children()
    if children.size() == 1 and children.head().nodeName() == "Generate":
        return GENERATOR
    return SCALAR


def _simple(spark: SparkSession, ddl: str) -> str:
    from pyspark.sql.types import StructType

    return StructType.fromDDL(f"c {ddl}")[0].dataType.simpleString()


def _wrong_arguments(name: str, arguments: Sequence[Argument], error: AnalysisException) -> HeadraceError:
    kinds = ", ".join("unknown" if each.type is None else str(each.type) for each in arguments)
    said = translate_error(error, f"the function {name}()").message.partition(" Please, refer to")[0]
    return UndefinedFunction(f"function {name}({kinds}) does not exist", hint=f"Spark has one, but says: {said}")
