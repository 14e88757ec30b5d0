import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/**
 * Converts record data for consumers of an older format, as brokers up to 3.9 did. Each line of standard input is a request:
 * MAGIC FIRST_OFFSET BYTES, with the bytes in hexadecimal. The response is the converted bytes, or the name of the exception.
 */
public final class DownConvert {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(words[2])));
            String answer;
            try {
                var converted = records.downConvert(Byte.parseByte(words[0]), Long.parseLong(words[1]), Time.SYSTEM).records();
                answer = HexFormat.of().formatHex(Utils.toArray(converted.buffer()));
            } catch (RuntimeException e) {
                answer = e.getClass().getSimpleName();
            }
            System.out.println(answer);
        }
    }
}
