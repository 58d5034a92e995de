package io.ringfence.connect;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.connect.runtime.isolation.Plugins;

/**
 * The process of one source task, or of the calls to connectors. It reads requests from standard input, writes frames to
 * standard output, and logs to standard error. It ends with its parent: when standard input ends.
 */
public final class Host {
    private static final long BEAT_MS = 2000;
    private static final long METRICS_MS = 5000;
    private static final int OUT_OF_MEMORY = 3;

    private final Frames frames;
    private final Offsets offsets;
    private final ConnectorCalls calls;
    private final TaskThread task;

    private Host(Frames frames, String path) {
        this.frames = frames;
        Plugins plugins = new Plugins(Map.of(
            "plugin.path", path, "plugin.discovery", System.getProperty("plugin.discovery", "service_load")));
        offsets = new Offsets(frames);
        calls = new ConnectorCalls(frames, plugins, path, offsets);
        task = new TaskThread(frames, plugins, path, offsets);
    }

    public static void main(String[] args) throws Exception {
        Frames frames = new Frames(new FileOutputStream(FileDescriptor.out));
        System.setOut(System.err); // a plugin's output goes to the log
        DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(FileDescriptor.in), 1 << 16));
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            if (error instanceof VirtualMachineError) Runtime.getRuntime().halt(OUT_OF_MEMORY);
        });
        Host host = new Host(frames, args[0]);
        frames.send(Map.of("event", "ready"));
        Thread beat = new Thread(host::beat, "heartbeat");
        beat.setDaemon(true);
        beat.start();
        Thread metrics = new Thread(host::tellMetrics, "metrics");
        metrics.setDaemon(true);
        metrics.start();
        try {
            while (true) host.take(Frames.read(in));
        } catch (EOFException end) {
            Runtime.getRuntime().halt(0);
        }
    }

    private void take(JsonNode order) {
        switch (order.get("op").asText()) {
            case "answer": offsets.answer(order); break;
            case "run": task.run(order); break;
            case "taken": task.taken(); break;
            case "committed": task.committed(order); break;
            case "stop": task.stop(); break;
            case "warm": calls.warm(); System.exit(0); break;
            case "level": Levels.set(order.get("logger").asText(), order.get("level").asText()); break;
            default: new Thread(() -> call(order), "call").start();
        }
    }

    private void call(JsonNode order) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", order.get("id").asInt());
        try {
            answer.put("result", calls.answer(order));
        } catch (Exception | LinkageError error) {
            answer.put("error", String.valueOf(error.getMessage() == null ? error : error.getMessage()));
            answer.put("kind", error.getClass().getName());
            answer.put("trace", Frames.trace(error));
        }
        frames.send(answer);
    }

    /** Runs on its own thread, so that an MBean that hangs does not stop the heartbeat. */
    private void tellMetrics() {
        try {
            while (true) {
                Thread.sleep(METRICS_MS);
                Map<String, Object> found = Metrics.read();
                if (!found.isEmpty()) frames.send(Map.of("event", "metrics", "metrics", found));
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    private void beat() {
        try {
            while (true) {
                Thread.sleep(BEAT_MS);
                Map<String, Object> alive = new HashMap<>();
                alive.put("event", "alive");
                alive.put("polling_ms", task.pollingMs());
                frames.send(alive);
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }
}
