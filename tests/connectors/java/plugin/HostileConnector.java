package hostile;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.TransactionContext;

/** Behaves as the setting `behaviour` says. */
public class HostileConnector extends SourceConnector {
    private Map<String, String> config;

    @Override public String version() { return "7"; }
    @Override public void start(Map<String, String> config) { this.config = config; }
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
        throw new ConnectException("no such table");
    }

    public static class HostileTask extends SourceTask {
        private String behaviour;
        private int polls;

        @Override public String version() { return "7"; }
        @Override public void start(Map<String, String> config) {
            behaviour = config.get("behaviour");
            System.out.println("printed by a plugin");
            if (behaviour.equals("fail in start")) throw new ConnectException("cannot start");
        }

        @Override public List<SourceRecord> poll() throws InterruptedException {
            polls++;
            switch (behaviour) {
                case "exit": System.exit(42); return null;
                case "memory": {
                    List<byte[]> all = new ArrayList<>();
                    while (true) all.add(new byte[1 << 20]);
                }
                case "hang": Thread.sleep(Long.MAX_VALUE); return null;
                case "retry": throw new RetriableException("the source is away");
                case "transactions": return transactions();
                case "skip": return List.of(record("a", 1L), record("b", 2L));
                default: Thread.sleep(200); return null;
            }
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

        @Override public void stop() { }
    }
}
