//! What a run found.

/// One check: a name, the rules that it is about, and what it proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// A short name, unique on its side of the kit.
    pub name: &'static str,
    /// The rule, by its id. `W-PARK`, `W-GATE`, `W-EXEC` and `W-CODE` are the parts of the wire contract that have no number: the
    /// park exchange, the decided gate, the order of the Exec stream, the table of status codes.
    pub rule: &'static str,
    /// What is proved when it passes, as a sentence without its stop.
    pub proves: &'static str,
}

/// What one check came to, and in what words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The rule was seen to be kept.
    Passed(String),
    /// The rule was seen to be broken.
    Failed(String),
    /// There was nothing to judge, for this reason.
    Skipped(String),
}

impl Verdict {
    pub(crate) fn passed(text: impl Into<String>) -> Verdict {
        Verdict::Passed(text.into())
    }

    pub(crate) fn failed(text: impl Into<String>) -> Verdict {
        Verdict::Failed(text.into())
    }

    pub(crate) fn skipped(text: impl Into<String>) -> Verdict {
        Verdict::Skipped(text.into())
    }

    /// Passed with `passed`, or failed with what is wrong.
    pub(crate) fn of(outcome: Result<impl Into<String>, String>) -> Verdict {
        match outcome {
            Ok(text) => Verdict::passed(text),
            Err(text) => Verdict::Failed(text),
        }
    }

    /// One verdict over many cases: the first failure, else the first pass, else the first reason to skip.
    pub(crate) fn over(cases: impl IntoIterator<Item = Verdict>) -> Verdict {
        let mut best: Option<Verdict> = None;
        for case in cases {
            if best.as_ref().is_none_or(|best| case.weight() > best.weight()) {
                best = Some(case);
            }
        }
        best.unwrap_or_else(|| Verdict::skipped("there was no case"))
    }

    fn weight(&self) -> u8 {
        match self {
            Verdict::Skipped(_) => 0,
            Verdict::Passed(_) => 1,
            Verdict::Failed(_) => 2,
        }
    }

    /// `pass`, `fail` or `skip`.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Passed(_) => "pass",
            Verdict::Failed(_) => "fail",
            Verdict::Skipped(_) => "skip",
        }
    }

    /// What was seen, or why nothing was.
    pub fn text(&self) -> &str {
        match self {
            Verdict::Passed(text) | Verdict::Failed(text) | Verdict::Skipped(text) => text,
        }
    }
}

/// A check and its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check.
    pub check: &'static Check,
    /// What it came to.
    pub verdict: Verdict,
}

/// Everything that one run found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What was judged: an address and what its owner says of itself.
    pub subject: String,
    /// Every check of the side, in the order of its table.
    pub findings: Vec<Finding>,
    /// What the run left behind, and whatever else a person should know.
    pub notes: Vec<String>,
}

impl Report {
    /// Orders `findings` as `table` has them. A check of the table that nothing was found on is a mistake of the kit, and reads so.
    pub(crate) fn new(
        subject: String,
        table: &'static [Check],
        findings: Vec<(&'static str, Verdict)>,
        notes: Vec<String>,
    ) -> Report {
        let verdict = |check: &Check| {
            let mut found = findings.iter().filter(|(name, _)| *name == check.name).map(|(_, verdict)| verdict.clone());
            found.next().unwrap_or_else(|| Verdict::skipped("the kit has no finding on it"))
        };
        let findings = table.iter().map(|check| Finding { check, verdict: verdict(check) }).collect();
        Report { subject, findings, notes }
    }

    /// How many passed, failed and were skipped.
    pub fn counts(&self) -> (usize, usize, usize) {
        let of = |weight| self.findings.iter().filter(|finding| finding.verdict.weight() == weight).count();
        (of(1), of(2), of(0))
    }

    /// Whether no rule was broken and at least one was kept.
    pub fn is_pass(&self) -> bool {
        matches!(self.counts(), (1.., 0, _))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Check] =
        &[Check { name: "a", rule: "W-1", proves: "a is kept" }, Check { name: "b", rule: "W-2", proves: "b is kept" }];

    #[test]
    fn a_failure_outweighs_a_pass_and_a_pass_a_reason_to_skip() {
        let (pass, fail, skip) = (Verdict::passed("p"), Verdict::failed("f"), Verdict::skipped("s"));
        assert_eq!(Verdict::over([skip.clone(), pass.clone(), Verdict::passed("q")]), pass);
        assert_eq!(Verdict::over([pass, fail.clone(), skip.clone()]), fail);
        assert_eq!(Verdict::over([skip.clone(), Verdict::skipped("t")]), skip);
    }

    #[test]
    fn nothing_seen_is_no_pass() {
        let report = |findings| Report::new("x".to_owned(), TABLE, findings, Vec::new());
        assert!(!report(vec![]).is_pass(), "all skipped");
        assert!(report(vec![("b", Verdict::passed(""))]).is_pass());
        assert!(!report(vec![("b", Verdict::passed("")), ("a", Verdict::failed("no"))]).is_pass());
        let names: Vec<&str> =
            report(vec![("b", Verdict::passed(""))]).findings.iter().map(|finding| finding.check.name).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
