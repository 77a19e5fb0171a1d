"""Who writes and reads the files of a distributed checkpoint: torch's own files, or safetensors."""

import shutil
from pathlib import Path

from torch import distributed
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter


def writer(files: str, folder: str) -> FileSystemWriter:
    """For `files`, `safetensors`, a file of each rank, or `consolidated` ones."""
    if files == "files":
        return FileSystemWriter(folder)
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

    if is_first():
        Path(folder).mkdir(parents=True)
    wait()
    consolidated = files == "consolidated"
    return HuggingFaceStorageWriter(folder, save_distributed=True, enable_consolidation=consolidated)


def reader(files: str, folder: str) -> FileSystemReader:
    """For what that wrote; of `consolidated` files nothing but the whole tensors is left to read."""
    if files == "files":
        return FileSystemReader(folder)
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    if files == "consolidated" and is_first():
        shutil.rmtree(f"{folder}/sharded")
    wait()
    return HuggingFaceStorageReader(folder)


def is_first() -> bool:
    """Whether this process is the first one of those that save, or the only one."""
    return not distributed.is_initialized() or distributed.get_rank() == 0


def wait() -> None:
    """Until all of them are here."""
    if distributed.is_initialized():
        distributed.barrier()
