//! Configurations in, results out.

use std::path::PathBuf;

use inspan_host::config::File;
use inspan_host::engine::{Executor as _, ToolError, ToolRun};
use inspan_host::tools::Tools;
use inspan_wire::{SessionUid, v1};
use prost_types::value::Kind;
use serde_json::Value;

/// What the servers get of this process's environment, and one secret.
pub(crate) const SECRET: &str = "s3cret-t0ken";

/// The executors that a configuration names.
pub(crate) fn tools(toml: &str) -> Tools {
    let env = |name: &str| match name {
        "TOKEN" => Some(SECRET.to_owned()),
        name => std::env::var(name).ok(),
    };
    let file = File::parse("inspan.toml", toml).expect("a sound configuration");
    Tools::new(&file.tools, &env).expect("its secrets are there")
}

/// A call of `tool` in session `s` under `key`.
pub(crate) fn run_of(tool: &str, args: &Value, key: &str) -> ToolRun {
    let call = v1::ToolCall {
        id: "c".to_owned(),
        tool: tool.to_owned(),
        args: Some(structure(args)),
        mediation: v1::Mediation::ControllerMediated.into(),
        idempotency_key: key.to_owned(),
    };
    ToolRun { session: SessionUid::from("s"), call, seq: 3, again: false }
}

pub(crate) async fn run(tools: &Tools, tool: &str, args: &Value) -> Result<v1::ToolResult, ToolError> {
    tools.run(run_of(tool, args, "k")).await
}

/// The texts of a result, joined.
pub(crate) fn text(result: &v1::ToolResult) -> String {
    let texts = result.content.iter().filter_map(|part| match &part.part {
        Some(v1::part::Part::Text(text)) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The output of a result as JSON, numbers as doubles.
pub(crate) fn output(result: &v1::ToolResult) -> Value {
    result.output.as_ref().map_or(Value::Null, |data| {
        Value::Object(data.fields.iter().map(|(name, value)| (name.clone(), json(value))).collect())
    })
}

fn json(value: &prost_types::Value) -> Value {
    match value.kind.as_ref() {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => (*number).into(),
        Some(Kind::StringValue(text)) => text.as_str().into(),
        Some(Kind::BoolValue(flag)) => (*flag).into(),
        Some(Kind::ListValue(list)) => list.values.iter().map(json).collect(),
        Some(Kind::StructValue(data)) => data.fields.iter().map(|(name, value)| (name.clone(), json(value))).collect(),
    }
}

pub(crate) fn structure(value: &Value) -> prost_types::Struct {
    let fields = value.as_object().expect("arguments are an object").iter();
    prost_types::Struct { fields: fields.map(|(name, value)| (name.clone(), proto(value))).collect() }
}

fn proto(value: &Value) -> prost_types::Value {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(*flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().expect("a double")),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => Kind::ListValue(prost_types::ListValue { values: items.iter().map(proto).collect() }),
        Value::Object(_) => Kind::StructValue(structure(value)),
    };
    prost_types::Value { kind: Some(kind) }
}

/// A file of `tests/tools`, as a TOML string.
///
/// # Panics
/// The servers are not installed.
pub(crate) fn installed(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/tools").join(name);
    assert!(path.exists(), "{name} is not installed: run cargo xtask test --only tool-servers");
    format!("{:?}", path.display().to_string())
}

/// `server-everything` of npm.
pub(crate) fn everything() -> String {
    installed("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}
