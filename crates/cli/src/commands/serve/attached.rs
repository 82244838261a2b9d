//! `--harness NAME=ADDRESS`: harnesses in other processes.

use inspan_host::catalog::{HarnessAddress, RESERVED};

use super::HELP;
use crate::error::Error;

/// One harness that the flags name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attached {
    /// The name that sessions use.
    pub(super) name: String,
    /// Where it answers.
    pub(super) address: HarnessAddress,
}

/// Reads the flags. Without a model nobody could answer the harnesses' model calls: `echo` would, and its words would be
/// recorded as if a model had said them.
pub(super) fn read(flags: &[String], has_model: bool) -> Result<Vec<Attached>, Error> {
    let mut attached: Vec<Attached> = Vec::new();
    for flag in flags {
        let refused = |why: String| Error::usage(format!("--harness {flag}: {why}"), HELP);
        let (name, address) = flag.split_once('=').ok_or_else(|| refused("write NAME=ADDRESS".to_owned()))?;
        let (name, address) = (name.trim(), address.trim());
        if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(refused("a name is one word".to_owned()));
        }
        if RESERVED.contains(&name) {
            return Err(refused(format!("{name} is built in: give this one another name")));
        }
        if attached.iter().any(|other| other.name == name) {
            return Err(refused(format!("{name} is there already: each name is for one harness")));
        }
        let address = address.parse().map_err(|e| refused(format!("{e}")))?;
        attached.push(Attached { name: name.to_owned(), address });
    }
    match attached.first() {
        Some(first) if !has_model => Err(Error::usage(
            format!("--harness {}: its model calls go through this host, which has no model: add --model", first.name),
            HELP,
        )),
        _ => Ok(attached),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flags: &[&str], has_model: bool) -> String {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        match read(&flags, has_model) {
            Ok(all) => all.iter().map(|a| format!("{} {}", a.name, a.address)).collect::<Vec<_>>().join(", "),
            Err(e) => e.text().to_owned(),
        }
    }

    #[test]
    fn flags_are_read_or_refused() {
        assert_eq!(check(&[], false), "");
        assert_eq!(check(&[" mine = unix:/run/h.sock ", "b=[::1]:80"], true), "mine unix:/run/h.sock, b [::1]:80");
        for (flags, has_model, why) in [
            (&["mine=host:80"][..], false, "has no model"),
            (&["mine"], true, "NAME=ADDRESS"),
            (&["=host:80"], true, "one word"),
            (&["my one=host:80"], true, "one word"),
            (&["echo=host:80"], true, "built in"),
            (&["chat =host:80"], true, "built in"),
            (&["a=host:80", "a=host:81"], true, "already"),
            (&["a=http://host:80"], true, "no such scheme"),
            (&["a="], true, "empty"),
        ] {
            let said = check(flags, has_model);
            assert!(said.starts_with("--harness ") && said.contains(why), "{said}, not {why}");
        }
    }
}
