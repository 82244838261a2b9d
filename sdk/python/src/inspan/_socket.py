"""Who owns a unix socket's path: a lock beside it, so that a server neither takes over nor trips over another's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from typing import Final

OWNER_ONLY: Final = 0o600
NOTE_BYTES_MAX: Final = 128


class SocketLock:
    """Holds `<path>.lock`. What it says is the device and inode of the socket that its holder made last."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: str) -> SocketLock:
        """Takes the lock and removes the socket that an earlier holder left.

        Raises OSError when another process holds it, when the lock is not a plain file of this user, or when there is
        something at the path that no earlier holder left.
        """
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, OWNER_ONLY)
        try:
            check_plain(f"{path}.lock", os.fstat(descriptor))
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise OSError(f"{path} is served by another process") from error
            if identity(os.lstat(f"{path}.lock")) != identity(os.fstat(descriptor)):
                raise OSError(f"{path}.lock was replaced while it was being locked: try again")
            remove_stale(path, os.pread(descriptor, NOTE_BYTES_MAX, 0).decode(errors="replace").strip())
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def bound(self) -> None:
        """Closes the socket that now listens to other users, and notes it to be known as ours after a crash."""
        os.chmod(self._path, OWNER_ONLY)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{identity(os.lstat(self._path))}\n".encode(), 0)

    def release(self) -> None:
        """Removes the socket and lets the lock go. The lock's file stays: to remove it would be a race."""
        noted = os.pread(self._descriptor, NOTE_BYTES_MAX, 0).decode(errors="replace").strip()
        with contextlib.suppress(FileNotFoundError):
            if identity(os.lstat(self._path)) == noted:
                os.unlink(self._path)
        os.close(self._descriptor)


def check_plain(path: str, status: os.stat_result) -> None:
    """Refuses a lock that someone else could have put there."""
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise OSError(f"{path} is not a plain file with one name")
    if status.st_uid != os.geteuid():
        raise OSError(f"{path} belongs to another user")


def remove_stale(path: str, noted: str) -> None:
    """Removes what is at `path` if it is the noted socket and nobody answers there."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode) or identity(status) != noted:
        raise OSError(f"{path} was not left by a server of this lock: remove it by hand")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise OSError(f"{path} is served by another process")


def identity(status: os.stat_result) -> str:
    """What tells one socket from another that takes its name later."""
    return f"{status.st_dev} {status.st_ino}"
