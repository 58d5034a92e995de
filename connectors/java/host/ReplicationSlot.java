package io.ringfence.connect;

import java.sql.Connection;
import java.sql.Driver;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The replication slot of Debezium's PostgreSQL connector. A snapshot is exact only with a slot that is created for it: an
 * older slot streams changes that the snapshot already contains. Uses the plugin's driver and connection settings.
 */
final class ReplicationSlot {
    private static final Logger LOG = LoggerFactory.getLogger(ReplicationSlot.class);
    private static final String PACKAGE = "io.debezium.connector.postgresql.";
    private static final Set<String> WITHOUT_SNAPSHOT = Set.of("no_data", "never");
    private static final long PATIENCE_MS = 60_000;
    private static final Map<String, String> SETTINGS = Map.of(
        "database.user", "user", "database.password", "password", "database.sslmode", "sslmode",
        "database.sslcert", "sslcert", "database.sslkey", "sslkey", "database.sslpassword", "sslpassword",
        "database.sslrootcert", "sslrootcert", "database.sslfactory", "sslfactory");

    private ReplicationSlot() { }

    /** Returns whether the connector, or its task, takes a snapshot that is not exact with an older slot. */
    static boolean concerns(String className, Map<String, String> config) {
        String mode = config.getOrDefault("snapshot.mode", "initial").trim().toLowerCase(Locale.ROOT);
        return className.startsWith(PACKAGE) && !WITHOUT_SNAPSHOT.contains(mode);
    }

    /** Returns the slot's name if it exists, else null. */
    static String find(Plugins plugins, Map<String, String> config) throws Exception {
        try (Connection database = connect(plugins, config)) {
            return isThere(database, name(config)) ? name(config) : null;
        }
    }

    /**
     * Before a first snapshot that must be exact, drops an existing slot if that is allowed, and otherwise throws
     * ConnectException.
     */
    static void clear(Plugins plugins, String taskClass, Map<String, String> config, OffsetStorageReader offsets)
            throws Exception {
        boolean exact = Boolean.parseBoolean(config.getOrDefault("snapshot.transaction", "false").trim());
        if (!exact || !concerns(taskClass, config)) return;
        if (offsets.offset(Map.of("server", config.getOrDefault("topic.prefix", ""))) != null) return;
        String name = name(config);
        try (Connection database = connect(plugins, config)) {
            if (!isThere(database, name)) return;
            if (!Boolean.parseBoolean(config.getOrDefault("snapshot.transaction.drop.slot", "false").trim()))
                throw new ConnectException("The replication slot " + name + " exists, and no source offset is committed: it is "
                    + "left from an interrupted snapshot, or belongs to another program. With it, changes made around the "
                    + "beginning of the snapshot would be duplicated. Drop it (SELECT pg_drop_replication_slot('" + name
                    + "')), or set snapshot.transaction.drop.slot=true");
            drop(database, name);
            LOG.warn("Dropped the replication slot {}: no source offset is committed, and the snapshot needs a new slot", name);
        }
    }

    /** Drops the slot. Waits if the server has not noticed yet that the last reader is gone. */
    private static void drop(Connection database, String name) throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            try (PreparedStatement ask = database.prepareStatement("SELECT pg_drop_replication_slot(?)")) {
                ask.setString(1, name);
                ask.execute();
                return;
            } catch (SQLException error) {
                boolean inUse = "55006".equals(error.getSQLState());
                if (!inUse || System.currentTimeMillis() > deadline) throw error;
                Thread.sleep(500);
            }
        }
    }

    private static boolean isThere(Connection database, String name) throws SQLException {
        try (PreparedStatement ask = database.prepareStatement("SELECT 1 FROM pg_replication_slots WHERE slot_name = ?")) {
            ask.setString(1, name);
            try (ResultSet found = ask.executeQuery()) {
                return found.next();
            }
        }
    }

    private static String name(Map<String, String> config) {
        return config.getOrDefault("slot.name", "debezium").trim();
    }

    private static Connection connect(Plugins plugins, Map<String, String> config) throws Exception {
        ClassLoader loader = plugins.connectorLoader(PACKAGE + "PostgresConnector", null);
        try (LoaderSwap ignored = plugins.withClassLoader(loader)) {
            Driver driver = (Driver) loader.loadClass("org.postgresql.Driver").getDeclaredConstructor().newInstance();
            Properties login = new Properties();
            SETTINGS.forEach((theirs, named) -> {
                String value = config.get(theirs);
                if (value != null && !value.isBlank()) login.setProperty(named, value.trim());
            });
            login.setProperty("connectTimeout", "10");
            login.setProperty("socketTimeout", "30");
            String port = config.getOrDefault("database.port", "5432").trim();
            return driver.connect("jdbc:postgresql://" + config.get("database.hostname").trim() + ":" + port + "/"
                + config.get("database.dbname").trim(), login);
        }
    }
}
