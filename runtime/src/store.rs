//! Cubins on disk, so that a program waits for the driver's assembler only in its first process.
//!
//! An entry is one file, named by the hash of everything that determines its bytes. It is written to a temporary file
//! and renamed, so that other processes see all of it or nothing. An entry that is damaged nevertheless does not match
//! its own header and is recreated. Nothing here is an error for the user: without a store, programs only start more
//! slowly.
//!
//! This does not use the crate `cacache`. That stores index and content in two files for each entry, and neither bounds
//! their number nor checks who owns the folder: the bytes become executable code.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use etcetera::{BaseStrategy, choose_base_strategy};

/// The environment variable that names the folder of the store, or is `off`.
const VARIABLE: &str = "PTX_GEMM_CACHE";
/// The start of every file; the digit is the format's version.
const MAGIC: &[u8; 8] = b"PTXGEMM1";
/// Magic, key, length, and hash of the cubin.
const HEADER: usize = 8 + 32 + 8 + 32;
/// The number of entries kept, about 50 KB each; older ones are removed.
const KEPT: usize = 1024;
/// No cubin of this compiler is nearly this large: a file with a larger length is damaged.
const LARGEST: u64 = 64 << 20;

/// The inputs that determine a cubin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) ptx: &'a str,
    /// The GPU's name and compute capability.
    pub(crate) device: &'a str,
    /// The driver that assembled it.
    pub(crate) driver: &'a str,
}

/// A folder of cubins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Store {
    folder: PathBuf,
}

/// Name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(blake3::Hash);

impl Key {
    pub(crate) fn of(origin: Origin<'_>) -> Key {
        let mut hasher = blake3::Hasher::new();
        for part in [origin.driver, origin.device, origin.ptx] {
            // Lengths are included, so that no part can be mistaken for the end of another.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Key(hasher.finalize())
    }
}

impl Store {
    /// The folder where this process keeps its cubins; `None` if the environment says `off`, or does not name the
    /// user's folder.
    pub(crate) fn of_user() -> Option<Store> {
        let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        Store::choose(named, choose_base_strategy().ok().map(|user| user.cache_dir()))
    }

    fn choose(named: Option<PathBuf>, caches: Option<PathBuf>) -> Option<Store> {
        let folder = match named {
            Some(word) if word.as_os_str() == "off" => return None,
            Some(folder) => folder,
            None => caches?.join("ptx-gemm"),
        };
        Some(Store { folder })
    }

    /// The cubin of an earlier run, if there is one and it is intact.
    pub(crate) fn load(&self, key: Key) -> Option<Vec<u8>> {
        is_private(&self.folder).ok().filter(|&private| private)?;
        let path = self.path(key);
        // The header is read first: a damaged file may have any size.
        if fs::metadata(&path).ok()?.len() > LARGEST {
            return None;
        }
        let mut bytes = fs::read(path).ok()?;
        let whole = bytes.len() > HEADER && bytes[..HEADER] == header(key, &bytes[HEADER..]);
        whole.then(|| bytes.split_off(HEADER))
    }

    /// Keeps a cubin for later runs.
    pub(crate) fn save(&self, key: Key, cubin: &[u8]) -> io::Result<()> {
        create_private(&self.folder)?;
        if !is_private(&self.folder)? {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder is open to others"));
        }
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.folder)?;
        file.write_all(&header(key, cubin))?;
        file.write_all(cubin)?;
        // Before the rename, so that after a power cut the name does not refer to an empty file, although the header
        // would detect that.
        file.as_file().sync_data()?;
        file.persist(self.path(key)).map_err(|error| error.error)?;
        self.shrink(KEPT)
    }

    fn path(&self, key: Key) -> PathBuf {
        self.folder.join(format!("{}.cubin", key.0.to_hex()))
    }

    /// Removes the oldest entries beyond `kept`. Another process may do the same at the same time.
    fn shrink(&self, kept: usize) -> io::Result<()> {
        let mut entries: Vec<(SystemTime, PathBuf)> = fs::read_dir(&self.folder)?
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "cubin"))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        entries.sort();
        let surplus = entries.len().saturating_sub(kept);
        entries.iter().take(surplus).for_each(|(_, path)| drop(fs::remove_file(path)));
        Ok(())
    }
}

fn header(key: Key, cubin: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..40].copy_from_slice(key.0.as_bytes());
    header[40..48].copy_from_slice(&(cubin.len() as u64).to_le_bytes());
    header[48..].copy_from_slice(blake3::hash(cubin).as_bytes());
    header
}

/// Whether nobody else can put code there that this user would run.
#[cfg(unix)]
fn is_private(folder: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(folder)?;
    Ok(metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0)
}

