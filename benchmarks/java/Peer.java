import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.TimeStampMilliVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * Measures how fast Kafka's own Java reads record batches: MemoryRecords over a heap array, with checked CRCs and a warm compiler.
 *
 * <pre>Peer MODE FILE MAX_BYTES REPETITIONS</pre>
 *
 * <ul>
 * <li>columns: offset, timestamp, key and value of every record, key and value as views of the bytes
 * <li>bytes: like columns, with key and value copied to byte[], as the consumer's deserializer does
 * <li>headers: like columns, and every header's key and value
 * <li>arrow: offset, timestamp, key and value into four vectors, which are reused after 65536 records
 * <li>shallow: batch headers and CRCs only
 * </ul>
 *
 * Prints one JSON object: ns per record of each repetition, and how much was read.
 */
public final class Peer {
    private static final double WARM_UP_SECONDS = 4;
    private static final int ROWS = 65536;

    private final BufferSupplier buffers = BufferSupplier.create();
    private final MemoryRecords records;
    private long rows;

    private Peer(byte[] data) {
        records = MemoryRecords.readableRecords(ByteBuffer.wrap(data));
    }

    public static void main(String[] args) throws IOException {
        byte[] data = load(args[1], Long.parseLong(args[2]));
        Peer peer = new Peer(data);
        LongSupplier pass = peer.pass(args[0]);
        long checksum = pass.getAsLong();
        long records = peer.rows;
        int warmUps = 1;
        for (long start = System.nanoTime(); System.nanoTime() - start < WARM_UP_SECONDS * 1e9; warmUps++) {
            pass.getAsLong();
        }
        List<String> figures = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(args[3]); i++) {
            long start = System.nanoTime();
            if (pass.getAsLong() != checksum) {
                throw new IllegalStateException("two passes over the same bytes differ");
            }
            figures.add(String.format("%.3f", (System.nanoTime() - start) / (double) records));
        }
        System.out.printf("{\"records\": %d, \"bytes\": %d, \"warm_up_passes\": %d, \"checksum\": %d, \"ns\": %s}%n",
            records, data.length, warmUps, checksum, figures);
    }

    /** Returns as many complete batches from the start of the file as fit. */
    private static byte[] load(String file, long limit) throws IOException {
        try (RandomAccessFile in = new RandomAccessFile(file, "r")) {
            byte[] data = new byte[(int) Math.min(Math.min(limit, in.length()), Integer.MAX_VALUE - 16)];
            in.readFully(data);
            ByteBuffer buffer = ByteBuffer.wrap(data);
            int end = 0;
            while (data.length - end >= 61 && buffer.getInt(end + 8) > 0 && buffer.getInt(end + 8) <= data.length - end - 12) {
                end += 12 + buffer.getInt(end + 8);
            }
            return java.util.Arrays.copyOf(data, end);
        }
    }

    private LongSupplier pass(String mode) {
        switch (mode) {
            case "columns": return this::columns;
            case "bytes": return this::bytes;
            case "headers": return this::headers;
            case "arrow": return arrow();
            case "shallow": return this::shallow;
            default: throw new IllegalArgumentException(mode);
        }
    }

    private long columns() {
        long sum = 0;
        long count = 0;
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> iterator = batch.streamingIterator(buffers)) {
                while (iterator.hasNext()) {
                    Record record = iterator.next();
                    ByteBuffer key = record.key();
                    ByteBuffer value = record.value();
                    sum += record.offset() + record.timestamp() + (key == null ? -1 : key.remaining()) + (value == null ? -1 : value.remaining());
                    count++;
                }
            }
        }
        rows = count;
        return sum;
    }

    private long bytes() {
        long sum = 0;
        long count = 0;
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> iterator = batch.streamingIterator(buffers)) {
                while (iterator.hasNext()) {
                    Record record = iterator.next();
                    byte[] key = copy(record.key());
                    byte[] value = copy(record.value());
                    sum += record.offset() + record.timestamp() + (key == null ? -1 : key.length) + (value == null ? -1 : value.length);
                    count++;
                }
            }
        }
        rows = count;
        return sum;
    }

    private static byte[] copy(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        return data;
    }

    private long headers() {
        long sum = 0;
        long count = 0;
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> iterator = batch.streamingIterator(buffers)) {
                while (iterator.hasNext()) {
                    Record record = iterator.next();
                    ByteBuffer key = record.key();
                    ByteBuffer value = record.value();
                    sum += record.offset() + record.timestamp() + (key == null ? -1 : key.remaining()) + (value == null ? -1 : value.remaining());
                    for (Header header : record.headers()) {
                        byte[] data = header.value();
                        sum += header.key().length() + (data == null ? -1 : data.length);
                    }
                    count++;
                }
            }
        }
        rows = count;
        return sum;
    }

    private long shallow() {
        long sum = 0;
        long count = 0;
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            sum += batch.baseOffset() + batch.maxTimestamp();
            count += batch.countOrNull();
        }
        rows = count;
        return sum;
    }

    private LongSupplier arrow() {
        RootAllocator allocator = new RootAllocator();
        BigIntVector offsets = new BigIntVector("offset", allocator);
        TimeStampMilliVector timestamps = new TimeStampMilliVector("timestamp", allocator);
        VarBinaryVector keys = new VarBinaryVector("key", allocator);
        VarBinaryVector values = new VarBinaryVector("value", allocator);
        offsets.allocateNew(ROWS);
        timestamps.allocateNew(ROWS);
        keys.allocateNew(ROWS * 16L, ROWS);
        values.allocateNew(ROWS * 128L, ROWS);
        return () -> {
            long sum = 0;
            long count = 0;
            int row = 0;
            for (MutableRecordBatch batch : records.batches()) {
                batch.ensureValid();
                try (CloseableIterator<Record> iterator = batch.streamingIterator(buffers)) {
                    while (iterator.hasNext()) {
                        Record record = iterator.next();
                        offsets.set(row, record.offset());
                        timestamps.set(row, record.timestamp());
                        put(keys, row, record.key());
                        put(values, row, record.value());
                        if (++row == ROWS) {
                            sum += finish(row, offsets, timestamps, keys, values);
                            count += row;
                            row = 0;
                        }
                    }
                }
            }
            sum += finish(row, offsets, timestamps, keys, values);
            rows = count + row;
            return sum;
        };
    }

    private static void put(VarBinaryVector vector, int row, ByteBuffer data) {
        if (data == null) {
            vector.setNull(row);
        } else {
            vector.setSafe(row, data.array(), data.arrayOffset() + data.position(), data.remaining());
        }
    }

    /** Completes a batch of rows: sets its length, reads some of it, and resets the vectors, which keep their memory. */
    private static long finish(int count, BigIntVector offsets, TimeStampMilliVector timestamps, VarBinaryVector keys, VarBinaryVector values) {
        offsets.setValueCount(count);
        timestamps.setValueCount(count);
        keys.setValueCount(count);
        values.setValueCount(count);
        long sum = count == 0 ? 0 : offsets.get(count - 1) + timestamps.get(count - 1) + values.getOffsetBuffer().getInt(4L * count);
        offsets.reset();
        timestamps.reset();
        keys.reset();
        values.reset();
        return sum;
    }
}
