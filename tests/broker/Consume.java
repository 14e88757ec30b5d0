import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads topics from their start to their current end. Prints one JSON object per record, ordered by topic, partition and offset.
 *
 * <pre>Consume BOOTSTRAP read_uncommitted|read_committed TOPIC...</pre>
 *
 * Keys and values are base64 or null. Headers are an array of [key, base64 or null].
 */
public final class Consume {
    private static final Base64.Encoder BASE64 = Base64.getEncoder();

    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", args[0], "isolation.level", args[1], "enable.auto.commit", false, "auto.offset.reset", "none",
            "fetch.max.bytes", 64 << 20, "max.partition.fetch.bytes", 16 << 20, "max.poll.records", 5000);
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8);
        String[] topics = Arrays.copyOfRange(args, 2, args.length);
        Arrays.sort(topics);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (String topic : topics) {
                List<PartitionInfo> partitions = new ArrayList<>(consumer.partitionsFor(topic));
                partitions.sort(Comparator.comparingInt(PartitionInfo::partition));
                for (PartitionInfo partition : partitions) {
                    read(consumer, new TopicPartition(topic, partition.partition()), out);
                }
            }
        }
        out.flush();
    }

    /** Reads one partition, so that its records are in order. With read_committed, the end is the last stable offset. */
    private static void read(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, PrintStream out) {
        List<TopicPartition> only = List.of(partition);
        consumer.assign(only);
        consumer.seek(partition, consumer.beginningOffsets(only).get(partition));
        long end = consumer.endOffsets(only).get(partition);
        while (consumer.position(partition) < end) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(2)).records(partition)) {
                if (record.offset() < end) {
                    out.append(json(record)).append('\n');
                }
            }
        }
    }

    private static String json(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder s = new StringBuilder(200);
        s.append("{\"topic\": ").append(quote(record.topic()));
        s.append(", \"partition\": ").append(record.partition());
        s.append(", \"offset\": ").append(record.offset());
        s.append(", \"timestamp\": ").append(record.timestamp());
        s.append(", \"timestampType\": ").append(record.timestampType().id);
        Optional<Integer> epoch = record.leaderEpoch();
        s.append(", \"leaderEpoch\": ").append(epoch.isPresent() ? epoch.get().toString() : "null");
        s.append(", \"key\": ").append(bytes(record.key()));
        s.append(", \"value\": ").append(bytes(record.value()));
        s.append(", \"headers\": [");
        String between = "";
        for (Header header : record.headers()) {
            s.append(between).append('[').append(quote(header.key())).append(", ").append(bytes(header.value())).append(']');
            between = ", ";
        }
        return s.append("]}").toString();
    }

    private static String bytes(byte[] data) {
        return data == null ? "null" : '"' + BASE64.encodeToString(data) + '"';
    }

    private static String quote(String text) {
        StringBuilder s = new StringBuilder(text.length() + 2).append('"');
        for (char c : text.toCharArray()) {
            if (c < ' ' || c == '"' || c == '\\' || Character.isSurrogate(c)) {
                s.append(String.format("\\u%04x", (int) c));
            } else {
                s.append(c);
            }
        }
        return s.append('"').toString();
    }
}
