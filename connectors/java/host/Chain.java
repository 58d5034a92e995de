package io.ringfence.connect;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.TransformationStage;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** A connector's transforms and converters, created as in Kafka Connect's worker. */
final class Chain implements AutoCloseable {
    private static final String TEXT = "org.apache.kafka.connect.storage.StringConverter";
    private final Converter key, value;
    private final HeaderConverter header;
    private final List<TransformationStage<SourceRecord>> stages;
    private final Tolerance tolerance;

    Chain(Plugins plugins, ConnectMetrics metrics, WorkerConfig worker, Map<String, String> config, ConnectorTaskId id) {
        SourceConnectorConfig own = new SourceConnectorConfig(plugins, config, true);
        key = keyConverter(plugins, own, worker);
        value = valueConverter(plugins, own, worker);
        header = headerConverter(plugins, own, worker);
        stages = own.transformationStages(plugins, id, metrics);
        tolerance = new Tolerance(config, id);
    }

    static Converter keyConverter(Plugins plugins, ConnectorConfig own, WorkerConfig worker) {
        Converter found = plugins.newConverter(
            own, ConnectorConfig.KEY_CONVERTER_CLASS_CONFIG, ConnectorConfig.KEY_CONVERTER_VERSION_CONFIG);
        return found != null ? found : plugins.newConverter(worker, "key.converter", Plugins.ClassLoaderUsage.PLUGINS);
    }

    static Converter valueConverter(Plugins plugins, ConnectorConfig own, WorkerConfig worker) {
        Converter found = plugins.newConverter(
            own, ConnectorConfig.VALUE_CONVERTER_CLASS_CONFIG, ConnectorConfig.VALUE_CONVERTER_VERSION_CONFIG);
        return found != null ? found : plugins.newConverter(worker, "value.converter", Plugins.ClassLoaderUsage.PLUGINS);
    }

    static HeaderConverter headerConverter(Plugins plugins, ConnectorConfig own, WorkerConfig worker) {
        HeaderConverter found = plugins.newHeaderConverter(
            own, ConnectorConfig.HEADER_CONVERTER_CLASS_CONFIG, ConnectorConfig.HEADER_CONVERTER_VERSION_CONFIG);
        return found != null ? found : plugins.newHeaderConverter(worker, "header.converter", Plugins.ClassLoaderUsage.PLUGINS);
    }

    /** Returns a worker configuration for converters only: no client is created from it. settings: the worker's converters. */
    static WorkerConfig worker(Map<String, String> settings, String path) {
        Map<String, String> all = new HashMap<>(Map.of(
            "bootstrap.servers", "none:1", "offset.storage.file.filename", "/dev/null",
            "key.converter", TEXT, "value.converter", TEXT, "plugin.path", path));
        all.putAll(settings);
        return new StandaloneConfig(all);
    }

    /** Returns the settings of the configuration's transforms, predicates and converters. */
    static ConfigDef settings(Plugins plugins, Map<String, String> config) {
        return ConnectorConfig.enrich(plugins, SourceConnectorConfig.configDef(), config, false);
    }

    /**
     * Adds the record to the batch, unless a transform drops it, and its offset in any case. Returns the record's topic, or
     * null if it was dropped or became a dead letter.
     */
    String pack(SourceRecord record, Packer to) {
        to.offset(record.sourcePartition(), record.sourceOffset());
        return tolerance.plain ? convert(record, to) : tolerance.tryTo(record, to, this);
    }

    private String convert(SourceRecord record, Packer to) {
        SourceRecord out = record;
        RecordHeaders headers;
        byte[] k, v;
        int done = 0;
        Tolerance.Stage stage = Tolerance.Stage.TRANSFORMATION;
        try {
            for (TransformationStage<SourceRecord> each : stages) {
                out = each.apply(out);
                if (out == null) return null;
                done++;
            }
            stage = Tolerance.Stage.HEADER_CONVERTER;
            headers = headers(out);
            stage = Tolerance.Stage.KEY_CONVERTER;
            k = key(out, headers);
            stage = Tolerance.Stage.VALUE_CONVERTER;
            v = value(out, headers);
        } catch (Exception error) {
            throw tolerance.refuse(record, stage, done, className(stage, done), error);
        }
        to.add(out.topic(), out.kafkaPartition(), out.timestamp(), k, v, pairs(headers));
        return out.topic();
    }

    @Override
    public void close() {
        for (TransformationStage<SourceRecord> each : stages) each.close();
        Utils.closeQuietly(key, "key converter");
        Utils.closeQuietly(value, "value converter");
        Utils.closeQuietly(header, "header converter");
    }

    List<TransformationStage<SourceRecord>> stages() {
        return stages;
    }

    RecordHeaders headers(SourceRecord out) {
        RecordHeaders headers = new RecordHeaders();
        for (Header each : out.headers())
            headers.add(each.key(), header.fromConnectHeader(out.topic(), each.key(), each.schema(), each.value()));
        return headers;
    }

    byte[] key(SourceRecord out, RecordHeaders headers) {
        return key.fromConnectData(out.topic(), headers, out.keySchema(), out.key());
    }

    byte[] value(SourceRecord out, RecordHeaders headers) {
        return value.fromConnectData(out.topic(), headers, out.valueSchema(), out.value());
    }

    /** Returns the class that failed for a record. done: the number of transforms that had succeeded. */
    String className(Tolerance.Stage stage, int done) {
        return stage == Tolerance.Stage.TRANSFORMATION ? stages.get(done).transformClass().getName() : converterClass(stage);
    }

    private String converterClass(Tolerance.Stage stage) {
        switch (stage) {
            case HEADER_CONVERTER: return header.getClass().getName();
            case KEY_CONVERTER: return key.getClass().getName();
            default: return value.getClass().getName();
        }
    }

    /** Returns headers in the format of {@link Packer#add}. */
    static List<Object> pairs(RecordHeaders headers) {
        List<Object> all = null;
        for (org.apache.kafka.common.header.Header each : headers) {
            if (all == null) all = new ArrayList<>(8);
            all.add(each.key());
            all.add(each.value() == null ? null : ByteBuffer.wrap(each.value()));
        }
        return all;
    }
}
