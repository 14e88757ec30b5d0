import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;

/**
 * Creates topics, configs, ACLs, quotas and SCRAM users, and describes them as JSON, with Kafka's Admin client.
 *
 *     MetadataAdmin BOOTSTRAP create
 *     MetadataAdmin BOOTSTRAP describe
 */
public class MetadataAdmin {
    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            if (args[1].equals("create")) create(admin);
            else System.out.println(new ObjectMapper().writeValueAsString(describe(admin)));
        }
    }

    static void create(Admin admin) throws Exception {
        admin.createTopics(List.of(
            new NewTopic("orders", 3, (short) 1).configs(Map.of("retention.ms", "86400000", "cleanup.policy", "compact,delete")),
            new NewTopic("pay.ments_1-x", 1, (short) 1), new NewTopic("-dash", 2, (short) 1),
            new NewTopic("deleted", 1, (short) 1).configs(Map.of("retention.ms", "1")))).all().get();
        admin.createPartitions(Map.of("pay.ments_1-x", NewPartitions.increaseTo(2))).all().get();
        admin.deleteTopics(List.of("deleted")).all().get();
        Map<ConfigResource, Collection<AlterConfigOp>> configs = new HashMap<>();
        set(configs, ConfigResource.Type.TOPIC, "orders", "segment.bytes", "2097152");
        set(configs, ConfigResource.Type.TOPIC, "orders", "follower.replication.throttled.replicas", "0:1,1:1");
        set(configs, ConfigResource.Type.BROKER, "", "log.cleaner.threads", "2");
        set(configs, ConfigResource.Type.BROKER, "1", "log.cleaner.io.max.bytes.per.second", "1000000.5");
        set(configs, ConfigResource.Type.BROKER, "1", "vendor.password", "hidden-1");
        set(configs, ConfigResource.Type.GROUP, "my group", "consumer.session.timeout.ms", "46000");
        set(configs, ConfigResource.Type.CLIENT_METRICS, "all $(metrics)", "interval.ms", "5000");
        set(configs, ConfigResource.Type.CLIENT_METRICS, "all $(metrics)", "match", "client_id=a,client_software_name=b.*");
        admin.incrementalAlterConfigs(configs).all().get();
        configs.clear();
        configs.put(new ConfigResource(ConfigResource.Type.TOPIC, "orders"),
            List.of(new AlterConfigOp(new ConfigEntry("segment.bytes", ""), AlterConfigOp.OpType.DELETE)));
        admin.incrementalAlterConfigs(configs).all().get();
        admin.createAcls(List.of(
            acl(ResourceType.TOPIC, "orders", PatternType.PREFIXED, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW),
            acl(ResourceType.TOPIC, "orders", PatternType.PREFIXED, "User:alice", "*", AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW),
            acl(ResourceType.GROUP, "it's \"mine\" $(x)", PatternType.LITERAL, "User:CN=a, O=b", "10.0.0.1", AclOperation.ALL, AclPermissionType.DENY),
            acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:*", "*", AclOperation.CLUSTER_ACTION, AclPermissionType.ALLOW),
            acl(ResourceType.TRANSACTIONAL_ID, "tx", PatternType.LITERAL, "User:b", "*", AclOperation.TWO_PHASE_COMMIT, AclPermissionType.ALLOW),
            acl(ResourceType.USER, "User:c", PatternType.LITERAL, "User:b", "*", AclOperation.CREATE_TOKENS, AclPermissionType.ALLOW),
            acl(ResourceType.TOPIC, "gone", PatternType.LITERAL, "User:b", "*", AclOperation.WRITE, AclPermissionType.ALLOW))).all().get();
        admin.deleteAcls(List.of(acl(ResourceType.TOPIC, "gone", PatternType.LITERAL, "User:b", "*", AclOperation.WRITE,
            AclPermissionType.ALLOW).toFilter())).all().get();
        admin.alterClientQuotas(List.of(
            quota(entity("user", "alice", "client-id", null), "producer_byte_rate", 1048576.0),
            quota(entity("user", null), "request_percentage", 12.5),
            quota(entity("client-id", "c,d"), "consumer_byte_rate", 123456789.0),
            quota(entity("ip", "127.0.0.9"), "connection_creation_rate", 5.0),
            quota(entity("user", "gone"), "consumer_byte_rate", 1.0))).all().get();
        admin.alterClientQuotas(List.of(quota(entity("user", "gone"), "consumer_byte_rate", null))).all().get();
        admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192), "hidden-2"),
            new UserScramCredentialUpsertion("carol", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 5000), "hidden-3"),
            new UserScramCredentialUpsertion("bob", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "hidden-4"))).all().get();
        admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "hidden-5"),
            new UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256))).all().get();
    }

    static void set(Map<ConfigResource, Collection<AlterConfigOp>> configs, ConfigResource.Type type, String resource, String name, String value) {
        configs.computeIfAbsent(new ConfigResource(type, resource), r -> new ArrayList<>())
            .add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET));
    }

    static AclBinding acl(ResourceType type, String name, PatternType pattern, String principal, String host, AclOperation operation, AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(type, name, pattern), new AccessControlEntry(principal, host, operation, permission));
    }

    static ClientQuotaEntity entity(String... parts) {
        Map<String, String> entries = new HashMap<>();
        for (int i = 0; i < parts.length; i += 2) entries.put(parts[i], parts[i + 1]);
        return new ClientQuotaEntity(entries);
    }

    static ClientQuotaAlteration quota(ClientQuotaEntity entity, String key, Double value) {
        return new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op(key, value)));
    }

    static Map<String, Object> describe(Admin admin) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        Set<String> names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        List<Object> topics = new ArrayList<>();
        for (TopicDescription topic : new TreeMap<>(admin.describeTopics(names).allTopicNames().get()).values()) {
            List<Object> partitions = new ArrayList<>();
            for (TopicPartitionInfo p : topic.partitions())
                partitions.add(map("partition", p.partition(), "leader", p.leader() == null ? -1 : p.leader().id(),
                    "replicas", p.replicas().stream().map(n -> n.id()).collect(Collectors.toList()),
                    "isr", p.isr().stream().map(n -> n.id()).collect(Collectors.toList())));
            topics.add(map("name", topic.name(), "topic_id", topic.topicId().toString(), "partitions", partitions));
        }
        all.put("topics", topics);
        List<ConfigResource> resources = new ArrayList<>();
        for (String name : names) resources.add(new ConfigResource(ConfigResource.Type.TOPIC, name));
        for (String name : List.of("", "1")) resources.add(new ConfigResource(ConfigResource.Type.BROKER, name));
        for (ConfigResource r : admin.listConfigResources(Set.of(ConfigResource.Type.GROUP, ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all().get())
            resources.add(r);
        Set<ConfigEntry.ConfigSource> dynamic = Set.of(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG,
            ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG,
            ConfigEntry.ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG);
        List<Object> configs = new ArrayList<>();
        for (var described : admin.describeConfigs(resources).all().get().entrySet())
            for (ConfigEntry e : described.getValue().entries())
                if (dynamic.contains(e.source()) && (e.source() != ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG || described.getKey().isDefault()))
                    configs.add(map("resource_type", described.getKey().type().name().toLowerCase(), "resource_name", described.getKey().name(),
                        "name", e.name(), "value", e.value(), "sensitive", e.isSensitive()));
        all.put("configs", configs);
        List<Object> acls = new ArrayList<>();
        for (AclBinding a : admin.describeAcls(AclBindingFilter.ANY).values().get())
            acls.add(map("resource_type", a.pattern().resourceType().name(), "resource_name", a.pattern().name(), "pattern_type", a.pattern().patternType().name(),
                "principal", a.entry().principal(), "host", a.entry().host(), "operation", a.entry().operation().name(), "permission", a.entry().permissionType().name()));
        all.put("acls", acls);
        List<Object> quotas = new ArrayList<>();
        for (var q : admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().entrySet())
            for (var limit : q.getValue().entrySet())
                quotas.add(map("user", part(q.getKey(), "user"), "client_id", part(q.getKey(), "client-id"), "ip", part(q.getKey(), "ip"),
                    "key", limit.getKey(), "value", limit.getValue()));
        all.put("quotas", quotas);
        List<Object> scram = new ArrayList<>();
        for (var u : admin.describeUserScramCredentials().all().get().values())
            for (ScramCredentialInfo i : u.credentialInfos())
                scram.add(map("user", u.name(), "mechanism", i.mechanism().mechanismName(), "iterations", i.iterations()));
        all.put("scram", scram);
        List<Object> features = new ArrayList<>();
        for (var f : admin.describeFeatures().featureMetadata().get().finalizedFeatures().entrySet())
            features.add(map("name", f.getKey(), "level", (int) f.getValue().maxVersionLevel()));
        all.put("features", features);
        List<Object> brokers = new ArrayList<>();
        for (var n : admin.describeCluster(new DescribeClusterOptions()).nodes().get())
            brokers.add(map("id", n.id(), "host", n.host(), "port", n.port(), "rack", n.rack(), "fenced", n.isFenced()));
        all.put("brokers", brokers);
        QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
        List<Object> voters = new ArrayList<>();
        for (var v : quorum.voters()) voters.add(map("id", v.replicaId(), "directory_id", v.replicaDirectoryId().toString()));
        all.put("voters", voters);
        List<Object> listeners = new ArrayList<>();
        for (var n : quorum.nodes().values())
            for (var e : n.endpoints()) listeners.add(map("id", n.nodeId(), "name", e.listener(), "host", e.host(), "port", e.port()));
        all.put("listeners", listeners);
        all.put("quorum", map("leader_id", quorum.leaderId(), "leader_epoch", quorum.leaderEpoch(), "high_watermark", quorum.highWatermark(),
            "cluster_id", admin.describeCluster().clusterId().get()));
        return all;
    }

    static String part(ClientQuotaEntity entity, String kind) {
        if (!entity.entries().containsKey(kind)) return null;
        String name = entity.entries().get(kind);
        return name == null ? "" : name;
    }

    static Map<String, Object> map(Object... pairs) {
        Map<String, Object> made = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) made.put((String) pairs[i], pairs[i + 1]);
        return made;
    }
}
