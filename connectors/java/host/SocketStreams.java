package io.ringfence.connect;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** Streams over a Unix socket that may be used at the same time. Those of {@link java.nio.channels.Channels} wait for each other. */
final class SocketStreams {
    private static final int PIECE = 1 << 17;

    private SocketStreams() { }

    static InputStream input(SocketChannel channel) {
        return new InputStream() {
            @Override
            public int read() throws IOException {
                byte[] one = new byte[1];
                return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
            }

            @Override
            public int read(byte[] into, int at, int most) throws IOException {
                return channel.read(ByteBuffer.wrap(into, at, most));
            }
        };
    }

    /** An interrupt closes a channel. A plugin may leave its thread interrupted, which must not cost it the connection. */
    static OutputStream output(SocketChannel channel) {
        return new OutputStream() {
            @Override
            public void write(int one) throws IOException {
                write(new byte[] {(byte) one}, 0, 1);
            }

            @Override
            public void write(byte[] bytes, int from, int length) throws IOException {
                boolean interrupted = Thread.interrupted();
                try {
                    for (int at = from; at < from + length; at += PIECE) {
                        ByteBuffer piece = ByteBuffer.wrap(bytes, at, Math.min(PIECE, from + length - at));
                        while (piece.hasRemaining()) channel.write(piece);
                    }
                } finally {
                    if (interrupted) Thread.currentThread().interrupt();
                }
            }
        };
    }
}
