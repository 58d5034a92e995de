package io.ringfence.connect;

import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.MBeanServerDelegate;
import javax.management.MBeanServerNotification;
import javax.management.ObjectName;

/** Reads the numbers in a plugin's own MBeans, such as Debezium's source lag. */
final class Metrics {
    private static final Pattern NOT_ITS_OWN = Pattern.compile(
        "java\\..*|jdk\\..*|com\\.sun\\..*|JMImplementation|org\\.apache\\.logging.*|kafka\\.(?!connect\\.mirror).*|ringfence.*");
    private static final int MOST = 200;
    private static final Map<ObjectName, Owner> OWNERS = new ConcurrentHashMap<>();

    private Metrics() { }

    /** From now on, notes whose thread registers an MBean: the server calls listeners on that very thread. */
    static void noteOwners() throws JMException {
        ManagementFactory.getPlatformMBeanServer().addNotificationListener(MBeanServerDelegate.DELEGATE_NAME, (event, nothing) -> {
            ObjectName name = ((MBeanServerNotification) event).getMBeanName();
            Owner owner = Owner.current();
            if (event.getType().equals(MBeanServerNotification.UNREGISTRATION_NOTIFICATION)) OWNERS.remove(name);
            else if (owner != null) OWNERS.put(name, owner);
        }, null, null);
    }

    /** Returns the numbers by "name/attribute": of the MBeans that this owner's threads have registered, or of all for null. */
    static Map<String, Object> read(Owner owner) {
        Map<String, Object> found = new LinkedHashMap<>();
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        for (ObjectName name : server.queryNames(null, null)) {
            if (NOT_ITS_OWN.matcher(name.getDomain()).matches()) continue;
            if (owner != null && OWNERS.get(name) != owner) continue;
            try {
                for (MBeanAttributeInfo each : server.getMBeanInfo(name).getAttributes()) {
                    if (!each.isReadable() || found.size() >= MOST) continue;
                    Object value = server.getAttribute(name, each.getName());
                    if (value instanceof Number || value instanceof Boolean) found.put(name + "/" + each.getName(), value);
                }
            } catch (JMException | RuntimeException gone) {
                // the bean was removed, or fails: go on with the others
            }
        }
        return found;
    }
}
