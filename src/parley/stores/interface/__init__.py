"""What a store must do, in parts: one module for each, and `store` for the whole.

The suite that every store must pass is in `tests/stores`.
"""

from parley.stores.interface.contexts import CONVERSATION as CONVERSATION
from parley.stores.interface.contexts import ContextKey as ContextKey
from parley.stores.interface.contexts import ContextValues as ContextValues
from parley.stores.interface.delivery_state import DeadLetter as DeadLetter
from parley.stores.interface.delivery_state import DeliveryFailure as DeliveryFailure
from parley.stores.interface.errors import ConflictError as ConflictError
from parley.stores.interface.errors import LeaseLostError as LeaseLostError
from parley.stores.interface.errors import RecordConflictError as RecordConflictError
from parley.stores.interface.errors import RepeatedSendError as RepeatedSendError
from parley.stores.interface.errors import StoreError as StoreError
from parley.stores.interface.errors import StoreUnavailableError as StoreUnavailableError
from parley.stores.interface.inbox import Inbox as Inbox
from parley.stores.interface.inbox import InboxItem as InboxItem
from parley.stores.interface.keys import Owner as Owner
from parley.stores.interface.keys import TaskKey as TaskKey
from parley.stores.interface.leases import Leases as Leases
from parley.stores.interface.leases import Worker as Worker
from parley.stores.interface.outbox import Outbox as Outbox
from parley.stores.interface.outbox import Webhook as Webhook
from parley.stores.interface.owner_data import OwnerData as OwnerData
from parley.stores.interface.records import DeleteRecord as DeleteRecord
from parley.stores.interface.records import PutRecord as PutRecord
from parley.stores.interface.records import Record as Record
from parley.stores.interface.records import RecordChange as RecordChange
from parley.stores.interface.records import RecordKey as RecordKey
from parley.stores.interface.records import Records as Records
from parley.stores.interface.sends import SendKey as SendKey
from parley.stores.interface.sends import SendRecord as SendRecord
from parley.stores.interface.sends import SendRecords as SendRecords
from parley.stores.interface.store import Store as Store
from parley.stores.interface.tasks import NewTask as NewTask
from parley.stores.interface.tasks import StoredEvent as StoredEvent
from parley.stores.interface.tasks import StoredTask as StoredTask
from parley.stores.interface.tasks import TaskFilter as TaskFilter
from parley.stores.interface.tasks import TaskHead as TaskHead
from parley.stores.interface.tasks import TaskHeads as TaskHeads
from parley.stores.interface.tasks import TaskLog as TaskLog
from parley.stores.interface.tasks import Workload as Workload
from parley.stores.interface.tasks import Write as Write
