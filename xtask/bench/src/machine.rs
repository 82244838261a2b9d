//! The machine that the figures are from.

use std::path::Path;
use std::process::Command;

use crate::frame::Failure;

/// CPU, cores, memory, the file system of the measured folder, kernel and compiler, on one line.
pub(crate) fn line(folder: &Path) -> Result<String, Failure> {
    let cores = std::thread::available_parallelism()?;
    let memory = read_field("/proc/meminfo", "MemTotal").unwrap_or_else(|| "? kB".to_owned());
    let gib = memory.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() >> 20;
    let cpu = read_field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let fs = told("df", &["--output=fstype", &folder.to_string_lossy()]);
    let (kernel, rustc) = (told("uname", &["-sr"]), told("rustc", &["--version"]));
    Ok(format!("machine: {cpu}, {cores} cores, {gib} GiB, {fs}, {kernel}, {rustc}"))
}

/// The value of `name: value` in a file of the kernel's.
fn read_field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':').map(|(_, value)| value.trim().to_owned()))
}

/// The last line that a command prints; "?" when it does not run here.
fn told(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().last().map_or_else(|| "?".to_owned(), |line| line.trim().to_owned())
}
