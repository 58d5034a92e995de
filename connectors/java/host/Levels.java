package io.ringfence.connect;

import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;

/** Changes log levels at run time. */
final class Levels {
    private Levels() { }

    /** Sets a logger's level; "" is the root logger. level: log4j's name. */
    static void set(String logger, String level) {
        Level wanted = Level.toLevel(level, Level.INFO);
        if (logger.isEmpty()) Configurator.setRootLevel(wanted);
        else Configurator.setLevel(logger, wanted);
    }
}
