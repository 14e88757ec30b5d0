import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Executes a plan from standard input. Each line is a job, with words NAME=VALUE. The only argument is the broker's address.
 *
 * <pre>
 * topic=T           created if it does not exist, with partitions=N (1), replicas=N (1) and every topic.SETTING=VALUE
 * count=N           records (0)
 * content=json      json, random or mixed (see Content); value=N bytes (100), key=N bytes (0: null keys), headers=N (0), seed=N
 * time=MS           timestamp of the first record (by default the clock); per-ms=N records have the same millisecond (1)
 * partition=N       all records go there (otherwise record i goes to partition i modulo their number)
 * batch=N           bytes (16384); linger=MS (20); flush=N ends batches after every N records
 * codec=none        none, gzip, snappy, lz4 or zstd; idempotent=true; acks=all (all, 1 or 0); threads=N (1) share a job, and each keeps the order of its records
 * id=ID             in a transaction with this id, which ends with end=commit|abort (commit), or continues in the id's next job with end=open
 * </pre>
 *
 * Transactions still open at the end stay open: the process halts instead of closing their producers.
 */
public final class Produce {
    private final String bootstrap;
    private final Map<String, KafkaProducer<byte[], byte[]>> transactional = new HashMap<>();
    private final Set<String> open = new HashSet<>();
    private final AtomicReference<Exception> failure = new AtomicReference<>();

    private Produce(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws Exception {
        Produce produce = new Produce(args[0]);
        try {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (!line.isBlank()) {
                    produce.run(new Job(line));
                }
            }
            produce.transactional.forEach((id, producer) -> {
                if (!produce.open.contains(id)) {
                    producer.close();
                }
            });
        } catch (Exception e) {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }

    private record Job(Map<String, String> words) {
        Job(String line) {
            this(new HashMap<>());
            for (String word : line.trim().split("\\s+")) {
                int cut = word.indexOf('=');
                words.put(word.substring(0, cut), word.substring(cut + 1));
            }
        }

        String text(String name, String otherwise) {
            return words.getOrDefault(name, otherwise);
        }

        long number(String name, long otherwise) {
            return words.containsKey(name) ? Long.parseLong(words.get(name)) : otherwise;
        }
    }

    private void run(Job job) throws Exception {
        String topic = job.text("topic", null);
        createTopic(topic, job);
        String id = job.text("id", null);
        KafkaProducer<byte[], byte[]> producer = id == null ? producer(job, null) : transactional.get(id);
        if (producer == null) {
            producer = producer(job, id);
            producer.initTransactions();
            transactional.put(id, producer);
        }
        if (id != null && open.add(id)) {
            producer.beginTransaction();
        }
        sendAll(producer, topic, job);
        producer.flush();
        if (failure.get() != null) {
            throw failure.get();
        }
        if (id == null) {
            producer.close();
        } else if (!job.text("end", "commit").equals("open")) {
            open.remove(id);
            if (job.text("end", "commit").equals("abort")) {
                producer.abortTransaction();
            } else {
                producer.commitTransaction();
            }
        }
    }

    private void createTopic(String name, Job job) throws Exception {
        Map<String, String> settings = new HashMap<>();
        job.words().forEach((word, value) -> {
            if (word.startsWith("topic.")) {
                settings.put(word.substring("topic.".length()), value);
            }
        });
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            NewTopic topic = new NewTopic(name, Optional.of((int) job.number("partitions", 1)),
                job.words().containsKey("replicas") ? Optional.of((short) job.number("replicas", 1)) : Optional.empty());
            admin.createTopics(List.of(topic.configs(settings))).all().get();
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof TopicExistsException)) {
                throw e;
            }
        }
    }

    private KafkaProducer<byte[], byte[]> producer(Job job, String id) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", job.text("codec", "none"));
        settings.put("batch.size", (int) job.number("batch", 16384));
        settings.put("linger.ms", (int) job.number("linger", 20));
        settings.put("buffer.memory", 64L << 20);
        settings.put("max.request.size", 8 << 20);
        settings.put("acks", job.text("acks", "all"));
        settings.put("enable.idempotence", id != null || job.text("idempotent", "true").equals("true"));
        if (id != null) {
            settings.put("transactional.id", id);
            settings.put("transaction.timeout.ms", 900_000);
        }
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void sendAll(KafkaProducer<byte[], byte[]> producer, String topic, Job job) throws InterruptedException {
        int count = (int) job.number("threads", 1);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int share = i;
            threads.add(new Thread(() -> {
                try {
                    send(producer, topic, job, share, count);
                } catch (Exception e) {
                    failure.compareAndSet(null, e);
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    /** Sends every `step`th record of the job, starting with record number `first`. */
    private void send(KafkaProducer<byte[], byte[]> producer, String topic, Job job, int first, int step) {
        long count = job.number("count", 0);
        long perMs = job.number("per-ms", 1);
        long flush = job.number("flush", Long.MAX_VALUE);
        long start = job.number("time", System.currentTimeMillis());
        int partitions = producer.partitionsFor(topic).size();
        int fixed = (int) job.number("partition", partitions == 1 ? 0 : -1);
        Content content = new Content(job.text("content", "json"), (int) job.number("key", 0), (int) job.number("value", 100),
            (int) job.number("headers", 0), job.number("seed", 1) + first);
        for (long i = first; i < count && failure.get() == null; i += step) {
            int partition = fixed >= 0 ? fixed : (int) (i % partitions);
            byte[] key = content.key(i);
            byte[] value = content.value(i);
            producer.send(new ProducerRecord<>(topic, partition, start + i / perMs, key, value, content.headers(i)), (done, error) -> {
                if (error != null) {
                    failure.compareAndSet(null, error);
                }
            });
            if ((i + 1) % flush == 0) {
                producer.flush();
            }
        }
    }
}
