//! The offered functions that the offline model can call, and arguments for them.

use serde_json::{Value, json};

use super::schema_value;

/// Names under which agents offer a shell.
const SHELLS: [&str; 12] = [
    "exec_command",
    "shell",
    "local_shell",
    "shell_command",
    "bash",
    "run_command",
    "run_shell_command",
    "run_terminal_cmd",
    "run_in_terminal",
    "execute_command",
    "execute_bash",
    "terminal",
];

pub(super) fn name(function: &Value) -> &str {
    function
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(super) fn is_shell(function: &Value) -> bool {
    // A namespace is flattened into the name, with two underscores behind it.
    let name = name(function).to_ascii_lowercase();
    let name = name
        .rsplit_once("__")
        .map_or(name.as_str(), |(_, name)| name);
    SHELLS.contains(&name)
}

pub(super) fn is_patch(function: &Value) -> bool {
    name(function) == "apply_patch"
}

/// Whether the text contains a word of more than three letters of the function's name.
pub(super) fn is_mentioned(function: &Value, text: &str) -> bool {
    let text = text.to_lowercase();
    name(function)
        .to_lowercase()
        .split(|letter: char| !letter.is_alphanumeric())
        .any(|word| word.len() > 3 && text.contains(word))
}

/// Arguments that fit the function's schema; a shell gets this command.
pub(super) fn arguments(function: &Value, command: &[&str]) -> Value {
    let schema = parameters(function);
    let mut arguments = schema_value::example(schema);
    if is_shell(function) {
        put_command(&mut arguments, schema, command);
        if arguments.as_object().is_none_or(serde_json::Map::is_empty) {
            // Without a schema: the arguments of the shells of Codex, or of most others.
            arguments = match name(function) {
                "exec_command" => json!({"cmd": line(command)}),
                "shell" | "local_shell" => json!({"command": command}),
                _ => json!({"command": line(command)}),
            };
        }
    }
    arguments
}

fn put_command(arguments: &mut Value, schema: &Value, command: &[&str]) {
    let property = |key: &str| {
        schema
            .get("properties")
            .and_then(|properties| properties.get(key))
    };
    let Some(arguments) = arguments.as_object_mut() else {
        return;
    };
    if let Some(action) = property("action").filter(|action| action.get("properties").is_some()) {
        let mut inner = schema_value::example(action);
        put_command(&mut inner, action, command);
        arguments.insert("action".to_owned(), inner);
        return;
    }
    for key in ["cmd", "command", "commands", "script"] {
        let Some(property) = property(key) else {
            continue;
        };
        let list = property
            .get("type")
            .is_some_and(|kind| kind.to_string().contains("array"));
        let value = match (list, key) {
            (true, "commands") => json!([line(command)]),
            (true, _) => json!(command),
            (false, _) => line(command).into(),
        };
        arguments.insert(key.to_owned(), value);
        return;
    }
}

/// A patch that creates one small file, in the form that the function's schema asks for.
pub(super) fn patch(function: &Value, path: &str) -> Value {
    let operation =
        json!({"type": "create_file", "path": path, "diff": "+Hello from the offline model.\n"});
    let envelope = format!(
        "*** Begin Patch\n*** Add File: {path}\n+Hello from the offline model.\n*** End Patch\n"
    );
    let properties = parameters(function).get("properties");
    let has = |key: &str| properties.is_some_and(|properties| properties.get(key).is_some());
    if has("operation") {
        json!({"operation": operation})
    } else if has("diff") && has("path") {
        operation
    } else if has("patch") {
        json!({"patch": envelope})
    } else {
        json!({"input": envelope})
    }
}

fn parameters(function: &Value) -> &Value {
    function.get("parameters").unwrap_or(&Value::Null)
}

/// The command as a shell line; words with blanks are quoted.
fn line(command: &[&str]) -> String {
    let word = |word: &&str| {
        if word.contains(' ') {
            format!("'{word}'")
        } else {
            (*word).to_owned()
        }
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}
