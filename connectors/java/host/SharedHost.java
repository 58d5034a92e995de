package io.ringfence.connect;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.connect.runtime.isolation.Plugins;

/**
 * A process for several source tasks: each has a connection to its Unix socket, and ends with it. Class loaders, and with
 * them compiled code, are shared. The process ends when it has had no task for a while.
 *
 * Arguments: plugin.path, the socket's path, for how many seconds to wait for a task, and how many seconds a task may take to
 * stop. A task that takes longer ends the process: it would keep its source occupied, and its next attempt would fail.
 */
public final class SharedHost {
    private static final int NOT_STOPPED = 4;
    private final String path;
    private final Plugins plugins;
    private final long stopMs;
    private int tasks;
    private long idleSince;

    private SharedHost(String path, long stopMs) {
        this.path = path;
        this.stopMs = stopMs;
        plugins = Host.plugins(path);
    }

    public static void main(String[] args) throws Exception {
        LogRouter.install();
        Host.endOnVirtualMachineErrors();
        Metrics.noteOwners();
        Runtime.getRuntime().addShutdownHook(new Thread(SharedHost::tellWhoExits));
        SharedHost host = new SharedHost(args[0], Long.parseLong(args[3]) * 1000);
        Path socket = Path.of(args[1]);
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            host.count(0);
            server.bind(UnixDomainSocketAddress.of(socket));
            Host.start(() -> host.endWhenIdle(socket, Long.parseLong(args[2]) * 1_000_000_000L), "idle");
            while (true) {
                SocketChannel connection = server.accept();
                host.count(1);
                new Thread(() -> host.serve(connection), "connection").start();
            }
        }
    }

    private void serve(SocketChannel connection) {
        Owner owner = new Owner();
        owner.own();
        Frames frames = new Frames(SocketStreams.output(connection), () -> close(connection));
        Host host = new Host(frames, plugins, path, owner);
        Thread log = Host.start(() -> owner.sendLog(frames), "log");
        try {
            host.serve(SocketStreams.input(connection));
        } catch (IOException gone) {
            // the same as its end
        } finally {
            end(host, owner);
            log.interrupt();
            close(connection);
            count(-1);
        }
    }

    private void end(Host host, Owner owner) {
        owner.close();
        try {
            if (host.end(stopMs)) return;
        } catch (InterruptedException impossible) {
            Thread.currentThread().interrupt();
        }
        System.err.println(owner + " did not stop within " + stopMs / 1000 + " s, so the process ends");
        Runtime.getRuntime().halt(NOT_STOPPED);
    }

    private synchronized void count(int more) {
        tasks += more;
        idleSince = System.nanoTime();
    }

    private synchronized boolean idle(long nanos) {
        return tasks == 0 && System.nanoTime() - idleSince > nanos;
    }

    /** A connection that comes just now is closed before it is answered; Python then starts another process. */
    private void endWhenIdle(Path socket, long nanos) {
        try {
            while (!idle(nanos)) Thread.sleep(200);
            Files.deleteIfExists(socket);
        } catch (IOException | InterruptedException error) {
            error.printStackTrace();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void close(SocketChannel connection) {
        try {
            connection.close();
        } catch (IOException closed) {
            // nobody uses it any more
        }
    }

    /** The only trace that a plugin's System.exit leaves. */
    private static void tellWhoExits() {
        Thread.getAllStackTraces().forEach((thread, frames) -> {
            for (int i = 0; i < frames.length; i++) {
                if (!frames[i].getClassName().equals("java.lang.System") || !frames[i].getMethodName().equals("exit")) continue;
                System.err.println("System.exit was called by " + (i + 1 < frames.length ? frames[i + 1] : thread));
            }
        });
    }
}
