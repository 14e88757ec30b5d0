import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Processes requests about record data with Kafka's own classes. Each line of the input is a request, and each line of the
 * output is the response to it. Bytes are hexadecimal. Null is "-".
 *
 * <pre>
 * build MAGIC CODEC BASE_OFFSET APPEND_TIME PRODUCER_ID EPOCH SEQUENCE TRANSACTIONAL LEADER_EPOCH DELETE_HORIZON RECORD...   → BYTES
 *     RECORD is OFFSET,TIMESTAMP,KEY,VALUE[,HEADER_KEY:VALUE...]; APPEND_TIME and DELETE_HORIZON are -1 if there is none
 * marker BASE_OFFSET TIMESTAMP LEADER_EPOCH PRODUCER_ID EPOCH abort|commit COORDINATOR_EPOCH   → BYTES
 * read BYTES          → TIMESTAMP_TYPE,RECORD...     (CRCs are checked)
 * consume BYTES       → NUMBER_OF_RECORDS, or error     (as a consumer reads batches)
 * murmur2 BYTES...    → HASH...
 * validate BYTES NEXT_OFFSET CODEC COMPACTED MAGIC TYPE NOW BEFORE_MAX AFTER_MAX LEADER_EPOCH ORIGIN
 *     → ok MAX_TIMESTAMP SIZE_MAY_HAVE_CHANGED NEXT_OFFSET BYTES
 *     → error EXCEPTION INDEX...     (of the invalid records)
 * </pre>
 */
public final class Records {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            System.out.println(switch (words[0]) {
                case "build" -> hex(build(words));
                case "marker" -> hex(marker(words));
                case "read" -> read(words[1]);
                case "consume" -> consume(words[1]);
                case "murmur2" -> Stream.of(words).skip(1).map(w -> "" + Utils.murmur2(bytes(w))).collect(Collectors.joining(" "));
                case "validate" -> validate(words);
                default -> throw new IllegalArgumentException(line);
            });
        }
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : HEX.parseHex(word.equals("empty") ? "" : word);
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] bytes = Utils.toArray(buffer);
        return bytes.length == 0 ? "empty" : HEX.formatHex(bytes);
    }

    private static String hex(MemoryRecords records) {
        return hex(records.buffer());
    }

    private static MemoryRecords build(String[] words) {
        long appendTime = Long.parseLong(words[4]);
        byte magic = Byte.parseByte(words[1]);
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
            : appendTime < 0 ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME;
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(1 << 16), magic,
            Compression.of(words[2]).build(), type, Long.parseLong(words[3]), appendTime, Long.parseLong(words[5]),
            Short.parseShort(words[6]), Integer.parseInt(words[7]), Boolean.parseBoolean(words[8]), false,
            Integer.parseInt(words[9]), 1 << 16, Long.parseLong(words[10]));
        for (int i = 11; i < words.length; i++) {
            String[] fields = words[i].split(",");
            Header[] headers = Stream.of(fields).skip(4).map(f -> f.split(":"))
                .map(f -> new RecordHeader(new String(bytes(f[0]), java.nio.charset.StandardCharsets.UTF_8), bytes(f[1])))
                .toArray(Header[]::new);
            builder.appendWithOffset(Long.parseLong(fields[0]), Long.parseLong(fields[1]), bytes(fields[2]), bytes(fields[3]), headers);
        }
        return builder.build();
    }

    private static MemoryRecords marker(String[] words) {
        ControlRecordType type = words[6].equals("abort") ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
        return MemoryRecords.withEndTransactionMarker(Long.parseLong(words[1]), Long.parseLong(words[2]), Integer.parseInt(words[3]),
            Long.parseLong(words[4]), Short.parseShort(words[5]), new EndTransactionMarker(type, Integer.parseInt(words[7])));
    }

    private static String read(String data) {
        StringBuilder out = new StringBuilder();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(data))).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                out.append(out.isEmpty() ? "" : " ").append(batch.timestampType().id).append(',').append(record.offset()).append(',')
                    .append(record.timestamp()).append(',').append(hex(record.key())).append(',').append(hex(record.value()));
                for (Header header : record.headers()) {
                    out.append(',').append(HEX.formatHex(Utils.utf8(header.key()))).append(':')
                        .append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
                }
            }
        }
        return out.toString();
    }

    private static String consume(String data) {
        int count = 0;
        try {
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(data))).batches()) {
                batch.ensureValid();
                try (CloseableIterator<Record> records = batch.streamingIterator(BufferSupplier.create())) {
                    while (records.hasNext()) {
                        records.next().ensureValid();
                        count++;
                    }
                }
            }
        } catch (RuntimeException | Error e) {
            return "error";
        }
        return "" + count;
    }

    private static String validate(String[] words) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(words[1])));
        PrimitiveRef.LongRef offset = PrimitiveRef.ofLong(Long.parseLong(words[2]));
        long now = Long.parseLong(words[7]);
        Time time = (Time) Proxy.newProxyInstance(Records.class.getClassLoader(), new Class<?>[] {Time.class}, (p, m, a) -> now);
        var metrics = (LogValidator.MetricsRecorder) Proxy.newProxyInstance(
            Records.class.getClassLoader(), new Class<?>[] {LogValidator.MetricsRecorder.class}, (p, m, a) -> null);
        try {
            CompressionType source = StreamSupport.stream(records.batches().spliterator(), false)
                .map(MutableRecordBatch::compressionType).filter(c -> c != CompressionType.NONE).findFirst().orElse(CompressionType.NONE);
            Compression target = words[3].equals("producer") ? Compression.of(source).build() : Compression.of(words[3]).build();
            LogValidator validator = new LogValidator(records, new TopicPartition("t", 0), time, source, target,
                Boolean.parseBoolean(words[4]), Byte.parseByte(words[5]), TimestampType.forName(words[6]), Long.parseLong(words[8]),
                Long.parseLong(words[9]), Integer.parseInt(words[10]), AppendOrigin.valueOf(words[11]));
            var result = validator.validateMessagesAndAssignOffsets(offset, metrics, BufferSupplier.NO_CACHING);
            return "ok " + result.maxTimestampMs() + " " + result.messageSizeMaybeChanged() + " " + offset.value + " "
                + hex(result.validatedRecords());
        } catch (RecordValidationException e) {
            return "error " + e.invalidException().getClass().getSimpleName()
                + e.recordErrors().stream().map(r -> " " + r.batchIndex).collect(Collectors.joining());
        } catch (RuntimeException | Error e) {
            return "error " + e.getClass().getSimpleName();
        }
    }
}
