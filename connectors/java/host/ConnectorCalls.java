package io.ringfence.connect;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceConnectorContext;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Calls to connectors: each on a new instance, except those to running instances. */
final class ConnectorCalls {
    private final Frames frames;
    private final Plugins plugins;
    private final String path;
    private final Offsets offsets;
    private final Map<String, SourceConnector> running = new ConcurrentHashMap<>();

    ConnectorCalls(Frames frames, Plugins plugins, String path, Offsets offsets) {
        this.frames = frames;
        this.plugins = plugins;
        this.path = path;
        this.offsets = offsets;
    }

    Object answer(JsonNode order) throws Exception {
        String op = order.get("op").asText();
        Map<String, String> config = order.has("config") ? Frames.strings(order.get("config")) : Map.of();
        String name = order.has("name") ? order.get("name").asText() : "";
        switch (op) {
            case "slot": return slot(config);
            case "task_configs": return taskConfigs(name, order.get("max").asInt());
            case "stop_connector": stop(name); return true;
            default: break;
        }
        String type = op.equals("describe") ? order.get("type").asText() : config.get("connector.class");
        try (LoaderSwap ignored = plugins.withClassLoader(plugins.connectorLoader(type, null))) {
            SourceConnector connector = (SourceConnector) plugins.newConnector(type);
            switch (op) {
                case "describe": return describe(connector);
                case "validate": return validate(connector, type, config, Frames.strings(order.get("worker")));
                case "support": return List.of(
                    String.valueOf(connector.exactlyOnceSupport(config)),
                    String.valueOf(connector.canDefineTransactionBoundaries(config)));
                case "try": return walk(config, order);
                case "alter_offsets": return connector.alterOffsets(config, pairs(order.get("offsets")));
                case "start": start(connector, name, config); return true;
                default: throw new IllegalArgumentException(op);
            }
        }
    }

    private Object slot(Map<String, String> config) throws Exception {
        boolean concerned = ReplicationSlot.concerns(config.get("connector.class"), config);
        String found = concerned ? ReplicationSlot.find(plugins, config) : null;
        return Map.of("concerned", concerned, "found", found == null ? "" : found);
    }

    private Object walk(Map<String, String> config, JsonNode order) throws Exception {
        try (Trial trial = new Trial(plugins, path, Frames.strings(order.get("worker")), config)) {
            return trial.walk(order.get("record"));
        }
    }

    /** Loads the classes that every task and call needs, for the class archive (CDS). */
    void warm() {
        WorkerConfig worker = Chain.worker(Map.of(), path);
        Map<String, String> config = Map.of("name", "warm", "connector.class", "warm",
            "key.converter", "org.apache.kafka.connect.json.JsonConverter",
            "value.converter", "org.apache.kafka.connect.json.JsonConverter");
        ConnectMetrics metrics = new ConnectMetrics("ringfence", worker, Time.SYSTEM, "unknown");
        Chain chain = new Chain(plugins, metrics, worker, config, new ConnectorTaskId("warm", 0));
        Packer packer = new ColumnPacker(new OffsetJson());
        chain.pack(new SourceRecord(Map.of("a", 1), Map.of("b", 2L), "t", Schema.STRING_SCHEMA, "v"), packer);
        frames.send(packer.kind(), packer.take(1, 0));
        frames.send(Map.of("event", "warm", "parts", parts("warm", config, Map.of())));
        Metrics.read(null);
    }

    private static Map<String, Object> describe(SourceConnector connector) {
        List<Object> keys = new ArrayList<>();
        for (ConfigDef.ConfigKey key : connector.config().configKeys().values()) keys.add(AbstractHerder.convertConfigKey(key));
        return Map.of("keys", keys, "task_class", connector.taskClass().getName(), "version", String.valueOf(connector.version()));
    }

