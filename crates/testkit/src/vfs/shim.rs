//! The C side: a `sqlite3_vfs` around the default one.
#![expect(unsafe_code, reason = "a VFS is a table of C functions")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::ffi::{
    SQLITE_FULL, SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE, SQLITE_OK, SQLITE_OPEN_MAIN_DB,
    SQLITE_OPEN_MAIN_JOURNAL, SQLITE_OPEN_WAL, sqlite3_file, sqlite3_filename, sqlite3_int64, sqlite3_io_methods,
    sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};

use super::disk::{Disk, Verdict};

/// What `pAppData` points to.
struct App {
    real: *mut sqlite3_vfs,
    disk: Arc<Disk>,
}

/// An open file: SQLite allocates `szOsFile` bytes, aligned to 8: this first and the real file right behind it.
#[repr(C)]
struct File {
    base: sqlite3_file,
    /// `None` for files that hold nothing durable.
    tracked: Option<Box<Tracked>>,
}

struct Tracked {
    disk: Arc<Disk>,
    path: PathBuf,
}

/// Registers a VFS that counts on `disk`.
pub(super) fn register(name: &str, disk: &Arc<Disk>) {
    let name = CString::new(name).expect("a name of ours holds no NUL");
    // SAFETY: the default VFS is registered for ever and never changes. What is handed to SQLite is leaked, so
    // it lives as long as SQLite may use it.
    unsafe {
        let real = sqlite3_vfs_find(std::ptr::null());
        assert!(!real.is_null(), "there is a default VFS");
        let app = Box::leak(Box::new(App { real, disk: Arc::clone(disk) }));
        let ours_bytes = c_int::try_from(size_of::<File>()).expect("a few words");
        // The other methods of the copy take no notice of which VFS they are called with.
        let vfs = Box::leak(Box::new(sqlite3_vfs {
            szOsFile: (*real).szOsFile + ours_bytes,
            zName: name.into_raw(),
            pAppData: std::ptr::from_mut(app).cast(),
            pNext: std::ptr::null_mut(),
            xOpen: Some(open),
            xDelete: Some(delete),
            ..*real
        }));
        assert_eq!(sqlite3_vfs_register(vfs, 0), SQLITE_OK, "SQLite takes the VFS");
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // 2 is what the log needs; memory-mapped reads (3) would go past us.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// # Safety
/// `vfs` is one that [`register`] made.
unsafe fn app<'a>(vfs: *mut sqlite3_vfs) -> &'a App {
    // SAFETY: `register` put a leaked `App` there.
    unsafe { &*(*vfs).pAppData.cast() }
}

/// # Safety
/// `file` was opened by [`open`].
unsafe fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: SQLite allocated `szOsFile` bytes, and the real file begins behind ours.
    unsafe { file.cast::<File>().add(1).cast() }
}

/// # Safety
/// `file` was opened by [`open`] and is not closed.
unsafe fn tracked<'a>(file: *mut sqlite3_file) -> Option<&'a Tracked> {
    // SAFETY: `open` initialised the whole struct.
    unsafe { (*file.cast::<File>()).tracked.as_deref() }
}

/// Calls a method of the real file.
macro_rules! pass {
    ($file:expr, $method:ident $(, $arg:expr)*) => {{
        let real = real($file);
        let method = (*(*real).pMethods).$method.expect("the default VFS has every method of version 2");
        method(real $(, $arg)*)
    }};
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite hands us `szOsFile` bytes that are ours to initialise, and a path that lives as long as the
    // file or is null.
    unsafe {
        let app = app(vfs);
        let ours = file.cast::<File>();
        ours.write(File { base: sqlite3_file { pMethods: std::ptr::null() }, tracked: None });
        let open = (*app.real).xOpen.expect("a VFS can open");
        let code = open(app.real, name, real(file), flags, out_flags);
        if code != SQLITE_OK {
            return code;
        }
        let durable = flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL) != 0;
        if durable && !name.is_null() {
            let path = path(name).to_owned();
            app.disk.opened(&path, || std::fs::read(&path).unwrap_or_default());
            (*ours).tracked = Some(Box::new(Tracked { disk: Arc::clone(&app.disk), path }));
        }
        (*ours).base.pMethods = &METHODS;
        SQLITE_OK
    }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: SQLite hands us a path.
    unsafe {
        let app = app(vfs);
        app.disk.deleted(path(name));
        let delete = (*app.real).xDelete.expect("a VFS can delete");
        delete(app.real, name, sync_dir)
    }
}

