//! `[prompts]`.
use super::*;

const FOLDER: &str = "[prompts]\nfolder = \"prompts\"";

#[test]
fn the_templates_of_a_folder_are_read() {
    let inputs = TestInputs::new(FOLDER);
    inputs.write("here/prompts/greeting/1.toml", "instructions = \"one\"");
    inputs.write("here/prompts/greeting/2.toml", "instructions = \"two\"");
    inputs.write("here/prompts/.git/x", "hidden");
    inputs.write("here/prompts/greeting/.2.toml.swp", "hidden");
    let before = inputs.config();
    let filled = |config: &Config, version: &str| {
        let body = format!(r#"{{"prompt":{{"id":"greeting"{version}}}}}"#);
        let filled = config.prompts.expand(&body, 1_000).unwrap().unwrap();
        serde_json::from_str::<serde_json::Value>(&filled).unwrap()["instructions"].take()
    };
    assert_eq!(filled(&before, ""), "two");
    assert_eq!(filled(&before, r#","version":"1""#), "one");
    inputs.write("here/prompts/greeting/10.toml", "instructions = \"ten\"");
    let after = inputs.config();
    assert_eq!(filled(&after, ""), "ten");
    assert_ne!(before.digest, after.digest);
    let none = TestInputs::new("").config();
    assert!(none.prompts.is_empty());
}

#[test]
fn what_is_no_template_is_told() {
    for (path, text, says) in [
        (
            "greeting.toml",
            "",
            "greeting.toml is no folder of a prompt",
        ),
        ("a b/1.toml", "", "a b is no folder of a prompt"),
        ("a/one.toml", "", "one.toml is no version of a prompt"),
        ("a/01.toml", "", "01.toml is no version of a prompt"),
        ("a/1.toml/x", "", "1.toml is no version of a prompt"),
        ("a/1.toml", "", "it needs `instructions` or `messages`"),
        (
            "a/1.toml",
            "instructions = \"x\"\nstream = true",
            "unknown key `stream`",
        ),
        ("a/1.toml", "instructions = \"x\"\ntop_p = 2", "top_p"),
        ("a/1.toml", "instructions = ", "prompts/a/1.toml:1: "),
        ("a/1.toml", &" ".repeat(262_145), "at most 256 KiB"),
    ] {
        let inputs = TestInputs::new(FOLDER);
        inputs.write(&format!("here/prompts/{path}"), text);
        let why = inputs.error();
        assert!(why.contains(says), "{path}: {why}");
    }
    let why = TestInputs::new(FOLDER).error();
    assert!(why.contains("proxy-config.toml:2: cannot read "), "{why}");
}

#[test]
fn the_files_of_templates_are_limited() {
    let inputs = TestInputs::new(FOLDER);
    for version in 1..=500 {
        let path = format!("here/prompts/a/{version}.toml");
        inputs.write(&path, "instructions = \"x\"");
    }
    inputs.config();
    inputs.write("here/prompts/b/1.toml", "instructions = \"x\"");
    let why = inputs.error();
    assert!(why.contains("there may be 500 files"), "{why}");
}