    /** Returns Kafka Connect's validation results: the connector's own settings, and its transforms and converters. */
    private Object validate(SourceConnector connector, String type, Map<String, String> config, Map<String, String> worker) {
        ConfigDef own = connector.config();
        List<ConfigValue> values = connector.validate(config).configValues();
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("own", AbstractHerder.generateResult(type, own.configKeys(), values, own.groups()));
        answer.put("parts", parts(type, config, worker));
        return answer;
    }

    private Object parts(String type, Map<String, String> config, Map<String, String> worker) {
        ConfigDef all = Chain.settings(plugins, config);
        Map<String, ConfigDef.ConfigKey> keys = new LinkedHashMap<>();
        all.configKeys().forEach((name, key) -> {
            if (ofAPart(name)) keys.put(name, key);
        });
        List<ConfigValue> values = new ArrayList<>();
        for (ConfigValue value : all.validate(config)) if (keys.containsKey(value.name())) values.add(value);
        WorkerConfig defaults = Chain.worker(worker, path);
        SourceConnectorConfig parsed;
        try {
            parsed = new SourceConnectorConfig(plugins, config, false);
        } catch (Exception wrong) { // a setting has this error already
            return AbstractHerder.generateResult(type, keys, values, all.groups());
        }
        check(values, "key.converter", () -> Chain.keyConverter(plugins, parsed, defaults));
        check(values, "value.converter", () -> Chain.valueConverter(plugins, parsed, defaults));
        check(values, "header.converter", () -> Chain.headerConverter(plugins, parsed, defaults));
        return AbstractHerder.generateResult(type, keys, values, all.groups());
    }

    private static boolean ofAPart(String name) {
        return name.equals("transforms") || name.equals("predicates") || name.startsWith("transforms.")
            || name.startsWith("predicates.") || name.contains(".converter");
    }

    private static void check(List<ConfigValue> values, String name, Runnable making) {
        for (ConfigValue value : values) {
            if (!value.name().equals(name) || !value.errorMessages().isEmpty()) continue;
            try {
                making.run();
            } catch (Exception | LinkageError error) {
                value.addErrorMessage(String.valueOf(error.getMessage()));
            }
        }
    }

    private static Map<Map<String, ?>, Map<String, ?>> pairs(JsonNode given) throws Exception {
        OffsetJson json = new OffsetJson();
        Map<Map<String, ?>, Map<String, ?>> pairs = new HashMap<>();
        for (JsonNode pair : given)
            pairs.put(json.read(Frames.JSON.writeValueAsBytes(pair.get(0))),
                pair.get(1).isNull() ? null : json.read(Frames.JSON.writeValueAsBytes(pair.get(1))));
        return pairs;
    }

    private void start(SourceConnector connector, String name, Map<String, String> config) {
        connector.initialize(new Context(name, config));
        connector.start(config);
        running.put(name, connector);
    }

    private Object taskConfigs(String name, int max) {
        SourceConnector connector = running.get(name);
        try (LoaderSwap ignored = plugins.withClassLoader(connector.getClass().getClassLoader())) {
            return connector.taskConfigs(max);
        }
    }

    private void stop(String name) {
        SourceConnector connector = running.remove(name);
        if (connector == null) return;
        try (LoaderSwap ignored = plugins.withClassLoader(connector.getClass().getClassLoader())) {
            connector.stop();
        }
    }

    private final class Context implements SourceConnectorContext {
        private final String name;
        private final PluginMetrics metrics;

        Context(String name, Map<String, String> config) {
            this.name = name;
            metrics = new ConnectMetrics("ringfence", Chain.worker(Map.of(), path), Time.SYSTEM, "unknown")
                .connectorPluginMetrics(name);
        }

        @Override public OffsetStorageReader offsetStorageReader() { return offsets.of(name); }
        @Override public void requestTaskReconfiguration() { frames.send(Map.of("event", "reconfigure", "connector", name)); }
        @Override public void raiseError(Exception error) {
            frames.send(Map.of("event", "connector_failed", "connector", name, "trace", Frames.trace(error)));
        }
        @Override public PluginMetrics pluginMetrics() { return metrics; }
    }
}
