"""The engine port and the engines that keep it: `lmdb` on disk, `memory` without a file system."""
