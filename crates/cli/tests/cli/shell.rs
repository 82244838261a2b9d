//! Transcripts: what is typed and what comes back, as text.
//!
//! A line `$ inspan …` is run in a fresh folder; the lines after it are what it must print. Stderr lines come
//! after stdout with `! ` before them, and an exit code other than 0 as `? 1`. Everything that changes from run to
//! run has a name: `sess-A` is the first uid that was seen, `exec-A` the first execution id, `hash-A` the first hash,
//! `TIME` any time, `DIR` the folder, `ADDR` the host's address, `REGISTRY` that of its registry. The names work in commands too.
//!
//! `<<< "text"` after a command is its stdin.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The binary under test.
pub(crate) const INSPAN: &str = env!("CARGO_BIN_EXE_inspan");

/// A folder, perhaps a host, and the names given so far.
pub(crate) struct Shell {
    dir: tempfile::TempDir,
    host: Option<Host>,
    names: Names,
}

impl Shell {
    /// A fresh folder; commands run with a host of their own.
    pub(crate) fn new() -> Shell {
        Shell { dir: tempfile::tempdir().expect("a temporary folder"), host: None, names: Names::default() }
    }

    /// The folder.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a host in the folder; `ADDR` is its address.
    pub(crate) fn serve(&mut self, flags: &[&str]) {
        self.serve_at("127.0.0.1:0", flags);
    }

    /// Starts a host in the folder that listens at `address`.
    pub(crate) fn serve_at(&mut self, address: &str, flags: &[&str]) {
        assert!(self.host.is_none(), "one host at a time");
        self.host = Some(Host::start(self.dir.path(), address, flags, &[]));
    }

    /// Starts a host in the folder with variables in its environment.
    pub(crate) fn serve_with(&mut self, flags: &[&str], env: &[(&str, &str)]) {
        assert!(self.host.is_none(), "one host at a time");
        self.host = Some(Host::start(self.dir.path(), "127.0.0.1:0", flags, env));
    }

    /// Where the host listens.
    pub(crate) fn address(&self) -> &str {
        &self.host.as_ref().expect("a host runs").address
    }

    /// Where the host's registry listens.
    pub(crate) fn registry(&self) -> &str {
        self.host.as_ref().and_then(|host| host.registry.as_deref()).expect("a host with a registry runs")
    }

    /// Kills the host at once, as a power cut would.
    pub(crate) fn kill_host(&mut self) {
        let mut host = self.host.take().expect("a host runs");
        host.child.kill().expect("the host can be killed");
        host.child.wait().expect("the host has ended");
    }

    /// Asks the host to stop and gives its exit code and its log.
    pub(crate) fn stop_host(&mut self) -> (Option<i32>, String) {
        self.host.take().expect("a host runs").stop()
    }

    /// Runs one command line and gives what came out, unnamed.
    pub(crate) fn run(&mut self, line: &str) -> Output {
        let (line, stdin) = match line.split_once(" <<< ") {
            Some((line, text)) => (line, text.trim_matches('"').replace("\\n", "\n")),
            None => (line, String::new()),
        };
        let args = self.words(line);
        assert_eq!(args.first().map(String::as_str), Some("inspan"), "{line}");
        let mut child = Command::new(INSPAN)
            .args(&args[1..])
            .current_dir(self.dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // A command that reads no stdin may have ended already.
        let _ = child.stdin.take().expect("piped").write_all(stdin.as_bytes());
        child.wait_with_output().expect("the binary ends")
    }

    /// Runs one command line that must succeed and gives its stdout, unnamed.
    pub(crate) fn stdout(&mut self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a transcript and compares.
    #[track_caller]
    pub(crate) fn check(&mut self, transcript: &str) {
        let want = transcript.trim_start_matches('\n').trim_end_matches(' ');
        let mut got = String::new();
        for line in want.lines().filter(|l| l.starts_with("$ ")) {
            got.push_str(line);
            got.push('\n');
            let output = self.run(&line[2..]);
            got.push_str(&self.named(&output.stdout));
            for line in self.named(&output.stderr).lines() {
                got.push_str(&format!("! {line}\n"));
            }
            match output.status.code() {
                Some(0) => {}
                Some(code) => got.push_str(&format!("? {code}\n")),
                None => got.push_str("? signal\n"),
            }
        }
        assert!(got == want, "--- want\n{want}\n--- got\n{got}");
    }

    /// What came out, with names for what changes from run to run.
    pub(crate) fn named(&mut self, bytes: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(bytes).replace(&self.dir.path().display().to_string(), "DIR");
        if let Some(host) = &self.host {
            text = text.replace(&host.address, "ADDR");
            if let Some(registry) = &host.registry {
                text = text.replace(registry, "REGISTRY");
            }
        }
        self.names.name(&text)
    }

    fn words(&self, line: &str) -> Vec<String> {
        let line = self.names.unname(line).replace("DIR", &self.dir.path().display().to_string());
        let line = match &self.host {
            Some(host) => {
                let registry = host.registry.as_deref().unwrap_or("REGISTRY");
                line.replace("ADDR", &host.address).replace("REGISTRY", registry)
            }
            None => line,
        };
        split(&line)
    }
}

/// Words as a shell splits them; quotes keep spaces.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, ' ') => words.push(String::new()),
            (_, c) => words.last_mut().expect("never empty").push(c),
        }
    }
    words
}

