package io.ringfence.connect;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Packs records as columns into one buffer, little endian, which Python splits in one pass.
 *
 * <p>u64 number, u32 records, u32 flags, u32 skipped, u32 letters; strings and blobs are preceded by their length
 * (u32). Then: u32 topics and their names; the newest offset of each source partition as JSON; columns with a value for
 * each record, if their flag is set: topic (u32), partition (i32), timestamp (i64), length of the value (i32, always
 * present, -1 is null), length of the key, header set (i32, -1 is none); all values, all keys; the distinct header sets.
 * Most records of a batch have the same headers, so a set is written once.
 */
final class ColumnPacker extends Packer {
    static final int KEYS = 4, PARTITIONS = 8, TIMES = 16, HEADERS = 32, TOPICS = 64;

    private final Map<String, Integer> topics = new LinkedHashMap<>();
    private final Map<List<Object>, Integer> headerSets = new LinkedHashMap<>();
    private int flags;
    private int[] topic = new int[256], partition = new int[256], headerSet = new int[256];
    private long[] time = new long[256];
    private byte[][] keys = new byte[256][], values = new byte[256][];
    private String lastTopic;
    private int lastIndex;

    ColumnPacker(OffsetJson json) {
        super(json);
    }

    @Override
    char kind() {
        return 'B';
    }

    @Override
    void add(String to, Integer part, Long at, byte[] key, byte[] value, List<Object> headers) {
        if (records == values.length) grow();
        if (!to.equals(lastTopic)) {
            lastIndex = topics.computeIfAbsent(to, ignored -> topics.size());
            lastTopic = to;
        }
        topic[records] = lastIndex;
        if (part != null) flags |= PARTITIONS;
        partition[records] = part == null ? -1 : part;
        if (at != null) flags |= TIMES;
        time[records] = at == null ? 0 : at;
        if (key != null) flags |= KEYS;
        keys[records] = key;
        values[records] = value;
        headerSet[records] = -1;
        if (headers != null) {
            flags |= HEADERS;
            Integer known = headerSets.get(headers);
            if (known == null) headerSets.put(headers, known = headerSets.size());
            headerSet[records] = known;
        }
        count(key, value);
    }

    private void grow() {
        int to = records * 2;
        topic = Arrays.copyOf(topic, to);
        partition = Arrays.copyOf(partition, to);
        headerSet = Arrays.copyOf(headerSet, to);
        time = Arrays.copyOf(time, to);
        keys = Arrays.copyOf(keys, to);
        values = Arrays.copyOf(values, to);
    }

    @Override
    ByteBuffer take(long number, int ending) {
        byte[] where = offsets();
        int mask = flags | ending | (topics.size() > 1 ? TOPICS : 0);
        byte[] names = names();
        byte[] sets = (mask & HEADERS) == 0 ? new byte[0] : sets();
        long total = 24L + names.length + 4 + where.length + 28L * records + size + sets.length;
        ByteBuffer to = allocate(total);
        to.putLong(number).putInt(records).putInt(mask).putInt(skipped).putInt(letters);
        to.put(names).putInt(where.length).put(where);
        if ((mask & TOPICS) != 0) put(to, topic);
        if ((mask & PARTITIONS) != 0) put(to, partition);
        if ((mask & TIMES) != 0) for (int i = 0; i < records; i++) to.putLong(time[i]);
        lengths(to, values);
        if ((mask & KEYS) != 0) lengths(to, keys);
        if ((mask & HEADERS) != 0) put(to, headerSet);
        for (int i = 0; i < records; i++) if (values[i] != null) to.put(values[i]);
        if ((mask & KEYS) != 0) for (int i = 0; i < records; i++) if (keys[i] != null) to.put(keys[i]);
        to.put(sets);
        to.flip();
        clear();
        return to;
    }

    private void put(ByteBuffer to, int[] column) {
        for (int i = 0; i < records; i++) to.putInt(column[i]);
    }

    private void lengths(ByteBuffer to, byte[][] column) {
        for (int i = 0; i < records; i++) to.putInt(column[i] == null ? -1 : column[i].length);
    }

    private byte[] names() {
        Blobs blobs = new Blobs();
        blobs.number(topics.size());
        for (String name : topics.keySet()) blobs.blob(ByteBuffer.wrap(name.getBytes(StandardCharsets.UTF_8)));
        return blobs.toByteArray();
    }

    private byte[] sets() {
        Blobs blobs = new Blobs();
        blobs.number(headerSets.size());
        for (List<Object> set : headerSets.keySet()) {
            blobs.number(set.size() / 2);
            for (int i = 0; i < set.size(); i += 2) {
                blobs.blob(ByteBuffer.wrap(((String) set.get(i)).getBytes(StandardCharsets.UTF_8)));
                blobs.blob((ByteBuffer) set.get(i + 1));
            }
        }
        return blobs.toByteArray();
    }

    @Override
    void clear() {
        Arrays.fill(keys, 0, records, null);
        Arrays.fill(values, 0, records, null);
        super.clear();
        flags = 0;
        topics.clear();
        headerSets.clear();
        lastTopic = null;
    }
}
