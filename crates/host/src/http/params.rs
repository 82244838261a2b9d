//! What stands in a path and behind its question mark, read strictly: a parameter that the route does
//! not have, that comes twice, or whose text is not what it must be is refused by name.

use axum::extract::{Query, RawPathParams};
use axum::http::Uri;

use super::Refusal;
use super::routes::{Kind, Param};

/// The variable parts of a path.
pub(super) struct Path(Vec<(String, String)>);

impl Path {
    pub(super) fn new(params: &RawPathParams) -> Path {
        Path(params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// The part called `name`, which the route's path has.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(super) fn seq(&self) -> Result<i64, Refusal> {
        number("seq", self.text("seq"))
    }
}

/// The checked query of a request.
#[derive(Debug, Default)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads the query of `uri` against the parameters of its route.
    pub(super) fn read(uri: &Uri, known: &[Param]) -> Result<Params, Refusal> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| Refusal::invalid("the query is not a list of name=value"))?;
        for (at, (name, value)) in pairs.iter().enumerate() {
            let Some(param) = known.iter().find(|param| param.name == name) else {
                return Err(Refusal::invalid(format!("unknown query parameter {name:?}")));
            };
            if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(Refusal::invalid(format!("query parameter {name} is given twice")));
            }
            match param.kind {
                Kind::Text => {}
                Kind::Int32 => drop(number::<i32>(name, value)?),
                Kind::Int64 => drop(number::<i64>(name, value)?),
                Kind::Bool => drop(truth(name, value)?),
            }
        }
        Ok(Params(pairs))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn int32(&self, name: &str) -> Result<i32, Refusal> {
        self.text(name).map_or(Ok(0), |value| number(name, value))
    }

    pub(super) fn int64(&self, name: &str) -> Result<i64, Refusal> {
        self.text(name).map_or(Ok(0), |value| number(name, value))
    }

    pub(super) fn bool(&self, name: &str) -> Result<bool, Refusal> {
        self.text(name).map_or(Ok(false), |value| truth(name, value))
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Refusal> {
    // A leading plus is no JSON number either.
    let parsed = if value.starts_with('+') { None } else { value.parse().ok() };
    parsed.ok_or_else(|| Refusal::invalid(format!("{name} is not a whole number in range: {value:?}")))
}

fn truth(name: &str, value: &str) -> Result<bool, Refusal> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Refusal::invalid(format!("{name} is neither true nor false: {value:?}"))),
    }
}
