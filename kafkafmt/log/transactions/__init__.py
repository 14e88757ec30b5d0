"""Determine how transactions ended, and which transactions are open."""

from .nearby_transactions import open_after, open_at_end, outcomes_near
from .snapshot_files import SnapshotFiles
from .transaction_index import IndexEntries
from .transaction_walk import TransactionWalk, find_transactions, settle, settle_hidden
from .transactions import Doubt, Doubts, TransactionInDoubtError, Transactions

__all__ = [
    "Doubt", "Doubts", "IndexEntries", "SnapshotFiles", "TransactionInDoubtError", "TransactionWalk", "Transactions",
    "find_transactions", "open_after", "open_at_end", "outcomes_near", "settle", "settle_hidden",
]  # fmt: skip
