import java.math.BigDecimal;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.UUID;

/** What test_jdbc.py runs: each line that it prints is one fact, which the test compares. Arguments: URL, table. */
public class JdbcClient {
    static String table;

    static void fact(String name, Object value) {
        System.out.println(name + ": " + value);
    }

    public static void main(String[] arguments) throws Exception {
        table = arguments[1];
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            create(connection);
            write(connection);
            types(connection);
            binary(connection);
            cursor(connection);
            zone(connection);
            metadata(connection);
            errors(connection);
            uuids(connection);
        }
    }

    static void create(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(
                    "CREATE TABLE " + table + " (id INT PRIMARY KEY, name VARCHAR, price NUMERIC(10,2), big BIGINT,"
                            + " ratio DOUBLE PRECISION, yes BOOLEAN, day DATE, at TIMESTAMP, moment TIMESTAMPTZ,"
                            + " bytes BYTEA, numbers INT[], words VARCHAR[], document JSONB)");
            statement.execute("CREATE INDEX " + table + "_name ON " + table + " (name)");
            statement.execute(
                    "CREATE MATERIALIZED VIEW " + table + "_cheap AS SELECT id, name FROM " + table
                            + " WHERE price < 10");
        }
    }

    static void write(Connection connection) throws SQLException {
        String sql = "INSERT INTO " + table + " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?::jsonb)";
        try (PreparedStatement insert = connection.prepareStatement(sql)) {
            for (int id = 1; id <= 20; id++) {
                set(connection, insert, id);
                insert.addBatch();
            }
            fact("batch", Arrays.stream(insert.executeBatch()).sum());
            insert.setInt(1, 21);
            for (int at = 2; at <= 13; at++) {
                insert.setObject(at, null);
            }
            fact("nulls", insert.executeUpdate());
        }
        try (PreparedStatement update = connection.prepareStatement(
                "UPDATE " + table + " SET name = ? WHERE id = ANY (?)")) {
            update.setString(1, "it's");
            update.setArray(2, connection.createArrayOf("int4", new Object[] {2, 3}));
            fact("update", update.executeUpdate());
        }
        try (PreparedStatement returning = connection.prepareStatement(
                "INSERT INTO " + table + " (id, name) VALUES (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
            returning.setInt(1, 22);
            returning.setString(2, "last");
            returning.executeUpdate();
            ResultSet keys = returning.getGeneratedKeys();
            keys.next();
            fact("returned", keys.getInt("id") + " " + keys.getString("name"));
        }
    }

    static void set(Connection connection, PreparedStatement insert, int id) throws SQLException {
        insert.setInt(1, id);
        insert.setString(2, "n" + id);
        insert.setBigDecimal(3, new BigDecimal("0.25").add(BigDecimal.valueOf(id)));
        insert.setLong(4, 10_000_000_000L + id);
        insert.setDouble(5, id / 4.0);
        insert.setBoolean(6, id % 2 == 0);
        insert.setObject(7, LocalDate.of(2026, 1, id));
        insert.setObject(8, LocalDateTime.of(2026, 1, id, 12, 30, 15, 123_456_000));
        insert.setObject(9, OffsetDateTime.of(2026, 1, id, 12, 0, 0, 0, ZoneOffset.ofHours(2)));
        insert.setBytes(10, new byte[] {0, (byte) id, (byte) 0xff});
        insert.setArray(11, connection.createArrayOf("int4", new Object[] {id, null, -id}));
        insert.setArray(12, connection.createArrayOf("varchar", new Object[] {"a,b", "\"q\"", null}));
        insert.setString(13, "{\"id\": " + id + "}");
    }

    static String row(ResultSet rows) throws SQLException {
        Array numbers = rows.getArray("numbers");
        Array words = rows.getArray("words");
        byte[] bytes = rows.getBytes("bytes");
        return rows.getInt("id") + "|" + rows.getString("name") + "|" + rows.getBigDecimal("price") + "|"
                + rows.getLong("big") + "|" + rows.getDouble("ratio") + "|" + rows.getBoolean("yes") + "|"
                + rows.getObject("day", LocalDate.class) + "|" + rows.getObject("at", LocalDateTime.class) + "|"
                + rows.getObject("moment", OffsetDateTime.class) + "|"
                + (bytes == null ? null : HexFormat.of().formatHex(bytes)) + "|"
                + (numbers == null ? null : Arrays.toString((Object[]) numbers.getArray())) + "|"
                + (words == null ? null : Arrays.toString((Object[]) words.getArray())) + "|"
                + rows.getString("document");
    }

    static void types(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            ResultSet rows = statement.executeQuery("SELECT * FROM " + table + " WHERE id IN (1, 21) ORDER BY id");
            while (rows.next()) {
                fact("text", row(rows));
            }
        }
    }

    /** The driver names the statement and asks for binary once it has been executed often enough. */
    static void binary(Connection connection) throws SQLException {
        try (PreparedStatement select = connection.prepareStatement(
                "SELECT * FROM " + table + " WHERE id = ? AND moment > ? AND price >= ?")) {
            for (int time = 1; time <= 8; time++) {
                select.setInt(1, time);
                select.setObject(2, OffsetDateTime.of(2020, 1, 1, 0, 0, 0, 0, ZoneOffset.UTC));
                select.setBigDecimal(3, new BigDecimal("1.25"));
                ResultSet rows = select.executeQuery();
                rows.next();
                if (time == 1 || time == 8) {
                    fact("executed " + time, row(rows));
                }
            }
        }
    }

    static void cursor(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(7);
            ResultSet rows = statement.executeQuery("SELECT id FROM " + table + " ORDER BY id");
            int count = 0, sum = 0;
            while (rows.next()) {
                count++;
                sum += rows.getInt(1);
            }
            fact("cursor", count + " rows, sum " + sum);
        }
        connection.commit();
        connection.setAutoCommit(true);
    }

    /** The session is in the zone of the machine, which the driver has named: as a time of that zone it comes back. */
    static void zone(Connection connection) throws SQLException {
        try (PreparedStatement select = connection.prepareStatement(
                "SELECT ?::timestamptz, ?::timestamptz::date, to_char(moment, 'HH24:MI') FROM " + table + " WHERE id = 1")) {
            Timestamp midnight = Timestamp.valueOf("2024-07-01 00:00:00");
            select.setTimestamp(1, midnight);
            select.setTimestamp(2, midnight);
            ResultSet rows = select.executeQuery();
            rows.next();
            fact("zone", rows.getString(1) + "|" + rows.getTimestamp(1) + "|" + rows.getDate(2) + "|" + rows.getString(3));
        }
    }

    static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData data = connection.getMetaData();
        fact("product", data.getDatabaseProductName() + " " + data.getDatabaseMajorVersion());
        ResultSet tables = data.getTables(null, "public", table + "%", null);
        while (tables.next()) {
            fact("table", tables.getString("TABLE_NAME") + " " + tables.getString("TABLE_TYPE"));
        }
        ResultSet columns = data.getColumns(null, "public", table, "%");
        while (columns.next()) {
            fact("column", columns.getString("COLUMN_NAME") + " " + columns.getString("TYPE_NAME") + " "
                    + columns.getInt("DATA_TYPE") + " " + columns.getString("IS_NULLABLE"));
        }
        ResultSet keys = data.getPrimaryKeys(null, "public", table);
        while (keys.next()) {
            fact("key", keys.getString("COLUMN_NAME") + " " + keys.getInt("KEY_SEQ") + " "
                    + keys.getString("PK_NAME"));
        }
        ResultSet indexes = data.getIndexInfo(null, "public", table, false, true);
        while (indexes.next()) {
            fact("index", indexes.getString("INDEX_NAME") + " " + indexes.getString("COLUMN_NAME") + " "
                    + indexes.getBoolean("NON_UNIQUE"));
        }
        fact("foreign keys", data.getImportedKeys(null, "public", table).next());
        fact("exported keys", data.getExportedKeys(null, "public", table).next());
        ResultSet unique = data.getBestRowIdentifier(null, "public", table, DatabaseMetaData.bestRowSession, false);
        while (unique.next()) {
            fact("row identifier", unique.getString("COLUMN_NAME"));
        }
        ResultSet schemas = data.getSchemas();
        while (schemas.next()) {
            fact("schema", schemas.getString("TABLE_SCHEM"));
        }
        ResultSet catalogs = data.getCatalogs();
        while (catalogs.next()) {
            fact("catalog", catalogs.getString("TABLE_CAT"));
        }
        fact("types", data.getTypeInfo().next());
        fact("functions", data.getFunctions(null, "public", "%").next());
        fact("procedures", data.getProcedures(null, "public", "%").next());
        fact("privileges", data.getTablePrivileges(null, "public", table).next());
        fact("keywords", data.getSQLKeywords().contains("returning"));
        try (Statement statement = connection.createStatement()) {
            ResultSetMetaData about = statement.executeQuery("SELECT id, name AS n FROM " + table).getMetaData();
            fact("result", about.getColumnName(1) + " " + about.getColumnTypeName(1) + " " + about.getColumnLabel(2)
                    + " " + about.isAutoIncrement(1) + " " + about.getTableName(1));
        }
    }

    static void uuids(Connection connection) throws SQLException {
        String other = "u" + table;
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE " + other + " (id UUID PRIMARY KEY, ids UUID[], at TIME)");
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + other + " VALUES (?, ?, ?)")) {
            for (int id = 1; id <= 3; id++) {
                insert.setObject(1, new UUID(id, -id));
                insert.setArray(2, connection.createArrayOf("uuid", new Object[] {new UUID(0, id), null}));
                insert.setObject(3, LocalTime.of(id, 30, 15, 500_000));
                insert.addBatch();
            }
            insert.executeBatch();
        }
        try (PreparedStatement select = connection.prepareStatement("SELECT * FROM " + other + " WHERE id = ? AND at > ?")) {
            for (int time = 1; time <= 8; time++) {
                select.setObject(1, new UUID(2, -2));
                select.setObject(2, LocalTime.of(2, 0));
                ResultSet rows = select.executeQuery();
                rows.next();
                if (time == 1 || time == 8) {
                    fact("uuid", rows.getObject(1, UUID.class) + " " + rows.getObject(1).getClass().getSimpleName() + " "
                            + Arrays.toString((Object[]) rows.getArray(2).getArray()) + " "
                            + rows.getObject(3, LocalTime.class) + " " + rows.getTime(3) + " " + rows.getString(3));
                }
            }
        }
        ResultSet columns = connection.getMetaData().getColumns(null, "public", other, "%");
        while (columns.next()) {
            fact("column", columns.getString("COLUMN_NAME") + " " + columns.getString("TYPE_NAME") + " "
                    + columns.getInt("DATA_TYPE"));
        }
    }

    static void errors(Connection connection) throws SQLException {
        try (PreparedStatement select = connection.prepareStatement("SELECT ?::int, nothing FROM " + table)) {
            select.setInt(1, 1_000_000);
            select.executeQuery();
        } catch (SQLException error) {
            fact("error", error.getSQLState() + " " + error.getMessage().replace("\n", " "));
        }
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.execute("SELECT 1 / 0");
        } catch (SQLException error) {
            fact("error", error.getSQLState());
        }
        connection.rollback();
        connection.setAutoCommit(true);
        fact("alive", connection.isValid(10));
    }
}
