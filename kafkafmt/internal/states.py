"""What the transaction coordinator writes into `__transaction_state`, the share coordinator into `__share_group_state` (see schema.py)."""

TRANSACTION_SCHEMAS = """
TransactionLogKey 0 0
  transactionalId string

TransactionLogValue 0 0-1 flexible 1+
  producerId int64
  previousProducerId int64 1+ tag 0 = -1
  nextProducerId int64 1+ tag 1 = -1
  producerEpoch int16
  nextProducerEpoch int16 1+ tag 3 = -1
  transactionTimeoutMs int32
  transactionStatus int8
  transactionPartitions []PartitionsSchema?
    topic string
    partitionIds []int32
  transactionLastUpdateTimestampMs int64
  transactionStartTimestampMs int64
  clientTransactionVersion int16 1+ tag 2
"""

SHARE_SCHEMAS = """
ShareSnapshotKey 0 0
  groupId string
  topicId uuid
  partition int32

ShareSnapshotValue 0 0 flexible 0+
  snapshotEpoch int32
  stateEpoch int32
  leaderEpoch int32
  startOffset int64
  deliveryCompleteCount int32 tag 0 = -1
  createTimestamp int64
  writeTimestamp int64
  stateBatches []StateBatch
    firstOffset int64
    lastOffset int64
    deliveryState int8
    deliveryCount int16

ShareUpdateKey 1 0
  groupId string
  topicId uuid
  partition int32

ShareUpdateValue 1 0 flexible 0+
  snapshotEpoch int32
  leaderEpoch int32
  startOffset int64
  deliveryCompleteCount int32 tag 0 = -1
  stateBatches []StateBatch
    firstOffset int64
    lastOffset int64
    deliveryState int8
    deliveryCount int16
"""
