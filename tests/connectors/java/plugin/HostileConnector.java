package hostile;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.TransactionContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Behaves as the setting `behaviour` says. */
public class HostileConnector extends SourceConnector {
    private Map<String, String> config;

    /** As a file in the jar says. */
    static String versionOfJar() {
        try (InputStream file = HostileConnector.class.getResourceAsStream("/hostile-version")) {
            return file == null ? "7" : new String(file.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override public String version() { return versionOfJar(); }
    @Override public void start(Map<String, String> config) {
        this.config = config;
        if ("raise an error".equals(config.get("behaviour"))) context().raiseError(new ConnectException("the source is gone"));
    }
    @Override public Class<? extends Task> taskClass() { return HostileTask.class; }
    @Override public List<Map<String, String>> taskConfigs(int max) { return List.of(config); }
    @Override public void stop() { }
    @Override public ConfigDef config() {
        return new ConfigDef().define("behaviour", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "What it does.");
    }
    @Override public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> config) { return ExactlyOnceSupport.SUPPORTED; }
    @Override public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> config) {
        return ConnectorTransactionBoundaries.SUPPORTED;
    }
    @Override public boolean alterOffsets(Map<String, String> config, Map<Map<String, ?>, Map<String, ?>> offsets) {
        throw new ConnectException("no such table in " + version());
    }

    public interface HostileTaskMBean {
        int getPollsSeen();
    }

    public static class HostileTask extends SourceTask implements HostileTaskMBean {
        private static final Logger LOG = LoggerFactory.getLogger(HostileTask.class);
        private String behaviour;
        private String name;
        private String address;
        private int polls;

        @Override public String version() { return "7"; }
        @Override public void start(Map<String, String> config) {
            behaviour = config.get("behaviour");
            name = config.get("name");
            address = config.get("address");
            System.out.println("printed by a plugin for " + name);
            if (behaviour.equals("fail in start")) throw new ConnectException("cannot start");
            try {
                ManagementFactory.getPlatformMBeanServer().registerMBean(this, new ObjectName("hostile:type=task,name=" + name));
            } catch (JMException error) {
                throw new ConnectException(error);
            }
        }

        @Override public List<SourceRecord> poll() throws InterruptedException {
            polls++;
            LOG.debug("a poll begins");
            if (polls == 1) new Thread(() -> LOG.warn("a thread of {}", name), "helper").start();
            switch (behaviour) {
                case "exit": System.exit(42); return null;
                case "memory": {
                    List<byte[]> all = new ArrayList<>();
                    while (true) all.add(new byte[1 << 20]);
                }
                case "hang": Thread.sleep(Long.MAX_VALUE); return null;
                case "retry": throw new RetriableException("the source is away");
                case "pause": {
                    if (polls == 1) throw new RetriableException("the source is away");
                    Thread.sleep(200);
                    return null;
                }
                case "away": {
                    LOG.warn("No answer", new java.net.ConnectException("Connection refused"));
                    Thread.sleep(500);
                    return null;
                }
                case "transactions": return transactions();
                case "connect": return polls > 1 ? null : List.of(record(tryToConnect(), 1L));
                case "shapes": return polls > 1 ? null : shapes();
                case "version": return polls > 1 ? null : List.of(record(versionOfJar(), 1L));
                case "skip": {
                    SourceRecord first = record("a", 1L);
                    first.headers().addBoolean("drop", true);
                    return polls > 1 ? null : List.of(first, record("b", 2L));
                }
                default: Thread.sleep(200); return null;
            }
        }

        /** A value of each shape that the default converter tells apart. */
        private List<SourceRecord> shapes() {
            Schema schema = SchemaBuilder.struct().field("id", Schema.INT32_SCHEMA).field("name", Schema.STRING_SCHEMA).build();
            Schema numbers = SchemaBuilder.array(Schema.INT32_SCHEMA).optional().build();
            List<SourceRecord> records = new ArrayList<>();
            records.add(of(schema, new Struct(schema).put("id", 1).put("name", "Ann")));
            records.add(of(numbers, List.of(1, 2)));
            records.add(of(numbers, null));
            records.add(of(null, Map.of("a", 1L)));
            records.add(of(Schema.STRING_SCHEMA, "a line"));
            records.add(of(Schema.BYTES_SCHEMA, new byte[] {65, 66}));
            records.add(of(Schema.INT64_SCHEMA, 7L));
            records.add(of(null, null));
            return records;
        }

        private SourceRecord of(Schema schema, Object value) {
            return new SourceRecord(Map.of("table", "t"), Map.of("row", 1L), "topic", schema, value);
        }

        /** With and without a deadline, which a JVM does in different ways. */
        private String tryToConnect() {
            int colon = address.lastIndexOf(':');
            StringBuilder outcome = new StringBuilder();
            for (int timeout : new int[] {0, 2000}) {
                try (Socket socket = new Socket()) {
                    int port = Integer.parseInt(address.substring(colon + 1));
                    socket.connect(new InetSocketAddress(address.substring(0, colon), port), timeout);
                    outcome.append("connected;");
                } catch (IOException error) {
                    outcome.append(error.getMessage()).append(';');
                }
            }
            return outcome.toString();
        }

        /** Two transactions and the beginning of a third in one batch. */
        private List<SourceRecord> transactions() throws InterruptedException {
            if (polls > 1) {
                Thread.sleep(200);
                return null;
            }
            TransactionContext context = this.context.transactionContext();
            List<SourceRecord> records = new ArrayList<>();
            for (long number = 1; number <= 5; number++) records.add(record("v" + number, number));
            context.commitTransaction(records.get(1));
            context.abortTransaction(records.get(3));
            return records;
        }

        private SourceRecord record(String value, long number) {
            return new SourceRecord(Map.of("table", "t"), Map.of("row", number), "topic", Schema.STRING_SCHEMA, value);
        }

        @Override public int getPollsSeen() { return behaviour.equals("hang") ? 7 : Math.min(polls, 1); }
        @Override public void commitRecord(SourceRecord record, RecordMetadata at) {
            System.out.println("committed " + record.value() + " at " + at);
        }
        @Override public void stop() { }
    }
}
