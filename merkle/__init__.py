"""RFC 6962 trees, proofs, leaf entries and checkpoints. Pure: no storage, clock, network or randomness.

`hashing` leaf, node and empty root · `entry` what a leaf attests · `tree` what is stored, roots and proofs ·
`verify` the two verifiers, the one file an auditor reads · `checkpoint` origin, size and root as signed text.
"""

from __future__ import annotations

from sealbook.merkle.checkpoint import Checkpoint as Checkpoint
from sealbook.merkle.entry import LEAF_ENTRY_BYTES as LEAF_ENTRY_BYTES
from sealbook.merkle.entry import LeafEntry as LeafEntry
from sealbook.merkle.entry import LeafType as LeafType
from sealbook.merkle.errors import Malformed as Malformed
from sealbook.merkle.errors import VerificationError as VerificationError
from sealbook.merkle.hashing import EMPTY_ROOT as EMPTY_ROOT
from sealbook.merkle.hashing import HASH_BYTES as HASH_BYTES
from sealbook.merkle.hashing import SIZE_MAX as SIZE_MAX
from sealbook.merkle.hashing import LeafHash as LeafHash
from sealbook.merkle.hashing import leaf_hash as leaf_hash
from sealbook.merkle.hashing import node_hash as node_hash
from sealbook.merkle.monitor import check_run_rules as check_run_rules
from sealbook.merkle.tree import Node as Node
from sealbook.merkle.tree import Reader as Reader
from sealbook.merkle.tree import added as added
from sealbook.merkle.tree import consistency_proof as consistency_proof
from sealbook.merkle.tree import inclusion_proof as inclusion_proof
from sealbook.merkle.tree import root as root
from sealbook.merkle.verify import verify_consistency as verify_consistency
from sealbook.merkle.verify import verify_inclusion as verify_inclusion

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "LEAF_ENTRY_BYTES",
    "SIZE_MAX",
    "Checkpoint",
    "LeafEntry",
    "LeafHash",
    "LeafType",
    "Malformed",
    "Node",
    "Reader",
    "VerificationError",
    "added",
    "check_run_rules",
    "consistency_proof",
    "inclusion_proof",
    "leaf_hash",
    "node_hash",
    "root",
    "verify_consistency",
    "verify_inclusion",
]
