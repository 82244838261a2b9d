//! The rules of `inspan.toml`, decided.

use std::collections::BTreeMap;

use inspan_engine::{Action, Policy, Verdict};
use inspan_wire::v1;
use prost_types::Value;
use prost_types::value::Kind;

use super::json;
use crate::config::{Expected, Pointer, Rule};

/// Rules in their order: the first that fits a call decides it.
///
/// A fork has labels of its own, chosen by whoever forks, and must not get more than its parent by them. Its parent's
/// labels are not at hand here, so labels count for a fork only where they narrow: it gets the strictest word among
/// what the rules say of its own labels and what they could say of any others. A fork's project and harness are its
/// parent's, so nothing else can loosen.
#[derive(Debug, Clone)]
pub struct Rules {
    rules: Vec<Rule>,
}

impl Rules {
    /// Rules in the order in which they are tried.
    pub fn new(rules: Vec<Rule>) -> Rules {
        Rules { rules }
    }
}

impl Policy for Rules {
    fn decide(&self, session: &v1::Session, harness: &str, call: &v1::ToolCall) -> Option<Verdict> {
        let fitting = || self.rules.iter().filter(|rule| rule.fits_but_for_labels(session, harness, call));
        if session.parent_uid.is_empty() {
            return fitting().find(|rule| rule.fits_labels(&session.labels)).map(Rule::verdict);
        }
        // With some labels each of these may be the first that fits, up to the first that asks for no labels.
        let mut possible: Vec<Option<&Rule>> = Vec::new();
        let mut certain = false;
        for rule in fitting() {
            possible.push(Some(rule));
            if rule.labels.is_empty() {
                certain = true;
                break;
            }
        }
        if !certain {
            possible.push(None);
        }
        strictest(&possible).map(Rule::verdict)
    }
}

/// The strictest of several words. That no rule speaks is stricter than a rule that allows: it grants nothing.
fn strictest<'r>(possible: &[Option<&'r Rule>]) -> Option<&'r Rule> {
    let rank = |word: Option<&Rule>| match word.map(|rule| rule.action) {
        Some(Action::Allow) => 0,
        None => 1,
        Some(Action::Ask) => 2,
        Some(Action::Deny) => 3,
    };
    let strictest = possible.iter().map(|word| rank(*word)).max()?;
    // The first of equals, so that the rule in the record is the one that stands first in the file.
    possible.iter().find(|word| rank(**word) == strictest).copied().flatten()
}

impl Rule {
    fn verdict(&self) -> Verdict {
        Verdict { action: self.action, rule: self.name.clone(), expires: self.expires }
    }

    fn fits_but_for_labels(&self, session: &v1::Session, harness: &str, call: &v1::ToolCall) -> bool {
        let project = session.metadata.as_ref().map_or("", |metadata| metadata.project.as_str());
        self.tool.as_ref().is_none_or(|glob| glob.matches(&call.tool))
            && self.harness.as_ref().is_none_or(|glob| glob.matches(harness))
            && self.project.as_ref().is_none_or(|glob| glob.matches(project))
            && self.args.iter().all(|(pointer, expected)| at(pointer, call).is_some_and(|value| expected.fits(value)))
    }

    fn fits_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(name, glob)| labels.get(name).is_some_and(|value| glob.matches(value)))
    }
}

impl Expected {
    fn fits(&self, value: &Value) -> bool {
        match self {
            Expected::Text(glob) => matches!(&value.kind, Some(Kind::StringValue(text)) if glob.matches(text)),
            Expected::Exactly(expected) => json::from_proto(value).is_ok_and(|value| same(expected, &value)),
        }
    }
}

/// Equality with numbers as doubles: `1` in a file is `1.0` in a call.
fn same(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// The argument at a place; `None` when there is none.
fn at<'c>(pointer: &Pointer, call: &'c v1::ToolCall) -> Option<&'c Value> {
    let (first, rest) = pointer.steps().split_first()?;
    let mut value = call.args.as_ref()?.fields.get(first)?;
    for step in rest {
        value = match value.kind.as_ref()? {
            Kind::StructValue(data) => data.fields.get(step)?,
            Kind::ListValue(list) => list.values.get(index(step)?)?,
            _ => return None,
        };
    }
    Some(value)
}

/// A position in a list, without leading zeros (RFC 6901).
fn index(step: &str) -> Option<usize> {
    let plain = step == "0" || !step.starts_with(['0', '+']);
    plain.then(|| step.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
