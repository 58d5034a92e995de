import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Runs the cases of generate.py through Kafka Connect's own classes: reads argv[0], writes argv[1]. Both are JSON. */
public class Golden {
    static final ObjectMapper JSON = new ObjectMapper();
    static final TypeReference<Map<String, String>> CONFIG = new TypeReference<>() { };

    public static void main(String[] args) throws Exception {
        ArrayNode cases = (ArrayNode) JSON.readTree(new File(args[0]));
        for (JsonNode each : cases) {
            ObjectNode one = (ObjectNode) each;
            String kind = one.get("kind").asText();
            switch (kind) {
                case "transform" -> transform(one);
                case "predicate" -> predicate(one);
                case "converter" -> converter(one);
                case "header" -> header(one);
                case "settings" -> settings(one);
                default -> throw new IllegalArgumentException(kind);
            }
        }
        JSON.writeValue(new File(args[1]), cases);
    }

    static Object instance(ObjectNode one) throws Exception {
        return Class.forName(one.get("class").asText()).getDeclaredConstructor().newInstance();
    }

    static Map<String, String> config(ObjectNode one) {
        return JSON.convertValue(one.get("config"), CONFIG);
    }

    static String said(Throwable error) {
        return error.getClass().getSimpleName() + ": " + error.getMessage();
    }

    @SuppressWarnings("unchecked")
    static void transform(ObjectNode one) throws Exception {
        Transformation<SourceRecord> transform = (Transformation<SourceRecord>) instance(one);
        try {
            transform.config().parse(config(one));
            transform.configure(config(one));
        } catch (RuntimeException error) {
            one.put("refused", said(error));
            return;
        }
        try {
            SourceRecord made = transform.apply(record(one.get("record")));
            one.set("result", made == null ? null : record(made));
        } catch (RuntimeException error) {
            one.put("error", said(error));
        }
    }

    @SuppressWarnings("unchecked")
    static void predicate(ObjectNode one) throws Exception {
        Predicate<SourceRecord> predicate = (Predicate<SourceRecord>) instance(one);
        try {
            predicate.config().parse(config(one));
            predicate.configure(config(one));
        } catch (RuntimeException error) {
            one.put("refused", said(error));
            return;
        }
        one.put("result", predicate.test(record(one.get("record"))));
    }

    static void converter(ObjectNode one) throws Exception {
        Converter converter = (Converter) instance(one);
        converter.configure(config(one), one.get("key").asBoolean());
        try {
            Schema schema = schema(one.get("schema"));
            bytes(one, converter.fromConnectData("flights", schema, value(one.get("value"), schema)));
        } catch (RuntimeException error) {
            one.put("error", said(error));
        }
    }

    static void header(ObjectNode one) throws Exception {
        HeaderConverter converter = (HeaderConverter) instance(one);
        Map<String, String> config = config(one);
        config.put("converter.type", "header");
        converter.configure(config);
        try {
            Schema schema = schema(one.get("schema"));
            bytes(one, converter.fromConnectHeader("flights", "h", schema, value(one.get("value"), schema)));
        } catch (RuntimeException error) {
            one.put("error", said(error));
        }
    }

    static void bytes(ObjectNode one, byte[] made) {
        one.put("result", made == null ? null : Base64.getEncoder().encodeToString(made));
    }

