//! `inspan version`.

use serde_json::json;

use crate::error::Error;
use crate::output::{Dress, Out};

/// Print the version
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// The version of this build.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that it was built from, when the builder said so.
const COMMIT: Option<&str> = option_env!("INSPAN_COMMIT");
/// When it was built, when the builder said so.
const BUILT: Option<&str> = option_env!("INSPAN_BUILT");

pub(crate) fn run(args: Args) -> Result<(), Error> {
    let mut out = Out::stdout(args.json);
    match out.dress() {
        Dress::Json => {
            let mut value = json!({ "version": VERSION });
            for (key, given) in [("commit", COMMIT), ("built", BUILT)] {
                if let Some(given) = given {
                    value[key] = given.into();
                }
            }
            out.line(value)
        }
        Dress::Plain | Dress::Terminal { .. } => out.line(line(COMMIT, BUILT)),
    }
}

fn line(commit: Option<&str>, built: Option<&str>) -> String {
    let commit = commit.map(|c| format!(" ({})", c.get(..12).unwrap_or(c))).unwrap_or_default();
    let built = built.map(|b| format!(" built {b}")).unwrap_or_default();
    format!("inspan {VERSION}{commit}{built}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_cut_to_twelve() {
        assert_eq!(line(None, None), format!("inspan {VERSION}"));
        let long = line(Some("0123456789abcdef"), Some("2030-01-31"));
        assert_eq!(long, format!("inspan {VERSION} (0123456789ab) built 2030-01-31"));
    }
}
