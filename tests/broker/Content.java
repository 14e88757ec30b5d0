import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Makes the records of a job. The same seed and index always give the same record. */
final class Content {
    private static final byte[][] WORDS = words(
        "amsterdam berlin cairo dakar essen faro ghent helsinki istanbul jakarta kyoto lima madrid nairobi oslo paris quito rome seoul "
        + "tunis utrecht vienna warsaw yerevan zagreb shipped pending refunded delivered returned express standard premium basic gift "
        + "order item customer invoice payment voucher warehouse carrier parcel receipt discount");
    private static final int[] SIZES = {1, 2, 30, 63, 64, 65, 127, 128, 700, 3000, 8191, 8192};

    private final Random random;
    private final String kind;
    private final int keySize;
    private final int valueSize;
    private final int headerCount;

    /** kind: json (words and numbers, exactly valueSize bytes), random (bytes), mixed (all unusual contents). keySize 0: null keys. */
    Content(String kind, int keySize, int valueSize, int headerCount, long seed) {
        this.kind = kind;
        this.keySize = keySize;
        this.valueSize = valueSize;
        this.headerCount = headerCount;
        this.random = new Random(seed);
    }

    byte[] key(long index) {
        if (kind.equals("mixed")) {
            return odd((int) (index % 5));
        }
        if (keySize == 0) {
            return null;
        }
        byte[] key = new byte[keySize];
        long number = Math.floorMod(index * 0x9E3779B97F4A7C15L, 1_000_000_000_000_000L);
        for (int i = keySize - 1; i >= 0; i--, number /= 10) {
            key[i] = (byte) ('0' + number % 10);
        }
        return key;
    }

    byte[] value(long index) {
        if (kind.equals("mixed")) {
            return odd((int) (index / 5 % 7));
        }
        byte[] value = new byte[valueSize];
        if (kind.equals("random")) {
            random.nextBytes(value);
        } else {
            json(value, index);
        }
        return value;
    }

    List<Header> headers(long index) {
        List<Header> headers = new ArrayList<>();
        if (kind.equals("mixed")) {
            for (int i = 0; i < index % 4; i++) {
                String key = new String[] {"trace", "trace", "", "schlüssel-鍵-\uD83D\uDD11"}[(int) ((index + i) % 4)];
                headers.add(new RecordHeader(key, odd((int) ((index + i) % 3))));
            }
        }
        String[] names = {"trace-id", "source", "content-type", "schema", "tenant", "attempt", "region", "version"};
        for (int i = 0; i < headerCount; i++) {
            byte[] value = i == 2 ? "application/json".getBytes(StandardCharsets.UTF_8) : word().clone();
            headers.add(new RecordHeader(names[i % names.length], value));
        }
        return headers;
    }

    /** Returns null, no bytes, one byte, bytes that are not UTF-8, text, or a size at which a varint grows by a byte. */
    private byte[] odd(int which) {
        switch (which) {
            case 0: return null;
            case 1: return new byte[0];
            case 2: return new byte[] {0};
            case 3: return new byte[] {(byte) 0xff, (byte) 0xed, (byte) 0xa0, (byte) 0x80, 'x', (byte) 0xc3};
            case 4: return "line\nbreak \"quoted\" \\ grüße 東京 \uD83D\uDE00".getBytes(StandardCharsets.UTF_8);
            default:
                byte[] data = new byte[SIZES[random.nextInt(SIZES.length)]];
                if (which == 5) {
                    random.nextBytes(data);
                }
                return data;
        }
    }

    /** Returns {"id":…,"user":"…","amount":…,"note":"words…"}, filled with words to the given size. */
    private void json(byte[] out, long index) {
        int at = put(out, 0, "{\"id\":");
        at = digits(out, at, 100_000_000 + index, 9);
        at = put(out, at, ",\"user\":\"u");
        at = digits(out, at, random.nextInt(1_000_000), 6);
        at = put(out, at, "\",\"amount\":");
        at = digits(out, at, 10_000 + random.nextInt(90_000), 5);
        at = put(out, at, ",\"note\":\"");
        int end = out.length - 2;
        while (at < end) {
            byte[] word = word();
            int taken = Math.min(word.length, end - at);
            System.arraycopy(word, 0, out, at, taken);
            at += taken;
            if (at < end) {
                out[at++] = ' ';
            }
        }
        if (end >= 0) {
            out[end] = '"';
            out[end + 1] = '}';
        }
    }

    private byte[] word() {
        return WORDS[random.nextInt(WORDS.length)];
    }

    private static int put(byte[] out, int at, String text) {
        for (int i = 0; i < text.length() && at < out.length; i++) {
            out[at++] = (byte) text.charAt(i);
        }
        return at;
    }

    private static int digits(byte[] out, int at, long number, int count) {
        for (int i = Math.min(at + count, out.length) - 1; i >= at; i--, number /= 10) {
            out[i] = (byte) ('0' + number % 10);
        }
        return Math.min(at + count, out.length);
    }

    private static byte[][] words(String text) {
        String[] parts = text.split(" ");
        byte[][] out = new byte[parts.length][];
        for (int i = 0; i < parts.length; i++) {
            out[i] = parts[i].getBytes(StandardCharsets.US_ASCII);
        }
        return out;
    }
}
