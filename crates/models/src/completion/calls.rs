//! Tool calls out of fragments.
//!
//! Servers disagree on how fragments name their call: by index, by id, by both, or by nothing but
//! their order. The rule here gives exactly the calls that were meant, or an error:
//!
//! * a fragment with an index belongs to the newest call under that index;
//! * another id under the same index starts a new call there;
//! * without an index a known id finds its call, a new id starts one, and no id means the call of
//!   the fragment before;
//! * a call without an id or a name, an id that is used twice, or arguments that are not one JSON
//!   object are errors.

use prost_types::Struct;

use super::PIECES_MAX;
use crate::json::{Fields, to_struct};

/// What one fragment says. Empty strings count as absent.
#[derive(Debug, Default)]
pub(crate) struct Fragment {
    pub(crate) index: Option<i64>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// Fields that are not ours: signatures.
    pub(crate) extra: Fields,
}

/// A finished call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) args: Struct,
    pub(crate) extra: Fields,
}

/// The calls so far, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calls: Vec<Fragment>,
    last: Option<usize>,
}

impl Calls {
    /// Takes the next fragment.
    pub(crate) fn absorb(&mut self, fragment: Fragment) -> Result<(), String> {
        let at = match self.position(&fragment)? {
            Some(at) => at,
            None if self.calls.len() == PIECES_MAX => return Err(format!("it has over {PIECES_MAX} tool calls")),
            None => {
                self.calls.push(Fragment { index: fragment.index, ..Fragment::default() });
                self.calls.len() - 1
            }
        };
        self.last = Some(at);
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = fragment.id;
        }
        if call.name.is_empty() {
            call.name = fragment.name;
        } else if !fragment.name.is_empty() && fragment.name != call.name {
            return Err(format!("tool call {} is named both {} and {}", call.id, call.name, fragment.name));
        }
        call.arguments.push_str(&fragment.arguments);
        call.extra.merge(&fragment.extra);
        Ok(())
    }

    /// The call that a fragment continues; `None` starts one.
    fn position(&self, fragment: &Fragment) -> Result<Option<usize>, String> {
        let by_id = (!fragment.id.is_empty()).then(|| self.calls.iter().position(|c| c.id == fragment.id)).flatten();
        let Some(index) = fragment.index else {
            return Ok(match (fragment.id.is_empty(), by_id) {
                (_, Some(at)) => Some(at),
                (true, None) => self.continued(fragment),
                (false, None) => self.last.filter(|at| self.calls[*at].id.is_empty()),
            });
        };
        if let Some(at) = by_id {
            return match self.calls[at].index {
                Some(other) if other != index => Err(format!("two tool calls have the id {}", fragment.id)),
                _ => Ok(Some(at)),
            };
        }
        let newest = self.calls.iter().rposition(|c| c.index == Some(index));
        Ok(newest.filter(|at| fragment.id.is_empty() || self.calls[*at].id.is_empty()))
    }

    /// Neither index nor id: the call before goes on, unless a name says that another begins.
    fn continued(&self, fragment: &Fragment) -> Option<usize> {
        let at = self.last?;
        let call = &self.calls[at];
        (fragment.name.is_empty() || call.name.is_empty() || call.name == fragment.name && call.arguments.is_empty())
            .then_some(at)
    }

    /// The calls, in the order of their indices where all have one.
    pub(crate) fn finish(mut self) -> Result<Vec<Call>, String> {
        if self.calls.iter().all(|c| c.index.is_some()) {
            self.calls.sort_by_key(|c| c.index);
        }
        let mut calls: Vec<Call> = Vec::new();
        for call in self.calls {
            if call.name.is_empty() {
                return Err(format!("tool call {:?} has no name", call.id));
            }
            if call.id.is_empty() {
                return Err(format!("a call of tool {} has no id", call.name));
            }
            if calls.iter().any(|c| c.id == call.id) {
                return Err(format!("two tool calls have the id {}", call.id));
            }
            let args = to_struct(&call.arguments)
                .map_err(|e| format!("the arguments of tool call {} ({}) are {e}", call.id, call.name))?;
            calls.push(Call { id: call.id, name: call.name, args, extra: call.extra });
        }
        Ok(calls)
    }
}
