"""Keys of all types that MariaDB or MySQL can order, with nine values of each."""

from __future__ import annotations

from tests.support.mariadb import MariaDb

KEYS = {
    "BIGINT UNSIGNED": "CAST(seq AS UNSIGNED) * 2049638230412172401",
    "VARCHAR(20) COLLATE utf8mb4_general_ci": "ELT(seq, 'a', 'B', 'c', 'Ä', 'é', 'F', 'z', 'Zz', '')",
    "CHAR(9) CHARACTER SET latin1 COLLATE latin1_german2_ci": "ELT(seq, 'a', 'ae', 'B', 'ß', 'st', 'ü', 'uf', '€', '')",
    "CHAR(9) CHARACTER SET ucs2": "ELT(seq, 'a', 'B', 'c', 'Ä', 'é', 'F', 'z', '€', '')",
    "BINARY(4)": "UNHEX(ELT(seq, '41', '4100', '00', 'FF', '8000', '41000001', '7F', '5C', '27'))",
    "VARBINARY(9)": "UNHEX(ELT(seq, '41', '4100', '00', 'FF', '', '41000001', '7F', '5C', '27'))",
    "DECIMAL(20, 6)": "seq * 1.25 - 5.0",
    "DOUBLE": "(seq - 5.0) / 3",
    "FLOAT": "(seq - 5.0) / 3",
    "DATE": "'2024-02-25' + INTERVAL seq DAY",
    "DATETIME(3)": "'2024-02-25' + INTERVAL seq * 100000 MICROSECOND",
    "TIMESTAMP(6)": "'2024-02-25' + INTERVAL seq * 100001 MICROSECOND",
    "TIME(2)": "SEC_TO_TIME((seq - 4.0) * 100000.25)",
    "YEAR": "ELT(seq, '0000', '1901', '1999', '2000', '2001', '2155', '1970', '2024', '2023')",
    "ENUM('z','a','','m','B','c','d','e','f','g')": "seq",
    "SET('z','a','m','b')": "seq",
    "BIT(12)": "seq * 400",
    "UUID": "UUID()",
    "INET6": "ELT(seq, '::', '::1', '::ffff:1.2.3.4', 'ff::', '1::2', '::2', 'a::', '1:2:3:4:5:6:7:8', '::1.2.3.4')",
}

ONLY = {
    "MariaDB": ("UUID", "INET6"),
    "MySQL": ("VARCHAR(20) COLLATE utf8mb4_0900_as_ci", "VARCHAR(20) COLLATE utf8mb4_0900_bin"),
}
KEYS |= dict.fromkeys(ONLY["MySQL"], "ELT(seq, 'a', 'B', 'c ', 'Ä', 'é', 'F', 'z', 'c', '')")


def keys(server: MariaDb) -> list[str]:
    (others,) = (kinds for name, kinds in ONLY.items() if name != server.name)
    return [kind for kind in KEYS if kind not in others]


def fill(mariadb: MariaDb, table: str, kind: str) -> None:
    mariadb.run(
        f"CREATE TABLE {table} (k {kind}, n INT, v INT, PRIMARY KEY (k, n))",
        f"INSERT IGNORE INTO {table} SELECT {KEYS[kind]}, 1, seq FROM seq_1_to_9 WHERE seq <> 3",
    )


def changes(table: str, kind: str) -> list[str]:
    return [
        f"UPDATE {table} SET v = v + 100 WHERE v % 3 = 0", f"DELETE FROM {table} WHERE v = 2",
        f"UPDATE {table} SET n = 2 WHERE v = 5", f"UPDATE {table} SET n = 1 WHERE n = 2",
        f"INSERT IGNORE INTO {table} SELECT {KEYS[kind]}, 1, seq + 50 FROM seq_1_to_9 WHERE seq IN (3, 8)",
        f"UPDATE {table} SET n = -1 WHERE v < 5",
    ]  # fmt: skip