/// On this system, a user's folders belong only to the user.
#[cfg(not(unix))]
fn is_private(folder: &Path) -> io::Result<bool> {
    Ok(fs::metadata(folder)?.is_dir())
}

#[cfg(unix)]
fn create_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn create_private(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::{HEADER, Key, Origin, Store};

    const ORIGIN: Origin<'static> = Origin { ptx: ".version 7.0", device: "a GPU", driver: "13.0" };

    fn store() -> (tempfile::TempDir, Store) {
        let home = tempfile::tempdir().unwrap();
        let store = Store::choose(None, Some(home.path().join(".cache"))).unwrap();
        (home, store)
    }

    #[test]
    fn what_is_kept_comes_back() {
        let (_home, store) = store();
        let key = Key::of(ORIGIN);
        assert_eq!(store.load(key), None);
        store.save(key, b"code").unwrap();
        assert_eq!(store.load(key).as_deref(), Some(&b"code"[..]));
        assert_eq!(fs::read_dir(&store.folder).unwrap().count(), 1, "nothing but the entry is left");
        for other in [
            Origin { ptx: ".version 7.1", ..ORIGIN },
            Origin { device: "another GPU", ..ORIGIN },
            Origin { driver: "13.1", ..ORIGIN },
            Origin { driver: "13.0a", device: " GPU", ..ORIGIN },
        ] {
            assert_eq!(store.load(Key::of(other)), None, "{other:?}");
        }
    }

    #[test]
    fn a_damaged_entry_is_made_again() {
        let (_home, store) = store();
        let key = Key::of(ORIGIN);
        store.save(key, b"some code").unwrap();
        let whole = fs::read(store.path(key)).unwrap();
        let flipped = (0..whole.len()).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        });
        let cut = (0..whole.len()).map(|len| whole[..len].to_vec());
        let longer = [whole.iter().copied().chain([0]).collect(), vec![0; HEADER + 5]];
        for bytes in flipped.chain(cut).chain(longer) {
            fs::write(store.path(key), &bytes).unwrap();
            assert_eq!(store.load(key), None, "{bytes:?}");
        }
        store.save(key, b"some code").unwrap();
        assert_eq!(store.load(key).as_deref(), Some(&b"some code"[..]));
        // Another entry's file under this name.
        let other = Key::of(Origin { device: "another GPU", ..ORIGIN });
        fs::rename(store.path(key), store.path(other)).unwrap();
        assert_eq!(store.load(other), None);
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_is_the_users_own() {
        use std::os::unix::fs::PermissionsExt;
        let (_home, store) = store();
        let key = Key::of(ORIGIN);
        store.save(key, b"code").unwrap();
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.folder), mode(&store.path(key))), (0o700, 0o600));
        // If others may write to the folder, nothing is stored and nothing is trusted.
        fs::set_permissions(&store.folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(store.load(key), None);
        assert!(store.save(key, b"code").is_err());
    }

    #[test]
    fn writers_and_readers_do_not_disturb_each_other() {
        let (_home, store) = store();
        let key = Key::of(ORIGIN);
        let cubin = vec![7; 100_000];
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        store.save(key, &cubin).unwrap();
                        assert!(store.load(key).is_some_and(|found| found == cubin));
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(&store.folder).unwrap().count(), 1);
    }

    #[test]
    fn the_oldest_entries_leave() {
        let (_home, store) = store();
        let keys = ["1", "2", "3"].map(|driver| Key::of(Origin { driver, ..ORIGIN }));
        for (age, key) in keys.into_iter().enumerate() {
            store.save(key, b"code").unwrap();
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age as u64);
            fs::File::options().write(true).open(store.path(key)).unwrap().set_modified(time).unwrap();
        }
        store.shrink(2).unwrap();
        assert_eq!(keys.map(|key| store.load(key).is_some()), [false, true, true]);
    }

    #[test]
    fn the_environment_says_where() {
        let at = |named: Option<&str>, caches: Option<&str>| {
            Store::choose(named.map(PathBuf::from), caches.map(PathBuf::from)).map(|store| store.folder)
        };
        assert_eq!(at(Some("off"), Some("/c")), None);
        assert_eq!(at(Some("/x"), Some("/c")), Some("/x".into()));
        assert_eq!(at(None, Some("/c")), Some("/c/ptx-gemm".into()));
        assert_eq!(at(None, None), None);
    }

    #[test]
    fn a_store_that_cannot_be_is_no_store() {
        let home = tempfile::NamedTempFile::new().unwrap();
        let store = Store::choose(None, Some(home.path().into())).unwrap();
        assert!(store.save(Key::of(ORIGIN), b"code").is_err());
        assert_eq!(store.load(Key::of(ORIGIN)), None);
    }
}
