"""Where a server is, and how to get there. What is printed of it never has the password."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import EnvironmentProblem, InvalidParameterValue

if TYPE_CHECKING:
    import psycopg

HINT = "postgresql://user:password@host:port/database, where @ : / ? # % of a password are written as %40 and so on"


class Address:
    def __init__(self, url: str):
        try:
            import psycopg.conninfo
        except ImportError:
            raise EnvironmentProblem(
                "psycopg is needed to connect to a server", hint="pip install 'headrace[client]'"
            ) from None
        self._url = url
        problem = InvalidParameterValue("this URL of a server cannot be read", hint=HINT)
        before_options = url.partition("?")[0].partition("://")[2]
        # A password that is not quoted ends too early, and what libpq takes its rest for it would print.
        if before_options.count("@") > 1 or "@" in before_options.partition("/")[2]:
            raise problem
        try:
            parts = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            raise problem from None  # libpq says which part is wrong by quoting it
        place = str(parts.get("host") or parts.get("hostaddr") or "localhost")
        place += f":{parts['port']}" if parts.get("port") else ""
        self._place = f"{place}/{parts['dbname']}" if parts.get("dbname") else place

    def open(self) -> psycopg.Connection:
        import psycopg

        try:
            # Whatever the environment says of an encoding: texts are read as UTF-8.
            return psycopg.connect(
                self._url, autocommit=True, client_encoding="utf8", fallback_application_name="headrace"
            )
        except psycopg.Error as error:
            raise EnvironmentProblem(f"cannot connect to {self}: {str(error).strip()}") from None

    def __str__(self) -> str:
        return self._place

    __repr__ = __str__
