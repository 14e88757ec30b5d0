import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Random;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Writes and reads messages with Kafka's own message classes.
 *
 * <pre>
 * fill N    Creates N messages with random values of each message in each version. Prints a line for each of them:
 *           KIND KEY VERSION BASE64 JSON
 * defaults  Creates one message of each message in each version. Each array has one element, and all other fields have their
 *           default values. Prints lines as fill does.
 * drop N    Creates N messages of each message in its newest version. Most fields have their default values. Writes each message
 *           in every other version, and prints a line for each version. The last word is "-" if the version cannot represent
 *           the message: KIND KEY NEWEST BASE64 VERSION BASE64
 * read      Reads lines "KIND KEY VERSION BASE64" from standard input. For each line, reads the message, writes it again, and
 *           prints: BASE64 JSON
 * errors    Prints a line for each error code: CODE NAME RETRIABLE
 * </pre>
 *
 * KIND is request or response. For headers, it is request_header or response_header, and the key is -1. JSON is the output of
 * the JsonConverters, which contains the size of record data instead of the data. The SCHEMAS of the classes determine which
 * fields a version has, and which values they can have.
 */
public class Oracle {
    static boolean sparse;
    static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "fill":
            case "defaults":
            case "drop":
                int count = args.length > 1 ? Integer.parseInt(args[1]) : 1;
                for (ApiMessageType api : ApiMessageType.values()) {
                    if (api.lowestSupportedVersion() > api.highestSupportedVersion(true)) continue;  // Kafka keeps the key, but has removed the messages
                    make(args[0], "request", api.apiKey(), api, count);
                    make(args[0], "response", api.apiKey(), api, count);
                }
                make(args[0], "request_header", -1, null, count);
                make(args[0], "response_header", -1, null, count);
                break;
            case "read":
                BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
                for (String line; (line = in.readLine()) != null; ) {
                    String[] w = line.split(" ", 4);
                    ApiMessage message = create(w[0], w[1].equals("-1") ? null : ApiMessageType.fromApiKey(Short.parseShort(w[1])));
                    short version = Short.parseShort(w[2]);
                    ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(w[3]));
                    message.read(new ByteBufferAccessor(bytes), version);
                    if (bytes.hasRemaining()) throw new IllegalStateException(line + ": " + bytes.remaining() + " bytes left");
                    OUT.println(base64(message, version) + " " + json(message, version));
                }
                break;
            case "errors":
                for (Errors e : Errors.values())
                    OUT.println(e.code() + " " + e.name() + " " + (e.exception() instanceof RetriableException));
        }
        OUT.flush();
    }

    static ApiMessage create(String kind, ApiMessageType api) {
        if (kind.equals("request_header")) return new RequestHeaderData();
        if (kind.equals("response_header")) return new ResponseHeaderData();
        return kind.equals("request") ? api.newRequest() : api.newResponse();
    }

    static void make(String mode, String kind, int key, ApiMessageType api, int count) throws Exception {
        ApiMessage sample = create(kind, api);
        Schema[] schemas = (Schema[]) sample.getClass().getField("SCHEMAS").get(null);
        short oldest = sample.lowestSupportedVersion(), newest = sample.highestSupportedVersion();
        for (short version = mode.equals("drop") ? newest : oldest; version <= newest; version++)
            for (int i = 0; i < count; i++) {
                Random random = mode.equals("defaults") ? null : new Random((kind + key + " " + version + " " + i).hashCode());
                sparse = mode.equals("drop");
                ApiMessage message = create(kind, api);
                fill(message, schemas[version], random, 0);
                String head = kind + " " + key + " " + version + " ";
                if (!mode.equals("drop")) {
                    try {
                        head += base64(message, version);
                    } catch (NullPointerException e) {  // the default value is null, which cannot be written
                        continue;
                    }
                    OUT.println(head + " " + json(message, version));
                } else
                    for (short other = oldest; other < newest; other++) {
                        String written;
                        try {
                            written = base64(message, other);
                        } catch (UnsupportedVersionException | NullPointerException e) {
                            written = "-";
                        }
                        OUT.println(head + base64(message, newest) + " " + other + " " + written);
                    }
            }
    }

    static String base64(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(bytes), cache, version);
        if (bytes.hasRemaining()) throw new IllegalStateException(bytes.remaining() + " bytes unwritten");
        return Base64.getEncoder().encodeToString(bytes.array());
    }

    static Object json(Message message, short version) throws Exception {
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        return converter.getMethod("write", message.getClass(), short.class, boolean.class).invoke(null, message, version, false);
    }

    static void fill(Message message, Schema schema, Random random, int depth) throws Exception {
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields) {
                Field known = TaggedFields.class.getDeclaredField("fields");
                known.setAccessible(true);
                for (Object tagged : ((Map<?, ?>) known.get(bound.def.type)).values()) {
                    var def = (org.apache.kafka.common.protocol.types.Field) tagged;
                    if (random == null || random.nextInt(3) > 0) set(message, def.name, def.type, random, depth);
                }
                for (int tag = 100; random != null && !sparse && random.nextInt(4) == 0; tag += 1 + random.nextInt(20000))
                    message.unknownTaggedFields().add(new RawTaggedField(tag, bytes(random)));
            } else {
                set(message, bound.def.name, bound.def.type, random, depth);
            }
        }
    }

    static void set(Message message, String name, Type type, Random random, int depth) throws Exception {
        for (Field field : message.getClass().getDeclaredFields())
            if (field.getName().equalsIgnoreCase(name.replace("_", ""))) {
                field.setAccessible(true);
                boolean structured = type instanceof Schema || type.isArray() && type.arrayElementType().get() instanceof Schema;
                boolean records = field.getType().getSimpleName().equals("BaseRecords");  // the default value is null, even if the field is not nullable
                if (!structured && (random == null || sparse && !records && random.nextInt(8) > 0)) return;
                boolean nullable = type.isNullable() || type instanceof Schema && field.get(message) == null;
                field.set(message, nullable && random != null && !(sparse && records) && random.nextInt(4) == 0 ? null : value(type, field.getGenericType(), random, depth));
                return;
            }
        throw new IllegalStateException(message.getClass() + " has no " + name);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static Object value(Type type, java.lang.reflect.Type java, Random random, int depth) throws Exception {
        if (type.isArray()) {
            Class<?> collection = java instanceof ParameterizedType ? ArrayList.class : (Class<?>) java;
            ParameterizedType generic = (ParameterizedType) (java instanceof ParameterizedType ? java : collection.getGenericSuperclass());
            Collection made = (Collection) collection.getConstructor().newInstance();
            for (int left = random == null ? 1 : random.nextInt(depth > 2 ? 2 : 4); left > 0; left--)
                made.add(value(type.arrayElementType().get(), generic.getActualTypeArguments()[0], random, depth + 1));
            return made;
        }
        if (type instanceof Schema) {
            Message made = (Message) ((Class<?>) java).getConstructor().newInstance();
            fill(made, (Schema) type, random, depth + 1);
            return made;
        }
        if (java == boolean.class || java == Boolean.class) return random.nextBoolean();
        if (java == byte.class || java == Byte.class) return (byte) integer(random, 8, false);
        if (java == short.class || java == Short.class) return (short) integer(random, 16, false);
        if (type == Type.UINT16) return (int) integer(random, 16, true);
        if (java == int.class || java == Integer.class) return (int) integer(random, 32, false);
        if (type == Type.UNSIGNED_INT32) return integer(random, 32, true);
        if (java == long.class || java == Long.class) return integer(random, 64, false);
        if (java == double.class) return new double[] {0, -0.5, 1e300, random.nextGaussian()}[random.nextInt(4)];
        if (java == Uuid.class) return random.nextInt(4) == 0 ? Uuid.ZERO_UUID : new Uuid(random.nextLong(), random.nextLong());
        if (java == String.class) return text(random);
        if (java == byte[].class) return bytes(random);
        if (java == ByteBuffer.class) return ByteBuffer.wrap(bytes(random));
        if (java instanceof Class && ((Class<?>) java).getSimpleName().equals("BaseRecords"))  // in 3.9 and 4.3, the class is in different packages
            return Class.forName(((Class<?>) java).getPackageName() + ".MemoryRecords").getMethod("readableRecords", ByteBuffer.class)
                .invoke(null, ByteBuffer.wrap(bytes(random)));
        throw new IllegalStateException(type + " in " + java);
    }

    static long integer(Random random, int bits, boolean unsigned) {
        long highest = bits == 64 ? Long.MAX_VALUE : (1L << (unsigned ? bits : bits - 1)) - 1;
        long lowest = unsigned ? 0 : -highest - 1;
        switch (random.nextInt(5)) {
            case 0: return lowest;
            case 1: return highest;
            case 2: return random.nextInt(3);
            default: return unsigned ? random.nextLong() & highest : random.nextLong() >> (64 - bits);
        }
    }

    static String text(Random random) {
        switch (random.nextInt(5)) {
            case 0: return "";
            case 1: return "größe-\u65e5\u672c-\ud83d\ude00";
            case 2: return "x".repeat(random.nextInt(300));
            default: return "name-" + random.nextInt(100);
        }
    }

    static byte[] bytes(Random random) {
        byte[] made = new byte[random.nextInt(4) == 0 ? 0 : random.nextInt(200)];
        random.nextBytes(made);
        return made;
    }
}
