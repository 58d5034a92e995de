package io.ringfence.connect;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.converters.ByteArrayConverter;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.StringConverter;

/**
 * The converter where neither worker nor connector names one: structs, maps and lists as JSON without a schema, bytes as
 * they are, all else as StringConverter writes it. The converter of the same name in Python writes the same.
 */
public final class TextOrJsonConverter implements Converter {
    private final StringConverter text = new StringConverter();
    private final ByteArrayConverter bytes = new ByteArrayConverter();
    private final JsonConverter json = new JsonConverter();

    @Override public ConfigDef config() { return text.config(); }

    @Override public void configure(Map<String, ?> configs, boolean isKey) {
        text.configure(configs, isKey);
        Map<String, Object> own = new HashMap<>(configs);
        own.put("schemas.enable", "false");
        own.put("decimal.format", "NUMERIC");
        json.configure(own, isKey);
    }

    @Override public byte[] fromConnectData(String topic, Schema schema, Object value) {
        if (value instanceof byte[] || value instanceof ByteBuffer) return bytes.fromConnectData(topic, schema, value);
        boolean structured = value instanceof Struct || value instanceof Map || value instanceof List
            || schema != null && isStructured(schema.type());
        return (structured ? json : text).fromConnectData(topic, schema, value);
    }

    private static boolean isStructured(Schema.Type type) {
        return type == Schema.Type.STRUCT || type == Schema.Type.MAP || type == Schema.Type.ARRAY;
    }

    @Override public SchemaAndValue toConnectData(String topic, byte[] value) { return text.toConnectData(topic, value); }
}