/// A host in a process of its own. Killed when it is dropped.
pub(crate) struct Host {
    child: Child,
    /// Where it listens.
    pub(crate) address: String,
    /// Where its registry listens.
    pub(crate) registry: Option<String>,
    log: std::thread::JoinHandle<String>,
}

impl Host {
    /// Starts one in `dir` and waits until it listens.
    pub(crate) fn start(dir: &Path, address: &str, flags: &[&str], env: &[(&str, &str)]) -> Host {
        let mut command = Command::new(INSPAN);
        for key in ["MODEL_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"] {
            command.env_remove(key);
        }
        let mut child = command
            .envs(env.iter().copied())
            .args(["serve", "--addr", address])
            .args(flags)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let mut log = String::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("the host ended before it listened: {log}"));
            log.push_str(&line);
            log.push('\n');
            if line.contains("msg=\"inspan listening\"") {
                let addr = line.split(" addr=").nth(1).expect("the line names the address");
                break addr.split(' ').next().expect("never empty").to_owned();
            }
        };
        let registry = log
            .split_once(" registry_addr=")
            .map(|(_, rest)| rest.split(char::is_whitespace).next().expect("never empty").to_owned());
        // Somebody has to read on, or the host would block on a full pipe.
        let log = std::thread::spawn(move || {
            for line in lines {
                log.push_str(&line);
                log.push('\n');
            }
            log
        });
        Host { child, address, registry, log }
    }

    /// SIGTERM, then exit code and log.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        let status = self.child.wait().expect("the host ends");
        let log = std::mem::replace(&mut self.log, std::thread::spawn(String::new));
        (status.code(), log.join().expect("the log reader does not panic"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Names for what changes, by kind and first appearance.
#[derive(Default)]
struct Names {
    real: HashMap<String, String>,
    given: HashMap<String, String>,
    counts: HashMap<&'static str, u8>,
}

impl Names {
    fn name(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            let time = time_len(rest);
            if time > 0 {
                out.push_str("TIME");
                rest = &rest[time..];
                continue;
            }
            if word == 0 {
                let next = rest.chars().next().expect("not empty").len_utf8();
                out.push_str(&rest[..next]);
                rest = &rest[next..];
                continue;
            }
            out.push_str(&self.word(&rest[..word]));
            rest = &rest[word..];
        }
        out
    }

    fn word(&mut self, word: &str) -> String {
        let hex = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if word.strip_prefix("sess-").is_some_and(|s| hex(s, 24)) {
            self.give("sess", word)
        } else if word.strip_prefix("harness-").is_some_and(|s| hex(s, 24)) {
            self.give("harness", word)
        } else if hex(word, 64) {
            self.give("hash", word)
        } else if hex(word, 16) {
            self.give("exec", word)
        } else {
            word.to_owned()
        }
    }

    fn give(&mut self, kind: &'static str, real: &str) -> String {
        if let Some(name) = self.given.get(real) {
            return name.clone();
        }
        let count = self.counts.entry(kind).or_insert(0);
        let name = format!("{kind}-{}", char::from(b'A' + *count));
        *count += 1;
        self.given.insert(real.to_owned(), name.clone());
        self.real.insert(name.clone(), real.to_owned());
        name
    }

    fn unname(&self, line: &str) -> String {
        let mut out = line.to_owned();
        for (name, real) in &self.real {
            out = out.replace(name, real);
        }
        out
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// The length of the RFC 3339 time that `text` starts with, 0 when it starts with none.
fn time_len(text: &str) -> usize {
    let shape = "dddd-dd-ddTdd:dd:dd";
    let fits = |(want, got): (char, char)| if want == 'd' { got.is_ascii_digit() } else { want == got };
    if text.len() <= shape.len() || !shape.chars().zip(text.chars()).all(fits) {
        return 0;
    }
    let fraction = text[shape.len()..].find(|c: char| c != '.' && !c.is_ascii_digit());
    match fraction {
        Some(at) if text[shape.len() + at..].starts_with('Z') => shape.len() + at + 1,
        _ => 0,
    }
}
