//! Programs that the steps call and that Rust does not bring: asked for by name, installed through the
//! system's own package manager when they are missing, with a line that says what and why.

use std::process::Command;

use crate::shell::{self, Failure};
use crate::step::Counts;

/// A program, why it is needed, and the packages that bring it.
pub(crate) struct Need {
    program: &'static str,
    why: &'static str,
    /// Where the package is not named like the program: (package manager, package).
    packages: &'static [(&'static str, &'static str)],
}

const NEEDS: &[Need] = &[
    Need {
        program: "cc",
        why: "SQLite is compiled in, and Rust links with it",
        packages: &[("apt-get", "gcc"), ("dnf", "gcc"), ("zypper", "gcc"), ("pacman", "gcc"), ("apk", "build-base")],
    },
    Need { program: "git", why: "the house rules look at the files that the project tracks", packages: &[] },
    Need { program: "curl", why: "a stranger drives every HTTP route with it", packages: &[] },
    Need {
        program: "python3",
        why: "the strangers and the independent verifier are Python",
        packages: &[("pacman", "python")],
    },
];

/// Python's own environments are a package of their own on Debian and its children.
pub(crate) const VENV: Need = Need {
    program: "python3-venv",
    why: "the strangers' packages go into .venv, not into the system",
    packages: &[
        ("dnf", "python3"),
        ("zypper", "python3"),
        ("pacman", "python"),
        ("apk", "python3"),
        ("brew", "python3"),
    ],
};

/// Node.js and its package manager, for the MCP servers that are written for it.
pub(crate) const NODE: [Need; 2] = [
    Need {
        program: "node",
        why: "MCP servers by others run on it, and the tool executors are tested with them",
        packages: &[
            ("apt-get", "nodejs"),
            ("dnf", "nodejs"),
            ("zypper", "nodejs"),
            ("pacman", "nodejs"),
            ("apk", "nodejs"),
        ],
    },
    Need {
        program: "npm",
        why: "it installs those servers as they are pinned",
        packages: &[("dnf", "nodejs-npm"), ("zypper", "npm-default"), ("brew", "node")],
    },
];

/// How each package manager installs without asking; the first that exists is used.
const MANAGERS: &[(&str, &[&str])] = &[
    ("apt-get", &["install", "--yes", "--no-install-recommends"]),
    ("dnf", &["install", "--assumeyes"]),
    ("zypper", &["--non-interactive", "install"]),
    ("pacman", &["--sync", "--noconfirm"]),
    ("apk", &["add"]),
    ("brew", &["install"]),
];

/// Sees to it that every program is there.
///
/// # Errors
/// When one is missing and could not be installed.
pub(crate) fn all(_: &mut Counts) -> Result<(), Failure> {
    NEEDS.iter().try_for_each(met)
}

/// Sees to it that one program is there.
///
/// # Errors
/// When it is missing and could not be installed.
pub(crate) fn met(need: &Need) -> Result<(), Failure> {
    if shell::exists(need.program, "--version") {
        println!("{} is here", need.program);
        return Ok(());
    }
    install(need)
}

/// Installs what brings `need`.
///
/// # Errors
/// When there is no package manager that we know, or it fails.
pub(crate) fn install(need: &Need) -> Result<(), Failure> {
    let (program, why) = (need.program, need.why);
    let Some((manager, words)) = MANAGERS.iter().find(|(manager, _)| shell::exists(manager, "--version")) else {
        return Err(Failure(format!("{program} is missing ({why}): install it and run this again")));
    };
    let package = need.packages.iter().find(|(of, _)| of == manager).map_or(program, |(_, package)| package);
    println!("installing {package} with {manager}: {why}");
    if *manager == "apt-get" {
        shell::run(as_root(manager).arg("update").arg("-qq"))?;
    }
    shell::run(as_root(manager).args(*words).arg(package))
}

/// The package manager, through sudo where we are not root and it is there. Homebrew refuses root.
fn as_root(manager: &str) -> Command {
    if manager == "brew" || is_root() || !shell::exists("sudo", "--version") {
        return shell::command(manager);
    }
    let mut sudo = shell::command("sudo");
    sudo.arg(manager);
    sudo
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