/// # Safety
/// `name` is a C string.
unsafe fn path<'a>(name: *const c_char) -> &'a Path {
    // SAFETY: as promised.
    Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()))
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: the file is open and SQLite does not use it again.
    unsafe {
        let code = pass!(file, xClose);
        file.cast::<File>().drop_in_place();
        code
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, bytes: *mut c_void, amount: c_int, offset: sqlite3_int64) -> c_int {
    // SAFETY: the file is open, and the arguments are SQLite's own.
    unsafe {
        if let Some(tracked) = tracked(file) {
            tracked.disk.read();
        }
        pass!(file, xRead, bytes, amount, offset)
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    amount: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open, and `bytes` points to `amount` bytes.
    unsafe {
        let Some(tracked) = tracked(file) else { return pass!(file, xWrite, bytes, amount, offset) };
        let slice = std::slice::from_raw_parts(bytes.cast::<u8>(), size(amount.into()));
        match tracked.disk.write(&tracked.path, size(offset), slice) {
            Verdict::Pass => pass!(file, xWrite, bytes, amount, offset),
            Verdict::Fail => SQLITE_IOERR_WRITE,
            Verdict::Full(0) => SQLITE_FULL,
            Verdict::Full(part) => {
                let part = c_int::try_from(part).expect("less than the whole");
                let code = pass!(file, xWrite, bytes, part, offset);
                if code == SQLITE_OK { SQLITE_FULL } else { code }
            }
        }
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, len: sqlite3_int64) -> c_int {
    // SAFETY: the file is open.
    unsafe {
        let verdict = tracked(file).map_or(Verdict::Pass, |t| t.disk.truncate(&t.path, size(len)));
        if matches!(verdict, Verdict::Pass) { pass!(file, xTruncate, len) } else { SQLITE_IOERR_TRUNCATE }
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: the file is open.
    unsafe {
        let verdict = tracked(file).map_or(Verdict::Pass, |t| t.disk.sync(&t.path));
        if matches!(verdict, Verdict::Pass) { pass!(file, xSync, flags) } else { SQLITE_IOERR_FSYNC }
    }
}

fn size(n: sqlite3_int64) -> usize {
    usize::try_from(n).expect("SQLite passes no negative sizes")
}

/// Methods that are only passed on.
macro_rules! forward {
    ($($name:ident => $method:ident($($arg:ident: $type:ty),*) $(-> $out:ty)?;)+) => {
        $(unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $arg: $type)*) $(-> $out)? {
            // SAFETY: the file is open, and the arguments are SQLite's own.
            unsafe { pass!(file, $method $(, $arg)*) }
        })+
    };
}

forward! {
    file_size => xFileSize(size: *mut sqlite3_int64) -> c_int;
    lock => xLock(level: c_int) -> c_int;
    unlock => xUnlock(level: c_int) -> c_int;
    check_reserved_lock => xCheckReservedLock(out: *mut c_int) -> c_int;
    file_control => xFileControl(op: c_int, arg: *mut c_void) -> c_int;
    sector_size => xSectorSize() -> c_int;
    device_characteristics => xDeviceCharacteristics() -> c_int;
    shm_map => xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int;
    shm_lock => xShmLock(offset: c_int, n: c_int, flags: c_int) -> c_int;
    shm_barrier => xShmBarrier();
    shm_unmap => xShmUnmap(delete: c_int) -> c_int;
}