    static void settings(ObjectNode one) throws Exception {
        Object made = instance(one);
        ConfigDef keys = made instanceof Transformation<?> t ? t.config()
            : made instanceof Predicate<?> p ? p.config()
            : made instanceof Converter c ? c.config()
            : ((HeaderConverter) made).config();
        ArrayNode shown = one.putArray("result");
        for (ConfigDef.ConfigKey key : keys.configKeys().values()) {
            if (key.internalConfig)
                continue;
            ObjectNode node = shown.addObject();
            node.put("name", key.name);
            node.put("type", key.type.toString());
            node.put("required", !key.hasDefault());
            node.put("default", key.hasDefault() && key.defaultValue != null
                ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            node.put("importance", key.importance.toString());
        }
    }

    static SourceRecord record(JsonNode node) {
        Schema keySchema = schema(node.get("key_schema"));
        Schema valueSchema = schema(node.get("value_schema"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode each : node.get("headers")) {
            Schema schema = schema(each.get("schema"));
            headers.add(each.get("name").asText(), value(each.get("value"), schema), schema);
        }
        return new SourceRecord(Map.of(), Map.of(), node.get("topic").asText(),
            node.get("partition").isNull() ? null : node.get("partition").asInt(),
            keySchema, value(node.get("key"), keySchema), valueSchema, value(node.get("value"), valueSchema),
            node.get("timestamp").isNull() ? null : node.get("timestamp").asLong(), headers);
    }

    static ObjectNode record(SourceRecord record) {
        ObjectNode node = JSON.createObjectNode();
        node.put("topic", record.topic());
        node.put("partition", record.kafkaPartition());
        node.put("timestamp", record.timestamp());
        node.set("key_schema", schema(record.keySchema()));
        node.set("key", value(record.key()));
        node.set("value_schema", schema(record.valueSchema()));
        node.set("value", value(record.value()));
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            ObjectNode each = headers.addObject();
            each.put("name", header.key());
            each.set("schema", schema(header.schema()));
            each.set("value", value(header.value()));
        }
        return node;
    }

    static Schema schema(JsonNode node) {
        if (node == null || node.isNull())
            return null;
        Schema.Type type = Schema.Type.valueOf(node.get("type").asText().toUpperCase());
        SchemaBuilder builder = switch (type) {
            case ARRAY -> SchemaBuilder.array(schema(node.get("values")));
            case MAP -> SchemaBuilder.map(schema(node.get("keys")), schema(node.get("values")));
            default -> SchemaBuilder.type(type);
        };
        if (node.has("fields"))
            for (JsonNode field : node.get("fields"))
                builder.field(field.get("name").asText(), schema(field.get("schema")));
        if (node.has("name"))
            builder.name(node.get("name").asText());
        if (node.has("version"))
            builder.version(node.get("version").asInt());
        if (node.has("doc"))
            builder.doc(node.get("doc").asText());
        if (node.has("parameters"))
            builder.parameters(JSON.convertValue(node.get("parameters"), CONFIG));
        if (node.has("optional"))
            builder.optional();
        if (node.has("default"))
            builder.defaultValue(value(node.get("default"), builder));
        return builder.build();
    }

    static JsonNode schema(Schema schema) {
        if (schema == null)
            return JSON.nullNode();
        ObjectNode node = JSON.createObjectNode();
        node.put("type", schema.type().getName());
        if (schema.type() == Schema.Type.STRUCT) {
            ArrayNode fields = node.putArray("fields");
            for (Field field : schema.fields())
                fields.addObject().put("name", field.name()).set("schema", schema(field.schema()));
        }
        if (schema.type() == Schema.Type.MAP)
            node.set("keys", schema(schema.keySchema()));
        if (schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY)
            node.set("values", schema(schema.valueSchema()));
        if (schema.name() != null)
            node.put("name", schema.name());
        if (schema.version() != null)
            node.put("version", schema.version());
        if (schema.doc() != null)
            node.put("doc", schema.doc());
        if (schema.parameters() != null && !schema.parameters().isEmpty())
            node.set("parameters", JSON.valueToTree(schema.parameters()));
        if (schema.isOptional())
            node.put("optional", true);
        if (schema.defaultValue() != null)
            node.set("default", value(schema.defaultValue()));
        return node;
    }

    static Object value(JsonNode node, Schema schema) {
        if (node == null || node.isNull())
            return null;
        String tag = node.fieldNames().next();
        JsonNode held = node.get(tag);
        switch (tag) {
            case "int8": return (byte) held.asInt();
            case "int16": return (short) held.asInt();
            case "int32": return held.asInt();
            case "int64": return held.asLong();
            case "float32": return Float.parseFloat(held.asText());
            case "float64": return Double.parseDouble(held.asText());
            case "boolean": return held.asBoolean();
            case "string": return held.asText();
            case "bytes": return Base64.getDecoder().decode(held.asText());
            case "decimal": return new BigDecimal(held.asText());
            case "date": return new Date(held.asLong());
            case "list":
                List<Object> list = new ArrayList<>();
                for (JsonNode each : held)
                    list.add(value(each, schema == null ? null : schema.valueSchema()));
                return list;
            case "map":
                Map<Object, Object> map = new LinkedHashMap<>();
                for (JsonNode each : held)
                    map.put(value(each.get(0), schema == null ? null : schema.keySchema()),
                        value(each.get(1), schema == null ? null : schema.valueSchema()));
                return map;
            case "struct":
                Struct struct = new Struct(schema);
                held.fields().forEachRemaining(each -> {
                    if (!each.getValue().isNull()) // a null that its schema does not allow can only be left out
                        struct.put(each.getKey(), value(each.getValue(), schema.field(each.getKey()).schema()));
                });
                return struct;
            default: throw new IllegalArgumentException(tag);
        }
    }

    static JsonNode value(Object value) {
        if (value == null)
            return JSON.nullNode();
        ObjectNode node = JSON.createObjectNode();
        if (value instanceof Byte b) node.put("int8", b.intValue());
        else if (value instanceof Short s) node.put("int16", s.intValue());
        else if (value instanceof Integer i) node.put("int32", i);
        else if (value instanceof Long l) node.put("int64", l);
        else if (value instanceof Float f) node.put("float32", Double.toString(f));
        else if (value instanceof Double d) node.put("float64", Double.toString(d));
        else if (value instanceof Boolean b) node.put("boolean", b);
        else if (value instanceof String s) node.put("string", s);
        else if (value instanceof byte[] b) node.put("bytes", Base64.getEncoder().encodeToString(b));
        else if (value instanceof ByteBuffer b) node.put("bytes", Base64.getEncoder().encodeToString(b.array()));
        else if (value instanceof BigDecimal d) node.put("decimal", d.toString());
        else if (value instanceof Date d) node.put("date", d.getTime());
        else if (value instanceof List<?> l) {
            ArrayNode list = node.putArray("list");
            l.forEach(each -> list.add(value(each)));
        } else if (value instanceof Map<?, ?> m) {
            ArrayNode map = node.putArray("map");
            m.forEach((key, each) -> map.addArray().add(value(key)).add(value(each)));
        } else if (value instanceof Struct s) {
            ObjectNode struct = node.putObject("struct");
            for (Field field : s.schema().fields())
                struct.set(field.name(), value(s.getWithoutDefault(field.name())));
        } else throw new IllegalArgumentException(value.getClass().getName());
        return node;
    }
}
