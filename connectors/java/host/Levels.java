package io.ringfence.connect;

import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;

/** The log's levels, changed while it runs. */
final class Levels {
    private Levels() { }

    /** level: as log4j names it; logger "" is the root. */
    static void set(String logger, String level) {
        Level wanted = Level.toLevel(level, Level.INFO);
        if (logger.isEmpty()) Configurator.setRootLevel(wanted);
        else Configurator.setLevel(logger, wanted);
    }
}
