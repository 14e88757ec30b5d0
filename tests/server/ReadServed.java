import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads partitions from one or more servers, with the consumer of any Kafka version from 0.9 on.
 *
 * <p>Each line of standard input contains a server address, an isolation level, a topic, a partition, a start offset
 * and an end offset, separated by tabs. Each line of the output is a JSON array with the number of the input line,
 * and the offset, timestamp, key, value and headers of a record. Bytes are base64. If the client does not support
 * timestamps or headers, they are null.
 *
 * <p>Methods that only some versions have are called by reflection.
 */
public final class ReadServed {
    private static final int MOST_EMPTY_POLLS = 4;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, "UTF-8");
        String line;
        for (int number = 0; (line = in.readLine()) != null; number++) {
            String[] fields = line.split("\t");
            try (KafkaConsumer<byte[], byte[]> consumer = connect(fields[0], fields[1])) {
                TopicPartition partition = new TopicPartition(fields[2], Integer.parseInt(fields[3]));
                read(consumer, partition, Long.parseLong(fields[4]), Long.parseLong(fields[5]), number, out);
            }
        }
        out.flush();
    }

    private static KafkaConsumer<byte[], byte[]> connect(String address, String isolation) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", address);
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "none");
        settings.put("fetch.max.wait.ms", 5);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Reads until the end offset, or until several polls return no records. */
    private static void read(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long start, long end, int number, PrintStream out)
            throws Exception {
        consumer.assign(Collections.singletonList(partition));
        consumer.seek(partition, start);
        for (int empty = 0; empty < MOST_EMPTY_POLLS && consumer.position(partition) < end; empty++) {
            for (ConsumerRecord<byte[], byte[]> record : poll(consumer).records(partition)) {
                empty = -1;
                if (record.offset() < end) {
                    out.println("[" + number + ", " + record.offset() + ", " + valueOf(record, "timestamp") + ", "
                        + bytes(record.key()) + ", " + bytes(record.value()) + ", " + headers(record) + "]");
                }
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        Method method;
        Object wait;
        try {
            method = KafkaConsumer.class.getMethod("poll", Duration.class);
            wait = Duration.ofMillis(500);
        } catch (NoSuchMethodException e) {
            method = KafkaConsumer.class.getMethod("poll", long.class);
            wait = 500L;
        }
        try {
            return (ConsumerRecords<byte[], byte[]>) method.invoke(consumer, wait);
        } catch (InvocationTargetException e) {
            throw (Exception) e.getCause();
        }
    }

    /** Returns the value of a field, or null if this version does not have the field. */
    private static Object valueOf(ConsumerRecord<byte[], byte[]> record, String field) throws Exception {
        try {
            return ConsumerRecord.class.getMethod(field).invoke(record);
        } catch (NoSuchMethodException e) {
            return null;
        }
    }

    private static String headers(ConsumerRecord<byte[], byte[]> record) throws Exception {
        Iterable<?> headers = (Iterable<?>) valueOf(record, "headers");
        if (headers == null) {
            return "null";
        }
        StringBuilder s = new StringBuilder();
        for (Object header : headers) {
            Class<?> type = Class.forName("org.apache.kafka.common.header.Header");
            String key = (String) type.getMethod("key").invoke(header);
            s.append(s.length() > 0 ? ", [" : "[").append(bytes(key.getBytes(StandardCharsets.UTF_8)));
            s.append(", ").append(bytes((byte[]) type.getMethod("value").invoke(header))).append(']');
        }
        return "[" + s + "]";
    }

    private static String bytes(byte[] data) {
        return data == null ? "null" : '"' + Base64.getEncoder().encodeToString(data) + '"';
    }
}
