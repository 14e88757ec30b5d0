import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.*;
import org.apache.kafka.image.writer.*;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.*;

/**
 * Applies metadata records to Kafka's own MetadataImage, one delta per record.
 *
 * Each line of stdin is a record in base64. An empty line ends a sequence: the records of the image are
 * printed in base64, followed by an empty line. A record that Kafka rejects is skipped, and its number in
 * the sequence is printed with an exclamation mark.
 */
public class MetadataImages {
    public static void main(String[] args) throws Exception {
        Scanner in = new Scanner(System.in, StandardCharsets.UTF_8);
        MetadataImage image = MetadataImage.EMPTY;
        StringBuilder out = new StringBuilder();
        int number = 0;
        while (in.hasNextLine()) {
            String line = in.nextLine();
            if (line.isEmpty()) {
                write(image, out);
                image = MetadataImage.EMPTY;
                number = 0;
                continue;
            }
            byte[] bytes = Base64.getDecoder().decode(line);
            try {
                ApiMessageAndVersion record = MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length);
                MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
                delta.replay(record.message());
                image = delta.apply(new MetadataProvenance(number, 1, 0, true));
            } catch (Exception e) {
                out.append("!").append(number).append(" ").append(e.toString().replace('\n', ' ')).append('\n');
            }
            number++;
        }
        System.out.print(out);
    }

    static void write(MetadataImage image, StringBuilder out) throws Exception {
        RecordListWriter writer = new RecordListWriter();
        ImageWriterOptions options = new ImageWriterOptions.Builder(MetadataVersion.fromFeatureLevel((short) 30))
            .setEligibleLeaderReplicasEnabled(true).build();
        image.write(writer, options);
        for (ApiMessageAndVersion record : writer.records()) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
            MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
            out.append(Base64.getEncoder().encodeToString(buffer.array())).append('\n');
        }
        out.append('\n');
    }
}
