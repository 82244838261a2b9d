//! The care that a Unix socket needs.
//!
//! A socket outlives a process that was killed, and whoever removes it without asking may remove a living one. So the
//! file `PATH.lock` is locked while somebody serves at PATH, and holds the device and inode of the socket that was
//! made under it. A socket is removed only by the holder of the lock, only when it is that very file, and only when
//! nobody answers at it. The lock file itself stays: removing it would let two processes hold two locks of one name.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a server's socket is a file: this is the rim of a crate that otherwise touches none"
)]

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// The socket's file while it is served. Dropping it removes the file, then lets go of the lock.
pub(super) struct SocketFile {
    path: PathBuf,
    made: Identity,
    _lock: File,
}

/// Why a socket could not be taken.
pub(super) enum Error {
    InUse,
    NotOurs { path: PathBuf, what: &'static str },
    Io(io::Error),
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        Error::Io(e)
    }
}

/// What tells one file from another of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(file: &std::fs::Metadata) -> Identity {
        Identity { device: file.dev(), inode: file.ino() }
    }
}

/// Takes the socket at `path`; only this user can connect to it.
pub(super) async fn bind(path: &Path) -> Result<(UnixListener, SocketFile), Error> {
    let mut lock = take_lock(&lock_path(path))?;
    clear(path, recorded(&mut lock)?).await?;
    let listener = UnixListener::bind(path)?;
    let made = Identity::of(&std::fs::symlink_metadata(path)?);
    record(&mut lock, made)?;
    let file = SocketFile { path: path.to_owned(), made, _lock: lock };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok((listener, file))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have put another file there, or removed ours: both are left as they are.
        if std::fs::symlink_metadata(&self.path).is_ok_and(|file| Identity::of(&file) == self.made) {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Opens and locks the lock file. A link would let another user aim the writes of this one.
fn take_lock(path: &Path) -> Result<File, Error> {
    let not_ours = |what| Error::NotOurs { path: path.to_owned(), what };
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).expect("a flag of open fits its argument");
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_follow)
        .open(path);
    let file = match opened {
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(not_ours("is a symbolic link"));
        }
        opened => opened?,
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(not_ours("is no plain file"));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(not_ours("belongs to another user"));
    }
    if meta.nlink() != 1 {
        return Err(not_ours("has more than one name"));
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::InUse),
        Err(TryLockError::Error(e)) => return Err(e.into()),
    }
    // Whoever removed the name in the meantime has made this lock worthless.
    let named = std::fs::symlink_metadata(path)?;
    if Identity::of(&named) != Identity::of(&meta) {
        return Err(not_ours("was replaced while it was being locked"));
    }
    Ok(file)
}

/// The socket that was made under this lock last; `None` when none was, or when the file says anything else.
fn recorded(lock: &mut File) -> io::Result<Option<Identity>> {
    let mut text = String::new();
    lock.take(128).read_to_string(&mut text).or_else(|e| match e.kind() {
        io::ErrorKind::InvalidData => Ok(0),
        _ => Err(e),
    })?;
    let numbers = text.trim_end().split_once(' ');
    Ok(numbers.and_then(|(device, inode)| Some(Identity { device: device.parse().ok()?, inode: inode.parse().ok()? })))
}

fn record(lock: &mut File, socket: Identity) -> io::Result<()> {
    lock.rewind()?;
    lock.set_len(0)?;
    lock.write_all(format!("{} {}\n", socket.device, socket.inode).as_bytes())
}

/// Removes a socket that its maker left behind.
async fn clear(path: &Path, made: Option<Identity>) -> Result<(), Error> {
    let not_ours = |what| Error::NotOurs { path: path.to_owned(), what };
    let there = match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        there => there?,
    };
    if !there.file_type().is_socket() {
        return Err(not_ours("is there already and is no socket"));
    }
    if made != Some(Identity::of(&there)) {
        return Err(not_ours("is a socket that was not made under its lock"));
    }
    match UnixStream::connect(path).await {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(std::fs::remove_file(path)?),
        Ok(_) => Err(Error::InUse),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refusal(path: &Path) -> String {
        match bind(path).await {
            Ok(_) => "taken".to_owned(),
            Err(Error::InUse) => "in use".to_owned(),
            Err(Error::NotOurs { what, .. }) => what.to_owned(),
            Err(Error::Io(e)) => e.to_string(),
        }
    }

    /// A socket file with nobody behind it, known to its lock: what a killed process leaves.
    fn left_behind(path: &Path) -> Identity {
        drop(std::os::unix::net::UnixListener::bind(path).expect("a socket"));
        Identity::of(&std::fs::symlink_metadata(path).expect("the socket"))
    }

    fn say(path: &Path, text: &str) {
        std::fs::write(lock_path(path), text).expect("a lock file");
    }

    #[tokio::test]
    async fn a_stale_socket_goes_only_when_its_lock_knows_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("h.sock");
        let stale = left_behind(&path);
        assert_eq!(refusal(&path).await, "is a socket that was not made under its lock");
        for text in [format!("{} {}", stale.device, stale.inode + 1), "x".to_owned(), "\u{fffd}".to_owned()] {
            say(&path, &text);
            assert_eq!(refusal(&path).await, "is a socket that was not made under its lock", "{text}");
        }
        say(&path, &format!("{} {}\n", stale.device, stale.inode));
        assert_eq!(refusal(&path).await, "taken");
    }

    #[tokio::test]
    async fn a_living_socket_stays() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("h.sock");
        let (_listener, file) = bind(&path).await.ok().expect("the socket is taken");
        assert_eq!(refusal(&path).await, "in use", "the lock is held");
        assert_eq!(std::fs::metadata(&path).expect("the socket").permissions().mode() & 0o777, 0o600);
        drop(file);
        assert!(!path.exists() && lock_path(&path).exists());

        // Known to the lock, unlocked, and answering all the same.
        let living = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let made = Identity::of(&std::fs::symlink_metadata(&path).expect("the socket"));
        say(&path, &format!("{} {}\n", made.device, made.inode));
        assert_eq!(refusal(&path).await, "in use");
        drop(living);
        assert_eq!(refusal(&path).await, "taken");
    }

    #[tokio::test]
    async fn a_lock_that_others_could_aim_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("h.sock");
        let target = dir.path().join("target");
        std::fs::write(&target, "precious").expect("a file");
        std::os::unix::fs::symlink(&target, lock_path(&path)).expect("a link");
        assert_eq!(refusal(&path).await, "is a symbolic link");
        std::fs::remove_file(lock_path(&path)).expect("the link goes");
        std::fs::hard_link(&target, lock_path(&path)).expect("a second name");
        assert_eq!(refusal(&path).await, "has more than one name");
        assert_eq!(std::fs::read_to_string(&target).expect("the file"), "precious");
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("h.sock");
        std::fs::write(&path, "precious").expect("a file");
        assert_eq!(refusal(&path).await, "is there already and is no socket");
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "precious");
    }
}
