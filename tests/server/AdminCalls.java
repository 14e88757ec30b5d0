import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/**
 * Makes the calls of kafka-ui and AKHQ with Kafka's Admin client, and prints one line for each call.
 *
 *     AdminCalls BOOTSTRAP TOPIC GROUP TRANSACTIONAL_ID
 *
 * A line contains the name of the call, "result" or "error", and the result or the error, separated by tabs.
 */
public class AdminCalls {
    private static final long SECONDS = 20;

    private interface Call {
        Object get() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        String topic = args[1], group = args[2], transaction = args[3];
        TopicPartition partition = new TopicPartition(topic, 0);
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0], "default.api.timeout.ms", 15000, "request.timeout.ms", 10000);
        try (Admin admin = Admin.create(settings)) {
            DescribeClusterResult cluster = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            call("describeCluster", () -> cluster.nodes().get(SECONDS, TimeUnit.SECONDS));
            call("listTopics", () -> new TreeSet<>(admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get(SECONDS, TimeUnit.SECONDS)));
            call("describeTopics", () -> admin.describeTopics(List.of(topic)).allTopicNames().get(SECONDS, TimeUnit.SECONDS));
            call("describeConfigsOfTopic", () -> configs(admin, ConfigResource.Type.TOPIC, topic));
            String node = String.valueOf(cluster.controller().get(SECONDS, TimeUnit.SECONDS).id());
            call("describeConfigsOfBroker", () -> configs(admin, ConfigResource.Type.BROKER, node));
            call("listGroups", () -> admin.listGroups().all().get(SECONDS, TimeUnit.SECONDS));
            call("listConsumerGroups", () -> admin.listConsumerGroups().all().get(SECONDS, TimeUnit.SECONDS));
            call("describeConsumerGroups", () -> admin.describeConsumerGroups(List.of(group)).all().get(SECONDS, TimeUnit.SECONDS));
            call("describeClassicGroups", () -> admin.describeClassicGroups(List.of(group)).all().get(SECONDS, TimeUnit.SECONDS));
            call("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get(SECONDS, TimeUnit.SECONDS));
            for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(0), OffsetSpec.earliestLocal(), OffsetSpec.latestTiered()))
                call("listOffsets." + spec.getClass().getSimpleName(), () -> admin.listOffsets(Map.of(partition, spec)).all().get(SECONDS, TimeUnit.SECONDS));
            call("describeLogDirs", () -> admin.describeLogDirs(List.of(Integer.valueOf(node))).allDescriptions().get(SECONDS, TimeUnit.SECONDS));
            call("describeReplicaLogDirs", () -> admin.describeReplicaLogDirs(List.of(new org.apache.kafka.common.TopicPartitionReplica(topic, 0, Integer.parseInt(node)))).all().get(SECONDS, TimeUnit.SECONDS));
            call("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get(SECONDS, TimeUnit.SECONDS));
            call("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get(SECONDS, TimeUnit.SECONDS));
            call("describeUserScramCredentials", () -> admin.describeUserScramCredentials().all().get(SECONDS, TimeUnit.SECONDS));
            call("listTransactions", () -> admin.listTransactions().all().get(SECONDS, TimeUnit.SECONDS));
            call("describeTransactions", () -> admin.describeTransactions(List.of(transaction)).all().get(SECONDS, TimeUnit.SECONDS));
            call("describeProducers", () -> admin.describeProducers(List.of(partition)).all().get(SECONDS, TimeUnit.SECONDS));
            call("describeFeatures", () -> admin.describeFeatures().featureMetadata().get(SECONDS, TimeUnit.SECONDS));
            call("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments().get(SECONDS, TimeUnit.SECONDS));
            call("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo().get(SECONDS, TimeUnit.SECONDS));
            call("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens().get(SECONDS, TimeUnit.SECONDS));
            call("listConfigResources", () -> admin.listConfigResources().all().get(SECONDS, TimeUnit.SECONDS));
            call("describeShareGroups", () -> admin.describeShareGroups(List.of(group)).all().get(SECONDS, TimeUnit.SECONDS));
            call("describeStreamsGroups", () -> admin.describeStreamsGroups(List.of(group)).all().get(SECONDS, TimeUnit.SECONDS));
            call("createTopics", () -> admin.createTopics(List.of(new NewTopic("new", 1, (short) 1))).all().get(SECONDS, TimeUnit.SECONDS));
            call("deleteTopics", () -> admin.deleteTopics(List.of(topic)).all().get(SECONDS, TimeUnit.SECONDS));
            call("createPartitions", () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(9))).all().get(SECONDS, TimeUnit.SECONDS));
            call("deleteRecords", () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(1))).all().get(SECONDS, TimeUnit.SECONDS));
            call("incrementalAlterConfigs", () -> admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic),
                List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "1"), AlterConfigOp.OpType.SET)))).all().get(SECONDS, TimeUnit.SECONDS));
            call("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets(group, Map.of(partition, new org.apache.kafka.clients.consumer.OffsetAndMetadata(5))).all().get(SECONDS, TimeUnit.SECONDS));
            call("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get(SECONDS, TimeUnit.SECONDS));
            call("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of(group)).all().get(SECONDS, TimeUnit.SECONDS));
        }
    }

    private static Object configs(Admin admin, ConfigResource.Type type, String name) throws Exception {
        Collection<Config> found = admin.describeConfigs(List.of(new ConfigResource(type, name)),
            new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all().get(SECONDS, TimeUnit.SECONDS).values();
        return found.iterator().next().entries().size() + " entries";
    }

    private static void call(String name, Call call) throws Exception {
        long started = System.nanoTime();
        String kind = "result", text;
        try {
            text = String.valueOf(call.get());
        } catch (ExecutionException error) {
            kind = "error";
            text = error.getCause().getClass().getSimpleName() + ": " + error.getCause().getMessage();
        } catch (TimeoutException | RuntimeException error) {
            kind = "error";
            text = error.getClass().getSimpleName() + ": " + error.getMessage();
        }
        long milliseconds = (System.nanoTime() - started) / 1000000;
        System.out.println(name + "\t" + kind + "\t" + milliseconds + "\t" + text.replaceAll("\\s+", " "));
    }
}
