package io.ringfence.connect;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** Reads committed source offsets by requests to Python, one for each call. */
final class Offsets {
    private static final long SECONDS = 60;
    private final Frames frames;
    private final OffsetJson json = new OffsetJson();
    private final AtomicInteger ids = new AtomicInteger();
    private final Map<Integer, CompletableFuture<JsonNode>> open = new ConcurrentHashMap<>();

    Offsets(Frames frames) {
        this.frames = frames;
    }

    void answer(JsonNode order) {
        CompletableFuture<JsonNode> asked = open.remove(order.get("id").asInt());
        if (asked != null) asked.complete(order.get("offsets"));
    }

    /** Returns the reader of a connector instance's offsets. owner: its name; "" in a task. */
    OffsetStorageReader of(String owner) {
        return new OffsetStorageReader() {
            @Override
            public <T> Map<String, Object> offset(Map<String, T> partition) {
                return offsets(List.of(partition)).get(partition);
            }

            @Override
            public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
                return ask(owner, partitions);
            }
        };
    }

    private <T> Map<Map<String, T>, Map<String, Object>> ask(String owner, Collection<Map<String, T>> partitions) {
        int id = ids.incrementAndGet();
        CompletableFuture<JsonNode> coming = new CompletableFuture<>();
        open.put(id, coming);
        try {
            List<JsonNode> asked = new ArrayList<>();
            for (Map<String, T> each : partitions) asked.add(Frames.JSON.readTree(json.write(each)));
            frames.send(Map.of("event", "offsets", "id", id, "connector", owner, "partitions", asked));
            JsonNode answers = coming.get(SECONDS, TimeUnit.SECONDS);
            Map<Map<String, T>, Map<String, Object>> found = new HashMap<>();
            int i = 0;
            for (Map<String, T> each : partitions) {
                JsonNode answer = answers.get(i++);
                found.put(each, answer.isNull() ? null : json.read(Frames.JSON.writeValueAsBytes(answer)));
            }
            return found;
        } catch (IOException | java.util.concurrent.ExecutionException | java.util.concurrent.TimeoutException error) {
            throw new ConnectException("The committed source offsets could not be read", error);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new ConnectException(stopped);
        } finally {
            open.remove(id);
        }
    }
}
