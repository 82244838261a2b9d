//! The key: read by the caller, shown to nobody.

use std::fmt;
use std::path::{Path, PathBuf};

/// A provider's key. Its `Debug` form says nothing, and it has no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// A key without the white space around it; `None` when nothing is left.
    pub fn new(text: &str) -> Option<Key> {
        let text = text.trim();
        (!text.is_empty()).then(|| Key(text.to_owned()))
    }

    /// The first of `names` that `lookup` knows and that is not blank. The caller gives the lookup,
    /// so that this crate does not read the environment.
    pub fn from_env(names: &[&str], lookup: impl Fn(&str) -> Option<String>) -> Option<Key> {
        names.iter().find_map(|name| Key::new(&lookup(name)?))
    }

    /// The content of a file.
    ///
    /// # Errors
    /// The file cannot be read, or it is blank.
    pub fn from_file(path: &Path) -> Result<Key, KeyError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| KeyError::Read { path: path.to_owned(), reason: e.to_string() })?;
        Key::new(&text).ok_or_else(|| KeyError::Blank { path: path.to_owned() })
    }

    /// The key itself, for the header.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

/// Why a file gave no key. Never holds what was in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("cannot read the key file {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// There is nothing in it.
    #[error("the key file {} is blank", path.display())]
    Blank {
        /// The file.
        path: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::{Key, KeyError};

    #[test]
    fn a_key_is_trimmed_and_hidden() {
        let key = Key::new(" sk-secret\n").expect("not blank");
        assert_eq!(key.reveal(), "sk-secret");
        assert_eq!(format!("{key:?} {:#?}", Some(&key)), "Key(hidden) Some(\n    Key(hidden),\n)");
        assert_eq!(Key::new(" \n"), None);
    }

    #[test]
    fn the_first_name_that_says_something_wins() {
        let lookup = |name: &str| match name {
            "BLANK" => Some("  ".to_owned()),
            "B" | "C" => Some(format!("key-{name}")),
            _ => None,
        };
        assert_eq!(Key::from_env(&["A", "BLANK", "B", "C"], lookup), Key::new("key-B"));
        assert_eq!(Key::from_env(&["A", "BLANK"], lookup), None);
    }

    #[test]
    fn a_file_gives_a_key_or_says_why_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("key");
        assert!(matches!(Key::from_file(&path), Err(KeyError::Read { .. })));
        std::fs::write(&path, "\n").expect("writable");
        assert!(matches!(Key::from_file(&path), Err(KeyError::Blank { .. })));
        std::fs::write(&path, "sk-file\r\n").expect("writable");
        assert_eq!(Key::from_file(&path).map(|k| k.reveal().to_owned()), Ok("sk-file".to_owned()));
    }
}
