//! `[[policy]]`.

use std::collections::BTreeMap;
use std::time::Duration;

use inspan_engine::Action;
use serde::Deserialize;
use toml::Spanned;

use super::tools::json;
use super::value::{LongSpan, Name};
use super::{Glob, Wrong};

/// Rules that one file may have: each is tried for each call.
const RULES_MAX: usize = 1000;

/// A rule: it speaks of a call when everything that it names fits. What it does not name always fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Recorded with the call that it decided.
    pub name: String,
    /// What it says.
    pub action: Action,
    /// The tool, as sessions know it.
    pub tool: Option<Glob>,
    /// The harness that asks.
    pub harness: Option<Glob>,
    /// The session's project.
    pub project: Option<Glob>,
    /// The session's labels; one that it does not have fits nothing.
    pub labels: BTreeMap<String, Glob>,
    /// How long a person has to decide, for a rule that asks; `None` for ever.
    pub expires: Option<Duration>,
    /// Arguments; one that is not there fits nothing.
    pub args: Vec<(Pointer, Expected)>,
}

/// What an argument must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// A string that fits a pattern.
    Text(Glob),
    /// Exactly this value, which is no string. Numbers are compared as doubles.
    Exactly(serde_json::Value),
}

/// A place in a JSON document (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// The steps from the document to the place, unescaped.
    pub fn steps(&self) -> &[String] {
        &self.0
    }
}

impl TryFrom<String> for Pointer {
    type Error = String;

    fn try_from(text: String) -> Result<Pointer, String> {
        let wrong =
            || format!("{text:?} is no JSON pointer: write \"/name\" or \"/outer/inner\", with ~1 for / and ~0 for ~");
        let rest = text.strip_prefix('/').ok_or_else(wrong)?;
        let steps = rest.split('/').map(|step| {
            let good = step.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
            good.then(|| step.replace("~1", "/").replace("~0", "~"))
        });
        steps.collect::<Option<Vec<_>>>().map(Pointer).ok_or_else(wrong)
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ActionName {
    Allow,
    Ask,
    Deny,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    name: Spanned<Name>,
    action: ActionName,
    tool: Option<Glob>,
    harness: Option<Glob>,
    project: Option<Glob>,
    expires: Option<Spanned<LongSpan>>,
    #[serde(default)]
    labels: BTreeMap<String, Glob>,
    #[serde(default)]
    args: BTreeMap<Pointer, Spanned<toml::Value>>,
}

pub(super) fn check(written: Vec<Written>) -> Result<Vec<Rule>, Wrong> {
    let mut rules: Vec<Rule> = Vec::new();
    for entry in written {
        let at = entry.name.span();
        let rule = entry.check()?;
        if rules.iter().any(|other| other.name == rule.name) {
            let text = format!("there are two policy rules {}: records name a rule, so rename one", rule.name);
            return Err(Wrong::new(at, text));
        }
        if rules.len() == RULES_MAX {
            return Err(Wrong::new(at, format!("there are more than {RULES_MAX} policy rules: join some")));
        }
        rules.push(rule);
    }
    Ok(rules)
}

impl Written {
    fn check(self) -> Result<Rule, Wrong> {
        let expires = match (self.expires, self.action) {
            (Some(expires), ActionName::Allow | ActionName::Deny) => {
                return Err(Wrong::new(expires.span(), "only a rule that asks can expire: take expires out"));
            }
            (expires, _) => expires.map(|span| span.into_inner().0),
        };
        let mut args = Vec::new();
        for (pointer, value) in self.args {
            let at = value.span();
            let expected = match value.into_inner() {
                toml::Value::String(text) => Expected::Text(Glob::new(text)),
                value => Expected::Exactly(json(&value).map_err(|text| Wrong::new(at, text))?),
            };
            args.push((pointer, expected));
        }
        Ok(Rule {
            name: self.name.into_inner().0,
            action: match self.action {
                ActionName::Allow => Action::Allow,
                ActionName::Ask => Action::Ask,
                ActionName::Deny => Action::Deny,
            },
            tool: self.tool,
            harness: self.harness,
            project: self.project,
            expires,
            labels: self.labels,
            args,
        })
    }
}
