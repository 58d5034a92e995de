package io.ringfence.connect;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import java.util.function.ToIntFunction;
import org.apache.kafka.connect.errors.ConnectException;

/** Knows how many partitions topics have: asks Python, again after a while, since topics may get more. */
final class Partitions implements ToIntFunction<String> {
    private static final long AGE_NANOS = 300_000_000_000L;

    private record Count(int partitions, long at) { }

    private final Frames frames;
    private final Map<String, Count> counts = new HashMap<>();
    private boolean stopping;

    Partitions(Frames frames) {
        this.frames = frames;
    }

    /** Called on the task's thread. Waits for Python, which first creates a topic that is missing. */
    @Override
    public synchronized int applyAsInt(String topic) {
        Count known = counts.get(topic);
        if (known != null && System.nanoTime() - known.at < AGE_NANOS) return known.partitions;
        counts.remove(topic);
        frames.send(Map.of("event", "partitions", "topic", topic));
        try {
            while ((known = counts.get(topic)) == null) {
                if (stopping) throw new ConnectException("The task was stopped");
                wait();
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new ConnectException(stopped);
        }
        return known.partitions;
    }

    synchronized void answer(JsonNode order) {
        counts.put(order.get("topic").asText(), new Count(order.get("count").asInt(), System.nanoTime()));
        notifyAll();
    }

    synchronized void stop() {
        stopping = true;
        notifyAll();
    }
}
