"""The controllers' records in `__cluster_metadata` (see schema.py for the form)."""

SCHEMAS = """
RegisterBrokerRecord 0 0-4 flexible 0+
  brokerId int32
  isMigratingZkBroker bool 2+ = false
  incarnationId uuid
  brokerEpoch int64
  endPoints []BrokerEndpoint
    name string
    host string
    port uint16
    securityProtocol int16
  features []BrokerFeature
    name string
    minSupportedVersion int16
    maxSupportedVersion int16
  rack string?
  fenced bool = true
  inControlledShutdown bool 1+ = false
  logDirs []uuid 3+ tag 0
  cordonedLogDirs []uuid? 4+ tag 1 = null

UnregisterBrokerRecord 1 0 flexible 0+
  brokerId int32
  brokerEpoch int64

TopicRecord 2 0 flexible 0+
  name string
  topicId uuid

PartitionRecord 3 0-2 flexible 0+
  partitionId int32 = -1
  topicId uuid
  replicas []int32
  isr []int32
  removingReplicas []int32
  addingReplicas []int32
  leader int32 = -1
  leaderRecoveryState int8 tag 0
  leaderEpoch int32 = -1
  partitionEpoch int32 = -1
  directories []uuid 1+
  eligibleLeaderReplicas []int32? 2+ tag 1 = null
  lastKnownElr []int32? 2+ tag 2 = null

ConfigRecord 4 0 flexible 0+
  resourceType int8
  resourceName string
  name string
  value string?

PartitionChangeRecord 5 0-2 flexible 0+
  partitionId int32 = -1
  topicId uuid
  isr []int32? tag 0 = null
  leader int32 tag 1 = -2
  replicas []int32? tag 2 = null
  removingReplicas []int32? tag 3 = null
  addingReplicas []int32? tag 4 = null
  leaderRecoveryState int8 tag 5 = -1
  directories []uuid? 1+ tag 8 = null
  eligibleLeaderReplicas []int32? 2+ tag 6 = null
  lastKnownElr []int32? 2+ tag 7 = null

FenceBrokerRecord 7 0 flexible 0+
  id int32
  epoch int64

UnfenceBrokerRecord 8 0 flexible 0+
  id int32
  epoch int64

RemoveTopicRecord 9 0 flexible 0+
  topicId uuid

DelegationTokenRecord 10 0 flexible 0+
  owner string
  requester string
  renewers []string
  issueTimestamp int64
  maxTimestamp int64
  expirationTimestamp int64
  tokenId string

UserScramCredentialRecord 11 0 flexible 0+
  name string
  mechanism int8
  salt bytes
  storedKey bytes
  serverKey bytes
  iterations int32

FeatureLevelRecord 12 0 flexible 0+
  name string
  featureLevel int16

ClientQuotaRecord 14 0 flexible 0+
  entity []EntityData
    entityType string
    entityName string?
  key string
  value float64
  remove bool

ProducerIdsRecord 15 0 flexible 0+
  brokerId int32
  brokerEpoch int64 = -1
  nextProducerId int64

BrokerRegistrationChangeRecord 17 0-3 flexible 0+
  brokerId int32
  brokerEpoch int64
  fenced int8 tag 0
  inControlledShutdown int8 1+ tag 1
  logDirs []uuid 2+ tag 2
  cordonedLogDirs []uuid? 3+ tag 3 = null

AccessControlEntryRecord 18 0 flexible 0+
  id uuid
  resourceType int8
  resourceName string
  patternType int8
  principal string
  host string
  operation int8
  permissionType int8

RemoveAccessControlEntryRecord 19 0 flexible 0+
  id uuid

NoOpRecord 20 0 flexible 0+

ZkMigrationStateRecord 21 0 flexible 0+
  zkMigrationState int8

RemoveUserScramCredentialRecord 22 0 flexible 0+
  name string
  mechanism int8

BeginTransactionRecord 23 0 flexible 0+
  name string? tag 0 = null

EndTransactionRecord 24 0 flexible 0+

AbortTransactionRecord 25 0 flexible 0+
  reason string? tag 0 = null

RemoveDelegationTokenRecord 26 0 flexible 0+
  tokenId string

RegisterControllerRecord 27 0 flexible 0+
  controllerId int32
  incarnationId uuid
  zkMigrationReady bool
  endPoints []ControllerEndpoint
    name string
    host string
    port uint16
    securityProtocol int16
  features []ControllerFeature
    name string
    minSupportedVersion int16
    maxSupportedVersion int16

ClearElrRecord 28 0 flexible 0+
  topicName string

UnregisterControllerRecord 29 0 flexible 0+
  controllerId int32
"""
