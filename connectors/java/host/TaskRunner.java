package io.ringfence.connect;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.WorkerTransactionContext;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.source.TransactionContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** One instance of a SourceTask with its transforms and converters. One thread calls poll, committed and stop. */
final class TaskRunner {
    private static final int LARGE = 4 << 20;

    final SourceTask task;
    private final Plugins plugins;
    private final ClassLoader loader;
    private final ConnectMetrics metrics;
    private final Chain chain;
    private final WorkerTransactionContext transactions;
    private final Packer packer;
    /** The batches that are not committed yet. */
    private final ArrayDeque<OpenBatch> open = new ArrayDeque<>();
    private final Hears hears;
    private final boolean hearsCommits;
    private long number;
    private OpenBatch part;

    TaskRunner(Plugins plugins, String path, Map<String, String> workerSettings, Map<String, String> connector,
            Map<String, String> taskConfig, ConnectorTaskId id, OffsetStorageReader offsets, int batchBytes,
            Partitions partitions) throws Exception {
        this.plugins = plugins;
        loader = plugins.connectorLoader(connector.get("connector.class"), null);
        WorkerConfig worker = Chain.worker(workerSettings, path);
        metrics = new ConnectMetrics("ringfence-" + id, worker, Time.SYSTEM, "unknown");
        boolean own = "connector".equalsIgnoreCase(connector.getOrDefault("transaction.boundary", "").trim());
        transactions = own ? new WorkerTransactionContext() : null;
        try (LoaderSwap ignored = plugins.withClassLoader(loader)) {
            chain = new Chain(plugins, metrics, worker, connector, id);
            Class<? extends Task> type = loader.loadClass(taskConfig.get("task.class")).asSubclass(Task.class);
            task = (SourceTask) plugins.newTask(type);
            hears = hears(type);
            hearsCommits = hears != Hears.NOTHING || type.getMethod("commit").getDeclaringClass() != SourceTask.class;
            boolean columns = batchBytes == 0 || hears == Hears.EVERY; // which has the positions of its records
            packer = columns ? new ColumnPacker(new OffsetJson()) : new BatchPacker(new OffsetJson(), batchBytes, partitions);
            task.initialize(new Context(taskConfig, offsets, metrics.connectorPluginMetrics(id.connector())));
            ReplicationSlot.clear(plugins, type.getName(), taskConfig, offsets);
            task.start(taskConfig);
        }
    }

    /** The committed records that the task is notified of. */
    enum Hears { NOTHING, NEWEST, EVERY }

    /**
     * Debezium's tasks need only a committed record's offset, so the newest record of each source partition is enough: a
     * snapshot in one transaction has millions of records, which need not be kept until its end.
     */
    private static Hears hears(Class<?> type) {
        for (Method method : type.getMethods())
            if (method.getName().equals("commitRecord") && method.getDeclaringClass() != SourceTask.class)
                return method.getDeclaringClass().getName().startsWith("io.debezium.") ? Hears.NEWEST : Hears.EVERY;
        return Hears.NOTHING;
    }

    Hears hears() {
        return hears;
    }

    /** Returns whether the task overrides a method for commits; if not, {@link #committed} need not be called. */
    boolean hearsCommits() {
        return hearsCommits;
    }

    /** The kind of the frames of its batches. */
    char kind() {
        return packer.kind();
    }

    /** Returns the next records in batches that are ready to send; none if the task has no records now. */
    List<ByteBuffer> poll() throws Exception {
        try (LoaderSwap ignored = plugins.withClassLoader(loader)) {
            List<SourceRecord> records = task.poll();
            if (records == null) return List.of();
            List<ByteBuffer> parts = new ArrayList<>(1);
            part = new OpenBatch(hears);
            for (SourceRecord record : records) {
                int row = packer.records();
                String topic = chain.pack(record, packer);
                part.add(record, topic, row);
                int ending = transactions == null ? 0 : ending(record);
                // If the task does not define transaction boundaries, a batch may end anywhere, so limit its size.
                if (ending != 0 || (transactions == null && packer.size() >= LARGE)) {
                    parts.add(end(ending));
                }
            }
            int ending = transactions == null ? 0 : ending();
            if (!packer.empty() || ending != 0) parts.add(end(ending));
            return parts;
        }
    }

    private int ending(SourceRecord record) {
        if (transactions.shouldAbortOn(record)) return Packer.ABORT;
        return transactions.shouldCommitOn(record) ? Packer.COMMIT : 0;
    }

    private int ending() {
        if (transactions.shouldAbortBatch()) return Packer.ABORT;
        return transactions.shouldCommitBatch() ? Packer.COMMIT : 0;
    }

    private ByteBuffer end(int ending) {
        part.close(++number, packer.records());
        if (hearsCommits) open.add(part);
        part = new OpenBatch(hears);
        return packer.take(number, ending);
    }

    /** All batches up to this one are committed. positions: partition and offset of each of their records, or null. */
    void committed(long through, JsonNode positions) throws Exception {
        try (LoaderSwap ignored = plugins.withClassLoader(loader)) {
            int first = 0;
            while (!open.isEmpty() && open.peek().number() <= through) {
                OpenBatch batch = open.remove();
                batch.tell(task, positions, first);
                first += batch.rows();
            }
            task.commit();
        }
    }

    void stop() {
        try (LoaderSwap ignored = plugins.withClassLoader(loader)) {
            task.stop();
        } finally {
            chain.close();
            metrics.stop();
        }
    }

    private final class Context implements SourceTaskContext {
        private final Map<String, String> config;
        private final OffsetStorageReader reader;
        private final PluginMetrics metrics;

        Context(Map<String, String> config, OffsetStorageReader reader, PluginMetrics metrics) {
            this.config = config;
            this.reader = reader;
            this.metrics = metrics;
        }

        @Override public Map<String, String> configs() { return config; }
        @Override public OffsetStorageReader offsetStorageReader() { return reader; }
        @Override public TransactionContext transactionContext() { return transactions; }
        @Override public PluginMetrics pluginMetrics() { return metrics; }
    }
}
