"""The settings of a Spark session on which the translation relies.

>>> SPARK_SETTINGS["spark.sql.ansi.enabled"]
'true'
"""

SPARK_SETTINGS = {
    # errors instead of NULLs and wrapped-around numbers
    "spark.sql.ansi.enabled": "true",
    # quoted names are exact
    "spark.sql.caseSensitive": "true",
    # timestamptz to text, date and timestamp happen in this zone
    "spark.sql.session.timeZone": "UTC",
    # an exact result or an overflow, never silently fewer digits
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    # ORDER BY 1, GROUP BY 1
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.groupByOrdinal": "true",
    # backslashes in string literals are escapes: how translate writes strings
    "spark.sql.parser.escapedStringLiterals": "false",
    # as PostgreSQL's jsonb: the last of several equal keys wins
    "spark.sql.variant.allowDuplicateKeys": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # Fails for a scalar subquery that depends on the row, if rows come from a union that is inside of another one
    # (SPARK-59042), as those of a table do that has been deleted from. All else it does is to make plans smaller. The
    # second one computes the columns of a query over a LIMIT for rows that the LIMIT leaves out, where they may fail.
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.CombineUnions,"
        "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughLimitAndOffset"
    ),
}
