//! Generates the Rust types and services of `crates/wire/proto`.
//!
//! The output is committed: a build needs no protobuf compiler, and a review sees what changed.
//! `inspan-gen` writes; `inspan-gen --check` only compares and fails when the committed files are stale.

use std::path::{Path, PathBuf};

use prost::Message as _;

const PROTOS: &[&str] = &[
    "agentsessions/v1/common.proto",
    "agentsessions/v1/session.proto",
    "agentsessions/v1/harness.proto",
    "agentsessions/v1/harness_registry.proto",
    "inspan/v1/inspan.proto",
];

/// One generated file: where it goes, and its bytes.
struct Output {
    path: PathBuf,
    bytes: Vec<u8>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let check = std::env::args().any(|a| a == "--check");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut stale = Vec::new();
    for output in generate(&root)? {
        let current = std::fs::read(&output.path).unwrap_or_default();
        if current == output.bytes {
            continue;
        }
        if check {
            stale.push(output.path.display().to_string());
        } else {
            std::fs::create_dir_all(output.path.parent().expect("a file has a folder"))?;
            std::fs::write(&output.path, &output.bytes)?;
            println!("wrote {}", output.path.display());
        }
    }
    if !stale.is_empty() {
        return Err(format!("stale, run `cargo run -p inspan-gen`: {}", stale.join(", ")).into());
    }
    Ok(())
}

fn generate(root: &Path) -> Result<Vec<Output>, Box<dyn std::error::Error>> {
    let proto_dir = root.join("crates/wire/proto");
    let fds = protox::compile(PROTOS, [&proto_dir])?;
    let mut outputs =
        vec![Output { path: root.join("crates/wire/src/gen/descriptors.bin"), bytes: fds.encode_to_vec() }];

    let scratch = root.join("target/gen");
    std::fs::create_dir_all(&scratch)?;

    // Messages: the wire crate, which reaches no runtime. `inspan.v1` refers to the other package's types.
    for (package, own) in [("agentsessions.v1", None), ("inspan.v1", Some("crate::v1"))] {
        let folder = scratch.join(package);
        std::fs::create_dir_all(&folder)?;
        let mut messages = prost_build::Config::new();
        messages.out_dir(&folder).btree_map(["."]).bytes(["."]).enable_type_names();
        if let Some(own) = own {
            messages.extern_path(".agentsessions.v1", own);
        }
        messages.compile_fds(fds.clone())?;
        let file = format!("{package}.rs");
        outputs.push(Output {
            path: root.join("crates/wire/src/gen").join(&file),
            bytes: std::fs::read(folder.join(&file))?,
        });
    }

    // Services: beside the transport that serves or calls them. Harness has an end in each of two crates; the conformance
    // kit is a client of hosts that are not ours, and reaches harnesses through attach.
    let crates: [(&str, &[&str], Ends); 4] = [
        ("host", &["Sessions", "HarnessRegistry", "Journal", "Asks"], Ends { client: true, server: true }),
        ("harness", &["Harness"], Ends { client: false, server: true }),
        ("attach", &["Harness"], Ends { client: true, server: false }),
        ("conformance", &["Sessions", "Journal"], Ends { client: true, server: false }),
    ];
    for (name, services, ends) in crates {
        outputs.extend(services_of(root, &fds, name, services, ends)?);
    }
    Ok(outputs)
}

/// Which ends of a service a crate has.
#[derive(Clone, Copy)]
struct Ends {
    client: bool,
    server: bool,
}

/// The code of `services` in the crate `name`, one file for each package that has any of them.
fn services_of(
    root: &Path,
    fds: &prost_types::FileDescriptorSet,
    name: &str,
    services: &[&str],
    ends: Ends,
) -> Result<Vec<Output>, Box<dyn std::error::Error>> {
    let mut fds = fds.clone();
    for file in &mut fds.file {
        file.service.retain(|service| services.contains(&service.name()));
    }
    let packages: std::collections::BTreeSet<String> =
        fds.file.iter().filter(|file| !file.service.is_empty()).map(|file| file.package().to_owned()).collect();
    let folder = root.join("target/gen/services").join(name);
    std::fs::create_dir_all(&folder)?;
    tonic_prost_build::configure()
        .out_dir(&folder)
        .build_transport(false)
        .build_client(ends.client)
        .build_server(ends.server)
        .extern_path(".agentsessions.v1", "::inspan_wire::v1")
        .extern_path(".inspan.v1", "::inspan_wire::inspan_v1")
        .compile_fds(fds)?;
    let mut outputs = Vec::new();
    for package in packages {
        let file = format!("{package}.rs");
        outputs.push(Output {
            path: root.join("crates").join(name).join("src/gen").join(&file),
            bytes: std::fs::read(folder.join(&file))?,
        });
    }
    Ok(outputs)
}
